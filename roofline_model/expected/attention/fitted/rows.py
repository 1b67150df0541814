"""The attention rows of a kernel table: groups that share a chip, a phase and formats, and several groups counted as
one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roofline_model.chips.hardware import Device
from roofline_model.core.errors import RooflineError
from roofline_model.core.finding import Finding, finding, finding_of, unsupported
from roofline_model.expected.attention.cache_formats import uses_8bit
from roofline_model.expected.attention.chip import AttentionChip
from roofline_model.expected.attention.decode import DecodeWork, decode_terms, decode_work
from roofline_model.expected.attention.fitted.constants import WIDTHS, FittedAttention, surface_sizes, surface_trust
from roofline_model.expected.attention.fitted.library import (
    attention_with_measured_bandwidth,
    find_attention,
    shipped_attention,
)
from roofline_model.expected.attention.model import expected_attention
from roofline_model.expected.attention.prefill import PrefillWork, prefill_terms, prefill_work
from roofline_model.expected.attention.published_kernel import attention_constants_here
from roofline_model.expected.attention.shape import LARGEST_HEAD, AttentionShapes, why_unmeasured
from roofline_model.expected.chip import fitted_numbers
from roofline_model.expected.fitting.table import KernelTable, phase_of, queries_beyond_keys
from roofline_model.expected.prediction import ExpectedBatch
from roofline_model.expected.products.fitted.rows import find_chip, taken, usable_rows
from roofline_model.formats.catalog import get_format
from roofline_model.operators.product import default_output_format

Floats = NDArray[np.float64]
Positions = NDArray[np.intp]

SHARED_PAGES = "trtllm 1.0.0"
"""Its collector allocates a cache for K alone, which V shares: grouped decode reads half the bytes (the attention
study, section 4).
"""

_SIZES = ("batch", "heads", "kv_heads", "q_len", "kv_len", "head_dim")


@dataclass(frozen=True, slots=True, eq=False)
class AttentionRows:
    """Rows of one chip, phase and set of formats. Arrays have one entry per row."""

    device: Device
    chip: AttentionChip | None
    """What the model needs of the chip; None where `problem` says why there is none."""
    phase: str
    activation_format: str
    kv_format: str
    output_format: str
    rows: Positions
    """Positions in the table."""
    batch: Floats
    heads: Floats
    kv_heads: Floats
    q_len: Floats
    kv_len: Floats
    head_dim: Floats
    causal: Floats
    """1 or 0."""
    window: Floats
    """Keys a token may see; NaN for all."""
    cache_read: Floats
    """Share of the cache's bytes that the benchmark really reads (`SHARED_PAGES`)."""
    problem: Finding | None = None
    """Why no expected time can be had."""

    @property
    def fit_problem(self) -> Finding | None:
        """Why the rows teach a fit nothing though they can be predicted; None where they can.

        A cache of 8 bit without scales has constants of its own; a narrower one would borrow what it had taught.
        """
        kv = get_format(self.kv_format)
        is_taught = kv.element_bits >= 8 and not kv.scales
        return None if is_taught else finding("fit-doubtful", kind="cache", format=kv.key)

    def expected(self, library: tuple[FittedAttention, ...] | None = None) -> ExpectedBatch:
        """Return the expected times; `library` replaces the shipped library. Raises `UnsupportedError` without
        constants.
        """

        if self.problem is not None:
            raise unsupported(self.problem)
        assert self.chip is not None  # a group without one has a problem
        sizes = (whole(getattr(self, name)) for name in _SIZES)
        return expected_attention(
            self.chip,
            *sizes,
            causal=self.causal == 1,
            window=whole(self.window),
            activation_format=self.activation_format,
            kv_format=self.kv_format,
            phase=self.phase,
            cache_read_ratio=self.cache_read,
            constants=self.constants(library),
        )

    def constants(self, library: tuple[FittedAttention, ...] | None = None) -> FittedAttention:
        """Return the constants of these rows, from `library` alone where it is given; raises `UnsupportedError` without
        any.
        """

        if self.chip is None:
            assert self.problem is not None  # it says why there is no chip
            raise unsupported(self.problem)
        fitted = find_attention(self.chip, self.phase, library)
        # Constants that were given are asked for themselves, not for a faster kernel in their place.
        at_hand = attention_constants_here if library is None else attention_with_measured_bandwidth
        return at_hand(fitted, self.device)


