"""This machine's ceilings and constants: measured, merged, cached, and shown as a device. No micro-kernel is timed here
but once, briefly, to see that they run."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from bench_cases.shapes.products import SHAPE_SETS, models, resolve_shapes
from plugin.calibrate import cpu_calibration as calibration
from plugin.calibrate import cpu_ceilings as ceilings
from plugin.calibrate import gpu_calibration
from plugin.calibrate.cpu_calibration import (
    build_device,
    cached_cpu_device,
    calibration_note,
    calibration_text,
    cpu_device,
)
from plugin.calibrate.cpu_ceilings import MATRIX_SIZES, MATVEC_SIZE, READ_COLUMNS, measure_cpu_ceilings
from plugin.calibrate.cuda_ceilings import GEMM_SHAPES
from plugin.calibrate.readings import Readings
from plugin.machine.facts import Machine
from plugin.run.pending import expected_record
from roofline_model.chips.hardware import DeviceFacts, check_device, doubt_of_ideals, errors_of, get_hardware
from roofline_model.chips.machine_constants import Calibration, Constant
from roofline_model.core.errors import UnsupportedError
from roofline_model.core.finding import advice_text, finding, short_text
from roofline_model.expected.calibrated import predict_calibrated
from roofline_model.expected.predict import predict_expected
from roofline_model.formats.catalog import FORMATS
from roofline_model.ideal.roofline import predict
from roofline_model.operators.product import gemm

MACHINE = Machine("cpu", "", "AMD EPYC 9R14", 2, 32 << 20, 24 << 30, torch_version="2.13.0+cpu")
GB10 = Machine("cuda", "", "Cortex-X925", 20, 1 << 24, 1 << 37, DeviceFacts("NVIDIA GB10", "12.1"), "2.13.0+cu130")


def rate(best, unit="B/s", kernel="sum"):
    return Constant(unit, best, 0.9 * best, 0.5 * best, 0.1, 20, kernel)


def flops(**rates):
    return {key: rate(best, "FLOP/s", "704 square") for key, best in rates.items()}


def floor(best):
    return Constant("s", best, 1.2 * best, 2 * best, 0.1, 20, "add")


READINGS = Readings(
    dram={"copy": rate(50e9, kernel="copy"), "read": rate(60e9)},
    cache={"copy": rate(180e9, kernel="copy")},
    peaks=flops(FP32=200e9, BF16=440e9, FP16=45e9, INT8=870e9),
    floors={"call": floor(1e-6), "fork-join": floor(4e-6)},
    casts={"INT8>BF16": floor(8e-11)},
    seconds=8.0,
)


@pytest.fixture(autouse=True)
def cache_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("ROOFLINE_CACHE", str(tmp_path))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    return tmp_path


@pytest.fixture
def quiet(monkeypatch):
    monkeypatch.setattr(calibration.LoadWatch, "flags", lambda self: ())


@pytest.fixture
def measures(monkeypatch, quiet):
    """Give the micro-kernels' answers in turn, the last one for ever; returns the calls."""
    calls = []

    def answer(*readings):
        def fake(size, report, budget_s, **options):
            calls.append((size, budget_s, options))
            return readings[min(len(calls), len(readings)) - 1]

        monkeypatch.setattr(calibration, "measure_cpu_ceilings", fake)
        return calls

    return answer


def measured(measures, readings=READINGS):
    measures(readings)
    return cpu_device(MACHINE, lambda text: None)


def test_measured_profile_is_sane_and_says_where_it_comes_from(measures):
    device = measured(measures)
    assert errors_of(check_device(device)) == []
    assert device.key == "cpu-amd-epyc-9r14-2t"
    assert (device.bandwidth.value, device.bandwidth.status) == (60e9, "measured-here")
    assert device.bandwidth.note.endswith("triad: sum")
    assert device.peak_flops_per_s("BF16") == 440e9
    assert device.path("FP8").kind == "emulated"
    assert device.path("INT4").compute_format == "BF16"


