"""Which configuration wins a shape, and was the prediction of its speed-up right? Pure arithmetic over records.

The one place that chooses: the terminal summary and the reports read it, so that both say the same. A *contender* is one
case of a shape with its processes pooled. Speed-ups compare like with like: measured with measured, ideal with ideal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from results.flags import DOUBTFUL_FLAGS
from results.records import Record
from results.replication import TotalInterval, total_intervals
from roofline_model.case import Case
from roofline_model.errors import RooflineError
from roofline_model.formats import get_format
from roofline_model.units import format_time

SIXTEEN_BIT_FORMATS = frozenset({"BF16", "FP16"})
"""What a speed-up is counted against: the formats models are published in, the same on every input."""

PREDICTED_TIE_RATIO = 0.005
"""Ideal times closer than this are one prediction: kernels of one format differ in nothing the model knows."""

BASELINE_TIE_RATIO = 0.05
"""16-bit kernels closer than this are one baseline, and BF16 names it."""

_ORIGIN_FLAGS = {"forced": "not measured on the predicted chip", "simulated": "times of a simulated timer"}

GroupKey = tuple[str, tuple[tuple[str, int], ...], str, str]
Totals = Mapping[str, TotalInterval]
"""By case key."""


@dataclass(frozen=True, slots=True)
class Contender:
    """One case of a shape, the times of its processes pooled. SI units; missing is None."""

    records: tuple[Record, ...]
    measured_s: float | None
    """Median of the processes' medians."""
    low_s: float | None
    """Lower end of the measured interval: over processes where their spread is known (`results.replication`), else inside
    its processes; of the samples' range where no interval was stored."""
    high_s: float | None
    ideal_s: float | None

    @property
    def case(self) -> Case:
        """What was run."""
        return self.records[0].case

    @property
    def precision(self) -> str:
        """What a reader calls the precision, else the kernel."""
        return self.case.precision_label or self.case.kernel

    @property
    def label(self) -> str:
        """What people call the configuration: `INT4 W4A16 (tinygemm)`."""
        return f"{self.precision} ({self.case.kernel})" if self.case.precision_label else self.case.kernel

    @property
    def is_measured(self) -> bool:
        """Whether at least one process timed it."""
        return self.measured_s is not None

    @property
    def is_sixteen_bit(self) -> bool:
        """Whether every input is BF16, or every input FP16."""
        return _input_format(self.case) in SIXTEEN_BIT_FORMATS

    @property
    def is_full_precision(self) -> bool:
        """Whether every input is FP32: the baseline where no 16-bit kernel ran."""
        return _input_format(self.case) == "FP32"

    @property
    def is_narrow(self) -> bool:
        """Whether the weight (or, without one, the first input) is narrower than 16 bits."""
        formats = dict(self.case.formats)
        weight = formats.get("b") or next(iter(formats.values()), "")
        try:
            return bool(weight) and get_format(weight).element_bits < 16
        except RooflineError:  # a user's format that this process has not loaded
            return False

    @property
    def is_emulated(self) -> bool:
        """Whether software stands in for a missing unit: its ideal time leaves out what that costs, often a hundredfold."""
        return self.case.kernel.endswith("_emulated") or any(
            record.ideal is not None and record.ideal.path == "emulated" for record in self.records
        )

    @property
    def flags(self) -> frozenset[str]:
        """The flags of all its measurements."""
        return frozenset(flag for one in self.records if one.measurement is not None for flag in one.measurement.flags)

    @property
    def time_text(self) -> str:
        """`measured 1.2 ms` or `predicted 441 µs`."""
        return (
            f"measured {format_time(self.measured_s)}" if self.is_measured else f"predicted {format_time(self.ideal_s)}"
        )


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
    """The fastest on the best evidence; None when there is none, or when only emulated kernels were predicted."""
    predicted_speedup: float | None
    """Ideal time of the baseline over ideal time of `best`; None for forced runs, whose prediction is another chip's."""
    measured_speedup: float | None
    lost: tuple[Record, ...]
    """The cases that do not compete: failed, skipped, without any time."""

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
    def is_level(self) -> bool:
        """Whether the fastest is not the baseline and yet no faster than it for sure."""
        return self.best is not self.baseline and are_level(self.best, self.baseline)

    @property
    def is_win(self) -> bool:
        """Whether something beats the baseline on equal evidence, by more than the intervals."""
        if self.best is None or self.baseline is None or self.best is self.baseline or self.is_level:
            return False
        return self.best.is_measured == self.baseline.is_measured

    @property
    def equals(self) -> tuple[Contender, ...]:
        """The others, without the baseline, that are level with the best."""
        others = (one for one in self.ranked if one is not self.best and one is not self.baseline)
        return tuple(one for one in others if are_level(self.best, one) and (one.is_measured or not one.is_emulated))

    @property
    def rival(self) -> Contender | None:
        """Where the baseline is fastest: the best of the narrower formats on the same evidence."""
        if self.best is None or self.best is not self.baseline:
            return None
        return next((one for one in self.ranked if one.is_narrow and one.is_measured == self.best.is_measured), None)

    @property
    def doubts(self) -> tuple[str, ...]:
        """Flags that put the measured comparison in doubt, on either side."""
        return tuple(sorted(DOUBTFUL_FLAGS & self._flags()))

    @property
    def sentence(self) -> str:
        """One plain line, e.g. `INT4 W4A16 (tinygemm) predicted 4.0× BF16, measured 2.3×`, and what weakens it."""
        doubts, flags = self.doubts, self._flags()
        remarks = [f"doubtful: {', '.join(doubts)}"] if doubts else []
        remarks += [f"{flag}: {text}" for flag, text in _ORIGIN_FLAGS.items() if flag in flags]
        return self._judgement() + (f" ({'; '.join(remarks)})" if remarks else "")

    def _flags(self) -> frozenset[str]:
        return frozenset().union(*(one.flags for one in (self.baseline, self.best, self.rival) if one is not None))

    def _judgement(self) -> str:
        best, baseline = self.best, self.baseline
        if best is None:
            if self.ranked:
                return f"only emulated kernels were predicted ({self.ranked[0].label}), without what emulating costs"
            reasons = list(dict.fromkeys(one.reason or one.status for one in self.lost))
            count = f"{len(self.lost)} case{'' if len(self.lost) == 1 else 's'}"
            return f"nothing measured or predicted ({count}: {'; '.join(reasons[:2])})"
        if len(self.ranked) == 1:
            return f"{best.label} {best.time_text}; nothing else ran on this shape"
        if baseline is None:
            return f"{best.label} is fastest, {best.time_text}; no 16-bit or FP32 kernel to compare with"
        if best is baseline:
            return self._baseline_stays(best)
        if self.is_level:
            return f"{best.label} is level with {baseline.label}: {_level_text(best, baseline)}"
        shared = [one.label for one in self.equals]
        more = f" and {len(shared) - 1} more" if len(shared) > 1 else ""
        return f"{best.label} {_comparison(best, baseline)}" + (f"; level with {shared[0]}{more}" if shared else "")

    def _baseline_stays(self, baseline: Contender) -> str:
        rival = self.rival
        if rival is None:
            evidence = "measured" if baseline.is_measured else "predicted"
            return f"{baseline.label} is fastest, {baseline.time_text}; no narrower format was {evidence}"
        if rival.is_emulated and not rival.is_measured:
            said = f"{rival.label} is emulated, and its prediction leaves out what that costs"
        elif are_level(rival, baseline):
            said = f"{rival.label} is level with it: {_level_text(rival, baseline)}"
        else:
            said = f"{rival.label} {_comparison(rival, baseline)}"
        return f"{baseline.label} stays fastest, {baseline.time_text}; {said}"


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
    best = next((one for one in ranked if one.is_measured or not one.is_emulated), None)
    predicted, measured = speedups(best, baseline)
    competing = {id(record) for one in ranked for record in one.records}
    lost = tuple(record for record in records if id(record) not in competing)
    key = group_key(records[0])
    return ShapeVerdict(key, records[0].case.shape_label, ranked, baseline, best, predicted, measured, lost)


