"""What a gate says on GitHub, by the `gh` tool: one issue per change point, one comment per pull request.

    python scripts/ci/github.py alerts night/alerts.json [--dry-run]
    python scripts/ci/github.py comment 12 comparison/diff.md [--head SHA] [--dry-run]

Standard library and `gh` only, with GH_TOKEN and GITHUB_REPOSITORY of the job. It runs in a job of its own, never
beside the code under test, and takes what that code's job left for text of strangers.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LABEL = "roofline-alert"
ALERT_MARK = "<!-- roofline-bench alert {} -->"
COMMENT_MARK = "<!-- roofline-bench: diff of this pull request -->"
AUTHOR = "github-actions[bot]"
"""Who writes with a job's token: a comment of anybody else that holds the mark is left alone."""
MAX_BODY_CHARS = 60_000
"""GitHub refuses the body of an issue or a comment above 65,536 characters."""
MAX_NEW = 10
"""More new change points in one night have one cause, as a rule: the rest waits for the next night."""


class GitHubError(Exception):
    """`gh` failed; its own words."""


class GitHub:
    """The issues of one repository. With `is_dry` nothing is sent: every change is printed, and lists are empty."""

    def __init__(self, is_dry: bool) -> None:
        self._is_dry = is_dry
        self._root = f"repos/{os.environ.get('GITHUB_REPOSITORY', '{owner}/{repo}')}"

    def listed(self, path: str) -> list[dict[str, Any]]:
        """Return every item of a list."""
        if self._is_dry:
            return []
        text = _gh(f"{self._root}{path}", "--method", "GET", "-F", "per_page=100", "--paginate", "--jq", ".[]")
        return [json.loads(line) for line in text.splitlines()]

    def send(self, method: str, path: str, **values: Any) -> None:
        """Make a change."""
        if self._is_dry:
            print(f"{method} {path}\n{json.dumps(values, indent=1, ensure_ascii=False)}")
        else:
            _gh(f"{self._root}{path}", "--method", method, "--input", "-", values=values)


def _gh(*words: str, values: dict[str, Any] | None = None) -> str:
    text = None if values is None else json.dumps(values)
    done = subprocess.run(["gh", "api", *words], input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise GitHubError(done.stderr.strip() or f"gh ended with {done.returncode}")
    return done.stdout


def main(arguments: list[str] | None = None) -> int:
    """Bring GitHub to what a file says; returns 2 where that is impossible."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dry-run", action="store_true", help="Print what would be sent; send nothing.")
    commands = parser.add_subparsers(dest="command", required=True)
    alerts = commands.add_parser("alerts", help="One issue per change point.")
    alerts.add_argument("file", metavar="ALERTS.json", type=Path)
    comment = commands.add_parser("comment", help="The one comment of a pull request.")
    comment.add_argument("number", metavar="NUMBER", type=int)
    comment.add_argument("file", metavar="FILE.md", type=Path)
    comment.add_argument("--head", metavar="SHA", default="", help="The commit that was measured.")
    given = parser.parse_args(arguments)
    github = GitHub(given.dry_run)
    try:
        text = given.file.read_text(encoding="utf-8", errors="replace")
        if given.command == "comment":
            print(write_comment(github, given.number, text, given.head))
        else:
            for line in write_issues(github, json.loads(text)["alerts"]):
                print(line)
    except (GitHubError, OSError) as error:
        # No permission, or issues switched off: who wants none gives none.
        is_refused = given.command == "alerts" and re.search(r"HTTP 4(01|03|04|10)\b", str(error))
        print(f"no issue was written: {error}" if is_refused else f"error: {error}", file=sys.stderr)
        return 0 if is_refused else 2
    return 0


def write_issues(github: GitHub, alerts: list[dict[str, str]]) -> Iterator[str]:
    """Make, update and close the issues; yield what was done. Those of other databases and of people are left alone."""
    issues = {
        match[1]: issue
        for issue in github.listed(f"/issues?state=all&labels={LABEL}")
        if (match := re.search(ALERT_MARK.format("([0-9a-f]{16})"), issue["body"] or ""))
    }
    new_count = 0
    for alert in alerts:
        issue, title = issues.get(alert["alert_id"]), harmless(alert["title"], 250)
        body = f"{ALERT_MARK.format(alert['alert_id'])}\n{harmless(alert['body'])}"
        if issue is None and alert["status"] == "open":
            new_count += 1
            if new_count <= MAX_NEW:
                github.send("POST", "/issues", title=title, body=body, labels=[LABEL])
                yield f"made: {title}"
        elif issue is None or issue["state"] == "closed":  # by us, or by somebody who knows better: it stays closed
            continue
        elif alert["status"] != "open":
            reason = harmless(alert["closing"], 600)
            github.send("POST", f"/issues/{issue['number']}/comments", body=reason)
            github.send("PATCH", f"/issues/{issue['number']}", state="closed", state_reason="completed")
            yield f"closed #{issue['number']}: {reason}"
        elif (issue["title"], issue["body"]) != (title, body):
            github.send("PATCH", f"/issues/{issue['number']}", title=title, body=body)
            yield f"updated #{issue['number']}: {title}"
    if new_count > MAX_NEW:
        yield f"{new_count - MAX_NEW} more change points began: look for what they have in common; their issues follow"


def write_comment(github: GitHub, number: int, diff: str, head: str) -> str:
    """Update our comment, or make it; return what was done."""
    server, repository, run = (os.environ.get(f"GITHUB_{name}") for name in ("SERVER_URL", "REPOSITORY", "RUN_ID"))
    below = [f"measured at {harmless(head)[:12]}"] if head else []
    below += [f"[log and artifacts]({server}/{repository}/actions/runs/{run})"] if run else []
    body = f"{COMMENT_MARK}\n{harmless(diff).rstrip()}\n\n<sub>{' · '.join(below)}</sub>"
    for comment in github.listed(f"/issues/{number}/comments"):
        if COMMENT_MARK in comment["body"] and (comment["user"] or {}).get("login") == AUTHOR:
            github.send("PATCH", f"/issues/comments/{comment['id']}", body=body)
            return f"comment {comment['id']} of pull request {number} updated"
    github.send("POST", f"/issues/{number}/comments", body=body)
    return f"comment on pull request {number} made"


def harmless(text: str, max_chars: int = MAX_BODY_CHARS) -> str:
    """Return text that mentions nobody, hides nothing and fits: `@` gets an invisible space, comments are shown."""
    text = re.sub(r"[\x00-\x08\x0b-\x1f\x7f]", "", text)
    text = re.sub(r"@(?=\w)", "@\u200b", text).replace("<!--", "&lt;!--")
    if len(text) <= max_chars:
        return text
    return text[:max_chars].rstrip() + "\n\n… cut here; the artifact of the run holds all of it."


if __name__ == "__main__":
    sys.exit(main())