def attention_row_groups(
    table: KernelTable, problems: dict[int, Finding], machines: Mapping[str, Device] | None = None
) -> list[AttentionRows]:
    """Return the table's usable attention rows by chip, phase and formats; `problems` gets the other rows' reasons.

    Left empty, the maths is BF16, the cache has the format of the maths, the output has the operators' convention, and
    prefill is causal.
    """
    device, activation = table.texts["device"], table.text("activation_format")
    kv, output = table.text("kv_format"), table.text("output_format")
    shares_pages = np.array([SHARED_PAGES in source for source in table.text("source")])
    # Rows that nobody measured the like of are groups of their own: what holds for one must not stop its neighbours.
    members: dict[tuple[str, str, str, str, str, Finding | None], list[int]] = defaultdict(list)
    sizes_of = zip(*(table.numbers[name].tolist() for name in ("q_len", "kv_len", "head_dim", "causal")), strict=True)
    sizes_by_row = list(sizes_of)
    for i in usable_rows(table, "attention"):
        query, keys, head_dim, given_causal = sizes_by_row[i]
        maths, phase = activation[i] or "BF16", phase_of(table, i)
        if query > keys and given_causal != 0 and phase == "prefill":
            problems[i] = queries_beyond_keys(int(query), int(keys), "causal mask", phase)
            continue
        is_beyond = query > keys or head_dim > LARGEST_HEAD
        why_not = why_unmeasured(int(query), int(keys), int(head_dim)) if is_beyond else None
        members[
            device[i],
            phase,
            maths,
            kv[i] or maths,
            output[i] or default_output_format(get_format(maths)).key,
            why_not,
        ].append(i)
    groups = []
    for (name, phase, *formats, why_not), positions in members.items():
        chip = find_chip(table, name, positions, problems, machines)
        if chip is None:
            continue
        rows = np.array(positions, dtype=np.intp)
        sizes = {name: table.numbers[name][rows] for name in _SIZES}
        given = table.numbers["causal"][rows]
        causal = np.where(np.isnan(given), float(phase == "prefill"), given)
        spec, problem = None, why_not
        try:
            spec = spec_of(chip)
            uses_8bit(spec, phase, get_format(formats[0]), get_format(formats[1]))
        except RooflineError as error:
            problem = finding_of(error)
        maths_key, kv_key, output_key = formats
        groups.append(
            AttentionRows(
                device=chip,
                chip=spec,
                phase=phase,
                activation_format=maths_key,
                kv_format=kv_key,
                output_format=output_key,
                rows=rows,
                batch=sizes["batch"],
                heads=sizes["heads"],
                kv_heads=sizes["kv_heads"],
                q_len=sizes["q_len"],
                kv_len=sizes["kv_len"],
                head_dim=sizes["head_dim"],
                causal=causal,
                window=table.numbers["window"][rows],
                cache_read=np.where(shares_pages[rows], 0.5, 1.0),
                problem=problem,
            )
        )
    return groups


def spec_of(device: Device) -> AttentionChip:
    """Return the chip's numbers, as its own shipped constants round them; a description that really differs keeps its
    own.
    """

    chip = AttentionChip.of(device)
    return fitted_numbers(
        chip, next((fitted.chip for fitted in shipped_attention() if fitted.chip.key == chip.key), chip)
    )


def whole(values: Floats) -> NDArray[np.int64]:
    """Return sizes as whole numbers, 0 where empty."""
    return np.where(np.isfinite(values), values, 0).astype(np.int64)


def shapes_of(group: AttentionRows) -> AttentionShapes:
    """Return a group's shapes as the model takes them."""
    sizes = (group.batch, group.heads, group.kv_heads, group.q_len, group.kv_len, group.head_dim)
    return AttentionShapes.of(*(whole(size) for size in sizes), causal=group.causal == 1, window=whole(group.window))


