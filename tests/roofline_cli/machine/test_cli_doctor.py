"""`roofline doctor` and `--hw auto`: every machine simulated, none needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from plugin.calibrate import cpu_calibration as calibration
from plugin.machine import facts as machine
from roofline_cli.machine import machine_checks, packages, state_checks
from roofline_cli.main import app
from roofline_model.chips.hardware import DeviceFacts
from roofline_model.core.finding import finding, fix_text

runner = CliRunner()
ROOT = Path(__file__).parents[3]
GB10 = DeviceFacts("NVIDIA GB10", "12.1", 48, 128_000_000_000)


@pytest.fixture(autouse=True)
def _alone(monkeypatch, tmp_path):
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.delenv("ROOFLINE_DB", raising=False)
    monkeypatch.setenv("ROOFLINE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(state_checks, "LOOK_S", 0.05)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def pretend(monkeypatch):
    """Make this machine another one: `pretend(facts, torch)`; the answer of torch's subprocess is given, too."""

    def become(facts=None, torch="2.13.0", answer=None, reason="simulated"):
        how = finding("sensors-missing", error=reason)
        here = machine.Machine("cuda" if facts else "cpu", how, "Test CPU", 2, 32 * 2**20, 16 * 10**9, facts, torch)
        monkeypatch.setattr(machine, "find_machine", lambda: here)
        versions = {"torch": torch}
        real = packages.installed_version
        fake = lambda name: versions[name] if name in versions else real(name)  # noqa: E731
        monkeypatch.setattr(packages, "installed_version", fake)
        monkeypatch.setattr(machine_checks, "installed_version", fake)

        def run(command, **options):
            assert command[:2] == [sys.executable, "-c"]
            assert options["timeout"] > 0
            if answer is None:
                raise AssertionError("torch was started although there is no reason to")
            if isinstance(answer, BaseException):
                raise answer
            return subprocess.CompletedProcess(command, *answer)

        monkeypatch.setattr(machine_checks.subprocess, "run", run)
        return here

    return become


def checks(*arguments: str) -> tuple[int, dict[str, dict[str, str]]]:
    result = runner.invoke(app, ["doctor", "--json", *arguments])
    data = json.loads(result.stdout)
    assert data["is_ok"] == (result.exit_code == 0)
    return result.exit_code, {check["name"]: check for check in data["checks"]}


def test_a_cpu_machine_is_healthy_and_torch_is_not_started(pretend):
    pretend()
    code, results = checks()
    assert code == 0
    assert results["nvidia device"]["status"] == "info"
    assert results["torch"]["detail"] == "2.13.0, for this CPU"
    assert "have not been measured" in results["chip"]["detail"]
    assert results["database"]["detail"].startswith(".roofline/results.db (not there yet")
    assert not Path(".roofline").exists()


def test_a_gb10_with_a_working_torch(pretend):
    pretend(GB10, answer=(0, "True 13.0 1\n", ""))
    code, results = checks()
    assert code == 0
    assert results["torch"]["detail"] == "2.13.0, CUDA 13.0, sees 1 GPU"
    assert results["chip"]["detail"].startswith("gb10: device name 'NVIDIA GB10' matches gb10")


@pytest.mark.parametrize(
    ("torch", "answer", "words"),
    [
        ("2.13.0+cpu", None, "2.13.0+cpu has no CUDA, but an NVIDIA device is present"),
        ("2.13.0", (0, "False None 0\n", ""), "2.13.0 has no CUDA, but an NVIDIA device is present"),
        ("2.13.0", (0, "False 13.0 0\n", ""), "built for CUDA 13.0, but finds no GPU"),
        ("2.13.0", (1, "", "Traceback\nImportError: libcudart\n"), "cannot be imported: ImportError: libcudart"),
        ("2.13.0", subprocess.TimeoutExpired("torch", 60), "did not answer within 60 s"),
    ],
)
def test_a_gpu_that_torch_cannot_use_is_broken_and_has_a_fix(pretend, torch, answer, words):
    pretend(GB10, torch=torch, answer=answer)
    code, results = checks()
    assert code == 1
    assert results["torch"]["status"] == "error"
    assert words in results["torch"]["detail"]
    assert results["torch"]["fix"]
    text = runner.invoke(app, ["doctor"]).stdout
    assert text.startswith("1 broken")
    assert f"torch: {results['torch']['fix']}" in text


