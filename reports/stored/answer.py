"""What a recommendation from stored runs is made of: rows with their evidence, rankings, what changed, what is missing.

Times are seconds, sizes bytes; a missing value is None. `reports.formats.ranking_json` writes the same as JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from reports.text.display_text import counted
from results.verdicts.gain import times_faster
from roofline_model.core.answer import Loss
from roofline_model.core.finding import Finding

TimeSource = Literal["measured", "expected", "ideal"]
"""measured: the level of the newest comparable nights; expected: not measured, what a good kernel takes; ideal: not
measured and no expected time known, the speed of light."""
Confidence = Literal["high", "medium", "low"]
CONFIDENCES: tuple[Confidence, ...] = ("high", "medium", "low")
"""Best first."""
Subject = Literal["shape", "model"]
ACROSS_RUNS = "across runs"
"""The basis of a speed-up that no night measured: the ratio of two levels of different nights."""


@dataclass(frozen=True, slots=True)
class Night:
    """One run that a row rests on."""

    run_id: str
    started_at: str
    """UTC, ISO 8601."""
    label: str
    record_ids: tuple[str, ...]
    process_count: int


@dataclass(frozen=True, slots=True)
class StoredRow:
    """One configuration in a ranking."""

    rank: int
    identity: str
    """The same configuration in every answer: a case key, else formats."""
    label: str
    """`INT4 W4A16 (tinygemm)`, `BF16 + INT8 cache`."""
    weight_format: str
    activation_format: str
    kernel: str | None
    """None: no kernel was run or predicted; the model proposes the format."""
    method: str
    path: str
    """native, emulated, dequantize; empty where nobody says."""
    is_baseline: bool
    time_source: TimeSource
    time_s: float
    low_s: float | None
    """Lower end of the interval: 95 % of a measured time (over processes where their spread is known), 80 % of an
    expected one; None where none is known."""
    high_s: float | None
    expected_s: float | None
    ideal_s: float | None
    speedup_ratio: float | None
    """Over the ranking's baseline, times of the same kind; None without one. Measured ones are of nights that measured both, or
    `speedup_basis` says that they are not."""
    memory_bytes: float | None
    """Of a product the operands of a call (weight, input, output); of a model weights and cache."""
    is_memory_measured: bool
    memory_saved_ratio: float | None
    """Share of the 16-bit weights (of a model: of what it held before) that is saved."""
    loss: Loss
    confidence: Confidence
    """That of its time; of a measured speed-up the worse of both times (`baseline_trust`)."""
    confidence_reason: str
    """Why, of its own time."""
    reason: str
    """Why it stands here, in plain words."""
    doubts: tuple[str, ...] = ()
    """Flags that put the measured time in doubt, and what else does."""
    stale_reason: str = ""
    """Why the measurement may no longer hold; empty for a fresh one and for predictions."""
    nights: tuple[Night, ...] = ()
    """The runs behind the row, oldest first; empty where nothing is stored."""
    tokens_per_s: float | None = None
    """Of a model's pass at `time_s`."""
    speedup_basis: str = ""
    """Where the row and the baseline rest on different nights, what the speed-up is of: `median of 3 nights`, `across runs`."""
    kernel_gap: str = ""
    """Why no kernel is known to run it on the chip; empty for the others and for what was measured."""
    baseline_reason: str = ""
    """Why the confidence in the baseline's time is what it is; empty where that is not in doubt and takes nothing from the row's."""
    is_over_doubt: bool = False
    """Whether its measured speed-up is over a baseline whose time is in doubt."""
    speedup_low_ratio: float | None = None
    """Ends of the 95 % interval of a measured speed-up, by both times; None where one has no interval, or on other nights."""
    speedup_high_ratio: float | None = None
    interval_ratio: float | None = None
    """± of a table: half the interval of a measured time over processes by their mean, as a report of the run shows it, where
    their spread is known, else inside the process; of an expected time half its interval by the time."""

    @property
    def is_measured(self) -> bool:
        """Whether its time was measured."""
        return self.time_source == "measured"

    @property
    def is_across_runs(self) -> bool:
        """Whether the speed-up is of two runs, so that no night measured it."""
        return self.speedup_basis == ACROSS_RUNS

    @property
    def speedup_marks(self) -> str:
        """What belongs at the number: ` !` over a baseline in doubt, ` across runs`."""
        return f"{' !' if self.is_over_doubt else ''}{f' {ACROSS_RUNS}' if self.is_across_runs else ''}"

    @property
    def speedup_words(self) -> str:
        """`2.2×`, `2.2× !`, `2.2× across runs`, `–` without one."""
        return "–" if self.speedup_ratio is None else f"{times_faster(self.speedup_ratio)}{self.speedup_marks}"

    @property
    def short_confidence_words(self) -> str:
        """The same where the baseline's own row says why: `interval ±5.1 %; the baseline is in doubt`."""
        if not self.baseline_reason:
            return self.confidence_reason
        return f"{self.confidence_reason}; the baseline is {'in doubt' if self.is_over_doubt else 'less sure'}"

    @property
    def confidence_words(self) -> str:
        """Why the confidence is what it is, of both times: `interval ±5.1 %; the baseline: doubtful (noisy)`."""
        return (
            f"{self.confidence_reason}; the baseline: {self.baseline_reason}"
            if self.baseline_reason
            else self.confidence_reason
        )

    @property
    def is_emulated(self) -> bool:
        """Whether software stands in for a missing unit."""
        return self.path == "emulated" or (self.kernel or "").endswith("_emulated")

    @property
    def process_count(self) -> int:
        """Processes that measured it, over its nights."""
        return sum(night.process_count for night in self.nights) if self.is_measured else 0

    @property
    def record_ids(self) -> tuple[str, ...]:
        """The stored records behind it."""
        return tuple(record_id for night in self.nights for record_id in night.record_ids)


