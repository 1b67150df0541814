"""`roofline doctor --noise`: what it runs, what it stores, what it says. pytest itself is played by a writer of
records.
"""

from __future__ import annotations

import json
import math
import uuid
from dataclasses import replace

import pytest
from run_makers import flat_measurement
from typer.testing import CliRunner

from results import open_store
from results.cases.case_result import case_results
from results.records.records import EnvironmentInfo, Method, ProcessInfo, Record, RunInfo
from roofline_cli.machine import noise
from roofline_cli.main import app
from roofline_cli.shared import measuring
from roofline_model.operators.case import Case

runner = CliRunner()
CLASS = EnvironmentInfo({"cpu": "any"}, {"cpu": "any"})
METHOD = Method("monotonic", "2", {"max_seconds": 0.7})
FORMATS = ("BF16", "FP32", "INT8")
STEPS = (0.0, 0.02, -0.02, 0.01, -0.01, 0.0, 0.015, -0.015)


def case(index: int) -> Case:
    return Case(
        "gemv", (("M", 1), ("N", 4096), ("K", 4096)), (("a", "BF16"), ("b", FORMATS[index])), "matmul", cache="cold"
    )


def record(run_id: str, index: int, process: int, flags: tuple[str, ...] = ()) -> Record:
    time_s = 1e-3 * (index + 1) * math.exp(STEPS[process % 8] * (index + 1))
    measured = flat_measurement(time_s, 3, std_s=0.03 * time_s, stop_reason="budget", flags=flags)
    return Record(
        record_id=uuid.uuid4().hex,
        run_id=run_id,
        case=case(index),
        status="measured",
        process=ProcessInfo(process, 100 + process, "box"),
        method=METHOD,
        measurement=measured,
        created_at="2026-03-01T10:00:01.000000+00:00",
    )


