"""What can be shown of the CUDA kernels on a machine without one: packing, layouts, and that torch accepts the call.

Kernels made of plain torch run here for real; the others are called on meta or fake tensors, where torch checks types,
shapes and scale layouts as it does on CUDA.
"""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from bench_cases.kernels.inputs import activation_source, copy_of, weight_source  # noqa: E402
from bench_cases.kernels.packing import unpack_nibbles_low_first  # noqa: E402
from bench_cases.kernels.products.catalog import KERNELS  # noqa: E402
from bench_cases.kernels.products.prepare import load_implementation, product_reference  # noqa: E402
from bench_cases.shapes.products import Shape  # noqa: E402

CUDA = [kernel for kernel in KERNELS if kernel.device == "cuda"]
BLOCK_SCALED = [kernel for kernel in CUDA if kernel.name == "scaled_mm_block"]
TINYGEMM = next(kernel for kernel in CUDA if kernel.name == "tinygemm")
PORTABLE = [kernel for kernel in CUDA if kernel not in (*BLOCK_SCALED, TINYGEMM)]


def build(kernel, M=8, N=64, K=256):
    return load_implementation(kernel)(kernel, activation_source(M, K, "cpu"), weight_source(N, K, "cpu"))


def on_meta(tensors):
    return [torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="meta") for t in tensors]


def key(kernel):
    return kernel.key


@pytest.mark.parametrize("kernel", PORTABLE, ids=key)
@pytest.mark.parametrize("M", [1, 8, 48])
def test_kernels_made_of_portable_calls_are_right(kernel, M):
    if not kernel.takes(Shape(M, 64, 256, "")):
        M = 20 if kernel.op == "gemm" else 16
    built = build(kernel, M)
    reference = product_reference(kernel, built)
    with built.settings():
        output = built.fn(*built.args)
        again = built.fn(*copy_of(built.args))
    assert output.shape == (M, 64)
    assert reference.deviation(output).is_right
    assert reference.deviation(again) == reference.deviation(output)


@pytest.mark.parametrize("kernel", [kernel for kernel in PORTABLE if kernel.is_emulated], ids=key)
def test_dequantise_kernels_read_packed_weights_of_the_counted_size(kernel):
    built = build(kernel, 8, 256, 512)
    read = sum(tensor.nbytes for tensor in built.args)
    counts = dict(kernel.work(Shape(8, 256, 512, "")).cost.read_bytes)
    counted = counts["A"] + counts["B"]
    # Only INT8's per-row scales (2 bytes × 256) are read and not counted; NVFP4's spread tensor scale is not an
    # operand.
    assert abs(read - counted) <= 2 * 256


@pytest.mark.parametrize("kernel", [kernel for kernel in PORTABLE if kernel.is_emulated], ids=key)
def test_dequantise_kernels_decode_inside_the_call(kernel):
    """A changed packed byte changes the output: nothing was decoded beforehand."""
    built = build(kernel)
    before = built.fn(*built.args)
    flipped = [t.clone() for t in built.args]
    flipped[1].view(torch.uint8)[0] ^= 0xFF
    assert not torch.equal(built.fn(*flipped)[:, 0], before[:, 0])
    assert torch.equal(built.fn(*flipped)[:, 1:], before[:, 1:])


@pytest.mark.parametrize("name", ["scaled_mm", "scaled_mm_rowwise"])
def test_fast_sums_are_asked_for_by_kernels_of_their_own(monkeypatch, name):
    """torchao's FP8 layers pass `use_fast_accum=True`, torch's default is False: other kernels on Hopper, another
    time.
    """
    fast_sums = []
    inner = torch.nn.functional.scaled_mm
    monkeypatch.setattr(
        torch.nn.functional, "scaled_mm", lambda *a, **k: fast_sums.append(k["use_fast_accum"]) or inner(*a, **k)
    )
    exact, fast = (next(k for k in CUDA if k.name == wanted) for wanted in (name, f"{name}_fast"))
    for kernel in (exact, fast):
        built = build(kernel)
        built.fn(*built.args)
    assert fast_sums == [False, True]
    assert (fast.min_capability, fast.max_capability) == ((8, 9), (9, 9))
    assert (exact.min_capability, exact.max_capability) == ((8, 9), None)


def test_torchao_asks_for_fast_sums_unless_told_otherwise():
    quantization = pytest.importorskip("torchao.quantization")
    assert quantization.Float8DynamicActivationFloat8WeightConfig().mm_config.use_fast_accum


