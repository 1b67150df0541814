"""Which configuration wins a shape, and was the prediction of its speed-up right? Pure arithmetic over records.

The one place that chooses: the terminal summary and the reports read it, so that both say the same. A *contender* is one
case of a shape with its processes pooled, ranked by the best evidence. Speed-ups compare like with like: measured with
measured, expected with expected, ideal with ideal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from results.diff.rules import INVALIDATING_FLAGS
from results.records.flags import DOUBTFUL_FLAGS, FLAGS
from results.records.model_figures import ModelFigures, model_figures
from results.records.records import Record
from results.statistics.replication import TotalInterval, total_intervals
from roofline_model.core.units import format_time
from roofline_model.formats.catalog import is_narrow_format
from roofline_model.operators.case import Case
from roofline_model.recommend.claimed_losses import product_loss_pct
from roofline_model.recommend.ranking import (
    UNKNOWN_LEVEL_RATIO,
    Standing,
    are_level_predictions,
    order_measured,
    order_predictions,
)

SIXTEEN_BIT_FORMATS = frozenset({"BF16", "FP16"})
"""What a speed-up is counted against: the formats models are published in, the same on every input."""

Totals = Mapping[str, TotalInterval]
"""By case key."""
BASELINE_TIE_RATIO = 0.05
"""16-bit kernels closer than this are one baseline, and BF16 names it."""

GroupKey = tuple[str, tuple[tuple[str, int], ...], str, str]


@dataclass(frozen=True, slots=True)
class Contender:
    """One case of a shape, the times of its processes pooled. SI units; missing is None."""

    records: tuple[Record, ...]
    measured_s: float | None
    """Median of the processes' medians."""
    low_s: float | None
    """Lower end of the measured interval: over processes where their spread is known (`results.statistics.replication`), else inside
    its processes; of the samples' range where no interval was stored (`has_interval` tells)."""
    high_s: float | None
    ideal_s: float | None
    has_interval: bool = True
    """False where a process with too few samples for an interval has only their range, and no spread over processes is known:
    the range is narrower than an interval of 95 %, and that of one sample is none (see `are_level`)."""
    expected_s: float | None = None
    """Time of a good kernel on that chip, where a prediction of it was stored."""
    is_judged_by_expected: bool = False
    """Whether what was not measured is compared by expected times here: every such contender of the shape has one."""
    total_ratio: float | None = None
    """Half the interval over processes by their estimate; None where their spread is not known."""

    @property
    def predicted_s(self) -> float | None:
        """The predicted time it is compared by where it was not measured."""
        return self.expected_s if self.is_judged_by_expected else self.ideal_s

    @property
    def time_s(self) -> float | None:
        """The time it is judged by."""
        return self.measured_s if self.is_measured else self.predicted_s

    @property
    def interval_s(self) -> tuple[float | None, float | None]:
        """Ends of the interval of that time: 95 % of a measured, 80 % of an expected one; None where there is none."""
        if self.is_measured:
            return (self.low_s, self.high_s) if self.has_interval else (None, None)
        expected = next((record.expected for record in self.records if record.expected is not None), None)
        if expected is None or not self.is_judged_by_expected:
            return None, None
        return expected.low_s, expected.high_s

    @property
    def within_ratio(self) -> float | None:
        """± inside one process by its median, the widest; None where none has an interval."""
        timed = (record.measurement for record in self.records if record.status == "measured")
        ratios = (measurement.ci_half_width_ratio for measurement in timed if measurement is not None)
        return max((ratio for ratio in ratios if ratio is not None), default=None)

    @property
    def case(self) -> Case:
        """What was run."""
        return self.records[0].case

    @property
    def case_key(self) -> str:
        """Identity of that case."""
        return self.case.case_key

    @property
    def weight_format(self) -> str:
        """Format of operand b; empty without one."""
        return dict(self.case.formats).get("b", "")

    @property
    def activation_format(self) -> str:
        """Format of operand a; empty without one."""
        return dict(self.case.formats).get("a", "")

    @property
    def precision(self) -> str:
        """What a reader calls the precision, else the kernel."""
        return self.case.precision_label or self.case.kernel

    @property
    def label(self) -> str:
        """What people call the configuration: `INT4 (W4A16) · tinygemm`."""
        return self.case.configuration_label

    @property
    def is_measured(self) -> bool:
        """Whether at least one process timed it."""
        return self.measured_s is not None

    @property
    def is_sixteen_bit(self) -> bool:
        """Whether every input is BF16, or every input FP16."""
        return input_format(self.case) in SIXTEEN_BIT_FORMATS

    @property
    def is_full_precision(self) -> bool:
        """Whether every input is FP32: the baseline where no 16-bit kernel ran."""
        return input_format(self.case) == "FP32"

    @property
    def is_narrow(self) -> bool:
        """Whether the weight (or, without one, the first input), or the cache of a whole model, is narrower than 16 bits."""
        formats = dict(self.case.formats)
        weight = formats.get("b") or next(iter(formats.values()), "")
        cache = formats.get("kv", "") if "b" in formats else ""
        return any(is_narrow_format(one) for one in (weight, cache) if one)

    @property
    def is_emulated(self) -> bool:
        """Whether software stands in for a missing unit: its ideal time leaves out what that costs, often a hundredfold."""
        return self.case.kernel.endswith("_emulated") or any(
            record.ideal is not None and record.ideal.path == "emulated" for record in self.records
        )

    @property
    def flags(self) -> frozenset[str]:
        """The flags of all its measurements."""
        return frozenset(
            flag for record in self.records if record.measurement is not None for flag in record.measurement.flags
        )

    @property
    def doubts(self) -> tuple[str, ...]:
        """Those of its flags that put its time in doubt, in the order they are explained."""
        return tuple(key for key in FLAGS if key in DOUBTFUL_FLAGS & self.flags)

    @property
    def time_text(self) -> str:
        """`measured 1.2 ms`, `expected 598 µs` or `ideal 441 µs`."""
        if self.is_measured:
            return f"measured {format_time(self.measured_s)}"
        return f"{'expected' if self.is_judged_by_expected else 'ideal'} {format_time(self.predicted_s)}"


