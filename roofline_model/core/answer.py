"""The spine of every answer: estimate → times → option → ranking. Frozen values; what they mean in words is a surface's
matter.

A question (which format for this shape, this model, this stored run?) is answered by a `Ranking`: its options in order,
the baseline that speed-ups refer to, the option to take, and what was excluded with the finding that says why.
`recommend/` builds them; every surface renders them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from roofline_model.core.errors import InvalidValueError
from roofline_model.core.finding import Finding, finding, findings_text, has_code
from roofline_model.core.units import format_speedup, format_time

Source = Literal["measured", "expected", "ceilings", "ideal"]
"""measured: a clock said it. expected: what a good kernel takes. ceilings: what this machine's measured ceilings allow,
a lower bound of kernels that nobody timed. ideal: speed of light, `max(bytes / bandwidth, FLOPs / peak)`.
"""
BOUNDS: frozenset[Source] = frozenset({"ceilings", "ideal"})
"""Sources that bound a time from below."""
SLOW_IDEAL_RATIO = 10.0
"""A time that other work may have made longer is not believed beyond this many times what bounds it from below."""
NO_RESULT = ("disturbed-result", "implausible-result")
"""Codes that say why measured times make no headline."""
NO_CHOICE = (
    "nothing-fits",
    "nothing-runs",
    "nothing-within-loss",
    *NO_RESULT,
)
"""Codes that say why a ranking has no choice."""

NOT_IN_JSON = {"in_json": False}
"""Metadata of a field that answers in JSON leave out: what it holds stands elsewhere in them."""
IN_PLACE = {"in_place": True}
"""Metadata of a field whose keys answers in JSON have among those of its owner, not in an object of their own."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """One time of one case, its interval, and where it comes from."""

    time_s: float
    """Seconds."""
    low_s: float | None = None
    """Lower end of the interval: 80 % of a prediction, 95 % of a measurement; None where there is none."""
    high_s: float | None = None
    """Upper end of it, seconds; None where there is none."""
    source: Source = "expected"
    """Kind of time: measured, expected, ceilings or ideal."""
    provenance: str = ""
    """fitted, transferred-sibling, …, measured-here, datasheet, …; of a measured time the run it is of."""
    half_width_ratio: float | None = None
    """± of a table: half the interval by the estimate it is of, which for a measured time is the mean of its
    processes.
    """
    is_sample_range: bool = field(default=False, metadata=NOT_IN_JSON)
    """Whether the ends are the range of samples that are too few for an interval: that is narrower than one of 95 %."""

    def __post_init__(self) -> None:
        if not 0 < self.time_s < math.inf:
            raise InvalidValueError(f"time_s of an Estimate must be a positive number of seconds, got {self.time_s!r}")

    @property
    def interval_s(self) -> tuple[float | None, float | None]:
        """Ends of its interval; None where there is none, as of too few samples."""
        return (None, None) if self.is_sample_range else (self.low_s, self.high_s)

    @property
    def prudent_s(self) -> float:
        """Upper end of the interval, which nine of ten stay below; the time itself where it has none."""
        return self.time_s if self.high_s is None else self.high_s


def is_comparable(source: Source, other: Source) -> bool:
    """Return whether times of two sources may be held against each other: of one source, or neither a bound."""
    return source == other or not {source, other} & BOUNDS


@dataclass(frozen=True, slots=True)
class Times:
    """The times of one option, each from its own source; None where there is none."""

    ideal: Estimate | None = None
    expected: Estimate | None = None
    """Source expected or ceilings."""
    measured: Estimate | None = None

    @classmethod
    def of(cls, ideal_s: float, better: Estimate | None = None, *, provenance: str = "") -> Times:
        """Return an ideal time, in seconds, and a better one, if any, where its source says that it belongs."""
        ideal = Estimate(ideal_s, source="ideal", provenance=provenance)
        if better is None or better.source == "ideal":
            return cls(ideal)
        return cls(ideal, measured=better) if better.source == "measured" else cls(ideal, better)

    @property
    def best(self) -> Estimate:
        """The best evidence: measured, else expected, else ideal."""
        estimate = self.measured or self.expected or self.ideal
        if estimate is None:
            raise InvalidValueError("these Times hold no estimate")
        return estimate

    @property
    def ideal_s(self) -> float | None:
        """Seconds of the ideal time; None without one."""
        return None if self.ideal is None else self.ideal.time_s

    @property
    def expected_s(self) -> float | None:
        """Seconds of the expected time; None without one."""
        return None if self.expected is None else self.expected.time_s

    @property
    def measured_s(self) -> float | None:
        """Seconds of the measured time; None without one."""
        return None if self.measured is None else self.measured.time_s


LossSource = Literal["reference", "measured", "estimated", "claimed", "unknown"]


@dataclass(frozen=True, slots=True)
class Loss:
    """What is known of the quality that an option loses against the 16-bit original."""

    source: LossSource
    """reference: it is the original. estimated: from gradients. claimed: published, of this model or of others."""
    pct: float | None = None
    """What limits and ties go by, in percent: rise of perplexity, or drop of task accuracy (`metric`); of a claim the
    upper end. None where nothing comparable is known.
    """
    low_pct: float | None = None
    """Lower end of a claimed range, or of the 95 % interval of what was measured, percent."""
    high_pct: float | None = None
    """Upper end of the interval of what was measured, percent."""
    metric: str = ""
    """perplexity, task accuracy or rank agreement; empty for the reference and where nothing is known."""
    value: float | None = None
    """Sum of a losses table, in its unit."""
    unit: str = ""
    """Of `value`: nats/token, or what the table says."""
    at_least_pct: float | None = None
    """What the measured layers alone lose, percent, where the table has not all of the plan."""
    is_of_model: bool = False
    """Whether a claim is of this very model."""
    method: str = ""
    """How the claimed figure was reached: AWQ, GPTQ, PTQ, …"""
    citation: str = ""
    """Where a claim was published."""
    kl_nats_per_token: float | None = None
    """Kullback-Leibler divergence from the original, nats per token."""
    perplexity_ratio: float | None = None
    """Perplexity, quantised over original."""
    top1_agreement_ratio: float | None = None
    """Share of tokens whose likeliest successor stays the same."""
    tokens_count: int | None = None
    """Count of the tokens that it was measured on."""
    text: str = ""
    """What text these tokens are of; empty for random ones, of which perplexity says nothing."""
    run_id: str = ""
    """The stored run that measured it."""


@dataclass(frozen=True, slots=True)
class Memory:
    """What an option has to hold."""

    JSON_KEYS: ClassVar = {
        "weights_bytes": "weight_bytes",
        "kv_bytes": "cache_bytes",
        "activation_bytes": "activation_bytes",
        "total_bytes": "total_bytes",
    }

    total_bytes: float
    """Bytes. Of a product its operands (or the weights of the whole model, when its size is given); of a model weights,
    cache and activations.
    """
    weight_bytes: float | None = None
    """Bytes."""
    cache_bytes: float | None = None
    """KV cache, bytes."""
    activation_bytes: float | None = None
    """Estimate of the working buffers of a pass, bytes."""
    capacity_bytes: float | None = None
    """What the device has; None where no limit is known."""
    usable_bytes: float | None = None
    """What of it a model can have, beside system, driver and engine; None where no limit is known."""
    saved_ratio: float | None = None
    """Share of the 16-bit weight bytes that is saved."""
    is_measured: bool = False


@dataclass(frozen=True, slots=True)
class Evidence:
    """A stored run behind a measured time."""

    run_id: str
    """Id of the run."""
    started_at: str
    """UTC, ISO 8601."""
    label: str | None
    """Its label; null without one."""
    record_ids: tuple[str, ...]
    """Records of that run behind the option."""
    process_count: int
    """Processes that measured it in this run, count."""
    flags: tuple[str, ...] = field(default=(), metadata=NOT_IN_JSON)
    """Flags of these measurements, sorted, of options pooled from records."""


Confidence = Literal["high", "medium", "low"]
CONFIDENCES: tuple[Confidence, ...] = ("high", "medium", "low")
"""Best first."""


@dataclass(frozen=True, slots=True)
class Trust:
    """How far the time of an option from stored runs may be trusted, and its speed-up over the baseline."""

    confidence: Confidence
    """In its time; of a measured speed-up the worse of both times."""
    reasons: tuple[Finding, ...] = ()
    """Why, of its own time."""
    doubts: tuple[str, ...] = ()
    """Flags that put the measured time in doubt, and what else does."""
    stale: tuple[Finding, ...] = ()
    """Why the measurement may no longer hold; empty for a fresh one and for predictions."""
    baseline_reasons: tuple[Finding, ...] = ()
    """Why the confidence in the baseline's time is what it is; empty where that takes nothing from the option's."""
    is_over_doubt: bool = False
    """Whether its measured speed-up is over a baseline whose time is in doubt."""
    speedup_night_count: int | None = None
    """Nights that measured both option and baseline, whose median ratio the speed-up is, where the two rest on
    different runs; 0: no night measured both, it is the ratio of two runs. None: both rest on the same runs.
    """
    is_speedup_disturbed: bool = False
    """Whether each of these nights is in doubt."""
    speedup_low_ratio: float | None = None
    """Ends of the 95 % interval of a measured speed-up, by both times; None where one has no interval, or of other
    runs.
    """
    speedup_high_ratio: float | None = None
    """Upper end of that interval."""

    @property
    def is_across_runs(self) -> bool:
        """Whether no night measured both option and baseline."""
        return self.speedup_night_count == 0


NOT_STORED = Trust("low")
"""Of an option that no stored run says anything of."""


@dataclass(frozen=True, slots=True)
class PhaseTime:
    """The passes of one phase among a mix, with one option."""

    phase: str
    """decode or prefill."""
    time_s: float
    """Of a pass of the phase, the mean by share, seconds."""
    longest_s: float
    """Of the pass that takes longest, seconds."""
    tokens_per_s: float
    """Tokens per second while such passes run: decode generates them, prefill reads prompts."""
    prudent_s: float
    """Of the pass that may take longest, the upper end of its interval; the time itself where it has none; seconds."""


@dataclass(frozen=True, slots=True)
class Option:
    """One way to run the work: formats, kernel and method, with its times, memory and loss."""

    key: str
    """Names it within its ranking and in every surface's input: `INT4`, `INT4.BF16`, `pareto-fastest`, a case key."""
    formats: tuple[tuple[str, str], ...]
    """Operand → format key (a, b, c; q, kv), or part → pair of a model's plan, one for each that the part has."""
    method: str
    """none, weight_only, AWQ, PTQ, native_fp8, …; several joined by `+`."""
    path: str
    """native, emulated or dequantize: how the chip computes it, of a plan the products that take longest; empty where
    nobody knows.
    """
    bound: str
    """What takes the time: memory, compute, launch."""
    times: Times
    memory: Memory | None
    """What it takes of the memory; None where nobody knows."""
    loss: Loss
    """What is known of its loss."""
    speedup_ratio: float | None
    """Over the baseline, times of the same source; ideal against ideal where the sources cannot be compared."""
    ideal_speedup_ratio: float | None
    """Over the baseline, ideal against ideal."""
    expected_speedup_ratio: float | None = None
    """Over the baseline, expected against expected, of an option from stored runs."""
    label: str = ""
    """What people call it: `INT4 (W4A16) · tinygemm`; empty where that is the key."""
    precision: str = ""
    """What people call its formats, of an option from stored runs: `INT4 (W4A16)`."""
    kernel: str | None = None
    """The kernel that was measured or chosen; None: the format is proposed, the kernel is the library's choice."""
    aliases: tuple[str, ...] = ()
    """Other names of the same option."""
    energy_j: float | None = None
    tokens_per_s: float | None = None
    """Of a model's pass at its time; None for a mix of phases, whose tokens are not of one kind."""
    phases: tuple[PhaseTime, ...] = ()
    """Of a mix of passes; empty for a single kind."""
    evidence: tuple[Evidence, ...] = ()
    """The runs behind it, oldest first."""
    trust: Trust = NOT_STORED
    """Of an option from stored runs."""
    findings: tuple[Finding, ...] = ()

    def __repr__(self) -> str:
        time = "no time" if self.times == Times() else f"{self.estimate.source} {format_time(self.estimate.time_s)}"
        gain = "" if self.speedup_ratio is None else f", {format_speedup(self.speedup_ratio)}"
        loss = "" if self.loss.pct is None else f", loss {self.loss.pct:.1f} %"
        return f"<{type(self).__name__} {self.label or self.key}: {time}{gain}{loss}>"

    @property
    def estimate(self) -> Estimate:
        """The time that it is ranked by."""
        return self.times.best

    @property
    def is_measured(self) -> bool:
        """Whether its time was measured."""
        return self.estimate.source == "measured"

    @property
    def weight_format(self) -> str:
        """Format of operand b; empty without one."""
        return dict(self.formats).get("b", "")

    @property
    def activation_format(self) -> str:
        """Format of operand a; empty without one."""
        return dict(self.formats).get("a", "")

    @property
    def flags(self) -> frozenset[str]:
        """Flags of all measurements behind it."""
        return frozenset(flag for run in self.evidence for flag in run.flags)

    @property
    def record_ids(self) -> tuple[str, ...]:
        """The stored records behind it."""
        return tuple(record_id for run in self.evidence for record_id in run.record_ids)


