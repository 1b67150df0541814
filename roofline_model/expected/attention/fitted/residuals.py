"""The attention model as a function of its constants: what a fit of measured rows varies, and what it predicts.

One problem is one chip and phase, all formats together: the constants of a width see only the rows of that width.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from roofline_model.core.errors import InvalidValueError
from roofline_model.expected.attention.decode import DecodeWork
from roofline_model.expected.attention.decode_time import decode_terms
from roofline_model.expected.attention.fitted.constants import SHARED, WIDTHS, ConstantRange, constant_ranges
from roofline_model.expected.attention.prefill import PrefillWork, fitted_size, prefill_terms

if TYPE_CHECKING:
    from numpy.typing import NDArray

    FloatArray = NDArray[Any]

Work = PrefillWork | DecodeWork
HEAD = "head_"


@dataclass(frozen=True, slots=True, eq=False)
class AttentionProblem:
    """Counted work of some rows and the constants they depend on. Vectors are in the order of `names`."""

    works: tuple[Work, ...]
    """One for each set of formats; rows follow each other in this order."""
    names: tuple[str, ...]
    """Constants that some row depends on."""
    stand_ins: Mapping[str, str]
    """Constant that no row depends on → the one whose value it takes."""

    @classmethod
    def of(cls, works: Sequence[Work]) -> AttentionProblem:
        """Return the problem of counted work of one chip and phase; raises `InvalidValueError` without rows."""
        if not works:
            raise InvalidValueError("a fit of attention needs at least one measured row")
        told = used_constants(works)
        phase = phase_of(works[0])
        widths = tuple(width for width in WIDTHS if any(name.endswith(width) for name in told))
        ranges = constant_ranges(phase, widths)
        names = tuple(name for name in ranges if name in told)
        return cls(tuple(works), names, {name: _stand_in(name, told) for name in ranges if name not in told})

    @property
    def ranges(self) -> tuple[ConstantRange, ...]:
        """Start, bounds and width of the prior of each of `names`."""
        known = constant_ranges(phase_of(self.works[0]))
        return tuple(known[name] for name in self.names)

    def values(self, vector: Sequence[float]) -> dict[str, float]:
        """Return all constants by name, those without rows of their own included."""
        free = {name: float(value) for name, value in zip(self.names, vector, strict=True)}
        known = constant_ranges(phase_of(self.works[0]))
        return {
            **{name: free.get(other, known[name].start_value) for name, other in self.stand_ins.items()},
            **free,
        }

    def predict_s(self, vector: Sequence[float]) -> FloatArray:
        """Return the predicted seconds of all rows."""
        import numpy as np

        values = self.values(vector)
        return np.concatenate([work_time_us(work, values) for work in self.works]) * 1e-6


def phase_of(work: Work) -> str:
    """Return prefill or decode."""
    return "prefill" if isinstance(work, PrefillWork) else "decode"


def work_time_us(work: Work, values: Mapping[str, float]) -> FloatArray:
    """Return the time of counted work in µs."""
    terms = prefill_terms(work, values) if isinstance(work, PrefillWork) else decode_terms(work, values)
    return terms[0]


def used_constants(works: Sequence[Work]) -> set[str]:
    """Return the names of the constants that some row depends on."""
    told: set[str] = set()
    for work in works:
        told |= set(SHARED[phase_of(work)]) | (_prefill(work) if isinstance(work, PrefillWork) else _decode(work))
    return told


def _prefill(work: PrefillWork) -> set[str]:
    width = WIDTHS[work.is_8bit]
    told = {f"launch_us_{width}"}
    for dim in set(work.head_dim.tolist()):
        rate = fitted_size(dim, is_8bit=work.is_8bit, is_sync=work.chip.rules.is_sync)
        size = 64 if dim <= 64 else 128 if dim <= 128 else 256
        told |= {f"efficiency_{rate}_{width}", f"cta_us_{size}_{width}", f"latency_ratio_{size}_{width}"}
    return told


def _decode(work: DecodeWork) -> set[str]:
    width = WIDTHS[work.is_8bit]
    stems: set[str] = set()
    is_split = work.splits > 1
    if work.per_head.any():
        stems |= {"head_launch_us", "head_cta_us", "head_token_ns", "head_fill_us"}
        stems |= {"head_split_us"} if (work.per_head & is_split).any() else set()
    if not work.per_head.all():
        stems |= {"launch_us", "cta_us", "tile_growth", "token_ns"}
        stems |= {"combine_us", "combine_split_us"} if (~work.per_head & is_split).any() else set()
    if work.chip.rules.is_datacentre_blackwell:
        # Only groups above 32 take the per-head kernel there: too few rows to tell the widths of the cache apart.
        return {f"{stem}_{WIDTHS[0] if stem.startswith(HEAD) else width}" for stem in stems}
    return {f"{stem}_{width}" for stem in stems}


def _stand_in(name: str, told: set[str]) -> str:
    """Return the constant nearest to one without rows: another head size of the same width, or the other width."""
    stem, width = name.rsplit("_", 1)
    other = WIDTHS[1 - WIDTHS.index(width)] if width in WIDTHS else ""
    base = stem.rsplit("_", 1)[0]
    candidates = [f"{base}_{size}_{width}" for size in (128, 256, 64)] + [f"{stem}_{other}"]
    return next((one for one in candidates if one in told), name)
