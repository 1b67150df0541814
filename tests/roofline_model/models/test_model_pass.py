"""A pass as a library runs it: the ideal is the format's, the expected time counts what the library does besides."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from calibrated_cpu import calibrated_cpu

from roofline_model import get_hardware
from roofline_model.chips.hardware import Device
from roofline_model.core.finding import finding, has_code
from roofline_model.expected.predict import predict_expected
from roofline_model.models.decoder_step import Workload, step_kernels
from roofline_model.models.format_plan import plan_from_text
from roofline_model.models.llm import predict_model
from roofline_model.models.model_pass import HostTime, LinearPath, ModelPass
from roofline_model.models.model_registry import get_model
from roofline_model.models.model_shapes import ModelShape
from roofline_model.models.step_expected import launch_floor
from roofline_model.operators.product import gemm

H100 = get_hardware("h100-sxm")
LLAMA = get_model("llama-3-8b")
HOST = HostTime(4e-3, 3e-3, 6e-3, "measured by nobody")
CAST = LinearPath("INT8", "BF16", "BF16", is_scaled=False, source="a library that casts")

UNMODELLED = finding("no-expected-time", kind="path", config="X", device="cpu", kernel="many steps")


def model_pass(
    formats: str, phase: str = "decode", *, shape: ModelShape = LLAMA, context: int = 1024, **more: object
) -> ModelPass:
    exceptions = [] if formats == "BF16" else ["embedding=BF16"]
    return ModelPass(
        shape, Workload.of(phase, 1, context), plan_from_text(formats, shape, exceptions=exceptions), **more
    )  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def cpu() -> Device:
    return calibrated_cpu()


@pytest.mark.parametrize("phase", ["decode", "prefill"])
@pytest.mark.parametrize("formats", ["BF16", "INT4.BF16", "FP8"])
def test_the_ideal_is_that_of_predict_model(formats: str, phase: str) -> None:
    module_pass = model_pass(formats, phase)
    ideal = module_pass.ideal(H100)
    prediction = predict_model(H100, LLAMA, phase, context=1024, formats=module_pass.plan)
    assert ideal.time_s == pytest.approx(prediction.time_s)
    assert ideal.read_bytes + ideal.write_bytes == pytest.approx(prediction.moved_bytes)
    assert ideal.flops == pytest.approx(prediction.flops)
    assert ideal.time_s >= max(ideal.memory_time_s, ideal.compute_time_s) * (1 - 1e-12)
    assert ideal.peak_flops_per_s * ideal.compute_time_s == pytest.approx(ideal.flops)


def test_a_cast_stands_before_every_linear_and_the_product_is_wide() -> None:
    module_pass = model_pass("INT8.BF16", paths=(CAST,))
    plain = {kernel.name: kernel for kernel in step_kernels(LLAMA, module_pass.workload, module_pass.plan)}
    run = module_pass.executed_kernels()
    casts = [kernel for kernel in run if kernel.name == "dequantize_weights"]
    linears = [kernel for kernel in plain.values() if dict(kernel.work.formats).get("b") == "INT8"]
    assert sum(kernel.calls_count for kernel in casts) == sum(kernel.calls_count for kernel in linears)
    for kernel in run:
        if kernel.name in ("qkv_proj", "lm_head"):
            assert dict(kernel.work.formats)["b"] == "BF16"
            assert kernel.work.cost.total_flops == plain[kernel.name].work.cost.total_flops
    elements = sum(dict(k.work.shape)["N"] * dict(k.work.shape)["K"] * k.calls_count for k in linears)
    read = sum(k.work.cost.total_read_bytes * k.calls_count for k in casts)
    written = sum(k.work.cost.total_write_bytes * k.calls_count for k in casts)
    assert (read, written) == (pytest.approx(elements), pytest.approx(2 * elements))


def test_decoding_apart_costs_more_than_the_format_promises_and_says_who_does_it() -> None:
    fused, cast = model_pass("INT8.BF16"), model_pass("INT8.BF16", paths=(CAST,))
    wide = model_pass("BF16")
    assert fused.ideal(H100) == cast.ideal(H100)
    times = [variant.expected(H100) for variant in (fused, wide, cast)]
    assert all(time is not None for time in times)
    fused_s, wide_s, cast_s = (time.time_s for time in times if time is not None)
    assert fused_s < wide_s < cast_s
    assert times[2] is not None
    assert finding("library-path", source="a library that casts") in times[2].findings
    assert times[0] is not None
    assert not has_code(times[0].findings, "library-path")
    assert dict(times[2].terms)["dequantize"] == pytest.approx(dict(times[2].parts)["dequantize_weights"])


def test_the_host_adds_on_a_cpu_and_is_no_part_of_a_gpu_s_time(cpu: Device) -> None:
    without, with_host = model_pass("BF16"), model_pass("BF16", host=HOST)
    alone, beside = without.expected(cpu), with_host.expected(cpu)
    assert alone is not None
    assert cpu.calibration is not None
    ceilings = replace(cpu, calibration=replace(cpu.calibration, kernels=()))
    assert without.expected(ceilings) is None
    assert without.why_no_expected(ceilings).value("kind") == "no-kernel-timed"
    assert beside is not None
    assert beside.time_s == pytest.approx(alone.time_s + HOST.time_s)
    assert beside.high_s == pytest.approx(alone.high_s + HOST.high_s)
    assert has_code(alone.findings, "host-time-unknown")
    assert finding("host-time", source="measured by nobody") in beside.findings
    device = without.expected(H100)
    assert device is not None
    assert device == with_host.expected(H100)
    assert has_code(device.findings, "device-time", "step")
    assert not has_code(device.findings, "host-time-unknown")
    assert "host" not in dict(device.parts) | dict(device.terms)


def test_each_counted_kernel_beyond_an_engines_takes_a_launch_floor_on_a_gpu() -> None:
    engine = model_pass("BF16")
    engine_count = sum(kernel.calls_count for kernel in engine.executed_kernels())
    alone, counted = engine.expected(H100), replace(engine, launch_count=engine_count + 100).expected(H100)
    assert alone is not None
    assert counted is not None
    low_s, launch_s, high_s = launch_floor(H100)
    assert launch_s == dict(predict_expected(gemm(1, 16384, 16384, a="BF16"), H100, cache="cold").parts)["launch"]
    assert low_s < launch_s < high_s
    assert counted.time_s - alone.time_s == pytest.approx(100 * launch_s)
    assert counted.low_s - alone.low_s == pytest.approx(100 * low_s)
    assert counted.high_s - alone.high_s == pytest.approx(100 * high_s)
    assert math.fsum(seconds for _, seconds in counted.parts) == pytest.approx(counted.time_s)
    assert dict(counted.parts)["extra_launches"] == dict(counted.terms)["launch"] == pytest.approx(100 * launch_s)
    assert finding("device-time", kind="counted", launch_count=engine_count + 100, extra_count=100) in counted.findings
    assert not has_code(counted.findings, "device-time", "step")


def test_a_cpu_launches_nothing(cpu: Device) -> None:
    assert model_pass("BF16", host=HOST, launch_count=5000).expected(cpu) == model_pass("BF16", host=HOST).expected(cpu)


def test_large_decoded_weights_cost_their_page_faults_on_a_cpu(cpu: Device) -> None:
    paging = replace(HOST, page_s_per_byte=1e-9)
    without = model_pass("INT8.BF16", paths=(CAST,), host=HOST).expected(cpu)
    expected = model_pass("INT8.BF16", paths=(CAST,), host=paging).expected(cpu)
    assert without is not None
    assert expected is not None
    # Every Linear of llama-3-8b is decoded into 32 MiB or more, k and v among them (they run as one with q).
    decoded = 2 * (32 * (6144 * 4096 + 4096 * 4096 + 3 * 14336 * 4096))
    assert expected.time_s - without.time_s == pytest.approx(decoded * 1e-9)
    assert dict(expected.parts)["page_faults"] == pytest.approx(decoded * 1e-9)
    assert math.fsum(dict(expected.terms)[name] for name in ("dequantize", "host", "kernel")) == pytest.approx(
        expected.time_s
    )
    fused = model_pass("INT4.BF16", paths=(CAST,), host=paging).expected(cpu)
    assert fused is not None
    assert "page_faults" not in dict(fused.parts)
    gpu = [model_pass("INT8.BF16", paths=(CAST,), host=host).expected(H100) for host in (HOST, paging)]
    assert gpu[0] == gpu[1]


def test_a_pass_beside_the_product_is_counted_twice_over() -> None:
    path = LinearPath("INT8", "INT8", widened_bytes_per_element=4.0)
    module_pass = model_pass("INT8", paths=(path,))
    passes = [kernel for kernel in module_pass.executed_kernels() if kernel.name == "widen_weights"]
    sizes = [dict(kernel.work.shape) for kernel in passes]
    for kernel, size in zip(passes, sizes, strict=True):
        elements = size["rows"] * size["width"]
        assert kernel.work.cost.total_read_bytes == pytest.approx(5 * elements)
        assert kernel.work.cost.total_write_bytes == pytest.approx(4 * elements)
    products = [kernel for kernel in module_pass.executed_kernels() if kernel.name == "qkv_proj"]
    assert [dict(kernel.work.formats)["b"] for kernel in products] == ["INT8"]


def test_what_nobody_models_has_no_expected_time_and_says_why() -> None:
    module_pass = model_pass("INT4.INT8", paths=(LinearPath("INT4", "INT8", unmodelled=UNMODELLED),))
    assert module_pass.expected(H100) is None
    assert module_pass.why_no_expected(H100) == UNMODELLED
    other = model_pass("INT4.BF16", paths=module_pass.paths)
    assert other.expected(H100) is not None


def test_a_small_model_is_told_that_it_fits_in_the_cache() -> None:
    small = ModelShape(
        name="small",
        source="a test",
        layer_count=2,
        hidden_size=128,
        query_heads=4,
        kv_heads=2,
        head_dim=32,
        ffn_size=256,
        vocab_size=256,
        max_context_size=512,
        wide_format="BF16",
        weight_format="BF16",
    )
    assert has_code(model_pass("BF16", shape=small, context=16).ideal(H100).findings, "cached-in-part", "model")
    assert not has_code(model_pass("BF16").ideal(H100).findings, "cached-in-part", "model")


def test_the_case_names_its_sizes_and_formats() -> None:
    case = model_pass("INT4.BF16", "prefill").case("prefill:llama", "torchao")
    assert case.shape == (("B", 1), ("Sq", 1024), ("Skv", 1024))
    assert dict(case.formats) == {"a": "BF16", "b": "INT4", "kv": "BF16"}
    assert case.id == "1x1024x1024-w4a16-INT4.BF16-torchao-warm"
