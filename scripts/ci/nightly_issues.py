"""Keep one issue per change point: made when it appears, updated while it is open, closed when it is over.

    python scripts/ci/nightly_issues.py --night FOLDER [--repository OWNER/NAME] [--if-permitted] [--dry-run]

Reads what the step `history` left in the night's folder. A change point has an id that stays the same on every later
night (`alert_id`), and its issue carries that id as a mark: the same change never gets a second issue, however many
nights it lasts. When a later level is back, or somebody annotated the change, the issue is closed with that reason.
Needs GITHUB_TOKEN with `issues: write`.
"""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from github_api import GitHub, GitHubError, harmless
from nightly_plan import read_json
from nightly_summary import HISTORIES, METRIC_NAMES, size_text

LABEL = "roofline-alert"
MARK = "<!-- roofline-bench alert {} -->"
MOST_NEW = 10
"""More new change points in one night have one cause, as a rule: the rest waits for the next night, and is told."""
NOT_PERMITTED = (401, 403, 404, 410)
"""No valid token, no permission, no such repository for it, issues switched off."""
_CLOSING = {
    "fixed": "A later level is back where it was.",
    "annotated": "Annotated as expected.",
    "quarantined": "The case is on the quarantine list.",
    "superseded": "The case is measured by another method or for another chip since.",
    "withdrawn": "Later runs did not show it.",
    "drifting": "It goes on slowly: told as a drift, in an issue of its own.",
}


