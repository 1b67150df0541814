"""Which configuration wins a shape, and was the prediction of its speed-up right? Pure arithmetic over records.

The one place that chooses: the terminal summary and the reports read it, so that both say the same. A *contender* is one
case of a shape with its processes pooled. Speed-ups compare like with like: measured with measured,
expected with expected, ideal with ideal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from results.diff.rules import INVALIDATING_FLAGS
from results.records.flags import DOUBTFUL_FLAGS
from results.records.records import Record
from results.statistics.replication import total_intervals
from results.verdicts.contenders import SIXTEEN_BIT_FORMATS, Contender, Totals, contenders, input_format, standing
from roofline_model.recommend.ranking import UNKNOWN_LEVEL_RATIO, are_level_predictions

__all__ = [
    "SIXTEEN_BIT_FORMATS",
    "Contender",
    "GroupKey",
    "ShapeVerdict",
    "Totals",
    "are_level",
    "baseline_of",
    "contenders",
    "expected_speedup",
    "group_key",
    "groups",
    "has_few_samples",
    "judge",
    "shape_verdicts",
    "speedups",
]

BASELINE_TIE_RATIO = 0.05
"""16-bit kernels closer than this are one baseline, and BF16 names it."""

GroupKey = tuple[str, tuple[tuple[str, int], ...], str, str]


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
