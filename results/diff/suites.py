"""Two suites in, a verdict per case out: `compare_suites`. Pure: records, noise floors and rules are given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from results.cases.case_result import CaseResult
from results.diff.case_diff import CaseDiff, SuiteDiff
from results.diff.environments import differences, method_difference
from results.diff.expected_changes import marked_expected
from results.diff.rules import DiffRules
from results.diff.selection import is_left_out, selection_text
from results.diff.side_facts import is_judgeable, judged_logs, side_cases, status_text
from results.diff.significance.pair_tests import SidePair, judge_pairs, sizes
from results.records.flags import INVALIDATING_FLAGS
from results.records.records import Record, RunInfo
from results.records.state_records import NoiseFloor
from results.statistics.replication import FloorKey
from results.watch.annotations import Annotation
from results.watch.quarantine import Quarantine
from roofline_model.core.errors import InvalidValueError
from roofline_model.core.finding import Finding


@dataclass(frozen=True, slots=True)
class SuiteSide:
    """One side of a diff: one run, or several of the same code that are pooled."""

    runs: tuple[RunInfo, ...]
    records: tuple[Record, ...]
    set_aside: Mapping[str, tuple[Finding, ...]] = field(default_factory=dict)
    """Nights that were left out of a case, by case key (`rolling.settled`)."""


def compare_suites(
    before: SuiteSide,
    after: SuiteSide,
    noise: Mapping[FloorKey, NoiseFloor],
    rules: DiffRules,
    *,
    quarantine: Quarantine | None = None,
    allowed: Iterable[str] = (),
    annotations: Sequence[Annotation] = (),
) -> SuiteDiff:
    """Return the verdict of every case of two suites.

    `noise`: stored A/A floors of the machine by (case key, method hash). `allowed`: environment facts that may differ.
    `annotations`: changes that were expected. A rolling baseline goes through `rolling.settled` first.
    Raises `InvalidValueError` for a side that measured nothing and a run that is on both.
    """
    for side in (before, after):
        if not any(record.status == "measured" for record in side.records):
            names = ", ".join(run.run_id[:8] for run in side.runs) or "without a name"
            raise InvalidValueError(
                f"run {names} measured nothing, so there is nothing to compare; `roofline show` says why"
            )
    if shared := {run.run_id for run in before.runs} & {run.run_id for run in after.runs}:
        raise InvalidValueError(f"run {min(shared)[:8]} is on both sides: name two different runs")
    environment = differences(before.runs, after.runs, allowed)
    sides = side_cases(before.records, after.records)
    methods = _method_difference(sides[0], sides[1])
    empty = SuiteDiff(before.runs, after.runs, (), environment, rules, method_difference=methods)
    if empty.blocking:
        return empty
    keys = [*sides[1], *(key for key in sides[0] if key not in sides[1])]
    cases: dict[str, CaseDiff] = {}
    pairs: dict[str, SidePair] = {}
    unselected = {
        key for key, case_side in sides[0].items() if key not in sides[1] and _is_unselected(case_side, before, after)
    }
    unmeasured_count = 0
    for key in (key for key in keys if key not in unselected):
        old, new = sides[0].get(key), sides[1].get(key)
        judged = _unjudged(key, old, new)
        if judged is not None:
            cases[key] = judged
        elif old is not None and new is not None and old.pooled is not None and new.pooled is not None:
            pairs[key] = (old, new)
        else:
            unmeasured_count += 1
    cases |= judge_pairs(pairs, noise, rules)
    marked = [cases[key] for key in keys if key in cases]
    marked = [replace(case, set_aside=(*before.set_aside.get(case.case_key, ()), *case.set_aside)) for case in marked]
    if annotations:
        used = {key: {run_id for run_id, _ in judged_logs(side)} for key, side in sides[0].items()}
        marked = [
            marked_expected(case, annotations, used.get(case.case_key, set()), before.runs, after.runs)
            for case in marked
        ]
    if quarantine is not None:
        marked = [replace(case, quarantine_reason=quarantine.reason_of(case.name, case.case_key)) for case in marked]
    steps = [case.smallest_step_ratio for case in marked if case.smallest_step_ratio is not None]
    changes = [case.change_ratio for case in marked if case.change_ratio is not None]
    listed: list[tuple[str, str]] = [(case.name, case.case_key) for case in marked]
    listed += [(f"{sides[0][key].case.op} {sides[0][key].case.id}", key) for key in keys if key in unselected]
    return replace(
        empty,
        cases=tuple(marked),
        unmeasured_count=unmeasured_count,
        unselected_count=len(unselected),
        selection=selection_text(after.runs) if unselected else "",
        common_change_ratio=median(changes) if changes else None,
        smallest_step_ratio=median(steps) if steps else None,
        largest_smallest_step_ratio=max(steps, default=None),
        unused_quarantine=quarantine.unused(listed) if quarantine else (),
    )


def _is_unselected(case: CaseResult, before: SuiteSide, after: SuiteSide) -> bool:
    holders = {record.run_id for record in case.records}
    return case.pooled is not None and is_left_out(after.runs, [run for run in before.runs if run.run_id in holders])


def _unjudged(key: str, before: CaseResult | None, after: CaseResult | None) -> CaseDiff | None:
    """Return the case where there is nothing to test: on one side only, of different methods, or invalid."""
    is_before, is_after = (side is not None and side.pooled is not None for side in (before, after))
    if not is_before and not is_after:
        return None
    present = after or before
    assert present is not None
    if is_before != is_after:
        absent = before if is_after else after
        status, detail = ("absent", "") if absent is None else status_text(absent)
        diff = CaseDiff(present.case, key, "NEW" if is_after else "GONE", status, detail)
    else:
        assert before is not None
        assert after is not None
        if _are_methods_two(before, after):
            diff = CaseDiff(present.case, key, "INVALID", "method-differs", _methods(before, after))
        elif not is_judgeable(before) or not is_judgeable(after):
            flags = {flag for side in (before, after) if side.pooled is not None for flag in side.pooled.disturbed_by}
            reason = min(flags, key=INVALIDATING_FLAGS.index)
            diff = CaseDiff(present.case, key, "INVALID", reason, "")
        else:
            return None
    return replace(diff, **sizes(before, after))  # type: ignore[arg-type]


def _are_methods_two(before: CaseResult, after: CaseResult) -> bool:
    return before.method_hashes != after.method_hashes or len(after.method_hashes) > 1


def _method_difference(before: Mapping[str, CaseResult], after: Mapping[str, CaseResult]) -> str:
    """Return the method difference of the first common case, if all differ; no `--allow` permits it."""
    both = [
        (old, after[key])
        for key, old in before.items()
        if key in after and old.pooled is not None and after[key].pooled is not None
    ]
    if not both or not all(_are_methods_two(old, new) for old, new in both):
        return ""
    return _methods(*both[0]) or "method mixed"


def _methods(before: CaseResult, after: CaseResult) -> str:
    """Return the differences between the methods: timer, version and settings by name."""
    newest = [
        next((record.method for record in reversed(side.records) if record.method is not None), None)
        for side in (before, after)
    ]
    return "; ".join(method_difference(*newest))
