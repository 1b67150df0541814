"""What a whole-model recommendation is made of: ranked plans, refused ones, what a search found, the choice."""

from __future__ import annotations

from dataclasses import dataclass

from roofline_model.decoder.format_plan import FormatPlan
from roofline_model.decoder.model_memory import ModelMemory
from roofline_model.model_choice.limits import LimitMiss, ModelLimits
from roofline_model.model_choice.plan_quality import PlanQuality
from roofline_model.pareto.front import FormatAssignment
from roofline_model.pareto.model_problem import TrafficShare
from roofline_model.pareto.search import ParetoChoice


@dataclass(frozen=True, slots=True)
class ModelCandidate:
    """One plan for the model, with its times, its memory, its loss, and why it stands where it stands.

    Times are of one pass, over a traffic mix the mean by share; memory is that of the pass that takes most.
    """

    label: str
    """`INT4.BF16`, a strategy's name, `pareto-fastest`, …"""
    kind: str
    """baseline, published, uniform, strategy or search."""
    aliases: tuple[str, ...]
    """Other names of the same plan."""
    plan: FormatPlan
    formats: str
    """The plan in a line: `ffn INT4.BF16 in 60 of 80 layers; cache NVFP4`."""
    method: str
    """none, or the methods its weights need, joined by `+`: weight_only, AWQ, PTQ, native_fp8, …"""
    path: str
    """How the chip runs it: `native FP8_E4M3`, `decoded to BF16`, …"""
    ideal_s: float
    time_s: float
    """Expected, measured or ideal time."""
    time_source: str
    """expected, measured (or what the caller's estimate says), or ideal."""
    low_s: float | None
    """Lower end of the 80 % interval; None where the time has none."""
    high_s: float | None
    provenance: str
    tokens_per_s: float
    """Tokens computed in a second at `time_s`: generated ones in decode, prompt tokens in prefill."""
    speedup: float
    """Against the 16-bit baseline, times of the same kind; ideal against ideal where these cannot be compared."""
    ideal_speedup: float
    memory: ModelMemory
    quality: PlanQuality
    bound: str
    reason: str
    kernels: str = ""
    """The kernels that its narrow parts need on this chip: `Marlin W4A16 (AWQ, GPTQ)`; empty where nothing is listed."""
    kernel_gap: str = ""
    """Why a part has no known kernel here; such a plan takes part only where the caller named it, stands last and is not taken."""
    stands_for: str = ""
    """The kernel that the expected time of its weight-only products is of, where another may be faster; empty elsewhere."""
    is_speedup_ideal: bool = False
    """Whether `speedup` is that of the ideals, because its time cannot be held against the baseline's."""

    @property
    def prudent_s(self) -> float:
        """The time it is ranked by: nine of ten stay below, the upper end of its interval; its time where it has none."""
        return self.time_s if self.high_s is None else self.high_s


@dataclass(frozen=True, slots=True)
class RefusedPlan:
    """A plan that is not ranked, and why."""

    label: str
    reason: str
    misses: tuple[LimitMiss, ...] = ()
    """The limits it misses; empty for one that the chip, the model or the caller's device cannot take."""
    candidate: ModelCandidate | None = None
    """Its figures; None where it could not be predicted."""

    @property
    def worst_excess_ratio(self) -> float | None:
        """By how much it misses the limit that it misses most; None where no limit is the reason."""
        return max((one.excess_ratio for one in self.misses), default=None)


@dataclass(frozen=True, slots=True)
class FormatSearch:
    """What one Pareto search found."""

    label: str
    """pareto-fastest or pareto-least-loss."""
    goal: str
    """What was searched for, in words."""
    choice: ParetoChoice
    """Format, reason and neighbours of every group; its times are sums over groups."""
    passes_count: int
    """Searches until the plan, predicted as a whole, met the limits."""


@dataclass(frozen=True, slots=True)
class GentlerPlan:
    """The plan that a tighter limit of the loss would choose in place of one that loses much."""

    candidate: ModelCandidate
    max_loss_pct: float
    """The limit that chooses it."""
    slowdown_ratio: float | None
    """Its time over that of the choice; None where their times are of kinds that cannot be compared."""
    text: str
    """The plan, its loss and what it costs in time, in a line."""
    option: str
    """What chooses it, in a terminal and in a program."""


@dataclass(frozen=True, slots=True)
class ModelRecommendation:
    """The ranked answer for one model and workload on one chip."""

    hardware: str
    model: str
    wide: str
    """16-bit format of the baseline."""
    traffic: tuple[TrafficShare, ...]
    limits: ModelLimits
    candidates: tuple[ModelCandidate, ...]
    """Best first: those within all limits, then those whose loss nobody knows."""
    excluded: tuple[RefusedPlan, ...]
    """Nearest to the limits first, then what cannot run."""
    chosen: ModelCandidate | None
    """The plan to take; None: none that has kernels meets the limits (see `misfit`)."""
    baseline: ModelCandidate
    """16 bit everywhere, whether it meets the limits or not."""
    searches: tuple[FormatSearch, ...] = ()
    front: tuple[FormatAssignment, ...] = ()
    """Every plan of the search that no other beats in loss, time and memory, least loss first; empty without losses."""
    notes: tuple[str, ...] = ()
    gentler: GentlerPlan | None = None
    """What loses little in place of a choice that loses more; None where the choice loses little, or nothing does."""
    misfit: str = ""
    """Empty, or that nothing meets the limits and by how much the nearest misses which."""

    @property
    def time_source(self) -> str:
        """Kind of time that the ranking goes by."""
        return self.baseline.time_source

    @property
    def is_baseline_fitting(self) -> bool:
        """Whether the 16-bit baseline keeps the memory; where it does not, speed-ups are against a pass that cannot run here."""
        return self.limits.memory_bytes is None or self.baseline.memory.total_bytes <= self.limits.memory_bytes

    @property
    def is_chosen_quality_known(self) -> bool:
        """Whether somebody measured or claims what the chosen plan loses."""
        return self.chosen is not None and self.chosen.quality.loss_pct is not None

    def candidate(self, label: str) -> ModelCandidate | None:
        """Return the ranked plan of a name or other name, None when it is not ranked."""
        return next((one for one in self.candidates if label == one.label or label in one.aliases), None)

    def __str__(self) -> str:
        if self.chosen is None:
            return self.misfit
        if self.chosen.kind == "baseline":
            return f"stay at {self.chosen.label}"
        said = speedup_words(self.chosen.speedup, self.wide, why_slower=f"needed because {self.wide} misses the limits")
        return f"{self.chosen.label} ({self.chosen.method}) {said}"


def speedup_words(speedup: float, wide: str, *, why_slower: str) -> str:
    """Return `3.5x speedup`, `as fast as BF16` within 1 %, or a slowdown and why it is taken.

    >>> speedup_words(3.52, "FP16", why_slower=""), speedup_words(1.003, "BF16", why_slower="")
    ('3.5x speedup', 'as fast as BF16')
    >>> speedup_words(0.82, "BF16", why_slower="needed for the memory limit")
    '0.8x the speed of BF16, needed for the memory limit'
    """
    if abs(speedup - 1) < 0.01:
        return f"as fast as {wide}" + (f", {why_slower}" if speedup < 1 else "")
    said = f"{speedup:.2f}x" if 0.95 <= speedup < 1.05 else f"{speedup:.1f}x"
    return f"{said} speedup" if speedup > 1 else f"{said} the speed of {wide}, {why_slower}"
