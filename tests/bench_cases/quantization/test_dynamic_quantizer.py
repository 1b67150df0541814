from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from bench_cases.quantization.dynamic.operand import quantized_weight  # noqa: E402
from bench_cases.quantization.dynamic.quantizer import DynamicQuantizer  # noqa: E402
from roofline_model.core.errors import InvalidValueError, RooflineError  # noqa: E402
from roofline_model.formats.codecs import round_trip  # noqa: E402
from roofline_model.models.strategies.dynamic_config import DynamicQuantConfig  # noqa: E402
from roofline_model.models.strategies.precision_selector import (  # noqa: E402
    AdaptivePrecisionSelector,
    AdaptiveQuantConfig,
)

GRANULARITIES = ("per_token", "per_tensor", "per_channel")
MODES = ("absmax", "percentile", "mse_optimal")
LARGEST = {"INT8": 127.0, "INT4": 7.0, "FP8_E4M3": 448.0, "FP8_E5M2": 57344.0}


def random(rows: int, columns: int, seed: int) -> torch.Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(scope="module")
def x() -> torch.Tensor:
    return random(16, 512, 1)


@pytest.fixture(scope="module")
def w() -> torch.Tensor:
    return random(96, 512, 2) * 0.05


def quantizer(
    precision: str = "INT8", granularity: str = "per_token", mode: str = "absmax", **more
) -> DynamicQuantizer:
    return DynamicQuantizer(DynamicQuantConfig(precision, granularity, mode, **more))


def half_step(values: torch.Tensor, scale: torch.Tensor, key: str) -> torch.Tensor:
    """Return how far rounding may move each element: half the distance of the codes around it."""
    if key.startswith("INT"):
        return (scale / 2).expand_as(values)
    mantissa_bits, least_exponent = {"FP8_E4M3": (3, -6), "FP8_E5M2": (2, -14)}[key]
    return torch.maximum(
        values.abs() * 2.0 ** -(mantissa_bits + 1), scale * 2.0 ** (least_exponent - mantissa_bits - 1)
    )


def relative_error(output: torch.Tensor, exact: torch.Tensor) -> float:
    return float((output.double() - exact).norm() / exact.norm())


@pytest.mark.parametrize("key", [*LARGEST, "INT2", "MXFP8_E4M3", "MXFP6_E3M2", "MXFP6_E2M3", "MXFP4", "NF4"])
def test_weights_have_the_codecs_numbers(w, key: str) -> None:
    options = {"scale": "row", "scale_dtype": "float32"} if key in (*LARGEST, "INT2") else {}
    assert quantized_weight(w, key).tolist() == round_trip(w, key, **options).tolist()


@pytest.mark.parametrize("key", list(LARGEST))
@pytest.mark.parametrize("granularity", ["per_token", "per_tensor"])
def test_every_element_is_within_the_bound_of_its_scales(x, w, key: str, granularity: str) -> None:
    """|y − ŷ| ≤ |x|·Ew + Ex·(|w| + Ew): Ex and Ew are half a step of either operand; nothing is clipped with absmax."""
    output, metadata = quantizer(key, granularity, fallback_to_fp16=False).quantize_dynamic(x, w, "ffn_up")
    scale_w = w.abs().amax(1, keepdim=True) / LARGEST[key]
    error_x = half_step(x, metadata["scale"], key).double() * (1 + 1e-5)
    error_w = half_step(w, scale_w, key).double() * (1 + 1e-5)
    bound = x.abs().double() @ error_w.t() + error_x @ (w.abs().double() + error_w).t()
    difference = (output.double() - x.double() @ w.double().t()).abs()
    assert (difference <= bound + 1e-5).all()
    assert float(difference.max()) > 0.01 * float(bound.max())  # the bound is of this very error, not of a larger one
    assert metadata["clipped_ratio"] == 0.0


@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize("mode", MODES)
def test_every_mode_and_granularity_is_near_the_float_product(x, w, granularity: str, mode: str) -> None:
    exact = x.double() @ w.double().t()
    for key, most in (("INT8", 0.02), ("FP8_E4M3", 0.05), ("NVFP4", 0.16), ("MXFP8_E4M3", 0.06)):
        output, metadata = quantizer(key, granularity, mode).quantize_dynamic(x, w, "ffn_up")
        assert output.shape == (16, 96)
        assert relative_error(output, exact) < most, key
        assert (metadata["granularity"], metadata["calibration_mode"]) == (granularity, mode)
        assert not metadata["fallback"]


