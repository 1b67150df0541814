"""Terminal summary of a run: the table of cases and a verdict per shape. Text only; `hooks.py` writes it.

One row per case, its processes pooled. Below the tables stand a few lines: how good the predictions were, what is in
doubt and why, what failed or was skipped. `roofline show RUN --all` has the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import median

from plugin.machine.canary import calibration_mismatch
from plugin.terminal.models import model_lines
from reports.present.blocks import table
from reports.present.cases import CASES
from reports.present.layout import INDENT, Line, block_lines, headers_without_room, laid_out_width, wrapped
from reports.present.words.verdict_text import verdict_text
from results.cases.case_result import CaseResult, case_results
from results.cases.shape_verdict import GroupKey, groups, shape_verdicts
from results.records.flags import DOUBTFUL_FLAGS, FLAGS, KERNEL_FLAGS
from results.records.records import ProcessInfo, Record
from results.records.state_records import CanaryReading, NoiseFloor
from roofline_model.chips.hardware import Device
from roofline_model.core.finding import advice_text, code_text
from roofline_model.core.units import (
    counted,
    format_percent,
    format_speedup,
    format_time,
)
from roofline_model.operators.case import case_title, is_model_case, op_title

_TOLD_APART = ("quarantined", "capped", "above-roof")
"""Flags with lines of their own, that say what to do."""
_OTHER_TIMES = ("simulated", "forced")
"""Flags of times that are not this chip's own."""
GOOD_ROOF_RATIO = 0.7
POOR_ROOF_RATIO = 0.3

_STATUS_COLOURS = {"failed": "red", "skipped": "yellow"}
_CACHE_MEANINGS = {
    "cold": "operands from memory",
    "flushed": "caches flushed before each call",
    "warm": "hot: operands may stay in cache",
}
_MODE_MEANINGS = {
    "graph": "replay of a CUDA graph",
    "burst": "short, after recovery",
    "sustained": "power and clock flat",
}
_NAMED_REASONS = 2
"""Reasons of what failed or was skipped that are told; `roofline show` has all."""


def summary_lines(
    records: Sequence[Record],
    failed_reasons: bool = True,
    *,
    floors: Mapping[tuple[str, str], NoiseFloor] | None = None,
    width: int | None = None,
) -> list[Line]:
    """Return the whole summary: one block per shape, what ± means, then the reasons of what was not measured.

    `floors` (by case key and method hash) widen the interval of cases that ran in one process; `width` is the
    terminal's own by default, and lines are laid out for 60 to 200 columns.
    """
    width = laid_out_width(width)
    cases = case_results(records, floors)
    verdicts = {
        verdict.key: verdict for verdict in shape_verdicts(cases) if verdict.baseline is not None and verdict.is_contest
    }
    blocks = groups(case for case in cases if case.status in ("measured", "predicted") and (case.ideal or case.timed))
    kernels = {key: rows for key, rows in blocks.items() if not is_model_case(rows[0].case)}
    # Every block has the same columns: those that fit in the widest of them.
    left_out = frozenset(name for rows in kernels.values() for name in _too_wide(rows, width - len(INDENT)))
    lines: list[Line] = []
    for key, rows in kernels.items():
        lines += _block(key, rows, width, left_out)
        if key in verdicts:
            lines += wrapped(f"  → {verdict_text(verdicts[key])}", "bold", width, indent="    ")
        lines.append(Line(""))
    if len(kernels) < len(blocks):
        lines += model_lines(cases, width)
    lines += _accuracy_lines([row for rows in blocks.values() for row in rows], width)
    lines += _interval_lines([row for rows in blocks.values() for row in rows], width)
    if failed_reasons:
        lines += _reasons(records, width)
    return lines


