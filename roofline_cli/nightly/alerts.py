"""Change points as alerts: title and body of the one issue that each gets, and why it is over.

A change point has an id that stays the same in every later run (`alert_id`), so that it never gets a second issue.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from results.records.metrics import Metric, get_metric
from roofline_cli.diff.history_view import change_text, value_text

_NAMES = {"error": "prediction error"}
"""How a metric is called where its key alone says too little."""
_CLOSING = {
    "fixed": "A later level is back where it was.",
    "annotated": "Annotated as expected.",
    "quarantined": "The case is on the quarantine list.",
    "superseded": "The case is measured by another method or for another chip since.",
    "withdrawn": "Later runs did not show it.",
    "drifting": "It goes on slowly: told as a drift, in an issue of its own.",
}


@dataclass(frozen=True, slots=True)
class Alert:
    """One change point of a case."""

    alert_id: str
    status: str
    title: str
    body: str
    closing: str
    """Why it is over; empty while it is open."""


def write_alerts(path: Path, histories: Sequence[Mapping[str, Any]]) -> None:
    """Write the alerts of `roofline history --all --json` in several metrics as one file."""
    from reports.present.encoder import SCHEMA_VERSION

    document = {"schema_version": SCHEMA_VERSION, "alerts": [asdict(alert) for alert in alerts_of(histories)]}
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def alerts_of(histories: Iterable[Mapping[str, Any]]) -> Iterator[Alert]:
    """Yield the change points, those that are over among them, never one that is better; each event once: an error that
    moved because the time did is the time's.
    """
    timed: set[tuple[str, str]] = set()
    for history in sorted(histories, key=lambda each: each["metric"]["key"] != "time"):
        metric = get_metric(history["metric"]["key"])
        for case in history["cases"]:
            for change in case["changes"]:
                event = (case["case_key"], change["run_id"])
                if metric.key == "time" and change["status"] != "withdrawn":
                    timed.add(event)
                is_of_the_time = metric.key == "error" and event in timed
                if change["status"] != "better" and not is_of_the_time:
                    yield _alert(case["name"], metric, change)


def _alert(name: str, metric: Metric, change: Mapping[str, Any]) -> Alert:
    day, size, key = (
        change["started_at"][:10],
        change_text(change["change_value"], metric),
        _NAMES.get(metric.key, metric.key),
    )
    what, begins = ("changed", "since") if change["kind"] == "step" else ("drifts", "drifting since")
    chip = f" on {change['hardware']}" if change["hardware"] else ""
    before, after = (value_text(change[f"{side}_value"], metric) for side in ("before", "after"))
    lines = [
        f"**{key}** of `{_code(name)}`{chip} {what}: {size}.",
        "",
        f"- before {before}, after {after}",
        f"- first run of it: {day}, run `{change['run_id'][:8]}`; found {change['found_at'][:10]}",
        f"- {_commits(change)}",
        f"- {'confirmed by later runs' if change['is_confirmed'] else 'new: later runs may still withdraw it'}",
        *(f"- differs from the run before: {text}" for text in change["changed"]),
    ]
    if change["clock_ratio"] is not None:
        ratio = f"{change['clock_ratio']:.2f}"
        lines.append(f"- the clock moved too, to {ratio} of what it was: slower by as much is not the kernel")
    lines += ["", "To look further, on the machine or with a copy of its database:", ""]
    lines += [f"    {command}" for command in _commands(name, metric.key, change)]
    lines += [
        "",
        "It closes by itself when a later level is back, or when it is annotated as expected: see docs/how_to/nightly.md.",
    ]
    closing = "" if change["status"] == "open" else f"{_CLOSING[change['status']]} {change['reason']}".rstrip()
    title = f"[roofline] {key} {size}: {name}{chip} {begins} {day}"
    return Alert(change["alert_id"], change["status"], title, "\n".join(lines), closing)


def _commits(change: Mapping[str, Any]) -> str:
    """Return which commits came with the change."""
    before, after = _commit(change, "before"), _commit(change, "after")
    if not after:
        return "commit: none is known"
    if before == after:
        return f"commit `{after}`, the same as the run before: not the code of that repository"
    return f"commits `{before}..{after}`" if before else f"commit `{after}`; that of the run before is unknown"


def _commands(name: str, metric: str, change: Mapping[str, Any]) -> Iterator[str]:
    """Yield what shows the change again, as one types it."""
    yield f"roofline history {shlex.quote(_code(name))} --metric {metric}"
    yield f"roofline show {change['run_id'][:8]} {shlex.quote(_code(name.partition(' ')[2] or name))}"
    before, after = _commit(change, "before"), _commit(change, "after")
    if before and after and before != after:
        yield f"git log --oneline {before}..{after}"


def _commit(change: Mapping[str, Any], side: str) -> str:
    return (change[f"commit_{side}"] or "")[:12]


def _code(text: str) -> str:
    """Return text that stays inside a pair of backticks."""
    return " ".join(text.replace("`", "'").split())
