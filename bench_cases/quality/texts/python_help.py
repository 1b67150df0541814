"""A text that every Python carries: the help topics of the language, read from `pydoc_data.topics`.

English prose with code examples, about 460 KB in 69 documents; it differs a little between Python releases, so a figure
measured on it names the release.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass

from roofline_model.core.errors import UnsupportedError

HELD_OUT_EVERY = 5
"""One topic in so many is never trained on."""
MIN_DOCUMENT_BYTES = 512
"""Shorter topics are mostly headings."""


@dataclass(frozen=True, slots=True)
class TinyText:
    """Documents to train on, and others to measure on."""

    training: tuple[str, ...]
    held_out: tuple[str, ...]
    source: str
    """What it was read from, with the Python release."""


def tiny_text() -> TinyText:
    """Read the help topics, split by document in a fixed order.

    Raises `UnsupportedError` where a Python was packaged without them.
    """
    try:
        from pydoc_data.topics import topics
    except ImportError:
        raise UnsupportedError(
            "this Python was packaged without pydoc_data.topics, the text that quality is measured on: "
            "install the full standard library"
        ) from None
    # Some topics have several names, and long ones contain shorter ones: what is held out must not be trained on.
    unique = dict.fromkeys(topics[name] for name in sorted(topics))
    documents = [text for text in unique if len(text.encode()) >= MIN_DOCUMENT_BYTES]
    held_out = tuple(documents[::HELD_OUT_EVERY])
    unseen = {key for text in held_out for key, _ in paragraphs(text)}
    training = (
        "\n\n".join(paragraph for key, paragraph in paragraphs(text) if key not in unseen)
        for index, text in enumerate(documents)
        if index % HELD_OUT_EVERY
    )
    return TinyText(
        training=tuple(text for text in training if len(text.encode()) >= MIN_DOCUMENT_BYTES),
        held_out=held_out,
        source=f"pydoc_data.topics of Python {platform.python_version()}",
    )


def paragraphs(text: str) -> list[tuple[str, str]]:
    """Return the paragraphs of a text, each with a key that does not depend on how its lines are broken."""
    return [("".join(part.split()), part) for part in text.split("\n\n") if part.strip()]


class ByteTokenizer:
    """One token per UTF-8 byte: 256 tokens, no file, no training."""

    vocab_size = 256

    def __call__(self, text: str, **_: object) -> dict[str, list[int]]:
        """Return the bytes of a text as `input_ids`."""
        return {"input_ids": list(text.encode())}

    def decode(self, ids: object) -> str:
        """Return the text of token ids; bytes that are no UTF-8 are shown as replacement characters."""
        return bytes(int(token) for token in ids).decode(errors="replace")  # type: ignore[attr-defined]
