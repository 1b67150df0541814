"""Bit for bit against torch's float8 casts and torchao's MX and NVFP4 tensors; torch tensors as input."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from roofline_model.formats.codecs import dequantize, quantize, round_trip
from roofline_model.formats.codecs.elements.packing import pack_bits

torch = pytest.importorskip("torch")
MX_ELEMENTS = {
    "MXFP8_E4M3": torch.float8_e4m3fn,
    "MXFP8_E5M2": torch.float8_e5m2,
    "MXFP6_E3M2": "fp6_e3m2",
    "MXFP6_E2M3": "fp6_e2m3",
    "MXFP4": torch.float4_e2m1fn_x2,
}


@pytest.fixture(scope="module")
def mx_formats():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("torchao")
        from torchao.prototype.mx_formats import config, mx_tensor, nvfp4_tensor
    return config, mx_tensor, nvfp4_tensor


@pytest.fixture(scope="module")
def weights() -> np.ndarray:
    """Values of very different sizes: blocks of noise, of outliers, of zeros, and exact powers of two."""
    rng = np.random.default_rng(20)
    x = rng.standard_normal((64, 512)).astype(np.float32)
    x *= 2.0 ** rng.integers(-20, 20, (64, 16)).repeat(32, axis=1)
    x[rng.random(x.shape) < 0.01] *= 40
    x[0], x[1, :32] = 0, 2.0 ** np.arange(-16, 16)
    return x.astype(np.float32)


@pytest.mark.parametrize(("key", "dtype"), [("FP8_E4M3", "float8_e4m3fn"), ("FP8_E5M2", "float8_e5m2")])
def test_casts_are_torchs(key, dtype):
    random = np.random.default_rng(21).integers(0, 1 << 32, 100_000, dtype=np.uint64).astype(np.uint32)
    x = np.concatenate([np.arange(1 << 16, dtype=np.uint32) << 16, random]).view(np.float32)
    x = x[~np.isnan(x)]
    dtype = getattr(torch, dtype)
    # torch saturates E4M3 since 2.12, infinities included, and E5M2 never: ask it, and hold it to one of our two ways.
    saturates = bool(torch.full((1,), 1e9).to(dtype).float().isfinite().item())
    ours = quantize(x, key, scale="none", overflow="saturate" if saturates else "ieee", nonfinite="propagate")
    theirs = torch.from_numpy(x).to(dtype)
    assert np.array_equal(dequantize(ours), theirs.float().numpy(), equal_nan=True)
    is_number = ~theirs.float().isnan().numpy()
    assert np.array_equal(ours.codes[is_number], theirs.view(torch.uint8).numpy()[is_number])
    clipped = torch.from_numpy(x).clamp(-ours.format.max_value, ours.format.max_value).to(dtype)
    saturated = quantize(x, key, scale="none", nonfinite="propagate")
    assert np.array_equal(saturated.codes, clipped.view(torch.uint8).numpy())


@pytest.mark.parametrize("rule", ["floor", "ceil", "rceil", "even"])
@pytest.mark.parametrize("key", MX_ELEMENTS)
def test_mx_tensors(key, rule, weights, mx_formats):
    config, mx_tensor, _ = mx_formats
    mode = config.ScaleCalculationMode(rule)
    for source in (torch.from_numpy(weights), torch.from_numpy(weights).bfloat16()):
        theirs = mx_tensor.MXTensor.to_mx(source, MX_ELEMENTS[key], 32, mode)
        ours = quantize(source, key, scale_rule=rule)
        scales = ours.scales.view(np.uint8)
        assert np.array_equal(scales, theirs.scale.view(torch.uint8).numpy())
        codes = theirs.qdata.view(torch.uint8).numpy()
        mine = pack_bits(ours.codes.reshape(-1), 4).reshape(codes.shape) if key == "MXFP4" else ours.codes
        assert np.array_equal(mine, codes)
        assert np.array_equal(dequantize(ours), theirs.dequantize(torch.float32).numpy())


def test_mx_blocks_with_nan(weights, mx_formats):
    _, mx_tensor, _ = mx_formats
    x = weights.copy()
    x[3, 40] = np.nan
    theirs = mx_tensor.MXTensor.to_mx(torch.from_numpy(x), torch.float8_e4m3fn, 32)
    ours = quantize(x, "MXFP8_E4M3", nonfinite="propagate")
    assert np.array_equal(ours.scales.view(np.uint8), theirs.scale.view(torch.uint8).numpy())
    assert np.array_equal(dequantize(ours), theirs.dequantize(torch.float32).numpy(), equal_nan=True)


@pytest.mark.parametrize("calibration", [1.0, 2.0, 0.5])
def test_nvfp4_tensors(calibration, weights, mx_formats):
    _, _, nvfp4_tensor = mx_formats
    rng = np.random.default_rng(22)
    for x in (
        weights,
        rng.standard_normal((64, 512)).astype(np.float32),
        rng.standard_normal((8, 64)).astype(np.float32) * 1e-20,
    ):
        for source in (torch.from_numpy(x), torch.from_numpy(x).bfloat16()):
            amax = source.abs().max().float() * calibration
            theirs = nvfp4_tensor.NVFP4Tensor.to_nvfp4(source, 16, nvfp4_tensor.per_tensor_amax_to_scale(amax))
            ours = quantize(source, "NVFP4", absmax=None if calibration == 1 else float(amax))
            assert ours.tensor_scale == theirs.per_tensor_scale.item()
            assert np.array_equal(ours.scales.view(np.uint8), theirs.scale.view(torch.uint8).numpy())
            codes = theirs.qdata.view(torch.uint8).numpy()
            assert np.array_equal(pack_bits(ours.codes.reshape(-1), 4).reshape(codes.shape), codes)
            assert np.array_equal(dequantize(ours), theirs.dequantize(torch.float32).numpy())


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int8"])
def test_torch_tensors_are_read(dtype):
    x = torch.tensor([[0.5, -1.5, 2.0, 3.0]] * 3) * 2
    tensor = x.clone().to(getattr(torch, dtype)).requires_grad_(dtype in ("float32", "bfloat16"))
    assert np.array_equal(round_trip(tensor, "FP8_E4M3", scale="none"), x.numpy())
    assert np.array_equal(round_trip(torch.nn.Parameter(x).t(), "MXFP8", axis=0), x.numpy().T)
