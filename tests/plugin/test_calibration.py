from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest

from plugin import calibration
from plugin.calibration import build_device, cached_cpu_device, cpu_device
from plugin.ceilings import Ceilings
from plugin.machine import Machine
from roofline_model.device_file import check_device
from roofline_model.formats import FORMATS
from roofline_model.operators import gemm
from roofline_model.roofline import predict

MACHINE = Machine("cpu", "", "AMD EPYC 9R14", 2, 32 << 20, 24 << 30, torch_version="2.13.0+cpu")
CEILINGS = Ceilings(60e9, "sum", 180e9, 32.0 * 2**20, {"FP32": 200e9, "BF16": 440e9, "FP16": 45e9, "INT8": 870e9}, 8.0)


@pytest.fixture
def cache_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("ROOFLINE_CACHE", str(tmp_path))
    return tmp_path


def test_measured_profile_is_sane_and_says_where_it_comes_from():
    device = build_device(MACHINE, CEILINGS)
    assert [finding for finding in check_device(device) if finding.severity == "error"] == []
    assert device.key == "cpu-amd-epyc-9r14-2t"
    assert device.bandwidth.status == "measured-here"
    assert device.peak_flops_per_s("BF16") == 440e9
    assert device.path("FP8").kind == "emulated"
    assert device.path("INT4").compute_format == "BF16"


def test_every_narrow_format_has_a_path():
    device = build_device(MACHINE, CEILINGS)
    for key, fmt in FORMATS.items():
        if fmt.nominal_bits < 16:
            assert device.path(key).dense.value > 0, key


def test_warm_operands_are_predicted_with_the_cache():
    device = build_device(MACHINE, CEILINGS)
    work = gemm(1, 1024, 1024, a="BF16")
    warm, cold = predict(work, device, cache="warm"), predict(work, device)
    assert (warm.memory_level, cold.memory_level) == ("LLC", "DRAM")
    assert cold.time_s / warm.time_s == pytest.approx(3.0)


def test_a_machine_without_bf16_computes_narrow_formats_in_fp32():
    device = build_device(MACHINE, replace(CEILINGS, flops_per_s={"FP32": 100e9}))
    assert device.path("INT4").compute_format == "FP32"


def test_ceilings_are_measured_once_and_then_read(cache_folder, monkeypatch):
    calls = []
    monkeypatch.setattr(calibration, "measure_cpu_ceilings", lambda size, report: calls.append(size) or CEILINGS)
    said = []
    first = cpu_device(MACHINE, said.append)
    second = cpu_device(MACHINE, said.append)
    assert first == second
    assert len(calls) == 1
    assert "once" in said[0]
    cpu_device(MACHINE, said.append, refresh=True)
    assert len(calls) == 2


@pytest.mark.parametrize("change", [{"cpu_count": 4}, {"torch_version": "2.14"}, {"cpu_name": "other"}])
def test_another_machine_or_torch_is_measured_again(cache_folder, monkeypatch, change):
    monkeypatch.setattr(calibration, "measure_cpu_ceilings", lambda size, report: CEILINGS)
    cpu_device(MACHINE, lambda text: None)
    assert cached_cpu_device(MACHINE) is not None
    assert cached_cpu_device(replace(MACHINE, **change)) is None


def stored(**changed):
    return json.dumps({"ceilings": asdict(CEILINGS) | changed})


@pytest.mark.parametrize(
    "content",
    ["", "{}", "[1]", json.dumps({"ceilings": {"speed": 1}}), "[" * 100_000, stored(dram_bytes_per_s=float("nan")), stored(dram_bytes_per_s=-5.0),
     stored(dram_bytes_per_s=1e300), stored(dram_bytes_per_s="x"), stored(flops_per_s={"FP32": 0.0}), stored(flops_per_s=[]), stored(cache_bytes_per_s=0.0)],
)  # fmt: skip
def test_broken_cache_is_measured_again(cache_folder, monkeypatch, content):
    monkeypatch.setattr(calibration, "measure_cpu_ceilings", lambda size, report: CEILINGS)
    cpu_device(MACHINE, lambda text: None)
    (file,) = cache_folder.glob("*.json")
    assert json.loads(file.read_text())["ceilings"] == json.loads(json.dumps(asdict(CEILINGS)))
    file.write_text(content)
    assert cached_cpu_device(MACHINE) is None
    assert cpu_device(MACHINE, lambda text: None).bandwidth.value == 60e9


def test_unwritable_home_costs_only_the_cache(monkeypatch, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("ROOFLINE_CACHE", str(blocked / "below"))
    monkeypatch.setattr(calibration, "measure_cpu_ceilings", lambda size, report: CEILINGS)
    assert cpu_device(MACHINE, lambda text: None).bandwidth.value == 60e9


def test_a_ceiling_is_the_best_ever_seen_until_it_is_forgotten(cache_folder, monkeypatch):
    worse = replace(
        CEILINGS,
        dram_bytes_per_s=30e9,
        dram_kernel="copy",
        cache_bytes_per_s=None,
        flops_per_s={"FP32": 300e9, "BF16": 10e9},
    )
    answers = iter([CEILINGS, worse, worse])
    monkeypatch.setattr(calibration, "measure_cpu_ceilings", lambda size, report: next(answers))
    monkeypatch.setattr(calibration.LoadWatch, "flags", lambda self: ("contended",))
    said = []
    cpu_device(MACHINE, said.append)
    assert "busy (contended)" in said[-1]
    assert "may be too low" in cached_cpu_device(MACHINE).notes[-1]  # and it is still known later
    both = cpu_device(MACHINE, said.append, refresh=True)
    assert (both.bandwidth.value, both.levels[0].bandwidth.value) == (60e9, 180e9)
    assert both.bandwidth.note.endswith("sum")
    assert (both.peak_flops_per_s("FP32"), both.peak_flops_per_s("BF16")) == (300e9, 440e9)
    assert cpu_device(MACHINE, said.append, refresh=True, forget=True).bandwidth.value == 30e9
    monkeypatch.setattr(calibration.LoadWatch, "flags", lambda self: ())
    answers = iter([CEILINGS])
    assert "may be too low" not in cpu_device(MACHINE, said.append, refresh=True).notes[-1]  # one quiet look is enough


def test_threads_asked_for_make_another_profile(cache_folder, monkeypatch):
    monkeypatch.setattr(calibration, "measure_cpu_ceilings", lambda size, report: CEILINGS)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    both = cpu_device(MACHINE, lambda text: None)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert cached_cpu_device(MACHINE) == both  # two of two CPUs is what torch does by itself
    monkeypatch.setenv("OMP_NUM_THREADS", "1,2")
    assert cached_cpu_device(MACHINE) is None
    assert cpu_device(MACHINE, lambda text: None).key == "cpu-amd-epyc-9r14-1t"
