"""A decoder model as a Pareto problem: sums that equal the whole prediction, sources of times, and the way back to a
plan.
"""

from __future__ import annotations

import math

import pytest

from roofline_model.core.answer import Estimate
from roofline_model.core.errors import InvalidValueError, UnknownNameError
from roofline_model.core.finding import finding
from roofline_model.models.llm import predict_model
from roofline_model.models.model_registry import get_model
from roofline_model.models.model_shapes import ModelShape
from roofline_model.models.step_expected import expected_step
from roofline_model.recommend.search.front import assess, pareto_front
from roofline_model.recommend.search.losses import LossTable
from roofline_model.recommend.search.model_problem import ModelProblem, model_problem, traffic_share
from roofline_model.recommend.search.problem import Budgets, share_formats
from roofline_model.recommend.search.search import choose_formats

LAYERS = 4
FORMATS = {"FP8_E4M3": 0.01, "NVFP4.BF16": 0.05, "INT4.BF16": 0.09}


def time_sources(model: ModelProblem) -> set[str]:
    return {choice.time_source for group in model.problem.groups for choice in group.choices}


def small_llama(**changes: object) -> ModelShape:
    sizes: dict[str, object] = {
        "layer_count": LAYERS, "hidden_size": 2048, "query_heads": 16, "kv_heads": 4, "head_dim": 128, "ffn_size": 5632,
        "vocab_size": 32000, "max_context_size": 32768,
    }  # fmt: skip
    return ModelShape(name="small", source="this test", **{**sizes, **changes})  # type: ignore[arg-type]


def losses(
    parts: tuple[str, ...] = ("qkv_proj", "o_proj", "gate_up_proj", "down_proj"), *, kv: bool = False
) -> LossTable:
    values = {
        (f"layers.{layer}.{part}", name): loss * (1 + layer)
        for layer in range(LAYERS)
        for part in parts
        for name, loss in FORMATS.items()
    }
    values |= {("lm_head", name): 3 * loss for name, loss in FORMATS.items()}
    if kv:
        values |= {(f"layers.{layer}.kv", name): 0.02 for layer in range(LAYERS) for name in ("FP8_E4M3", "NVFP4")}
    return LossTable(values, "drawn for a test", "low")


@pytest.fixture(scope="module")
def built() -> ModelProblem:
    traffic = [traffic_share(batch=8, context=8192, share=9), traffic_share("prefill", context=2048)]
    return model_problem("gb10", small_llama(), losses(kv=True), traffic=traffic, kv_formats=["FP8_E4M3", "NVFP4"])


def test_every_part_and_layer_is_a_group(built):
    names = [group.name for group in built.problem.groups]
    parts = ("qkv_proj", "o_proj", "gate_up_proj", "down_proj", "kv")
    assert names == [*(f"layers.{layer}.{part}" for layer in range(LAYERS) for part in parts), "lm_head"]
    assert [choice.label for choice in built.problem.groups[0].choices] == [
        "FP8_E4M3",
        "NVFP4.BF16",
        "INT4.BF16",
        "BF16",
    ]
    assert built.problem.groups[0].choice("BF16").loss_value == 0.0
    assert (built.problem.loss_source, built.problem.confidence) == ("drawn for a test", "low")


def test_a_chosen_plan_takes_what_the_sum_says(built):
    wide_s = built.pass_time_s(built.base)
    wide_bytes = predict_model("gb10", built.shape, batch=8, context=8192, formats=built.base).memory.total_bytes
    answer = choose_formats(built.problem, Budgets(0.6 * wide_s, 0.7 * wide_bytes))
    assert answer.plan is not None
    plan = built.plan(answer.choices)
    assert len({exception.formats for exception in plan.exceptions}) > 1
    assert built.choices(plan) == answer.choices
    assert built.pass_time_s(plan) == pytest.approx(answer.plan.time_s, rel=1e-9)
    memory = predict_model("gb10", built.shape, batch=8, context=8192, formats=plan).memory
    assert memory.total_bytes == pytest.approx(answer.plan.memory_bytes, rel=1e-12)


def test_the_time_of_a_pass_is_the_mean_of_the_traffic(built):
    decode = predict_model("gb10", built.shape, batch=8, context=8192, formats=built.base)
    prefill = predict_model("gb10", built.shape, "prefill", context=2048, formats=built.base)
    steps = [expected_step(step, "gb10") for step in (decode, prefill)]
    assert steps[0] is not None
    assert steps[1] is not None
    assert built.pass_time_s(built.base) == pytest.approx(0.9 * steps[0].time_s + 0.1 * steps[1].time_s)
    assert time_sources(built) == {"expected"}


