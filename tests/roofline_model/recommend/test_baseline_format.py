"""The 16-bit baseline of a CPU is the faster of both kernels, shape by shape, as measured comparisons have it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from roofline_model import create_custom_asic, get_hardware
from roofline_model.core.answer import Estimate
from roofline_model.expected import predict
from roofline_model.operators.case import Case
from roofline_model.predictions.product import predict_products
from roofline_model.recommend.options import baseline_format, fastest_sixteen_bit, product_baseline
from roofline_model.recommend.shape import recommend_quantization

CPU = replace(create_custom_asic("test cpu", 40, {"FP16": 0.1, "BF16": 0.4, "INT8": 0.8}), kind="cpu")
SHAPE = (1, 4096, 4096)


def times(**seconds: float):
    def estimate_of(case: Case) -> Estimate | None:
        formats = dict(case.formats)
        time_s = seconds.get(formats["b"])
        return None if time_s is None else Estimate(time_s)

    return estimate_of


@pytest.mark.parametrize(
    ("fp16_s", "bf16_s", "key"), [(1e-3, 3e-3, "FP16"), (3e-3, 1e-3, "BF16"), (1e-3, 1e-3, "FP16")]
)
def test_the_faster_kernel_is_the_baseline_although_the_other_unit_is_faster(fp16_s, bf16_s, key):
    ranking = recommend_quantization(
        CPU,
        *SHAPE,
        formats=["INT8", "INT4"],
        times=times(FP16=fp16_s, BF16=bf16_s, INT8=5e-4, INT4=4e-4),
        max_loss_pct=10,
    )
    assert ranking.baseline.key == key
    assert ranking.choice.key == "INT4"
    assert ranking.choice.speedup_ratio == pytest.approx(min(fp16_s, bf16_s) / 4e-4)
    # The kernels of weight-only formats are for BF16 activations, whichever product is the baseline.
    assert dict(ranking.choice.formats)["a"] == "BF16"


def test_a_named_baseline_stays_else_the_one_with_a_time_is_taken():
    named = recommend_quantization(CPU, *SHAPE, formats=["BF16", "INT8"], times=times(FP16=1e-3, BF16=3e-3, INT8=5e-4))
    assert named.baseline.key == "BF16"
    assert fastest_sixteen_bit(CPU, SHAPE, times()) is None
    for key in ("BF16", "FP16"):
        ranking = recommend_quantization(CPU, *SHAPE, times=times(**{key: 1e-3, "INT8": 5e-4}))
        assert (ranking.baseline.key, ranking.choice.key) == (key, "INT8")


def test_gpus_are_not_asked():
    def never(case: Case) -> Estimate | None:
        raise AssertionError("asked for a GPU")

    assert fastest_sixteen_bit(get_hardware("gb10"), SHAPE, never) is None


def test_the_baseline_of_a_product_on_a_cpu_is_the_one_of_its_recommendation(monkeypatch):
    cpu = replace(create_custom_asic("test cpu", 40, {"FP16": 0.1, "BF16": 0.4}), kind="cpu")
    seconds = {"FP16": 1e-3, "BF16": 3e-3}
    monkeypatch.setattr(
        predict,
        "expected_times",
        lambda chip: lambda case: Estimate(seconds[dict(case.formats)["b"]]),
    )
    assert baseline_format(cpu) == "BF16"
    assert product_baseline(cpu, (1, 4096, 4096)) == "FP16"
    assert product_baseline(get_hardware("gb10"), (1, 4096, 4096)) == "FP16"


def test_a_prediction_and_a_recommendation_take_the_same_activation(monkeypatch):
    cpu = replace(create_custom_asic("test cpu", 40, {"FP16": 0.1, "BF16": 0.4, "INT8": 0.8, "INT4": 0.1}), kind="cpu")
    seconds = {"FP16": 1e-3, "BF16": 3e-3, "INT8": 5e-4, "INT4": 4e-4}
    monkeypatch.setattr(predict, "expected_times", lambda chip: times(**seconds))
    predicted = {row.weight_format: row for row in predict_products(cpu, SHAPE).predictions}
    recommended = recommend_quantization(cpu, *SHAPE, times=times(**seconds)).options
    assert predicted["INT4"].baseline_format == "FP16"
    for option in recommended:
        row = predicted[option.weight_format]
        assert (row.activation_format, row.time_s) == (option.activation_format, pytest.approx(option.times.ideal_s))