def contenders(records: Iterable[Record], totals: Totals | None = None) -> tuple[Contender, ...]:
    """Pool the records of each case and return them best first, in the order of every ranking.

    Measured ones go by `order_measured`, what was only predicted follows by `order_predictions`, emulated kernels last: a
    prediction of these leaves out what emulating costs. Predictions go by expected times where every contender that was not
    measured has one, else by ideal ones: the two are never compared with each other. An exact tie goes to BF16,
    then by the case's key, as wherever the case is ranked.
    """
    records = tuple(records)
    totals = total_intervals(records) if totals is None else totals
    by_case: dict[str, list[Record]] = {}
    for record in records:
        if _median_s(record) is not None or (record.status == "predicted" and record.ideal is not None):
            by_case.setdefault(record.case.case_key, []).append(record)
    pooled = [_contender(members, totals.get(case_key)) for case_key, members in by_case.items()]
    if all(contender.expected_s is not None for contender in pooled if not contender.is_measured):
        pooled = [each if each.is_measured else replace(each, is_judged_by_expected=True) for each in pooled]
    by_time = sorted(pooled, key=_time_key)
    measured = [contender for contender in by_time if contender.is_measured]
    predicted = [contender for contender in by_time if not contender.is_measured]
    ordered = order_measured(measured, standing)
    for is_emulated in (False, True):
        ordered += order_predictions((each for each in predicted if each.is_emulated == is_emulated), standing)
    return tuple(ordered)


def standing(contender: Contender) -> Standing:
    """Return what a contender is ordered by: its best time with the interval, its loss, its memory."""
    record = contender.records[0]
    ideal = next((each.ideal for each in contender.records if each.ideal is not None), None)
    figures = model_figures(record)
    if figures is None:
        formats = dict(contender.case.formats)
        weight = formats.get("b", formats.get("a", ""))
        loss_pct = product_loss_pct(weight, formats.get("a", weight))
        memory_bytes = None if ideal is None else ideal.total_bytes
    else:
        loss_pct, memory_bytes = pass_loss_pct(record.case, figures), figures.whole_bytes
    return Standing(contender.time_s or 0.0, *contender.interval_s, loss_pct, memory_bytes, contender.case.case_key)


