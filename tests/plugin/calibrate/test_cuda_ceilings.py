"""GPU ceilings on a model GPU whose true figures are known, and calibration shapes that no benchmark uses."""

from __future__ import annotations

import fake_cuda
import fake_gpu_torch
import pytest

from bench_cases.shapes.products import resolve_shapes
from plugin.calibrate.cuda_ceilings import GEMM_SHAPES, measure_cuda_ceilings
from plugin.timers.cuda import CudaEventTimer


def measured(report=lambda line: None, how=None, **settings):
    cuda = fake_cuda.FakeCuda(loaded={"move", "mm"}, **settings)
    torch = fake_gpu_torch.FakeGpuTorch(cuda, **(how or {}))
    timer = CudaEventTimer(torch, cuda.max_clock_hz, host_clock=cuda.now, sleep=cuda.sleep)
    return measure_cuda_ceilings(report, 4.0, timer), torch


@pytest.fixture(scope="module")
def ceilings_and_torch():
    return measured()


def test_the_true_figures_are_found(ceilings_and_torch):
    ceilings, torch = ceilings_and_torch
    assert set(ceilings.dram) == {"read", "write", "copy", "triad"}
    for rate in ceilings.dram.values():
        assert rate.median_value == pytest.approx(torch.dram_bytes_per_s, rel=0.02)
        assert rate.sd_ratio < 0.01
        assert rate.repetition_count >= 8
    assert ceilings.cache["copy"].median_value == pytest.approx(torch.l2_bytes_per_s, rel=0.03)
    expected = {
        "FP32": "float32",
        "TF32": "tf32",
        "BF16": "bfloat16",
        "FP16": "float16",
        "FP8_E4M3": "float8_e4m3fn",
        "INT8": "int8",
    }
    assert {key: rate.median_value for key, rate in ceilings.peaks.items()} == {
        key: pytest.approx(torch.flops_per_s[kind], rel=0.02) for key, kind in expected.items()
    }
    assert not ceilings.absent
    assert torch.precision == "highest"  # as it was


def test_launch_costs(ceilings_and_torch):
    ceilings, torch = ceilings_and_torch
    assert ceilings.floors["launch"].median_value == pytest.approx(torch.cuda.kernel_gap_s, rel=0.02)
    assert ceilings.floors["host-launch"].median_value == pytest.approx(torch.cuda.launch_s, rel=0.02)
    assert ceilings.clock_hz == pytest.approx(torch.cuda.clock_hz, rel=0.02)


def test_bandwidth_grows_with_the_sms_and_contexts_are_left(ceilings_and_torch):
    ceilings, torch = ceilings_and_torch
    counts = [int(name) for name in ceilings.scaling]
    assert counts == [16, 32, 64, 96, 132]
    for count, rate in zip(counts, ceilings.scaling.values(), strict=True):
        assert rate.median_value == pytest.approx(torch.dram_bytes_per_s * min(1, 2 * count / 132), rel=0.02)
    assert torch.contexts == counts[:-1]
    assert torch.cuda.active_sm_count is None


def test_cast_costs_are_per_element(ceilings_and_torch):
    ceilings, torch = ceilings_and_torch
    assert set(ceilings.casts) == {"BF16>FP8_E4M3", "FP8_E4M3>BF16", "BF16>INT8", "INT8>BF16"}
    for cost in ceilings.casts.values():
        assert cost.median_value == pytest.approx(3 / torch.dram_bytes_per_s, rel=0.02)  # two bytes and one


@pytest.mark.parametrize(("capability", "kind"), [((9, 0), "float8_e4m3fn"), ((10, 0), "float8_exact_sums")])
def test_the_fp8_ceiling_is_the_faster_of_exact_and_fast_sums_where_the_chip_knows_both(capability, kind):
    ceilings, torch = measured(capability=capability)
    assert ceilings.peaks["FP8_E4M3"].median_value == pytest.approx(torch.flops_per_s[kind], rel=0.03)


def test_what_the_device_lacks_is_absent_with_a_reason():
    lines = []
    ceilings, _ = measured(
        lines.append,
        {"missing": ("int8", "bfloat16>float8_e4m3fn"), "has_green_contexts": False},
        capability=(8, 0),
        l2_bytes=0,
    )
    assert set(ceilings.peaks) == {"FP32", "TF32", "BF16", "FP16"}
    assert ceilings.absent["FP8_E4M3"] == "FP8_E4M3 needs compute capability ≥ 8.9, this is 8.0"
    assert ceilings.absent["INT8"].startswith("int8 product: CUBLAS_STATUS_NOT_SUPPORTED")
    assert "\n" not in ceilings.absent["INT8"]
    assert "not implemented" in ceilings.absent["BF16>FP8_E4M3"]
    assert "FP8_E4M3>BF16" in ceilings.casts
    assert ceilings.cache == {}
    assert "size of its L2" in ceilings.absent["L2 bandwidth"]
    assert ceilings.scaling == {}
    assert "green_contexts" in ceilings.absent["bandwidth by SMs"]
    assert any("INT8 not measured" in line for line in lines)


def test_a_lost_device_is_an_error_and_no_reason():
    cuda = fake_cuda.FakeCuda(loaded={"move", "mm"})
    torch = fake_gpu_torch.FakeGpuTorch(cuda)
    torch.mm = lambda a, b: setattr(cuda, "error", fake_cuda.ILLEGAL_ADDRESS)
    timer = CudaEventTimer(torch, 2e9, host_clock=cuda.now)
    with pytest.raises(fake_cuda.AcceleratorError, match="illegal memory access"):
        measure_cuda_ceilings(lambda line: None, 1.0, timer)


def test_the_budget_is_kept_on_the_timers_clock(ceilings_and_torch):
    assert ceilings_and_torch[0].seconds < 3 * 4.0


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("name", ["quick", "standard", "full"])
def test_calibration_shapes_are_no_benchmark_shapes(name, device):
    benchmark = {shape.size for shape in resolve_shapes(name, device)}
    assert not benchmark & set(GEMM_SHAPES)
    # Nor the same matrix at another number of rows: its kernels and tiles would be the same.
    assert not {size[1:] for size in benchmark} & {size[1:] for size in GEMM_SHAPES}


def test_calibration_shapes_suit_every_format():
    assert all(size % 16 == 0 for shape in GEMM_SHAPES for size in shape)
    assert all(shape[0] > 16 for shape in GEMM_SHAPES)  # torch._int_mm refuses M ≤ 16


def test_only_the_listed_matrices_are_multiplied(ceilings_and_torch):
    matrices = {shape for shape in ceilings_and_torch[1].shapes if len(shape) == 2 and 4096 not in shape}
    listed = {pair for m, n, k in GEMM_SHAPES for pair in ((m, k), (n, k), (k, n), (k, m))}
    assert matrices <= listed