def test_scales_have_the_shape_of_their_granularity(x, w) -> None:
    shapes = {
        granularity: tuple(quantizer("INT8", granularity).quantize_dynamic(x, w, "a")[1]["scale"].shape)
        for granularity in GRANULARITIES
    }
    assert shapes == {"per_token": (16, 1), "per_tensor": (1, 1), "per_channel": (1, 512)}
    scale = quantizer("INT8").quantize_dynamic(x, w, "a")[1]["scale"]
    assert torch.allclose(scale, x.abs().amax(1, keepdim=True) / 127)


def test_metadata_says_everything(x, w) -> None:
    _, metadata = quantizer("INT8").quantize_dynamic(x, w, "a")
    assert set(metadata) == {
        "scale",
        "precision",
        "weight_precision",
        "fallback",
        "outlier_ratio",
        "clipped_ratio",
        "granularity",
        "calibration_mode",
        "reason",
        "stats",
    }
    assert (metadata["precision"], metadata["weight_precision"]) == ("INT8", "INT8")
    assert metadata["stats"].shape == (16, 512)


def test_rows_of_different_size_need_scales_of_their_own(x, w) -> None:
    tokens = x * torch.logspace(-3, 3, 16).unsqueeze(1)
    exact = tokens.double() @ w.double().t()
    off = {"fallback_to_fp16": False}
    small = {
        scale_granularity: relative_error(
            quantizer("INT8", scale_granularity, **off).quantize_dynamic(tokens, w, "a")[0][:4], exact[:4]
        )
        for scale_granularity in ("per_token", "per_tensor")
    }
    assert small["per_token"] < 0.02
    assert small["per_tensor"] > 0.9  # the small tokens are rounded to nothing


def test_a_channel_of_outliers_is_folded_into_the_weight(x, w) -> None:
    """One input channel a thousand times larger: a scale per channel keeps all the others."""
    outlying, narrow = x.clone(), w.clone()
    outlying[:, 7] *= 1000
    narrow[:, 7] /= 1000
    exact = outlying.double() @ narrow.double().t()
    off = {"fallback_to_fp16": False}
    errors = {
        scale_granularity: relative_error(
            quantizer("INT8", scale_granularity, **off).quantize_dynamic(outlying, narrow, "a")[0], exact
        )
        for scale_granularity in ("per_token", "per_channel")
    }
    assert errors["per_channel"] < 0.02 < 0.5 < errors["per_token"]


def test_weight_only_and_mixed_precisions(x, w) -> None:
    exact = x.double() @ w.double().t()
    output, metadata = quantizer().quantize_dynamic(x, w, "a", "INT8.FP16")
    assert (metadata["precision"], metadata["weight_precision"], metadata["scale"]) == ("FP16", "INT8", None)
    decoded = quantized_weight(w, "INT8")
    assert torch.allclose(output, x.half().float() @ decoded.t(), rtol=1e-4, atol=1e-4)
    mixed, _ = quantizer().quantize_dynamic(x, w, "a", "INT4.INT8")
    assert relative_error(output, exact) < 0.01 < relative_error(mixed, exact) < 0.25


def test_shapes_and_dtypes_of_the_result(w) -> None:
    for shape in ((512,), (1, 512), (2, 3, 512), (2, 1, 3, 512)):
        for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float64):
            output, metadata = quantizer().quantize_dynamic(torch.ones(shape, dtype=dtype), w.to(dtype), "a")
            assert output.shape == (*shape[:-1], 96)
            assert output.dtype == dtype
            assert not output.requires_grad
            assert metadata["stats"].shape == shape


def outliers(x: torch.Tensor) -> torch.Tensor:
    changed = x.clone()
    changed[0, 0] = 100.0
    return changed


def test_severe_outliers_fall_back_to_fp16(x, w) -> None:
    dynamic_quantizer = quantizer("FP8", mode="percentile")
    output, metadata = dynamic_quantizer.quantize_dynamic(outliers(x), w, "ffn_down")
    assert metadata["outlier_ratio"] > 2.0
    assert (metadata["fallback"], metadata["precision"], metadata["weight_precision"]) == (True, "FP16", "FP16")
    assert (metadata["scale"], metadata["clipped_ratio"]) == (None, 0.0)
    assert "is above 2: not quantised to FP8_E4M3" in metadata["reason"]
    assert relative_error(output, outliers(x).double() @ w.double().t()) < 1e-3
    state = dynamic_quantizer.states["ffn_down"]
    assert (state.calls_count, state.fallback_count, state.precision) == (1, 1, "FP16")


