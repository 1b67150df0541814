"""One row per stored record: the measured and the predicted time side by side, and what follows from the two."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from reports.present.display_text import shown
from results.records.records import PredictionRecord, Record
from roofline_model.core.answer import Option
from roofline_model.core.errors import RooflineError
from roofline_model.core.finding import Finding
from roofline_model.expected.beside_ideal import BESIDE_IDEAL
from roofline_model.formats.catalog import get_format
from roofline_model.ideal.roofline import error_ratio
from roofline_model.operators.case import Case, case_title, is_model_case, op_title

_CACHE_RANKS = ("cold", "flushed", "none", "warm")
_MODE_RANKS = ("eager", "graph", "sustained", "burst")
"""Cache states and modes, those that judge a run first: cases of two regimes answer two questions and are never
compared.
"""


@dataclass(frozen=True, slots=True)
class CaseRow:
    """What a record says, ready for a table. SI units; missing is None."""

    record_id: str
    case_key: str
    case_id: str
    op: str
    shape_label: str
    precision: str
    """Weight format with its widths: `BF16`, `INT8` (both operands), `INT4 (W4A16)` (weight only)."""
    weight_format: str
    activation_format: str
    kernel: str
    cache: str
    mode: str
    process: int
    status: str
    reason: str
    hardware_key: str
    profile_hash: str
    measured_s: float | None
    """Median; None unless the case was timed and correct."""
    interval_ratio: float | None
    """± half-width of the median's 95 % interval, as a share of the median."""
    ideal_s: float | None
    error_ratio: float | None
    """(ideal − measured) / measured; negative: the prediction was too fast."""
    expected_s: float | None
    expected_error_ratio: float | None
    achieved_bytes_per_s: float | None
    """Compulsory bytes over the measured time; a kernel that re-reads moves more than this."""
    achieved_flops_per_s: float | None
    ideal_flops_per_s: float | None
    roof_share_ratio: float | None
    """ideal / measured: 1 is the roof itself; above 1 the case beat its roof."""
    intensity_flop_per_byte: float | None
    bandwidth_bytes_per_s: float | None
    peak_flops_per_s: float | None
    bound: str
    path: str
    compute_format: str
    memory_level: str
    provenance: str
    power_w: float | None
    energy_j: float | None
    max_error: float | None
    tolerance: float | None
    flags: tuple[str, ...]
    findings: tuple[Finding, ...]
    record: Record
    """Where it comes from; the measurement of a forced run carries that flag."""

    @property
    def label(self) -> str:
        """What people call the configuration: `INT4 (W4A16) · tinygemm`."""
        return case_label(self.record.case)

    @property
    def is_model(self) -> bool:
        """Whether it is a pass of a whole model."""
        return is_model_case(self.record.case)

    @property
    def op_title(self) -> str:
        """The operator in words: `gemv`, `seeded-llama-156m decode`."""
        return shown(op_title(self.record.case), 80)

    @property
    def title(self) -> str:
        """Operator and sizes in words: `gemv 1x4096x4096`, `seeded-llama-156m, decode, batch 1, 128 tokens`."""
        return shown(case_title(self.record.case.op, self.record.case.shape), 140)

    @property
    def name(self) -> str:
        """What a table calls the case: its id; of a whole model its title and precision."""
        return f"{self.title}: {self.label}" if self.is_model else self.case_id

    @property
    def is_forced(self) -> bool:
        """True when it was measured on a machine that is not the predicted chip."""
        return "forced" in self.flags


def case_precision(case: Case) -> str:
    """Return what people call the formats of a case, fit to be shown: `INT4 (W4A16)`, `no format`."""
    return shown(case.precision_label or "no format", 60)


def case_label(case: Case) -> str:
    """Return what people call a configuration, fit to be shown: `INT4 (W4A16) · tinygemm`."""
    return shown(case.configuration_label, 120)


def option_precision(option: Option) -> str:
    """Return what people call the formats of an option of `ShapeVerdict`, fit to be shown: `INT4 (W4A16)`, `no
    format`.
    """
    return shown(option.precision or "no format", 60)


def option_label(option: Option) -> str:
    """Return what people call an option of `ShapeVerdict`, fit to be shown: `INT4 (W4A16) · tinygemm`."""
    return shown(option.label, 120)


def case_rows(records: Iterable[Record]) -> tuple[CaseRow, ...]:
    """Return one row per record, in the order given."""
    return tuple(map(_row, records))


def marked_records(records: Iterable[Record], *, is_forced: bool) -> tuple[Record, ...]:
    """Return the records; of a forced run every measurement carries that flag."""
    return tuple(_forced(record) if is_forced else record for record in records)


def _forced(record: Record) -> Record:
    measurement = record.measurement
    if record.status != "measured" or measurement is None or "forced" in measurement.flags:
        return record
    return replace(record, measurement=replace(measurement, flags=(*measurement.flags, "forced")))


