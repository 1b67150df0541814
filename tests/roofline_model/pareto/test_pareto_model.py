"""A decoder model as a Pareto problem: sums that equal the whole prediction, sources of times, and the way back to a plan."""

from __future__ import annotations

import math

import pytest

from roofline_model.decoder.llm import predict_model
from roofline_model.decoder.model_registry import get_model
from roofline_model.decoder.model_shapes import ModelShape
from roofline_model.decoder.step_expected import expected_step
from roofline_model.errors import InvalidValueError, UnknownNameError
from roofline_model.pareto.front import assess, pareto_front
from roofline_model.pareto.losses import LossTable
from roofline_model.pareto.model_problem import ModelProblem, members_of, model_problem, traffic_share
from roofline_model.pareto.problem import Budgets, share_formats
from roofline_model.pareto.search import choose_formats
from roofline_model.recommendation import TimeEstimate

LAYERS = 4
FORMATS = {"FP8_E4M3": 0.01, "NVFP4.BF16": 0.05, "INT4.BF16": 0.09}


def small_llama(**changes: object) -> ModelShape:
    sizes: dict[str, object] = {
        "layer_count": LAYERS, "hidden_size": 2048, "query_heads": 16, "kv_heads": 4, "head_dim": 128, "ffn_size": 5632,
        "vocab_size": 32000, "max_context_size": 32768,
    }  # fmt: skip
    return ModelShape(name="small", source="this test", **{**sizes, **changes})  # type: ignore[arg-type]


def losses(parts: tuple[str, ...] = ("qkv_proj", "o_proj", "ffn"), *, kv: bool = False) -> LossTable:
    values = {
        (f"layers.{layer}.{part}", name): loss * (1 + layer) for layer in range(LAYERS) for part in parts for name, loss in FORMATS.items()
    }  # fmt: skip
    values |= {("lm_head", name): 3 * loss for name, loss in FORMATS.items()}
    if kv:
        values |= {(f"layers.{layer}.kv", name): 0.02 for layer in range(LAYERS) for name in ("FP8_E4M3", "NVFP4")}
    return LossTable(values, "drawn for a test", "low")


@pytest.fixture(scope="module")
def found() -> ModelProblem:
    traffic = [traffic_share(batch=8, context=8192, share=9), traffic_share("prefill", context=2048)]
    return model_problem("gb10", small_llama(), losses(kv=True), traffic=traffic, kv_formats=["FP8_E4M3", "NVFP4"])


def test_every_part_and_layer_is_a_group(found):
    names = [group.name for group in found.problem.groups]
    assert names[:4] == ["layers.0.qkv_proj", "layers.0.o_proj", "layers.0.ffn", "layers.0.kv"]
    assert len(names) == 4 * LAYERS + 1
    assert [one.label for one in found.problem.groups[0].choices] == ["FP8_E4M3", "NVFP4.BF16", "INT4.BF16", "BF16"]
    assert found.problem.groups[0].choice("BF16").loss_value == 0.0
    assert (found.problem.loss_source, found.problem.confidence) == ("drawn for a test", "low")


def test_a_chosen_plan_takes_what_the_sum_says(found):
    wide_s = found.pass_time_s(found.base)
    wide_bytes = predict_model("gb10", found.shape, batch=8, context=8192, formats=found.base).memory.total_bytes
    answer = choose_formats(found.problem, Budgets(0.6 * wide_s, 0.7 * wide_bytes))
    assert answer.plan is not None
    plan = found.plan(answer.choices)
    assert len({one.formats for one in plan.exceptions}) > 1
    assert found.pass_time_s(plan) == pytest.approx(answer.plan.time_s, rel=1e-9)
    memory = predict_model("gb10", found.shape, batch=8, context=8192, formats=plan).memory
    assert memory.total_bytes == pytest.approx(answer.plan.memory_bytes, rel=1e-12)


def test_the_time_of_a_pass_is_the_mean_of_the_traffic(found):
    decode = predict_model("gb10", found.shape, batch=8, context=8192, formats=found.base)
    prefill = predict_model("gb10", found.shape, "prefill", context=2048, formats=found.base)
    steps = [expected_step(one, "gb10") for one in (decode, prefill)]
    assert steps[0] is not None
    assert steps[1] is not None
    assert found.pass_time_s(found.base) == pytest.approx(0.9 * steps[0].time_s + 0.1 * steps[1].time_s)
    assert found.problem.time_sources == ("expected",)