def test_an_unknown_gpu_is_named_with_what_to_do(pretend):
    pretend(DeviceFacts("NVIDIA Whatever 9000", "15.0"), answer=(0, "True 13.0 1\n", ""))
    code, results = checks()
    assert code == 0
    assert results["chip"]["status"] == "warn"
    assert "NVIDIA Whatever 9000" in results["chip"]["detail"]
    assert "--toml" in results["chip"]["fix"]


def test_without_torch_predictions_still_work(pretend):
    pretend(torch=None)
    code, results = checks()
    assert code == 0
    assert results["torch"]["status"] == "warn"
    assert "[measure]" in results["torch"]["fix"]
    assert results["extra measure"]["detail"].startswith("torch missing; installed: pytest")


@pytest.mark.parametrize(("others", "command"), [(0.02, "roofline calibrate "), (0.9, "--wait-until-quiet")])
def test_on_a_busy_machine_the_next_command_waits_and_is_not_refused(pretend, monkeypatch, others, command):
    pretend()
    load = state_checks.load_checks(SimpleNamespace(others_ratio=others, stolen_ratio=0.0))
    monkeypatch.setattr(state_checks, "load_checks", lambda *given: load)
    text = runner.invoke(app, ["doctor"]).stdout
    (line,) = [line for line in text.splitlines() if line.startswith("Next: ")]
    assert ("--wait-until-quiet" in line) is (others > 0.1)
    assert command in line


def test_database_problems_are_broken(pretend, tmp_path):
    pretend()
    code, results = checks("--db", str(tmp_path))
    assert (code, results["database"]["status"]) == (1, "error")
    assert "is a folder" in results["database"]["detail"]
    (tmp_path / "x.txt").write_text("no database at all, but long enough to be taken for one" * 20)
    code, results = checks("--db", str(tmp_path / "x.txt"))
    assert (code, results["database"]["status"]) == (1, "error")
    code, results = checks("--db", str(tmp_path / ("x" * 5_000)))
    assert (code, results["database"]["status"]) == (1, "error")
    assert "too long" in results["database"]["detail"]


def test_a_database_url_does_not_show_its_password(pretend):
    pretend()
    _, results = checks("--db", "postgresql+psycopg://me:s3cret@127.0.0.1:1/none")
    assert results["database"]["status"] == "error"
    assert "s3cret" not in json.dumps(results)


def test_a_place_that_cannot_be_written_is_broken(pretend, tmp_path, monkeypatch):
    pretend()
    (tmp_path / "locked").mkdir()
    access = os.access  # asked, not tried: the tests may run as root, who may write anywhere
    monkeypatch.setattr(
        machine_checks.os, "access", lambda path, mode: Path(path).name != "locked" and access(path, mode)
    )
    code, results = checks("--db", str(tmp_path / "locked" / "r.db"))
    assert code == 1
    assert "not writable" in results["database"]["detail"]


def test_extras_mirror_pyproject():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = {
        "core": project["dependencies"],
        **{name: project["optional-dependencies"][name] for name in packages.EXTRAS if name != "core"},
    }
    for extra, requirements in wanted.items():
        others = [requirement for requirement in requirements if not requirement.startswith("roofline-bench[")]
        pairs = [requirement.replace("[binary]", "").split(">=") for requirement in others]
        assert packages.EXTRAS[extra] == tuple((name, smallest) for name, smallest in pairs)
    assert set(project["optional-dependencies"]) - {"docs", "dev"} <= set(packages.EXTRAS)
    assert set(packages.PURPOSES) == set(packages.EXTRAS)


@pytest.mark.parametrize(
    ("version", "usable"),
    [("8.3", True), ("8.3.1", True), ("9.0.0rc1", True), ("8.2.9", False), ("2.11.0+cpu", False), (None, False)],
)
def test_package_versions_are_compared_as_numbers(version, usable):
    package = packages.InstalledPackage("pytest", "8.3", version)
    assert package.is_usable is usable
    assert ("≥ 8.3" in package.label) == (version is not None and not usable)


def test_hw_auto_is_the_matching_chip(pretend):
    pretend(GB10)
    data = json.loads(runner.invoke(app, ["predict", "gemv", "-N", "4096", "-K", "4096", "--json"]).stdout)
    assert data["predictions"][0]["hardware"] == "gb10"


def test_hw_auto_on_an_uncalibrated_cpu_says_what_to_type(pretend):
    pretend()
    result = runner.invoke(app, ["predict", "gemv", "-N", "4096", "-K", "4096"])
    assert result.exit_code == 2
    assert "Test CPU" in result.stderr
    assert "--hw gb10" in result.stderr