@dataclass(frozen=True, slots=True)
class Exclusion:
    """An option that is not ranked, and why."""

    key: str
    """Key of the option, or what else names it."""
    findings: tuple[Finding, ...]
    """The reasons, the one that decides first; at least one."""
    option: Option | None = None
    """Its figures; None where it could not be predicted."""

    @property
    def finding(self) -> Finding:
        """The reason that decides."""
        return self.findings[0]

    @property
    def label(self) -> str:
        """What people call it."""
        return self.key if self.option is None else self.option.label or self.key


@dataclass(frozen=True, slots=True)
class Question:
    """What was asked, so that an answer says it without its caller."""

    subject: Literal["shape", "model", "attention", "cache", "pipeline"]
    """What is ranked for: a shape, a model, a cache, …"""
    hardware: str
    """Chip key."""
    name: str
    """`gemv 1x4096x4096`, a model's name, …"""
    sizes: tuple[tuple[str, int], ...] = ()
    """Dimension → size: M, N and K of a product."""
    phase: str = ""
    """decode, prefill, or empty."""
    policy: str = "evidence"
    """The named policy of `recommend/ranking` that ordered the options."""
    limits: tuple[tuple[str, float], ...] = ()
    """Limit → value in the unit of its name: `memory_bytes`, `time_s`, `loss_pct`."""
    op: str = ""
    """Operator of a shape, or of a pass of a model; empty where the question is about no single one."""
    cache: str = ""
    """Cache state of what was run; empty of predictions."""
    mode: str = ""
    """How its calls were issued; empty of predictions."""

    @property
    def shape_label(self) -> str:
        """Sizes joined by x: `1x4096x4096`."""
        return "x".join(str(size) for _, size in self.sizes)


