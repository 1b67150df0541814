"""The Markdown that people read in the morning: verdict, the diff, open change points, steps. Standard library only."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from night_plan import NightPlan, read_json

HISTORIES = {metric: f"history-{metric}.json" for metric in ("time", "energy", "error")}
"""What is watched over the nights → its file. `error`: of the expected time, so that a model that drifts away is seen, too."""
LAST_NIGHT = "diff-last-night.md"
"""A pooled baseline that holds a slow night is no yardstick for the night on which it is mended; the night before is."""
FILES = (
    LAST_NIGHT,
    "summary.md",
    "summary.json",
    *HISTORIES.values(),
    "report.html",
    "roofline.png",
    "roofline.svg",
    "run.json",
)
"""What a night writes beside its state and the diff."""
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
_SIGNS = {0: "✅", 1: "❌", 3: "⚠️"}


def verdict(exit_code: int) -> str:
    """Return the night in a few words."""
    return f"{_SIGNS.get(exit_code, '⛔')} {VERDICTS.get(exit_code, 'failed')} (exit code {exit_code})"


def markdown(plan: NightPlan, steps: Sequence[Mapping[str, Any]], exit_code: int, folder: Path) -> str:
    """Return the summary of a night as Markdown."""
    lines = [f"## {verdict(exit_code)}", "", f"Night `{plan.label}`", ""]
    lines += [f"- **{one['step']}**: {one['note']}" for one in steps if one["note"] and one["exit_code"]]
    diff = folder / "diff.md"
    if diff.is_file():
        lines += ["", diff.read_text(encoding="utf-8").rstrip()]
    last = folder / LAST_NIGHT
    if last.is_file():
        text = last.read_text(encoding="utf-8").rstrip()
        lines += ["", "<details><summary>Since the night before (fails nothing)</summary>", "", text, "", "</details>"]
    lines += open_changes(folder)
    lines += ["", "<details><summary>Steps</summary>", "", "| step | exit code | seconds | |", "|---|---|---|---|"]
    lines += [
        f"| {one['step']} | {'–' if one['exit_code'] is None else one['exit_code']} | {one['seconds']:g} | {one['note']} |"
        for one in steps
    ]
    lines += ["", "</details>", ""]
    return "\n".join(lines)


def open_changes(folder: Path) -> list[str]:
    """Return the change points that somebody has to look at, as lines of Markdown; none where there is none."""
    found = []
    for name in HISTORIES.values():
        document = read_json(folder / name) or {"cases": []}
        for case in document["cases"]:
            for change in case["changes"]:
                if change["is_open"]:
                    metric = document["metric"]["key"]
                    where = f"`{case['name'].replace('`', chr(39))}`"
                    found.append(f"- {where} {metric} {size_text(metric, change)} since {change['started_at'][:10]}")
    more = [f"- … and {len(found) - MOST_CHANGES} more"] if len(found) > MOST_CHANGES else []
    return ["", f"**Open change points** ({len(found)})", "", *found[:MOST_CHANGES], *more] if found else []


def size_text(metric: str, change: Mapping[str, Any]) -> str:
    """Return how much changed: relative where the metric has a scale, of quality and error the difference."""
    value = change["change_value"]
    return f"{value:+.4g}" if metric in ("quality", "error") else f"{value * 100:+.1f} %"


def cut(text: str) -> str:
    """Return the text, at most as long as GitHub shows."""
    data = text.encode()
    if len(data) <= MOST_BYTES:
        return text
    return data[:MOST_BYTES].decode(errors="ignore") + "\n\n… cut here; the artifact holds the whole summary.\n"
