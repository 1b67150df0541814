"""From stored records to everything a report shows: frozen views, all arithmetic done here and in the modules beside
it.

`report_view` is pure: the same run, records and profiles give the same view, on any machine, for ever.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from reports.advice.run_phases import phase_rankings
from reports.present.cases import calibration_doubts, name_of
from reports.present.display_text import counted, regime_meanings, regime_title, shown, utc_minutes
from reports.present.shapes import shape_sentence
from reports.present.words.verdict_text import actions
from reports.view.roofline_view import RooflineView, roofline_view
from reports.view.run_state import RunState, RunTimeline, run_state, spans_over_time
from reports.view.sample_series import flagged_series
from results.cases.case_result import CaseResult, case_results, marked_records
from results.cases.errors import (
    ErrorSummary,
    ReasonCount,
    comparable_results,
    error_summaries,
    overall_error,
    reason_counts,
    regime_rank,
    status_counts,
)
from results.cases.model_results import ModelResult, model_results
from results.cases.phase_ranking import PhaseRanking
from results.cases.shape_verdict import ShapeVerdict, shape_verdicts
from results.rankings.shape import recommend_from_run
from results.records.flags import DOUBTFUL_FLAGS, FLAGS
from results.records.impossible import possible_records, without_contended
from results.records.records import HardwareProfile, Record, RunInfo
from results.records.state_records import CanaryReading, NoiseFloor
from roofline_model.chips.hardware import Device, doubt_of_ideals
from roofline_model.chips.stored_profile import device_from_profile
from roofline_model.core.answer import Ranking
from roofline_model.core.errors import DefinitionError
from roofline_model.core.finding import code_text, finding, short_text
from roofline_model.core.units import format_percent
from roofline_model.operators.case import is_model_case

__all__ = [
    "ChipView",
    "ReportView",
    "RooflineView",
    "report_view",
    "roofline_view",
]


@dataclass(frozen=True, slots=True)
class ChipView:
    """What the run says about one chip profile. A run has one, unless records of several chips were put together."""

    hardware_key: str
    hardware_name: str
    cases: tuple[CaseResult, ...]
    shapes: tuple[ShapeVerdict, ...]
    models: tuple[ModelResult, ...]
    """Whole models: their precisions side by side. Their recommendation is here, not among those per shape."""
    roofline: RooflineView
    errors: tuple[ErrorSummary, ...]
    overall: ErrorSummary | None
    recommendations: tuple[Ranking, ...]
    unranked_count: int
    """Shapes left out of `recommendations`, because `report_view` was asked for no more."""
    series: tuple[tuple[str, CaseResult], ...]
    """Processes whose samples were flagged for their shape (`flagged_series`); empty where samples were not read."""
    answers: tuple[PhaseRanking, ...]
    """Which formats to take, a ranking per phase."""
    calibration_doubts: tuple[str, ...] = ()
    """Why it has no ideal or no expected times: it was busy while it was calibrated."""


@dataclass(frozen=True, slots=True)
class ReportView:
    """A whole report, page- and plot-ready."""

    title: str
    run: RunInfo
    """As stored; label and command may hold anything and are escaped where shown."""
    run_name: str
    date: str
    machine: str
    headlines: tuple[str, ...]
    """What to do, one sentence per chip and phase."""
    findings: tuple[str, ...]
    """What a reader must know, most important first."""
    warnings: tuple[str, ...]
    chips: tuple[ChipView, ...]
    """The chip with the most measured cases first."""
    counts: Mapping[str, int]
    reasons: tuple[ReasonCount, ...]
    missing: tuple[str, ...]
    """What this report cannot say, and why."""
    environment: tuple[tuple[str, str], ...]
    has_power: bool
    state: RunState
    """The machine over the run."""
    timeline: RunTimeline
    """The measured cases over the time of the run, numbered through its chips."""
    flags: tuple[str, ...]
    """The known flags that occur, to be explained once."""
    regimes: tuple[tuple[str, str], ...]
    """(word, meaning) of the cache states and modes that occur."""

    @property
    def cases(self) -> tuple[CaseResult, ...]:
        """All cases, chip by chip."""
        return tuple(case for chip in self.chips for case in chip.cases)

    @property
    def is_simulated(self) -> bool:
        """Whether every time of it comes from a timer that runs no kernel."""
        return are_simulated(record for case in self.cases for record in case.records)


def report_view(
    run: RunInfo,
    records: Iterable[Record],
    profiles: Mapping[str, HardwareProfile] | None = None,
    *,
    canaries: Iterable[CanaryReading] = (),
    floors: Mapping[tuple[str, str], NoiseFloor] | None = None,
    most_ranked: int | None = None,
    is_gap_ignored: bool = False,
) -> ReportView:
    """Return the view of one run.

    `profiles` (by profile hash) give chip names, cache levels and recommendations; `floors`, by case key and method
    hash, the noise between processes of cases that ran in one; `most_ranked`: rank the configurations of so many shapes
    per chip (None: all); `is_gap_ignored`: disturbed times make results, too.
    """
    stored = tuple(records)
    records = without_contended(possible_records(stored), (profiles or {}).values())
    records = marked_records(records, is_forced=run.is_forced)
    damaged = sum(after is not other for after, other in zip(stored, possible_records(stored), strict=True))
    warnings = (
        [f"{counted(damaged, 'record')} with impossible numbers (`roofline db check`): left out"] if damaged else []
    )
    chips = _chips(run, records, profiles or {}, floors or {}, warnings, most_ranked, is_gap_ignored)
    cases = tuple(case for chip in chips for case in chip.cases)
    run_name, date = shown(run.label, 80) or f"run {run.run_id[:8]}", utc_minutes(run.started_at)
    counts = status_counts(cases)
    measurements = [record.measurement for record in records if record.measurement is not None]
    has_power = any(each.power_w is not None for each in measurements)
    state = run_state(run, cases, records, canaries)
    return ReportView(
        title=f"Roofline report: {run_name}",
        run=run,
        run_name=run_name,
        date=date,
        machine=_machine(run),
        headlines=_headlines(chips, counts),
        findings=_findings(chips, cases, counts),
        warnings=(*warnings, *run_warnings(run, chips, cases, state)),
        chips=chips,
        counts=counts,
        reasons=reason_counts(cases),
        missing=missing(chips, cases, counts, has_power=has_power, state=state),
        environment=_environment(run),
        has_power=has_power,
        state=state,
        timeline=spans_over_time(run, cases),
        flags=tuple(flag for flag in FLAGS if any(flag in each.flags for each in measurements)),
        regimes=regime_meanings(
            sorted({(each.case.cache, each.case.mode) for each in cases}, key=lambda regime: regime_rank(*regime))
        ),
    )


def _chips(
    run: RunInfo,
    records: tuple[Record, ...],
    profiles: Mapping[str, HardwareProfile],
    floors: Mapping[tuple[str, str], NoiseFloor],
    warnings: list[str],
    most_ranked: int | None,
    is_gap_ignored: bool,
) -> tuple[ChipView, ...]:
    counter = Counter((ideal.hardware_key, ideal.profile_hash) for each in records if (ideal := each.ideal))
    # A case that failed before its prediction belongs to the chip the run was about.
    home = next((key for key, _ in counter.most_common() if key[0] == run.hardware_key), None)
    own = next((key for key, profile in profiles.items() if profile.key == run.hardware_key), "")
    home = home or next((key for key, _ in counter.most_common()), (run.hardware_key, own))
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        ideal = record.ideal
        key = home if ideal is None else (ideal.hardware_key, ideal.profile_hash)
        groups.setdefault(key, []).append(record)
    if not groups:
        groups[home] = []
    ordered = sorted(
        groups.items(), key=lambda item: (-sum(record.timing is not None for record in item[1]), -len(item[1]), item[0])
    )
    return tuple(
        _chip(
            run,
            key,
            members,
            profiles,
            floors,
            warnings,
            most_ranked,
            is_gap_ignored,
        )
        for key, members in ordered
    )


def _chip(
    run: RunInfo,
    key: tuple[str, str],
    records: list[Record],
    profiles: Mapping[str, HardwareProfile],
    floors: Mapping[tuple[str, str], NoiseFloor],
    warnings: list[str],
    most_ranked: int | None,
    is_gap_ignored: bool,
) -> ChipView:
    hardware_key, profile_hash = key
    profile = profiles.get(profile_hash)
    device = _device(profile, warnings)
    doubts = calibration_doubts(device)
    if device is not None and doubt_of_ideals(device) is not None:
        device = None  # its roofs are none
    name = shown(profile.name if profile else hardware_key or "unknown chip", 80)
    pooled_cases = case_results(records, floors)
    results = shape_verdicts(pooled_cases, is_gap_ignored=is_gap_ignored)
    run_name = shown(run.label, 60) or f"run {run.run_id[:8]}"
    marks = ("forced" if run.is_forced else "", "simulated times, no kernel ran" if are_simulated(records) else "")
    subtitle = " · ".join(part for part in (run_name, utc_minutes(run.started_at), *marks) if part)
    ranked, unranked_count = _ranked(pooled_cases, most_ranked)
    models = model_results(pooled_cases, is_gap_ignored=is_gap_ignored)
    recommendations = tuple(recommend_from_run(ranked, device, is_gap_ignored=is_gap_ignored))
    roofline = roofline_view(
        pooled_cases,
        results,
        hardware_key=shown(hardware_key, 60),
        title=f"Dual roofline of {name}",
        subtitle=subtitle,
        device=device,
    )
    return ChipView(
        hardware_key=shown(hardware_key, 60),
        hardware_name=name,
        cases=pooled_cases,
        shapes=results,
        models=models,
        roofline=roofline,
        errors=error_summaries(pooled_cases),
        overall=overall_error(pooled_cases),
        recommendations=recommendations,
        unranked_count=unranked_count,
        series=flagged_series(pooled_cases),
        answers=phase_rankings(results, models, hardware_key),
        calibration_doubts=doubts,
    )


def are_simulated(records: Iterable[Record]) -> bool:
    """Return whether records have times, and all from a timer that runs no kernel."""
    timed = [record for record in records if record.measurement is not None]
    return bool(timed) and all(record.is_simulated for record in timed)


def _ranked(cases: tuple[CaseResult, ...], most_ranked: int | None) -> tuple[Sequence[CaseResult], int]:
    """Return the cases of the first shapes, and how many shapes are left out: a ranking costs milliseconds each."""
    shapes = list(dict.fromkeys((each.case.op, each.case.shape) for each in cases if not is_model_case(each.case)))
    if most_ranked is None or len(shapes) <= most_ranked:
        return cases, 0
    chosen = set(shapes[:most_ranked])
    return [each for each in cases if (each.case.op, each.case.shape) in chosen], len(shapes) - most_ranked


def _device(profile: HardwareProfile | None, warnings: list[str]) -> Device | None:
    if profile is None:
        return None
    try:
        return device_from_profile(profile.profile)
    except DefinitionError as error:
        warnings.append(
            f"the stored profile of {shown(profile.key, 60)} cannot be read ({shown(error)}): cache levels and "
            "unmeasured formats are left out"
        )
        return None


def _headlines(chips: tuple[ChipView, ...], counts: Mapping[str, int]) -> tuple[str, ...]:
    if not sum(counts.values()):
        return ("The run holds no cases, so there is nothing to judge.",)
    headlines = []
    for chip in chips:
        where = f"{chip.hardware_name}: " if len(chips) > 1 else ""
        untrained = {model.name.model_name: model for model in chip.models if model.is_untrained}
        timed = [
            shape
            for shape in chip.shapes
            if shape.best is not None and (shape.model is None or shape.model.model_name not in untrained)
        ]
        lines = [action.sentence for action in actions(chip.answers)]
        if timed and not lines:
            lone = f"{len(timed)} shapes with one kernel each: nothing to compare with"
            lines = [f"{shape_sentence(timed[0]) if len(timed) == 1 else lone}."]
        headlines += [f"{where}{line}" for line in lines]
        headlines += [f"{where}{shown(name, 80)}: {short_text(finding('untrained'))}." for name in untrained]
    return tuple(headlines) or ("No case was measured or predicted: see what failed or was skipped, and why, below.",)


def _findings(chips: tuple[ChipView, ...], cases: tuple[CaseResult, ...], counts: Mapping[str, int]) -> tuple[str, ...]:
    if not cases:
        return ()
    parts = [f"{count} {status}" for status, count in counts.items() if count]
    most = max(case.process_count for case in cases)
    replicated = f", in up to {most} processes each" if most > 1 else ""
    findings = [f"{counted(len(cases), 'case')}: {', '.join(parts)}{replicated}."]
    for chip in chips:
        where = f"{chip.hardware_name}: " if len(chips) > 1 else ""
        if chip.overall is not None:
            overall = chip.overall
            regime = regime_title(overall.cache, overall.mode)
            where += f"{regime} cases: " if regime else ""
            findings.append(
                f"{where}{'the' if where else 'The'} ideal prediction missed the measured time by a median "
                f"{format_percent(overall.median_abs_error_ratio, 0)} "
                f"over {counted(overall.case_count, 'case')}: kernels reached "
                f"{format_percent(overall.median_roof_share_ratio, 0)} of their roof "
                f"in the median, {format_percent(overall.best_roof_share_ratio, 0)} at best "
                f"(worst error {format_percent(overall.worst_error_ratio, signed=True)}, {name_of(overall.worst.case)})."
            )
            if overall.median_abs_expected_ratio is not None:
                findings.append(
                    f"The expected time{f' of {regime} cases' if regime else ''} missed it by a median "
                    f"{format_percent(overall.median_abs_expected_ratio, 0)} over "
                    f"{counted(overall.expected_count, 'case')}."
                )
    return tuple(findings)


def _machine(run: RunInfo) -> str:
    facts = run.environment.facts
    names = [facts.get(name) for name in ("device", "device_name", "gpu", "cpu", "cpu_model", "hostname")]
    first = next((name for name in names if isinstance(name, str) and name.strip()), "")
    return shown(first, 100)


def _environment(run: RunInfo) -> tuple[tuple[str, str], ...]:
    """Flatten the stored facts into sorted rows of name and value; warnings are told with the state of the machine."""
    pairs: list[tuple[str, str]] = []

    def collect(prefix: str, value: Any) -> None:
        if isinstance(value, Mapping):
            for name in sorted(value, key=str):
                collect(f"{prefix}.{name}" if prefix else str(name), value[name])
        elif isinstance(value, list | tuple):
            pairs.append((shown(prefix, 80), shown(", ".join(str(item) for item in value), 400) or "–"))
        else:
            pairs.append((shown(prefix, 80), "–" if value is None else shown(value, 400)))

    collect("", {name: value for name, value in run.environment.facts.items() if name != "warnings"})
    return tuple(pairs)


def record_anchors(view: ReportView, limit: int | None) -> dict[str, str]:
    """Return record id → id of its case's row; of each chip the first `limit` cases, whose rows are in the static
    table.
    """
    return {record.record_id: anchor for anchor, case in _rows(view, limit) for record in case.records}


def case_anchors(view: ReportView, limit: int | None) -> dict[tuple[str, str, str], str]:
    """Return (case id, cache state, mode) → id of the case's row, of the first where chips share a case."""
    anchors: dict[tuple[str, str, str], str] = {}
    for anchor, case in _rows(view, limit):
        anchors.setdefault((case.case.id, case.case.cache, case.case.mode), anchor)
    return anchors


