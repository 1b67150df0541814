"""The whole CUDA path on a simulated H200 and GB10: from `pytest bench_cases --hw auto` to the report.

What runs is our code as it stands; `simulated_gpu` replaces torch.cuda, NVML and CUPTI below it. What this does not
prove is listed in docs/reference/measuring.md.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass

import pytest
import warm_start

pytest.importorskip("torch")

from bench_cases.kernels.attention.catalog import ATTENTION_KERNELS
from bench_cases.kernels.products.catalog import KERNELS
from results import open_store
from roofline_model.chips.hardware import get_hardware
from roofline_model.core.finding import first_with

OPTIONS = ("--hw", "auto", "--roofline-no-canary", "--roofline-max-seconds", "0.05", "--roofline-db", "r.db")
OPTIONS += ("-p", "no:cacheprovider", "-p", "no:hypothesispytest")
SIZES = "1x256x256,32x256x256"
SMALL_L2 = "l2_bytes=5e5"
"""Fewer operand sets defeat a smaller cache: the rule is the same, the work less."""
FIXED_S = 1.2e-6 + 1e-6
"""The model's fixed part of a kernel, and the gap between two launches."""
EVENT_S, CLOCK_STEP_S = 0.4e-6, 0.5e-6
"""What an event takes on the simulated device, and the step of its clock."""
MEMORY_SHARE = 0.88


@dataclass
class Rehearsal:
    folder: object
    code: int
    text: str
    run: object
    records: list

    def measured(self, kernel, op=None, cache=None, mode="eager", formats=None):
        """Return the one measured record of a kernel."""
        (record,) = [
            record
            for record in self.records
            if record.case.kernel == kernel
            and record.status == "measured"
            and op in (None, record.case.op)
            and cache in (None, record.case.cache)
            and mode == record.case.mode
            and formats in (None, tuple(key for _, key in record.case.formats)[:2])
        ]
        return record

    @property
    def skips(self):
        return {record.case.kernel: record.reason for record in self.records if record.status == "skipped"}


@pytest.fixture(scope="module")
def rehearse(tmp_path_factory):
    def run(device, chosen, *options):
        folder = tmp_path_factory.mktemp("rehearsal")
        environment = {**os.environ, "SIMULATED_GPU": device, "OMP_NUM_THREADS": "1"}
        arguments = (str(warm_start.ROOT / "bench_cases"), "-p", "simulated_gpu", *OPTIONS, "-k", chosen, *options)
        done = warm_start.run("pytest", *arguments, cwd=folder, env=environment)
        text = done.stdout + done.stderr
        assert done.returncode == 0, text
        with open_store(folder / "r.db", read_only=True) as store:
            (info,) = store.runs()
            return Rehearsal(folder, done.returncode, text, info, list(store.records(info.run_id)))

    return run


@pytest.fixture(scope="module")
def h200(rehearse):
    return rehearse(f"h200 {SMALL_L2}", "gemv or gemm", "--roofline-shapes", SIZES)


@pytest.fixture(scope="module")
def gb10(rehearse):
    chosen = (
        "(test_gemv and BF16.BF16-matmul and not graph) or (test_gemv and tinygemm and cold) or "
        "(test_gemm and (scaled_mm_block or int_mm) and cold and not graph)"
    )
    options = ("--roofline-shapes", SIZES, "--roofline-cache", "both", "--roofline-mode", "eager,graph")
    return rehearse(f"gb10 {SMALL_L2}", chosen, *options, "--roofline-attribution", "cupti")


@pytest.fixture(scope="module")
def attention(rehearse):
    chosen = "attention and 512x512x128 and not math"
    return rehearse(f"h200 {SMALL_L2}", chosen, "--roofline-shapes", "quick")


def seconds(chip, byte_count, near=1.0):
    return FIXED_S + byte_count / (near * MEMORY_SHARE * get_hardware(chip).bandwidth.value)


# H200 ------------------------------------------------------------------------------------------------------------


def test_every_product_of_the_catalog_is_measured_or_skipped_with_its_reason(h200):
    kernels = [kernel for kernel in KERNELS if kernel.device == "cuda"]
    assert {record.case.kernel for record in h200.records} == {kernel.name for kernel in kernels}
    assert set(h200.skips) == {"scaled_mm_block"}
    assert "compute capability ≥ 10.0" in h200.skips["scaled_mm_block"]
    assert {record.status for record in h200.records} == {"measured", "skipped"}


def test_the_machine_is_found_and_nothing_is_forced_or_called_simulated(h200):
    assert (h200.run.hardware_key, h200.run.is_forced, h200.run.status) == ("h200-sxm", False, "complete")
    assert not any(record.is_simulated for record in h200.records)
    environment = h200.run.environment
    assert "13.0" in json.dumps(environment.facts if hasattr(environment, "facts") else str(environment), default=str)


