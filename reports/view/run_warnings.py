"""What weakens a run, and what its report cannot say: plain sentences, most important first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import median
from typing import TYPE_CHECKING

from reports.cases.error_summary import comparable_rows
from reports.cases.summary import CaseSummary
from reports.text.display_text import counted
from reports.view.run_state import RunState
from results.records.flags import DOUBTFUL_FLAGS, FLAGS
from results.records.records import RunInfo
from roofline_model.core.finding import code_text

if TYPE_CHECKING:
    from reports.view.views import ChipView

WIDE_RATIO = 0.05
"""Half an interval from which a ranking wants care: the same as the flag `noisy`."""


def run_warnings(
    run: RunInfo, chips: tuple[ChipView, ...], cases: tuple[CaseSummary, ...], state: RunState
) -> list[str]:
    """Return one sentence per thing that weakens the run as a whole or some of its cases."""
    warnings = []
    if run.status != "complete":
        warnings.append(f"The run is {run.status}: cases that were still to come are not here.")
    if run.finished_at and run.finished_at < run.started_at:
        warnings.append(
            "The run ends before it begins: its clock was set back meanwhile, no time of day of it can be trusted."
        )
    forced = sum(case.lead.is_forced for case in cases)
    if forced:
        warnings.append(
            f"{counted(forced, 'case was', 'cases were')} measured with --roofline-force-measure on a machine that is not the predicted chip; "
            "their errors are shown but count in no summary."
        )
    if len(chips) > 1:
        names = ", ".join(chip.hardware_name for chip in chips)
        warnings.append(
            f"Records of {len(chips)} chip profiles are in this run ({names}); they are never compared with each other."
        )
    doubts = dict.fromkeys(text for chip in chips for text in chip.doubtful_kinds.values())
    warnings += [f"{text[0].upper()}{text[1:]}." for text in doubts]
    comparable = {row.case_key for row in comparable_rows(case.pooled for case in cases)}
    beaten = [case.lead for case in cases if case.lead.case_key in comparable and case.is_faster_than_roof]
    if beaten:
        warnings.append(
            f"{counted(len(beaten), 'case')} ran faster than the roof by more than the interval explains ({_named(row.case_id for row in beaten)}): "
            "operands came from a cache, or the stored ceiling is too low."
        )
    plus_minus_ratios = [case.plus_minus_ratio for case in cases if case.plus_minus_ratio is not None]
    wide = [ratio for ratio in plus_minus_ratios if ratio > WIDE_RATIO]
    if wide:
        count = sum(case.measured_s is not None for case in cases)
        which = "The measured case has" if count == 1 else f"{len(wide)} of {count} measured cases have"
        which = f"All {count} measured cases have" if len(wide) == count > 1 else which
        none = f", {count - len(plus_minus_ratios)} no interval at all" if count > len(plus_minus_ratios) else ""
        warnings.append(
            f"{which} an interval wider than ±5 % (median ±{median(wide) * 100:.0f} %, widest ±{max(wide) * 100:.0f} %){none}: "
            "treat their ranking with care."
        )
    warnings += _flagged(cases, said_already={"noisy"} if wide else set())
    if state.restarts:
        warnings.append(
            f"{counted(len(state.restarts), 'worker process')} did not end by itself: {'; '.join(state.restarts[:2])}."
        )
    return warnings


def missing(
    chips: tuple[ChipView, ...],
    cases: tuple[CaseSummary, ...],
    counts: Mapping[str, int],
    *,
    has_power: bool,
    state: RunState,
) -> tuple[str, ...]:
    """Return what the report cannot say, and why."""
    found = [
        f"{chip.hardware_name}: {line}" if len(chips) > 1 else line for chip in chips for line in chip.roofline.missing
    ]
    measured = counts["measured"]
    if measured and not has_power:
        found.append(
            "no power was stored: the device has no readable sensor, no window was asked for (--roofline-power), or every window was too short to mean something"
        )
    if measured and not any(result.baseline for chip in chips for result in chip.shapes):
        found.append("no BF16, FP16 or FP32 case ran, so speed-ups have no baseline")
    without = sum(case.measured_s is not None and case.lead.ideal_s is None for case in cases)
    if without:
        found.append(
            f"{counted(without, 'measured case has', 'measured cases have')} no stored prediction, so no error and no share of roof"
        )
    alone = sum(case.measured_s is not None and case.total_ratio is None for case in cases)
    if alone:
        found.append(
            f"how far a fresh process would differ, for {counted(alone, 'case')} measured in one process: "
            "--roofline-processes 3 or `roofline doctor --noise` tells"
        )
    if measured and not state.canaries:
        found.append("whether the machine was in an invisible slow state: no canary reading is stored with the run")
    return tuple(found)


def _flagged(cases: tuple[CaseSummary, ...], said_already: set[str]) -> list[str]:
    found = []
    for flag in FLAGS:
        ids = [case.lead.case_id for case in cases if flag in case.flags]
        if ids and flag in DOUBTFUL_FLAGS and flag not in said_already:
            found.append(f"{counted(len(ids), 'case')} flagged {flag} ({_named(ids)}): {code_text(flag)}.")
    return found


def _named(ids: Iterable[str]) -> str:
    known = list(ids)
    return ", ".join(known[:3]) + (", …" if len(known) > 3 else "")
