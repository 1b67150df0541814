"""A text as rows of token ids, all of one length, that remember their document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from bench_cases.quality.texts.estimates import Clusters
from bench_cases.quantization.calibration_data import Tokenizer
from roofline_model.core.errors import InvalidValueError, UnsupportedError


@dataclass(frozen=True, slots=True)
class TextWindows:
    """Token ids (windows, window_elems), cut side by side: each token is in one window, the first of each is not
    scored.
    """

    ids: Tensor
    documents: tuple[int, ...]
    """Document of each window, by position in what was given."""
    dropped_tokens_count: int
    """Tokens at the ends of documents that did not fill a window."""

    @property
    def window_elems(self) -> int:
        """Tokens of one window."""
        return int(self.ids.shape[1])

    @property
    def windows_count(self) -> int:
        """Windows."""
        return int(self.ids.shape[0])

    @property
    def scored_count(self) -> int:
        """Predictions made over all windows: one less than the tokens of each."""
        return self.windows_count * (self.window_elems - 1)

    @property
    def clusters(self) -> Clusters:
        """What an interval is formed over."""
        return Clusters.of_documents(self.documents)

    def thinned(self, windows_count: int) -> TextWindows:
        """Return an even choice of so many windows, in order: a cheaper look at the same documents."""
        if windows_count < 1:
            raise InvalidValueError(f"windows_count must be at least 1, got {windows_count}")
        if windows_count >= self.windows_count:
            return self
        picked = [index * self.windows_count // windows_count for index in range(windows_count)]
        return TextWindows(
            self.ids[picked], tuple(self.documents[index] for index in picked), self.dropped_tokens_count
        )


def read_text(path: str | Path) -> str:
    """Return a UTF-8 text file. Raises `InvalidValueError` in one line when it cannot be read as one."""
    try:
        text = Path(path).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        message = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InvalidValueError(f"the text {str(path)!r} cannot be read: {message}. Give a UTF-8 text file") from None
    if not text.strip():
        raise InvalidValueError(f"the text {str(path)!r} is empty: quality needs some hundred tokens at least")
    return text


def text_windows(
    text: str | Sequence[str],
    tokenizer: Tokenizer | None,
    *,
    window_elems: int = 512,
    max_tokens: int | None = 65536,
) -> TextWindows:
    """Cut a text, or several documents, into windows of `window_elems` tokens.

    max_tokens: take no more than so many, from the start; None takes everything. Raises `InvalidValueError` for a text
    shorter than one window, `UnsupportedError` for a model without a tokenizer.
    """
    if window_elems < 2:
        raise InvalidValueError(f"window_elems must be at least 2, got {window_elems}: the first token is not scored")
    if tokenizer is None:
        raise UnsupportedError(
            "this model has no tokenizer (its weights are seeded, or its folder lacks one): a text cannot be read with "
            "it"
        )
    if max_tokens is not None and max_tokens < window_elems:
        raise InvalidValueError(f"max_tokens={max_tokens} is fewer than one window of {window_elems} tokens: raise it")
    rows: list[list[int]] = []
    documents: list[int] = []
    longest = tokens_count = 0
    pieces = [text] if isinstance(text, str) else list(text)
    for number, piece in enumerate(pieces):
        remaining = None if max_tokens is None else max_tokens - len(rows) * window_elems
        if remaining is not None and remaining < window_elems:
            break
        ids = [int(token) for token in tokenizer(piece)["input_ids"]][:remaining]
        longest, tokens_count = max(longest, len(ids)), tokens_count + len(ids)
        for start in range(0, len(ids) - window_elems + 1, window_elems):
            rows.append(ids[start : start + window_elems])
            documents.append(number)
    if not rows:
        raise InvalidValueError(
            f"the longest document holds {longest} tokens, fewer than one window of {window_elems}: "
            "give a longer text or a smaller window_elems"
        )
    return TextWindows(torch.tensor(rows, dtype=torch.long), tuple(documents), tokens_count - len(rows) * window_elems)


def synthetic_windows(
    vocabulary_size: int, *, windows_count: int = 8, window_elems: int = 64, seed: int = 0
) -> TextWindows:
    """Return uniform random token ids, for models whose tokens mean nothing: layer errors and KL, never a
    perplexity.
    """
    if vocabulary_size < 1 or windows_count < 1 or window_elems < 2:
        raise InvalidValueError(
            f"no windows of {windows_count}×{window_elems} over {vocabulary_size} tokens: sizes must be positive, "
            "windows 2 long"
        )
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, vocabulary_size, (windows_count, window_elems), generator=generator)
    return TextWindows(ids, tuple(range(windows_count)), 0)