def pass_loss_pct(case: Case, figures: ModelFigures) -> float | None:
    """Return the loss of a whole model in percent: as its run measured it, 0 for the original, else what was published of
    its formats; None where nobody knows, as of a plan or a narrow cache."""
    if figures.quality_source == "measured" and (measured_pct := figures.loss_pct) is not None:
        return measured_pct
    formats = dict(case.formats)
    weight, activation = formats.get("b", ""), formats.get("a", "")
    is_narrow_cache = is_narrow_format(figures.kv_format or "BF16")
    is_plan = figures.precision == "plan"
    if figures.quality_source == "reference" or not (is_narrow_format(weight) or is_narrow_cache or is_plan):
        return 0.0
    return None if is_plan or is_narrow_cache else product_loss_pct(weight, activation, figures.model_name)


def _contender(records: list[Record], total: TotalInterval | None) -> Contender:
    timed = [(time_s, record.measurement) for record in records if (time_s := _median_s(record)) is not None]
    ideals_s = [record.ideal.time_s for record in records if record.ideal is not None]
    expected_s = [record.expected.time_s for record in records if record.expected is not None]
    # Fewer samples than an interval needs still have a range.
    lows = [m.min_s if m.ci_low_s is None else m.ci_low_s for _, m in timed if m is not None]
    highs = [m.max_s if m.ci_high_s is None else m.ci_high_s for _, m in timed if m is not None]
    has_interval = all(m.ci_low_s is not None and m.ci_high_s is not None for _, m in timed if m is not None)
    if timed and total is not None and total.low_s is not None and total.high_s is not None:
        lows, highs, has_interval = [total.low_s], [total.high_s], True
    return Contender(
        records=tuple(records),
        measured_s=median(time_s for time_s, _ in timed) if timed else None,
        low_s=min(lows, default=None),
        high_s=max(highs, default=None),
        ideal_s=ideals_s[0] if ideals_s else None,
        has_interval=has_interval,
        expected_s=expected_s[0] if expected_s else None,
        total_ratio=None if total is None else total.half_width_ratio,
    )


def _median_s(record: Record) -> float | None:
    """Return the time of a record that was timed and correct; a median of zero is no time."""
    timed = record.measurement if record.status == "measured" else None
    return timed.median_s if timed is not None and timed.median_s > 0 else None


def _time_key(contender: Contender) -> tuple[float, bool, str]:
    return contender.time_s or float("inf"), input_format(contender.case) != "BF16", contender.case.case_key


def input_format(case: Case) -> str | None:
    """Return the format that all inputs share (operands a and b of a product, a model's cache with them, else all), or None."""
    formats = dict(case.formats)
    inputs = (
        {formats[one] for one in ("a", "b", "kv") if one in formats}
        if {"a", "b"} <= formats.keys()
        else set(formats.values())
    )
    return inputs.pop() if len(inputs) == 1 else None