@dataclass(frozen=True, slots=True)
class Refused:
    """A configuration that is not ranked, and why."""

    label: str
    reason: str


@dataclass(frozen=True, slots=True)
class RankChange:
    """What became of one configuration since the run before."""

    label: str
    before_rank: int | None
    """None: it was not ranked."""
    after_rank: int | None
    change_ratio: float | None
    """Of the measured time between the nights: (after − before) / before; None where it was not measured on both."""
    verdict: str
    """SLOWER, FASTER, SAME, AMBIGUOUS or INVALID, as `roofline diff` calls it; empty where nothing was compared."""
    environment: tuple[str, ...]
    """What differs between the machines of both sides, in words: `driver 580.95 → 590.12`."""
    sentence: str
    """`INT4 W4A16 (tinygemm) fell from 1st to 3rd: its measured time rose 12.1 % …; driver 580.95 → 590.12`."""


@dataclass(frozen=True, slots=True)
class StoredRanking:
    """The ranked configurations of one shape, or of one phase of a model, on one chip."""

    subject: Subject
    hardware_key: str
    hardware_name: str
    title: str
    """`gemv 1x4096x4096`, `seeded-llama-156m, decode, batch 1, 128 tokens`; other cache states and modes are named."""
    op: str
    model: str
    """Empty for a shape."""
    shape_label: str
    phase: str
    """decode, prefill, or empty for operators that are no products."""
    cache: str
    mode: str
    baseline_label: str
    """What speed-ups are counted against; empty without a 16-bit or FP32 configuration."""
    rows: tuple[StoredRow, ...]
    """Best first."""
    refused: tuple[Refused, ...]
    summary: str
    missing: tuple[Finding, ...] = ()
    """What is not known of this ranking, and what would tell."""
    calibration_doubt: str = ""
    """Why its expected times are in doubt: the calibration they rest on was of a busy machine; empty where it was not."""
    baseline_doubts: tuple[str, ...] = ()
    """What puts the baseline's measured time, and so every measured speed-up here, in doubt, and measuring again may mend."""
    changes: tuple[RankChange, ...] = ()
    compared: str = ""
    """The nights that `changes` is about: `run 3f2a91c0, 2026-11-21 … against run …`; empty without an earlier one."""

    @property
    def best(self) -> StoredRow | None:
        """The first row; None where nothing is left to rank."""
        return self.rows[0] if self.rows else None

    @property
    def shows_expected(self) -> bool:
        """Whether an expected time is told beside a measured one, or in its place."""
        return any(row.expected_s is not None for row in self.rows)

    @property
    def key(self) -> tuple[str, ...]:
        """What tells it from every other ranking."""
        return (self.hardware_key, self.op, self.shape_label, self.cache, self.mode)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A run that no ranking uses."""

    why: str
    note: str
    """Its line among the notes, where no other run shares it."""


@dataclass(frozen=True, slots=True)
class StoredRecommendations:
    """The answer: every ranking that was asked for, and what is missing."""

    rankings: tuple[StoredRanking, ...]
    """By chip, models before shapes, then by name and size."""
    missing: tuple[str, ...]
    """What the store does not hold, most important first; empty where it has everything that was asked for."""
    notes: tuple[str, ...]
    """What weakens the answer, or was left out of it, and why."""
    run_count: int
    """Runs that hold what was asked for, older nights that are no longer used with them."""
    record_count: int
    """Their records of it."""
    left_out: Mapping[str, LeftOut] = field(default_factory=dict)
    """The runs that no ranking uses, by id; of a run that some ranking uses `notes` says for how many cases it is left out."""

    @property
    def basis_words(self) -> str:
        """What the rows shown rest on: `114 records of 1 run`."""
        nights = [night for ranking in self.rankings for row in ranking.rows for night in row.nights]
        records = {record_id for night in nights for record_id in night.record_ids}
        return f"{counted(len(records), 'record')} of {counted(len({night.run_id for night in nights}), 'run')}"

    @property
    def looked_at_words(self) -> str:
        """What the questions were asked of: `168 records of 2 runs`."""
        return f"{counted(self.record_count, 'record')} of {counted(self.run_count, 'run')}"

    @property
    def changes(self) -> tuple[RankChange, ...]:
        """All changes, ranking by ranking."""
        return tuple(change for ranking in self.rankings for change in ranking.changes)
