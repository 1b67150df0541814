"""A prediction in words, as the explorer shows it: its time, what binds it, what to know of it, and which of several
chips is the fastest. The numbers come with the question; nothing here predicts or ranks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log10
from typing import Literal

from reports.present.display_text import prefixed
from roofline_model.core.units import format_percent, format_speedup, format_time, sentence

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
WIDENED_CODES = frozenset({"operands-widened", "no-native-unit", "rate-not-declared"})
"""Findings that say that operands are widened before the product."""
LEAST_SAID_RATIO = 0.25
"""Share of launch and waiting from which on it is said."""

Gap = Literal["", "kernel", "engine"]
"""What is missing to run a format: nothing, any kernel, or a serving engine with one."""


@dataclass(frozen=True, slots=True)
class ExpectedFacts:
    """An expected time with its interval, in seconds."""

    time_s: float
    low_s: float
    high_s: float
    provenance: str = ""
    parts_s: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        if min(self.time_s, self.low_s, self.high_s) <= 0:
            raise ValueError("an expected time and the ends of its interval are above zero")


@dataclass(frozen=True, slots=True)
class MemoryFacts:
    """What a model takes, and what the chip has."""

    total_bytes: float
    usable_bytes: float | None
    fits: bool | None


@dataclass(frozen=True, slots=True)
class AnswerFacts:
    """What a sentence about one prediction needs of it. Missing is None."""

    operator: Literal["product", "attention", "model"]
    label: str
    weight: str
    activation: str
    is_baseline: bool
    baseline: str | None
    time_s: float
    """Ideal."""
    bound: str
    intensity_flop_per_byte: float
    ridge_flop_per_byte: float | None
    flops: float
    moved_bytes: float
    path: str | None
    compute_format: str
    is_placeholder: bool
    speedup_ratio: float | None
    expected_speedup_ratio: float | None
    expected: ExpectedFacts | None
    memory: MemoryFacts | None
    gap: Gap
    gap_text: str
    codes: tuple[str, ...]
    """Of its findings."""
    notes: tuple[str, ...]
    """What the answer itself says: its findings in words."""

    def __post_init__(self) -> None:
        if self.time_s <= 0:
            raise ValueError("an ideal time is above zero")

    @property
    def is_possible(self) -> bool:
        """Whether nothing is known to be missing."""
        return not self.gap and (self.memory is None or self.memory.fits is not False)


@dataclass(frozen=True, slots=True)
class Reading:
    """A prediction in words."""

    headline: str
    why: str
    remarks: tuple[str, ...]
    largest_part: str
    """Empty where no parts are known."""
    traffic: str


def reading(answer: AnswerFacts, *, is_misfit: bool = False) -> Reading:
    """Return an answer in words; `is_misfit`: nothing meets the limits of the recommendation."""
    parts_s = None if answer.expected is None else answer.expected.parts_s
    largest = "" if not parts_s else max(parts_s, key=lambda name: parts_s[name])
    return Reading(
        headline=_headline(answer, is_misfit),
        why=f"{_roof(answer)} {_binding(answer)}",
        remarks=tuple(dict.fromkeys(_remarks(answer))),
        largest_part=f"largest part: {'DRAM' if largest == 'dram' else largest}" if largest else "",
        traffic=_traffic(answer),
    )


def _headline(answer: AnswerFacts, is_misfit: bool) -> str:
    """Return what it "should" take where it can run as it is, what it "would" take where something is missing."""
    expected = answer.expected
    ratio = answer.speedup_ratio if expected is None else answer.expected_speedup_ratio
    compared = "" if ratio is None or answer.is_baseline else f", {as_fast(ratio, answer.baseline or '16 bit')}"
    if expected is None:
        takes = "takes" if answer.is_possible else "would take"
        time = f"{takes} at least {format_time(answer.time_s)}{compared}; no expected time is known."
    else:
        takes = "should take" if answer.is_possible else "would take"
        span = interval_text(expected.low_s, expected.high_s)
        time = f"{takes} {format_time(expected.time_s)} ({span} four times in five){compared}."
    sentences = [f"{answer.label} {time}"]
    memory = answer.memory
    if memory is not None and memory.fits is False:
        sentences.append(
            f"It does not fit: it needs {_bytes(memory.total_bytes)} of {_bytes(memory.usable_bytes)} usable."
        )
    if answer.gap:
        missing = "No kernel that could run it on this chip is known."
        sentences.append(missing if answer.gap == "kernel" else sentence(answer.gap_text))
    if is_misfit:
        sentences.append("Nothing meets the limits of the recommendation.")
    return " ".join(sentences)


def _roof(answer: AnswerFacts) -> str:
    ridge = answer.ridge_flop_per_byte
    even = "" if ridge is None else f"; the chip breaks even at {_plain(ridge)}"
    intensity = _plain(answer.intensity_flop_per_byte)
    return f"By the roofline it is {answer.bound}-bound: it does {intensity} FLOP for each byte it moves{even}."


def _binding(answer: AnswerFacts) -> str:
    """Return what would help: of the expected time where its parts are known, else of the ideal."""
    narrower = {"attention": "narrower cache", "model": "narrower weight or cache"}.get(
        answer.operator, "narrower weight"
    )
    expected = answer.expected
    shares = {} if expected is None or not expected.parts_s else part_shares(expected.parts_s)
    kind = max(shares, key=lambda name: shares[name]) if shares else ""
    if kind == "overhead":
        return _overhead(answer, shares, narrower)
    if kind:
        return _work(kind, shares, narrower)
    helps = (
        f"A {narrower} moves fewer bytes; more arithmetic would not help."
        if answer.bound == "memory"
        else "Only a format with a faster unit helps; fewer bytes would not."
    )
    if expected is None or answer.time_s / expected.time_s >= 0.5:
        return helps
    share = rough_share(answer.time_s / expected.time_s)
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
    shares = dict.fromkeys((*KINDS, ""), 0.0)
    for name, time_s in positive.items():
        shares[kinds.get(name, "")] += time_s / total_s
    return shares


def _overhead(answer: AnswerFacts, shares: Mapping[str, float], narrower: str) -> str:
    more = "more sequences in one call" if answer.operator == "attention" else "more rows in one call"
    helper, share, work = (
        (f"a {narrower}", shares["bytes"], "moving bytes")
        if answer.bound == "memory"
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


def _remarks(answer: AnswerFacts) -> Iterator[str]:
    if answer.is_placeholder:
        yield "The numbers of this chip are placeholders of the original documents: examples, not facts."
    if answer.path == "dequantize" and not WIDENED_CODES.intersection(answer.codes):
        name = answer.weight if answer.weight == answer.activation else answer.label
        yield (
            f"No unit of this chip computes in {name}: operands are widened to {answer.compute_format} first, "
            "so only the bytes are saved."
        )
    if answer.path == "emulated":
        yield (
            f"This chip emulates {answer.weight} in {answer.compute_format}; what the emulation costs is not in the "
            "ideal time."
        )
    if answer.gap == "kernel":
        yield sentence(answer.gap_text)
    if answer.expected is not None and answer.expected.provenance in PROVENANCES:
        yield f"Expected time: {PROVENANCES[answer.expected.provenance]}."
    yield from map(sentence, answer.notes)


def _traffic(answer: AnswerFacts) -> str:
    traffic = f"{_bytes(answer.moved_bytes)} moved, {prefixed(answer.flops, 'FLOP', 4)}."
    if answer.expected is None:
        return traffic
    return f"{traffic} A good kernel reaches {rough_share(answer.time_s / answer.expected.time_s)} of this roof."


@dataclass(frozen=True, slots=True)
class ChipTime:
    """The time by which a format on a chip is judged: expected where there is one, else ideal."""

    label: str
    time_s: float
    is_expected: bool
    gap: Gap
    fits: bool | None

    def __post_init__(self) -> None:
        if self.time_s <= 0:
            raise ValueError("a time is above zero")


@dataclass(frozen=True, slots=True)
class ChipFacts:
    """A chip of a comparison. None: nothing is recommended there; it was not asked, or cannot compute in the format."""

    name: str
    recommended: ChipTime | None
    chosen: ChipTime | None
    """In the format that is looked at."""
    misfit: str
    """Why nothing is recommended, where the ranking says it."""


@dataclass(frozen=True, slots=True)
class ChosenFormat:
    """The format that is looked at."""

    label: str
    is_added: bool
    """Whether only the chosen chip was asked about it: its recommendation is none of the page's formats."""


