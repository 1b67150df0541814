"""A path as a person typed it: `~` and `~name` are their home folders."""

from __future__ import annotations

from pathlib import Path

from roofline_model.core.errors import InvalidValueError

_SHOWN_CHARS = 200


def user_path(text: str | Path) -> Path:
    """Return the path with a leading `~` or `~name` expanded; `InvalidValueError` when nobody here is called so."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise InvalidValueError(
            f"{shortened(str(text))!r} begins with a home folder that is not known here: write the whole path"
        ) from None


def shortened(text: str, most: int = _SHOWN_CHARS) -> str:
    """Return the text, cut where it is longer than a message can bear."""
    return text if len(text) <= most else f"{text[:most]}…"
