"""Several groups of attention rows as one: their work counted once, their times for any constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

from roofline_model.expected.attention.chip import AttentionChip
from roofline_model.expected.attention.correction import surface_sizes, surface_trust
from roofline_model.expected.attention.decode import DecodeWork, decode_work
from roofline_model.expected.attention.decode_time import decode_terms
from roofline_model.expected.attention.fitted.constants import WIDTHS
from roofline_model.expected.attention.fitted.rows import AttentionRows, whole
from roofline_model.expected.attention.prefill import PrefillWork, prefill_terms, prefill_work
from roofline_model.expected.attention.shape import AttentionShapes
from roofline_model.formats.catalog import get_format

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Positions = NDArray[np.intp]


def shapes_of(group: AttentionRows) -> AttentionShapes:
    """Return a group's shapes as the model takes them."""
    sizes = (group.batch, group.heads, group.kv_heads, group.q_len, group.kv_len, group.head_dim)
    return AttentionShapes.of(*(whole(size) for size in sizes), causal=group.causal == 1, window=whole(group.window))


def is_8bit(group: AttentionRows) -> bool:
    """Return whether the kernel computes (prefill) or reads its cache (decode) in 8 bit."""
    from roofline_model.expected.attention.cache_formats import uses_8bit

    assert group.chip is not None  # a group without one says so in `problem`
    return uses_8bit(group.chip, group.phase, get_format(group.activation_format), get_format(group.kv_format))


def group_work(group: AttentionRows) -> PrefillWork | DecodeWork:
    """Count the work of a group, operands warm where they fit: a benchmark replays the same buffers."""
    assert group.chip is not None
    shapes, is_narrow = shapes_of(group), is_8bit(group)
    cache_bytes = get_format(group.kv_format).traffic_bytes_per_element
    if group.phase == "prefill":
        return prefill_work(group.chip, shapes, is_8bit=is_narrow, cache_bytes=cache_bytes, is_cold=False)
    return decode_work(
        group.chip, shapes, is_8bit=is_narrow, cache_bytes=cache_bytes, is_cold=False, cache_read_ratio=group.cache_read
    )


class JoinedRows:
    """Groups of one chip and phase in the order of the table."""

    def __init__(self, groups: Sequence[AttentionRows]) -> None:
        import numpy as np

        rows = np.concatenate([group.rows for group in groups])
        order = np.argsort(rows, kind="stable")
        self.rows: Positions = rows[order]
        self.phase = groups[0].phase
        chip = groups[0].chip
        assert chip is not None
        self.chip = chip
        self.works = [group_work(group) for group in groups]
        self.groups = tuple(groups)
        self._order: Positions = order
        self._group = np.concatenate([np.full(len(group.rows), i) for i, group in enumerate(groups)])[order]
        self._place = np.concatenate([np.arange(len(group.rows)) for group in groups])[order]
        self._kept: dict[bytes, list[tuple[Positions, PrefillWork | DecodeWork]]] = {}

    @property
    def sites(self) -> tuple[str, ...]:
        """Head counts and size of each row: what a fold must not split."""
        import numpy as np

        names: Any = np.empty(len(self.rows), dtype=object)
        for number, group in enumerate(self.groups):
            here = np.flatnonzero(self._group == number)
            at = self._place[here]
            heads = zip(group.heads[at], group.kv_heads[at], group.head_dim[at], strict=True)
            names[here] = [f"{int(h)}x{int(kv)}x{int(d)}" for h, kv, d in heads]
        return tuple(names.tolist())

    def positions_of(self, widths: Sequence[str]) -> Positions:
        """Return the positions whose width (`16bit`, `8bit`) is one of `widths`."""
        import numpy as np

        has = np.array([("8bit" if is_8bit(group) else "16bit") in widths for group in self.groups])
        return np.flatnonzero(has[self._group])

    @property
    def row_widths(self) -> NDArray[np.object_]:
        """Width of each row, `16bit` or `8bit`."""
        import numpy as np

        names = np.array([WIDTHS[is_8bit(group)] for group in self.groups], dtype=object)
        widths: NDArray[np.object_] = names[self._group]
        return widths

    def surface_sizes(self) -> tuple[Floats, ...]:
        """Return the sizes that a library surface goes by, one column per axis."""
        import numpy as np

        columns = [
            np.concatenate(parts)
            for parts in zip(*(surface_sizes(shapes_of(group)) for group in self.groups), strict=True)
        ]
        return tuple(column[self._order] for column in columns)

    def surface_trust(self, learnt_on: AttentionChip) -> Floats:
        """Return from 0 to 1 how much of a surface of `learnt_on` holds for each row."""
        import numpy as np

        trusted: Floats = np.concatenate([surface_trust(work, learnt_on) for work in self.works])
        return trusted[self._order]

    def mixes(self, positions: Positions) -> list[str]:
        """Return the formats of each row as the interval tells them apart, one of `MIXES`."""
        names = [_mix(group) for group in self.groups]
        return [names[number] for number in self._group[positions].tolist()]

    def times(self, values: Mapping[str, float], positions: Positions) -> Floats:
        """Return the predicted seconds at `positions`."""
        import numpy as np

        time_s = np.empty(len(positions))
        for here, work in self._works_at(positions):
            terms = prefill_terms(work, values) if isinstance(work, PrefillWork) else decode_terms(work, values)
            time_s[here] = terms[0] * 1e-6
        return time_s

    def _works_at(self, positions: Positions) -> list[tuple[Positions, PrefillWork | DecodeWork]]:
        """Return the work at `positions`, group by group; a fit asks for the same ones hundreds of times."""
        import numpy as np

        key = positions.tobytes()
        if key not in self._kept:
            if len(self._kept) > 4:
                self._kept.clear()
            parts = []
            for number, work in enumerate(self.works):
                here = np.flatnonzero(self._group[positions] == number)
                if len(here):
                    parts.append((here, _taken(work, self._place[positions[here]])))
            self._kept[key] = parts
        return self._kept[key]


def _mix(group: AttentionRows) -> str:
    activation, kv = get_format(group.activation_format), get_format(group.kv_format)
    return "8bit" if activation.element_bits == 8 else "cache8bit" if kv.element_bits == 8 else "16bit"


def _taken(work: Any, index: Positions) -> Any:
    """Return the rows of a work at `index`: every array, nothing else."""
    import numpy as np

    assert is_dataclass(work)
    arrays = {
        field.name: value[index] for field in fields(work) if isinstance(value := getattr(work, field.name), np.ndarray)
    }
    return replace(work, **arrays)  # type: ignore[type-var]
