"""One kernel predicted on one chip: its ideal roofline, the expected time beside it, and what both gain over 16 bit."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from roofline_model.chips.hardware import Device, doubt_of_ideals, doubts_of
from roofline_model.core.answer import Exclusion
from roofline_model.core.errors import InvalidValueError, UnsupportedError
from roofline_model.core.finding import Finding, finding, finding_of
from roofline_model.expected.prediction import ExpectedPrediction
from roofline_model.formats.catalog import Pair, format_pair, get_format, known_format, pair_label
from roofline_model.ideal.limits import limit_s, limit_speed
from roofline_model.ideal.roofline import Prediction
from roofline_model.models.decoder_step import StepKernel
from roofline_model.models.step_expected import KernelExpectation
from roofline_model.operators.product import Operator
from roofline_model.recommend.options import baseline_format

WIDE_BITS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelAnswer(Prediction):
    """The ideal roofline of one kernel, with the expected time beside it. `time_s` is the speed of light."""

    hardware_name: str
    """Name of the chip."""
    is_placeholder: bool
    """Whether the chip's numbers are invented, for examples only."""
    op: str
    """gemv (a product with M up to 16), gemm or attention."""
    format: str
    """The pair of formats: `INT4.BF16`, weight or cache first; `FP8_E4M3` for both."""
    activation_format: str
    """Format key of the activation: A of a product, Q of attention."""
    output_format: str
    """Format key of the output: C of a product, O of attention."""
    expected: ExpectedPrediction | None
    """What a good kernel takes; null with a reason where no model is known."""
    expected_reason: Finding | None
    """Why no expected time is known; null where one is."""
    baseline_format: str | None
    """16-bit format that the speed-ups refer to; null where the chip has none."""
    speedup_ratio: float | None
    """Ideal time of the baseline over time_s; null without a baseline."""
    expected_speedup_ratio: float | None
    """Expected time of the baseline over that of `expected`; null where either is not known."""
    kernel_gap: Finding | None
    """Why no kernel is known to run these formats on this chip, though its numbers allow them; null where none is known
    to be missing."""
    engine_gap: Finding | None
    """That no serving engine has a kernel for it on this chip, though a library (torch) may; null where one has."""


_IDEAL = tuple(field.name for field in fields(Prediction))


def ideal_values(ideal: Prediction, chip: Device) -> dict[str, Any]:
    """Return the fields of an ideal prediction for a `KernelAnswer`, with what a busy calibration leaves open of
    them.
    """
    values = {name: getattr(ideal, name) for name in _IDEAL}
    doubt = doubt_of_ideals(chip)
    if doubt is not None:
        values["findings"] = (*ideal.findings, doubt)
    return {**values, "hardware_name": chip.name, "is_placeholder": chip.is_placeholder}


def operand_formats(work: Operator) -> dict[str, Any]:
    """Return activation and output format of a product or of attention, as a `KernelAnswer` names them."""
    formats = dict(work.formats)
    return {
        "activation_format": formats["a" if "a" in formats else "q"],
        "output_format": formats["c" if "c" in formats else "o"],
    }


def judge_time(row: KernelAnswer, own_s: float, chip: Device) -> Finding:
    """Return how a time that somebody measured stands to the prediction: seconds of one call, the same shape and
    formats.

    Code: `own-time-impossible` below what the chip allows (`limit_s`), `own-time-faster`, `-good` or `-slower` by the
    80 % interval of the expected time, `own-time-alone` where there is none or no kernel is known. Below the ideal
    time, which is at rated clock and bandwidth, the last four carry it.
    Raises `InvalidValueError` unless it is a time above 0.
    """
    if not 0 < own_s < math.inf:
        raise InvalidValueError(f"the measured time must be above 0, got {own_s:g} s")
    least_s = limit_s(row, chip)
    if own_s < least_s:
        clock_hz, bandwidth_bytes_per_s = limit_speed(row, chip)
        return finding(
            "own-time-impossible",
            own_s=own_s,
            limit_s=least_s,
            hardware=chip.key,
            clock_hz=clock_hz,
            bandwidth_bytes_per_s=bandwidth_bytes_per_s,
            ideal_s=row.time_s,
        )
    # where no kernel is known, the expected time is of one that somebody would have to write
    expected = row.expected if row.kernel_gap is None else None
    rated_s = row.time_s if own_s < row.time_s else None
    if expected is None:
        share = row.time_s / own_s
        return finding("own-time-alone", own_s=own_s, ideal_s=row.time_s, share_ratio=share, rated_s=rated_s)
    place = "slower" if own_s > expected.high_s else "faster" if own_s < expected.low_s else "good"
    return finding(
        f"own-time-{place}",
        own_s=own_s,
        time_s=expected.time_s,
        low_s=expected.low_s,
        high_s=expected.high_s,
        speedup_ratio=own_s / expected.time_s if place == "slower" else None,
        rated_s=rated_s,
    )


def ratio(baseline_s: float | None, time_s: float | None) -> float | None:
    """Return the baseline's time over another; None where either is not known."""
    return None if baseline_s is None or time_s is None else baseline_s / time_s


