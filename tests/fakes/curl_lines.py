"""curl lines of documents, as requests: what `curl` itself would send, without a process for each."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field


@dataclass(frozen=True)
class CurlRequest:
    method: str
    path: str
    headers: dict[str, str] = field(default_factory=dict)
    body: str | None = None


def curl_lines(text: str) -> list[str]:
    """Return the curl commands of a text, their continued lines joined."""
    joined = text.replace("\\\n", " ")
    return [
        line.strip().removeprefix("$ ")
        for line in joined.splitlines()
        if line.strip().removeprefix("$ ").startswith("curl ")
    ]


def parsed(line: str) -> CurlRequest:
    """Return the request of one curl command; raises on an option this does not know, rather than to leave it out."""
    words = shlex.split(line)[1:]
    method, address, headers, body = "", "", {}, None
    while words:
        word = words.pop(0)
        if word == "-X":
            method = words.pop(0)
        elif word == "-H":
            name, _, value = words.pop(0).partition(":")
            headers[name.strip()] = value.strip()
        elif word == "-d":
            body = words.pop(0)
        elif word in ("-s", "-N", "-i"):
            continue
        elif word.startswith("-"):
            raise AssertionError(f"curl option {word} is not known here: {line}")
        else:
            address = word
    host, _, path = address.removeprefix("http://").partition("/")
    assert host in ("localhost:8000", "127.0.0.1:8000"), line
    return CurlRequest(method or ("GET" if body is None else "POST"), f"/{path}", headers, body)