def _row(record: Record) -> CaseRow:
    case, ideal, expected = record.case, record.ideal, record.expected
    measurement = record.measurement if record.status == "measured" else None
    measured_s = measurement.median_s if measurement is not None and measurement.median_s > 0 else None
    formats = dict(case.formats)
    return CaseRow(
        record_id=record.record_id,
        case_key=case.case_key,
        case_id=shown(case.id, 160),
        op=shown(case.op, 60),
        shape_label=shown(case.shape_label, 60),
        precision=case_precision(case),
        weight_format=formats.get("b", ""),
        activation_format=formats.get("a", ""),
        kernel=shown(case.kernel, 60),
        cache=case.cache,
        mode=shown(case.mode, 30),
        process=record.process.ordinal,
        status=record.status,
        reason=shown(record.reason),
        hardware_key=ideal.hardware_key if ideal else "",
        profile_hash=ideal.profile_hash if ideal else "",
        measured_s=measured_s,
        interval_ratio=measurement.ci_half_width_ratio if measurement is not None else None,
        ideal_s=ideal.time_s if ideal else None,
        error_ratio=_error(ideal, measured_s),
        expected_s=expected.time_s if expected else None,
        expected_error_ratio=_error(expected, measured_s),
        achieved_bytes_per_s=ideal.total_bytes / measured_s if ideal and measured_s and ideal.total_bytes else None,
        achieved_flops_per_s=ideal.flops / measured_s if ideal and measured_s and ideal.flops else None,
        ideal_flops_per_s=ideal.flops / ideal.time_s if ideal and ideal.flops and ideal.time_s > 0 else None,
        roof_share_ratio=ideal.time_s / measured_s if ideal and measured_s else None,
        intensity_flop_per_byte=ideal.intensity_flop_per_byte if ideal else None,
        bandwidth_bytes_per_s=ideal.bandwidth_bytes_per_s if ideal else None,
        peak_flops_per_s=ideal.peak_flops_per_s if ideal else None,
        bound=shown(ideal.bound, 30) if ideal else "",
        path=shown(ideal.path, 30) if ideal else "",
        compute_format=shown(ideal.compute_format, 60) if ideal else "",
        memory_level=shown(ideal.memory_level, 60) if ideal else "",
        provenance=shown(ideal.provenance, 60) if ideal else "",
        power_w=measurement.power_w if measurement is not None else None,
        energy_j=measurement.energy_j if measurement is not None else None,
        max_error=measurement.max_error if measurement is not None else None,
        tolerance=measurement.tolerance if measurement is not None else None,
        flags=tuple(shown(flag, 60) for flag in measurement.flags) if measurement is not None else (),
        findings=(*(ideal.findings if ideal else ()), *_beside_ideal(expected)),
        record=record,
    )


def _beside_ideal(expected: PredictionRecord | None) -> tuple[Finding, ...]:
    """Return what stands beside an expected time that is far from the ideal one: the rest of its findings is of the
    model.
    """
    return () if expected is None else tuple(item for item in expected.findings if item.code in BESIDE_IDEAL)


def _error(prediction, measured_s: float | None) -> float | None:
    """Return the stored error; computed only for records written before it was kept."""
    if prediction is None or measured_s is None:
        return None
    stored = prediction.error_ratio
    return stored if stored is not None else error_ratio(prediction.time_s, measured_s)


_SIXTEEN_BITS_BYTES = 2.0


def weight_saved_ratio(record: Record | None, weight_format: str) -> float | None:
    """Return the saved share of the 16-bit weight bytes; negative where they grow, None where the format is not known.

    Of a product whose case says its bytes: those of its weight, group scales and zero points as the kernel holds them
    (INT4 with a BF16 pair per group of 32 or 128, say). Else the bytes that `weight_format` moves per element. Without
    unit.
    """
    held_bytes = _weight_bytes(record) if record is not None else None
    if held_bytes is not None and record is not None:
        shape = dict(record.case.shape)
        return 1 - held_bytes / (shape["N"] * shape["K"] * _SIXTEEN_BITS_BYTES)
    try:
        return 1 - get_format(weight_format).traffic_bytes_per_element / _SIXTEEN_BITS_BYTES if weight_format else None
    except RooflineError:  # a user's format that this process has not loaded
        return None


def saved_ratio(option: Option) -> float | None:
    """Return the saved share of an option's 16-bit weight bytes; by its format alone where nothing is known of its
    memory.
    """
    return weight_saved_ratio(None, option.weight_format) if option.memory is None else option.memory.saved_ratio


def _weight_bytes(record: Record) -> float | None:
    """Return what a product reads beyond its activations; an intermediate that is written is read once more, no
    weight.
    """
    shape, formats, ideal = dict(record.case.shape), dict(record.case.formats), record.ideal
    if ideal is None or set(shape) != {"M", "N", "K"} or not {"a", "b", "c"} <= set(formats):
        return None
    try:
        a, c = get_format(formats["a"]), get_format(formats["c"])
    except RooflineError:
        return None
    activation_bytes = shape["M"] * shape["K"] * a.traffic_bytes_per_element
    intermediate_bytes = ideal.write_bytes - shape["M"] * shape["N"] * c.traffic_bytes_per_element
    held_bytes = ideal.read_bytes - activation_bytes - max(0.0, intermediate_bytes)
    return held_bytes if held_bytes > 0 and shape["N"] * shape["K"] else None


def regime_rank(cache: str, mode: str) -> tuple[int, int]:
    """Return the place of a regime: the first judges a run, because a model's weights rarely stay in cache."""
    modes = _MODE_RANKS.index(mode) if mode in _MODE_RANKS else len(_MODE_RANKS)
    return modes, _CACHE_RANKS.index(cache) if cache in _CACHE_RANKS else len(_CACHE_RANKS)
