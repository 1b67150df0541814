"""What the attention formulas leave over on one chip, as smooth surfaces over the sizes of a call (`../grid_surface.py`).

Each width has a surface of its own, because it runs kernels of its own. Errors under cross-validation: docs/validation.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from roofline_model.core.errors import InvalidValueError
from roofline_model.expected.attention.decode import DecodeWork
from roofline_model.expected.attention.memory import PREFILL_EDGE, hit_ratio
from roofline_model.expected.grid_surface import Grid

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from roofline_model.expected.attention.chip import AttentionChip
    from roofline_model.expected.attention.prefill import PrefillWork
    from roofline_model.expected.attention.shape import AttentionShapes

    Floats = NDArray[np.float64]

_GRID = Grid(
    (
        (0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0),
        (4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0),
        (0.0, 2.0, 4.0, 6.0),
        (6.0, 7.0, 8.0),
    )
)
GRIDS: Mapping[str, Grid] = MappingProxyType({"prefill": _GRID, "decode": _GRID})
"""Phase → knots, in log2: sequences × key/value heads, keys that a token may see, query heads of a group, head size. Chosen
under cross-validation by site: without the head size of its own 0.5 points worse in prefill and decode alike."""


@dataclass(frozen=True, slots=True)
class AttentionCorrection:
    """The surfaces of one phase on one chip."""

    phase: str
    log_ratio: Mapping[str, tuple[float, ...]]
    """Width → ln(measured / predicted) at the knots, the first axis major. A width without rows has none."""

    def __post_init__(self) -> None:
        for values in self.log_ratio.values():
            GRIDS[self.phase].check(values)

    def logs(self, width: str, sizes: tuple[Floats, ...]) -> Floats:
        """Return ln of the factor on the predicted time of each row; 0 for a width without a surface."""
        import numpy as np

        values = self.log_ratio.get(width)
        return np.zeros(len(sizes[0])) if values is None else GRIDS[self.phase].logs(values, sizes)

    def scaled(self, share: float) -> AttentionCorrection:
        """Return the surfaces as another chip keeps them: `share` of each value."""
        return AttentionCorrection(
            self.phase, {width: tuple(share * value for value in values) for width, values in self.log_ratio.items()}
        )


def surface_sizes(shapes: AttentionShapes) -> tuple[Floats, ...]:
    """Return the columns of `GRIDS` for each call."""
    batch, heads, kv_heads, dim, window = (
        getattr(shapes, name).astype(float) for name in ("batch", "heads", "kv_heads", "head_dim", "window")
    )
    return batch * kv_heads, window, heads / kv_heads, dim


def fit_surface(phase: str, sizes: tuple[Floats, ...], log_ratio: Floats) -> tuple[float, ...]:
    """Return the surface of one width through ln(measured / predicted) of its rows."""
    if phase not in GRIDS:
        raise InvalidValueError(f"attention phase must be {' or '.join(GRIDS)}, got {phase!r}")
    return GRIDS[phase].fit(sizes, log_ratio)


def surface_trust(work: PrefillWork | DecodeWork, learnt_on: AttentionChip) -> Floats:
    """Return from 0 to 1 how much of a surface holds for each row.

    It was learnt where a benchmark replayed the same buffers on `learnt_on`. Where the share of bytes found in L2 differs
    (a cold cache, a smaller L2), DRAM hides what the surface saw, so it fades with that difference, as for products.
    """
    import numpy as np

    chip = work.chip
    if isinstance(work, DecodeWork):
        moved, touched = work.moved_bytes, work.moved_bytes + work.append_bytes
        here = hit_ratio(touched, chip, chip.rules.cache_edge_factor)
        there = hit_ratio(touched, learnt_on, learnt_on.rules.cache_edge_factor)
    else:
        moved = work.attention_bytes
        here, there = (hit_ratio(moved, one, PREFILL_EDGE) for one in (chip, learnt_on))
    found = here * (1 - work.evicted_bytes / moved)
    result: Floats = np.square(1.0 - np.abs(there - found))
    return result
