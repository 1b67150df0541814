"""The attention rows of a kernel table that share a chip, a phase and formats: arrays ready for the model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from roofline_model.chips.hardware import Device
from roofline_model.core.errors import RooflineError, UnsupportedError
from roofline_model.core.finding import optional_text
from roofline_model.expected.attention.chip import AttentionChip, fitted_numbers
from roofline_model.expected.attention.fitted.constants import FittedAttention
from roofline_model.expected.attention.shape import LARGEST_HEAD, why_unmeasured
from roofline_model.expected.batch import ExpectedBatch
from roofline_model.expected.products.fitted.rows import find_chip, usable_rows
from roofline_model.expected.tables.kernel_labels import phase_of
from roofline_model.expected.tables.table import KernelTable
from roofline_model.formats.catalog import get_format
from roofline_model.operators.product import default_output_format

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Positions = NDArray[np.intp]

SHARED_PAGES = "trtllm 1.0.0"
"""Its collector allocates a cache for K alone, which V shares: grouped decode reads half the bytes (the attention study, section 4)."""

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
    problem: str = ""
    """Why no expected time can be had."""

    def at(self, index: Positions) -> AttentionRows:
        """Return some of the rows."""
        names = ("rows", *_SIZES, "causal", "window", "cache_read")
        return replace(self, **{name: getattr(self, name)[index] for name in names})

    @property
    def fit_problem(self) -> str:
        """Why the rows teach a fit nothing though they can be predicted; empty where they can.

        A cache of 8 bit without scales has constants of its own; a narrower one would borrow what it had taught.
        """
        kv = get_format(self.kv_format)
        is_taught = kv.element_bits >= 8 and not kv.scales
        return "" if is_taught else f"{kv.key} caches borrow the constants of 8-bit ones, which they cannot fit"

    def measured(self, table: KernelTable) -> AttentionRows | None:
        """Return the rows that have a measured time and count for something, or None when there is none."""
        import numpy as np

        counts = ~(table.numbers["weight"][self.rows] == 0)
        index = np.flatnonzero(np.isfinite(table.numbers["time_s"][self.rows]) & counts)
        return self.at(index) if len(index) else None

    def expected(self, known: tuple[FittedAttention, ...] | None = None) -> ExpectedBatch:
        """Return the expected times; `known` replaces the shipped library. Raises `UnsupportedError` without constants."""
        from roofline_model.expected.attention.model import expected_attention

        if self.chip is None or self.problem:
            raise UnsupportedError(self.problem)
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
            constants=self.constants(known),
        )

    def constants(self, known: tuple[FittedAttention, ...] | None = None) -> FittedAttention:
        """Return the constants of these rows, from `known` alone where it is given; raises `UnsupportedError` without any."""
        from roofline_model.expected.attention.fitted.library import find_attention
        from roofline_model.expected.measured_here import attention_with_measured_bandwidth

        if self.chip is None:
            raise UnsupportedError(self.problem)
        return attention_with_measured_bandwidth(find_attention(self.chip, self.phase, known), self.device)


def attention_row_groups(
    table: KernelTable, problems: dict[int, str], machines: Mapping[str, Device] | None = None
) -> list[AttentionRows]:
    """Return the table's usable attention rows by chip, phase and formats; `problems` gets the other rows' reasons.

    Left empty, the maths is BF16, the cache has the format of the maths, the output has the operators' convention, and prefill is causal.
    """
    import numpy as np

    from roofline_model.expected.attention.cache_formats import uses_8bit

    device, activation = table.texts["device"], table.text("activation_format")
    kv, output = table.text("kv_format"), table.text("output_format")
    shares_pages = np.array([SHARED_PAGES in source for source in table.text("source")])
    # Rows that nobody measured the like of are groups of their own: what holds for one must not stop its neighbours.
    members: dict[tuple[str, str, str, str, str, str], list[int]] = defaultdict(list)
    sizes_of = zip(*(table.numbers[name].tolist() for name in ("q_len", "kv_len", "head_dim", "causal")), strict=True)
    sizes_by_row = list(sizes_of)
    for i in usable_rows(table, "attention"):
        query, keys, head_dim, given_causal = sizes_by_row[i]
        maths, phase = activation[i] or "BF16", phase_of(table, i)
        if query > keys and given_causal != 0 and phase == "prefill":
            problems[i] = (
                f"row {table.line_numbers[i]}: q_len {query:.0f} is more than kv_len {keys:.0f}, which a causal mask does not "
                "allow; prefill is causal where the column is empty"
            )
            continue
        is_beyond = query > keys or head_dim > LARGEST_HEAD
        why_not = optional_text(why_unmeasured(int(query), int(keys), int(head_dim))) if is_beyond else None
        members[
            device[i],
            phase,
            maths,
            kv[i] or maths,
            output[i] or default_output_format(get_format(maths)).key,
            why_not or "",
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
        spec, problem = None, ""
        try:
            spec = spec_of(chip)
            uses_8bit(spec, phase, get_format(formats[0]), get_format(formats[1]))
        except RooflineError as error:
            problem = str(error)
        problem = problem or why_not
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
    """Return the chip's numbers, as its own shipped constants round them; a description that really differs keeps its own."""
    from roofline_model.expected.attention.fitted.library import shipped_attention

    chip = AttentionChip.of(device)
    return fitted_numbers(chip, next((one.chip for one in shipped_attention() if one.chip.key == chip.key), chip))


def whole(values: Floats) -> NDArray[np.int64]:
    """Return sizes as whole numbers, 0 where empty."""
    import numpy as np

    return np.where(np.isfinite(values), values, 0).astype(np.int64)
