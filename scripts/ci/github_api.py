"""The little of GitHub's REST API that alerts and comments need. Standard library only; the token comes from
GITHUB_TOKEN.

With `dry_run` nothing is sent: every change is printed, and lists are empty. Text that came from a benchmark is data of
others: `harmless` keeps it from calling people or hiding text.
"""

from __future__ import annotations

import json
import os
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

MOST_BODY_CHARS = 60_000
"""GitHub refuses the body of an issue or a comment above 65,536 characters."""
PUBLIC_URL = "https://api.github.com"
_PAGE_COUNT = 100
_MOST_PAGES = 20
_TIMEOUT_S = 30.0


class GitHubError(Exception):
    """GitHub refused, or could not be reached; one line, without the token. `code`: the answer's, None without one."""

    def __init__(self, text: str, code: int | None = None) -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True, slots=True)
class GitHub:
    """One repository on GitHub."""

    repository: str
    """owner/name"""
    token: str
    dry_run: bool = False
    url: str = PUBLIC_URL
    opened: Callable[..., Any] = urllib.request.urlopen
    say: Callable[[str], None] = print

    @classmethod
    def from_environment(cls, repository: str, *, dry_run: bool) -> GitHub:
        """Return the repository with the token of the job; raises `GitHubError` where one is missing."""
        repository = repository or os.environ.get("GITHUB_REPOSITORY", "")
        if not re.fullmatch(r"[\w.-]+/[\w.-]+", repository):
            raise GitHubError(f"--repository {repository!r} is no owner/name, and GITHUB_REPOSITORY is not set")
        token = os.environ.get("GITHUB_TOKEN", "")
        if not token and not dry_run:
            raise GitHubError("GITHUB_TOKEN is not set: give the step the job's token, or look with --dry-run")
        return cls(repository, token, dry_run, os.environ.get("GITHUB_API_URL", PUBLIC_URL))

    def listed(self, path: str) -> Iterator[dict[str, Any]]:
        """Yield every item of a list of the repository, page by page; nothing in a dry run."""
        if self.dry_run:
            return
        for page in range(1, _MOST_PAGES + 1):
            joint = "&" if "?" in path else "?"
            entries = self._request("GET", f"{path}{joint}per_page={_PAGE_COUNT}&page={page}", None)
            yield from entries
            if len(entries) < _PAGE_COUNT:
                return

    def send(self, method: str, path: str, values: dict[str, Any]) -> Any:
        """Make a change; in a dry run print it."""
        if self.dry_run:
            self.say(f"dry run: {method} {self.repository}{path}\n{json.dumps(values, indent=1, ensure_ascii=False)}")
            return {}
        return self._request(method, path, values)

    def _request(self, method: str, path: str, values: dict[str, Any] | None) -> Any:
        data = None if values is None else json.dumps(values).encode()
        headers = {
            "Authorization": f"Bearer {self.token}",
            "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": "2022-11-28",
            "Content-Type": "application/json",
            "User-Agent": "roofline-bench",
        }
        request = urllib.request.Request(
            f"{self.url}/repos/{self.repository}{path}", data=data, headers=headers, method=method
        )
        try:
            with self.opened(request, timeout=_TIMEOUT_S) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            hint = {
                401: "the token is not valid",
                403: "the job lacks the permission",
                404: "not there, or not visible",
            }
            why = hint.get(error.code, error.reason)
            raise GitHubError(f"GitHub answered {error.code} to {method} {path}: {why}", error.code) from None
        except (OSError, ValueError) as error:
            raise GitHubError(f"GitHub could not be asked ({method} {path}): {type(error).__name__}") from None


def harmless(text: str, most_chars: int = MOST_BODY_CHARS) -> str:
    """Return text that mentions nobody, hides nothing and fits: `@` is followed by an invisible space, comments are
    shown.
    """
    text = re.sub(r"[\x00-\x08\x0b-\x1f\x7f]", "", text)
    text = re.sub(r"@(?=\w)", "@\u200b", text).replace("<!--", "&lt;!--")
    if len(text) <= most_chars:
        return text
    return text[:most_chars].rstrip() + "\n\n… cut here; the artifact of the run holds all of it."