def verdicts(chips: Sequence[ChipFacts], focus: ChosenFormat | None) -> tuple[str, ...]:
    """Return which chip is the fastest, each as recommended, then all in one format. The first is the chosen chip."""
    main, others = chips[0], chips[1:]
    if focus is None:
        has_any = any(chip.recommended is not None for chip in others)
        return (
            "The chosen chip has no prediction; these have."
            if has_any
            else "Nothing to compare until there is a prediction.",
        )
    is_same = all(chip.recommended is not None and chip.recommended == chip.chosen for chip in chips)
    sentences = ["" if is_same else _as_recommended(main, others), _in_one_format(main, others, focus, is_same)]
    return tuple(text for text in sentences if text)


def _as_recommended(main: ChipFacts, others: Sequence[ChipFacts]) -> str:
    if main.recommended is None:
        return sentence(f"Nothing is recommended on {main.name}{f': {main.misfit}' if main.misfit else ''}")
    times = [(chip.name, chip.recommended) for chip in others if chip.recommended is not None]
    return _compared("Each as recommended: ", (main.name, main.recommended), times, with_formats=True)


def _in_one_format(main: ChipFacts, others: Sequence[ChipFacts], focus: ChosenFormat, is_same: bool) -> str:
    times = [(chip.name, chip.chosen) for chip in others if chip.chosen is not None]
    if main.chosen is None or (focus.is_added and len(times) < len(others)):
        return ""  # the others were not asked about it
    if not times:
        return f"No other chip here computes {focus.label}."
    start = f"{'Recommended on each is' if is_same else 'All in'} {focus.label}: "
    return _compared(start, (main.name, main.chosen), times, with_formats=False)


