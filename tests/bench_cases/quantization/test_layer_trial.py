"""A layer that cannot run, is not finite or is another weight after quantising is kept with the reason; bad input is
one line.
"""

from __future__ import annotations

import pytest
import torch
from torch import nn

pytest.importorskip("torchao")

from bench_cases.quantization import apply_plan, apply_quantization
from roofline_model.core.errors import InvalidValueError, UnsupportedError
from roofline_model.core.finding import finding, findings_text


def layer_of(weight, bias=None):
    model = nn.Sequential(nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, dtype=weight.dtype))
    model[0].weight = nn.Parameter(weight, requires_grad=False)
    if bias is not None:
        model[0].bias = nn.Parameter(bias, requires_grad=False)
    return model


def drawn(N, K, scale=1.0, dtype=torch.bfloat16):
    return (torch.randn(N, K, generator=torch.Generator().manual_seed(2)) * scale).to(dtype)


@pytest.mark.parametrize(
    ("precision", "N", "K", "why"),
    [
        ("MXFP4", 1, 64, "its product fails: AssertionError"),
        ("INT8.INT8", 1, 1, "its product fails: RuntimeError"),
        ("INT8", 64, 1, "torchao cannot quantise it: RuntimeError: shape"),
        ("FP8.BF16", 64, 1, "torchao cannot quantise it: RuntimeError: shape"),
    ],
)
def test_shapes_that_torchao_or_its_kernel_refuses(precision, N, K, why):
    model = layer_of(drawn(N, K))
    weight = model[0].weight
    with pytest.raises(UnsupportedError, match=why):
        apply_quantization(model, precision, strict=True)
    result = apply_quantization(model, precision)
    assert not result
    assert result.layers[0].became == "BF16"
    assert why in findings_text(result.layers[0].findings)
    assert model[0].weight is weight
    assert torch.isfinite(model(drawn(3, K))).all()


def test_one_bad_layer_leaves_the_others_quantised():
    model = nn.Sequential(nn.Linear(1, 64), nn.Linear(64, 64), nn.Linear(64, 1)).bfloat16()
    result = apply_quantization(model, "INT8")
    assert [layer.became for layer in result.layers] == ["BF16", "INT8", "INT8"]


@pytest.mark.parametrize("precision", ["INT8", "INT8.INT8", "INT4"])
@pytest.mark.parametrize("scale", [1e-8, 1e-20])
def test_weights_below_the_least_scale_are_kept(precision, scale):
    model = layer_of(drawn(64, 64, scale))
    (fault,) = apply_quantization(model, precision, group_size=64).layers[0].findings
    assert fault.code in ("layer-kept-wide", "layer-kept-wide")
    assert model[0].weight.abs().max() > 0


@pytest.mark.parametrize(
    "precision", ["INT8", "INT8.INT8", "INT4", "INT4.INT8", "FP8.BF16", "NVFP4.BF16", "MXFP8", "MXFP4"]
)
def test_ordinary_and_structured_weights_pass_the_trial(precision):
    constant = torch.full((64, 64), 0.03, dtype=torch.bfloat16)
    one_loud = drawn(64, 64, 1e-3)
    one_loud[5, 7] = 30.0
    zeros_but_one_row = torch.zeros(64, 64, dtype=torch.bfloat16)
    zeros_but_one_row[3] = 0.5
    weights = [drawn(64, 64), drawn(64, 64, 1e-3), constant, torch.eye(64).bfloat16(), one_loud]
    if precision != "FP8.BF16":  # torchao makes a row of zeros NaN there, which has a reason of its own
        weights.append(zeros_but_one_row)
    for weight in weights:
        assert apply_quantization(layer_of(weight), precision, group_size=64, strict=True)


def test_a_product_too_large_in_16_bit_is_no_fault_of_the_format():
    assert apply_quantization(layer_of(torch.full((64, 64), 3e38).bfloat16()), "INT8", strict=True)


@pytest.mark.parametrize("precision", ["INT8", "INT4", "NVFP4.BF16", "MXFP8", "MXFP4"])
@pytest.mark.parametrize("kind", ["transposed", "expanded"])
def test_weights_whose_rows_do_not_lie_together(precision, kind):
    weight = drawn(64, 32).t() if kind == "transposed" else drawn(32, 1).expand(32, 64)
    model, plain = layer_of(weight), layer_of(weight.contiguous())
    assert apply_quantization(model, precision, group_size=32, strict=True)
    assert apply_quantization(plain, precision, group_size=32)
    x = drawn(4, 64)
    assert torch.equal(model(x), plain(x))


def test_8_bit_floats_beside_others_are_kept():
    model = nn.Sequential(nn.Linear(64, 64).bfloat16(), nn.Linear(64, 64).to(torch.float8_e4m3fn))
    result = apply_quantization(model, "INT8")
    assert [bool(layer.method) for layer in result.layers] == [True, False]
    assert result.layers[1].findings == (finding("layer-kept-wide", kind="without-scales", dtype="float8_e4m3fn"),)


def test_a_lazy_layer_is_told_before_anything_changes():
    model = nn.Sequential(nn.Linear(64, 64), nn.LazyLinear(64))
    weight = model[0].weight
    with pytest.raises(UnsupportedError, match=r"1\.weight"):
        apply_quantization(model, "INT8")
    assert model[0].weight is weight


def test_a_bias_with_nan_is_refused():
    bias = torch.zeros(64, dtype=torch.bfloat16)
    bias[3] = float("nan")
    with pytest.raises(InvalidValueError, match=r"0.*NaN"):
        apply_quantization(layer_of(drawn(64, 64), bias), "INT8")


@pytest.mark.parametrize(
    ("calibration", "message"),
    [
        ([torch.full((4, 64), float("nan")).bfloat16()], "gives NaN or infinity at the input of 0"),
        ([torch.full((4, 64), float("inf")).bfloat16()], "gives NaN or infinity at the input of 0"),
        ([torch.zeros(4, 3).bfloat16()], "cannot run calibration batch 1: RuntimeError"),
        (["x"], "calibration batch 1 must hold token ids, got str"),
        (5, "calibration must be a list of token batches, got int"),
    ],
)
def test_bad_calibration_data(calibration, message):
    model = layer_of(drawn(64, 64))
    weight = model[0].weight
    with pytest.raises(InvalidValueError, match=message) as caught:
        apply_quantization(model, "INT4", method="AWQ", calibration=calibration)
    assert "\n" not in str(caught.value)
    assert model[0].weight is weight
    assert not model[0]._forward_pre_hooks


@pytest.mark.parametrize("plan", [{5: "INT8"}, [("*", "INT8")], None, "INT8", {"*": 8}])
def test_a_plan_that_is_no_mapping_of_text(plan):
    with pytest.raises(InvalidValueError, match="a plan must be a mapping"):
        apply_plan(layer_of(drawn(64, 64)), plan)


def test_arguments_of_the_wrong_kind():
    with pytest.raises(InvalidValueError, match="got str"):
        apply_quantization("x", "INT8")
    for method in (None, 5):
        with pytest.raises(InvalidValueError, match="unknown method"):
            apply_quantization(layer_of(drawn(64, 64)), "INT8", method=method)