def _rows(view: ReportView, limit: int | None) -> Iterator[tuple[str, CaseResult]]:
    number = 0
    for chip in view.chips:
        for place, case in enumerate(chip.cases):
            number += 1
            if limit is None or place < limit:
                yield f"case-{number}", case


WIDE_RATIO = 0.05
"""Half an interval from which a ranking wants care: the same as the flag `noisy`."""


def run_warnings(
    run: RunInfo, chips: tuple[ChipView, ...], cases: tuple[CaseResult, ...], state: RunState
) -> list[str]:
    """Return one sentence per thing that weakens the run as a whole or some of its cases."""
    warnings = []
    if run.status != "complete":
        warnings.append(f"The run is {run.status}: cases that were still to come are not here.")
    if run.finished_at and run.finished_at < run.started_at:
        warnings.append(
            "The run ends before it begins: its clock was set back meanwhile, no time of day of it can be trusted."
        )
    forced = sum(case.is_forced for case in cases)
    if forced:
        warnings.append(
            f"{counted(forced, 'case was', 'cases were')} measured with --roofline-force-measure on a machine that is "
            "not the predicted chip; "
            "their errors are shown but count in no summary."
        )
    if len(chips) > 1:
        names = ", ".join(chip.hardware_name for chip in chips)
        warnings.append(
            f"Records of {len(chips)} chip profiles are in this run ({names}); they are never compared with each other."
        )
    doubts = dict.fromkeys(text for chip in chips for text in chip.calibration_doubts)
    warnings += [f"{text[0].upper()}{text[1:]}." for text in doubts]
    beaten = [case for case in comparable_results(cases) if case.is_faster_than_roof and "above-roof" not in case.flags]
    if beaten:
        warnings.append(
            f"{counted(len(beaten), 'case')} ran faster than the ideal by more than the interval explains "
            f"({_named(case.case.id for case in beaten)}): "
            "the chip ran above its rated clock or bandwidth, operands came from a cache, or a ceiling is too low."
        )
    plus_minus_ratios = [case.plus_minus_ratio for case in cases if case.plus_minus_ratio is not None]
    wide = [ratio for ratio in plus_minus_ratios if ratio > WIDE_RATIO]
    if wide:
        count = sum(case.measured_s is not None for case in cases)
        which = (
            "The measured case has"
            if count == 1
            else f"{len(wide)} of {count} measured cases {'has' if len(wide) == 1 else 'have'}"
        )
        which = f"All {count} measured cases have" if len(wide) == count > 1 else which
        none = f", {count - len(plus_minus_ratios)} no interval at all" if count > len(plus_minus_ratios) else ""
        warnings.append(
            f"{which} an interval wider than ±5 % (median ±{median(wide) * 100:.0f} %, widest ±{max(wide) * 100:.0f} "
            f"%){none}: "
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
    cases: tuple[CaseResult, ...],
    counts: Mapping[str, int],
    *,
    has_power: bool,
    state: RunState,
) -> tuple[str, ...]:
    """Return what the report cannot say, and why."""
    missing_texts = [
        f"{chip.hardware_name}: {line}" if len(chips) > 1 else line for chip in chips for line in chip.roofline.missing
    ]
    measured = counts["measured"]
    if measured and not has_power:
        missing_texts.append(
            "power and energy of a call: no window was asked for (--roofline-power), every window was too short to mean "
            "something, or the device has no readable sensor"
        )
    if measured and not any(result.baseline for chip in chips for result in chip.shapes):
        missing_texts.append("no BF16, FP16 or FP32 case ran, so speed-ups have no baseline")
    without = sum(case.measured_s is not None and case.ideal_s is None for case in cases)
    if without:
        missing_texts.append(
            f"{counted(without, 'measured case has', 'measured cases have')} no stored prediction, so no error and no "
            "share of roof"
        )
    alone = sum(case.measured_s is not None and case.total_ratio is None for case in cases)
    if alone:
        missing_texts.append(
            f"how far a fresh process would differ, for {counted(alone, 'case')} measured in one process: "
            "--roofline-processes 3 or `roofline doctor --noise` tells"
        )
    if measured and not state.canaries:
        missing_texts.append(
            "whether the machine was in an invisible slow state: no canary reading is stored with the run"
        )
    return tuple(missing_texts)


def _flagged(cases: tuple[CaseResult, ...], said_already: set[str]) -> list[str]:
    warnings = []
    for flag in FLAGS:
        ids = [case.case.id for case in cases if flag in case.flags]
        if ids and flag in DOUBTFUL_FLAGS and flag not in said_already:
            warnings.append(f"{counted(len(ids), 'case')} flagged {flag} ({_named(ids)}): {code_text(flag)}.")
    return warnings


def _named(ids: Iterable[str]) -> str:
    names = [shown(name, 160) for name in ids]
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
