"""Sentences as HTML: the one place where a text that others wrote becomes markup."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markupsafe import Markup

_COMMAND = re.compile(r"`([^`\n]+)`")
_UNITS = re.compile(r" (?=(?:%|µs|ms)(?:\W|$))")
_NO_BREAK = "\u00a0"


def prose(text: str) -> Markup:
    """Return a sentence as markup: what stands in backticks is a `<code>`, and no line breaks between a number and its unit.

    The text is escaped first: whatever a label or a note holds stays text, in a command as outside of one. A backtick
    without a second one stays as it is.
    """
    from markupsafe import Markup, escape

    safe = _UNITS.sub(_NO_BREAK, str(escape(text)))
    return Markup(_COMMAND.sub(r"<code>\1</code>", safe))