@dataclass(frozen=True, slots=True)
class ShapeVerdict:
    """The contenders of one operator, shape, cache state and mode, and which one wins."""

    key: GroupKey
    shape_label: str
    ranked: tuple[Contender, ...]
    """Best evidence first; see `contenders`. Failed and skipped cases are not here."""
    baseline: Contender | None
    """See `baseline_of`."""
    best: Contender | None
    """The first of `ranked`; None when there is none, or when only emulated kernels were predicted."""
    predicted_speedup: float | None
    """Ideal time of the baseline over ideal time of `best`; None for forced runs, whose prediction is another chip's."""
    measured_speedup: float | None
    lost: tuple[Record, ...]
    """The cases that do not compete: failed, skipped, without any time."""

    @property
    def expected_speedup(self) -> float | None:
        """Expected time of the baseline over expected time of `best`; None where one has none."""
        return expected_speedup(self.best, self.baseline)

    @property
    def op(self) -> str:
        """The operator."""
        return self.key[0]

    @property
    def cache(self) -> str:
        """The cache state."""
        return self.key[2]

    @property
    def is_contest(self) -> bool:
        """Whether at least two contenders compete on equal evidence: one alone wins nothing."""
        return len([one for one in self.ranked if one.is_measured] or self.ranked) > 1

    @property
    def level_pair(self) -> tuple[Contender, Contender] | None:
        """Two that no winner can be named of, the faster or narrower one first; None where the shape has a winner.

        The best and the baseline, or another 16-bit contender that the best is level with (BF16 names the baseline, which
        need not be the fastest of them), of a best of 16 bits or fewer FP32, too, where that is the first of the wide ones; where the
        baseline itself is the best: what is level with it, narrow ones first.
        """
        best, baseline = self.best, self.baseline
        if best is None or baseline is None:
            return None
        if best is baseline:
            equals = [one for one in (self.rival, *self.equals) if one in self.equals]
            return (equals[0], baseline) if equals else None
        wide = (each for each in _measured_wide(self.ranked) if each is not best)
        gentle = None if best.is_full_precision else next(wide, None)
        peers = (one for one in (baseline, *self.equals) if one is baseline or one.is_sixteen_bit or one is gentle)
        peer = next((one for one in peers if are_level(best, one)), None)
        return None if peer is None else (best, peer)

    @property
    def is_level(self) -> bool:
        """Whether no winner can be named: see `level_pair`."""
        return self.level_pair is not None

    @property
    def is_win(self) -> bool:
        """Whether something beats every 16-bit contender (without one the baseline), on equal evidence, by more than the intervals."""
        if self.best is None or self.baseline is None or self.best is self.baseline or self.is_level:
            return False
        return self.best.is_measured == self.baseline.is_measured

    @property
    def equals(self) -> tuple[Contender, ...]:
        """The others, without the baseline, that are level with the best."""
        others = (one for one in self.ranked if one is not self.best and one is not self.baseline)
        return tuple(
            other for other in others if are_level(self.best, other) and (other.is_measured or not other.is_emulated)
        )

    @property
    def rival(self) -> Contender | None:
        """Where the baseline is fastest: the best of the narrower formats on the same evidence."""
        if self.best is None or self.best is not self.baseline:
            return None
        return next((one for one in self.ranked if one.is_narrow and one.is_measured == self.best.is_measured), None)

    @property
    def runner_up(self) -> Contender | None:
        """The next after the best on the same evidence; None where nothing competes with it."""
        others = (one for one in self.ranked if one is not self.best and (one.is_measured or not one.is_emulated))
        return next((other for other in others if self.best and other.is_measured == self.best.is_measured), None)

    @property
    def doubts(self) -> tuple[str, ...]:
        """Flags that put the measured comparison in doubt, on either side."""
        return tuple(sorted(DOUBTFUL_FLAGS & self.flags))

    @property
    def flags(self) -> frozenset[str]:
        """The flags of what the verdict is about: best, baseline, and what is level with them or comes next."""
        is_of_formats = self.rival is not None or (self.baseline is not None and self.best is not self.baseline)
        named = (self.baseline, self.best, self.rival if is_of_formats else self.runner_up, *(self.level_pair or ()))
        return frozenset().union(*(one.flags for one in named if one is not None))


def group_key(record: Record) -> GroupKey:
    """Return what records must share to be compared: operator, shape, cache state and mode."""
    return (record.case.op, record.case.shape, record.case.cache, record.case.mode)


def groups(records: Iterable[Record]) -> dict[GroupKey, list[Record]]:
    """Return the records by operator, shape, cache and mode, in order of first appearance."""
    found: dict[GroupKey, list[Record]] = {}
    for record in records:
        found.setdefault(group_key(record), []).append(record)
    return found


def shape_verdicts(records: Iterable[Record], totals: Totals | None = None) -> list[ShapeVerdict]:
    """Return a verdict for every group that has a baseline and something to compare it with.

    `totals`: the intervals over processes of the whole run, as `total_intervals` gives them; None: from these records.
    """
    records = tuple(records)
    totals = total_intervals(records) if totals is None else totals
    judged = [judge(members, totals) for members in groups(records).values()]
    return [verdict for verdict in judged if verdict.baseline is not None and verdict.is_contest]


def judge(records: Iterable[Record], totals: Totals | None = None) -> ShapeVerdict:
    """Return the verdict over the records of one group (equal `group_key`, one chip); there must be at least one."""
    records = tuple(records)
    ranked = contenders(records, totals)
    baseline = baseline_of(ranked)
    best = next((contender for contender in ranked if contender.is_measured or not contender.is_emulated), None)
    predicted, measured = speedups(best, baseline)
    competing = {id(record) for one in ranked for record in one.records}
    lost = tuple(record for record in records if id(record) not in competing)
    key = group_key(records[0])
    return ShapeVerdict(key, records[0].case.shape_label, ranked, baseline, best, predicted, measured, lost)


def _measured_wide(ranked: Sequence[Contender]) -> list[Contender]:
    return [one for one in ranked if one.is_measured and (one.is_sixteen_bit or one.is_full_precision)]