@pytest.fixture(autouse=True)
def _alone(monkeypatch, tmp_path):
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setenv("ROOFLINE_DB", str(tmp_path / "noise.db"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def pytest_run(monkeypatch, tmp_path):
    """Stand in for pytest: keeps the commands, stores the records a run would, ends with the given code."""
    commands: list[list[str]] = []

    def play(exit_code=0, errors="", flags=(), cases=3, lost=()):
        def run(command):
            commands.append(command)
            if exit_code in (0, 1):
                count = int(command[command.index("--roofline-processes") + 1])
                info = RunInfo(
                    uuid.uuid4().hex,
                    "2026-03-01T10:00:00.000000+00:00",
                    label=command[command.index("--roofline-run") + 1],
                    environment=CLASS,
                )
                with open_store(tmp_path / "noise.db") as store:
                    store.begin_run(info)
                    for process in range(count):
                        for index in range(cases):
                            if (index, process) not in lost:
                                store.add_record(record(info.run_id, index, process, flags))
                    store.finish_run(info.run_id, status="complete", exit_code=exit_code, finished_at=info.started_at)
            return exit_code, errors

        monkeypatch.setattr(measuring, "run_workloads", run)
        return commands

    return play


def stored(tmp_path):
    with open_store(tmp_path / "noise.db", read_only=True) as store:
        return store.noise_floors(CLASS.class_hash)


def test_floors_are_stored_and_a_later_single_process_takes_its_interval_from_them(pytest_run, tmp_path):
    pytest_run()
    done = runner.invoke(app, ["doctor", "--noise"])
    assert done.exit_code == 0, done.output
    floors = stored(tmp_path)
    assert {key[0] for key in floors} == {case(index).case_key for index in range(3)}
    first = floors[case(0).case_key, METHOD.method_hash]
    assert first.process_count == 8
    assert first.between_sd_ratio == pytest.approx(0.0144, abs=1e-4)
    assert first.within_sd_ratio == pytest.approx(0.03)
    later = next(
        each.total for each in case_results([record("later", 0, 0)], floors) if each.case_key == case(0).case_key
    )
    assert later.basis == "floor"
    assert later.basis == "floor"
    assert 0.02 < later.half_width_ratio < 0.06


def test_what_is_run_is_what_was_asked_for(pytest_run):
    commands = pytest_run()
    arguments = ["--processes", "4", "--shapes", "1x64x64", "-k", "gemv and not int", "--db", "noise.db"]
    assert runner.invoke(app, ["doctor", "--noise", *arguments]).exit_code == 0
    (command,) = commands
    for words in (
        ["--roofline-processes", "4"],
        ["--roofline-shapes", "1x64x64"],
        ["-k", "gemv and not int"],
        ["--roofline-db", "noise.db"],
    ):
        assert command[command.index(words[0]) + 1] == words[1]
    assert command[:4] == measuring.workload_command()[:4]
    assert command[command.index("--roofline-run") + 1].startswith("noise-")


def test_json_says_all_of_it(pytest_run):
    pytest_run(lost={(2, process) for process in range(3)})
    document = json.loads(runner.invoke(app, ["doctor", "--noise", "--json"]).stdout)
    assert document["class_hash"] == CLASS.class_hash
    assert (document["disturbed_ratio"], document["is_stored"]) == (0, True)
    assert document["verdict"].startswith("usable: ")
    assert [case["process_count"] for case in document["cases"]] == [8, 8, 5]
    assert document["cases"][0]["case_id"] == f"gemv {case(0).id}"
    for noise_case in document["cases"]:
        assert (
            noise_case["smallest_step_ratio"]["8"]
            < noise_case["smallest_step_ratio"]["3"]
            < noise_case["smallest_step_ratio"]["1"]
        )
    assert document["cases"][0]["between_sd_ratio"] < document["cases"][1]["between_sd_ratio"]


@pytest.mark.parametrize("width", [80, 120])
def test_table_fits_the_screen(pytest_run, monkeypatch, width):
    pytest_run()
    monkeypatch.setenv("COLUMNS", str(width))
    lines = runner.invoke(app, ["doctor", "--noise"]).stdout.splitlines()
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    header = next(line for line in lines if "Between" in line)
    assert header.split()[:2] == ["Format", "Kernel"]
    assert "Step 3" in header
    for words in ("1.4 %", "2.9 %", "usable: medians of fresh processes differ by", "stored as this machine's floor"):
        assert words in text


def test_noise_of_other_work_is_named_and_not_stored(pytest_run, tmp_path):
    pytest_run(flags=("contended",))
    done = runner.invoke(app, ["doctor", "--noise"])
    assert "Other processes used the CPUs in 100% of the measurements: measure again on a quiet machine" in done.stdout
    assert "not stored: this is the noise of other work" in done.stdout
    assert stored(tmp_path) == {}


def test_a_failed_kernel_is_exit_code_one_and_the_rest_is_stored(pytest_run, tmp_path):
    pytest_run(exit_code=1)
    assert runner.invoke(app, ["doctor", "--noise"]).exit_code == 1
    assert len(stored(tmp_path)) == 3


@pytest.mark.parametrize(
    ("played", "arguments", "message"),
    [
        (
            {"exit_code": 5},
            ["-k", "nothing"],
            "-k nothing selects no case; `pytest bench_cases --collect-only -q` lists them",
        ),
        ({"exit_code": 4, "errors": "ERROR: --roofline-shapes is empty\n"}, ["--shapes", " "], "--shapes is empty"),
        ({"exit_code": 3}, [], "measuring stopped (pytest exit code 3)"),
        ({"lost": {(i, p) for i in range(3) for p in range(1, 8)}}, [], "no case was measured in two processes"),
    ],
)
def test_what_goes_wrong_is_one_line(pytest_run, played, arguments, message):
    pytest_run(**played)
    done = runner.invoke(app, ["doctor", "--noise", *arguments])
    assert done.exit_code == 2
    assert message in done.stderr
    assert "Traceback" not in done.output


@pytest.mark.parametrize("arguments", [["--processes", "4"], ["--shapes", "quick"], ["-k", "gemv"]])
def test_options_of_noise_need_noise(arguments):
    done = runner.invoke(app, ["doctor", *arguments])
    assert done.exit_code == 2
    assert f"{arguments[0]} belongs to --noise" in done.stderr
    assert runner.invoke(app, ["doctor", "--noise", "--processes", "1"]).exit_code == 2


@pytest.mark.parametrize(("sd", "word"), [(0.002, "quiet"), (0.03, "usable"), (0.2, "noisy")])
def test_verdict_of_a_machine(sd, word):
    from results.records.state_records import NoiseFloor
    from results.statistics.noise_floor import sensitivities

    floor = NoiseFloor(CLASS.class_hash, "k", METHOD.method_hash, sd, None, 8, "2026-03-01T10:00:00+00:00")
    quieter = replace(floor, case_key="other", between_sd_ratio=sd * 0.9)
    cases = [
        noise.CaseNoise(case(index), sensitivity) for index, sensitivity in enumerate(sensitivities([floor, quieter]))
    ]
    text = noise.verdict_text(cases, 0.0)
    assert text.startswith(f"{word}: ")
    assert f", gemv {case(0).id});" in text