def count_line(records: Iterable[Record]) -> str:
    """Return the counts of cases by status, e.g. `12 measured (3 in doubt), 1 skipped`; `nothing measured` for none.

    A case counts once, whatever the number of its processes: as measured when one of them measured it.
    """
    cases = case_results(records)
    counts = Counter(case.status for case in cases)
    doubtful = sum(bool(case.doubts) for case in cases)
    processes = len({record.process.ordinal for case in cases for record in case.records if record.measurement})
    parts = []
    for status in ("measured", "predicted", "skipped", "failed"):
        if counts[status]:
            remarks = [f"in {processes} processes"] if status == "measured" and processes > 1 else []
            remarks += [f"{doubtful} in doubt"] if status == "measured" and doubtful else []
            parts.append(f"{counts[status]} {status}" + (f" ({', '.join(remarks)})" if remarks else ""))
    return ", ".join(parts) or "nothing measured"


def flag_lines(
    records: Sequence[Record],
    canaries: Sequence[CanaryReading] = (),
    processes: Iterable[ProcessInfo] | None = None,
    *,
    chip: Device | None = None,
    width: int | None = None,
) -> list[Line]:
    """Return the doubts about the run, with the counts of their cases.

    Quarantined and capped cases and workers that were replaced come first, with what to do; then all other doubts in
    one line. `processes` are those of the run; None: those of the records. `chip`: the one of the predictions, for
    whether its calibration still holds.
    """
    width = laid_out_width(width)
    by_flag = _cases_by_flag(records)
    measured = len({record.case.case_key for record in records if record.measurement})
    lines: list[Line] = []
    lines += _quarantine_lines(by_flag.get("quarantined", []), measured, canaries, width)
    if capped := by_flag.get("capped", []):
        lines += wrapped(
            f"{_of(capped, measured)} capped: {code_text('capped')}. Lock a lower clock or cool the machine, then run "
            f"{'it' if len(capped) == 1 else 'them'} again ({_named(capped)})",
            "yellow",
            width,
        )
    lines += _worker_lines(records, processes, width)
    if impossible := by_flag.get("above-roof", []):
        lines += wrapped(
            f"above-roof (!): {counted(len(impossible), 'case')}: {code_text('above-roof')} ({_named(impossible)})",
            "yellow",
            width,
        )
    beaten = {record.case.case_key: record.case.id for record in records if _beats_measured_roof(record)}
    if beaten:
        lines += wrapped(
            f"above the roof: {counted(len(beaten), 'case')} ran more than 5 % faster than the ceilings measured on "
            "this "
            f"machine: run `roofline calibrate` while it is quiet ({_named(list(beaten.values()))})",
            "yellow",
            width,
        )
    mismatch = None if chip is None else calibration_mismatch(canaries, chip)
    if mismatch is not None:
        lines += wrapped(advice_text(mismatch), "yellow", width)
    for flag in _OTHER_TIMES:
        if named := by_flag.get(flag):
            lines += wrapped(f"{flag}: {counted(len(named), 'case')}: {code_text(flag)}", "yellow", width)
    return lines + _doubt_lines(by_flag, measured, width)


def _doubt_lines(by_flag: Mapping[str, list[str]], measured: int, width: int) -> list[Line]:
    """Return how many cases are in doubt, by cause, and what the gravest cause means."""
    own_lines = {*_TOLD_APART, *_OTHER_TIMES}
    causes = [flag for flag in FLAGS if flag in DOUBTFUL_FLAGS - own_lines and by_flag.get(flag)]
    if not causes:
        return []
    count = len({case for flag in causes for case in by_flag[flag]})
    named = ", ".join(f"{flag} {len(by_flag[flag])}" for flag in causes)
    gravest = next((flag for flag in KERNEL_FLAGS if flag in causes), causes[0])
    text = f"! {count} of {counted(measured, 'case')} in doubt: {named}. {gravest}: {code_text(gravest)}"
    return wrapped(text, "yellow", width)


# The table ---------------------------------------------------------------------------------------------------


