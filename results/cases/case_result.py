"""One case of one run, or of several: its records, their pooled time with its interval, and what follows from both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median
from typing import ClassVar

from results.cases.pooling import Pooled, pool, sightings
from results.cases.state import CaseEnergy, CaseState, energy_of, state_of
from results.records.flags import DOUBTFUL_FLAGS, FLAGS
from results.records.impossible import possible_records
from results.records.model_figures import ModelFigures, model_figures
from results.records.records import Measurement, PredictionRecord, Record, RunInfo
from results.records.state_records import NoiseFloor
from results.statistics.replication import FloorKey, TotalInterval, intervals
from roofline_model.core.answer import Estimate, Loss, Memory, Times
from roofline_model.core.finding import Finding
from roofline_model.core.grouping import grouped
from roofline_model.expected.beside_ideal import BESIDE_IDEAL
from roofline_model.formats.catalog import is_narrow_format
from roofline_model.ideal.roofline import error_ratio
from roofline_model.operators.case import Case, case_title, is_meant
from roofline_model.recommend.loss import formats_loss

CaseRecords = tuple[str, Sequence[Record]]
"""Key of a case, and its records."""
MethodHashes = dict[int, str]
"""By the identity of a method: the records, which live as long as this, share few of them."""
ROOF_MARGIN_RATIO = 0.02
"""A time this much below the ideal one is no news: a ceiling is measured, too."""


@dataclass(frozen=True)
class CaseResult:
    """The records of one case on one chip, its processes pooled. SI units; missing is None."""

    case_key: str
    """Sixteen hex digits: the case in every run."""
    records: tuple[Record, ...]
    """All of the case, in the order given: of every process, of attempts that failed, too."""
    pooled: Pooled | None
    """None: nothing was timed."""
    total: TotalInterval | None
    """`interval_total` of the case; its ends are None with one process and no floor. None: nothing was timed."""
    method_hashes: frozenset[str]
    """Of the methods that timed it: one, unless its runs changed it."""

    JSON_KEYS: ClassVar = {
        "case_key": "case_key",
        "case_id": "case.id",
        "record_id": "lead.record_id",
        "title": "title",
        "op": "case.op",
        "shape": "case.shape",
        "formats": "case.formats",
        "precision": "precision",
        "kernel": "case.kernel",
        "cache": "case.cache",
        "mode": "case.mode",
        "hardware": "hardware",
        "status": "lead.status",
        "reason": "remark",
        "measured_s": "measured_s",
        "interval_half_width_ratio": "plus_minus_ratio",
        "is_interval_total": "is_interval_total",
        "interval_within_half_width_ratio": "within_ratio",
        "interval_total_half_width_ratio": "total_ratio",
        "interval_total_low_s": "total.low_s",
        "interval_total_high_s": "total.high_s",
        "interval_total_basis": "total.basis",
        "ideal_s": "ideal_s",
        "error_ideal_ratio": "error_ideal_ratio",
        "expected_s": "expected_s",
        "expected_low_s": "expected.low_s",
        "expected_high_s": "expected.high_s",
        "error_expected_ratio": "error_expected_ratio",
        "bound": "bound",
        "path": "path",
        "flops": "ideal.flops",
        "moved_bytes": "ideal.total_bytes",
        "intensity_flop_per_byte": "intensity_flop_per_byte",
        "achieved_flops_per_s": "achieved_flops_per_s",
        "achieved_bytes_per_s": "achieved_bytes_per_s",
        "peak_flops_per_s": "ideal.peak_flops_per_s",
        "bandwidth_bytes_per_s": "ideal.bandwidth_bytes_per_s",
        "roof_share_ratio": "roof_share_ratio",
        "power_w": "power_w",
        "energy_j": "energy.energy_j",
        "max_error_ratio": "lead.measurement.max_error",
        "tolerance_ratio": "lead.measurement.tolerance",
        "process_count": "process_count",
        "processes": "records",
        "flags": "flags",
        "doubts": "doubts",
        "findings": "findings",
    }
    """Key of answers in JSON → where its value is."""

    @cached_property
    def used(self) -> tuple[Record, ...]:
        """The records whose processes make the pooled time."""
        logs = {} if self.pooled is None else self.pooled.logs
        return tuple(record for record in self.timed if (record.run_id, record.process.ordinal) in logs)

    @cached_property
    def timed(self) -> tuple[Record, ...]:
        """The records that hold a time, used or not."""
        return tuple(record for record in self.records if record.timing is not None)

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """The measurements of `used`."""
        return tuple(record.measurement for record in self.used if record.measurement is not None)

    @cached_property
    def by_record(self) -> tuple[CaseResult, ...]:
        """A result of each record alone: what one process, or one attempt, made of the case."""
        return tuple(
            CaseResult(self.case_key, (record,), pool(sightings((record,))), None, self.method_hashes)
            for record in self.records
        )

    @cached_property
    def by_timed_record(self) -> tuple[CaseResult, ...]:
        """Those of `by_record` that hold a time."""
        return tuple(each for each in self.by_record if each.pooled is not None)

    @cached_property
    def lead(self) -> Record:
        """The record that speaks for the case: the first whose time is used, else the first."""
        return self.used[0] if self.used else self.records[0]

    @property
    def case(self) -> Case:
        """What was run."""
        return self.records[0].case

    @property
    def status(self) -> str:
        """measured where at least one process measured it; else the status of the first record."""
        return self.lead.status

    @property
    def reason(self) -> str:
        """Why it was not measured; empty where it was, or where no reason was stored."""
        return self.lead.reason

    @property
    def title(self) -> str:
        """Operator and sizes in words."""
        return case_title(self.case.op, self.case.shape)

    @property
    def precision(self) -> str:
        """`BF16`, `INT4 (W4A16)`, …"""
        return self.case.precision_label or "no format"

    @property
    def remarks(self) -> tuple[str, ...]:
        """The reasons of what was not measured, and what is strange about the time; flags and the prediction's notes
        are apart.
        """
        reasons = []
        for record in self.records:
            if record.timing is None:
                where = f"process {record.process.ordinal} {record.status}: " if self.timed else ""
                if where or record.reason:
                    reasons.append(f"{where}{stored_reason(record)}")
        return tuple(dict.fromkeys([*reasons, *(["faster than the ideal"] if self.is_faster_than_roof else [])]))

    @property
    def remark(self) -> str | None:
        """Why it was skipped or failed, and what is strange about its time."""
        return "; ".join(self.remarks) or None

    @property
    def hardware(self) -> str | None:
        """Key of the chip the predictions are for."""
        return self.hardware_key or None

    @property
    def bound(self) -> str | None:
        """memory or compute, of the ideal time."""
        return None if self.ideal is None else self.ideal.bound or None

    @property
    def path(self) -> str | None:
        """native, emulated or dequantize."""
        return None if self.ideal is None else self.ideal.path or None

    @property
    def hardware_key(self) -> str:
        """Key of the chip of its prediction; empty without one."""
        return next((each.hardware_key for record in self.records for each in record.predictions), "")

    @cached_property
    def ideal(self) -> PredictionRecord | None:
        """The ideal time's prediction: of `lead`, else the first."""
        return next((record.ideal for record in (self.lead, *self.records) if record.ideal is not None), None)

    @cached_property
    def expected(self) -> PredictionRecord | None:
        """The expected time's prediction: of `lead`, else the first."""
        return next((record.expected for record in (self.lead, *self.records) if record.expected is not None), None)

    @cached_property
    def times(self) -> Times:
        """Ideal, expected with its 80 % interval, and measured with its 95 % interval.

        That is over processes where their spread is known, else inside its processes; the range of the samples where
        one of these has too few for an interval.
        """
        ideal, expected = self.ideal, self.expected
        return Times(
            None if ideal is None else Estimate(ideal.time_s, source="ideal"),
            None
            if expected is None
            else Estimate(expected.time_s, expected.low_s, expected.high_s, "expected", expected.provenance),
            self._measured(),
        )

    @property
    def measured_s(self) -> float | None:
        """Seconds; see `results.cases.pooling`."""
        return None if self.pooled is None else self.pooled.value

    @property
    def ideal_s(self) -> float | None:
        """Seconds of the ideal time."""
        return None if self.ideal is None else self.ideal.time_s

    @property
    def expected_s(self) -> float | None:
        """Seconds of the expected time."""
        return None if self.expected is None else self.expected.time_s

    @property
    def process_count(self) -> int:
        """Processes whose times are used, count."""
        return 0 if self.pooled is None else len(self.pooled.logs)

    @property
    def run_ids(self) -> tuple[str, ...]:
        """Its runs, in the order of their first records."""
        return tuple(dict.fromkeys(record.run_id for record in self.records))

    @cached_property
    def within_ratio(self) -> float | None:
        """± of `interval_within`, as a share of the median: the widest among the processes used."""
        ratios = (record.measurement.ci_half_width_ratio for record in self.used if record.measurement is not None)
        return max((ratio for ratio in ratios if ratio is not None), default=None)

    @property
    def total_ratio(self) -> float | None:
        """± of `interval_total`, as a share of its estimate; None where the noise between processes is unknown."""
        return None if self.total is None else self.total.half_width_ratio

    @property
    def is_interval_total(self) -> bool:
        """Whether `plus_minus_ratio` knows how far fresh processes differ."""
        return self.total_ratio is not None

    @property
    def plus_minus_ratio(self) -> float | None:
        """± of the time: half its 95 % interval over it, the total one where it is known, else within a process."""
        return self.total_ratio if self.total_ratio is not None else self.within_ratio

    @cached_property
    def interval_s(self) -> tuple[float | None, float | None]:
        """Ends of the 95 % interval of the measured time as every table shows it: over processes where their spread is
        known, else inside the processes that have one; None where too few samples allow none.
        """
        if self.total is not None and self.total.low_s is not None:
            return self.total.low_s, self.total.high_s
        used = [record.measurement for record in self.used if record.measurement is not None]
        ends = [(each.ci_low_s, each.ci_high_s) for each in used]
        whole = [(low_s, high_s) for low_s, high_s in ends if low_s is not None and high_s is not None]
        return min((low_s for low_s, _ in whole), default=None), max((high_s for _, high_s in whole), default=None)

    @cached_property
    def flags(self) -> tuple[str, ...]:
        """The flags of the processes used, and what makes it not judgeable: known ones in the order they are explained,
        then any others.
        """
        if self.pooled is None:
            return ()
        carried = dict.fromkeys((*self.pooled.flags, *self.pooled.disturbed_by))
        return (*(key for key in FLAGS if key in carried), *(key for key in carried if key not in FLAGS))

    @property
    def doubts(self) -> tuple[str, ...]:
        """The flags that put its time in doubt."""
        return tuple(flag for flag in self.flags if flag in DOUBTFUL_FLAGS)

    @property
    def is_forced(self) -> bool:
        """Whether it was measured on a machine that is not the predicted chip."""
        return "forced" in self.flags

    @property
    def error_ideal_ratio(self) -> float | None:
        """(ideal − measured) / measured, of the pooled time; as stored with one record."""
        return self._error(self.ideal)

    @property
    def error_expected_ratio(self) -> float | None:
        """(expected − measured) / measured, of the pooled time; as stored with one record."""
        return self._error(self.expected)

    @property
    def roof_share_ratio(self) -> float | None:
        """Share of the roof reached, ideal / measured: above 1 the case beat its roof."""
        return None if self.ideal_s is None or self.measured_s is None else self.ideal_s / self.measured_s

    @property
    def is_faster_than_roof(self) -> bool:
        """Whether the measured time is below the ideal one by more than the interval that is shown.

        What no kernel can do is flagged `above-roof`; the others ran above the rated speed, or on what a cache holds.
        """
        margin = max(self.plus_minus_ratio or 0.0, ROOF_MARGIN_RATIO)
        return self.roof_share_ratio is not None and self.roof_share_ratio > 1 + margin

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Of the ideal time, and what stands beside an expected time that is far from it; each once."""
        ideal = () if self.lead.ideal is None else self.lead.ideal.findings
        expected = () if self.lead.expected is None else self.lead.expected.findings
        return tuple(dict.fromkeys((*ideal, *(item for item in expected if item.code in BESIDE_IDEAL))))

    @property
    def ideal_flops_per_s(self) -> float | None:
        """FLOPs over the ideal time."""
        ideal = self.ideal
        return ideal.flops / ideal.time_s if ideal is not None and ideal.flops and ideal.time_s > 0 else None

    @property
    def expected_flops_per_s(self) -> float | None:
        """FLOPs over the expected time."""
        ideal, time_s = self.ideal, self.expected_s
        return ideal.flops / time_s if ideal is not None and ideal.flops and time_s else None

    @property
    def intensity_flop_per_byte(self) -> float | None:
        """FLOPs over the compulsory bytes."""
        return None if self.ideal is None else self.ideal.intensity_flop_per_byte

    @property
    def achieved_bytes_per_s(self) -> float | None:
        """Compulsory bytes over the pooled time; a kernel that re-reads moves more than this."""
        ideal, time_s = self.ideal, self.measured_s
        return ideal.total_bytes / time_s if ideal is not None and ideal.total_bytes and time_s else None

    @property
    def achieved_flops_per_s(self) -> float | None:
        """FLOPs over the pooled time."""
        ideal, time_s = self.ideal, self.measured_s
        return ideal.flops / time_s if ideal is not None and ideal.flops and time_s else None

    @cached_property
    def energy(self) -> CaseEnergy | None:
        """Of its measurements; None where none was stored."""
        ideal = self.lead.ideal
        return energy_of(self.measurements, ideal.flops if ideal is not None and ideal.flops else None)

    @property
    def state(self) -> CaseState | None:
        """What the sensors say of its measurements; None when nothing is known."""
        return state_of(self.measurements)

    @property
    def power_w(self) -> float | None:
        """Watts while it ran: of the windows of its energy, else the median of the processes used."""
        if self.energy is not None and self.energy.power_w is not None:
            return self.energy.power_w
        powers_w = [measured.power_w for measured in self.measurements if measured.power_w is not None]
        return median(powers_w) if powers_w else None

    @cached_property
    def model(self) -> ModelFigures | None:
        """What its run knows of the whole model that it is a pass of; None for any other case."""
        return model_figures(self.lead)

    @property
    def memory(self) -> Memory | None:
        """The compulsory bytes of a call, of a whole model what it holds; None where nobody knows."""
        if self.model is None:
            return None if self.ideal is None else Memory(self.ideal.total_bytes)
        return None if self.model.whole_bytes is None else Memory(self.model.whole_bytes)

    @property
    def loss(self) -> Loss:
        """The loss that orders what is tied: measured by the run, 0 for the original, else published of the formats."""
        if self.model is None:
            return formats_loss(self.case.formats)
        pct = pass_loss_pct(self.case, self.model)
        if pct is None:
            return Loss("unknown")
        is_measured = self.model.quality_source == "measured" and self.model.loss_pct is not None
        return Loss("measured" if is_measured else "claimed" if pct else "reference", pct)

    def is_meant(self, words: str) -> bool:
        """Return whether each of some words names this case: its operator, its sizes, a part of its id or test."""
        return is_meant(self.case, words.split(), self.lead.test_id)

    def _measured(self) -> Estimate | None:
        if self.pooled is None:
            return None
        time_s, total = self.pooled.value, self.total
        if total is not None and total.low_s is not None and total.high_s is not None:
            return Estimate(time_s, total.low_s, total.high_s, "measured", "", self.plus_minus_ratio)
        used = [record.measurement for record in self.used if record.measurement is not None]
        return Estimate(
            time_s,
            min(each.min_s if each.ci_low_s is None else each.ci_low_s for each in used),
            max(each.max_s if each.ci_high_s is None else each.ci_high_s for each in used),
            "measured",
            "",
            self.plus_minus_ratio,
            is_sample_range=any(each.ci_low_s is None or each.ci_high_s is None for each in used),
        )

    def _error(self, prediction: PredictionRecord | None) -> float | None:
        if prediction is None or self.measured_s is None:
            return None
        stored = prediction.error_ratio if len(self.used) == 1 else None
        return error_ratio(prediction.time_s, self.measured_s) if stored is None else stored


def stored_reason(record: Record) -> str:
    """Return why a case failed or was skipped, or that nobody stored it."""
    return f"{record.reason or 'no reason was stored'}"


def case_results(
    records: Iterable[Record],
    floors: Mapping[FloorKey, NoiseFloor] | None = None,
    *,
    learnt_from: Iterable[Record] | None = None,
) -> tuple[CaseResult, ...]:
    """Return one result per case and chip profile, in the order first met; a record that names no profile joins its
    case.

    `floors`: the machine's A/A floors, as `store.noise_floors(class_hash)` returns them. `learnt_from`: the run that
    the spread of other cases is learnt from, where `records` are some of its cases; None: from `records`.
    """
    groups = by_case(records)
    return pooled_results(groups, floors, learnt_from=None if learnt_from is None else by_case(learnt_from))


def run_cases(
    run: RunInfo, records: Iterable[Record], floors: Mapping[FloorKey, NoiseFloor] | None
) -> tuple[CaseResult, ...]:
    """Return the cases of a run; impossible numbers are left out, and a forced run marks every measurement."""
    return case_results(marked_records(possible_records(records), is_forced=run.is_forced), floors)


def marked_records(records: Iterable[Record], *, is_forced: bool) -> tuple[Record, ...]:
    """Return the records; of a forced run every measurement carries that flag."""
    return tuple(_forced(record) if is_forced else record for record in records)


def _forced(record: Record) -> Record:
    measurement = record.measurement
    if record.status != "measured" or measurement is None or "forced" in measurement.flags:
        return record
    return replace(record, measurement=replace(measurement, flags=(*measurement.flags, "forced")))


def pooled_results(
    groups: Sequence[CaseRecords],
    floors: Mapping[FloorKey, NoiseFloor] | None = None,
    *,
    learnt_from: Sequence[CaseRecords] | None = None,
) -> tuple[CaseResult, ...]:
    """Return the result of each case, given as its key and its records; else as `case_results`."""
    hashes: MethodHashes = {}
    cases = [pooled_case(key, members, hashes) for key, members in groups]
    learnt = cases if learnt_from is None else [pooled_case(key, members, hashes) for key, members in learnt_from]
    run = None if learnt_from is None else _keyed(learnt, hashes)
    totals = iter(intervals(_keyed(cases, hashes), floors, learnt_from=run))
    return tuple(case if case.pooled is None else replace(case, total=next(totals)) for case in cases)


def pooled_case(case_key: str, records: Sequence[Record], hashes: MethodHashes) -> CaseResult:
    """Return the result of a case without its interval. `hashes` is filled with the methods met: hashing one's
    canonical JSON is much of the work of a long run.
    """
    methods = {
        _method_hash(record, hashes) for record in records if record.method is not None and record.timing is not None
    }
    return CaseResult(case_key, tuple(records), pool(sightings(records)), None, frozenset(methods))


def by_case(records: Iterable[Record]) -> list[CaseRecords]:
    """Return the records of each case and chip profile, in the order first met."""
    keys: dict[Case, str] = {}  # hashing a case's canonical JSON is most of the work of a long run
    profiles: dict[str, str] = {}
    named = []
    for record in records:
        key = keys.get(record.case) or keys.setdefault(record.case, record.case.case_key)
        profile = "" if record.ideal is None else record.ideal.profile_hash
        named.append((key, profile, record))
        if profile:
            profiles[key] = profile
    # A process that failed before its prediction belongs to its case.
    groups = grouped(named, lambda entry: (entry[0], entry[1] or profiles.get(entry[0], "")))
    return [(key, [record for _, _, record in members]) for (key, _), members in groups.items()]


def pass_loss_pct(case: Case, figures: ModelFigures) -> float | None:
    """Return the loss of a whole model in percent: as its run measured it, 0 for the original, else what was published
    of its formats; None where nobody knows, as of a plan or a narrow cache.
    """
    if figures.quality_source == "measured" and (measured_pct := figures.loss_pct) is not None:
        return measured_pct
    weight = dict(case.formats).get("b", "")
    is_narrow_cache = is_narrow_format(figures.kv_format or "BF16")
    is_plan = figures.precision == "plan"
    if figures.quality_source == "reference" or not (is_narrow_format(weight) or is_narrow_cache or is_plan):
        return 0.0
    return (
        None
        if is_plan or is_narrow_cache or figures.is_untrained
        else formats_loss(case.formats, figures.model_name).pct
    )


def _keyed(cases: Sequence[CaseResult], hashes: MethodHashes) -> list[tuple[FloorKey, Pooled]]:
    """Return what was timed, by case and method: of two methods of a case the first."""
    return [
        ((case.case_key, _method_hash(case.timed[0], hashes)), case.pooled) for case in cases if case.pooled is not None
    ]


def _method_hash(record: Record, hashes: MethodHashes) -> str:
    method = record.method
    if method is None:
        return ""
    if id(method) not in hashes:
        hashes[id(method)] = method.method_hash
    return hashes[id(method)]
