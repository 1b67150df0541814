"""How wrong a transfer is beyond what the lender's constants are at home: a half-width per step, from chips left out
whole.

Errors of a transfer move a whole chip at once, so the rows of one chip say little about the next one, however many they
are. The half-width of a step is the one that, in quadrature with the lender's own interval, covers 80 % of the rows of
a left-out chip on average over the transfers; each transfer counts once. A chip is never scored with a half-width that
it helped to estimate, but where no other transfer of that kind exists.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roofline_model.core.toml_text import toml_text
from roofline_model.expected.attention.fitted.constants import MIXES, FittedAttention
from roofline_model.expected.attention.fitted.fit import ExpectedTimes, attention_left_out
from roofline_model.expected.attention.fitted.library import DRIFT as ATTENTION_DRIFT
from roofline_model.expected.attention.fitted.library import class_steps
from roofline_model.expected.chip import NEAR_FAMILIES, broad_family, transfer_step
from roofline_model.expected.fitting.fit import PlannedSet, TableFit
from roofline_model.expected.intervals import DRIFT, LENT_SCHEMA
from roofline_model.expected.products.fitted.constants import FittedGemm
from roofline_model.expected.products.fitted.library import ANCHORS, transferred
from roofline_model.expected.products.fitted.rows import expected_of_group

Floats = NDArray[np.float64]
Positions = NDArray[np.intp]

COVERAGE = 0.8
LARGEST = 2.0
"""Half-widths are searched up to this: a factor of seven."""
PRODUCTS, ATTENTION = "products", "attention"
FLOORS = {(ATTENTION, "decode-near"): (PRODUCTS, "near")}
"""Step → another whose half-width it does not fall below: a decode streams its cache as a small product its weights,
and one pair of chips that agree says little.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Transfer:
    """The rows of one chip under constants of others. Arrays have one entry per row."""

    device: str
    op: str
    """products or attention."""
    step: str
    """Key of the half-width: of `intervals.DRIFT` or `attention.transfer.DRIFT`."""
    log_ratio: Floats
    """ln(measured / predicted)."""
    low_log_ratio: Floats
    """−ln of the lender's own low factor."""
    high_log_ratio: Floats
    """ln of the lender's own high factor."""


@dataclass(frozen=True, slots=True)
class Drift:
    """The half-width of one step, and how much it rests on."""

    half_width_log_ratio: float
    transfer_count: int
    device_count: int


def transfers(sets: Sequence[PlannedSet], fitted: TableFit, without: str = "") -> list[Transfer]:
    """Return every transfer of a single step between the chips of `sets`, as if the chip `without` did not exist."""
    gemm = [lender for lender in fitted.gemm if lender.chip.key != without]
    attention = [lender for lender in fitted.attention if lender.chip.key != without]
    transfers: list[Transfer] = []
    for planned in sets:
        if planned.rows.device == without:
            continue
        if planned.attention is None:
            transfers += _of_products(planned, gemm)
        else:
            zero = dict.fromkeys(ATTENTION_DRIFT, 0.0)
            others = [fitted for fitted in attention if fitted.chip.key != planned.rows.device]
            left_out = attention_left_out(planned.attention, others, zero)
            transfers += _between_near(planned, others)
            if left_out is None or left_out[0].provenance != "transferred-class":
                continue
            _, rows, times = left_out
            steps = class_steps(
                planned.attention.joined.chip, planned.rows.part, [k for k in others if k.phase == planned.rows.part]
            )
            transfers += _of_attention(planned, rows, times, steps)
    return transfers


def _of_attention(
    planned: PlannedSet,
    rows: Positions,
    times: ExpectedTimes,
    steps: Mapping[str, str],
    chosen: NDArray[np.bool_] | None = None,
) -> list[Transfer]:
    """Return a transfer for each mix of formats; `steps` names the half-width of each. `chosen`: of these rows only."""
    assert planned.attention is not None
    mixes = planned.attention.joined.mixes(rows)
    transfers = []
    for mix in dict.fromkeys(mixes):
        at = [i for i, name in enumerate(mixes) if name == mix and (chosen is None or chosen[i])]
        if not at:
            continue
        measured = planned.rows.measured_s[rows[at]]
        transfers.append(
            _transfer(planned, ATTENTION, steps[mix], measured, times.time_s[at], times.low_s[at], times.high_s[at])
        )
    return transfers


def _between_near(planned: PlannedSet, others: Sequence[FittedAttention]) -> list[Transfer]:
    """Return the transfers to a chip from its near families alone: what stands for another product of a family."""
    assert planned.attention is not None
    chip, phase = planned.attention.joined.chip, planned.rows.part
    lenders = [
        lender for lender in others if {broad_family(lender.chip.family), broad_family(chip.family)} == NEAR_FAMILIES
    ]
    left_out = attention_left_out(planned.attention, lenders, dict.fromkeys(ATTENTION_DRIFT, 0.0))
    if left_out is None:
        return []
    _, rows, times = left_out
    if phase == "prefill":
        return _of_attention(planned, rows, times, dict.fromkeys(MIXES, "prefill-near"))
    # The per-head kernel for an 8-bit cache differs between libraries as no other does: its rows have a step of their
    # own.
    is_head = planned.attention.joined.per_head(rows)
    steps = {mix: "decode-near" if mix == "16bit" else "decode-near-8bit" for mix in MIXES}
    head_steps = {mix: step if mix == "16bit" else f"{step}-head" for mix, step in steps.items()}
    return [
        transfer
        for named, chosen in ((steps, ~is_head), (head_steps, is_head))
        for transfer in _of_attention(planned, rows, times, named, chosen)
    ]


