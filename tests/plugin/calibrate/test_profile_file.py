"""A calibration as a file: written whole, read back equal, refused for another machine or when it is damaged."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plugin.calibrate import gpu_calibration
from plugin.calibrate.cpu_calibration import build_device, cpu_fingerprint
from plugin.calibrate.profile_file import mismatch, profile_text, read_profile, use_here
from plugin.machine.facts import Machine
from plugin.run.options import BenchOptions
from plugin.run.target import resolve_target
from roofline_model.chips.hardware import DeviceFacts, check_device, errors_of, get_hardware
from roofline_model.chips.machine_constants import Calibration, Constant
from roofline_model.core.errors import DefinitionError, RooflineError, UnsupportedError

CPU = Machine("cpu", "NVML: not found", "AMD EPYC 9R14", 2, 1 << 25, 1 << 34, torch_version="2.13.0+cpu")
GB10 = Machine("cuda", "", "Cortex-X925", 20, 1 << 24, 1 << 37, DeviceFacts("NVIDIA GB10", "12.1"), "2.13.0+cu130")
H200 = replace(GB10, facts=DeviceFacts("NVIDIA H200", "9.0", None, 150 * 10**9))


@pytest.fixture(autouse=True)
def _alone(monkeypatch, tmp_path):
    monkeypatch.setenv("ROOFLINE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(gpu_calibration, "open_nvml_device", lambda: (None, None))


def constants(kind, subject, fingerprint, bandwidth, **conditions):
    constant = Constant("B/s", bandwidth, 0.9 * bandwidth, 0.5 * bandwidth, 0.1, 9, "sum")
    peak = Constant("FLOP/s", 5e11, 4e11, 3e11, None, 1)
    return Calibration(
        "2026-11-21T12:00:00+00:00",
        subject,
        kind,
        {"read": constant},
        {"FP32": peak, "BF16": peak},
        cache_capacity_bytes=2.0**25,
        conditions=conditions,
        fingerprint=fingerprint,
    )


with pytest.MonkeyPatch.context() as _patch:
    _patch.delenv("OMP_NUM_THREADS", raising=False)
    OWN = build_device(CPU, constants("cpu", CPU.cpu_name, cpu_fingerprint(CPU), 6e10, threads=2, torch="2.13.0+cpu"))


@pytest.fixture
def cpu_file(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(profile_text(OWN), encoding="utf-8")
    return path


def gpu_file(tmp_path, machine=GB10, key="gb10"):
    calibration = constants(
        "cuda", machine.facts.name, gpu_calibration.own_fingerprint(machine), 2.3e11, driver="580.142"
    )
    path = tmp_path / f"{key}.toml"
    path.write_text(profile_text(gpu_calibration.with_calibration(get_hardware(key), calibration)), encoding="utf-8")
    return path


def target(machine, **options):
    def never():
        raise AssertionError("measured although a file was given")

    return resolve_target(BenchOptions(**options), never, machine)


def test_a_written_profile_reads_back_equal_and_passes_the_check(cpu_file):
    chip, calibration = read_profile(cpu_file)
    assert chip == OWN
    assert calibration == OWN.calibration
    assert errors_of(check_device(chip)) == []
    assert cpu_file.read_text().startswith(
        "# Measured by `roofline calibrate` on 2026-11-21T12:00:00+00:00 on AMD EPYC 9R14."
    )


def test_a_chip_without_constants_is_not_written():
    with pytest.raises(UnsupportedError, match="no measured constants"):
        profile_text(get_hardware("gb10"))


def test_this_machines_own_file_takes_the_place_of_its_cache(cpu_file):
    profiled = target(CPU, profile_file=cpu_file)
    assert (profiled.device, profiled.can_measure, profiled.is_forced) == ("cpu", True, False)
    assert profiled.hardware == OWN


def test_another_machine_of_the_same_model_did_not_measure_here(cpu_file):
    other = replace(CPU, torch_version="2.14.0")
    hardware = target(other, profile_file=cpu_file).hardware
    assert {hardware.bandwidth.status, hardware.path("BF16").dense.status, hardware.calibration.provenance} == {
        "measured"
    }
    assert hardware.bandwidth.value == OWN.bandwidth.value


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        (replace(CPU, cpu_name="Intel Xeon 6980P"), ("AMD EPYC 9R14 (cpu)", "Intel Xeon 6980P (cpu)")),
        (GB10, ("AMD EPYC 9R14 (cpu)", "NVIDIA GB10 (cuda)")),
        (replace(CPU, cpu_count=4), ("measured with 2 threads", "run with 4 here", "OMP_NUM_THREADS=2")),
    ],
)
def test_the_wrong_machine_is_refused_naming_both(cpu_file, machine, words):
    with pytest.raises(UnsupportedError) as caught:
        target(machine, profile_file=cpu_file)
    assert all(word in str(caught.value) for word in (*words, "--roofline-profile-file", "--roofline-force-measure"))
    assert "\n" not in str(caught.value)
    forced = target(machine, profile_file=cpu_file, force_measure=True)
    assert (forced.can_measure, forced.is_forced) == (True, True)


def test_a_profile_of_a_gpu_keeps_the_registrys_datasheet(tmp_path):
    path = gpu_file(tmp_path)
    path.write_text(path.read_text().replace("value = 273.06", "value = 250.5"))
    profiled = target(GB10, profile_file=path)
    assert profiled.device == "cuda"
    assert profiled.hardware.bandwidth == get_hardware("gb10").bandwidth
    assert profiled.hardware.bandwidth_achieved.value == 2.3e11
    assert profiled.hardware.calibration.provenance == "measured-here"
    assert target(GB10, hw="gb10", profile_file=path).hardware == profiled.hardware


def test_a_profile_of_a_gpu_that_the_registry_does_not_know(tmp_path):
    unknown = replace(GB10, facts=DeviceFacts("NVIDIA Whatever 9000", "15.0"))
    path = gpu_file(tmp_path, unknown)
    profiled = target(unknown, profile_file=path)
    assert profiled.hardware.calibration.subject == "NVIDIA Whatever 9000"


def test_another_gpu_is_refused(tmp_path):
    path = gpu_file(tmp_path)
    with pytest.raises(UnsupportedError, match=r"NVIDIA GB10 \(cuda\).*NVIDIA H200"):
        target(H200, profile_file=path)
    with pytest.raises(UnsupportedError, match="is of gb10, --hw names h200-sxm"):
        target(H200, hw="h200", profile_file=path)


def test_a_cpus_file_given_as_hardware_is_measured_on_that_cpu_only(cpu_file):
    here = target(CPU, hw=str(cpu_file))
    assert (here.can_measure, here.hardware) == (True, OWN)
    other = replace(CPU, cpu_name="Intel Xeon 6980P")
    elsewhere = target(other, hw=str(cpu_file))
    assert (elsewhere.can_measure, elsewhere.is_forced) == (False, False)
    assert elsewhere.why_not.value("kind") == "chip"
    assert elsewhere.why_not.value("own_subject") == "Intel Xeon 6980P"
    assert target(other, hw=str(cpu_file), force_measure=True).is_forced


def test_a_simulated_run_takes_any_profile(cpu_file):
    profiled = target(GB10, hw=str(cpu_file), profile_file=cpu_file, timer="simulated")
    assert (profiled.can_measure, profiled.hardware) == (True, OWN)


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda text: "", "schema must be 1, got None"),
        (lambda text: text.replace("schema = 1", "schema ="), "line 4"),
        (lambda text: text[: text.index("\n[calibration]")], "has no [calibration] table"),
        (lambda text: "".join(text.rsplit('kind = "cpu"\n', 1)), "[calibration] kind is missing"),
        (
            lambda text: text.replace("best = 6e+10", "best = -1"),
            "[calibration] dram.read best must be a number of B/s",
        ),
        (
            lambda text: text.replace("best = 6e+10", "best = inf"),
            "[calibration] dram.read.best is inf, not a number",
        ),
        (lambda text: text.replace("[calibration.dram]", "[calibration.ram]"), "unknown field 'ram'"),
        (lambda text: text.replace("value = 60,", 'value = "60",'), "memory.bandwidth.value is '60', not a number"),
    ],
)
def test_a_bad_file_is_one_line_with_the_key_or_line(cpu_file, edit, words):
    before = cpu_file.read_text()
    after = edit(before)
    assert after != before
    cpu_file.write_text(after)
    with pytest.raises(RooflineError) as caught:
        target(CPU, profile_file=cpu_file)
    assert words in str(caught.value)
    assert str(cpu_file) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"\x00" * 100, b"[" * 5000])
def test_what_is_no_text_is_refused(cpu_file, content):
    cpu_file.write_bytes(content)
    with pytest.raises(DefinitionError):
        target(CPU, profile_file=cpu_file)


def test_the_check_itself():
    calibration = OWN.calibration
    assert mismatch("f", calibration, CPU, "cpu") is None
    assert (
        mismatch("f", replace(calibration, conditions={}), replace(CPU, cpu_count=9), "cpu") is None
    )  # not told, not refused
    assert use_here(OWN, calibration, CPU, "cpu") is OWN
