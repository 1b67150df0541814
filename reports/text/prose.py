"""Sentences as HTML: the one place where a text that others wrote becomes markup."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markupsafe import Markup

    from reports.document.blocks import Rich, Span

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


def rich(text: Rich, *, is_prose: bool = True) -> Markup:
    """Return a text of a block as markup, each span in the element that its look asks for; `is_prose`: the rest as `prose`."""
    from markupsafe import Markup, escape

    plain = prose if is_prose else escape
    if isinstance(text, str):
        return plain(text)
    spans = text if isinstance(text, tuple) else (text,)
    return Markup("").join(plain(span) if isinstance(span, str) else _span(span) for span in spans)


def _span(span: Span) -> Markup:
    from markupsafe import Markup, escape

    if span.medium == "text":
        return Markup("")
    looks = span.look.split()
    element = next((_ELEMENTS[look] for look in looks if look in _ELEMENTS), "span")
    element = "a" if span.anchor else element
    classes = " ".join(look for look in looks if look not in ("code", "bold", "breaks"))
    pairs = (("class", classes), ("href", f"#{span.anchor}" if span.anchor else ""), ("title", span.title))
    attributes = Markup("").join(Markup(' {}="{}"').format(name, value) for name, value in pairs if value)
    content = Markup("<code>{}</code>").format(span.text) if element == "a" and "code" in looks else escape(span.text)
    if "breaks" in looks:
        content = Markup("_<wbr>").join(content.split("_"))
    if element == "span" and not attributes:
        return content
    return Markup("<{0}{1}>{2}</{0}>").format(Markup(element), attributes, content)


_ELEMENTS = {"code": "code", "bold": "b", "flag": "abbr", "mark": "abbr", "level-of": "abbr"}
"""Look of a span → its element."""