def _block(key: GroupKey, rows: Sequence[CaseResult], width: int, left_out: frozenset[str]) -> list[Line]:
    op, _, cache, mode = key
    means = [_CACHE_MEANINGS[cache]] if cache in _CACHE_MEANINGS else []
    means += [_MODE_MEANINGS[mode]] if mode in _MODE_MEANINGS else []
    title = (
        case_title(op, rows[0].case.shape)
        + (f" · {cache}" if cache != "none" else "")
        + (f" · {mode}" if mode != "eager" else "")
    )
    lines = wrapped(f"{title}  ({', '.join(means)})" if means else title, "bold", width)
    columns = [column for column in CASES if column.header not in left_out]
    return lines + block_lines(table(title, columns, rows), width, colours=[_colour(row) for row in rows])


def _too_wide(rows: Sequence[CaseResult], width: int) -> set[str]:
    """Return the columns that a block has no room for. The ideal time of a case that was not measured always has."""
    is_predicted = any(row.pooled is None for row in rows)
    columns = [replace(column, drop=0) if is_predicted and column.header == "Ideal" else column for column in CASES]
    return set(headers_without_room(table("", columns, rows), width - len(INDENT)))


def _colour(row: CaseResult) -> str:
    share = row.roof_share_ratio
    if share is None:
        return ""
    return "green" if share >= GOOD_ROOF_RATIO else "red" if share < POOR_ROOF_RATIO else ""


# Below the tables --------------------------------------------------------------------------------------------


def _accuracy_lines(rows: Sequence[CaseResult], width: int) -> list[Line]:
    """Return the prediction errors, ideal beside expected, over the cases that have both; forced runs are left out."""
    error_pairs = [
        (abs(row.roof_share_ratio - 1), abs(row.error_expected_ratio))
        for row in rows
        if row.roof_share_ratio is not None
        and row.error_expected_ratio is not None
        and set(_OTHER_TIMES).isdisjoint(row.flags)
    ]
    if not error_pairs:
        return []
    ideal, expected = (median(errors) for errors in zip(*error_pairs, strict=True))
    return wrapped(
        f"predictions: median |error| of the ideal {format_percent(ideal)}, of the expected time "
        f"{format_percent(expected)} ({counted(len(error_pairs), 'case')})",
        "light",
        width,
    )


def _interval_lines(rows: Sequence[CaseResult], width: int) -> list[Line]:
    """Return what the ± of the tables are, in one line."""
    totals = [row.total for row in rows if row.total is not None and row.total_ratio is not None]
    parts = []
    if totals:
        counts = sorted({total.process_count for total in totals if total.process_count > 1})
        span = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else "".join(map(str, counts))
        sources = [f"{span} processes"] if counts else []
        if any(total.basis == "processes" and total.process_count == 1 for total in totals):
            sources.append("(cases of one process) the spread of the other cases")
        if any(total.basis == "floor" for total in totals):
            sources.append("this machine's A/A floor")
        parts.append(f"± is interval_total, from {' and '.join(sources)}")
    if any(row.total_ratio is None and row.within_ratio is not None for row in rows):
        mark = "±* is" if totals else "* ± is"
        parts.append(f"{mark} of one process: another may differ by more; `roofline doctor --noise` says how much")
    return wrapped("; ".join(parts), "light", width) if parts else []


def _reasons(records: Sequence[Record], width: int) -> list[Line]:
    """Return why cases failed and why others were skipped, a line each: every reason with the count of its cases."""
    cases: dict[str, dict[str, dict[str, str]]] = {"failed": {}, "skipped": {}}
    first = {(record.status, record.case.case_key): record for record in reversed(records)}
    for record in records:
        # A case counts once: its processes may say the same with other digits.
        if record.status in cases and first[record.status, record.case.case_key] is record:
            named = cases[record.status].setdefault(record.reason, {})
            named[record.case.case_key] = f"{op_title(record.case)} {record.case.id}"
    return [line for status, reasons in cases.items() if reasons for line in _reason_line(status, reasons, width)]