@dataclass(frozen=True, slots=True)
class KernelTimes:
    """One kernel of several that run one after the other, ideal and expected."""

    DERIVED: ClassVar = ("time_s", "expected_s")

    name: str
    """Its name in the sequence: `gate_proj`, …"""
    op: str
    """gemv, gemm, attention, rms_norm, …"""
    shape: tuple[tuple[str, int], ...]
    """Dimension → size, count."""
    formats: tuple[tuple[str, str], ...]
    """Operand → format key."""
    calls_count: float
    """Calls of a pass, count."""
    ideal: Prediction
    """The ideal roofline of one call."""
    expected: KernelExpectation | None
    """The expected time of one call; null where it has none."""

    @classmethod
    def of(cls, kernel: StepKernel, ideal: Prediction, expected: KernelExpectation | None) -> KernelTimes:
        """Return a kernel with what is predicted of it."""
        work = kernel.work
        return cls(kernel.name, work.op, work.shape, work.formats, kernel.calls_count, ideal, expected)

    @property
    def time_s(self) -> float:
        """Ideal time of all calls, seconds."""
        return self.calls_count * self.ideal.time_s

    @property
    def expected_s(self) -> float | None:
        """Expected time of all calls, seconds; null where it has none."""
        return None if self.expected is None else self.calls_count * self.expected.time_s


@dataclass(frozen=True, slots=True)
class Baseline:
    """The same work in the 16-bit format that speed-ups refer to; None where it is not known."""

    format: str | None
    time_s: float | None = None
    expected_s: float | None = None


Row = TypeVar("Row")


class TimedRow(Protocol):
    """A row of a `PredictionTable` of one kernel or block."""

    @property
    def time_s(self) -> float:
        """Ideal time, seconds."""

    @property
    def expected(self) -> Any:
        """What good kernels take, or None."""

    @property
    def kernel_gap(self) -> Finding | None:
        """Why no kernel is known, or None."""


Timed = TypeVar("Timed", bound=TimedRow)


def fastest(rows: Sequence[Timed]) -> Timed:
    """Return the row that takes least: by its expected time where any row has one, else by its ideal one.

    Formats that no kernel is known to run take part only where there are no others.
    """
    runnable = [row for row in rows if row.kernel_gap is None] or rows
    expected = [row for row in runnable if row.expected is not None]
    return min(expected or runnable, key=lambda row: row.expected.time_s if expected else row.time_s)


@dataclass(frozen=True, slots=True)
class PredictionTable(Generic[Row]):
    """One question in several pairs of formats on one chip."""

    predictions: tuple[Row, ...]
    """One per pair of formats, in the order asked for."""
    excluded: tuple[Exclusion, ...]
    """Default formats that the chip cannot compute in."""
    findings: tuple[Finding, ...]
    """What a calibration on a busy machine leaves open of every time."""


def predicted_table(
    chip: Device,
    pairs: Iterable[Pair],
    predict_pair: Callable[[Pair], Row],
    *,
    excluded: Sequence[Exclusion] = (),
    is_asked: bool,
) -> PredictionTable[Row]:
    """Predict every pair of formats; `is_asked`: they were named by the caller, not by a default.

    A default pair that the chip cannot compute in joins the `excluded`; one that was asked for raises
    `UnsupportedError`, and so does a table without rows.
    """
    predictions: list[Row] = []
    missing = list(excluded)
    for pair in dict.fromkeys(pairs):
        try:
            predictions.append(predict_pair(pair))
        except UnsupportedError as error:
            if is_asked:
                raise
            missing.append(Exclusion(pair_label(pair), (finding_of(error),)))
        except InvalidValueError as error:
            if not is_asked:
                raise
            raise InvalidValueError(f"formats {pair_label(pair)}: {error}") from None
    if not predictions:
        declared = ", ".join(sorted(chip.paths)) or "none"
        raise UnsupportedError(
            f"{chip.key} declares none of the default formats. Declared: {declared}; name the formats to predict"
        )
    return PredictionTable(tuple(predictions), tuple(missing), tuple(doubts_of(chip)))


def asked_pairs(chip: Device, names: Iterable[str]) -> list[Pair]:
    """Return the pairs of names as they were typed, each once: `INT8` (both operands) or `INT4.BF16`.

    One narrow format alone that the chip's file does not declare is of the weight (or cache) only, under the chip's
    16-bit format: nothing there multiplies it, and an activation would be quantised only to be widened again. So is one
    that is of the weight only, where the chip has no BF16.
    """
    pairs = []
    for name in names:
        fmt, activation = format_pair(name)
        lacks = not chip.declares(fmt.key) or (activation != fmt and not chip.declares(activation.key))
        is_weight = known_format(name) is not None and fmt.element_bits < WIDE_BITS and lacks
        wide = baseline_format(chip) if is_weight else None
        pairs.append((fmt, activation if wide is None else get_format(wide)))
    return list(dict.fromkeys(pairs))


def undeclared(chip: Device, key: str) -> Exclusion:
    """Return why a default format is not predicted: the chip's file has neither a rate nor a path for it."""
    return Exclusion(key, (finding("rate-not-declared", key, kind="format", hardware=chip.key),))