def test_a_calibration_keeps_date_conditions_and_spread(measures):
    own_calibration = measured(measures).calibration
    assert (own_calibration.subject, own_calibration.kind, own_calibration.provenance) == (
        "AMD EPYC 9R14",
        "cpu",
        "measured-here",
    )
    assert own_calibration.measured_at.startswith("20")
    assert own_calibration.measured_at.endswith("+00:00")
    assert (own_calibration.conditions["torch"], own_calibration.conditions["threads"]) == ("2.13.0+cpu", 2)
    assert own_calibration.dram["read"].sd_ratio == 0.1
    assert None not in own_calibration.conditions.values()


def test_the_session_header_can_say_what_is_used(measures):
    device = measured(measures)
    text = f"calibrated {device.calibration.date} (torch 2.13.0+cpu, 2 threads)"
    assert calibration_text(device) == text
    assert calibration_note(device) == f"{text}; {advice_text(finding('ceilings-alone'))}"
    timed = replace(device, calibration=replace(device.calibration, kernels=(object(),)))
    assert calibration_note(timed) == text
    assert calibration_note(device, is_timing_kernels=True) == text
    gpu = replace(
        device, kind="gpu", calibration=replace(device.calibration, conditions={"torch": "2.13.0", "driver": "580.142"})
    )
    assert calibration_note(gpu).endswith("(driver 580.142, torch 2.13.0)")
    assert calibration_note(get_hardware("gb10")) == ""


def test_every_narrow_format_has_a_path(measures):
    device = measured(measures)
    for key, fmt in FORMATS.items():
        if fmt.nominal_bits < 16:
            assert device.path(key).dense.value > 0, key


def test_warm_operands_are_predicted_with_the_cache(measures):
    device = measured(measures)
    work = gemm(1, 1024, 1024, a="BF16")
    warm, cold = predict(work, device, cache="warm"), predict(work, device)
    assert (warm.memory_level, cold.memory_level) == ("LLC", "DRAM")
    assert cold.time_s / warm.time_s == pytest.approx(3.0)


def test_a_cache_that_is_not_faster_than_memory_has_no_bandwidth(measures):
    device = measured(measures, replace(READINGS, cache={"copy": rate(59e9)}))
    assert device.levels[0].bandwidth is None
    assert errors_of(check_device(device)) == []


def test_a_machine_without_bf16_computes_narrow_formats_in_fp32(measures):
    device = measured(measures, replace(READINGS, peaks=flops(FP32=100e9)))
    assert device.path("INT4").compute_format == "FP32"


def test_the_expected_time_of_a_cpu_adds_the_fixed_costs(measures):
    device = measured(measures)
    work = gemm(1, 4096, 4096, a="BF16")
    ideal, expected = predict(work, device), predict_expected(work, device, allow_ceilings=True)
    assert expected.low_s == pytest.approx(ideal.time_s + 5e-6)
    record = expected_record(expected, ideal, "hash", 2 * expected.time_s)
    assert (record.kind, record.low_s, record.high_s) == ("expected", expected.low_s, expected.high_s)
    assert (record.provenance, record.model_version) == ("measured-here", "calibrated-1")
    assert record.error_ratio == pytest.approx(-0.5)
    assert record.terms_s == dict(expected.terms)
    assert expected_record(expected, ideal, "hash", None).error_ratio is None


def test_ceilings_are_measured_once_and_then_read(measures):
    calls = measures(READINGS)
    messages = []
    first = cpu_device(MACHINE, messages.append)
    second = cpu_device(MACHINE, messages.append)
    assert first == second == cached_cpu_device(MACHINE)
    assert len(calls) == 1
    assert calls[0][:2] == (32 << 20, 12.0)
    assert messages[0] == short_text(finding("measuring-ceilings", budget_s=12.0))
    cpu_device(MACHINE, messages.append, refresh=True, budget_s=40, with_scaling=True)
    assert calls[1][1] == 40
    assert calls[1][2]["with_scaling"] is True