def calibrated(here, **changes):
    """Keep a calibration for the machine, as a measuring run would have."""
    from dataclasses import replace

    from roofline_model.chips.machine_constants import Calibration, Constant

    read_factor, peak = (
        Constant("B/s", 50e9, 40e9, 30e9, 0.1, 9, "sum"),
        Constant("FLOP/s", 1e12, 9e11, 8e11, 0.1, 9, "704 square"),
    )
    stored = Calibration(
        calibration.now_utc(),
        "Test CPU",
        "cpu",
        {"read": read_factor},
        {"FP32": peak, "BF16": peak},
        conditions={"torch": "2.13.0", "threads": 2},
    )
    file = calibration.cache_file("cpu", calibration.cpu_fingerprint(here))
    calibration.write_cache(file, replace(stored, **changes), pytest.fail)


def test_hw_auto_on_a_calibrated_cpu_is_its_profile(pretend, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    here = pretend()
    assert checks()[1]["calibration"]["status"] == "info"
    assert checks()[1]["calibration"]["fix"] == "roofline calibrate"
    calibrated(here)
    text = runner.invoke(
        app, ["predict", "gemv", "-N", "4096", "-K", "4096", "--formats", "BF16,INT4.BF16", "--all"]
    ).stdout
    assert "on cpu-test-cpu-2t" in text
    assert "measured-here: `roofline hardware show auto`" in text
    check = checks()[1]
    assert check["chip"]["detail"] == "cpu-test-cpu-2t: measured here, 50 GB/s"
    today = calibration.now_utc()[:10]
    assert check["calibration"]["detail"] == f"calibrated {today} (torch 2.13.0, 2 threads), today; ceilings only"
    assert (check["calibration"]["status"], check["calibration"]["fix"]) == (
        "info",
        "time the kernels too: roofline calibrate",
    )
    toml = runner.invoke(app, ["hardware", "show", "auto", "--toml"])
    assert toml.exit_code == 2
    assert "has no file of its own" in toml.stderr


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"disturbed_by": ("contended",)}, "while the machine was busy (contended)"),
        ({"measured_at": "2020-01-01T00:00:00+00:00"}, "days ago"),
        ({"measured_at": "2020-01-01T00:00:00"}, "days ago"),
    ],
)
def test_a_doubtful_or_old_calibration_is_to_be_repeated(pretend, changes, words):
    calibrated(pretend(), **changes)
    exit_code, results = checks()
    assert results["calibration"]["status"] == "warn"
    assert words in results["calibration"]["detail"]
    assert "roofline calibrate" in results["calibration"]["fix"]
    assert results["chip"]["status"] == "ok"
    assert exit_code == 0  # doubtful, not broken


def test_the_age_of_a_calibration(pretend):
    import datetime

    calibrated(pretend(), measured_at="2026-11-20T12:00:00+00:00")
    stored = calibration.cached_cpu_device(machine.find_machine()).calibration
    for days, hours in ((0, 23), (1, 25), (10, 240), (0, -5)):
        now = datetime.datetime(2026, 11, 20, 12, tzinfo=datetime.UTC) + datetime.timedelta(hours=hours)
        assert state_checks.calibration_age_days(stored, now) == days


# The machine's state ---------------------------------------------------------------------------------------------

LOCKED = {
    "clock_lock_hz": 2.1e9,
    "max_clock_hz": 3.0e9,
    "persistence": True,
    "power_limit_w": 140.0,
    "power_limit_default_w": 140.0,
}


def by_name(checks_made):
    return {check.name: check for check in checks_made}


def test_a_gpu_in_order_has_nothing_to_mend():
    checks_made = state_checks.gpu_state(LOCKED, "NVIDIA H200", 0)
    assert {check.status for check in checks_made} == {"ok"}
    assert by_name(checks_made)["clocks"].detail == "set to 2100 MHz"


@pytest.mark.parametrize(
    ("change", "others", "name", "fix"),
    [
        ({"clock_lock_hz": None}, 0, "clocks", "sudo nvidia-smi -lgc 3000"),
        ({"persistence": False}, 0, "persistence", "sudo nvidia-smi -pm 1"),
        ({}, 1, "gpu processes", "nvidia-smi --query-compute-apps"),
        ({"power_limit_w": 100.0}, 0, "power limit", "sudo nvidia-smi -pl 140"),
    ],
)
def test_each_problem_of_a_gpu_comes_with_its_command(change, others, name, fix):
    named = by_name(state_checks.gpu_state(LOCKED | change, "NVIDIA H200", others))
    assert named[name].status == "warn"
    assert fix in named[name].fix
    assert [check.name for check in named.values() if check.status == "warn"] == [name]