def is_8bit(group: AttentionRows) -> bool:
    """Return whether the kernel computes (prefill) or reads its cache (decode) in 8 bit."""

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
        self._parts_by_key: dict[bytes, list[tuple[Positions, PrefillWork | DecodeWork]]] = {}

    @property
    def sites(self) -> tuple[str, ...]:
        """Head counts and size of each row: what a fold must not split."""
        names: Any = np.empty(len(self.rows), dtype=object)
        for number, group in enumerate(self.groups):
            here = np.flatnonzero(self._group == number)
            at = self._place[here]
            heads = zip(group.heads[at], group.kv_heads[at], group.head_dim[at], strict=True)
            names[here] = [f"{int(h)}x{int(kv)}x{int(d)}" for h, kv, d in heads]
        return tuple(names.tolist())

    def positions_of(self, widths: Sequence[str]) -> Positions:
        """Return the positions whose width (`16bit`, `8bit`) is one of `widths`."""
        has = np.array([("8bit" if is_8bit(group) else "16bit") in widths for group in self.groups])
        return np.flatnonzero(has[self._group])

    def per_head(self, positions: Positions) -> NDArray[np.bool_]:
        """Return which rows run the decode kernel with one CTA per query head; none of a prefill does."""
        parts = [
            work.per_head if isinstance(work, DecodeWork) else np.zeros(len(group.rows), dtype=bool)
            for work, group in zip(self.works, self.groups, strict=True)
        ]
        is_head: NDArray[np.bool_] = np.concatenate(parts)[self._order][positions]
        return is_head

    @property
    def row_widths(self) -> NDArray[np.object_]:
        """Width of each row, `16bit` or `8bit`."""
        names = np.array([WIDTHS[is_8bit(group)] for group in self.groups], dtype=object)
        widths: NDArray[np.object_] = names[self._group]
        return widths

    def surface_sizes(self) -> tuple[Floats, ...]:
        """Return the sizes that a library surface goes by, one column per axis."""
        columns = [
            np.concatenate(parts)
            for parts in zip(*(surface_sizes(shapes_of(group)) for group in self.groups), strict=True)
        ]
        return tuple(column[self._order] for column in columns)

    def surface_trust(self, learnt_on: AttentionChip) -> Floats:
        """Return from 0 to 1 how much of a surface of `learnt_on` holds for each row."""
        trusted: Floats = np.concatenate([surface_trust(work, learnt_on) for work in self.works])
        return trusted[self._order]

    def mixes(self, positions: Positions) -> list[str]:
        """Return the formats of each row as the interval tells them apart, one of `MIXES`."""
        names = [_mix(group) for group in self.groups]
        return [names[number] for number in self._group[positions].tolist()]

    def times(self, values: Mapping[str, float], positions: Positions) -> Floats:
        """Return the predicted seconds at `positions`."""
        time_s = np.empty(len(positions))
        for here, work in self._works_at(positions):
            terms = prefill_terms(work, values) if isinstance(work, PrefillWork) else decode_terms(work, values)
            time_s[here] = terms[0] * 1e-6
        return time_s

    def _works_at(self, positions: Positions) -> list[tuple[Positions, PrefillWork | DecodeWork]]:
        """Return the work at `positions`, group by group; a fit asks for the same ones hundreds of times."""
        key = positions.tobytes()
        if key not in self._parts_by_key:
            if len(self._parts_by_key) > 4:
                self._parts_by_key.clear()
            parts = []
            for number, work in enumerate(self.works):
                here = np.flatnonzero(self._group[positions] == number)
                if len(here):
                    parts.append((here, taken(work, self._place[positions[here]])))
            self._parts_by_key[key] = parts
        return self._parts_by_key[key]


def _mix(group: AttentionRows) -> str:
    activation, kv = get_format(group.activation_format), get_format(group.kv_format)
    return "8bit" if activation.element_bits == 8 else "cache8bit" if kv.element_bits == 8 else "16bit"
