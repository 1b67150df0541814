"""The benchmarks run and say what they promise; how long anything takes is no test's business."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import run
from benchmarks.measuring import loop_overhead
from benchmarks.timing.interleave import differences, interleaved, run_seconds
from benchmarks.timing.rows import Row, table_lines

ROOT = Path(__file__).resolve().parents[2]


AIMS_S = {
    "our plugin in a suite without us": 0.050,
    "per case beyond measuring": 0.010,
    "… on the simulated device, nothing subtracted": 0.010,
    "import roofline_model, above bare Python": 0.040,
    "commit of one record, 100 samples": 0.001,
    "… of a case never stored before": 0.001,
    "one prediction of an operator": 20e-6,
    "one expected GEMM of an array, BF16 on h100-sxm": 1e-5,
    "one expected GEMM of an array, FP8 on gb10": 1e-5,
    "one ideal GEMM of an array": 0.2e-6,
    "one expected prediction of an operator": 1e-3,
    "one pass of Llama 3.1 405B, ideal": 20e-3,
    "… ideal and expected": 20e-3,
    "timing loop, per call": 100e-9,
    "Pareto front and choice, 80 layers × 7 formats": 1.0,
    "recommendation for one shape, ideal times": 5e-3,
    "recommendation for llama-3-8b, without losses": 1.0,
    "… for llama-3.1-70b with losses, 80 layers × 7 formats": 2.0,
} | {
    f"{what} {key}, per value": aim
    for key, aim in (("FP8_E4M3", 1 / 50e6), ("INT8", 1 / 50e6), ("NVFP4", 1 / 10e6), ("MXFP4", 1 / 10e6))
    for what in ("quantise to", "dequantise")
}
SECONDS_EACH = (
    "per_case",
    "foreign_suite",
    "collecting",
    "array_rate",
    "opening",
    "exporting",
    "pareto_rate",
    "model_choice_rate",
)


@pytest.mark.parametrize(
    "names",
    [
        pytest.param([], id="all", marks=pytest.mark.full),
        pytest.param([name for name in run.BENCHMARKS if name not in SECONDS_EACH], id="quick ones"),
    ],
)
def test_quick_run_prints_and_writes_every_row(names, tmp_path):
    done = subprocess.run(
        [
            sys.executable,
            str(ROOT / "benchmarks" / "run.py"),
            *names,
            "--quick",
            "--json",
            str(tmp_path / "rows.json"),
            "--folder",
            str(tmp_path),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    document = json.loads((tmp_path / "rows.json").read_text())
    assert document["is_quick"] is True
    rows = {row["name"]: row for row in document["rows"]}
    aims = {name: row["aim_s"] for name, row in rows.items() if row.get("aim_s") is not None}
    if names:
        assert aims == {name: aim_s for name, aim_s in AIMS_S.items() if name in rows}
        assert len(aims) >= len(names) - 1  # one of them has no aim
    else:
        collecting = next(name for name in rows if name.startswith("collect 1,0"))
        assert aims == AIMS_S | {collecting: 2.0}
        assert "open an up-to-date database" in rows
    for name, row in rows.items():
        assert row["verdict"] == (
            "" if row["aim_s"] is None else "pass" if row["measured_s"] <= row["aim_s"] else "MISS"
        )
        assert (row["ratio"] is None) == (row["rival_s"] is None)
        assert name in done.stdout
    assert "$(PY) -m benchmarks" in (ROOT / "Makefile").read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["rows.json"]


def test_strict_fails_on_a_missed_aim_only(monkeypatch, capsys):
    for measured_s, strict, expected in ((2.0, True, 1), (2.0, False, 0), (0.5, True, 0)):
        monkeypatch.setattr(run, "_measured", lambda *_, measured_s=measured_s: [Row("r", measured_s, 1, 1.0)])
        assert run.main(["prediction", *(["--strict"] if strict else [])]) == expected
        assert ("MISS" in capsys.readouterr().out) == (measured_s > 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["imports"], "no benchmark 'imports'; known: per_case, collecting, importing"),
        (["--json", "missing/rows.json"], "cannot be written: No such file or directory"),
        (["--folder", "missing"], "--folder missing is not a folder"),
    ],
)
def test_bad_input_is_one_line_before_anything_is_timed(arguments, message, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run, "_measured", lambda *_: pytest.fail("timed something"))
    with pytest.raises(SystemExit) as stopped:
        run.main(arguments)
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


def test_rounds_take_turns_in_beginning():
    order = []
    contestants = {name: (lambda name=name: order.append(name) or len(order)) for name in "abc"}
    values = interleaved(contestants, 4)
    assert "".join(order) == "abcbcacababc"
    assert values == {"a": [1, 6, 8, 10], "b": [2, 4, 9, 11], "c": [3, 5, 7, 12]}
    assert differences(values["c"], values["a"]) == [2, -1, -1, 2]


def test_a_child_that_fails_is_an_error_not_a_time(tmp_path):
    with pytest.raises(RuntimeError, match=r"ended with 3: said why"):
        run_seconds(["-c", "print('said why'); raise SystemExit(3)"], tmp_path)


def test_table_marks_contended_rows_and_keeps_to_its_width():
    quiet = Row("quiet", 1e-3, 5, 2e-3, "rival", 4e-3, others_ratio=0.01, is_contended=False)
    busy = Row("busy", 3e-3, 5, 2e-3, note="why", others_ratio=0.4, is_contended=True)
    lines = list(table_lines([quiet, busy]))
    assert lines[1].split() == ["quiet", "≤", "2", "ms", "1", "ms", "rival", "4", "ms", "0.25×", "pass"]
    assert lines[2].endswith("MISS !")
    assert "busy: why" in lines
    assert "40%" in lines[-1]
    assert not any("!:" in line for line in table_lines([quiet]))


def test_loop_overhead_is_one_figure_with_an_aim(tmp_path):
    (row,) = loop_overhead.measure(tmp_path, quick=True)
    assert row.aim_s == 100e-9
    assert 0 < row.measured_s < 1e-5
    assert row.rival_s > 0
