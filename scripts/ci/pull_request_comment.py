"""Write the diff of a pull request as its one comment: made the first time, updated in place later.

    python scripts/ci/pull_request_comment.py --pull-request 12 --file diff.md [--head SHA] [--repository OWNER/NAME]
    [--dry-run]

Needs GITHUB_TOKEN with `pull-requests: write`, and nothing else: it runs in a job of its own, never beside the code of
the pull request. The file is what that code's job left, so it is treated as text of a stranger.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from github_api import GitHub, GitHubError, harmless

MARKER = "<!-- roofline-bench: diff of this pull request -->"
AUTHORS = ("github-actions[bot]",)
"""Who writes with a job's token: a comment of anybody else that holds the marker is left alone."""


def main(arguments: list[str] | None = None) -> int:
    """Make or update the comment; returns 2 where that is impossible."""
    parser = argparse.ArgumentParser(description="Write a diff as the one comment of a pull request.")
    parser.add_argument("--pull-request", metavar="NUMBER", type=int, required=True)
    parser.add_argument("--file", metavar="FILE.md", type=Path, required=True)
    parser.add_argument("--head", metavar="SHA", default="", help="The commit that was measured.")
    parser.add_argument("--repository", metavar="OWNER/NAME", default="", help="Default: GITHUB_REPOSITORY.")
    parser.add_argument("--dry-run", action="store_true", help="Print what would be sent; send nothing.")
    given = parser.parse_args(arguments)
    try:
        text = given.file.read_text(encoding="utf-8", errors="replace")
        github = GitHub.from_environment(given.repository, dry_run=given.dry_run)
        print(write_comment(github, given.pull_request, body(text, given.head)))
    except (GitHubError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def body(diff: str, head: str) -> str:
    """Return the comment: marker, diff, and what was measured where."""
    lines = [MARKER, harmless(diff).rstrip(), ""]
    run_url = _run_url()
    parts = [f"measured at {harmless(head)[:12]}"] if head else []
    parts += [f"[log and artifacts]({run_url})"] if run_url else []
    return "\n".join([*lines, *([f"<sub>{' · '.join(parts)}</sub>"] if parts else [])])


def write_comment(github: GitHub, number: int, text: str) -> str:
    """Update our comment, or make it; return what was done."""
    for comment in github.listed(f"/issues/{number}/comments"):
        if MARKER in (comment.get("body") or "") and (comment.get("user") or {}).get("login") in AUTHORS:
            github.send("PATCH", f"/issues/comments/{comment['id']}", {"body": text})
            return f"comment {comment['id']} of pull request {number} updated"
    github.send("POST", f"/issues/{number}/comments", {"body": text})
    return f"comment on pull request {number} made"


def _run_url() -> str:
    names = ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_RUN_ID")
    server, repository, run = (os.environ.get(name, "") for name in names)
    return f"{server}/{repository}/actions/runs/{run}" if server and repository and run else ""


if __name__ == "__main__":
    sys.exit(main())
