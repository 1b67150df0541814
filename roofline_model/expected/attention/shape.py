"""A batch of attention shapes as checked arrays: B, Hq, Hkv, Sq, Skv, D, causal, window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from roofline_model.core.errors import InvalidValueError
from roofline_model.core.finding import Finding, finding

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    IntArray = NDArray[Any]

_LETTERS = (
    ("batch", "B"), ("heads", "Hq"), ("kv_heads", "Hkv"), ("query", "Sq"), ("keys", "Skv"), ("head_dim", "D"),
)  # fmt: skip
LARGEST = 2**40
LARGEST_HEAD = 512
"""Largest head size that was measured; MLA's 576 runs kernels of its own."""


@dataclass(frozen=True, slots=True)
class AttentionShapes:
    """Attention calls, one entry per row; whole numbers as int64."""

    batch: IntArray
    heads: IntArray
    kv_heads: IntArray
    query: IntArray
    """New tokens per sequence."""
    keys: IntArray
    """Tokens per sequence after the new ones were appended to the cache."""
    head_dim: IntArray
    window: IntArray
    """Keys a token may see; equals `keys` where attention is full or the window is longer."""
    causal: IntArray
    """Boolean."""

    def __len__(self) -> int:
        return len(self.batch)

    @classmethod
    def of(
        cls,
        B: ArrayLike,
        Hq: ArrayLike,
        Hkv: ArrayLike,
        Sq: ArrayLike,
        Skv: ArrayLike,
        D: ArrayLike,
        *,
        causal: ArrayLike,
        window: ArrayLike | None,
    ) -> AttentionShapes:
        """Broadcast and check; `window` is 0 or None for full attention.

        Raises `InvalidValueError` naming the letter and the first row that is wrong.
        """
        import numpy as np

        given = [np.atleast_1d(np.asarray(values)) for values in (B, Hq, Hkv, Sq, Skv, D)]
        limit = np.atleast_1d(np.asarray(0 if window is None else window))
        mask = np.atleast_1d(np.asarray(causal, dtype=bool))
        try:
            *sizes, limit, mask = np.broadcast_arrays(*given, limit, mask)
        except ValueError:
            shapes = ", ".join(f"{letter} {len(array)}" for (_, letter), array in zip(_LETTERS, given, strict=True))
            raise InvalidValueError(
                f"attention arrays must have one length or be single numbers, got {shapes}, window {len(limit)}, "
                f"causal {len(mask)}"
            ) from None
        whole = [_whole(letter, values, 1) for (_, letter), values in zip(_LETTERS, sizes, strict=True)]
        batch, heads, kv_heads, query, keys, head_dim = whole
        limit = _whole("window", limit, 0)
        _refuse(heads % kv_heads != 0, "Hq must be a multiple of Hkv", heads, kv_heads)
        _refuse(query > keys, "Skv counts the new tokens too, so it is at least Sq", query, keys)
        return cls(
            batch, heads, kv_heads, query, keys, head_dim, np.where(limit > 0, np.minimum(limit, keys), keys), mask
        )

    def take(self, rows: IntArray) -> AttentionShapes:
        """Return the rows of an index or mask."""
        return AttentionShapes(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))


def why_unmeasured(query: int, keys: int, head_dim: int = 1) -> Finding | None:
    """Return why a possible call has no expected time; None where its shape is like those that were measured."""
    if query > keys:
        return finding("no-expected-time", kind="queries-beyond-cache", query_count=query, cached_count=keys)
    if head_dim > LARGEST_HEAD:
        return finding("no-expected-time", kind="head-dim", head_dim=head_dim, largest_head_dim=LARGEST_HEAD)
    return None


def _whole(letter: str, values: IntArray, least: int) -> IntArray:
    import numpy as np

    if values.dtype.kind not in "iuf":
        raise InvalidValueError(f"{letter} must be whole numbers, got {values.dtype}")
    wrong = ~((values >= least) & (values <= LARGEST) & (values == np.floor(values)))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InvalidValueError(f"{letter} must be a whole number from {least}, got {values[row]} in row {row}")
    return values.astype(np.int64)


def _refuse(wrong: IntArray, rule: str, first: IntArray, second: IntArray) -> None:
    if wrong.any():
        row = int(wrong.argmax())
        raise InvalidValueError(f"{rule}, got {first[row]} and {second[row]} in row {row}")
