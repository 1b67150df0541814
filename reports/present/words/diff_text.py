"""A diff in words: the verdict sentence, one line per case. Plain text without markup, for the terminal, pytest and
reports.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from results.diff.case_diff import CaseDiff, SuiteDiff
from results.diff.gate import EXIT_NOT_COMPARABLE, EXIT_SAME, Failure, GateResult, loss_ratio
from results.diff.rules import VERDICTS, Verdict
from results.diff.significance.metrics import TIME_MOVED, MetricChange
from results.records.records import RunInfo
from roofline_model.core.finding import advice_text, code_text, findings_text, short_text
from roofline_model.core.units import counted
from roofline_model.operators.case import Case, case_title

_MENTIONED: tuple[Verdict, ...] = ("SLOWER", "GONE", "FASTER", "INVALID", "AMBIGUOUS")
"""What the verdict sentence names, the gravest first."""
_ERROR_WORDS = {"error_expected": "error of the expected time", "error_ideal": "error of the ideal time"}
TIME_TEXT = "before and after: geometric mean of the processes' medians, which the test compares"
LEAST_FOR_COMMON = 8
COMMON_SHARE = 0.9
"""A suite moved together when so many of its cases went one way: of eight cases all do so by chance in 0.8 % of the
suites.
"""


def headline(diff: SuiteDiff, result: GateResult) -> str:
    """Return the verdict sentence, e.g. `1 of 24 cases is slower: gemv 1x4096x4096-… +10.2 % (95 %: +8.9 % to +11.6 %);
    2 gone`.
    """
    if result.exit_code == EXIT_NOT_COMPARABLE:
        return f"not comparable: {findings_text(result.reasons)}"
    cases = {verdict: diff.of(verdict) for verdict in VERDICTS}
    mentioned = [verdict for verdict in _MENTIONED if cases[verdict]]
    if not mentioned:
        unseen_count = sum(case.is_same_unseen for case in cases["SAME"])
        known_count = len(cases["SAME"]) - unseen_count
        below = [case for case in cases["SAME"] if case.reason == "below-limit"]
        what = "the limit" if below else "noise"
        parts = [f"nothing changed by more than {what} in {counted(known_count, 'case')}"] if known_count else []
        if below:
            more = f" and {len(below) - 1} more" if len(below) > 1 else ""
            parts.append(f"slower by less: {case_sentence(below[0])}{more}")
        parts += [f"the noise of {counted(unseen_count, 'case')} is not known"] if unseen_count else []
        return ("" if known_count else "no change was seen, but ") + "; ".join(parts)
    first = _named(cases[mentioned[0]], mentioned[0].lower(), len(diff.cases))
    counts = [f"{len(cases[verdict])} {verdict.lower()}" for verdict in mentioned[1:]]
    lead = "" if mentioned[0] == "SLOWER" else "nothing is slower; " if diff.is_judged else "nothing could be judged; "
    excuse = _excuse(cases["SLOWER"]) if result.exit_code == EXIT_SAME and cases["SLOWER"] else ""
    return lead + "; ".join([first, *counts, *([excuse] if excuse else [])])


def listed_headline(diff: SuiteDiff, result: GateResult, simulated_ids: Collection[str] = ()) -> str:
    """Return the verdict sentence for where `incomparable_texts` are listed below it: each difference is said once.

    `simulated_ids`: runs of which no kernel ran.
    """
    simulated = [run for run in (*diff.before, *diff.after) if run.run_id in simulated_ids]
    if result.exit_code != EXIT_NOT_COMPARABLE:
        return f"simulated times: {headline(diff, result)}" if simulated else headline(diff, result)
    reasons = [f"{run.short_name} is simulated, no kernel ran" for run in simulated[:1]]
    reasons += ["measured by different methods"] if diff.method_difference else []
    count = len(diff.blocking)
    reasons += [f"{counted(count, 'fact')} of machine or software differ{'s' * (count == 1)}"] if count else []
    return f"not comparable: {', '.join(reasons) or findings_text(result.reasons)}"


def exit_text(result: GateResult) -> str:
    """Return why `roofline diff` would not exit with 0, and what to do about it; empty where it would."""
    return "; ".join(map(advice_text, result.reasons))


def incomparable_texts(diff: SuiteDiff) -> list[str]:
    """Return the reasons why two sides are incomparable, a line each; reasons that no option permits come first."""
    method = [f"the method ({diff.method_difference}), which no --allow permits"] if diff.method_difference else []
    return [*method, *(difference.text for difference in diff.blocking)]


def sensitivity_text(diff: SuiteDiff) -> str:
    """Return the smallest slow-down this diff could have seen; empty where the headline says that none could."""
    if diff.smallest_step_ratio is None or diff.largest_smallest_step_ratio is None:
        return "any slow-down may have been missed: the noise of no case is known" if diff.is_judged else ""
    return (
        f"four of five such diffs would find a case that got {percent(diff.smallest_step_ratio)} slower (median case; "
        f"{percent(diff.largest_smallest_step_ratio)} in the noisiest)"
    )


def counts_text(diff: SuiteDiff) -> str:
    """Return the cases by verdict, and what is not among them: `1 slower, 22 same, 31 not selected by -k gemv`."""
    counts = {verdict: sum(case.verdict == verdict for case in diff.cases) for verdict in VERDICTS}
    parts = [f"{count} {verdict.lower()}" for verdict, count in counts.items() if count]
    below = sum(case.reason == "below-limit" for case in diff.cases)
    parts += [f"{below} of them surely slower, by less than the limit"] if below else []
    parts += [f"{diff.unmeasured_count} measured on neither side"] if diff.unmeasured_count else []
    parts += [f"{diff.unselected_count} not selected by {short(diff.selection)}"] if diff.unselected_count else []
    return ", ".join(parts)


def time_text(diff: SuiteDiff) -> str:
    """Return the pooling of the times before and after, as a text; empty with one process a side."""
    counts = [count for case in diff.cases for count in (case.before_process_count, case.after_process_count)]
    return TIME_TEXT if max(counts, default=0) > 1 else ""


def common_text(diff: SuiteDiff) -> str:
    """Return the common change of nearly all cases, if it exceeds the minimum effect; else empty."""
    common = diff.common_change_ratio
    changes = [case.change_ratio for case in diff.cases if case.change_ratio is not None]
    if common is None or len(changes) < LEAST_FOR_COMMON or abs(common) < diff.rules.min_effect_ratio:
        return ""
    if sum(change * common > 0 for change in changes) < COMMON_SHARE * len(changes):
        return ""
    return (
        f"the whole suite moved together: {signed(common)} in the median case, so look at the machine and the "
        "libraries before a kernel"
    )


def case_sentence(case: CaseDiff) -> str:
    """Return a case with its change and interval: `gemv 1x4096x4096 INT4 (W4A16) · int4pack +3.1 % (95 %: +2.1 % to
    +4.2 %)`.
    """
    name = case_words(case.case) if case.case.precision_label else case.name  # a kernel of one's own has an id alone
    return f"{short(name)} {change_text(case)}" + (
        f" (95 %: {interval_text(case)})" if case.low_ratio is not None else ""
    )


def failure_text(failure: Failure) -> str:
    """Return why a case fails the gate: `+12.3 % slower`, `failed (out of memory)`, `energy +8.0 %`."""
    case = failure.case
    if failure.worse:
        return "; ".join(f"{change.name} {loss_ratio(change) * 100:+.1f} %" for change in failure.worse)
    if failure.rule.kind == "gone":
        return f"{case.reason} ({case.detail[:200]})" if case.detail else case.reason
    return f"{(case.change_ratio or 0.0) * 100:+.1f} % slower"


def case_words(case: Case) -> str:
    """Return a case as people name it: `gemv 1x4096x4096 INT4 (W4A16) · int4pack`; a cache that is not cold follows."""
    options = " · ".join(filter(None, (case.precision_label, case.kernel)))
    words = f"{case_title(case.op, case.shape)} {options}".rstrip()
    return words if case.cache in ("", "cold") else f"{words}, {case.cache}"


def short(text: str, most: int = 160) -> str:
    """Return a name cut to display length: names of imported cases may have any length."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def change_text(case: CaseDiff) -> str:
    """Return the change of the time; for a case on one side only, its code."""
    return signed(case.change_ratio) if case.change_ratio is not None else case.reason