def test_without_fallback_outliers_are_quantised(x, w) -> None:
    _, metadata = quantizer("FP8", fallback_to_fp16=False).quantize_dynamic(outliers(x), w, "a")
    assert (metadata["fallback"], metadata["precision"]) == (False, "FP8_E4M3")


def test_a_fallback_beyond_fp16_takes_bf16(x, w) -> None:
    output, metadata = quantizer("FP8").quantize_dynamic(outliers(x) * 1e4, w, "a")
    assert (metadata["fallback"], metadata["precision"]) == (True, "BF16")
    assert torch.isfinite(output).all()


def test_what_fp16_cannot_hold_is_a_fallback_or_an_error(x, w) -> None:
    """A weight-only format reads its activations in FP16."""
    output, metadata = quantizer("INT8.FP16").quantize_dynamic(x * 1e5, w, "a")
    assert (metadata["fallback"], metadata["precision"]) == (True, "BF16")
    assert "is beyond the range of FP16" in metadata["reason"]
    assert relative_error(output, 1e5 * (x.double() @ w.double().t())) < 0.01
    dynamic_quantizer = quantizer("INT8.FP16", fallback_to_fp16=False)
    with pytest.raises(InvalidValueError, match=r"FP16.*65504.*BF16.*FP32"):
        dynamic_quantizer.quantize_dynamic(x * 1e5, w, "a")
    assert not dynamic_quantizer.states


def test_scales_whose_product_fits_never_overflow_on_the_way(x, w) -> None:
    output, _ = quantizer("INT8").quantize_dynamic(x * 1e37, w * 1e-25, "a")
    assert relative_error(output, 1e12 * (x.double() @ w.double().t())) < 0.02


def test_smoothed_thresholds_are_the_moving_average_and_leave_fallbacks_out(x, w) -> None:
    dynamic_quantizer = quantizer("INT8", "per_tensor", smoothing_factor=0.75)
    first, second = x, 3 * x
    dynamic_quantizer.quantize_dynamic(first, w, "a")
    dynamic_quantizer.quantize_dynamic(outliers(x), w, "a")
    assert dynamic_quantizer.states["a"].fallback_count == 1
    _, metadata = dynamic_quantizer.quantize_dynamic(second, w, "a")
    expected = 0.75 * first.abs().max() + 0.25 * second.abs().max()
    assert float(metadata["scale"]) == pytest.approx(float(expected) / 127)
    assert float(dynamic_quantizer.states["a"].thresholds) == pytest.approx(float(expected))
    assert metadata["clipped_ratio"] == pytest.approx(float((second.abs() > expected).double().mean()))
    assert metadata["clipped_ratio"] > 0  # larger than what came before
    dynamic_quantizer.quantize_dynamic(first, w, "b")
    assert float(dynamic_quantizer.states["b"].thresholds) == float(
        first.abs().max()
    )  # each operator has a past of its own


def test_smoothing_settles_on_a_steady_input(x, w) -> None:
    dynamic_quantizer = quantizer("INT8", "per_channel", smoothing_factor=0.5)
    dynamic_quantizer.quantize_dynamic(2 * x, w, "a")
    for _ in range(20):
        dynamic_quantizer.quantize_dynamic(x, w, "a")
    assert torch.allclose(dynamic_quantizer.states["a"].thresholds, x.abs().amax(0, keepdim=True), rtol=1e-4)


def test_state_is_kept_for_each_operator_and_forgotten_on_request(x, w) -> None:
    dynamic_quantizer = quantizer()
    for name in ("a", "a", "b"):
        dynamic_quantizer.quantize_dynamic(x, w, name)
    assert {name: state.calls_count for name, state in dynamic_quantizer.states.items()} == {"a": 2, "b": 1}
    dynamic_quantizer.reset("a")
    assert set(dynamic_quantizer.states) == {"b"}
    dynamic_quantizer.reset("never seen")
    dynamic_quantizer.reset()
    assert not dynamic_quantizer.states