@pytest.mark.parametrize("change", [{"cpu_count": 4}, {"torch_version": "2.14"}, {"cpu_name": "other"}])
def test_another_machine_or_torch_is_measured_again(measures, change):
    measured(measures)
    assert cached_cpu_device(MACHINE) is not None
    assert cached_cpu_device(replace(MACHINE, **change)) is None


def stored(**changed):
    facts = {"version": 1, "measured_at": "2026-11-21T12:00:00+00:00", "subject": "x", "kind": "cpu"}
    ceiling = {"best": 4e9, "median": 3e9, "slow": 2e9, "repetitions": 3}
    return json.dumps({"calibration": {**facts, "dram": {"read": ceiling}, "peaks": {"FP32": ceiling}} | changed})


OLD_VERSION = {"cpu": "x", "ceilings": {"dram_bytes_per_s": 6e10, "dram_kernel": "sum", "flops_per_s": {"FP32": 2e11}}}


def test_the_file_the_damaged_ones_are_made_of_is_good(cache_folder, measures):
    measured(measures)
    (file,) = cache_folder.glob("*.json")
    file.write_text(stored())
    assert cached_cpu_device(MACHINE).bandwidth.value == 4e9


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{}",
        "[1]",
        json.dumps(OLD_VERSION),
        "[" * 100_000,
        stored(version=0),
        stored(dram={}),
        stored(peaks={}),
        stored(peaks=[]),
        stored(dram={"read": {"best": float("nan")}}),
        stored(dram={"read": {"best": 1e300}}),
        stored(dram={"read": 5}),
        stored(kind="x"),
        stored(cache_capacity_bytes=-5.0),
        stored(conditions=None),
        stored(measured_at=5),
    ],
)
def test_a_cache_of_another_version_or_damaged_is_measured_again(cache_folder, measures, content):
    measured(measures)
    (file,) = cache_folder.glob("*.json")
    file.write_text(content)
    assert cached_cpu_device(MACHINE) is None
    assert cpu_device(MACHINE, lambda text: None).bandwidth.value == 60e9