AlternativeRole = Literal["riskier", "lower-loss", "safest"]
"""riskier: faster, or the only thing that fits, and loses more than the limit. lower-loss: within the default limit,
where the caller allowed more. safest: loses nothing, or least of what keeps the limits.
"""


@dataclass(frozen=True, slots=True)
class Alternative:
    """An option worth naming beside the choice, and what picks it."""

    role: AlternativeRole
    """Why it is named."""
    option: Option
    slowdown_ratio: float | None = None
    """Its time over that of the choice; None where their sources cannot be compared, and without a choice."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """The answer to a question: options in order, baseline, choice, alternatives, excluded options, findings."""

    question: Question
    options: tuple[Option, ...]
    """Best first."""
    baseline: Option | None
    """The 16-bit option that speed-ups refer to, whether it is ranked or not; None where nothing of the kind exists."""
    choice: Option | None
    """The option to take; None where nothing meets the limits (`findings` says by how much the nearest misses)."""
    alternatives: tuple[Alternative, ...] = ()
    excluded: tuple[Exclusion, ...] = ()
    """Nearest to the limits first, then what cannot run."""
    findings: tuple[Finding, ...] = ()

    def option(self, key: str) -> Option | None:
        """Return the ranked option of a key or alias; None when it is not ranked."""
        return next((option for option in self.options if key == option.key or key in option.aliases), None)

    @property
    def first(self) -> Option | None:
        """The option that stands first; None where nothing could be ranked."""
        return self.options[0] if self.options else None

    @property
    def considered(self) -> tuple[Option, ...]:
        """The ranked options, then those that miss a limit."""
        return (*self.options, *(each.option for each in self.excluded if each.option is not None))

    @property
    def is_contest(self) -> bool:
        """Whether two cases of runs at least compete; what the model proposes beside them is no case."""
        return sum(bool(option.evidence) for option in self.considered) > 1

    @property
    def narrower(self) -> tuple[Option, ...]:
        """The cases in a format narrower than 16 bits, so that may lose quality; empty without a baseline's case."""
        if self.baseline is None or self.baseline.kernel is None:
            return ()
        return tuple(each for each in self.considered if each.kernel is not None and each.loss.source != "reference")

    @property
    def gap(self) -> Finding | None:
        """Why no headline may rest on the measured times; None where one may."""
        return next((item for item in self.findings if item.code in NO_RESULT), None)

    @property
    def roles(self) -> dict[str, Literal["take"] | AlternativeRole]:
        """Key of an option → what it is named for: the choice first, then the alternatives; empty without a contest."""
        if not self.is_contest:
            return {}
        chosen: dict[str, Literal["take"] | AlternativeRole] = {} if self.choice is None else {self.choice.key: "take"}
        return chosen | {each.option.key: each.role for each in self.alternatives}

    @property
    def runnable(self) -> tuple[Option, ...]:
        """The options that a kernel is known to run, or that were measured."""
        return tuple(option for option in self.options if not has_code(option.findings, "kernel-gap"))

    @property
    def barred(self) -> tuple[Option, ...]:
        """The options that no kernel is known to run."""
        return tuple(option for option in self.options if has_code(option.findings, "kernel-gap"))

    @property
    def baseline_label(self) -> str:
        """What speed-ups are counted against; empty without a 16-bit or FP32 option."""
        return "" if self.baseline is None else self.baseline.label or self.baseline.key

    def rank_of(self, option: Option) -> int:
        """Return the place of an option, from 1."""
        return 1 + next(place for place, other in enumerate(self.options) if other.key == option.key)

    def is_baseline(self, option: Option) -> bool:
        """Return whether speed-ups are counted against an option."""
        return self.baseline is not None and self.baseline.key == option.key

    @property
    def nearest(self) -> Option | None:
        """The choice; where nothing meets the limits, the option that misses them least."""
        missing = (exclusion.option for exclusion in self.excluded)
        return self.choice or next((option for option in (*self.options, *missing) if option is not None), None)

    @property
    def headline(self) -> Finding:
        """The decision in one finding: stay, take an option, or what nothing meets."""
        choice, baseline = self.choice, self.baseline
        if choice is None:
            return next(item for item in self.findings if item.code in NO_CHOICE)
        if baseline is not None and choice.key == baseline.key:
            return finding("take", choice.key, kind="stay")
        ratio = choice.speedup_ratio
        if ratio is None or baseline is None:
            return finding("take", choice.key, kind="alone", method=choice.method)
        slower = "slower-than-missing" if self._does_baseline_miss else "slower"
        kind = "as-fast" if abs(ratio - 1) < 0.01 else "faster" if ratio > 1 else slower
        return finding(
            "take",
            choice.key,
            kind=kind,
            method=choice.method,
            seeds_speedup_ratio=ratio,
            baseline=baseline.key,
        )

    @property
    def _does_baseline_miss(self) -> bool:
        baseline = self.baseline
        return baseline is not None and any(exclusion.key == baseline.key for exclusion in self.excluded)

    @property
    def decision(self) -> tuple[Finding, ...]:
        """The headline; where nothing meets the limits also what the nearest option misses."""
        if self.choice is not None or not self.excluded:
            return (self.headline,)
        return (self.headline, *(item for item in self.excluded[0].findings if item in self.findings))

    def __str__(self) -> str:
        return findings_text(self.decision)

    def __repr__(self) -> str:
        from roofline_model.core.ranking_display import ranking_line

        return ranking_line(self)

    def _repr_html_(self) -> str:
        from roofline_model.core.ranking_display import ranking_html

        return ranking_html(self)

    # The names of the original documents.

    @property
    def precision(self) -> str:
        """Key of the option to take."""
        return self._answer.key

    @property
    def method(self) -> str:
        """How to get there: PTQ, AWQ, native_fp8, …"""
        return self._answer.method

    @property
    def speedup(self) -> float | None:
        """Speed-up of the option to take over the baseline."""
        return self._answer.speedup_ratio

    @property
    def predicted_time_us(self) -> float:
        """Time of the option to take, µs."""
        return self._answer.estimate.time_s * 1e6

    @property
    def memory_savings_pct(self) -> float | None:
        """Saved share of the 16-bit weight bytes, percent."""
        memory = self._answer.memory
        return None if memory is None or memory.saved_ratio is None else memory.saved_ratio * 100

    @property
    def reason(self) -> str:
        """Findings about the option to take, in words."""
        return findings_text(self._answer.findings)

    @property
    def _answer(self) -> Option:
        option = self.nearest
        if option is None:
            raise InvalidValueError(f"nothing was ranked for {self.question.name} on {self.question.hardware}")
        return option