def _reason_line(status: str, reasons: Mapping[str, Mapping[str, str]], width: int) -> list[Line]:
    ranked = sorted(reasons.items(), key=lambda item: -len(item[1]))
    total = sum(map(len, reasons.values()))
    texts = [f"{reason} ({next(iter(named.values())) if len(named) == 1 else len(named)})" for reason, named in ranked]
    more = f"; and {counted(len(texts) - _NAMED_REASONS, 'more reason')}" if len(texts) > _NAMED_REASONS else ""
    text = f"{status}: {counted(total, 'case')}: {'; '.join(texts[:_NAMED_REASONS])}{more}"
    return wrapped(text, _STATUS_COLOURS[status], width)


def _quarantine_lines(cases: list[str], measured: int, canaries: Sequence[CanaryReading], width: int) -> list[Line]:
    slow = [canary for canary in canaries if canary.is_slow]
    if not cases and not slow:
        return []
    canary_text = ""
    if slow:
        worst = max(slow, key=_slowdown)
        usual = (
            f", {format_speedup(_slowdown(worst))} its usual {format_time(worst.reference_s, 3)}"
            if worst.reference_s
            else ""
        )
        canary_text = (
            f"the canary kernel ({worst.kernel}) was slow in {len(slow)} of {len(canaries)} readings, up to "
            f"{format_time(worst.time_s, 3)}{usual}"
        )
    if not cases:
        return wrapped(f"canary: {canary_text}; no case lay beside it", "yellow", width)
    text = (
        f"{_of(cases, measured)} quarantined: {canary_text or code_text('quarantined')} ({_named(cases)}). Let the "
        "machine rest, then run them again"
    )
    return wrapped(text, "yellow", width)


def _worker_lines(records: Sequence[Record], processes: Iterable[ProcessInfo] | None, width: int) -> list[Line]:
    lines = {process.ordinal: process for process in (record.process for record in records)}
    lines |= {process.ordinal: process for process in processes or ()}
    ended = [process for process in lines.values() if process.end_reason]
    if not ended:
        return []
    counts = Counter(process.end_reason for process in ended)
    reasons = [f"{reason} ({count} times)" if count > 1 else reason for reason, count in counts.items()]
    readers = (
        "1 worker was replaced by a fresh one"
        if len(ended) == 1
        else f"{len(ended)} workers were replaced by fresh ones"
    )
    return wrapped(
        f"{readers} ({'; '.join(reasons)}): the case {'it' if len(ended) == 1 else 'each'} ran failed with that "
        "reason, the others went on",
        "yellow",
        width,
    )


def _cases_by_flag(records: Sequence[Record]) -> dict[str, list[str]]:
    """Return the ids of the cases that carry each flag, in any of their processes."""
    texts: dict[str, dict[str, str]] = {}
    for record in records:
        for flag in record.measurement.flags if record.measurement else ():
            texts.setdefault(flag, {}).setdefault(record.case.case_key, record.case.id)
    return {flag: list(cases.values()) for flag, cases in texts.items()}


def _of(cases: list[str], measured: int) -> str:
    return f"{len(cases)} of {measured} case{'' if measured == 1 else 's'} {'is' if len(cases) == 1 else 'are'}"


def _named(cases: list[str]) -> str:
    return ", ".join(cases[:2]) + (", …" if len(cases) > 2 else "")


def _slowdown(reading: CanaryReading) -> float:
    return reading.time_s / reading.reference_s if reading.reference_s else 1.0


def _beats_measured_roof(record: Record) -> bool:
    """Above a roof measured here by a little the ceiling was too low; by more than that the case is flagged
    `above-roof`.
    """
    ideal, measured = record.ideal, record.measurement
    if measured is not None and "above-roof" in measured.flags:
        return False
    return bool(ideal and measured and ideal.provenance == "measured-here" and ideal.time_s > 1.05 * measured.median_s)
