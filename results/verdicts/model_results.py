"""Whole models as a reader compares them: per model, batch and context the precisions side by side, and what to take.

A *pass* is one case with its processes pooled, beside what its record says of memory, quality and energy.
`shape_verdict` says which is fastest, `phase_ranking` which to take. Pure values over records.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from results.records.model_figures import ModelFigures, model_figures
from results.records.records import Record
from results.statistics.replication import TotalInterval, total_intervals
from results.verdicts.shape_verdict import (
    ShapeVerdict,
    Totals,
    expected_speedup,
    groups,
    judge,
    speedups,
)
from roofline_model.core.answer import Option
from roofline_model.core.finding import Finding
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
    records: tuple[Record, ...]
    """Its processes, the one that speaks for it first."""
    figures: ModelFigures
    """Of the first process that measured it."""
    option: Option | None
    """Its times, as the verdict ranks them; None: neither timed nor predicted; `reason` says why."""
    is_baseline: bool
    """Whether speed-ups are counted against it."""
    ideal_speedup: float | None
    expected_speedup: float | None
    measured_speedup: float | None
    interval_ratio: float | None
    """± as a share of the median: over processes where that is known, else within the widest process."""
    is_interval_total: bool

    @property
    def measured_s(self) -> float | None:
        """Median over its processes."""
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
        lead = self.records[0]
        return "" if self.measured_s is not None else f"{lead.status}: {lead.reason or 'no reason was stored'}"

    @property
    def parts_s(self) -> tuple[tuple[str, float], ...]:
        """Part of the pass → expected seconds, the longest first; they add up to the expected time. Empty where none
        were stored.
        """
        expected = next((record.expected for record in self.records if record.expected is not None), None)
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
        return next(
            (model_pass for model_pass in self.passes if model_pass.records[0].case.case_key == option.key), None
        )


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
        passes_by_label: dict[str, list[PassResult]] = {}
        for model_pass in self.passes:
            passes_by_label.setdefault(model_pass.label, []).append(model_pass)
        return {label: tuple(members) for label, members in passes_by_label.items()}


def model_results(
    records: Iterable[Record], totals: Totals | None = None, *, is_gap_ignored: bool = False
) -> tuple[ModelResult, ...]:
    """Return the models of a run, in the order first met; records of anything else are passed over.

    `totals`: the intervals over processes by case key, as `total_intervals` gives them; None: from these records.
    `is_gap_ignored`: disturbed times make results, too.
    """
    records = tuple(
        candidate
        for candidate in records
        if pass_name(candidate.case.op, candidate.case.shape) and model_figures(candidate)
    )
    totals = total_intervals(records) if totals is None else totals
    results: dict[tuple[object, ...], list[Record]] = {}
    for record in records:
        name = pass_name(record.case.op, record.case.shape)
        assert name is not None  # kept above
        sizes = name.batch_count, name.context_count
        chip = next((prediction.hardware_key for prediction in record.predictions), "")
        results.setdefault((name.model_name, sizes, record.case.cache, record.case.mode, chip), []).append(record)
    _move_unpredicted(results)
    return tuple(_model(str(key[-1]), members, totals, is_gap_ignored) for key, members in results.items())


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


def _model(hardware_key: str, records: list[Record], totals: Totals, is_gap_ignored: bool) -> ModelResult:
    first = records[0].case
    name = pass_name(first.op, first.shape)
    assert name is not None  # model_results keeps no others
    phases = [_phase(members, totals, is_gap_ignored) for members in groups(records).values()]
    ordered = tuple(sorted(phases, key=lambda phase: PHASES.index(phase.phase)))
    return ModelResult(name, hardware_key, first.cache, first.mode, ordered)


def _phase(records: list[Record], totals: Totals, is_gap_ignored: bool) -> PhaseResult:
    judged = judge(records, totals, is_gap_ignored=is_gap_ignored)
    by_case = {option.key: option for option in judged.ranked}
    members: dict[str, list[Record]] = {}
    for record in records:
        members.setdefault(record.case.case_key, []).append(record)
    passes = [
        _pass(tuple(pass_records), by_case.get(key), judged.baseline, totals.get(key))
        for key, pass_records in members.items()
    ]
    first = pass_name(records[0].case.op, records[0].case.shape)
    assert first is not None  # model_results keeps no others
    return PhaseResult(first.phase, judged, tuple(passes))


def _pass(
    records: tuple[Record, ...], option: Option | None, baseline: Option | None, total: TotalInterval | None
) -> PassResult:
    lead = next((record for record in records if record.status == "measured"), records[0])
    ordered = (lead, *(record for record in records if record is not lead))
    figures = model_figures(lead)
    assert figures is not None  # model_results keeps no others
    ideal, measured = speedups(option, baseline)
    over_processes = None if total is None else total.half_width_ratio
    within = [record.measurement.ci_half_width_ratio for record in records if record.measurement is not None]
    widest = max((ratio for ratio in within if ratio is not None), default=None)
    return PassResult(
        label=pass_label(lead.case, figures),
        records=ordered,
        figures=figures,
        option=option,
        is_baseline=option is not None and option is baseline,
        ideal_speedup=ideal,
        expected_speedup=expected_speedup(option, baseline),
        measured_speedup=measured,
        interval_ratio=widest if over_processes is None else over_processes,
        is_interval_total=over_processes is not None,
    )


def _move_unpredicted(by_group: dict[tuple[object, ...], list[Record]]) -> None:
    """Put records that failed before their prediction, and so name no chip, beside the others of their model."""
    for key in [group_key for group_key in by_group if not group_key[-1]]:
        home = next((group_key for group_key in by_group if group_key[:-1] == key[:-1] and group_key[-1]), None)
        if home is not None:
            by_group[home] += by_group.pop(key)