def test_each_kernel_is_proven_by_what_torch_dispatched(h200, attention):
    proofs = {kernel.name: kernel.proof for kernel in (*KERNELS, *ATTENTION_KERNELS) if kernel.device == "cuda"}
    for record in (*h200.records, *attention.records):
        if record.status == "measured":
            assert record.extra["ran"]["operator"].startswith(proofs[record.case.kernel])


def test_a_tensor_whose_class_switches_its_hooks_off_is_no_promise(attention):
    measured = [record for record in attention.records if record.status == "measured"]
    assert measured
    assert not any("lazy-result" in record.measurement.flags for record in measured)


@pytest.mark.parametrize(
    ("kernel", "op", "formats", "byte_count"),
    [
        ("matmul", "gemv", ("BF16", "BF16"), 2 * (256 + 256 * 256 + 256)),
        ("matmul", "gemm", ("FP32", "FP32"), 4 * (32 * 256 + 256 * 256 + 32 * 256)),
        ("scaled_mm_fast", "gemm", None, 32 * 256 + 256 * 256 + 2 * 4 + 2 * 32 * 256),
    ],
)
def test_times_are_the_devices_own(h200, kernel, op, formats, byte_count):
    record = h200.measured(kernel, op, formats=formats)
    assert record.method.timer == "cuda-event"
    assert record.measurement.median_s == pytest.approx(seconds("h200-sxm", byte_count), rel=0.01)


def test_sensors_are_read_beside_every_case(h200):
    for record in h200.records:
        if record.status == "measured":
            assert record.measurement.sm_clock_hz == pytest.approx(1.83e9, rel=0.01)
            assert record.measurement.state.rated_clock_hz == 1.83e9
            assert "capped" not in record.measurement.flags
    readings = [reading for record in h200.records for reading in record.telemetry]
    assert len(readings) > 10
    assert all(75 <= reading.power_w <= 560 for reading in readings)


def test_the_report_of_such_a_run_is_complete(h200):
    done = warm_start.run("roofline_cli", "report", "--db", "r.db", "-o", "report.html", cwd=h200.folder)
    assert done.returncode == 0, done.stderr
    page = (h200.folder / "report.html").read_text(encoding="utf-8")
    assert "tinygemm" in page
    assert "H200" in page
    shown = warm_start.run("roofline_cli", "show", "latest", "--db", "r.db", "--json", cwd=h200.folder)
    assert shown.returncode == 0, shown.stderr


def test_attention_runs_with_each_backend_of_its_own(attention):
    operators = {
        record.case.kernel: record.extra["ran"]["operator"] for record in attention.records if record.extra.get("ran")
    }
    assert operators == {
        "sdpa_flash": "aten::_scaled_dot_product_flash_attention",
        "sdpa_cudnn": "aten::_scaled_dot_product_cudnn_attention",
        "sdpa_efficient": "aten::_scaled_dot_product_efficient_attention",
        "unfused": operators["unfused"],
    }
    assert set(attention.skips) == {"flex"}


def test_a_pass_of_a_model_is_the_devices_alone_and_says_what_the_host_takes(rehearse):
    pytest.importorskip("transformers")
    options = ("--roofline-model", "seeded-llama-1m", "--roofline-formats", "BF16", "--roofline-context", "64")
    run = rehearse("h200", "model_quant and prefill", *options)
    (record,) = run.records
    assert record.method.timer == "cuda-event"
    assert "launch-gaps" not in record.measurement.flags
    assert record.extra["issue_s"] > 2 * record.measurement.median_s  # dozens of kernels of 2 µs, issued by Python
    terms = record.expected.terms_s
    assert not {"host", "part:host"} & set(terms)
    counted = first_with(record.expected.findings, "device-time")
    engine_count = 10 * 2 + 3  # kernels of a layer of an engine, two layers, and those around them
    assert counted.value("launch_count") - counted.value("extra_count") == engine_count
    assert counted.value("launch_count") > 4 * engine_count
    assert terms["launch"] == terms["part:extra_launches"] > 0.5 * record.expected.time_s
    assert record.expected.time_s == pytest.approx(record.measurement.median_s, rel=0.5)
    assert "Prefill on the GPU alone" in run.text
    assert "without CUDA graphs the GPU waits" in " ".join(run.text.split())


# GB10 ------------------------------------------------------------------------------------------------------------


def test_unified_memory_and_refused_sensors_stop_nothing(gb10):
    assert gb10.run.hardware_key == "gb10"
    readings = [reading for record in gb10.records for reading in record.telemetry]
    assert readings
    assert {reading.memory_used_bytes for reading in readings} == {None}
    assert {reading.memory_clock_hz for reading in readings} == {None}