def baseline_of(ranked: Iterable[Contender]) -> Contender | None:
    """Return what speed-ups are counted against: the fastest 16-bit contender on the best evidence, else the fastest FP32.

    A measured baseline goes before a predicted one, so that a measured winner is compared with something measured; of
    measured ones one that nothing disturbed before a disturbed one (`_undisturbed`).
    """
    ranked = tuple(ranked)
    for is_measured in (True, False):
        pool = [one for one in ranked if one.is_measured == is_measured and (is_measured or not one.is_emulated)]
        wide = [one for one in pool if one.is_sixteen_bit] or [one for one in pool if one.is_full_precision]
        if wide:
            return _steady_choice(_undisturbed(wide))
    return None


def _undisturbed(wide: Sequence[Contender]) -> Sequence[Contender]:
    """Return those whose time neither a state of the machine nor a wrong count of work disturbed; all where none is left.

    A quarantined, capped or contended time is too long. One that is nevertheless shorter than every undisturbed one by
    more than `BASELINE_TIE_RATIO` is of the faster kernel: a speed-up over the slower one would flatter, so that the
    disturbed ones stay, and the sentence tells the doubt. A time above the roof is too short, and tells nothing.
    """
    clear = [one for one in wide if one.flags.isdisjoint(INVALIDATING_FLAGS)]
    possible = [one for one in wide if "above-roof" not in one.flags]
    fastest_s, clear_s = (found[0].time_s if found else None for found in (possible, clear))
    if fastest_s is None or clear_s is None:
        return clear or possible or wide
    return clear if clear_s <= fastest_s * (1 + BASELINE_TIE_RATIO) else possible


def _steady_choice(wide: Sequence[Contender]) -> Contender:
    """Return BF16 unless another 16-bit contender is clearly faster: noise must not change the baseline from run to run."""
    fastest = wide[0]
    fastest_s = fastest.time_s
    for one in wide:
        time_s = one.time_s
        is_close = time_s is not None and fastest_s is not None and time_s <= fastest_s * (1 + BASELINE_TIE_RATIO)
        if is_close and input_format(one.case) == "BF16":
            return one
    return fastest


def speedups(one: Contender | None, baseline: Contender | None) -> tuple[float | None, float | None]:
    """Return (ideal, measured) speed-up over the baseline; None where a time is missing.

    Forced measurements have no predicted speed-up: a number measured on one chip never meets another chip's prediction.
    """
    if one is None or baseline is None:
        return None, None
    forced = "forced" in one.flags | baseline.flags
    return None if forced else _ratio(baseline.ideal_s, one.ideal_s), _ratio(baseline.measured_s, one.measured_s)


def expected_speedup(one: Contender | None, baseline: Contender | None) -> float | None:
    """Return expected over expected; None where one of them has no expected time, and for forced measurements."""
    if one is None or baseline is None or "forced" in one.flags | baseline.flags:
        return None
    return _ratio(baseline.expected_s, one.expected_s)


def are_level(one: Contender | None, other: Contender | None) -> bool:
    """Return whether no winner can be named: measured intervals that overlap, or predictions that every ranking takes for level.

    Measured times of too few samples for an interval are level up to `UNKNOWN_LEVEL_RATIO`, too.
    """
    if one is None or other is None or one.is_measured != other.is_measured:
        return False
    if one.is_measured:
        return _overlap(one, other) or (has_few_samples(one, other) and _are_close(one, other, UNKNOWN_LEVEL_RATIO))
    return one.is_judged_by_expected == other.is_judged_by_expected and are_level_predictions(
        standing(one), standing(other)
    )


def _overlap(one: Contender, other: Contender) -> bool:
    if one.low_s is None or one.high_s is None or other.low_s is None or other.high_s is None:
        return False
    return one.low_s <= other.high_s and other.low_s <= one.high_s


def has_few_samples(one: Contender, other: Contender) -> bool:
    """Return whether one of the two has too few samples for an interval."""
    return not (one.has_interval and other.has_interval)


def _are_close(one: Contender, other: Contender, tie_ratio: float) -> bool:
    ratio = _ratio(one.time_s, other.time_s)
    return ratio is not None and max(ratio, 1 / ratio) <= 1 + tie_ratio


def _ratio(slow_s: float | None, fast_s: float | None) -> float | None:
    return slow_s / fast_s if slow_s and fast_s else None
