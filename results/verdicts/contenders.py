"""What competes on a shape: one case each, its processes pooled, ranked by the best evidence. `verdict.py` judges them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from statistics import median

from results.records.flags import DOUBTFUL_FLAGS, FLAGS
from results.records.model_figures import ModelFigures, model_figures
from results.records.records import Record
from results.statistics.replication import TotalInterval, total_intervals
from roofline_model.core.units import format_time
from roofline_model.operators.case import Case, is_narrow_format
from roofline_model.recommend.claimed_losses import product_loss_pct
from roofline_model.recommend.ranking import Standing, order_measured, order_predictions

SIXTEEN_BIT_FORMATS = frozenset({"BF16", "FP16"})
"""What a speed-up is counted against: the formats models are published in, the same on every input."""

Totals = Mapping[str, TotalInterval]
"""By case key."""


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
    the range is narrower than an interval of 95 %, and that of one sample is none (see `verdict.are_level`)."""
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
        """What people call the configuration: `INT4 W4A16 (tinygemm)`."""
        return f"{self.precision} ({self.case.kernel})" if self.case.precision_label else self.case.kernel

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
