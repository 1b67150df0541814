"""A time far from its ideal one says what most of the rest is: products, attention, blocks and whole passes."""

from __future__ import annotations

import itertools

import pytest

from roofline_model import expected_step, gemm, get_hardware, predict, predict_model
from roofline_model.core.finding import catalog
from roofline_model.expected.beside_ideal import BESIDE_IDEAL
from roofline_model.expected.predict import predict_expected
from roofline_model.expected.prediction import FAR_RATIO
from roofline_model.ideal.operator_sequence import predict_operator
from roofline_model.operators.attention import attention

CHIPS = ("gb10", "h100", "b200", "rtx-5090", "l40s", "a100")
PRODUCTS = [
    gemm(m, n, k, a=activation, b=weight)
    for m, n, k in itertools.product((1, 8, 128, 4096), (56, 8192), (64, 4096, 32768))
    for weight, activation in (("BF16", "BF16"), ("INT4", "BF16"))
]
ATTENTION = [
    attention(batch, heads, 1, new, tokens, 128, q="BF16", causal=new > 1)
    for batch, heads, (new, tokens) in itertools.product((1, 64), (2, 32), ((1, 64), (1, 32768), (512, 512)))
]


def remark_of(work, chip):
    """Return the expected prediction, its ideal one and what stands beside it."""
    expected, ideal = predict_expected(work, chip), predict_operator(work, chip)
    return None if expected is None else (expected, ideal, expected.beside_ideal)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("works", [PRODUCTS, ATTENTION], ids=["products", "attention"])
def test_every_time_far_from_its_ideal_names_its_largest_part(chip, works) -> None:
    remarks = [remark for work in works if (remark := remark_of(work, chip)) is not None]
    far = 0
    for expected, ideal, remark in remarks:
        if expected.time_s > FAR_RATIO * ideal.time_s:
            far += 1
            rest_s = expected.time_s - ideal.time_s
            assert remark.code in BESIDE_IDEAL - {"expected-below-ideal"}
            # Not less than any other part can be, and no more than all of them together.
            assert rest_s / len(expected.parts) * 0.999 <= remark.value("part_s") <= rest_s * 1.001
            assert remark.value("slowdown_factor") == pytest.approx(expected.time_s / ideal.time_s)
        elif expected.time_s < ideal.time_s * 0.999999:
            assert remark.code == "expected-below-ideal"
        else:
            assert remark is None
    assert 0 < far < len(remarks)


def test_the_codes_are_the_catalogs() -> None:
    assert catalog().keys() >= BESIDE_IDEAL
    assert {code for code in catalog() if code.startswith("far-")} == BESIDE_IDEAL - {"expected-below-ideal"}


@pytest.mark.parametrize(
    ("work", "kind"),
    [
        (gemm(8, 56, 4096, a="BF16"), "serial-loop"),  # the library's serial kernel of a small product
        (gemm(1, 64, 64, a="BF16"), "launch"),
        (attention(1, 8, 8, 1, 256, 128, q="BF16"), "split"),
    ],
)
def test_known_causes_on_gb10(work, kind) -> None:
    assert predict_expected(work, "gb10").beside_ideal.value("kind") == kind


def test_a_chip_faster_than_rated_says_by_which_clock() -> None:
    work, chip = gemm(8192, 8192, 8192, a="BF16"), get_hardware("rtx-5090")
    expected = predict_expected(work, chip)
    assert expected.time_s < predict(work, chip).time_s
    assert expected.beside_ideal.code == "expected-below-ideal"
    assert expected.beside_ideal.value("clock_hz") == chip.sustained_clock_hz


def test_a_pass_names_the_largest_part_of_all_its_kernels() -> None:
    prediction = predict_model("b200", "qwen2.5-0.5b", context=256)
    step = expected_step(prediction, "b200")
    assert step.time_s > FAR_RATIO * prediction.time_s
    remark = step.beside_ideal
    assert remark.value("kind") == "launch"
    assert remark.value("kernel") is None  # launches are of all of them
    launches_s = sum(kernel.kernel.calls_count * dict(kernel.parts).get("launch", 0.0) for kernel in step.kernels)
    assert remark.value("part_s") == pytest.approx(launches_s)
    large = predict_model("gb10", "llama-3.1-8b", context=1024)
    assert expected_step(large, "gb10").beside_ideal is None


def test_the_parts_of_a_pass_sum_to_its_time() -> None:
    for chip, model in itertools.product(("gb10", "b200"), ("qwen3-30b-a3b", "deepseek-v3")):
        step = expected_step(predict_model(chip, model, batch=4, context=1024), chip)
        for kernel in step.kernels:
            assert sum(seconds for _, seconds in kernel.parts) == pytest.approx(kernel.time_s, rel=1e-6)