def test_a_cache_choice_counts_the_target_context(built):
    cache = next(group for group in built.problem.groups if group.name == "layers.0.kv")
    elements = 8 * 8192 * built.shape.cached_elements_per_token
    assert cache.choice("BF16").memory_bytes == 2 * elements
    assert cache.choice("NVFP4").memory_bytes == pytest.approx(elements * 4.53125 / 8, rel=0.01)
    assert cache.choice("NVFP4").time_s < cache.choice("BF16").time_s


def test_measured_times_are_taken_where_they_exist():
    shape = small_llama()

    def times(case):
        sizes = dict(case.shape)
        if case.op in ("gemv", "gemm") and sizes["N"] == 2 * 5632 and dict(case.formats)["b"] == "FP8_E4M3":
            return Estimate(1e-6, source="measured")
        return None

    measured = model_problem("gb10", shape, losses(), times=times)
    plain = model_problem("gb10", shape, losses())
    ffn, without = (
        next(g for g in built.problem.groups if g.name == "layers.1.gate_up_proj") for built in (measured, plain)
    )
    assert ffn.choice("FP8_E4M3").time_source == "expected+measured"
    assert ffn.choice("INT4.BF16").time_source == "expected"
    assert ffn.choice("FP8_E4M3").time_s < without.choice("FP8_E4M3").time_s
    assert ffn.choice("INT4.BF16").time_s == pytest.approx(without.choice("INT4.BF16").time_s)


def test_a_chip_without_expected_times_is_ideal():
    problem = model_problem("b10", small_llama(), losses())
    assert time_sources(problem) == {"ideal"}
    whole = predict_model("b10", problem.shape, context=4096, formats=problem.base)
    assert problem.pass_time_s(problem.base) == pytest.approx(whole.time_s)
    assert time_sources(model_problem("gb10", small_llama(), losses(), is_ideal=True)) == {"ideal"}


def test_groups_of_the_users_own():
    model = model_problem("b10", small_llama(), losses())
    edge = {"ends": ["layers.0.down_proj", f"layers.{LAYERS - 1}.down_proj"]}
    problem = share_formats(model.problem, edge)
    answer = choose_formats(problem, Budgets(time_s=0.5 * model.pass_time_s(model.base)))
    members = {group.name: group.members for group in problem.groups}
    parts = {part: label for name, label in answer.choices.items() for part in members[name]}
    assert parts["layers.0.down_proj"] == parts[f"layers.{LAYERS - 1}.down_proj"] == answer.choices["ends"]
    assert answer.plan is not None
    assert model.pass_time_s(model.plan(parts)) == pytest.approx(answer.plan.time_s)


def test_down_has_a_format_of_its_own():
    """Gate and up in FP8, down in INT4: the sums are those of the whole pass, in decode and prefill."""
    for traffic in ([traffic_share(batch=8)], [traffic_share("prefill", context=512)]):
        model = model_problem("gb10", small_llama(), losses(), traffic=traffic)
        choices = {group.name: "BF16" for group in model.problem.groups}
        for layer in range(LAYERS):
            choices |= {f"layers.{layer}.gate_up_proj": "FP8_E4M3", f"layers.{layer}.down_proj": "INT4.BF16"}
        plan = model.plan(choices)
        assert plan.of("gate_up_proj", 1).label == "FP8_E4M3"
        assert plan.of("down_proj", 1).label == "INT4.BF16"
        assert model.choices(plan) == choices
        assert assess(model.problem, choices).time_s == pytest.approx(model.pass_time_s(plan), rel=1e-9)


