"""The lines below the tables: flags explained once, the machine's slow states, workers that ended, and what to do next."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Sequence

from plugin.terminal.table import Line, folded
from results.records.flags import DOUBTFUL_FLAGS, FLAGS
from results.records.records import ProcessInfo, Record
from results.records.state_records import CanaryReading
from results.verdicts.gain import times_faster
from roofline_model.core.finding import code_text
from roofline_model.core.units import format_time

LEAST_WIDTH = 60
MOST_WIDTH = 200
_TOLD_APART = ("quarantined", "capped", "above-roof")
"""Flags with lines of their own, that say what to do."""


def flag_lines(
    records: Sequence[Record],
    canaries: Sequence[CanaryReading] = (),
    processes: Iterable[ProcessInfo] | None = None,
    *,
    width: int | None = None,
) -> list[Line]:
    """Return what weakens the run, each thing once with the count of its cases.

    Quarantined and capped cases and workers that were replaced come first, with what to do; then one line per other flag.
    `processes` are those of the run; None: those of the records.
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
            f"above-roof (!): {_counted(impossible)}: {code_text('above-roof')} ({_named(impossible)})",
            "yellow",
            width,
        )
    beaten = {record.case.case_key: record.case.id for record in records if _beats_measured_roof(record)}
    if beaten:
        lines += wrapped(
            f"above the roof: {_counted(list(beaten.values()))} ran more than 5 % faster than the ceilings measured on this "
            f"machine: run `roofline calibrate` while it is quiet ({_named(list(beaten.values()))})",
            "yellow",
            width,
        )
    for flag in FLAGS:
        count = len(by_flag.get(flag, []))
        if count and flag not in _TOLD_APART:
            mark = " (!)" if flag in DOUBTFUL_FLAGS else ""
            text = f"{flag}{mark}: {_counted(by_flag[flag])}: {code_text(flag)}"
            lines += wrapped(text, "yellow" if flag in DOUBTFUL_FLAGS else "", width)
    return lines


def laid_out_width(width: int | None) -> int:
    """Return the width that lines are laid out for: `width`, or None for the terminal's own, within what is readable."""
    asked = shutil.get_terminal_size((80, 24)).columns if width is None else width
    return min(max(asked, LEAST_WIDTH), MOST_WIDTH)


def wrapped(text: str, colour: str, width: int, *, indent: str = "  ") -> list[Line]:
    """Return a text folded at `width`; continuation lines are indented."""
    return [Line(part, colour) for part in folded(text, width, indent)]


def _quarantine_lines(cases: list[str], measured: int, canaries: Sequence[CanaryReading], width: int) -> list[Line]:
    slow = [canary for canary in canaries if canary.is_slow]
    if not cases and not slow:
        return []
    said = ""
    if slow:
        worst = max(slow, key=_slowdown)
        usual = (
            f", {times_faster(_slowdown(worst))} its usual {format_time(worst.reference_s, 3)}"
            if worst.reference_s
            else ""
        )
        said = f"the canary kernel ({worst.kernel}) was slow in {len(slow)} of {len(canaries)} readings, up to {format_time(worst.time_s, 3)}{usual}"
    if not cases:
        return wrapped(f"canary: {said}; no case lay beside it", "yellow", width)
    lines = wrapped(
        f"{_of(cases, measured)} quarantined: {said or code_text('quarantined')} ({_named(cases)})", "yellow", width
    )
    return lines + wrapped(
        "  They are stored and count as doubtful. Let the machine come back (rest, a cold start), then run them again: "
        "pytest … -k with their names",
        "yellow",
        width,
        indent="  ",
    )


def _worker_lines(records: Sequence[Record], processes: Iterable[ProcessInfo] | None, width: int) -> list[Line]:
    lines = {process.ordinal: process for process in (record.process for record in records)}
    lines |= {process.ordinal: process for process in processes or ()}
    ended = [process for process in lines.values() if process.end_reason]
    if not ended:
        return []
    counts = Counter(process.end_reason for process in ended)
    reasons = [f"{reason} ({count} times)" if count > 1 else reason for reason, count in counts.items()]
    who = (
        "1 worker was replaced by a fresh one"
        if len(ended) == 1
        else f"{len(ended)} workers were replaced by fresh ones"
    )
    return wrapped(
        f"{who} ({'; '.join(reasons)}): the case {'it' if len(ended) == 1 else 'each'} ran failed with that reason, the others went on",
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


def _counted(cases: Sequence[str]) -> str:
    """Return `1 case`, `2 cases`."""
    return f"{len(cases)} case{'' if len(cases) == 1 else 's'}"


def _of(cases: list[str], measured: int) -> str:
    return f"{len(cases)} of {measured} case{'' if measured == 1 else 's'} {'is' if len(cases) == 1 else 'are'}"


def _named(cases: list[str]) -> str:
    return ", ".join(cases[:2]) + (", …" if len(cases) > 2 else "")


def _slowdown(reading: CanaryReading) -> float:
    return reading.time_s / reading.reference_s if reading.reference_s else 1.0


def _beats_measured_roof(record: Record) -> bool:
    """Above a roof measured here by a little the ceiling was too low; by more than that the case is flagged `above-roof`."""
    ideal, measured = record.ideal, record.measurement
    if measured is not None and "above-roof" in measured.flags:
        return False
    return bool(ideal and measured and ideal.provenance == "measured-here" and ideal.time_s > 1.05 * measured.median_s)