def interval_text(case: CaseDiff) -> str:
    """Return the 95 % interval of the change; `–` where none is known."""
    if case.low_ratio is None or case.high_ratio is None:
        return "–"
    return f"{signed(case.low_ratio)} to {signed(case.high_ratio)}"


def changed_metric_texts(case: CaseDiff) -> list[str]:
    """Return the changed metrics other than time, as texts, without prediction errors that moved only with the time."""
    is_called = case.verdict in ("SLOWER", "FASTER")
    return [
        metric_text(metric)
        for metric in case.metrics
        if metric.verdict != "SAME" and not (is_called and metric.group == "error" and metric.reason == TIME_MOVED)
    ]


def why_text(case: CaseDiff) -> str:
    """Return why a case has its verdict, what of it was not used, what else changed, and which list it is on."""
    parts = [case.reason]
    if case.cycles_change_ratio is not None and case.verdict in ("SLOWER", "FASTER"):
        parts.append(f"cycles {signed(case.cycles_change_ratio)}")
    parts += [case.detail] if case.detail else [short_text(item) for item in case.set_aside]
    parts += changed_metric_texts(case)
    parts += [f"quarantined: {case.quarantine_reason}"] if case.quarantine_reason else []
    parts += [f"expected: {case.expected_reason}"] if case.expected_reason else []
    return "; ".join(parts)


