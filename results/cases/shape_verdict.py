"""Which configuration wins a shape, and was the prediction of its speed-up right? Pure arithmetic over records.

The one place that chooses: the terminal summary and the reports read it, so that both say the same. Each case of a
shape is an `Option` with its processes pooled, ranked by the best evidence. Speed-ups compare like with like: measured
with measured, expected with expected, ideal with ideal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product

from results.cases.case_result import CaseResult
from results.cases.gain import Gain, first_gap, measured_gain
from results.records.flags import DOUBTFUL_FLAGS, INVALIDATING_FLAGS
from results.records.records import Record
from roofline_model.core.answer import NOT_STORED, Alternative, Evidence, Option, Question, Ranking
from roofline_model.core.finding import finding, has_code
from roofline_model.core.grouping import grouped
from roofline_model.core.units import format_time
from roofline_model.formats.catalog import is_narrow_format
from roofline_model.operators.case import Case, PassName, pass_name
from roofline_model.recommend.ranking import (
    MAX_LOSS_PCT,
    UNKNOWN_LEVEL_RATIO,
    Limits,
    Standing,
    are_level_predictions,
    order_measured,
    order_predictions,
    take_of,
)

SIXTEEN_BIT_FORMATS = frozenset({"BF16", "FP16"})
"""What a speed-up is counted against: the formats models are published in, the same on every input."""

BASELINE_TIE_RATIO = 0.05
"""16-bit kernels closer than this are one baseline, and BF16 names it."""

Ends = tuple[float | None, float | None]
GroupKey = tuple[str, tuple[tuple[str, int], ...], str, str]


def ranked_options(cases: Iterable[CaseResult]) -> tuple[Option, ...]:
    """Return one option per case that has a time, best first, in the order of every ranking.

    Measured ones go by `order_measured`, what was only predicted follows by `order_predictions`, emulated kernels last:
    a prediction of these leaves out what emulating costs. Expected times go before ideal ones, which are lower bounds
    that would win unfairly. An exact tie goes to BF16, then by the case's key, as wherever the case is ranked. Their
    speed-ups are not set: `speedups` are of two options.
    """
    by_time = sorted(
        map(_option, timed_cases(cases)),
        key=lambda option: (option.estimate.time_s, input_format(option.formats) != "BF16", option.key),
    )
    measured = [option for option in by_time if option.is_measured]
    predicted = [option for option in by_time if not option.is_measured]
    ordered = order_measured(measured, standing)
    for is_emulated, source in product((False, True), ("expected", "ideal")):
        alike = (each for each in predicted if (is_emulation(each), each.estimate.source) == (is_emulated, source))
        ordered += order_predictions(alike, standing)
    return tuple(ordered)


def timed_cases(cases: Iterable[CaseResult]) -> tuple[CaseResult, ...]:
    """Return the cases that have a time: measured ones, and predictions."""
    return tuple(case for case in cases if case.pooled is not None or any(map(_is_predicted, case.records)))


def _is_predicted(record: Record) -> bool:
    return record.status == "predicted" and record.ideal is not None


def standing(option: Option) -> Standing:
    """Return the sort key of a pooled option: best time with its interval, loss, memory."""
    estimate, memory = option.estimate, option.memory
    memory_bytes = None if memory is None else memory.total_bytes
    return Standing(estimate.time_s, *estimate.interval_s, option.loss.pct, memory_bytes, option.key)


def is_sixteen_bit(option: Option) -> bool:
    """Return whether every input is BF16, or every input FP16."""
    return input_format(option.formats) in SIXTEEN_BIT_FORMATS


def is_full_precision(option: Option) -> bool:
    """Return whether every input is FP32: the baseline where no 16-bit kernel ran."""
    return input_format(option.formats) == "FP32"


def is_narrow(option: Option) -> bool:
    """Return whether the weight, or the cache of a whole model, is narrower than 16 bits; of operators without weights
    whether any operand is.
    """
    formats = dict(option.formats)
    operands = ("b", "kv") if "b" in formats else tuple(formats)
    return any(is_narrow_format(formats.get(operand, "")) for operand in operands)


def is_emulation(option: Option) -> bool:
    """Return whether software stands in for a missing unit: its ideal time leaves out what that costs, often a
    hundredfold.
    """
    return option.path == "emulated"


def precision_name(option: Option) -> str:
    """Return the display name of a pooled option: its precision, else its kernel."""
    return option.precision or option.kernel or ""


def time_text(option: Option) -> str:
    """Return `measured 1.2 ms`, `expected 598 µs` or `ideal 441 µs`."""
    return f"{option.estimate.source} {format_time(option.estimate.time_s)}"


def _option(case: CaseResult) -> Option:
    ideal = case.ideal
    is_emulated = case.case.kernel.endswith("_emulated") or any(
        record.ideal is not None and record.ideal.path == "emulated" for record in case.records
    )
    return Option(
        key=case.case_key,
        formats=case.case.formats,
        method="",
        path="emulated" if is_emulated else "" if ideal is None else ideal.path,
        bound="" if ideal is None else ideal.bound,
        times=case.times,
        memory=case.memory,
        loss=case.loss,
        speedup_ratio=None,
        ideal_speedup_ratio=None,
        label=case.case.configuration_label,
        precision=case.case.precision_label,
        kernel=case.case.kernel,
        evidence=evidence_of(case),
        trust=replace(NOT_STORED, doubts=case.doubts),
    )


def evidence_of(case: CaseResult) -> tuple[Evidence, ...]:
    """Return the runs behind a case's time, each with its records in their order and their flags: of the processes
    used, of a case that is not judgeable of all.
    """
    is_judgeable = case.pooled is not None and case.pooled.is_judgeable
    by_run = grouped((case.used if is_judgeable else case.timed) or case.records, lambda record: record.run_id)
    return tuple(
        Evidence(
            run_id,
            "",
            None,
            tuple(record.record_id for record in members),
            len({record.process.ordinal for record in members if record.status == "measured"}),
            tuple(sorted({flag for record in members if record.measurement for flag in record.measurement.flags})),
        )
        for run_id, members in by_run.items()
    )


def input_format(formats: Sequence[tuple[str, str]]) -> str | None:
    """Return the format that all inputs share (operands a and b of a product, a model's cache with them, else all), or
    None.
    """
    by_operand = dict(formats)
    inputs = (
        {by_operand[operand] for operand in ("a", "b", "kv") if operand in by_operand}
        if {"a", "b"} <= by_operand.keys()
        else set(by_operand.values())
    )
    return inputs.pop() if len(inputs) == 1 else None


@dataclass(frozen=True)
class ShapeVerdict(Ranking):
    """The ranking of the cases of one operator, shape, cache state and mode, and which of them wins.

    Its gap is of the measured choice and the measured best; the choice stands beside it. What failed, was skipped or
    has no time is `lost`.
    """

    cases: Mapping[str, CaseResult] = field(default_factory=dict)
    """Key of a case → the case."""

    @property
    def key(self) -> GroupKey:
        """Operator, shape, cache state and mode."""
        asked = self.question
        return asked.op, asked.sizes, asked.cache, asked.mode

    @cached_property
    def best(self) -> Option | None:
        """The first option; None when there is none, or when only emulated kernels were predicted."""
        return next((option for option in self.options if option.is_measured or not is_emulation(option)), None)

    @property
    def riskier(self) -> Option | None:
        """The first that is faster than `choice` and may lose more; None where nothing is."""
        return self.alternatives[0].option if self.alternatives else None

    @property
    def is_untrained(self) -> bool:
        """Whether it is of a model whose losses mean nothing."""
        return has_code(self.findings, "untrained")

    @property
    def lost(self) -> tuple[Record, ...]:
        """The records that do not compete: failed, skipped, without any time."""
        records = (record for case in self.cases.values() for record in case.records)
        return tuple(record for record in records if not (_is_predicted(record) or record.timing is not None))

    @property
    def predicted_speedup(self) -> float | None:
        """Ideal time of the baseline over ideal time of `best`; None for forced runs, whose prediction is another
        chip's.
        """
        return None if self.best is None else self.best.ideal_speedup_ratio

    @property
    def expected_speedup(self) -> float | None:
        """Expected time of the baseline over expected time of `best`; None where one has none."""
        return None if self.best is None else self.best.expected_speedup_ratio

    @property
    def measured_speedup(self) -> float | None:
        """Measured time of the baseline over that of `best`; None where one was not measured."""
        return speedups(self.best, self.baseline)[1]

    @property
    def model(self) -> PassName | None:
        """The pass of a whole model that it is; None for a shape."""
        return pass_name(self.question.op, self.question.sizes)

    @cached_property
    def rival(self) -> Option | None:
        """If the baseline is fastest: the best narrower option on the same evidence, else None."""
        best = self.best
        if best is None or best is not self.baseline:
            return None
        narrow = filter(is_narrow, self.options)
        return next((each for each in narrow if each.estimate.source == best.estimate.source), None)

    @cached_property
    def equals(self) -> tuple[Option, ...]:
        """The others, without the baseline, that are tied with the best."""
        others = (each for each in self.options if each is not self.best and each is not self.baseline)
        return tuple(
            each for each in others if are_level(self.best, each) and (each.is_measured or not is_emulation(each))
        )

    @cached_property
    def level_pair(self) -> tuple[Option, Option] | None:
        """Two options too close to name a winner, the faster or narrower first; None if the shape has a winner.

        The best and the baseline, or another 16-bit option that the best is tied with (BF16 names the baseline, which
        need not be the fastest of them), of a best of 16 bits or fewer FP32, too, where that is the first of the wide
        ones; where the baseline itself is the best: what is tied with it, narrow ones first.
        """
        best, baseline = self.best, self.baseline
        if best is None or baseline is None:
            return None
        if best is baseline:
            tied = [each for each in (self.rival, *self.equals) if each in self.equals]
            return (tied[0], baseline) if tied and tied[0] is not None else None
        wide = (each for each in self.options if each.is_measured and (is_sixteen_bit(each) or is_full_precision(each)))
        gentle = None if is_full_precision(best) else next((each for each in wide if each is not best), None)
        peers = (baseline, *(each for each in self.equals if is_sixteen_bit(each) or each is gentle))
        peer = next((each for each in peers if are_level(best, each)), None)
        return None if peer is None else (best, peer)

    @property
    def gain(self) -> Gain | None:
        """The measured speed-up with what its two times leave open; None where one was not measured."""
        return measured_gain(self.best, self.baseline)

    @property
    def is_contest(self) -> bool:
        """Whether at least two options compete on equal evidence: one alone wins nothing."""
        return len([option for option in self.options if option.is_measured] or self.options) > 1

    @property
    def is_level(self) -> bool:
        """Whether no winner can be named: see `level_pair`."""
        return self.level_pair is not None

    @property
    def level_with(self) -> Option | None:
        """What the best is tied with, so that nothing wins; None where something does."""
        return next((each for each in self.level_pair or () if each is not self.best), None)

    @property
    def is_win(self) -> bool:
        """Whether something beats every 16-bit option (without one the baseline), on equal evidence, by more than the
        intervals, and its times may make a headline.
        """
        if self.best is None or self.baseline is None or self.best is self.baseline or self.is_level:
            return False
        return self.best.estimate.source == self.baseline.estimate.source and self.gap is None

    @cached_property
    def leaders(self) -> tuple[Option, ...]:
        """The best and, after it, what is tied with it on the same evidence: measured intervals that overlap,
        predictions that every ranking takes for level (`are_level_predictions`). Empty without a best.
        """
        best = self.best
        return () if best is None else (best, *(rival for rival in self._rivals if are_level(best, rival)))

    @cached_property
    def is_clear(self) -> bool:
        """Whether the intervals tell `best` from every other option of its evidence, not only from those of 16 bits."""
        best = self.best
        return best is not None and not any(
            _overlap(best.estimate.interval_s, rival.estimate.interval_s) or are_level(best, rival)
            for rival in self._rivals
        )

    @property
    def _rivals(self) -> list[Option]:
        """What competes with the best on the same evidence."""
        best = self.best
        fit = (each for each in self.options if each.is_measured or not is_emulation(each))
        return [each for each in fit if each is not best and best and each.is_measured == best.is_measured]

    @property
    def runner_up(self) -> Option | None:
        """The next after the best on the same evidence; None where nothing competes with it."""
        contenders = (
            option
            for option in self.options
            if option is not self.best and (option.is_measured or not is_emulation(option))
        )
        source = None if self.best is None else self.best.estimate.source
        return next((other for other in contenders if other.estimate.source == source), None)

    @property
    def doubts(self) -> tuple[str, ...]:
        """Flags that put the measured comparison in doubt, on either side."""
        return tuple(sorted(DOUBTFUL_FLAGS & self.flags))

    @property
    def flags(self) -> frozenset[str]:
        """The flags of the compared options: choice, best, baseline, the runner-up, and what is tied with them."""
        is_of_formats = self.rival is not None or (self.baseline is not None and self.best is not self.baseline)
        second = self.rival if is_of_formats else self.runner_up
        subjects = (self.choice, self.baseline, self.best, second, *(self.level_pair or ()))
        return frozenset().union(*(subject.flags for subject in subjects if subject is not None))


def group_key(case: Case) -> GroupKey:
    """Return the comparison key of a case: operator, shape, cache state and mode."""
    return (case.op, case.shape, case.cache, case.mode)


def groups(cases: Iterable[CaseResult]) -> dict[GroupKey, list[CaseResult]]:
    """Return the cases by operator, shape, cache and mode, in order of first appearance."""
    return grouped(cases, lambda case: group_key(case.case))


def shape_verdicts(cases: Iterable[CaseResult], *, is_gap_ignored: bool = False) -> tuple[ShapeVerdict, ...]:
    """Return the verdict on every operator, shape, cache and mode of the cases of one chip, in the order they were run.

    `is_gap_ignored`: disturbed times make results, too.
    """
    return tuple(judge(members, is_gap_ignored=is_gap_ignored) for members in groups(cases).values())


def judge(cases: Iterable[CaseResult], *, is_gap_ignored: bool = False) -> ShapeVerdict:
    """Return the verdict over the cases of one group (equal `group_key`, one chip); there must be at least one."""
    cases = tuple(cases)
    ranked = ranked_options(cases)
    baseline = baseline_of(ranked)
    base = None if baseline is None else compared(baseline, baseline)
    options = tuple(base if base and each is baseline else compared(each, baseline) for each in ranked)
    real = [option for option in options if option.is_measured or not is_emulation(option)]
    case, figures = cases[0].case, cases[0].model
    is_untrained = figures is not None and figures.is_untrained
    choice, riskier = (None, None) if is_untrained else take_of(real, base, Limits(choice_loss_pct=MAX_LOSS_PCT))
    gap = None if is_gap_ignored else first_gap((choice, *real[:1]), base)
    return ShapeVerdict(
        Question(
            *("shape" if figures is None else "model", cases[0].hardware_key, cases[0].title, case.shape, "", "stored"),
            op=case.op,
            cache=case.cache,
            mode=case.mode,
        ),
        options,
        base,
        choice,
        () if riskier is None else (Alternative("riskier", riskier),),
        findings=(*([] if gap is None else [gap]), *([finding("untrained")] if is_untrained else [])),
        cases={each.case_key: each for each in cases},
    )


def baseline_of(ranked: Iterable[Option]) -> Option | None:
    """Return the baseline of the speed-ups: the fastest 16-bit option on the best evidence, else the fastest FP32.

    A measured baseline goes before a predicted one, so that a measured winner is compared with something measured; of
    measured ones one that nothing disturbed before a disturbed one (`_undisturbed`).
    """
    ranked = tuple(ranked)
    for is_measured in (True, False):
        pool = [
            option
            for option in ranked
            if option.is_measured == is_measured and (is_measured or not is_emulation(option))
        ]
        wide = [option for option in pool if is_sixteen_bit(option)] or [
            option for option in pool if is_full_precision(option)
        ]
        if wide:
            return _steady_choice(_undisturbed(wide))
    return None


def _undisturbed(wide: Sequence[Option]) -> Sequence[Option]:
    """Return the options with undisturbed times; all of them if no such option is left.

    A quarantined, capped or contended time is too long. One that is nevertheless shorter than every undisturbed one by
    more than `BASELINE_TIE_RATIO` is of the faster kernel: a speed-up over the slower one would flatter, so that the
    disturbed ones stay, and the sentence tells the doubt. A time above the roof is too short, and tells nothing.
    """
    clear = [option for option in wide if option.flags.isdisjoint(INVALIDATING_FLAGS)]
    possible = [option for option in wide if "above-roof" not in option.flags]
    fastest_s, clear_s = (options[0].estimate.time_s if options else None for options in (possible, clear))
    if fastest_s is None or clear_s is None:
        return clear or possible or wide
    return clear if clear_s <= fastest_s * (1 + BASELINE_TIE_RATIO) else possible


def _steady_choice(wide: Sequence[Option]) -> Option:
    """Return BF16 unless another 16-bit option is clearly faster: noise must not change the baseline from run to
    run.
    """
    fastest = wide[0]
    for option in wide:
        is_alike = option.estimate.source == fastest.estimate.source
        is_close = is_alike and option.estimate.time_s <= fastest.estimate.time_s * (1 + BASELINE_TIE_RATIO)
        if is_close and input_format(option.formats) == "BF16":
            return option
    return fastest


def speedups(option: Option | None, baseline: Option | None) -> tuple[float | None, float | None]:
    """Return (ideal, measured) speed-up over the baseline; None where a time is missing.

    Forced measurements have no predicted speed-up: a number measured on one chip never meets another chip's prediction.
    """
    if option is None or baseline is None:
        return None, None
    forced = "forced" in option.flags | baseline.flags
    return None if forced else _ratio(baseline.times.ideal_s, option.times.ideal_s), _ratio(
        baseline.times.measured_s, option.times.measured_s
    )


def compared(option: Option, baseline: Option | None) -> Option:
    """Return an option with its speed-ups over the baseline, like with like: measured over measured; of a prediction
    expected over expected, ideal over ideal where one has no expected time.
    """
    if baseline is None:
        return option
    ideal, measured = speedups(option, baseline)
    expected = expected_speedup(option, baseline)
    is_over_doubt = option.is_measured and option.key != baseline.key and bool(baseline.trust.doubts)
    return replace(
        option,
        speedup_ratio=measured if option.is_measured else ideal if expected is None else expected,
        ideal_speedup_ratio=ideal,
        expected_speedup_ratio=expected,
        trust=replace(option.trust, is_over_doubt=is_over_doubt),
    )


def expected_speedup(option: Option | None, baseline: Option | None) -> float | None:
    """Return expected over expected; None where one of them has no expected time, and for forced measurements."""
    if option is None or baseline is None or "forced" in option.flags | baseline.flags:
        return None
    return _ratio(baseline.times.expected_s, option.times.expected_s)


def are_level(option: Option | None, other: Option | None) -> bool:
    """Return whether no winner can be named: measured intervals that overlap, or predictions that every ranking takes
    for level.

    Measured times of too few samples for an interval are tied up to `UNKNOWN_LEVEL_RATIO`, too.
    """
    if option is None or other is None or option.is_measured != other.is_measured:
        return False
    if option.is_measured:
        ratio = option.estimate.time_s / other.estimate.time_s
        is_close = max(ratio, 1 / ratio) <= 1 + UNKNOWN_LEVEL_RATIO
        return _overlap(_ends(option), _ends(other)) or (has_few_samples(option, other) and is_close)
    return option.estimate.source == other.estimate.source and are_level_predictions(standing(option), standing(other))


def _ends(option: Option) -> Ends:
    return option.estimate.low_s, option.estimate.high_s


def _overlap(first: Ends, second: Ends) -> bool:
    """Return whether two intervals overlap; without an end nobody knows, and they do not."""
    (low, high), (other_low, other_high) = first, second
    if low is None or high is None or other_low is None or other_high is None:
        return False
    return low <= other_high and other_low <= high


def has_few_samples(option: Option, other: Option) -> bool:
    """Return whether one of the two has too few samples for an interval."""
    return option.estimate.is_sample_range or other.estimate.is_sample_range


def _ratio(slow_s: float | None, fast_s: float | None) -> float | None:
    return slow_s / fast_s if slow_s and fast_s else None