def test_the_selector_chooses_by_outliers_and_context(x, w) -> None:
    dynamic_quantizer = DynamicQuantizer(
        DynamicQuantConfig(calibration_mode="absmax", outlier_threshold_ratio=1e6), selector=AdaptivePrecisionSelector()
    )
    assert dynamic_quantizer.quantize_dynamic(x, w, "a", context={"phase": "decode"})[1]["precision"] == "NVFP4"
    assert dynamic_quantizer.quantize_dynamic(x, w, "b", context={"phase": "prefill"})[1]["precision"] == "FP8_E4M3"
    _, metadata = dynamic_quantizer.quantize_dynamic(outliers(x), w, "c", context={"phase": "decode"})
    assert (metadata["precision"], metadata["fallback"]) == ("FP16", False)  # chosen, not fallen back to
    assert "severe outliers" in metadata["reason"]
    assert dynamic_quantizer.quantize_dynamic(x, w, "d", "INT8")[1]["reason"] == "asked for"
    assert dynamic_quantizer.selector is not None
    assert set(dynamic_quantizer.selector.decisions) == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"activation": torch.full((2, 512), float("nan"))}, "a: activation holds NaN or infinity"),
        ({"activation": torch.full((2, 512), float("inf"))}, "a: activation holds NaN or infinity"),
        ({"activation": torch.zeros(2, 512)}, "a: activation is all zero"),
        ({"activation": torch.empty(0, 512)}, "a: activation of shape (0, 512) is empty"),
        ({"activation": torch.ones(2, 512, dtype=torch.int8)}, "a: activation must be a floating-point tensor"),
        ({"activation": None}, "a: activation must be a floating-point tensor, got NoneType"),
        (
            {"activation": torch.ones(2, 500)},
            "a: the activation has K = 500 and the weight, (96, 512) as (N, K), has 512",
        ),
        ({"weight": torch.full((96, 512), float("nan"))}, "a: weight holds NaN or infinity"),
        ({"weight": torch.zeros(96, 512)}, "a: weight is all zero"),
        ({"weight": torch.ones(512)}, "a: weight must be a matrix (N, K), got (512,)"),
        ({"weight": torch.empty(0, 512)}, "a: weight of shape (0, 512) is empty"),
        ({"operator_name": ""}, "operator_name must be text"),
        ({"operator_name": 3}, "operator_name must be text"),
        ({"target_precision": "FP9"}, "unknown format 'FP9'"),
        ({"target_precision": "TF32"}, "dynamic quantisation knows no TF32"),
        ({"target_precision": "INT8.FP8"}, "contradict each other"),
        ({"context": {"phase": "train"}}, "phase must be decode or prefill"),
    ],
)
def test_bad_input_is_refused_and_nothing_is_remembered(x, w, changes: dict, words: str) -> None:
    dynamic_quantizer = DynamicQuantizer(
        DynamicQuantConfig("INT8"), selector=AdaptivePrecisionSelector(AdaptiveQuantConfig(["INT8", "FP16"]))
    )
    dynamic_quantizer.quantize_dynamic(x, w, "a")
    before, decisions = dynamic_quantizer.states, dynamic_quantizer.selector.decisions
    call = {"activation": x, "weight": w, "operator_name": "a", **changes}
    with pytest.raises(RooflineError) as caught:
        dynamic_quantizer.quantize_dynamic(**call)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert (dynamic_quantizer.states, dynamic_quantizer.selector.decisions) == (before, decisions)


def test_blocks_that_do_not_divide_k_are_refused(x, w) -> None:
    dynamic_quantizer = quantizer("NVFP4")
    with pytest.raises(RooflineError, match=r"K = 500.*16"):
        dynamic_quantizer.quantize_dynamic(x[:, :500], w[:, :500], "a")
    assert not dynamic_quantizer.states


def test_a_config_of_another_kind_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="DynamicQuantConfig"):
        DynamicQuantizer("FP8_E4M3")  # type: ignore[arg-type]


def test_another_device_is_refused(x, w) -> None:
    with pytest.raises(InvalidValueError, match=r"cpu.*meta"):
        quantizer().quantize_dynamic(x, w.to("meta"), "a")


def test_gradients_neither_flow_nor_hinder(x, w) -> None:
    weight = torch.nn.Parameter(w.clone())
    output, _ = quantizer().quantize_dynamic(x.clone().requires_grad_(), weight, "a")
    assert not output.requires_grad
    assert weight.grad is None
