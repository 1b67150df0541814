"""A prediction in words, as the explorer shows it: its time, what binds it, what to know of it, and which of several
chips is the fastest. Nothing here predicts or ranks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import log10
from typing import TYPE_CHECKING

from reports.present.display_text import prefixed
from roofline_model.core.finding import short_text
from roofline_model.core.units import format_percent, format_speedup, format_time, sentence
from roofline_model.expected.prediction import ExpectedPrediction
from roofline_model.predictions.attention import AttentionPrediction
from roofline_model.predictions.model import PassPrediction
from roofline_model.predictions.product import ProductPrediction

if TYPE_CHECKING:
    from reports.api.explorer.questions import ChipAnswer
    from reports.present.predicted.row import Row

PROVENANCES = {
    "fitted": "constants fitted to measurements of this chip",
    "transferred-sibling": "constants of a sibling chip, not yet measured on this one",
    "transferred-family": "constants of a related chip, wide interval",
    "transferred-class": "constants of another class of chip, wide interval",
    "transferred-format": "constants of another format on this chip",
    "measured-here": "calibrated on this machine",
}
KINDS = {
    "bytes": ("dram", "l2", "sm"),
    "arithmetic": ("tensor",),
    "conversion": ("dequantize", "widen_kv", "cast"),
    "overhead": ("launch", "latency", "serial", "waves", "split", "append"),
}
"""Kind of work → the parts of an expected time that are of it."""
NARROWER = {ProductPrediction: "weight", AttentionPrediction: "cache", PassPrediction: "weight or cache"}
"""What is predicted → what of it can be narrower."""
WIDENED_CODES = frozenset({"operands-widened", "no-native-unit", "rate-not-declared"})
"""Findings that say that operands are widened before the product."""
LEAST_SAID_RATIO = 0.25
"""Share of launch and waiting from which on it is said."""


def why(row: Row) -> str:
    """Return which roof an ideal time is of, and what would help."""
    return f"{_roof(row)} {_binding(row)}"


def largest_part(row: Row) -> str:
    """Return the longest part of an expected time; empty where no parts are known."""
    largest = max(row.parts_s, key=row.parts_s.__getitem__, default="")
    return f"largest part: {'DRAM' if largest == 'dram' else largest}" if largest else ""


def headline(row: Row, *, is_misfit: bool = False) -> str:
    """Return what it "should" take where it can run as it is, what it "would" take where something is missing."""
    expected, base = row.expected, row.predicted.baseline_format
    ratio = row.predicted.speedup_ratio if expected is None else row.predicted.expected_speedup_ratio
    compared = "" if ratio is None or row.key == base else f", {as_fast(ratio, base or '16 bit')}"
    if expected is None:
        takes = "takes" if row.is_possible else "would take"
        time = f"{takes} at least {format_time(row.ideal.time_s)}{compared}; no expected time is known."
    else:
        takes = "should take" if row.is_possible else "would take"
        span = interval_text(expected.low_s, expected.high_s)
        time = f"{takes} {format_time(expected.time_s)} (80 %: {span}){compared}."
    sentences = [f"{row.label} {time}"]
    memory = row.memory
    if memory is not None and memory.fits is False:
        sentences.append(
            f"It does not fit: it needs {bytes_text(memory.total_bytes)} of {bytes_text(memory.usable_bytes)} usable."
        )
    if row.gap:
        missing = "No kernel that could run it on this chip is known."
        sentences.append(missing if row.gap == "kernel" else sentence(_gap_text(row)))
    if is_misfit:
        sentences.append("Nothing meets the limits of the recommendation.")
    return " ".join(sentences)


def _roof(row: Row) -> str:
    ridge = row.ridge_flop_per_byte
    even = "" if ridge is None else f"; the chip breaks even at {number_text(ridge)}"
    intensity = number_text(row.intensity_flop_per_byte)
    return f"By the roofline it is {row.ideal.bound}-bound: it does {intensity} FLOP for each byte it moves{even}."


def _binding(row: Row) -> str:
    """Return what would help: of the expected time where its parts are known, else of the ideal."""
    narrower = f"narrower {NARROWER[type(row.predicted)]}"
    expected, ideal = row.expected, row.ideal
    shares = part_shares(row.parts_s)
    kind = max(shares, key=shares.__getitem__, default="")
    if kind == "overhead":
        return _overhead(row, shares, narrower)
    if kind:
        return _work(kind, shares, narrower)
    helps = (
        f"A {narrower} moves fewer bytes; more arithmetic would not help."
        if ideal.bound == "memory"
        else "Only a format with a faster unit helps; fewer bytes would not."
    )
    if expected is None or ideal.time_s / expected.time_s >= 0.5:
        return helps
    share = rough_share(ideal.time_s / expected.time_s)
    return (
        f"That bound is only {share} of the expected time, so another format gains less than its bytes and units say."
    )


def part_shares(parts_s: Mapping[str, float]) -> dict[str, float]:
    """Return the share of each kind of work in an expected time; "" for parts of none of the `KINDS`.

    What a calibrated kernel takes less than the formulas say is a part below zero: it shortens the others alike, and
    the shares are of what is left of them, so that they never come to more than all.
    """
    positive = {name: time_s for name, time_s in parts_s.items() if time_s > 0}
    total_s = sum(positive.values())
    kinds = {part: kind for kind, parts in KINDS.items() for part in parts}
    shares = dict.fromkeys((*KINDS, "") if positive else (), 0.0)
    for name, time_s in positive.items():
        shares[kinds.get(name, "")] += time_s / total_s
    return shares


def _overhead(row: Row, shares: Mapping[str, float], narrower: str) -> str:
    more = "more sequences in one call" if isinstance(row.predicted, AttentionPrediction) else "more rows in one call"
    helper, share, work = (
        (f"a {narrower}", shares["bytes"], "moving bytes")
        if row.ideal.bound == "memory"
        else ("a faster unit", shares["arithmetic"], "the arithmetic")
    )
    left = f"{helper} would not help"
    if share >= 0.005:
        left = f"{helper} shortens only the {rough_share(share)} that {work} takes"
    overhead = rough_share(shares["overhead"])
    return f"But {overhead} of the expected time is launch, waiting and bookkeeping: {left}; {more} shares it out."


def _work(kind: str, shares: Mapping[str, float], narrower: str) -> str:
    work, helps = {
        "bytes": ("Moving bytes", f"a {narrower} moves fewer; more arithmetic would not help."),
        "arithmetic": ("Arithmetic", "only a format with a faster unit helps; fewer bytes would not."),
        "conversion": (
            "Converting between formats",
            "a format that the chip computes in as it is stored needs none.",
        ),
    }[kind]
    also = ""
    if shares["overhead"] >= LEAST_SAID_RATIO:
        helper = "a faster unit does" if kind == "arithmetic" else "fewer bytes do"
        also = f" {rough_share(shares['overhead'])} is launch and waiting, which {helper} not shorten."
    return f"{work} takes {rough_share(shares[kind])} of the expected time: {helps}{also}"


def remarks(row: Row) -> Iterator[str]:
    """Yield what to know about a prediction; some may come twice."""
    if row.predicted.is_placeholder:
        yield "The numbers of this chip are placeholders of the original documents: examples, not facts."
    compute_format, path = row.unit
    weight, _, activation = row.key.partition(".")
    if path == "dequantize" and not WIDENED_CODES.intersection(each.code for each in row.predicted.findings):
        name = weight if activation in ("", weight) else row.label
        yield (
            f"No unit of this chip computes in {name}: operands are widened to {compute_format} first, "
            "so only the bytes are saved."
        )
    if path == "emulated":
        yield f"This chip emulates {weight} in {compute_format}; what the emulation costs is not in the ideal time."
    if row.gap == "kernel":
        yield sentence(_gap_text(row))
    if isinstance(row.expected, ExpectedPrediction) and row.expected.provenance in PROVENANCES:
        yield f"Expected time: {PROVENANCES[row.expected.provenance]}."
    yield from map(sentence, row.remarks)


def traffic(row: Row) -> str:
    """Return bytes and FLOPs, and how much of its roof a good kernel reaches."""
    moved = f"{bytes_text(row.moved_bytes)} moved, {prefixed(row.ideal.flops, 'FLOP', 4)}."
    if row.expected is None:
        return moved
    return f"{moved} A good kernel reaches {rough_share(row.ideal.time_s / row.expected.time_s)} of this roof."


def verdicts(chips: Sequence[ChipAnswer], focus: Row | None) -> Iterator[str]:
    """Yield which chip is the fastest, each as recommended, then all in the format of `focus`. The first is the chosen
    chip.
    """
    main, others = chips[0], chips[1:]
    if focus is None:
        has_any = any(chip.best is not None for chip in others)
        yield (
            "The chosen chip has no prediction; these have."
            if has_any
            else "Nothing to compare until there is a prediction."
        )
        return
    chosen = [(chip.name, row) for chip in others for row in chip.rows if row.key == focus.key]
    is_same = all(chip.best is not None and chip.best.key == focus.key for chip in chips)
    if not is_same and main.best is None:
        yield sentence(f"Nothing is recommended on {main.name}{f': {main.misfit}' if main.misfit else ''}")
    elif not is_same and main.best is not None:
        best = [(chip.name, chip.best) for chip in others if chip.best is not None]
        yield from _compared("Each as recommended: ", (main.name, main.best), best, with_formats=True)
    if main.is_best_added and focus is main.best and len(chosen) < len(others):
        return  # the others were not asked about it
    if not chosen:
        yield f"No other chip here computes {focus.label}."
        return
    start = f"{'Recommended on each is' if is_same else 'All in'} {focus.label}: "
    yield from _compared(start, (main.name, focus), chosen, with_formats=False)


def _compared(
    start: str, main: tuple[str, Row], others: Sequence[tuple[str, Row]], *, with_formats: bool
) -> Iterator[str]:
    """Yield the fastest with the chosen chip, or the chosen one with the next; nothing without times of one kind."""
    is_expected = main[1].expected is not None
    alike = [(name, row) for name, row in others if (row.expected is not None) == is_expected]
    if not alike:
        return
    following = min(alike, key=lambda pair: pair[1].judged_s)
    fast, slow = (following, main) if following[1].judged_s < main[1].judged_s else (main, following)
    fast_name, slow_name = (_chip_time(name, row, with_formats=with_formats) for name, row in (fast, slow))
    faster = as_fast(slow[1].judged_s / fast[1].judged_s, slow_name)
    yield f"{start}{fast_name} is {faster}, {'expected' if is_expected else 'ideal'} times."


def _chip_time(name: str, row: Row, *, with_formats: bool) -> str:
    missing = f", no {row.gap} known" if row.gap else ", but too big for it" if row.fits is False else ""
    return f"{name}{f' with {row.label}' if with_formats else ''} ({format_time(row.judged_s)}{missing})"


def _gap_text(row: Row) -> str:
    return "" if row.predicted.kernel_gap is None else short_text(row.predicted.kernel_gap)


def as_fast(ratio: float, other: str) -> str:
    """Return how fast against another: `3.0× as fast as FP16`, `1.02× as fast as FP16`, `as fast as FP16`."""
    if 0.995 <= ratio < 1.005:
        return f"as fast as {other}"
    return f"{f'{ratio:.2f}×' if 1 < ratio < 1.05 else format_speedup(ratio)} as fast as {other}"


def rough_share(ratio: float) -> str:
    """Print a share; in words where it rounds to none or to all: `less than 1 %`, `nearly all`."""
    if ratio < 0.005:
        return "less than 1 %"
    return "nearly all" if 0.995 <= ratio < 1 else format_percent(ratio, 0)


def interval_text(low_s: float, high_s: float) -> str:
    """Print the ends of an interval in one unit: `37.4–49.2 µs`."""
    number, unit = format_time(high_s).split()
    scale_s = 10.0 ** round(log10(high_s / float(number)))
    return f"{number_text(low_s / scale_s, 3)}–{number_text(high_s / scale_s, 3)} {unit}"


def number_text(value: float, digits: int = 4) -> str:
    """Print with so many significant digits, without an exponent where numbers are of a usual size."""
    rounded = float(f"{value:.{digits}g}")
    return f"{rounded:.15g}" if abs(rounded) >= 1e-6 or rounded == 0 else f"{rounded:g}"


def bytes_text(size_bytes: float | None) -> str:
    """Print an amount of memory with four digits."""
    return prefixed(size_bytes, "B", 4)
