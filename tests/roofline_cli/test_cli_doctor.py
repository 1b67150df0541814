"""`roofline doctor` and `--hw auto`: every machine simulated, none needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from plugin import calibration, machine
from roofline_cli import machine_checks, packages
from roofline_cli.main import app
from roofline_model.hardware import DeviceFacts

runner = CliRunner()
ROOT = Path(__file__).parents[2]
GB10 = DeviceFacts("NVIDIA GB10", "12.1", 48, 128_000_000_000)


@pytest.fixture(autouse=True)
def _alone(monkeypatch, tmp_path):
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.delenv("ROOFLINE_DB", raising=False)
    monkeypatch.setenv("ROOFLINE_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def pretend(monkeypatch):
    """Make this machine another one: `pretend(facts, torch)`; the answer of torch's subprocess is given, too."""

    def become(facts=None, torch="2.13.0", answer=None, reason="simulated"):
        here = machine.Machine("cuda" if facts else "cpu", reason, "Test CPU", 2, 32 * 2**20, 16 * 10**9, facts, torch)
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
    code, found = checks()
    assert code == 0
    assert found["nvidia device"]["status"] == "info"
    assert found["torch"]["detail"] == "2.13.0, for this CPU"
    assert "have not been measured" in found["chip"]["detail"]
    assert found["database"]["detail"].startswith(".roofline/results.db (not there yet")
    assert not Path(".roofline").exists()


def test_a_gb10_with_a_working_torch(pretend):
    pretend(GB10, answer=(0, "True 13.0 1\n", ""))
    code, found = checks()
    assert code == 0
    assert found["torch"]["detail"] == "2.13.0, CUDA 13.0, sees 1 GPU"
    assert found["chip"]["detail"].startswith("gb10: device name 'NVIDIA GB10' matches gb10")


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
    code, found = checks()
    assert code == 1
    assert found["torch"]["status"] == "error"
    assert words in found["torch"]["detail"]
    assert found["torch"]["fix"]
    text = runner.invoke(app, ["doctor"]).stdout
    assert "1 broken: see above" in text
    assert f"torch: {found['torch']['fix']}" in text


def test_an_unknown_gpu_is_named_with_what_to_do(pretend):
    pretend(DeviceFacts("NVIDIA Whatever 9000", "15.0"), answer=(0, "True 13.0 1\n", ""))
    code, found = checks()
    assert code == 0
    assert found["chip"]["status"] == "warn"
    assert "NVIDIA Whatever 9000" in found["chip"]["detail"]
    assert "--toml" in found["chip"]["fix"]


def test_without_torch_predictions_still_work(pretend):
    pretend(torch=None)
    code, found = checks()
    assert code == 0
    assert found["torch"]["status"] == "warn"
    assert "[measure]" in found["torch"]["fix"]
    assert "torch missing" in found["extra measure"]["detail"]


def test_database_problems_are_broken(pretend, tmp_path):
    pretend()
    code, found = checks("--db", str(tmp_path))
    assert (code, found["database"]["status"]) == (1, "error")
    assert "is a folder" in found["database"]["detail"]
    (tmp_path / "x.txt").write_text("no database at all, but long enough to be taken for one" * 20)
    code, found = checks("--db", str(tmp_path / "x.txt"))
    assert (code, found["database"]["status"]) == (1, "error")


def test_a_database_url_does_not_show_its_password(pretend):
    pretend()
    _, found = checks("--db", "postgresql+psycopg://me:s3cret@127.0.0.1:1/none")
    assert found["database"]["status"] == "error"
    assert "s3cret" not in json.dumps(found)


def test_a_place_that_cannot_be_written_is_broken(pretend, tmp_path, monkeypatch):
    pretend()
    (tmp_path / "locked").mkdir()
    access = os.access  # asked, not tried: the tests may run as root, who may write anywhere
    monkeypatch.setattr(
        machine_checks.os, "access", lambda path, mode: Path(path).name != "locked" and access(path, mode)
    )
    code, found = checks("--db", str(tmp_path / "locked" / "r.db"))
    assert code == 1
    assert "not writable" in found["database"]["detail"]


def test_extras_mirror_pyproject():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = {
        "core": project["dependencies"],
        **{name: project["optional-dependencies"][name] for name in packages.EXTRAS if name != "core"},
    }
    for extra, requirements in wanted.items():
        pairs = [requirement.replace("[binary]", "").split(">=") for requirement in requirements]
        assert packages.EXTRAS[extra] == tuple((name, smallest) for name, smallest in pairs)
    assert set(project["optional-dependencies"]) - {"dev"} <= set(packages.EXTRAS) | {"api"}
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
    assert data["hardware"] == "gb10"


def test_hw_auto_on_an_uncalibrated_cpu_says_what_to_type(pretend):
    pretend()
    result = runner.invoke(app, ["predict", "gemv", "-N", "4096", "-K", "4096"])
    assert result.exit_code == 2
    assert "Test CPU" in result.stderr
    assert "--hw gb10" in result.stderr


def test_hw_auto_on_a_calibrated_cpu_is_its_profile(pretend):
    from plugin.ceilings import Ceilings

    here = pretend()
    ceilings = Ceilings(dram_bytes_per_s=50e9, dram_kernel="copy", cache_capacity_bytes=float(2**25), cache_bytes_per_s=200e9, flops_per_s={"FP32": 1e12, "BF16": 2e12}, seconds=1.0)  # fmt: skip
    calibration._write_cache(here, ceilings)
    text = runner.invoke(app, ["predict", "gemv", "-N", "4096", "-K", "4096", "--formats", "BF16,INT4.BF16"]).stdout
    assert "on cpu-test-cpu-2t" in text
    assert "measured-here: `roofline hardware show auto`" in text
    assert checks()[1]["chip"]["detail"] == "cpu-test-cpu-2t: measured here, 50 GB/s"
    toml = runner.invoke(app, ["hardware", "show", "auto", "--toml"])
    assert toml.exit_code == 2
    assert "has no file of its own" in toml.stderr


def test_ceilings_measured_on_a_busy_machine_are_doubted(pretend, monkeypatch):
    from dataclasses import replace

    from roofline_model.hardware import get_hardware

    pretend()
    profile = replace(get_hardware("b10"), notes=("About the memory.", calibration.BUSY_NOTE))
    monkeypatch.setattr(calibration, "cached_cpu_device", lambda here: profile)
    exit_code, found = checks()
    assert found["chip"]["status"] == "warn"
    assert calibration.BUSY_NOTE in found["chip"]["detail"]
    assert "About the memory" not in found["chip"]["detail"]
    assert "roofline calibrate" in found["chip"]["fix"]
    assert exit_code == 0  # doubtful, not broken