def _of_products(planned: PlannedSet, candidates: Sequence[FittedGemm]) -> list[Transfer]:
    """Return the transfers to one chip and kernel family: from each other chip alone, or leaning on the chip's own."""
    start = planned.gemm[0]
    chip, family = start.chip, start.family
    if family in ANCHORS:
        rest = [other for other in candidates if (other.chip.key, other.family) != (chip.key, family)]
        has_anchor = any((other.chip.key, other.family) == (chip.key, ANCHORS[family].family) for other in rest)
        lenders = [("format", rest)] if has_anchor else []
    else:
        donors = [other for other in candidates if other.family == family and other.chip.key != chip.key]
        lenders = [(transfer_step(chip, donor.chip), [donor]) for donor in donors]
    zero = dict.fromkeys(DRIFT, 0.0)
    transfers = []
    for step, library in lenders:
        lent = transferred(chip, family, library, zero)
        if lent is None:
            continue
        key = f"{step}-{family}" if f"{step}-{family}" in DRIFT else step
        batches = [expected_of_group(group, lent) for group in planned.gemm_groups]
        place = np.argsort(np.concatenate([group.rows for group in planned.gemm_groups]), kind="stable")
        time_s, low_s, high_s = (
            np.concatenate([getattr(batch, name) for batch in batches])[place] for name in ("time_s", "low_s", "high_s")
        )
        transfers.append(_transfer(planned, PRODUCTS, key, planned.rows.measured_s, time_s, low_s, high_s))
    return transfers


def _transfer(
    planned: PlannedSet, op: str, step: str, measured_s: Floats, time_s: Floats, low_s: Floats, high_s: Floats
) -> Transfer:
    return Transfer(
        planned.rows.device, op, step, np.log(measured_s / time_s), np.log(time_s / low_s), np.log(high_s / time_s)
    )


def estimated(transfers: Iterable[Transfer]) -> dict[tuple[str, str], Drift]:
    """Return the half-width of each (op, step) that occurs."""
    members: dict[tuple[str, str], list[Transfer]] = {}
    for transfer in transfers:
        members.setdefault((transfer.op, transfer.step), []).append(transfer)
    return {
        key: Drift(half_width(group), len(group), len({transfer.device for transfer in group}))
        for key, group in sorted(members.items())
    }


def lent_text(drifts: Mapping[tuple[str, str], Drift], *, source: str, date: str) -> str:
    """Return the text of `LENT_FILE`; a step that no transfer of the rows takes keeps what ships, as not estimated."""
    document: dict[str, Any] = {"schema": LENT_SCHEMA, "source": source, "date": date}
    for operation, shipped in ((PRODUCTS, DRIFT), (ATTENTION, ATTENTION_DRIFT)):
        document[operation] = {}
        for step, width in shipped.items():
            drift = drifts.get((operation, step), Drift(width, 0, 0))
            floor = drifts.get(FLOORS.get((operation, step), (operation, step)), drift)
            # Rounding never makes an interval narrower.
            value = math.ceil(max(drift.half_width_log_ratio, floor.half_width_log_ratio) * 1000) / 1000
            counts = {"transfers": drift.transfer_count, "chips": drift.device_count}
            document[operation][step] = {"half_width": value, **counts}
    return toml_text(document)


def half_width(transfers: Sequence[Transfer]) -> float:
    """Return the half-width at which the transfers are covered to `COVERAGE` on average, three digits."""
    low, high = 0.0, LARGEST
    while high - low > 2e-4:
        middle = (low + high) / 2
        covered = math.fsum(_covered(transfer, middle) for transfer in transfers) / len(transfers)
        low, high = (middle, high) if covered < COVERAGE else (low, middle)
    return round((low + high) / 2, 3)


def _covered(transfer: Transfer, half_width_log: float) -> float:
    low, high = np.hypot(transfer.low_log_ratio, half_width_log), np.hypot(transfer.high_log_ratio, half_width_log)
    return float(((transfer.log_ratio >= -low) & (transfer.log_ratio <= high)).mean())


def drift_without(
    device: str, sets: Sequence[PlannedSet], fitted: TableFit
) -> tuple[Mapping[str, float], Mapping[str, float]]:
    """Return the half-widths (of products, of attention) to score a chip with that is left out.

    They come from transfers among the other chips alone. Where there is none of a kind, from those to the other chips,
    of which this one is a lender; else the shipped ones.
    """
    loose = estimated(transfer for transfer in transfers(sets, fitted) if transfer.device != device)
    strict = estimated(transfers(sets, fitted, device))
    drifts = {**loose, **strict}

    def of(op: str, shipped: Mapping[str, float]) -> dict[str, float]:
        return {
            step: drifts[op, step].half_width_log_ratio if (op, step) in drifts else value
            for step, value in shipped.items()
        }

    return of(PRODUCTS, DRIFT), of(ATTENTION, ATTENTION_DRIFT)