def test_unwritable_home_costs_only_the_cache(measures, monkeypatch, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("ROOFLINE_CACHE", str(blocked / "below"))
    assert measured(measures).bandwidth.value == 60e9
    assert cached_cpu_device(MACHINE) is None


def test_a_ceiling_is_the_best_ever_seen_until_it_is_forgotten(measures, monkeypatch):
    worse = replace(READINGS, dram={"copy": rate(30e9)}, cache={}, peaks=flops(FP32=300e9, BF16=10e9))
    measures(READINGS, worse)
    monkeypatch.setattr(calibration.LoadWatch, "flags", lambda self: ("contended",))
    messages = []
    cpu_device(MACHINE, messages.append)
    assert messages[-1] == advice_text(finding("ceilings-disturbed", disturbed_by=("contended",)))
    assert doubt_of_ideals(cached_cpu_device(MACHINE)).code == "ceilings-contended"  # and it is still known later
    both = cpu_device(MACHINE, messages.append, refresh=True)
    assert (both.bandwidth.value, both.levels[0].bandwidth.value) == (60e9, 180e9)
    assert both.bandwidth.note.endswith("sum")
    assert (both.peak_flops_per_s("FP32"), both.peak_flops_per_s("BF16")) == (300e9, 440e9)
    assert cpu_device(MACHINE, messages.append, refresh=True, forget=True).bandwidth.value == 30e9
    monkeypatch.setattr(calibration.LoadWatch, "flags", lambda self: ())
    assert doubt_of_ideals(cpu_device(MACHINE, messages.append, refresh=True)) is None  # one quiet look is enough


def test_typical_values_are_the_newest_unless_that_measuring_was_busy(measures, monkeypatch):
    slower = replace(READINGS, dram={"read": rate(40e9)})
    measures(READINGS, slower, *[replace(READINGS, dram={"read": rate(10e9)})] * 2)
    cpu_device(MACHINE, lambda text: None)
    second = cpu_device(MACHINE, lambda text: None, refresh=True).calibration.dram["read"]
    assert (second.best_value, second.median_value) == (60e9, pytest.approx(36e9))
    monkeypatch.setattr(calibration.LoadWatch, "flags", lambda self: ("contended",))
    for forget in (False, True):
        with pytest.raises(UnsupportedError, match="this look at the ceilings is left out"):
            cpu_device(MACHINE, lambda text: None, refresh=True, forget=forget)
    third = cached_cpu_device(MACHINE).calibration
    assert (third.dram["read"].median_value, third.disturbed_by) == (pytest.approx(36e9), ())


def test_scaling_of_a_longer_look_is_not_lost_by_a_shorter_one(measures):
    measures(replace(READINGS, scaling={"1": rate(25e9)}), READINGS)
    cpu_device(MACHINE, lambda text: None)
    assert cpu_device(MACHINE, lambda text: None, refresh=True).calibration.scaling["1"].best_value == 25e9


def test_threads_asked_for_make_another_profile(measures, monkeypatch):
    both = measured(measures)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert cached_cpu_device(MACHINE) == both  # two of two CPUs is what torch does by itself
    monkeypatch.setenv("OMP_NUM_THREADS", "1,2")
    assert cached_cpu_device(MACHINE) is None
    assert cpu_device(MACHINE, lambda text: None).key == "cpu-amd-epyc-9r14-1t"


# The micro-kernels -------------------------------------------------------------------------------------------------


def test_calibration_shapes_are_no_benchmark_shapes():
    ours = {*MATRIX_SIZES, MATVEC_SIZE, READ_COLUMNS}
    names = [*SHAPE_SETS, *(f"llm:{name}" for name in models())]
    shapes = {shape.size for name in names for device in ("cpu", "cuda") for shape in resolve_shapes(name, device)}
    assert len(shapes) > 400
    assert not ours & {size for _, n, k in shapes for size in (n, k)}


def test_gpu_calibration_shapes_are_no_benchmark_shapes():
    names = [*SHAPE_SETS, *(f"llm:{name}" for name in models())]
    shapes = {shape.size for name in names for device in ("cpu", "cuda") for shape in resolve_shapes(name, device)}
    assert not set(GEMM_SHAPES) & shapes


def test_the_micro_kernels_run_and_give_consistent_constants(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(ceilings, "MATRIX_SIZES", (64, 96))
    threads = torch.get_num_threads()
    messages = []
    readings = measure_cpu_ceilings(1 << 20, messages.append, 0.5, free_bytes=8 << 20, with_scaling=True)
    assert torch.get_num_threads() == threads
    assert set(readings.dram) == {"read", "copy", "triad", "write"}
    assert readings.dram["read"].kernel in ("dot", "sum", "mv", "mv-fp16")
    assert "FP32" in readings.peaks
    assert "call" in readings.floors
    assert "BF16>FP32" in readings.casts
    assert set(readings.scaling) >= {"1", str(threads)}
    assert len(messages) >= 6
    tables = (readings.dram, readings.peaks, readings.floors, readings.casts, readings.scaling)
    constants = [constant for table in tables for constant in table.values()]
    assert all(constant.repetition_count >= 1 for constant in constants)
    device = build_device(MACHINE, calibration._calibration(MACHINE, readings, calibration.LoadWatch()))
    assert Calibration.from_dict(device.calibration.to_dict(), "x") == device.calibration


def test_a_format_without_a_kernel_is_left_out(monkeypatch):
    torch = pytest.importorskip("torch")

    def refuse(*operands):
        raise RuntimeError("not implemented for 'Char'")

    monkeypatch.setattr(torch, "_int_mm", refuse)
    assert ceilings._best_matmul(torch, "INT8", 0.01) is None


# A GPU -------------------------------------------------------------------------------------------------------------


def gpu_readings(read=230e9):
    return Readings(
        dram={"read": rate(read), "copy": rate(200e9)},
        cache={"copy": rate(900e9)},
        peaks=flops(BF16=100e12, NVFP4=300e12),
        floors={"launch": floor(2e-6), "host-launch": floor(4e-6)},
        casts={"FP8_E4M3>BF16": floor(2e-11)},
        scaling={"8": rate(60e9)},
        cache_bytes=24 << 20,
        clock_hz=2.4e9,
        seconds=30.0,
    )


@pytest.fixture
def no_driver(monkeypatch):
    monkeypatch.setattr(gpu_calibration, "open_nvml_device", lambda: (None, None))


def test_a_gpu_keeps_its_datasheet_and_gains_what_it_reaches(no_driver):
    chip = get_hardware("gb10")
    messages = []
    device = gpu_calibration.gpu_device(GB10, chip, messages.append, measure=lambda report, budget_s: gpu_readings())
    assert device.bandwidth == chip.bandwidth
    assert device.path("BF16").dense == chip.path("BF16").dense
    assert (device.path("BF16").achieved.status, device.bandwidth_achieved.status) == ("measured-here", "measured-here")
    assert device.bandwidth_achieved.value == 230e9
    assert predict(gemm(1, 4096, 4096, a="BF16"), device) == predict(gemm(1, 4096, 4096, a="BF16"), chip)
    expected = predict_calibrated(gemm(1, 4096, 4096, a="BF16"), device)
    assert expected.time_s == pytest.approx((2 * 4096 * 4096 + 4 * 4096) / (0.9 * 230e9) + 1.2 * 2e-6)
    assert errors_of(check_device(device)) == []
    own_calibration = device.calibration
    assert (own_calibration.kind, own_calibration.subject, own_calibration.conditions["sm_clock_hz"]) == (
        "cuda",
        "NVIDIA GB10",
        2.4e9,
    )
    assert own_calibration.scaling["8"].median_value == 0.9 * 60e9
    again = gpu_calibration.calibrated_gpu(GB10, chip)
    assert again == device
    assert gpu_calibration.calibrated_gpu(replace(GB10, torch_version="2.14"), chip) == chip


def test_a_bandwidth_that_cannot_be_is_not_called_achieved(no_driver):
    chip = get_hardware("gb10")
    device = gpu_calibration.gpu_device(GB10, chip, lambda text: None, measure=lambda *_: gpu_readings(read=900e9))
    assert device.bandwidth_achieved == chip.bandwidth_achieved
    assert device.calibration.dram["read"].best_value == 900e9


def test_a_shared_gpu_is_doubted_and_the_best_is_kept(monkeypatch):
    class Busy:
        def facts(self):
            return {"driver": "580.142", "power_limit_w": 140.0, "gpu_uuid": "GPU-1", "clock_lock_hz": None}

        def application_clock_hz(self):
            return None

        memory_clock_hz = application_clock_hz
        temperature_c = application_clock_hz

        def other_process_count(self):
            return 2

    monkeypatch.setattr(gpu_calibration, "open_nvml_device", lambda: (Busy(), None))
    chip, messages = get_hardware("gb10"), []
    first = gpu_calibration.gpu_device(GB10, chip, messages.append, measure=lambda *_: gpu_readings())
    assert first.calibration.disturbed_by == ("shared-device",)
    assert messages[-1] == advice_text(finding("ceilings-disturbed", disturbed_by=("shared-device",)))
    assert calibration_note(first).endswith("(driver 580.142, torch 2.13.0+cu130)")
    assert "gpu_uuid" not in first.calibration.conditions
    second = gpu_calibration.gpu_device(GB10, chip, messages.append, measure=lambda *_: gpu_readings(read=100e9))
    assert second.calibration.dram["read"].best_value == first.calibration.dram["read"].best_value
    third = gpu_calibration.gpu_device(
        GB10, chip, messages.append, forget=True, measure=lambda *_: gpu_readings(read=100e9)
    )
    assert third.calibration.dram["read"].best_value == 100e9