def test_padding_happens_inside_the_call():
    kernel = next(kernel for kernel in CUDA if kernel.name == "int_mm_padded")
    built = build(kernel, M=3)
    assert built.args[0].shape == (3, 256)
    assert built.fn(*built.args).shape == (3, 64)


@pytest.mark.parametrize("kernel", BLOCK_SCALED, ids=key)
def test_block_scaled_operands_have_the_layout_torch_asks_for(kernel):
    M, N, K = 130, 272, 224
    built = build(kernel, M, N, K)
    a, w_t, scale_a, scale_w = built.args[:4]
    packed = 1 if kernel.weight == "MXFP8_E4M3" else 2
    assert a.shape == (M, K // packed)
    assert w_t.shape == (K // packed, N)
    assert w_t.stride(0) == 1  # K-major
    block = 16 if kernel.weight == "NVFP4" else 32
    blocks_padded = -(-(K // block) // 4) * 4
    assert scale_a.shape == (256 * blocks_padded,)  # 130 rows padded to 256
    assert scale_w.shape == (384 * blocks_padded,)  # 272 rows padded to 384
    assert scale_a.dtype == (torch.float8_e4m3fn if kernel.weight == "NVFP4" else torch.float8_e8m0fnu)
    assert a.dtype == (torch.float8_e4m3fn if packed == 1 else torch.float4_e2m1fn_x2)


@pytest.mark.parametrize("kernel", BLOCK_SCALED, ids=key)
def test_block_scaled_bytes_mean_the_quantised_matrix(kernel):
    """Decode the very bytes handed to the kernel, with layouts written out again here, and compare with the reference's
    operand.
    """
    N, K = 48, 128
    built = build(kernel, 4, N, K)
    w, scale_w = built.args[1].t(), built.args[3]
    if kernel.weight == "MXFP8_E4M3":
        elements = w.double()
    else:
        elements = built.weight.table[unpack_nibbles_low_first(w.contiguous().view(torch.uint8)).long()]
    block = 16 if kernel.weight == "NVFP4" else 32
    flat, blocks = scale_w.double(), K // block
    across = -(-blocks // 4)
    decoded = torch.empty(N, K, dtype=torch.float64)
    for n in range(N):
        for c in range(blocks):
            scale = flat[(c // 4) * 512 + (n // 128) * across * 512 + (n % 32) * 16 + (n % 128 // 32) * 4 + c % 4]
            decoded[n, c * block : (c + 1) * block] = elements[n, c * block : (c + 1) * block] * scale
    if kernel.weight == "NVFP4":
        decoded *= float(built.args[5])
    assert torch.equal(decoded, built.weight.rows64(torch.arange(N)))


@pytest.mark.parametrize("kernel", [kernel for kernel in BLOCK_SCALED if kernel.weight != "MXFP4"], ids=key)
def test_torch_accepts_the_block_scaled_calls(kernel):
    # torch 2.13's shape function does not double K for MXFP4 (its CUDA code does), so that one cannot be asked here.
    built = build(kernel, 130, 272, 224)
    result = built.fn(*on_meta(built.args))
    assert result.shape == (130, 272)
    assert result.dtype == torch.bfloat16


@pytest.mark.parametrize("kernel", BLOCK_SCALED, ids=key)
def test_block_scaled_operands_can_be_rotated(kernel):
    built = build(kernel)
    for first, second in zip(built.args, copy_of(built.args), strict=True):
        assert first.data_ptr() != second.data_ptr()
        assert first.stride() == second.stride()
        assert first.dtype == second.dtype


def test_torch_accepts_the_tinygemm_calls():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        built = load_implementation(TINYGEMM)(TINYGEMM, torch.empty(3, 256), torch.empty(64, 256))
        assert built.fn(*built.args).shape == (3, 64)
    assert built.args[1].shape == (64 // 8, 256 // 128, 32, 4)  # (N/8, K/(8·16), 32, 8/2) int32: 4 bits per weight
    assert built.args[2].shape == (2, 64, 2)


def test_tinygemm_and_the_cpu_kernel_share_codes_scales_and_zero_points():
    """The CPU kernel is compared with the reference elsewhere; this carries that proof to tinygemm's operands."""
    from bench_cases.kernels.products.integers import _quantized

    _, held, scales_and_zeros, group = _quantized(
        TINYGEMM, activation_source(3, 256, "cpu"), weight_source(64, 256, "cpu")
    )
    assert group == 128
    codes = held.codes.double() - 8
    scale, zero = (scales_and_zeros[..., i].double().T.repeat_interleave(128, dim=1) for i in (0, 1))
    assert torch.equal(codes * scale + zero, held.rows64(torch.arange(64)))
