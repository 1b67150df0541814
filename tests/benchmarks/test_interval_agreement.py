"""The benchmark of the intervals: what it computes is checked on runs whose noise is known; that it runs, on the
simulated device.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks import run
from benchmarks.measuring.interval_agreement import CaseRuns, figures, take_run
from benchmarks.timing.rows import Figure, Row, table_lines
from results.records.records import Measurement, Method, ProcessInfo, Record
from roofline_model.operators.case import Case

METHOD = Method("monotonic", "2", {})
CASES = [Case("gemv", (("M", 1), ("N", n + 1), ("K", 64)), (("a", "BF16"), ("b", "BF16")), "matmul") for n in range(20)]


def run_of(logs: np.ndarray, half: float = 0.005, disturbed: tuple[int, ...] = ()) -> CaseRuns:
    records = []
    for process, number in np.ndindex(*logs.shape):
        time_s = 1e-3 * math.exp(logs[process, number])
        measured = Measurement(
            samples_s=(),
            calls_per_sample=1,
            median_s=time_s,
            min_s=time_s,
            max_s=time_s,
            mean_s=time_s,
            std_s=None,
            q1_s=time_s,
            q3_s=time_s,
            sample_count=30,
            ci_low_s=time_s * math.exp(-half),
            ci_high_s=time_s * math.exp(half),
            stop_reason="converged",
            flags=("contended",) if number in disturbed else (),
        )
        records.append(
            Record(
                f"{process}-{number}",
                "run",
                CASES[number],
                "measured",
                process=ProcessInfo(process),
                method=METHOD,
                measurement=measured,
            )
        )
    return CaseRuns.of(records)


def by_name(figures: list[Figure]) -> dict[str, Figure]:
    return {figure.name: figure for figure in figures}


def test_unchanged_code_passes_where_rivals_raise_alarms():
    rng = np.random.default_rng(1)

    def logs() -> np.ndarray:
        # 4 % from process to process, and 1 % from run to run: the slow movement that a run cannot see of itself.
        return 0.04 * rng.standard_normal((3, 20)) + 0.01 * rng.standard_normal(20)

    figures_named = by_name(figures([run_of(logs()) for _ in range(20)]))
    agreement, width = figures_named["agree within interval_total"], figures_named["half width over A/A spread"]
    alarms, spread = figures_named["false alarms at 5 %"], figures_named["A/A spread of a run's estimate"]
    assert (agreement.verdict, width.verdict, alarms.verdict, spread.verdict) == ("pass", "pass", "pass", "")
    assert agreement.rival_value < 0.3  # an interval that knows one process only is a lie here
    assert width.rival_value == pytest.approx(0.005 / 0.04, rel=0.3)
    assert alarms.rival_value == pytest.approx(0.19, abs=0.06)  # P(difference of two > ln 1.05)
    assert spread.value == pytest.approx(0.04 / math.sqrt(3), rel=0.2)
    assert spread.rival_value == pytest.approx(0.04, rel=0.2)
    assert (agreement.rounds, alarms.rounds, width.rounds) == (10, 19, 20)
    assert len(figures_named) == 4


def test_a_step_between_the_runs_is_no_agreement():
    rng = np.random.default_rng(2)
    moved = [run_of(0.02 * rng.standard_normal((3, 20)) + 0.3 * (number % 2)) for number in range(8)]
    figures_named = by_name(figures(moved))
    assert figures_named["agree within interval_total"].verdict == "MISS"
    assert figures_named["agree within interval_total"].value < 0.05
    assert figures_named["false alarms at 5 %"].value > 0.95


def test_disturbed_comparisons_are_told_apart():
    rng = np.random.default_rng(3)
    runs = []
    for number in range(6):
        logs = 0.02 * rng.standard_normal((3, 20))
        logs[:, :10] += 0.5 * (number % 2)
        runs.append(run_of(logs, disturbed=tuple(range(10)) if number % 2 else ()))
    figures_named = by_name(figures(runs))
    assert figures_named["agree within interval_total"].value < 0.6
    quiet = figures_named["agree, where nobody else used the CPUs"]
    assert quiet.value > 0.9
    assert quiet.note.startswith("30 of 60 comparisons")
    busy = figures([run_of(0.02 * rng.standard_normal((3, 20)), disturbed=tuple(range(20))) for _ in range(4)])
    assert "comparisons in which nobody else used the CPUs" in by_name(busy)


def test_one_process_a_run_is_no_replication():
    with pytest.raises(RuntimeError, match=r"processes per case: \[1\]"):
        figures([run_of(np.zeros((1, 3))) for _ in range(4)])


@pytest.mark.full
def test_a_run_is_taken_through_pytest_in_fresh_processes(tmp_path):
    cases = (
        "--roofline-timer",
        "simulated",
        "--roofline-device",
        "cpu",
        "--roofline-shapes",
        "1x64x64",
        "--roofline-formats",
        "FP32",
    )
    records = take_run(tmp_path, "aa", 2, cases)
    assert {record.status for record in records} == {"measured"}
    assert sorted({record.process.ordinal for record in records if record.case == records[0].case}) != [0]
    taken = CaseRuns.of(records)
    assert {total.process_count for total in taken.totals.values()} == {2}
    with pytest.raises(RuntimeError, match="measured nothing"):
        take_run(tmp_path, "none", 2, (*cases, "--roofline-predict-only"))


def test_figures_and_times_share_a_table_and_the_json(monkeypatch, tmp_path, capsys):
    timings = [
        Figure("share", 0.95, 10, "share", 0.92, 0.98, "rival", 0.2, "why"),
        Figure("width", 2.71, 20, "ratio", aim_high=2.5),
        Figure("least", 0.5, 3, "share", aim_low=0.4),
        Row("time", 1e-3, 5, 2e-3),
    ]
    lines = list(table_lines(timings))
    assert lines[1].split() == ["share", "92.0%", "to", "98.0%", "95.0%", "rival", "20.0%", "–", "pass"]
    assert lines[2].split() == ["width", "≤", "2.50×", "2.71×", "–", "–", "–", "MISS"]
    assert lines[3].split() == ["least", "≥", "40.0%", "50.0%", "–", "–", "–", "pass"]
    assert "share: why" in lines
    monkeypatch.setattr(run, "_measured", lambda *_: timings)
    out = tmp_path / "rows.json"
    assert run.main(["interval_agreement", "--strict", "--json", str(out)]) == 1
    assert '"verdict": "MISS"' in out.read_text()
    assert "interval_agreement" not in run.BENCHMARKS
    assert "width" in capsys.readouterr().out