def _compared(
    start: str, main: tuple[str, ChipTime], others: Sequence[tuple[str, ChipTime]], *, with_formats: bool
) -> str:
    """Return the fastest with the chosen chip, or the chosen one with the next; empty without times of one kind."""
    alike = [(name, time) for name, time in others if time.is_expected == main[1].is_expected]
    if not alike:
        return ""
    following = min(alike, key=lambda pair: pair[1].time_s)
    fast, slow = (following, main) if following[1].time_s < main[1].time_s else (main, following)
    fast_name, slow_name = (_chip_time(name, time, with_formats=with_formats) for name, time in (fast, slow))
    kind = "expected" if main[1].is_expected else "ideal"
    return f"{start}{fast_name} is {as_fast(slow[1].time_s / fast[1].time_s, slow_name)}, {kind} times."


def _chip_time(name: str, time: ChipTime, *, with_formats: bool) -> str:
    missing = f", no {time.gap} known" if time.gap else ", but too big for it" if time.fits is False else ""
    return f"{name}{f' with {time.label}' if with_formats else ''} ({format_time(time.time_s)}{missing})"


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
    return f"{_plain(low_s / scale_s, 3)}–{_plain(high_s / scale_s, 3)} {unit}"


def _plain(value: float, digits: int = 4) -> str:
    """Print with so many significant digits, without an exponent where numbers are of a usual size."""
    rounded = float(f"{value:.{digits}g}")
    return f"{rounded:.15g}" if abs(rounded) >= 1e-6 or rounded == 0 else f"{rounded:g}"


def _bytes(size_bytes: float | None) -> str:
    return prefixed(size_bytes, "B", 4)
