"""Measuring a candidate: the command, the export that is read, processes that end, and one real pipeline."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest
from calibrated_cpu import calibrated_cpu
from pipeline_runs import BASELINE, cpu_chip, predicted, records
from run_makers import make_run

from bench_cases.models.reference import find_model
from bench_cases.pipeline.measure import MeasureRequest, measure_command, measure_pair, read_pair
from bench_cases.pipeline.pytest_run import pytest_command, pytest_failure_text, run_pytest
from bench_cases.pipeline.recommend import (
    host_time_s,
    pipeline_case,
    recommend_precisions,
    time_finding,
)
from bench_cases.pipeline.settings import PipelineLimits, make_settings
from bench_cases.quantization.target import Target
from results.exchange.exported.export import ExportedRun, export_document
from roofline_model.chips.hardware import get_hardware
from roofline_model.core.errors import UnsupportedError
from roofline_model.core.finding import finding
from roofline_model.models.model_pass import HostTime
from roofline_model.recommend.ranking import MAX_LOSS_PCT

ROOT = Path(__file__).resolve().parents[3]


def settings(**given):
    wanted = {
        "hw": "auto",
        "phase": "decode",
        "batch": 1,
        "context": None,
        "limits": PipelineLimits(),
        "candidates": 3,
        "processes": 1,
        "formats": None,
        "method": "round-to-nearest",
        "text": None,
    }
    return make_settings("seeded-llama-1m", **{**wanted, **given})


def request(folder, **given) -> MeasureRequest:
    model, wanted = find_model("seeded-llama-1m"), settings(method=given.pop("method", "round-to-nearest"))
    defaults = {
        "baseline": pipeline_case(model, "BF16", wanted, "cpu"),
        "case": pipeline_case(model, "INT4", wanted, "cpu"),
        "hw": "auto",
        "device": "cpu",
        "db": str(folder / "r.db"),
        "label": "a label",
        "folder": folder,
        "processes_count": 2,
        "parameters_count": 7_000_000_000,
        "slowest_s": 0.5,
        "text": "",
    }
    return MeasureRequest(**{**defaults, **given})


# --- the command


def test_a_trained_model_may_lose_what_every_recommendation_allows():
    assert settings().limits_of(is_seeded=False) == PipelineLimits(loss_pct=MAX_LOSS_PCT)
    assert settings().limits_of(is_seeded=True) == PipelineLimits()  # untrained weights have no quality
    given = PipelineLimits(memory_bytes=1e9, loss_pct=10.0)
    assert (
        settings(limits=given).limits_of(is_seeded=True) == settings(limits=given).limits_of(is_seeded=False) == given
    )


def test_the_command_selects_the_pair_and_its_limits_grow_with_the_model(tmp_path):
    plain = request(tmp_path)
    command = measure_command(plain)
    cases = [word for word in command if "::" in word]
    assert [word.partition("[")[2] for word in cases] == [
        "decode-1x1x128-w16a16-BF16.BF16-transformers-warm]",
        "decode-1x1x128-w4a16-INT4.BF16-torchao-warm]",
    ]
    options = dict(pairwise(command))
    assert options["--roofline-formats"] == "BF16,INT4"
    assert options["--roofline-processes"] == "2"
    assert float(options["--roofline-max-seconds"]) == 30  # 60 passes of half a second
    assert float(options["--roofline-timeout"]) > 7 * 600
    calibrated = request(tmp_path, method="AWQ")
    assert calibrated.case.kernel == "torchao.awq"
    assert calibrated.timeout_s > 3 * plain.timeout_s
    assert dict(pairwise(measure_command(calibrated)))["--roofline-method"] == "AWQ"


def test_pytest_collects_exactly_the_two_cases(tmp_path):
    command = measure_command(request(tmp_path, processes_count=1))
    code = run_pytest([*command, "--collect-only", "-q"], tmp_path / "log", timeout_s=120)
    log = (tmp_path / "log").read_text()
    assert code == 0, log
    assert log.count("test_model_quant[") == 2


# --- the export


def exported(question: MeasureRequest, *given) -> MeasureRequest:
    """Write a run of these records where pytest would."""
    question.export.write_text(
        json.dumps(export_document(ExportedRun(make_run(run_id="a" * 32), (), (), tuple(given))))
    )
    return question


def test_an_export_holds_both_cases_pooled_over_their_processes(tmp_path):
    expected = (predicted("expected", 4, 1), predicted("ideal", 1))
    base, own = records("BF16", 0.03, 0.03, **BASELINE), records("INT4", 0.02, 0.01, predictions=expected, issue_s=0.02)
    pair = read_pair(exported(request(tmp_path), *base, *own))
    int4 = pair.candidate
    assert (int4.measured_s, pair.baseline.measured_s) == pytest.approx(((0.02 * 0.01) ** 0.5, 0.03))
    assert (int4.process_count, pair.run_id) == (2, "a" * 32)
    assert (int4.expected.time_s, int4.expected.terms_s["host"], int4.model.issue_s) == (0.004, 0.001, 0.02)
    assert (int4.model.resident_bytes, int4.model.loss_pct) == (350, pytest.approx(1.5))


def test_a_case_that_was_not_measured_says_why(tmp_path):
    base = records("BF16", 0.03, **BASELINE)
    skipped = records("INT4", status="skipped", reason="torchao has no kernel")
    pair = read_pair(exported(request(tmp_path), *base, *skipped))
    assert (pair.candidate.status, pair.reason_of(pair.candidate)) == ("skipped", "torchao has no kernel")
    alone = read_pair(exported(request(tmp_path), *base))
    assert (alone.candidate, alone.reason_of(alone.candidate)) == (None, "not reached")


def test_an_export_of_another_form_is_a_failure_with_its_reason(tmp_path, monkeypatch):
    question = request(tmp_path)

    def writes(command, log, *, timeout_s):
        question.export.write_text(json.dumps({"records": [{"status": "measured"}], "run": {}}))
        return 0

    monkeypatch.setattr("bench_cases.pipeline.measure.run_pytest", writes)
    pair = measure_pair(question)
    assert (pair.candidate, pair.baseline) == (None, None)
    assert "not a run exported" in pair.reason_of(None)


# --- the process


def test_pytest_that_cannot_start_measuring_says_why_in_a_line(tmp_path):
    pair = measure_pair(request(tmp_path, hw="no-such-chip"))
    assert pair.candidate is pair.baseline is None
    assert "unknown hardware 'no-such-chip'" in pair.reason_of(None)
    assert "\n" not in pair.failure


def test_a_process_that_takes_too_long_is_ended(tmp_path):
    begin = time.monotonic()
    code = run_pytest([sys.executable, "-c", "import time; time.sleep(60)"], tmp_path / "log", timeout_s=0.3)
    assert code is None
    assert time.monotonic() - begin < 30
    assert pytest_failure_text(tmp_path / "log", code) == "time limit reached"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the death signal is Linux's")
def test_a_killed_pipeline_leaves_no_measurement_behind(tmp_path):
    code = (
        "import sys; from pathlib import Path; from bench_cases.pipeline.pytest_run import run_pytest\n"
        "child = 'import os, sys, time; open(sys.argv[1], \"w\").write(str(os.getpid())); time.sleep(60)'\n"
        "run_pytest([sys.executable, '-c', child, sys.argv[1]], Path(sys.argv[1] + '.log'), timeout_s=60)\n"
    )
    place = tmp_path / "pid"
    parent = subprocess.Popen([sys.executable, "-c", code, str(place)], cwd=ROOT)
    for _ in range(600):
        if place.is_file() and place.read_text():
            break
        time.sleep(0.05)
    child = int(place.read_text())
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    deadline = time.monotonic() + 10
    while _lives(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    outlived = _lives(child)
    if outlived:
        os.kill(child, signal.SIGKILL)
    assert not outlived, "the child outlived its killed parent"


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_the_log_is_told_by_pytests_own_error(tmp_path):
    (tmp_path / "log").write_text("collected 2 items\nERROR: --roofline-hw: unknown\x1b chip\nmore\n")
    assert pytest_failure_text(tmp_path / "log", 4) == "pytest ended with 4: --hw: unknown? chip"
    assert "it said nothing" in pytest_failure_text(tmp_path / "absent", 3)
    assert pytest_command()[1:4] == ["-P", "-m", "pytest"]


# --- the ranking


def host_unknown(case, work):
    return None


def test_candidates_are_what_the_device_runs_ranked_by_the_time_of_the_real_path():
    recommendation = recommend_precisions(
        find_model("seeded-llama-1m"), settings(), cpu_chip(), Target("cpu"), host_unknown
    )
    assert recommendation.candidates[0].key == "INT4"
    left = dict(recommendation.left_out)
    assert left["FP8"] == finding(
        "torchao-kernel-missing", "FP8", kind="device", device="cpu"
    )  # a fallback to FP8.BF16 is no candidate
    assert left["MXFP8"].value("best_count") == 3
    assert recommendation.speedup(recommendation.candidates[0], "ideal") > 2.5


def test_a_gpu_runs_others_and_ranks_by_expected_times():
    h100 = get_hardware("h100-sxm")
    target = Target("cuda", (9, 0))
    wanted = settings(candidates=20)
    recommendation = recommend_precisions(find_model("seeded-llama-156m"), wanted, h100, target, host_unknown)
    timed = [option.times.expected_s for option in recommendation.candidates if option.times.expected is not None]
    assert timed == sorted(timed)
    assert len(timed) >= 3
    assert {"FP8", "INT4", "INT8.INT8"} <= {option.key for option in recommendation.candidates}
    assert "NVFP4" in dict(recommendation.left_out)
    assert all(time_finding(option) for option in recommendation.candidates if option.times.expected is None)
    assert {time_finding(option) for option in recommendation.candidates if option.times.expected is not None} == {
        finding("device-time", kind="step")
    }


def test_what_disturbed_the_baseline_alone_is_no_speedup():
    def disturbed(case, work):
        return HostTime(0.030 if case.is_plain else 0.004, 0.003, 0.09, "by hand")

    model, wanted, cpu = find_model("seeded-llama-1m"), settings(candidates=1), calibrated_cpu()
    alone = recommend_precisions(model, wanted, cpu, Target("cpu"), host_unknown)
    with_host = recommend_precisions(model, wanted, cpu, Target("cpu"), disturbed)
    assert host_time_s(with_host.baseline) == pytest.approx(0.003)  # the fastest call, not the disturbed quartile
    assert with_host.baseline.times.expected_s == pytest.approx(alone.baseline.times.expected_s + 0.003)
    assert host_time_s(with_host.candidates[0]) == pytest.approx(0.004)


def test_a_memory_limit_rules_out_before_anything_is_measured():
    limit = settings(limits=PipelineLimits(memory_bytes=0.5e6), candidates=2)
    recommendation = recommend_precisions(find_model("seeded-llama-1m"), limit, cpu_chip(), Target("cpu"), host_unknown)
    assert {option.key for option in recommendation.candidates} <= {
        "INT4",
        "NVFP4.BF16",
        "MXFP4",
        "INT4.INT8",
    }
    assert "INT8" in {option.key for option in recommendation.too_large}


def test_methods_are_given_to_the_precisions_they_exist_for():
    wanted = settings(method="awq")
    model = find_model("seeded-llama-1m")
    assert pipeline_case(model, "INT4", wanted, "cpu").method == "AWQ"
    assert pipeline_case(model, "INT8.INT8", wanted, "cpu").method == "round-to-nearest"
    assert pipeline_case(model, "BF16", wanted, "cpu").method == "round-to-nearest"


def test_the_methods_are_those_of_the_quantizer():
    pytest.importorskip("torchao")
    from bench_cases.quantization import PRECISIONS, calibrated
    from bench_cases.quantization.plans.recipes import METHOD_PRECISIONS

    assert ("round-to-nearest", *METHOD_PRECISIONS) == calibrated.METHODS
    assert {precision for method_precision in METHOD_PRECISIONS.values() for precision in method_precision} <= set(
        PRECISIONS
    )


def test_nothing_to_run_is_said_with_every_reason():
    with pytest.raises(UnsupportedError, match=r"cpu.*FP8.*NVFP4"):
        recommend_precisions(
            find_model("seeded-llama-1m"), settings(formats=("FP8", "NVFP4")), cpu_chip(), Target("cpu"), host_unknown
        )


# --- all of it


@pytest.mark.full
def test_a_real_pipeline_on_a_model_that_fits_in_the_cache(tmp_path):
    """A decode step of the 1M model is the framework's own time: the clock must not be told 3×."""
    pytest.importorskip("torchao")
    command = [
        sys.executable,
        "-m",
        "roofline_cli",
        "pipeline",
        "--model",
        "seeded-llama-1m",
        "-o",
        str(tmp_path / "out"),
        "--json",
        "--candidates",
        "1",
        "--processes",
        "2",
        "--db",
        str(tmp_path / "r.db"),
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    (int4,) = document["candidates"]
    assert document["outcome"] == "nothing-helps"
    assert int4["ideal_speedup"] > 2.5
    assert int4["measured_speedup"]["low"] < 1
    assert int4["quality"]["source"] == "none"  # untrained
    assert "untrained" in " ".join(document["sentences"])
    assert (tmp_path / "out" / "report.html").stat().st_size > 10_000
    again = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert again.stderr.count("(from an earlier run)") == 3
    assert json.loads(again.stdout) == document