def test_a_cache_choice_counts_the_target_context(found):
    cache = next(group for group in found.problem.groups if group.name == "layers.0.kv")
    elements = 8 * 8192 * found.shape.cached_elements_per_token
    assert cache.choice("BF16").memory_bytes == 2 * elements
    assert cache.choice("NVFP4").memory_bytes == pytest.approx(elements * 4.53125 / 8, rel=0.01)
    assert cache.choice("NVFP4").time_s < cache.choice("BF16").time_s


def test_measured_times_are_taken_where_they_exist():
    shape = small_llama()

    def times(case):
        sizes = dict(case.shape)
        if case.op in ("gemv", "gemm") and sizes["N"] == 2 * 5632 and dict(case.formats)["b"] == "FP8_E4M3":
            return TimeEstimate(1e-6, "measured")
        return None

    measured = model_problem("gb10", shape, losses(), times=times)
    plain = model_problem("gb10", shape, losses())
    ffn, without = (next(g for g in one.problem.groups if g.name == "layers.1.ffn") for one in (measured, plain))
    assert ffn.choice("FP8_E4M3").time_source == "expected+measured"
    assert ffn.choice("INT4.BF16").time_source == "expected"
    assert ffn.choice("FP8_E4M3").time_s < without.choice("FP8_E4M3").time_s
    assert ffn.choice("INT4.BF16").time_s == pytest.approx(without.choice("INT4.BF16").time_s)


def test_a_chip_without_expected_times_is_ideal():
    problem = model_problem("b10", small_llama(), losses())
    assert problem.problem.time_sources == ("ideal",)
    whole = predict_model("b10", problem.shape, context=4096, formats=problem.base)
    assert problem.pass_time_s(problem.base) == pytest.approx(whole.time_s)
    assert model_problem("gb10", small_llama(), losses(), is_ideal=True).problem.time_sources == ("ideal",)


def test_groups_of_the_users_own():
    model = model_problem("b10", small_llama(), losses())
    edge = {"ends": ["layers.0.ffn", f"layers.{LAYERS - 1}.ffn"]}
    problem = share_formats(model.problem, edge)
    answer = choose_formats(problem, Budgets(time_s=0.5 * model.pass_time_s(model.base)))
    parts = members_of(problem, answer.choices)
    assert parts["layers.0.ffn"] == parts[f"layers.{LAYERS - 1}.ffn"] == answer.choices["ends"]
    assert answer.plan is not None
    assert model.pass_time_s(model.plan(parts)) == pytest.approx(answer.plan.time_s)


def test_neighbouring_layers_of_one_format_are_one_exception():
    model = model_problem("b10", small_llama(), losses())
    plan = model.plan({f"layers.{layer}.ffn": "INT4.BF16" for layer in (0, 1, 3)})
    spans = [(one.first_layer_index, one.last_layer_index) for one in plan.exceptions]
    assert spans == [(0, 1), (3, 3)]
    with pytest.raises(InvalidValueError, match="no part of a decoder model"):
        model.plan({"blocks.one.ffn": "INT4.BF16"})


def test_a_tied_embedding_goes_with_its_head():
    model = model_problem("b10", small_llama(has_tied_embedding=True), losses())
    plan = model.plan({"lm_head": "NVFP4.BF16"})
    memory = predict_model("b10", model.shape, formats=plan).memory.weights_bytes
    wide = predict_model("b10", model.shape, formats=model.base).memory.weights_bytes
    head = model.problem.groups[-1]
    saved = head.choice("BF16").memory_bytes - head.choice("NVFP4.BF16").memory_bytes
    assert wide - memory == pytest.approx(saved)


