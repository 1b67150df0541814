"""What a recommendation from stored runs is made of: ranked options in words, what changed, what is missing.

Times are seconds, sizes bytes; a missing value is None. `reports.formats.ranking_json` writes the same as JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from reports.text.display_text import counted
from roofline_model.core.answer import Option
from roofline_model.core.finding import Finding, has_code

Subject = Literal["shape", "model"]
ACROSS_RUNS = "across runs"
"""The basis of a speed-up that no night measured: the ratio of two levels of different nights."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A configuration that is not ranked, and why."""

    label: str
    """The configuration: formats and kernel."""
    reason: str
    """Why it is not ranked."""


@dataclass(frozen=True, slots=True)
class RankChange:
    """What became of one configuration since the run before."""

    label: str
    """The configuration, as in the rows."""
    before_rank: int | None
    """Place before, count; null: it was not ranked."""
    after_rank: int | None
    """Place now, count; null: it is not ranked."""
    change_ratio: float | None
    """Of the measured time between the nights: (after − before) / before; null where it was not measured on both."""
    verdict: str | None
    """SLOWER, FASTER, SAME, AMBIGUOUS or INVALID, as `roofline diff` calls it; null where nothing was compared."""
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
    rows: tuple[Option, ...]
    """Best first."""
    refused: tuple[Refused, ...]
    summary: str
    baseline: Option | None = None
    """What speed-ups are counted against, ranked or beyond a limit; None where it has no time."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Key of a row → why it stands there."""
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
    def best(self) -> Option | None:
        """The first row; None where nothing is left to rank."""
        return self.rows[0] if self.rows else None

    @property
    def shows_expected(self) -> bool:
        """Whether an expected time is told beside a measured one, or in its place."""
        return any(row.times.expected is not None for row in self.rows)

    @property
    def runnable(self) -> tuple[Option, ...]:
        """The rows that a kernel is known to run, or that were measured."""
        return tuple(row for row in self.rows if not has_code(row.findings, "kernel-gap"))

    @property
    def runnable_reasons(self) -> tuple[str, ...]:
        """Why each of these stands where it stands."""
        return tuple(self.reasons[row.key] for row in self.runnable)

    @property
    def barred(self) -> tuple[Option, ...]:
        """The rows that no kernel is known to run."""
        return tuple(row for row in self.rows if has_code(row.findings, "kernel-gap"))

    def rank_of(self, option: Option) -> int:
        """Return the place of a row, from 1."""
        return 1 + next(at for at, row in enumerate(self.rows) if row.key == option.key)

    def is_baseline(self, option: Option) -> bool:
        """Return whether speed-ups are counted against an option."""
        return self.baseline is not None and self.baseline.key == option.key

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
        runs = [run for ranking in self.rankings for row in ranking.rows for run in row.evidence]
        records = {record_id for run in runs for record_id in run.record_ids}
        return f"{counted(len(records), 'record')} of {counted(len({run.run_id for run in runs}), 'run')}"

    @property
    def looked_at_words(self) -> str:
        """What the questions were asked of: `168 records of 2 runs`."""
        return f"{counted(self.record_count, 'record')} of {counted(self.run_count, 'run')}"

    @property
    def changes(self) -> tuple[RankChange, ...]:
        """All changes, ranking by ranking."""
        return tuple(change for ranking in self.rankings for change in ranking.changes)