def test_a_power_cap_at_the_clock_of_sustained_load_is_no_cap(gb10):
    for record in gb10.records:
        if record.status == "measured":
            assert record.measurement.state.rated_clock_hz == 2.418e9
            assert record.measurement.state.retry_count == 0
            assert "capped" not in record.measurement.flags


def test_block_formats_run_where_they_exist(gb10):
    assert "10.x" in gb10.skips["scaled_mm_block"]
    for formats in (("MXFP8_E4M3", "MXFP8_E4M3"), ("NVFP4", "NVFP4")):
        record = gb10.measured("scaled_mm_block", cache="cold", formats=formats)
        assert record.extra["ran"]["operator"].startswith("aten::_scaled_mm")


def test_cold_operands_come_from_memory_and_warm_ones_from_the_cache(gb10):
    byte_count = 2 * (256 + 256 * 256 + 256)
    cold = gb10.measured("matmul", cache="cold").measurement.median_s
    warm = gb10.measured("matmul", cache="warm").measurement.median_s
    assert cold == pytest.approx(seconds("gb10", byte_count), rel=0.01)
    assert warm == pytest.approx(seconds("gb10", byte_count, near=3.0), rel=0.01)


def test_a_graph_is_captured_checked_and_replayed(gb10):
    eager = gb10.measured("tinygemm", cache="cold")
    graph = gb10.measured("tinygemm", cache="cold", mode="graph")
    assert graph.method.timer == "cuda-graph"
    assert graph.measurement.median_s < eager.measurement.median_s  # half the gap between its kernels


def test_cupti_attributes_the_kernels_to_their_calls(gb10):
    attribution = gb10.measured("tinygemm", cache="cold").measurement.attribution
    assert attribution.kernel_count == 1
    assert attribution.kernel_names == ("_weight_int4pack_mm",)


def test_a_clock_that_is_held_down_is_tried_again_and_kept_with_its_mark(rehearse):
    slow = rehearse(
        f"gb10 {SMALL_L2} clock_hz=1.2e9",
        "gemv and BF16.BF16-matmul",
        *("--roofline-shapes", "1x256x256", "--roofline-cache", "flushed"),
    )
    (record,) = slow.records
    assert record.measurement.state.retry_count == 3
    assert "capped" in record.measurement.flags
    byte_count = 2 * (256 + 256 * 256 + 256)
    from_memory_s = seconds("gb10", byte_count)
    assert record.measurement.median_s == pytest.approx(from_memory_s + EVENT_S, abs=CLOCK_STEP_S)


@pytest.mark.full
def test_calibrated_ceilings_are_the_rates_of_the_device(tmp_path):
    """Bytes and operations of every ceiling are counted once: read, write, copy and triad reach the same rate."""
    command = "import simulated_gpu; from roofline_cli.main import app; app()"
    arguments = ("calibrate", "--device", "cuda", "-o", "mine.toml")
    paths = (str(warm_start.ROOT), str(warm_start.ROOT / "tests" / "fakes"))
    environment = {**os.environ, "SIMULATED_GPU": f"h200 {SMALL_L2}", "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(
        [sys.executable, "-c", command, *arguments],
        cwd=tmp_path,
        env=environment | {"XDG_DATA_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    chip, real = get_hardware(str(tmp_path / "mine.toml")), get_hardware("h200-sxm")
    dram = chip.calibration.dram
    assert set(dram) == {"read", "write", "copy", "triad"}
    for name, rate in dram.items():
        assert rate.best_value == pytest.approx(MEMORY_SHARE * real.bandwidth.value, rel=0.05), name
    for name in ("FP32", "TF32", "BF16", "FP16", "FP8_E4M3", "INT8"):
        assert chip.path(name).achieved.value == pytest.approx(0.7 * real.path(name).dense.value, rel=0.01), name


@pytest.mark.full
@pytest.mark.parametrize("device", [f"h200 {SMALL_L2}", f"gb10 {SMALL_L2}"])
@pytest.mark.parametrize("chosen", ["gemv or gemm", "attention and (32x512x512x128 or 1x8192x128)"])
def test_every_kernel_in_every_mode_and_state(rehearse, device, chosen):
    shapes = SIZES if "gemm" in chosen else "quick"
    modes = ("--roofline-mode", "eager,graph,burst", "--roofline-cache", "both")
    run = rehearse(device, chosen, "--roofline-shapes", shapes, *modes, "--roofline-timeout", "300")
    assert {record.status for record in run.records} <= {"measured", "skipped"}
    assert sum(record.status == "measured" for record in run.records) > 10