def test_losses_of_modules_add_up_to_parts():
    names = {
        "self_attn.q_proj": 1.0,
        "self_attn.k_proj": 2.0,
        "self_attn.v_proj": 4.0,
        "mlp.gate_proj": 8.0,
        "mlp.up_proj": 16.0,
    }
    table = LossTable(
        {(f"model.layers.2.{name}", "int4.bf16"): loss for name, loss in names.items()}, "given", "medium"
    )
    # down_proj has no loss, so the FFN's is not known.
    assert table.by_part(small_llama()) == {("layers.2.qkv_proj", "INT4.BF16"): 7.0}
    whole = LossTable({**table.values, ("model.layers.2.mlp.down_proj", "INT4.BF16"): 32.0}, "given", "medium")
    assert whole.by_part(small_llama())["layers.2.ffn", "INT4.BF16"] == 56.0


def test_parts_without_losses_stay_wide():
    model = model_problem("b10", small_llama(), losses(("ffn",)))
    assert [group.name for group in model.problem.groups] == [*(f"layers.{i}.ffn" for i in range(LAYERS)), "lm_head"]
    partly = {("layers.0.ffn", "INT4.BF16"): 0.1, ("layers.1.ffn", "FP8"): 0.1}
    notes = model_problem("b10", small_llama(), LossTable(partly, "given", "low")).problem.notes
    assert any("no loss is known in FP8_E4M3" in note for note in notes)


def test_experts_are_groups_and_their_router_is_none():
    shape = get_model("gpt-oss-20b")
    values = {(f"layers.{layer}.experts", "MXFP4.BF16"): 0.1 for layer in range(shape.layer_count)}
    model = model_problem("b200", shape, LossTable(values, "given", "low"), is_ideal=True)
    assert {group.name.rpartition(".")[2] for group in model.problem.groups} == {"experts"}
    front = pareto_front(model.problem)
    smallest = min(front.points, key=lambda one: one.memory_bytes)
    plan = model.plan(dict(zip((group.name for group in model.problem.groups), smallest.labels, strict=True)))
    assert model.pass_time_s(plan) == pytest.approx(smallest.time_s)


@pytest.mark.parametrize("name", ["FP8_E4M3", "NVFP4.BF16"])
def test_a_norm_that_two_parts_read_is_counted_once(name):
    """Phi-2's attention and FFN read one norm, which writes FP8 for both."""
    shape = get_model("phi-2")
    layers = range(shape.layer_count)
    values = {(f"layers.{layer}.{part}", name): 0.1 for layer in layers for part in ("qkv_proj", "o_proj", "ffn")}
    losses = LossTable(values, "given", "low")
    model = model_problem("b200", shape, losses, traffic=[traffic_share(context=2048)], is_ideal=True, wide="BF16")
    choices = {group.name: name for group in model.problem.groups}
    whole_s = model.pass_time_s(model.plan(choices))
    # Each part alone asks for a cast of its own; together the norm writes FP8 at once.
    assert assess(model.problem, choices).time_s == pytest.approx(whole_s, rel=1e-9 if "." in name else 0.05)
    wide = dict.fromkeys(choices, "BF16")
    assert assess(model.problem, wide).time_s == pytest.approx(model.pass_time_s(model.base))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: LossTable({}, "given", "low"), InvalidValueError, "table of losses is empty"),
        (lambda: LossTable({("a", "INT4"): math.nan}, "given", "low"), InvalidValueError, "finite number"),
        (lambda: LossTable({("a", "FP8"): 1, ("a", "fp8_e4m3"): 2}, "given", "low"), InvalidValueError, "given twice"),
        (lambda: LossTable({("a", "INT4"): 1}, " ", "low"), InvalidValueError, "need a source"),
        (lambda: LossTable({("a", "INT4"): 1}, "given", "sure"), InvalidValueError, "confidence of losses"),
        (lambda: LossTable({("a", "INT5"): 1}, "given", "low"), UnknownNameError, "INT5"),
        (lambda: traffic_share(share=0), InvalidValueError, "share of a pass"),
        (lambda: model_problem("b10", small_llama(), LossTable({("x", "INT4.BF16"): 1}, "given", "low")), InvalidValueError, "none of the losses"),
        (lambda: model_problem("b10", small_llama(), losses(), traffic=[traffic_share(context=99999)]), InvalidValueError, "context 99,999"),
        (lambda: model_problem("b10", small_llama(), LossTable({("lm_head", "BF16.FP8"): 1}, "given", "low")), InvalidValueError, "wider than activations"),
    ],
)  # fmt: skip
def test_bad_questions_are_named(make, error, message):
    with pytest.raises(error, match=message):
        make()
