"""What the tables of all `roofline predict` commands share: the formats to show, numbered notes, and the last line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofline_cli.screen import show_line

if TYPE_CHECKING:
    from roofline_model.decoder.step_expected import ExpectedSequence
    from roofline_model.errors import UnsupportedError
    from roofline_model.expected.predict import ExpectedPrediction
    from roofline_model.hardware import Device
    from roofline_model.ops.operator_sequence import SequencePrediction
    from roofline_model.roofline import Prediction


def baseline_format(hardware: Device) -> str | None:
    """Return the 16-bit format that speed-ups refer to: FP16 as in the seeds, BF16 where only that exists, else None."""
    return next((name for name in ("FP16", "BF16") if hardware.declares(name)), None)


def declares_all(hardware: Device, *formats: str) -> bool:
    """Return True when the chip's file has a rate or a path for every one of these formats."""
    return all(hardware.declares(name) for name in formats)


def no_default_format(hardware: Device) -> UnsupportedError:
    """Return the error for a chip that can compute none of the formats shown by default."""
    from roofline_model.errors import UnsupportedError

    declared = ", ".join(sorted(hardware.paths)) or "none"
    return UnsupportedError(
        f"{hardware.key} declares none of the default formats. Declared: {declared}; name some with --formats"
    )


def note_numbers(own: tuple[str, ...], notes: list[str]) -> str:
    """Return the numbers of a row's notes, `[1] [3]`, appending those that `notes` does not hold yet."""
    for note in own:
        if note not in notes:
            notes.append(note)
    return " ".join(f"[{notes.index(note) + 1}]" for note in own)


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


def expected_interval(expected: ExpectedPrediction | ExpectedSequence | None) -> str:
    """Print the 80 % interval of an expected time in one unit, `55.10–70.20 µs`; missing → `–`."""
    from roofline_cli.numbers import MISSING, common_time

    if expected is None:
        return MISSING
    low, high = common_time([expected.low_s, expected.high_s])
    return f"{low.split()[0]}–{high}" if low.split()[-1] == high.split()[-1] else f"{low}–{high}"


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
        "expected_notes": list(expected.notes),
    }


def timing_json(found: Prediction | SequencePrediction, speedup_ratio: float | None) -> dict[str, Any]:
    """Return what every prediction has, one kernel or several; every key ends in its unit."""
    return {
        "time_s": found.time_s,
        "memory_time_s": found.memory_time_s,
        "compute_time_s": found.compute_time_s,
        "intensity_flop_per_byte": found.intensity_flop_per_byte,
        "critical_intensity_flop_per_byte": found.critical_intensity_flop_per_byte,
        "speedup_ratio": speedup_ratio,
        "bound": found.bound,
        "path": found.path,
        "flops": found.flops,
        "rate_flops_per_s": found.rate_flops_per_s,
        "read_bytes": found.read_bytes,
        "write_bytes": found.write_bytes,
        "provenance": found.provenance,
        "notes": list(found.notes),
    }
