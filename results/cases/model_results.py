"""Whole models as a reader compares them: per model, batch and context the precisions side by side, and what to take.

A *pass* is one case with its processes pooled, beside what its record says of memory, quality and energy.
`shape_verdict` says which is fastest, `phase_ranking` which to take. Pure values over records.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from results.cases.case_result import CaseResult
from results.cases.shape_verdict import (
    ShapeVerdict,
    groups,
    judge,
)
from results.records.model_figures import ModelFigures
from results.records.records import Record
from roofline_model.core.answer import Option
from roofline_model.core.finding import Finding
from roofline_model.core.grouping import grouped
from roofline_model.expected.gap import PASS_PART
from roofline_model.formats.catalog import is_narrow_format
from roofline_model.models.issue_bound import issue_bound
from roofline_model.operators.case import PHASES, Case, PassName, pass_name

ROUND_TO_NEAREST = "round-to-nearest"


@dataclass(frozen=True, slots=True)
class PassResult:
    """One precision of a model in one phase. SI units; missing is None."""

    label: str
    """`INT4 (W4A16)`, `INT4 (W4A16), HQQ`, `plan mine`, `BF16 + INT8 KV`."""
    case: CaseResult
    """Its processes pooled."""
    figures: ModelFigures
    """Of the first process that measured it."""
    option: Option | None
    """Its times, as the verdict ranks them; None: neither timed nor predicted; `reason` says why."""
    is_baseline: bool
    """Whether speed-ups are counted against it."""

    @property
    def ideal_speedup(self) -> float | None:
        """Ideal time of the baseline over its own."""
        return None if self.option is None else self.option.ideal_speedup_ratio

    @property
    def expected_speedup(self) -> float | None:
        """Expected time of the baseline over its own."""
        return None if self.option is None else self.option.expected_speedup_ratio

    @property
    def measured_speedup(self) -> float | None:
        """Measured time of the baseline over its own."""
        return self.option.speedup_ratio if self.option is not None and self.option.is_measured else None

    @property
    def records(self) -> tuple[Record, ...]:
        """Its processes, the one that speaks for it first."""
        lead = self.case.lead
        return (lead, *(record for record in self.case.records if record is not lead))

    @property
    def measured_s(self) -> float | None:
        """Seconds over its processes."""
        return None if self.option is None else self.option.times.measured_s

    @property
    def tokens_per_s(self) -> float | None:
        """Generated tokens per second in decode, prompt tokens in prefill, over all sequences."""
        return self.figures.tokens_per_call / self.measured_s if self.measured_s else None

    @property
    def expected_tokens_per_s(self) -> float | None:
        """The same by the expected time."""
        expected_s = None if self.option is None else self.option.times.expected_s
        return self.figures.tokens_per_call / expected_s if expected_s else None

    @property
    def is_of_device(self) -> bool:
        """Whether its time is the GPU's alone, without the host that issues it."""
        return self.measured_s is not None and self.figures.issue_s is not None

    @property
    def is_doubtful(self) -> bool:
        """Whether a flag puts its time in doubt."""
        return self.option is not None and bool(self.option.trust.doubts)

    @property
    def reason(self) -> str:
        """Why it was not measured: `skipped: …`; empty where it was."""
        case = self.case
        return "" if self.measured_s is not None else f"{case.status}: {case.reason or 'no reason was stored'}"

    @property
    def parts_s(self) -> tuple[tuple[str, float], ...]:
        """Part of the pass → expected seconds, the longest first; they add up to the expected time. Empty where none
        were stored.
        """
        expected = self.case.expected
        terms = {} if expected is None or expected.terms_s is None else expected.terms_s
        parts = [(name.removeprefix(PASS_PART), time_s) for name, time_s in terms.items() if name.startswith(PASS_PART)]
        return tuple(sorted(parts, key=lambda part: -part[1]))


@dataclass(frozen=True, slots=True)
class PhaseResult:
    """A phase of a model: its precisions in the order they ran, and which wins."""

    phase: str
    judged: ShapeVerdict
    passes: tuple[PassResult, ...]

    @property
    def is_of_device(self) -> bool:
        """Whether times are the GPU's alone; one that holds launches carries its flag."""
        return any(model_pass.is_of_device for model_pass in self.passes)

    def of(self, option: Option | None) -> PassResult | None:
        """Return the pass of a ranked option."""
        if option is None:
            return None
        return next((model_pass for model_pass in self.passes if model_pass.case.case_key == option.key), None)


