"""What the tables of all `roofline predict` commands share: the formats to show, numbered notes, and the last line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from roofline_cli.screen.tables import show_line
from roofline_model.core.finding import Finding, finding, findings_json, short_text

if TYPE_CHECKING:
    from roofline_model.chips.hardware import Device
    from roofline_model.core.errors import UnsupportedError
    from roofline_model.expected.prediction import ExpectedPrediction
    from roofline_model.ideal.operator_sequence import SequencePrediction
    from roofline_model.ideal.roofline import Prediction
    from roofline_model.models.step_expected import ExpectedSequence


def baseline_format(hardware: Device) -> str | None:
    """Return the 16-bit format that speed-ups refer to, the one of recommendations; None where the chip declares none."""
    from roofline_model.recommend.options import baseline_format

    return baseline_format(hardware)


def show_doubts(hardware: Device) -> None:
    """Print what a calibration on a busy machine leaves open of every time above."""
    from roofline_model.chips.hardware import doubts_of

    for doubt in doubts_of(hardware):
        show_line(f"  note: {short_text(doubt)}")


def declares_all(hardware: Device, *formats: str) -> bool:
    """Return True when the chip's file has a rate or a path for every one of these formats."""
    return all(hardware.declares(name) for name in formats)


def no_default_format(hardware: Device) -> UnsupportedError:
    """Return the error for a chip that can compute none of the formats shown by default."""
    from roofline_model.core.errors import UnsupportedError

    declared = ", ".join(sorted(hardware.paths)) or "none"
    return UnsupportedError(
        f"{hardware.key} declares none of the default formats. Declared: {declared}; name some with --formats"
    )


def note_numbers(own: Iterable[Finding], notes: list[str]) -> str:
    """Return the numbers of a row's findings, `[1] [3]`, appending the lines that `notes` does not hold yet."""
    from roofline_model.core.finding import short_text

    texts = list(map(short_text, own))
    notes += [text for text in dict.fromkeys(texts) if text not in notes]
    return " ".join(f"[{notes.index(text) + 1}]" for text in texts)


def print_notes(notes: list[str], left_out: tuple[tuple[str, str], ...]) -> None:
    """Print the numbered notes, then each format that was left out with its reason."""
    for number, note in enumerate(notes, 1):
        show_line(f"  [{number}] {note}")
    for label, reason in left_out:
        show_line(f"  left out: {label}: {reason}")


def provenance_sentence(weakest: str, hardware: Device, asked: str) -> str:
    """Say where the chip's numbers come from, in words a reader can act on."""
    if weakest == "placeholder":
        return f"The numbers of {hardware.key} are placeholders, for examples only."
    return f"The weakest number used is {weakest}: `roofline hardware show {asked}` lists every source."


@dataclass(frozen=True, slots=True)
class TimeColumns:
    """Ideal, expected and further times of a table with the intervals, all in one unit so that they read side by side."""

    ideal: list[str]
    expected: list[str]
    intervals: list[str]
    """`55.10–70.20`, in the unit of the expected time beside it; `–` where there is none."""
    others: list[str]


def time_columns(
    ideal: Sequence[Prediction | SequencePrediction],
    expected: Sequence[ExpectedPrediction | ExpectedSequence | None],
    others: Sequence[float | None] = (),
) -> TimeColumns:
    """Print the times of a table: one entry per row, in a unit that suits ideal and expected."""
    from roofline_cli.screen.tables import MISSING, in_prefix, shared_prefix

    floors = [one.time_s for one in ideal]
    known = [time for one in expected if one is not None for time in (one.time_s, one.low_s, one.high_s)]
    prefix = shared_prefix(floors, known)
    likely = [in_prefix(one.time_s, prefix) if one else MISSING for one in expected]
    intervals = [
        interval_text(one.low_s, one.high_s, prefix, beside) if one else MISSING
        for one, beside in zip(expected, likely, strict=True)
    ]
    return TimeColumns(
        [in_prefix(time, prefix) for time in floors], likely, intervals, [in_prefix(time, prefix) for time in others]
    )


