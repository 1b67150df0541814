"""The Markdown that people read in the morning: verdict, the diff, open change points, steps. Standard library only."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from measured_run import MeasuredRun
from nightly_plan import NightlyPlan, read_json

HISTORIES = {metric: f"history-{metric}.json" for metric in ("time", "energy", "error")}
"""What is watched over the nights → its file. `error`: of the expected time, so that a model that drifts away is seen,
too.
"""
METRIC_NAMES = {"error": "prediction error"}
"""How a metric is called in a sentence, where its key alone says too little."""
LAST_NIGHT = "diff-last-night.md"
"""A pooled baseline that holds a slow night is no yardstick for the night on which it is mended; the night before
is.
"""
DOCTOR = "doctor.json"
FILES = (
    LAST_NIGHT,
    DOCTOR,
    "summary.md",
    "summary.json",
    *HISTORIES.values(),
    "report.html",
    "roofline.png",
    "roofline.svg",
)
"""What a night writes beside its state, its run and the diff."""
MOST_CHANGES = 20
MOST_BYTES = 900_000
"""GitHub refuses a step summary above 1 MiB."""

VERDICTS = {
    0: "nothing worse",
    1: "regression",
    2: "a step could not do its work",
    3: "too much is ambiguous",
    4: "not comparable with the baseline",
    5: "the machine was in a slow state",
}
NOT_COMPARED = "nothing was compared: no earlier run"
_SIGNS = {0: "✅", 1: "❌", 3: "⚠️"}


def verdict(exit_code: int, folder: Path) -> str:
    """Return the night in a few words; a first night is not called good, only not bad."""
    words = NOT_COMPARED if exit_code == 0 and compared_with(folder) == [] else VERDICTS.get(exit_code, "failed")
    return f"{_SIGNS.get(exit_code, '⛔')} {words} (exit code {exit_code})"


def compared_with(folder: Path) -> list[Any] | None:
    """Return the runs the night was compared with, none for a first night; None where no diff was made."""
    document = read_json(folder / "diff.json")
    return list(document.get("before") or ()) if isinstance(document, dict) else None


def doctor_remarks(folder: Path) -> list[str]:
    """Return what `roofline doctor` found broken or missing, a line each with the command that mends it."""
    document = read_json(folder / DOCTOR)
    checks = document.get("checks", []) if isinstance(document, dict) else []
    return [
        f"{check['status']}: {check['name']}: {check['detail']}" + f" ({check['fix']})" * bool(check.get("fix"))
        for check in checks
        if check["status"] in ("warn", "error")
    ]


def markdown(
    plan: NightlyPlan, steps: Sequence[Mapping[str, Any]], exit_code: int, folder: Path, run: MeasuredRun | None
) -> str:
    """Return the summary of a night as Markdown."""
    lines = [f"## {verdict(exit_code, folder)}", "", *_what_ran(plan, run), ""]
    lines += [f"- **{step['step']}**: {step['note']}" for step in steps if step["note"] and step["exit_code"]]
    lines += [f"- failed: {_one_line(text)}" for text in (run.failures if run else ())]
    lines += [f"- doctor: {_one_line(text)}" for text in doctor_remarks(folder)]
    lines += [f"- state of the machine: {_one_line(text)}" for text in (run.warnings if run else ())]
    diff = folder / "diff.md"
    if diff.is_file():
        lines += ["", diff.read_text(encoding="utf-8").rstrip()]
    last = folder / LAST_NIGHT
    if last.is_file():
        text = last.read_text(encoding="utf-8").rstrip()
        lines += ["", "<details><summary>Since the run before (fails nothing)</summary>", "", text, "", "</details>"]
    lines += open_changes(folder)
    lines += ["", "<details><summary>Steps</summary>", "", "| step | exit code | seconds | |", "|---|---|---|---|"]
    lines += [
        f"| {step['step']} | {'–' if step['exit_code'] is None else step['exit_code']} | {step['seconds']:g} | "
        f"{_one_line(step['note'])} |"
        for step in steps
    ]
    lines += ["", "</details>", ""]
    return "\n".join(lines)


def _what_ran(plan: NightlyPlan, run: MeasuredRun | None) -> list[str]:
    """Return which night this is: run, chip, commit, and how many cases were measured."""
    if run is None:
        return [f"`{plan.label}`: no run was stored."]
    commit = f"commit `{run.commit[:12]}`" if run.commit else "no commit is known"
    dirty = " with local changes" if run.is_dirty else ""
    chip = f"{run.hardware or 'unknown chip'}{', **simulated times**' if run.is_simulated else ''}"
    each = f", {plan.processes} processes each" if plan.processes > 1 else ""
    return [
        f"`{plan.label}`, run `{run.run_id[:8]}` on {chip}, {commit}{dirty}",
        "",
        f"Cases: {run.counts_text}{each}",
    ]


def _one_line(text: str) -> str:
    """Return text that stays in its line and its cell."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def open_changes(folder: Path) -> list[str]:
    """Return the change points that somebody has to look at, as lines of Markdown; none where there is none."""
    changes = []
    for name in HISTORIES.values():
        document = read_json(folder / name) or {"cases": []}
        for case in document["cases"]:
            for change in case["changes"]:
                if change["is_open"]:
                    metric = document["metric"]["key"]
                    where = f"`{case['name'].replace('`', chr(39))}`"
                    chip = f" on {change['hardware']}" if change.get("hardware") else ""
                    what = f"{METRIC_NAMES.get(metric, metric)} {size_text(metric, change)}"
                    changes.append(f"- {where}{chip}: {what} since {change['started_at'][:10]}")
    more = [f"- … and {len(changes) - MOST_CHANGES} more"] if len(changes) > MOST_CHANGES else []
    return ["", f"**Open change points** ({len(changes)})", "", *changes[:MOST_CHANGES], *more] if changes else []


def size_text(metric: str, change: Mapping[str, Any]) -> str:
    """Return how much changed: relative where the metric has a scale, of quality and error the difference in its
    unit.
    """
    value = change["change_value"]
    if metric == "error":
        return f"{value * 100:+.1f} percentage points"
    return f"{value:+.4g} nats/token" if metric == "quality" else f"{value * 100:+.1f} %"


def cut(text: str) -> str:
    """Return the text, at most as long as GitHub shows."""
    data = text.encode()
    if len(data) <= MOST_BYTES:
        return text
    return data[:MOST_BYTES].decode(errors="ignore") + "\n\n… cut here; the artifact holds the whole summary.\n"