def test_the_old_name_of_a_whole_block_still_works():
    shape = small_llama()
    model = model_problem("b10", shape, losses(("qkv_proj", "ffn")))
    names = [group.name for group in model.problem.groups]
    assert names[:2] == ["layers.0.qkv_proj", "layers.0.ffn"]
    block = model.problem.groups[1]
    assert block.choice("BF16").memory_bytes == 2 * 3 * 2048 * 5632
    plan = model.plan({"layers.0.ffn": "FP8_E4M3", "layers.1.ffn": "FP8_E4M3"})
    assert model.choices(plan) == {
        name: "FP8_E4M3" if name in ("layers.0.ffn", "layers.1.ffn") else "BF16" for name in names
    }
    # The finer problem takes the old name in a choice; a part beside it is stronger, wide or not.
    finer = model_problem("b10", shape, losses())
    assert finer.plan({"layers.0.ffn": "FP8_E4M3", "layers.1.ffn": "FP8_E4M3"}).exceptions == plan.exceptions
    mixed = finer.plan({"layers.0.ffn": "INT4.BF16", "layers.0.down_proj": "BF16"})
    assert (mixed.of("gate_up_proj", 0).label, mixed.of("down_proj", 0).label) == ("INT4.BF16", "BF16")
    with pytest.raises(InvalidValueError, match=r"parts of ffn differ in this plan"):
        model.choices(mixed)


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
    losses_by_part = {("layers.2.qkv_proj", "INT4.BF16"): 7.0, ("layers.2.gate_up_proj", "INT4.BF16"): 24.0}
    assert table.by_part(small_llama()) == losses_by_part  # down_proj has no loss: it stays wide
    whole = LossTable({**table.values, ("model.layers.2.mlp.down_proj", "INT4.BF16"): 32.0}, "given", "medium")
    assert whole.by_part(small_llama()) == {**losses_by_part, ("layers.2.down_proj", "INT4.BF16"): 32.0}
    # A block whose loss is known as a whole in one format adds its modules up in the others.
    mixed = LossTable({**whole.values, ("layers.2.ffn", "FP8"): 1.0}, "given", "medium").by_part(small_llama())
    assert mixed == {
        ("layers.2.qkv_proj", "INT4.BF16"): 7.0,
        ("layers.2.ffn", "FP8_E4M3"): 1.0,
        ("layers.2.ffn", "INT4.BF16"): 56.0,
    }
    plain = LossTable({(f"model.layers.0.mlp.{name}", "INT4.BF16"): 1.0 for name in ("fc1", "fc2")}, "given", "low")
    assert [name for name, _ in plain.by_part(get_model("phi-2"))] == ["layers.0.up_proj", "layers.0.down_proj"]


def test_parts_without_losses_stay_wide():
    model = model_problem("b10", small_llama(), losses(("ffn",)))
    assert [group.name for group in model.problem.groups] == [*(f"layers.{i}.ffn" for i in range(LAYERS)), "lm_head"]
    partly = {("layers.0.ffn", "INT4.BF16"): 0.1, ("layers.1.ffn", "FP8"): 0.1}
    findings = model_problem("b10", small_llama(), LossTable(partly, "given", "low")).problem.findings
    assert finding("losses-applied", "ffn", kind="layers-missing", formats=("FP8_E4M3",)) in findings


def test_experts_are_groups_and_their_router_is_none():
    shape = get_model("gpt-oss-20b")
    values = {(f"layers.{layer}.experts", "MXFP4.BF16"): 0.1 for layer in range(shape.layer_count)}
    model = model_problem("b200", shape, LossTable(values, "given", "low"), is_ideal=True)
    assert {group.name.rpartition(".")[2] for group in model.problem.groups} == {"experts"}
    front = pareto_front(model.problem)
    smallest = min(front.points, key=lambda point: point.memory_bytes)
    plan = model.plan(dict(zip((group.name for group in model.problem.groups), smallest.labels, strict=True)))
    assert model.pass_time_s(plan) == pytest.approx(smallest.time_s)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: LossTable({}, "given", "low"), InvalidValueError, "table of losses is empty"),
        (lambda: LossTable({("a", "INT4"): math.nan}, "given", "low"), InvalidValueError, "finite number"),
        (lambda: LossTable({("a", "FP8"): 1, ("a", "fp8_e4m3"): 2}, "given", "low"), InvalidValueError, "given twice"),
        (lambda: LossTable({("a", "INT4"): 1}, " ", "low"), InvalidValueError, "need a source"),
        (
            lambda: LossTable({("layers.0.ffn", "FP8"): 1, ("layers.0.down_proj", "FP8"): 1}, "given", "low"),
            InvalidValueError,
            "layers.0.ffn and layers.0.down_proj are both given",
        ),
        (lambda: LossTable({("a", "INT4"): 1}, "given", "sure"), InvalidValueError, "confidence of losses"),
        (lambda: LossTable({("a", "INT5"): 1}, "given", "low"), UnknownNameError, "INT5"),
        (lambda: traffic_share(share=0), InvalidValueError, "share of a pass"),
        (
            lambda: model_problem("b10", small_llama(), LossTable({("x", "INT4.BF16"): 1}, "given", "low")),
            InvalidValueError,
            "none of the losses",
        ),
        (
            lambda: model_problem("b10", small_llama(), losses(), traffic=[traffic_share(context=99999)]),
            InvalidValueError,
            "context 99,999",
        ),
        (
            lambda: model_problem("b10", small_llama(), LossTable({("lm_head", "BF16.FP8"): 1}, "given", "low")),
            InvalidValueError,
            "wider than activations",
        ),
    ],
)
def test_bad_questions_are_named(make, error, message):
    with pytest.raises(error, match=message):
        make()
