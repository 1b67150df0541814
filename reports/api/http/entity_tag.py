"""ETags: a client that has an answer already is told so, and nothing is sent again."""

from __future__ import annotations

import hashlib

from fastapi import Request
from fastapi.responses import Response

JSON = "application/json"


def tagged(
    request: Request, content: str | bytes, media_type: str = JSON, headers: dict[str, str] | None = None
) -> Response:
    """Return `content` with its ETag, or 304 without a body when the request's If-None-Match names it.

    The tag is of the content itself: flags that a later reading adds to a stored record change it.
    """
    raw = content.encode() if isinstance(content, str) else content
    return tagged_as(request, raw, tag_of(raw), media_type, headers)


def tagged_as(
    request: Request, content: bytes, tag: str, media_type: str, headers: dict[str, str] | None = None
) -> Response:
    """Return `content` under a tag that is known already."""
    # Shared caches keep nothing, and a browser asks each time: the tag makes that cheap.
    all_headers = {"ETag": tag, "Cache-Control": "private, no-cache", **(headers or {})}
    known_tags = request.headers.get("if-none-match", "")
    if known_tags and any(part.strip().removeprefix("W/") in (tag, "*") for part in known_tags.split(",")):
        return Response(status_code=304, headers=all_headers)
    return Response(content, media_type=media_type, headers=all_headers)


def tag_of(content: bytes) -> str:
    """Return the strong ETag of a body."""
    return f'"{hashlib.sha256(content).hexdigest()[:32]}"'