_PREFIXES = {
    "s": ((1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n")),
    "J": ((1.0, ""), (1e-3, "m"), (1e-6, "µ")),
    "B": ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")),
}
"""Unit → (factor, prefix), largest first."""


@dataclass(frozen=True, slots=True)
class Alert:
    """One change point of a case: what the issue says."""

    alert_id: str
    status: str
    title: str
    body: str
    closing: str
    """Why it is over; empty while it is open."""


def main(arguments: list[str] | None = None) -> int:
    """Bring the issues to what the night says; returns 2 where that is impossible."""
    parser = argparse.ArgumentParser(description="Keep one issue per open change point.")
    parser.add_argument("--night", metavar="FOLDER", type=Path, required=True, help="Folder of the night.")
    parser.add_argument("--repository", metavar="OWNER/NAME", default="", help="Default: GITHUB_REPOSITORY.")
    parser.add_argument("--if-permitted", action="store_true", help="Exit 0 where the token may not write issues.")
    parser.add_argument("--dry-run", action="store_true", help="Print what would be sent; send nothing.")
    given = parser.parse_args(arguments)
    documents = [json for name in HISTORIES.values() if (json := read_json(given.night / name)) is not None]
    if not documents:
        print(f"{given.night} holds no history: no issue changes", file=sys.stderr)
        return 0
    try:
        github = GitHub.from_environment(given.repository, dry_run=given.dry_run)
        for line in bring_up_to_date(github, alerts_of_all(documents)):
            print(line)
    except GitHubError as error:
        if given.if_permitted and error.code in NOT_PERMITTED:
            print(f"no issue was written: {error}", file=sys.stderr)
            return 0
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def alerts_of_all(documents: Sequence[dict[str, Any]]) -> list[Alert]:
    """Return the change points of all metrics, each event once: an error that moved because the time did is the
    time's.
    """
    timed = {
        (case["case_key"], change["run_id"])
        for document in documents
        if document["metric"]["key"] == "time"
        for case in document["cases"]
        for change in case["changes"]
        if change["status"] != "withdrawn"
    }
    alerts = []
    for document in documents:
        cases = document["cases"]
        if document["metric"]["key"] == "error":
            cases = [
                {
                    **case,
                    "changes": [
                        change for change in case["changes"] if (case["case_key"], change["run_id"]) not in timed
                    ],
                }
                for case in cases
            ]
        alerts += alerts_of({**document, "cases": cases})
    return alerts


def alerts_of(document: dict[str, Any]) -> Iterator[Alert]:
    """Yield the change points of `roofline history --all --json`, those that are over among them; never one that is
    better.
    """
    metric = document["metric"]
    for case in document["cases"]:
        for change in case["changes"]:
            if change["status"] != "better":
                yield _alert(case["name"], metric, change)


def bring_up_to_date(github: GitHub, alerts: Sequence[Alert]) -> Iterator[str]:
    """Make, update and close issues; yield what was done. Issues of other databases and of people are left alone."""
    issues = {
        match[1]: issue
        for issue in github.listed(f"/issues?state=all&labels={LABEL}")
        if (match := re.search(MARK.format("([0-9a-f]{16})"), issue.get("body") or ""))
    }
    new = [alert for alert in alerts if alert.status == "open" and alert.alert_id not in issues]
    for alert in new[:MOST_NEW]:
        github.send("POST", "/issues", {"title": alert.title, "body": alert.body, "labels": [LABEL]})
        yield f"made: {alert.title}"
    if len(new) > MOST_NEW:
        yield f"{len(new) - MOST_NEW} more change points began: look for what they have in common; their issues follow"
    for alert in alerts:
        issue = issues.get(alert.alert_id)
        if issue is not None:
            yield from _update(github, issue, alert)


def _update(github: GitHub, issue: dict[str, Any], alert: Alert) -> Iterator[str]:
    number = issue["number"]
    if issue["state"] == "closed":  # by us, or by somebody who knows better: it stays closed
        return
    if alert.closing:
        github.send("POST", f"/issues/{number}/comments", {"body": alert.closing})
        github.send("PATCH", f"/issues/{number}", {"state": "closed", "state_reason": "completed"})
        yield f"closed #{number}: {alert.closing}"
    elif (issue["title"], issue["body"]) != (alert.title, alert.body):
        github.send("PATCH", f"/issues/{number}", {"title": alert.title, "body": alert.body})
        yield f"updated #{number}: {alert.title}"


def _alert(name: str, metric: dict[str, Any], change: dict[str, Any]) -> Alert:
    day, found_day = change["started_at"][:10], change["found_at"][:10]
    size, key = size_text(metric["key"], change), METRIC_NAMES.get(metric["key"], metric["key"])
    what = "changed" if change["kind"] == "step" else "drifts"
    chip = harmless(change.get("hardware") or "", 100)
    lines = [
        MARK.format(change["alert_id"]),
        f"**{key}** of `{_code(name)}`{f' on {chip}' if chip else ''} {what}: {size}.",
        "",
        f"- before {_value(change['before_value'], metric)}, after {_value(change['after_value'], metric)}",
        f"- first run of it: {day}, run `{change['run_id'][:8]}`; found {found_day}",
        f"- {_commits(change)}",
        f"- {'confirmed by later runs' if change['is_confirmed'] else 'new: later runs may still withdraw it'}",
    ]
    lines += [f"- differs from the run before: {harmless(text)}" for text in change["changed"]]
    if change["clock_ratio"] is not None:
        lines.append(
            f"- the clock moved too, to {change['clock_ratio']:.2f} of what it was: slower by as much is not the kernel"
        )
    lines += [
        "",
        "To look further, on the machine or with a copy of its database:",
        "",
        *(f"    {command}" for command in _commands(name, metric["key"], change)),
        "",
        (
            "It closes by itself when a later level is back, or when it is annotated as expected: see "
            "docs/how_to/nightly.md."
        ),
    ]
    begins = "since" if change["kind"] == "step" else "drifting since"
    title = f"[roofline] {key} {size}: {name}{f' on {chip}' if chip else ''} {begins} {day}"
    closing = ""
    if change["status"] != "open":
        closing = " ".join(
            filter(None, [_CLOSING.get(change["status"], change["status"]), harmless(change["reason"] or "", 500)])
        )
    return Alert(change["alert_id"], change["status"], harmless(title, 250), "\n".join(lines), closing)


def _value(value: float, metric: dict[str, Any]) -> str:
    """Return a level as a person reads it: 1.03 ms, 2.4 J, +11.2 %."""
    if metric["key"] == "error":
        return f"{value * 100:+.1f} %"
    if metric["unit"] not in _PREFIXES:
        return f"{value:.4g} {metric['unit']}".rstrip()
    factor, prefix = next(
        ((factor, prefix) for factor, prefix in _PREFIXES[metric["unit"]] if abs(value) >= factor),
        _PREFIXES[metric["unit"]][-1],
    )
    return f"{value / factor:.4g} {prefix}{metric['unit']}"


def _commits(change: dict[str, Any]) -> str:
    """Return which commits came with the change."""
    before, after = ((change.get(f"commit_{side}") or "")[:12] for side in ("before", "after"))
    if not after:
        return "commit: none is known"
    if before == after:
        return f"commit `{after}`, the same as the run before: not the code of that repository"
    return f"commits `{before}..{after}`" if before else f"commit `{after}`; that of the run before is unknown"


def _commands(name: str, metric: str, change: dict[str, Any]) -> list[str]:
    """Return what shows the change again, as one types it."""
    case_id = shlex.quote(_code(name.partition(" ")[2] or name))
    commands = [
        f"roofline history {shlex.quote(_code(name))} --metric {metric}",
        f"roofline show {change['run_id'][:8]} {case_id}",
    ]
    before, after = ((change.get(f"commit_{side}") or "")[:12] for side in ("before", "after"))
    return [*commands, *([f"git log --oneline {before}..{after}"] if before and after and before != after else [])]


def _code(text: str) -> str:
    """Return text that stays inside a pair of backticks."""
    return harmless(text, 300).replace("`", "'").replace("\n", " ")


if __name__ == "__main__":
    sys.exit(main())
