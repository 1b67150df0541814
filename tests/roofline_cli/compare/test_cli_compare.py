"""Measuring `roofline compare`: the pytest it starts, what it reads back, and how it fails."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from run_makers import flat_measurement
from typer.testing import CliRunner

from results.records.records import HardwareProfile, PredictionRecord, Record, RunInfo
from roofline_cli.compare import measured
from roofline_cli.main import app
from roofline_cli.shared import measuring
from roofline_cli.shared.measuring import MeasuringPlan, pytest_command, shown_command
from roofline_model.chips.hardware import get_hardware
from roofline_model.ideal.roofline import predict
from roofline_model.operators.product import gemm

runner = CliRunner()
ROOT = Path(__file__).parents[3]


class Started(list):
    """The commands started so far; `flags`: kernel → flags that its measurement gets; `weights`: what is stored;
    `unmeasured`: status of what has no time.
    """

    def __init__(self) -> None:
        super().__init__()
        self.flags: dict[str, tuple[str, ...]] = {}
        self.weights: tuple[str, ...] = ("FP16", "INT4", "NVFP4")
        self.unmeasured = "failed"


@pytest.fixture
def fake_pytest(monkeypatch, tmp_path):
    """Stand in for the subprocess: stores what a run of three kernels would store, under the label asked for."""
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.chdir(tmp_path)
    started = Started()

    def run(command, environment, timeout_s):
        from results import open_store

        started.append((command, environment))
        option = dict(itertools.pairwise(command))
        chip = get_hardware("b10")
        m, n, k = (int(size) for size in option["--roofline-shapes"].split("x"))
        with open_store(option.get("--roofline-db")) as store:
            info = RunInfo(
                run_id="ab" * 16,
                started_at="2026-11-21T09:00:00.000000+00:00",
                label=option["--roofline-run"],
                hardware_key="b10",
            )
            store.begin_run(info)
            store.add_profile(HardwareProfile(chip.key, chip.name, chip.content_hash, chip.to_dict()))
            kernels = [
                ("FP16", "FP16", "matmul", 40e-6),
                ("INT4", "BF16", "tinygemm", 16e-6),
                ("NVFP4", "NVFP4", "scaled_mm_block", None),
            ]
            for number, (weight, activation, kernel, median_s) in enumerate(kernels):
                if weight not in started.weights:
                    continue
                work = gemm(m, n, k, a=activation, b=weight)
                prediction = PredictionRecord.from_prediction(predict(work, chip), chip.content_hash, median_s)
                store.add_record(
                    Record(
                        record_id=f"{number:032x}",
                        run_id=info.run_id,
                        case=work.case(kernel),
                        status=started.unmeasured if median_s is None else "measured",
                        reason="wrong result: 0.5 > 0.1" if median_s is None and started.unmeasured == "failed" else "",
                        predictions=(prediction,),
                        measurement=None
                        if median_s is None
                        else flat_measurement(median_s, half_width=0.01, flags=started.flags.get(kernel, ())),
                    )
                )
            store.finish_run(
                info.run_id, status="complete", exit_code=1, finished_at="2026-11-21T09:00:05.000000+00:00"
            )
        return 1, ""

    monkeypatch.setattr(measuring, "_run", run)
    monkeypatch.setattr(measured, "check_can_measure", lambda: None)
    return started


def test_predicted_and_measured_stand_side_by_side(fake_pytest):
    result = runner.invoke(app, ["compare", "gemv", "-N", "4096", "-K", "4096", "--hw", "b10"])
    assert result.exit_code == 1  # a kernel was wrong: shown, stored and not called a success
    rows = {line.split()[0]: line.split() for line in result.stdout.splitlines() if line.strip()}
    # INT4 (W4A16): ideal 8.4048 µs, measured 16 µs, (8.4048 − 16) / 16; 8.4048 MB in 16 µs; 33.57 / 8.4048; 40 / 16
    assert rows["riskier"] == [
        "riskier",
        "INT4",
        "(W4A16)",
        "tinygemm",
        "16.00",
        "µs",
        "8.40",
        "µs",
        "-47.5",
        "%",
        "2.5×",
        "≤",
        "6.5",
        "%",
    ]
    assert rows["take"][:2] == ["take", "FP16"]
    assert rows["take"][-2:] == ["1.0×", "0"]
    lines = result.stdout.splitlines()
    assert len(lines) <= 12
    assert lines[0].startswith("Stay with FP16 · matmul: measured 40 µs; ")
    assert "· scaled_mm_block: wrong result: 0.5 > 0.1" in result.stdout
    assert lines[-2] == "Next: roofline report --run abababab"


def test_a_format_that_loses_too_much_alone_is_the_one_named(fake_pytest):
    fake_pytest.weights, fake_pytest.unmeasured = ("NVFP4",), "predicted"
    first = runner.invoke(app, ["compare", "gemv", "-N", "4096", "-K", "4096", "--hw", "b10"]).stdout.splitlines()[0]
    assert "NVFP4 (W4A4) · scaled_mm_block: may lose 11.8 %" in first
    assert "INT4" not in first  # a format of which the run holds nothing


def test_all_adds_intervals_rates_and_the_ranking(fake_pytest):
    result = runner.invoke(app, ["compare", "gemv", "-N", "4096", "-K", "4096", "--hw", "b10", "--all"])
    row = next(line.split() for line in result.stdout.splitlines() if line.startswith("INT4"))
    # ±1 % of one process; 8.4048 MB in 16 µs; 33.57 / 8.4048; 40 / 16
    assert " ".join(row[3:]) == "16.00 µs ±1.0 %* 8.40 µs -47.5 % 53 % 525.3 GB/s memory 4.0× 2.5×"
    assert "  failed: NVFP4" in result.stdout
    assert "Ranking, decode 1x4096x4096" in result.stdout


@pytest.mark.parametrize("kernel", ["matmul", "tinygemm"])
def test_doubtful_measurements_are_marked_on_either_side(fake_pytest, kernel):
    fake_pytest.flags[kernel] = ("contended",)
    arguments = ["compare", "gemv", "-N", "4096", "-K", "4096", "--hw", "b10"]
    lines = runner.invoke(app, arguments).stdout.splitlines()
    marked = [line for line in lines if "!" in line.split() and "µs" in line]
    assert [kernel in line for line in marked] == [True]
    assert lines[0].startswith("No result: the machine was busy (contended")
    assert "doubtful" not in lines[0]  # said once
    assert not any("×" in line or "Gain" in line for line in lines)  # no figure of times that compare with nothing
    fake_pytest.flags.clear()


def test_a_quiet_measurement_has_no_mark(fake_pytest):
    fake_pytest.flags["matmul"] = ("throttled-elsewhere",)  # not a flag that puts a time in doubt
    text = runner.invoke(app, ["compare", "gemv", "-N", "4096", "-K", "4096", "--hw", "b10"]).stdout
    assert "!" not in text
    assert "doubtful" not in text


def test_json_carries_both_speedups_and_the_ranking(fake_pytest):
    result = runner.invoke(app, ["compare", "gemm", "-M", "8", "-N", "4096", "-K", "4096", "--hw", "b10", "--json"])
    data = json.loads(result.stdout)
    assert (data["op"], data["is_measured"], data["run_id"]) == ("gemv", True, "ab" * 16)  # up to M = 16 it is a gemv
    best = data["cases"][0]
    assert best["kernel"] == "tinygemm"
    assert best["measured_speedup_ratio"] == pytest.approx(2.5)
    assert best["predicted_speedup_ratio"] == pytest.approx(data["cases"][1]["ideal_s"] / best["ideal_s"])
    assert data["cases"][-1]["status"] == "failed"
    assert data["recommendation"]["candidates"][0]["time_source"] == "measured"
    assert "measured" in data["recommendation"]["summary"]


def test_options_reach_pytest(fake_pytest, tmp_path):
    database = str(tmp_path / "mine.db")
    arguments = [
        "compare",
        "gemm",
        "-M",
        "32",
        "-N",
        "64",
        "-K",
        "64",
        "--hw",
        "b10",
        "--formats",
        "BF16,INT4.BF16",
        "--cache",
        "warm",
        "--db",
        database,
    ]
    runner.invoke(app, arguments)
    command, environment = fake_pytest[0]
    option = dict(itertools.pairwise(command))
    assert option["-k"] == "gemm"
    assert option["--roofline-shapes"] == "32x64x64"
    assert option["--roofline-formats"] == "BF16,INT4"
    assert option["--roofline-cache"] == "warm"
    assert option["--roofline-db"] == database
    assert option["--roofline-hw"] == "b10"
    assert option["--roofline-run"].startswith("compare-32x64x64-")
    assert "PYTEST_ADDOPTS" not in environment


def test_every_run_has_a_label_of_its_own():
    plan = MeasuringPlan("gemv", (1, 2, 3), "auto", None, None)
    assert plan.label() != plan.label()
    assert "--roofline-db" not in pytest_command(plan, plan.label())
    assert shown_command(plan) == "pytest --pyargs bench_cases -k gemv --roofline-shapes 1x2x3 --roofline-hw auto"


@pytest.mark.parametrize(
    ("exit_code", "errors", "words"),
    [
        (2, "ERROR: --roofline-db: something is wrong\n", "error: --db: something is wrong\n"),
        (4, "", "measuring stopped (pytest exit code 4)"),
        (5, "", "no gemv kernel was selected for INT8"),
    ],
)
def test_a_pytest_that_stores_nothing_is_one_line(monkeypatch, tmp_path, exit_code, errors, words):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(measuring, "_run", lambda command, environment, *given: (exit_code, errors))
    monkeypatch.setattr(measured, "check_can_measure", lambda: None)
    result = runner.invoke(app, ["compare", "gemv", "-N", "64", "-K", "64", "--hw", "b10", "--formats", "INT8"])
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert words in result.stderr


def test_missing_torch_names_the_command(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    find_spec = measuring.importlib.util.find_spec
    monkeypatch.setattr(
        measuring.importlib.util, "find_spec", lambda name, *a: None if name == "torch" else find_spec(name, *a)
    )
    result = runner.invoke(app, ["compare", "gemv", "-N", "64", "-K", "64", "--hw", "b10"])
    assert result.exit_code == 2
    assert "pip install -e '.[measure]'" in result.stderr
    assert "--no-measure" in result.stderr
    assert not (tmp_path / ".roofline").exists()


def test_user_formats_have_no_kernel(tmp_path, monkeypatch):
    from roofline_model.formats import catalog as formats

    monkeypatch.setattr(formats, "_USER_FORMATS", {})
    (tmp_path / "mine.toml").write_text('[MINE3]\nkind = "int"\nelement_bits = 3\n')
    result = runner.invoke(
        app, ["compare", "gemv", "-N", "64", "-K", "64", "--hw", "b10", "--formats-file", str(tmp_path / "mine.toml")]
    )
    assert result.exit_code == 2
    assert "add --no-measure" in result.stderr


def test_a_real_pytest_run_in_a_hostile_folder(tmp_path):
    """End to end: a chip this machine is not, from a folder whose own files would shadow ours and break pytest."""
    (tmp_path / "results.py").write_text("raise SystemExit('shadowed')\n")
    (tmp_path / "plugin").mkdir()
    (tmp_path / "plugin" / "__init__.py").write_text("raise SystemExit('shadowed')\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --no-such-option\n")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": "--no-such-option"}
    environment.pop("COLUMNS", None)
    environment.pop("ROOFLINE_DB", None)
    result = subprocess.run(
        [
            sys.executable,
            "-P",
            "-m",
            "roofline_cli",
            "compare",
            "gemv",
            "-N",
            "256",
            "-K",
            "256",
            "--hw",
            "b10",
            "--formats",
            "FP16,INT8",
            "--json",
        ],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    data = json.loads(result.stdout)
    assert data["is_measured"] is False
    assert {case["status"] for case in data["cases"]} == {"predicted"}
    assert {case["formats"]["b"] for case in data["cases"]} >= {"FP16", "INT8"}
    assert all(case["measured_s"] is None and case["ideal_s"] > 0 for case in data["cases"])
    assert (tmp_path / ".roofline" / "results.db").is_file()
    assert not (tmp_path / ".pytest_cache").exists()