def contenders(records: Iterable[Record], totals: Totals | None = None) -> tuple[Contender, ...]:
    """Pool the records of each case: measured ones by time, then predicted ones by ideal time, emulated ones last.

    A tie goes to the baseline formats, then to the case that comes first by name.
    """
    records = tuple(records)
    totals = total_intervals(records) if totals is None else totals
    by_case: dict[str, list[Record]] = {}
    for record in records:
        if _median_s(record) is not None or (record.status == "predicted" and record.ideal is not None):
            by_case.setdefault(record.case.case_key, []).append(record)
    pooled = (_contender(members, totals.get(case_key)) for case_key, members in by_case.items())
    return tuple(sorted(pooled, key=_rank))


def baseline_of(ranked: Iterable[Contender]) -> Contender | None:
    """Return what speed-ups are counted against: the fastest 16-bit contender on the best evidence, else the fastest FP32.

    A measured baseline goes before a predicted one, so that a measured winner is compared with something measured.
    """
    ranked = tuple(ranked)
    for is_measured in (True, False):
        pool = [one for one in ranked if one.is_measured == is_measured and (is_measured or not one.is_emulated)]
        wide = [one for one in pool if one.is_sixteen_bit] or [one for one in pool if one.is_full_precision]
        if wide:
            return _steady_choice(wide)
    return None


