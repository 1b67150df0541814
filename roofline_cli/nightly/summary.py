"""What people read in the morning: verdict, diff, open change points, steps."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from roofline_cli.nightly.nightly_run import ALERTS, FORMS, LAST_RUN, SUMMARY, SUMMARY_JSON, NightlyRun, read_json

MAX_CHANGES = 20


def write_summary(nightly_run: NightlyRun) -> dict[str, Any]:
    """Write summary.md and summary.json; return the latter's document."""
    from reports.present.encoder import SCHEMA_VERSION

    document = {
        "schema_version": SCHEMA_VERSION,
        "label": nightly_run.plan.label,
        "exit_code": nightly_run.exit_code,
        "steps": [asdict(step) for step in nightly_run.steps],
        "run": None if nightly_run.run is None else asdict(nightly_run.run),
        "doctor": nightly_run.doctor_remarks,
    }
    (nightly_run.folder / SUMMARY).write_text("\n".join(_lines(nightly_run)) + "\n", encoding="utf-8")
    (nightly_run.folder / SUMMARY_JSON).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return document


def _lines(nightly_run: NightlyRun) -> list[str]:
    run, steps = nightly_run.run, nightly_run.steps
    remarks = [f"**{step.step}**: {step.note}" for step in steps if step.note and step.exit_code]
    remarks += [f"failed: {text}" for text in (run.failures if run else ())]
    remarks += [f"doctor: {text}" for text in nightly_run.doctor_remarks]
    remarks += [f"state of the machine: {text}" for text in (run.warnings if run else ())]
    lines = [
        f"## {nightly_run.verdict}",
        "",
        *_what_ran(nightly_run),
        "",
        *(f"- {_one_line(text)}" for text in remarks),
    ]
    for name, title in ((FORMS["md"], ""), (LAST_RUN, "Since the run before (fails nothing)")):
        if (nightly_run.folder / name).is_file():
            text = (nightly_run.folder / name).read_text(encoding="utf-8").rstrip()
            lines += ["", *(_folded(title, [text]) if title else [text])]
    lines += _open_changes(read_json(nightly_run.folder / ALERTS))
    rows = [
        f"| {step.step} | {'–' if step.exit_code is None else step.exit_code} | {step.seconds:g} | {_one_line(step.note)} |"
        for step in steps
    ]
    return [*lines, "", *_folded("Steps", ["| step | exit code | seconds | |", "|---|---|---|---|", *rows])]


def _what_ran(nightly_run: NightlyRun) -> list[str]:
    """Return which run this is: chip, commit, and how many cases were measured."""
    run, label = nightly_run.run, nightly_run.plan.label
    if run is None:
        return [f"`{label}`: no run was stored."]
    commit = f"commit `{run.commit[:12]}`" if run.commit else "no commit is known"
    dirty = " with local changes" if run.is_dirty else ""
    chip = f"{run.hardware or 'unknown chip'}{', **simulated times**' if run.is_simulated else ''}"
    each = f", {run.process_count} processes each" if run.process_count > 1 else ""
    return [f"`{label}`, run `{run.run_id[:8]}` on {chip}, {commit}{dirty}", "", f"Cases: {run.counts_text}{each}"]


def _open_changes(alerts: dict[str, Any]) -> list[str]:
    """Return the change points that somebody has to look at; nothing where there is none."""
    titles = [_one_line(alert["title"]) for alert in alerts.get("alerts", ()) if alert["status"] == "open"]
    if not titles:
        return []
    more = [f"- … and {len(titles) - MAX_CHANGES} more"] if len(titles) > MAX_CHANGES else []
    return ["", f"**Open change points** ({len(titles)})", "", *(f"- {title}" for title in titles[:MAX_CHANGES]), *more]


def _folded(title: str, lines: list[str]) -> list[str]:
    return [f"<details><summary>{title}</summary>", "", *lines, "", "</details>"]


def _one_line(text: str) -> str:
    """Return text that stays in its line and its cell."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