def metric_text(change: MetricChange) -> str:
    """Return a figure beside the time: `energy_j +12.0 % (worse)`, `error of the expected time -3 % → -12 % (the
    measured time moved)`.
    """
    verdict = change.verdict.lower()
    if change.group == "error":
        # Where the measured time moved, the verdict on the time says which way is better.
        why = f"{code_text(change.reason) if change.reason else verdict}{f', {change.detail}' if change.detail else ''}"
        return (
            f"{_ERROR_WORDS.get(change.name, change.name)} {signed(change.before_value)} → "
            f"{signed(change.after_value)} ({why})"
        )
    why = f", {change.reason}" if change.reason and change.verdict == "AMBIGUOUS" else ""
    return f"{change.name} {signed(change.change_ratio)} ({verdict}{why})"


def run_text(run: RunInfo) -> str:
    """Return the display name of a run: `3f2a91c0 nightly, 2026-03-01 10:00 UTC, commit 0123abcd4`."""
    parts = [run.short_name, f"{run.started_at[:16].replace('T', ' ')} UTC"]
    parts += [f"commit {run.git_commit[:9]}{'+' if run.git_is_dirty else ''}"] if run.git_commit else []
    parts += [] if run.status == "complete" else [run.status]
    return ", ".join(parts)


def runs_text(runs: Sequence[RunInfo]) -> str:
    """Return the display name of one side's runs: `5 runs, the newest 3f2a91c0 nightly, 2026-03-01 10:00 UTC`."""
    newest = max(runs, key=lambda run: run.started_at)
    return run_text(newest) if len(runs) == 1 else f"{len(runs)} runs, the newest {run_text(newest)}"


def signed(ratio: float) -> str:
    """Print a change as `+3.1 %`; from 100 % on without a decimal, beyond that `>+999 %`."""
    if ratio >= 9.995:
        return ">+999 %"
    return f"{ratio * 100:+z.1f} %" if abs(ratio) < 0.9995 else f"{ratio * 100:+.0f} %"


def percent(ratio: float) -> str:
    """Print a size as `3.1 %`, `12 %` from 10 % on, `>999 %`."""
    return ">999 %" if ratio >= 9.995 else f"{ratio * 100:.1f} %" if ratio < 0.0995 else f"{ratio * 100:.0f} %"


def probability(value: float | None) -> str:
    """Print a p with two digits; `<1e-9` below, `–` where it is not known."""
    return "–" if value is None else "<1e-9" if value < 1e-9 else f"{value:.2g}"


def _excuse(slower: Sequence[CaseDiff]) -> str:
    """Return why cases that are slower fail nothing."""
    listed = sum(bool(case.quarantine_reason) for case in slower)
    expected = sum(bool(case.expected_reason) and not case.quarantine_reason for case in slower)
    unlisted_count = len(slower) - listed - expected
    parts = [f"{listed} on the quarantine list"] if listed else []
    parts += [f"{expected} expected"] if expected else []
    parts += [f"{unlisted_count} within --fail-on"] if unlisted_count else []
    return f"fails nothing: {', '.join(parts)}"


def _named(diffs: Sequence[CaseDiff], verdict: str, case_count: int) -> str:
    verb = "is" if len(diffs) == 1 else "are"
    which = "" if len(diffs) == 1 else "the most " if diffs[0].change_ratio is not None else "e.g. "
    return f"{len(diffs)} of {counted(case_count, 'case')} {verb} {verdict}: {which}{case_sentence(diffs[0])}"