def _steady_choice(wide: Sequence[Contender]) -> Contender:
    """Return BF16 unless another 16-bit contender is clearly faster: noise must not change the baseline from run to run."""
    fastest = wide[0]
    fastest_s = fastest.measured_s if fastest.is_measured else fastest.ideal_s
    for one in wide:
        time_s = one.measured_s if fastest.is_measured else one.ideal_s
        is_close = time_s is not None and fastest_s is not None and time_s <= fastest_s * (1 + BASELINE_TIE_RATIO)
        if is_close and _input_format(one.case) == "BF16":
            return one
    return fastest


def speedups(one: Contender | None, baseline: Contender | None) -> tuple[float | None, float | None]:
    """Return (predicted, measured) speed-up over the baseline; None where a time is missing.

    Forced measurements have no predicted speed-up: a number measured on one chip never meets another chip's prediction.
    """
    if one is None or baseline is None:
        return None, None
    forced = "forced" in one.flags | baseline.flags
    return None if forced else _ratio(baseline.ideal_s, one.ideal_s), _ratio(baseline.measured_s, one.measured_s)


def are_level(one: Contender | None, other: Contender | None) -> bool:
    """Return whether no winner can be named: measured intervals that overlap, or predictions that are the same."""
    if one is None or other is None or one.is_measured != other.is_measured:
        return False
    if one.low_s is not None and one.high_s is not None and other.low_s is not None and other.high_s is not None:
        return one.low_s <= other.high_s and other.low_s <= one.high_s
    ratio = _ratio(one.ideal_s, other.ideal_s)
    return ratio is not None and abs(ratio - 1) <= PREDICTED_TIE_RATIO


def times_faster(ratio: float) -> str:
    """Print a speed-up as people say it: `4.0×`, `0.08×`, `120×`."""
    return f"{ratio:.0f}×" if ratio >= 99.5 else f"{ratio:.1f}×" if ratio >= 0.95 else f"{ratio:.2g}×"


def _comparison(one: Contender, baseline: Contender) -> str:
    predicted, measured = speedups(one, baseline)
    name = baseline.precision
    if measured is not None:
        if predicted is None:  # the baseline has not been named yet
            return f"measured {times_faster(measured)} {name}"
        return f"predicted {times_faster(predicted)} {name}, measured {times_faster(measured)}"
    first = f"predicted {times_faster(predicted)} {name}, " if predicted is not None else ""
    if one.is_measured:
        return f"{first}{one.time_text} (no 16-bit or FP32 kernel was measured)"
    return f"{first}not measured" if first else f"{one.time_text}, not measured"


def _level_text(one: Contender, baseline: Contender) -> str:
    predicted, measured = speedups(one, baseline)
    parts = [f"predicted {times_faster(predicted)}"] if predicted is not None else []
    parts.append("not measured" if measured is None else f"measured {times_faster(measured)} within the intervals")
    return ", ".join(parts)


def _contender(records: list[Record], total: TotalInterval | None) -> Contender:
    timed = [(time_s, one.measurement) for one in records if (time_s := _median_s(one)) is not None]
    ideals_s = [one.ideal.time_s for one in records if one.ideal is not None]
    # Fewer samples than an interval needs still have a range.
    lows = [m.min_s if m.ci_low_s is None else m.ci_low_s for _, m in timed if m is not None]
    highs = [m.max_s if m.ci_high_s is None else m.ci_high_s for _, m in timed if m is not None]
    if timed and total is not None and total.low_s is not None and total.high_s is not None:
        lows, highs = [total.low_s], [total.high_s]
    return Contender(
        records=tuple(records),
        measured_s=median(time_s for time_s, _ in timed) if timed else None,
        low_s=min(lows, default=None),
        high_s=max(highs, default=None),
        ideal_s=ideals_s[0] if ideals_s else None,
    )


def _median_s(record: Record) -> float | None:
    """Return the time of a record that was timed and correct; a median of zero is no time."""
    timed = record.measurement if record.status == "measured" else None
    return timed.median_s if timed is not None and timed.median_s > 0 else None


def _rank(one: Contender) -> tuple[bool, bool, float, bool, str]:
    by_time = one.measured_s if one.measured_s is not None else one.ideal_s
    is_wide = one.is_sixteen_bit or one.is_full_precision
    return (
        not one.is_measured,
        not one.is_measured and one.is_emulated,
        by_time if by_time is not None else float("inf"),
        not is_wide,
        one.case.id,
    )


def _input_format(case: Case) -> str | None:
    """Return the format that all inputs share (operands a and b of a product, else all), or None."""
    formats = dict(case.formats)
    inputs = {formats["a"], formats["b"]} if {"a", "b"} <= formats.keys() else set(formats.values())
    return inputs.pop() if len(inputs) == 1 else None


def _ratio(slow_s: float | None, fast_s: float | None) -> float | None:
    return slow_s / fast_s if slow_s and fast_s else None
