"""Several devices: which heads each gets, the all-reduces as kernels with a latency, and figures of one device's
share.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline_model.core.errors import InvalidValueError
from roofline_model.models.decoder_step import Workload, step_kernels
from roofline_model.models.format_plan import plan_from_text
from roofline_model.models.llm import kv_crossover_tokens, predict_model
from roofline_model.models.model_registry import get_model, list_models
from roofline_model.models.step_expected import expected_step
from roofline_model.models.tensor_parallel import Parallel, shard

LINK = 450e9
NAMES = [shape.name for shape in list_models()]


@pytest.mark.parametrize("count", [4, 8])
def test_heads_that_cannot_be_shared_evenly_are_refused(count: int) -> None:
    # 10 key/value heads: 4 devices would drop two of them, 8 would leave 5 query heads across two groups.
    with pytest.raises(InvalidValueError, match=r"kv_heads 10.*\d") as raised:
        shard(get_model("phi-4"), count)
    assert str(raised.value).endswith("it can be shared by 1, 2, 5, 10, 20, 40")
    assert [shard(get_model("phi-4"), each).kv_heads for each in (2, 5, 10, 20)] == [5, 2, 1, 1]


def test_a_link_that_is_not_given_is_the_chips_own_fabric() -> None:
    assert predict_model("h100", "llama-3.1-8b", parallel=Parallel(2)).parallel.link_bytes_per_s == LINK
    given_one = predict_model("h100", "llama-3.1-8b", parallel=Parallel(2, 1e9))
    assert given_one.parallel.link_bytes_per_s == 1e9
    with pytest.raises(InvalidValueError, match="l40s has no link of its own to 1 more: give"):
        predict_model("l40s", "llama-3.1-8b", parallel=Parallel(2))


@given(name=st.sampled_from(NAMES), count=st.integers(1, 128))
def test_the_devices_together_hold_every_head(name: str, count: int) -> None:
    whole = get_model(name)
    try:
        part = shard(whole, count)
    except InvalidValueError:
        return
    assert count * part.query_heads == whole.query_heads
    if whole.latent is None:
        assert count * part.kv_heads == max(whole.kv_heads, count)  # one copy each where there are more devices
        assert count * part.kv_heads % whole.kv_heads == 0
        group = whole.query_heads // whole.kv_heads
        assert part.query_heads == part.kv_heads * group or group % part.query_heads == 0


@pytest.mark.parametrize(
    ("name", "chip", "count", "tokens"),
    [("deepseek-v3", "h200-sxm", 8, 81_135), ("llama-3.1-70b", "h100-sxm", 16, 216_198)],
)
def test_the_crossover_is_that_of_one_device(name: str, chip: str, count: int, tokens: int) -> None:
    # A latent cache, and copied key/value heads, are not divided: the weights are caught up with earlier.
    prediction = predict_model(chip, name, parallel=Parallel(count, LINK))
    assert prediction.kv_crossover_tokens == pytest.approx(tokens, abs=1)
    assert prediction.kv_crossover_tokens < 0.6 * (kv_crossover_tokens(name, prediction.plan) or 0)
    part = shard(prediction.model, count)
    below, above = (
        sum(
            size * kernel.calls_count
            for kernel in step_kernels(part, Workload.of("decode", 1, context), prediction.plan)
            for tensor, size in kernel.work.cost.read_bytes
            if kernel.name == "attention" and tensor in ("K", "V", "KV")
        )
        for context in (1, round(prediction.kv_crossover_tokens))
    )
    weights = sum(
        size * kernel.calls_count
        for kernel in step_kernels(part, Workload.of("decode", 1, 1), prediction.plan)
        for tensor, size in kernel.work.cost.read_bytes
        if tensor == "B"
    )
    assert below < weights == pytest.approx(above, rel=0.01)


def test_heads_that_divide_leave_the_crossover_where_it_was() -> None:
    single, two = (predict_model("h100", "llama-3.1-70b", parallel=Parallel(n, LINK)) for n in (1, 2))
    assert two.kv_crossover_tokens == pytest.approx(single.kv_crossover_tokens, rel=1e-3)


def test_all_reduces_are_kernels_with_a_latency() -> None:
    single, four = (predict_model("h100", "llama-3.1-70b", parallel=Parallel(n, LINK)) for n in (1, 4))
    assert (single.all_reduce_count, single.expected_all_reduce_s) == (0, 0)
    assert four.all_reduce_count == 160
    assert four.launch_count == single.launch_count + 160
    assert four.graph_time_s == pytest.approx(four.time_s + four.launch_count * four.launches.graph_gap_s)
    slow = predict_model("h100", "llama-3.1-70b", parallel=Parallel(4, LINK, 10e-6))
    free = predict_model("h100", "llama-3.1-70b", parallel=Parallel(4, LINK, 0.0))
    assert slow.time_s == four.time_s == free.time_s  # the ideal has none
    assert free.expected_all_reduce_s == free.all_reduce_s
    slow_step, free_step = expected_step(slow, "h100"), expected_step(free, "h100")
    assert slow_step is not None
    assert free_step is not None
    assert slow_step.time_s - free_step.time_s == pytest.approx(160 * 10e-6)
    assert slow_step.high_s - free_step.high_s == pytest.approx(2.5 * 160 * 10e-6)


@pytest.mark.parametrize(("count", "is_bound"), [(1, True), (2, True), (4, False), (8, False)])
def test_a_ring_on_more_than_two_devices_is_no_lower_bound(count: int, is_bound: bool) -> None:
    """A switch that reduces moves each byte once."""
    assert predict_model("h100", "llama-3.1-70b", parallel=Parallel(count, LINK)).ideal_is_bound is is_bound


def test_a_pass_that_waits_for_its_link_is_bound_by_it() -> None:
    slow, fast = (
        predict_model(
            "h100", "llama-3.1-70b", "prefill", batch=16, context=8192, formats="FP8", parallel=Parallel(8, rate)
        )
        for rate in (450e9, 4500e9)
    )
    assert slow.bound == "link"
    assert fast.bound != "link"


@pytest.mark.parametrize("latency", [-1e-6, 1.0, True, float("nan")])
def test_the_latency_is_checked(latency: float) -> None:
    with pytest.raises(InvalidValueError, match=r"all-reduce.*0.*1"):
        Parallel(2, LINK, latency)


def test_a_plan_for_the_whole_model_serves_its_slice() -> None:
    whole = get_model("llama-3.1-70b")
    plan = plan_from_text("FP8", whole, exceptions=("ffn@0-3=BF16",))
    prediction = predict_model("h100", whole, formats=plan, parallel=Parallel(2, LINK))
    counts = {
        kernel.kernel.work.formats[1][1]: kernel.kernel.calls_count
        for kernel in prediction.kernels
        if kernel.kernel.name == "gate_up_proj"
    }
    assert counts == {"BF16": 4, "FP8_E4M3": 76}