def interval_text(low_s: float, high_s: float, prefix: str | None, beside: str) -> str:
    """Return `55.10–70.20`, without the unit where the time `beside` it has the same."""
    from roofline_cli.screen.tables import in_prefix

    low, high = in_prefix(low_s, prefix), in_prefix(high_s, prefix)
    is_shared = len({text.split()[-1] for text in (low, high, beside)}) == 1
    return f"{low.split()[0]}–{high.split()[0]}" if is_shared else f"{low}–{high}"


@dataclass(frozen=True, slots=True)
class Gains:
    """Speed-ups over the 16-bit baseline: expected against expected, and ideal against ideal where a row lacks either."""

    header: str
    """Heading of the column, which says which it is."""
    values: list[str]
    """`1.7x`; `2.0x (ideal)` for an ideal gain below an expected heading."""
    ideal_header: str
    ideal: list[str]
    """The ideal gains beside expected ones; `–` throughout where `values` are the ideal ones."""


def standing_sentence(rows: Sequence[tuple[str, str, str]]) -> str:
    """Say which kernel the expected times of weight-only formats are of; `rows`: weight, activation, provenance of the time."""
    from roofline_model.expected.products.parameters import reference_kernel

    kernel = next(filter(None, (reference_kernel(*row) for row in rows)), "")
    options = tuple(
        dict.fromkeys(weight for weight, activation, origin in rows if reference_kernel(weight, activation, origin))
    )
    line = short_text(finding("reference-kernel-of-options", options=options, kernel=kernel))
    return f"{line[0].upper()}{line[1:]}." if kernel else ""


def gains(baseline: str | None, ideal: Sequence[float | None], expected: Sequence[float | None]) -> Gains:
    """Return the speed-up columns of a predict table."""
    from roofline_cli.screen.tables import MISSING, speedup

    name = baseline or "16-bit"
    is_expected = any(ratio is not None for ratio in expected)
    floors = [speedup(ratio) for ratio in ideal]
    if not is_expected:
        return Gains(f"ideal vs {name}", floors, f"ideal vs {name}", [MISSING] * len(floors))
    shown = [f"{floor} (ideal)" if one is None else speedup(one) for floor, one in zip(floors, expected, strict=True)]
    return Gains(f"exp. vs {name}", shown, f"ideal vs {name}", floors)


def over_expected(
    baseline: ExpectedPrediction | ExpectedSequence | None, one: ExpectedPrediction | ExpectedSequence | None
) -> float | None:
    """Return the baseline's expected time over this one; None where either is not known."""
    return None if baseline is None or one is None else baseline.time_s / one.time_s


def expected_json(expected: ExpectedPrediction | ExpectedSequence | None, reason: str) -> dict[str, Any]:
    """Return the expected time with its interval, binding term and provenance; null with a reason where there is none."""
    if expected is None:
        return {"expected_s": None, "expected_reason": reason}
    return {
        "expected_s": expected.time_s,
        "expected_low_s": expected.low_s,
        "expected_high_s": expected.high_s,
        "expected_binding": expected.binding,
        "expected_parts": [{"name": name, "time_s": time_s} for name, time_s in expected.parts],
        "expected_provenance": expected.provenance,
        "expected_version": expected.model_version,
        "expected_findings": findings_json(expected.findings),
    }


def timing_json(
    found: Prediction | SequencePrediction, speedup_ratio: float | None, expected_speedup_ratio: float | None
) -> dict[str, Any]:
    """Return what every prediction has, one kernel or several; every key ends in its unit."""
    return {
        "time_s": found.time_s,
        "memory_time_s": found.memory_time_s,
        "compute_time_s": found.compute_time_s,
        "intensity_flop_per_byte": found.intensity_flop_per_byte,
        "critical_intensity_flop_per_byte": found.critical_intensity_flop_per_byte,
        "speedup_ratio": speedup_ratio,
        "expected_speedup_ratio": expected_speedup_ratio,
        "bound": found.bound,
        "path": found.path,
        "flops": found.flops,
        "rate_flops_per_s": found.rate_flops_per_s,
        "read_bytes": found.read_bytes,
        "write_bytes": found.write_bytes,
        "provenance": found.provenance,
        "findings": findings_json(found.findings),
    }
