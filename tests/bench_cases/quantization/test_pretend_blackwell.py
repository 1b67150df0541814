"""CUDA recipes quantised (not multiplied) on a CPU that pretends: torchao's guards are opened, the rest is real.

What this shows without the hardware: the configs do what the recipe says (tensor class, scales, bytes), and the choice
reaches torchao. The products themselves stay unproven.
"""

from __future__ import annotations

import pytest
import torch
from torch import nn

pytest.importorskip("torchao")

from bench_cases.quantization import apply_plan, apply_quantization
from bench_cases.quantization.target import Target
from roofline_model.core.errors import UnsupportedError
from roofline_model.core.finding import findings_text

GB10 = {"cpu": Target("cuda", (12, 1))}
B200 = {"cpu": Target("cuda", (10, 0))}


@pytest.fixture
def open_guards(monkeypatch):
    """Answer yes where torchao asks for the device while it quantises."""
    import torchao.prototype.mx_formats.inference_workflow as mx
    import torchao.quantization.quant_api as quant_api

    monkeypatch.setattr(mx, "is_sm_at_least_100", lambda: True)
    monkeypatch.setattr(quant_api, "_check_hardware_support", lambda granularity: None)


@pytest.mark.usefixtures("open_guards")
@pytest.mark.parametrize(
    ("precision", "tensor", "has_activation_format"),
    [
        ("FP8", "Float8Tensor", True),
        ("NVFP4", "NVFP4Tensor", True),
        ("MXFP8", "MXTensor", True),
        ("MXFP4", "MXTensor", True),
        ("INT8.INT8", "Int8Tensor", True),
        ("FP8.BF16", "Float8Tensor", False),
        ("NVFP4.BF16", "NVFP4Tensor", False),
        ("INT8", "Int8Tensor", False),
    ],
)
def test_weights_as_a_blackwell_would_hold_them(precision, tensor, has_activation_format):
    model = nn.Sequential(nn.Linear(256, 128, bias=False)).bfloat16()
    target = B200 if precision == "MXFP4" else GB10  # torch multiplies MXFP4 on 10.x alone
    result = apply_quantization(model, precision, strict=True, targets=target)
    layer = result.layers[0]
    assert (layer.became, layer.tensor, result.target) == (precision, tensor, str(target["cpu"]))
    assert layer.held_bytes == layer.format_bytes  # 128 rows × 16 or 8 blocks fill their tiles
    assert (model[0].weight.act_quant_kwargs is not None) == has_activation_format
    if precision.startswith("MX"):
        assert model[0].weight.kernel_preference.value == "auto"
        assert not layer.is_emulated


@pytest.mark.usefixtures("open_guards")
def test_mxfp4_on_gb10_is_emulated_and_not_left_in_16_bit():
    model = nn.Sequential(nn.Linear(256, 128, bias=False)).bfloat16()
    layer = apply_quantization(model, "MXFP4", targets=GB10).layers[0]
    assert (layer.became, layer.tensor, layer.is_emulated) == ("MXFP4", "MXTensor", True)
    assert model[0].weight.kernel_preference.value == "emulated"


@pytest.mark.usefixtures("open_guards")
def test_shapes_the_block_scaled_units_do_not_take():
    model = nn.ModuleDict(
        {"fits": nn.Linear(128, 64), "odd_n": nn.Linear(128, 24), "odd_k": nn.Linear(72, 64)}
    ).bfloat16()
    result = apply_plan(model, {"*": "MXFP8"}, targets=GB10)
    assert result.layer("fits").became == "MXFP8"
    # The emulated recipe takes any N, the 8-bit weight-only fallback takes any K.
    assert (result.layer("odd_n").became, result.layer("odd_n").is_emulated) == ("MXFP8", True)
    (odd_n,), (odd_k, *_) = result.layer("odd_n").notes, result.layer("odd_k").findings
    assert (odd_n.value("dimension"), odd_n.value("size_count")) == ("N", 24)
    assert result.layer("odd_k").became == "FP8.BF16"
    assert (odd_k.value("dimension"), odd_k.value("multiple_count")) == ("K", 32)


def test_the_guards_are_torchaos_own(monkeypatch):
    """Without the fixture the same call fails inside torchao: the layer is kept with torchao's words."""
    model = nn.Sequential(nn.Linear(256, 128)).bfloat16()
    weight = model[0].weight
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UnsupportedError, match="sm100"):
        apply_quantization(model, "NVFP4", targets=GB10, strict=True)
    result = apply_quantization(model, "NVFP4", targets=GB10)
    assert not result
    assert "sm100" in findings_text(result.layers[0].findings)
    assert model[0].weight is weight