@dataclass(frozen=True, slots=True)
class ModelResult:
    """A model at one batch and context on one chip."""

    name: PassName
    """Of its first case; the phase and the new tokens are that case's."""
    hardware_key: str
    cache: str
    mode: str
    phases: tuple[PhaseResult, ...]
    """decode, then prefill, where they ran."""

    @property
    def title(self) -> str:
        """`seeded-llama-156m, batch 1, 128 tokens`, and a mode other than eager."""
        usual = replace(self.name, phase="decode", new_count=1)
        mode = "" if self.mode == "eager" else f", {self.mode}"
        return f"{self.name.model_name}, {usual.sizes_text}{mode}"

    @property
    def is_untrained(self) -> bool:
        """Whether its weights were drawn from a seed: no advice rests on it."""
        return any(model_pass.figures.is_untrained for model_pass in self.passes)

    @property
    def passes(self) -> tuple[PassResult, ...]:
        """All passes, decode first."""
        return tuple(model_pass for phase in self.phases for model_pass in phase.passes)

    def by_label(self) -> dict[str, tuple[PassResult, ...]]:
        """Return label → its passes (one per phase), in the order first met: memory and quality are the model's, not a
        phase's.
        """
        passes_by_label = grouped(self.passes, lambda model_pass: model_pass.label)
        return {label: tuple(members) for label, members in passes_by_label.items()}


def model_results(cases: Iterable[CaseResult], *, is_gap_ignored: bool = False) -> tuple[ModelResult, ...]:
    """Return the models of a run, in the order first met; cases of anything else are passed over.

    `is_gap_ignored`: disturbed times make results, too.
    """
    results: dict[tuple[object, ...], list[CaseResult]] = {}
    for result in cases:
        case, name = result.case, pass_name(result.case.op, result.case.shape)
        if name is not None and result.model is not None:
            sizes = name.batch_count, name.context_count
            key = (name.model_name, sizes, case.cache, case.mode, result.hardware_key)
            results.setdefault(key, []).append(result)
    _move_unpredicted(results)
    return tuple(_model(str(key[-1]), members, is_gap_ignored) for key, members in results.items())


def slow_issue(passes: Sequence[PassResult]) -> Finding | None:
    """Return what the host takes to issue those passes of a phase that the GPU runs faster; None where it runs none
    faster.
    """
    return issue_bound(
        passes[0].figures.phase,
        ((model_pass.label, model_pass.figures.issue_s, model_pass.measured_s) for model_pass in passes),
    )


def pass_label(case: Case, figures: ModelFigures) -> str:
    """Return the display name of a precision: a plan by its name, with the method unless it only rounds."""
    kernel_parts = case.kernel.split(".")
    plan = next((part.removeprefix("plan_") for part in kernel_parts if part.startswith("plan_")), "")
    label = f"plan {plan}" if plan else case.precision_label
    if plan and is_narrow_format(figures.kv_format or "BF16"):
        label += f" + {figures.kv_format} KV"
    return label if figures.method in ("", ROUND_TO_NEAREST) else f"{label}, {figures.method}"


def _model(hardware_key: str, cases: list[CaseResult], is_gap_ignored: bool) -> ModelResult:
    first = cases[0].case
    name = pass_name(first.op, first.shape)
    assert name is not None  # model_results keeps no others
    phases = [_phase(members, is_gap_ignored) for members in groups(cases).values()]
    ordered = tuple(sorted(phases, key=lambda phase: PHASES.index(phase.phase)))
    return ModelResult(name, hardware_key, first.cache, first.mode, ordered)


def _phase(cases: list[CaseResult], is_gap_ignored: bool) -> PhaseResult:
    judged = judge(cases, is_gap_ignored=is_gap_ignored)
    options = {option.key: option for option in judged.options}
    passes = tuple(
        PassResult(
            label=pass_label(case.case, case.model),
            case=case,
            figures=case.model,
            option=(option := options.get(case.case_key)),
            is_baseline=option is not None and option is judged.baseline,
        )
        for case in cases
        if case.model is not None  # model_results keeps no others
    )
    first = pass_name(cases[0].case.op, cases[0].case.shape)
    assert first is not None  # model_results keeps no others
    return PhaseResult(first.phase, judged, passes)


def _move_unpredicted(by_group: dict[tuple[object, ...], list[CaseResult]]) -> None:
    """Put cases that failed before their prediction, and so name no chip, beside the others of their model."""
    for key in [group_key for group_key in by_group if not group_key[-1]]:
        home = next((group_key for group_key in by_group if group_key[:-1] == key[:-1] and group_key[-1]), None)
        if home is not None:
            by_group[home] += by_group.pop(key)