def test_what_a_driver_does_not_tell_is_not_a_problem():
    named = by_name(state_checks.gpu_state({}, "", None))
    assert (named["persistence"].status, named["gpu processes"].status) == ("info", "info")


def test_a_gpu_without_sensors_says_so(pretend, monkeypatch):
    from plugin.sensors import nvml

    pretend(GB10, answer=(0, "True 13.0 1\n", ""))
    monkeypatch.setattr(nvml, "open_nvml_device", lambda: (None, finding("sensors-missing", error="NVML: broken")))
    sensor_check = checks()[1]["gpu sensors"]
    assert (sensor_check["status"], "NVML: broken" in sensor_check["detail"]) == ("warn", True)


@pytest.mark.parametrize(
    ("facts", "status", "words"),
    [
        ({"governor": "performance", "boost": True}, "ok", "performance, boost on"),
        ({"governor": "powersave", "boost": False}, "warn", "powersave, boost off"),
        ({"governor": None, "hypervisor": "KVM"}, "info", "the host decides"),
        ({}, "info", "not told by the system"),
    ],
)
def test_the_governor(facts, status, words):
    check = state_checks.governor_check(facts)
    assert (check.status, words in check.detail) == (status, True)
    assert ("cpupower" in check.fix) == (status == "warn")


@pytest.mark.parametrize(
    ("others", "stolen", "warned"),
    [(0.02, 0.0, set()), (0.5, 0.0, {"cpu load"}), (0.0, 0.3, {"steal"}), (0.5, 0.3, {"cpu load", "steal"})],
)
def test_load_and_steal(others, stolen, warned):
    load = state_checks.load_checks(SimpleNamespace(others_ratio=others, stolen_ratio=stolen))
    assert {check.name for check in load if check.status == "warn"} == warned
    assert all(check.fix for check in load if check.status == "warn")
    assert state_checks.load_checks(SimpleNamespace(others_ratio=None, stolen_ratio=None))[0].status == "info"


def test_an_energy_counter_that_root_alone_reads_has_its_command(pretend, monkeypatch):
    from plugin.sensors import rapl

    pretend()
    monkeypatch.setattr(rapl, "open_cpu_sensors", lambda: (SimpleNamespace(), finding("cpu-energy-unreadable")))
    energy_check = checks()[1]["cpu energy"]
    assert (energy_check["status"], energy_check["fix"]) == ("info", fix_text(finding("cpu-energy-unreadable")))
    monkeypatch.setattr(rapl, "open_cpu_sensors", lambda: (SimpleNamespace(total_energy_j=lambda: 5.0), None))
    assert checks()[1]["cpu energy"]["status"] == "ok"


def test_a_cupti_that_cannot_be_imported_is_told_from_one_that_is_not_there(pretend, monkeypatch):
    """Version 13.4 needs a package that 13.0 does not, and a newer libcupti than torch's."""
    monkeypatch.setattr(state_checks, "installed_version", lambda name: "13.4.0")
    monkeypatch.setitem(sys.modules, "cupti", None)
    pretend(GB10, answer=(0, "True 13.0 1\n", ""))
    check = checks()[1]["cupti-python"]
    assert check["status"] == "warn"
    assert "13.4.0 cannot be imported" in check["detail"]


def test_tools_for_a_gpu_are_missed_beside_a_gpu_only(pretend, monkeypatch):
    monkeypatch.setattr(state_checks, "installed_version", lambda name: None)
    monkeypatch.setattr(state_checks.shutil, "which", lambda name: None)
    pretend()
    check = checks()[1]
    assert [check[name]["fix"] for name in ("cupti-python", "ncu", "pytest-xdist")] == ["", "", ""]
    pretend(GB10, answer=(0, "True 13.0 1\n", ""))
    check = checks()[1]
    assert check["cupti-python"]["fix"] == "pip install 'cupti-python==13.0.*'"
    assert "CUDA toolkit" in check["ncu"]["fix"]


@pytest.mark.parametrize("columns", ["80", "120"])
def test_the_table_fits_the_screen(pretend, monkeypatch, columns):
    calibrated(pretend(), disturbed_by=("contended",))
    monkeypatch.setenv("COLUMNS", columns)
    text = runner.invoke(app, ["doctor", "--all"]).stdout
    assert max(len(line) for line in text.splitlines()) <= int(columns)
    for name in ("calibration", "governor", "cpu load", "steal", "cpu energy", "cupti-python", "ncu", "pytest-xdist"):
        assert f"\n{name}" in text
