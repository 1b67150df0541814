"""The whole way from a model to a decision: load, recommend, quantise and benchmark, judge, save (the seeds'
`run_pipeline`).

Every finished step is stored in the folder, so that the same command goes on where an interrupted one was. Models are
measured by pytest in processes of their own, as everything here is, and their runs are in the results database.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from bench_cases.models.model_cases import ModelCase
from bench_cases.models.reference import ModelReference, find_model
from bench_cases.pipeline.facts import ModelFacts, SavedModel, facts_from_plain, saved_from_plain
from bench_cases.pipeline.measure import Measure, MeasuredPair, MeasureRequest, measure_pair, read_pair
from bench_cases.pipeline.progress import PipelineEvent, StepClock, Tell, measuring_guess_s
from bench_cases.pipeline.pytest_run import find_chip
from bench_cases.pipeline.recommend import (
    PipelineRecommendation,
    pipeline_case,
    recommend_precisions,
    recommendation_from_plain,
)
from bench_cases.pipeline.report import write_reports
from bench_cases.pipeline.result import PipelineResult
from bench_cases.pipeline.settings import PipelineLimits, PipelineSettings, make_settings
from bench_cases.pipeline.state import (
    MODEL_FOLDER,
    RUNS_FOLDER,
    STATE_FILE,
    PipelineState,
    one_line_os_errors,
    opened_state,
)
from bench_cases.pipeline.verdict import Verdict, judge, measured_speedup
from bench_cases.quantization.plans.layer_report import ROUND_TO_NEAREST
from bench_cases.quantization.target import Target, read_target
from roofline_model.chips.hardware import Device
from roofline_model.core.answer import Option
from roofline_model.core.definition_text import user_path
from roofline_model.core.errors import DefinitionError, StoreError, UnsupportedError
from roofline_model.core.units import format_memory, format_time
from roofline_model.models.decoder_step import Workload, check_context

if TYPE_CHECKING:
    from bench_cases.pipeline.load import OpenedModel

_Parsed = TypeVar("_Parsed")
FindChip = Callable[[str, ModelCase], Device]


@dataclass(frozen=True, slots=True)
class PipelineSeams:
    """Calls that leave the process; tests replace them."""

    measure: Measure = measure_pair
    find_chip: FindChip = find_chip


def run_pipeline(
    model: str | Path,
    output: str | Path,
    *,
    hw: str = "auto",
    phase: str = "decode",
    batch: int = 1,
    context: int | None = None,
    memory_limit_gb: float | None = None,
    max_latency_ms: float | None = None,
    max_quality_loss: float | None = None,
    candidates: int = 3,
    formats: Sequence[str] | None = None,
    method: str = ROUND_TO_NEAREST,
    text: str | Path | None = None,
    processes: int = 3,
    db: str | None = None,
    fresh: bool = False,
    progress: Tell | None = None,
    begin: Callable[[], None] | None = None,
    seams: PipelineSeams | None = None,
) -> PipelineResult:
    """Load, recommend, quantise, benchmark and judge a model; save the winner, if there is one, and a report into
    `output`.

    model: a seeded name, a folder as `save_pretrained` writes it, or a hub id. Limits: weights and cache together in
    decimal gigabytes, the time of one pass, the rise of the perplexity in percent (None: 3 %, and no limit of untrained
    weights). candidates: how many precisions are measured; formats: which ones may be (None: all that this device
    really runs). processes: fresh processes per candidate, each measures it beside the 16-bit model. db: results
    database of the runs. fresh: forget what `output` holds of an earlier pipeline; without it, finished steps of the
    same settings are used again. begin: called when the question is found right, before anything is loaded.

    Raises a `RooflineError` in one line: a model that does not load or has nothing to quantise, other settings in the
    folder, a full disk, a machine that is not `hw`. No limit that is missed and no candidate that fails is an error:
    see the verdict.
    """
    settings = make_settings(
        model,
        hw=hw,
        phase=phase,
        batch=batch,
        context=context,
        candidates=candidates,
        processes=processes,
        formats=None if formats is None else tuple(formats),
        method=method,
        text=text,
        limits=PipelineLimits(
            None if memory_limit_gb is None else memory_limit_gb * 1e9,
            None if max_latency_ms is None else max_latency_ms * 1e-3,
            max_quality_loss,
        ),
    )
    find_model(settings.model)
    folder = user_path(output)
    if begin is not None:
        begin()
    with opened_state(folder, settings.described(), is_fresh=fresh) as state:
        clock = StepClock(progress or _silent)
        return _Pipeline(settings, state, clock, db, seams or PipelineSeams()).run()


def _silent(event: PipelineEvent) -> None:
    """Tell nobody."""


@dataclass(frozen=True, slots=True)
class _Context:
    """Facts of the model and chip, and the recommendation, before anything is measured."""

    facts: ModelFacts
    reference: ModelReference
    recommendation: PipelineRecommendation
    hardware: str
    device: str


class _Pipeline:
    """One run through the steps; each looks first whether it is finished already."""

    def __init__(
        self, settings: PipelineSettings, state: PipelineState, clock: StepClock, db: str | None, seams: PipelineSeams
    ) -> None:
        self._settings, self._state, self._clock, self._db, self._seams = settings, state, clock, db, seams

    def run(self) -> PipelineResult:
        context = self._look()
        pairs: list[MeasuredPair] = []
        for candidate in context.recommendation.candidates:
            pairs.append(self._measure(context, candidate, pairs))
        limits = self._settings.limits_of(is_seeded=context.facts.is_seeded)
        verdict = judge(context.recommendation, pairs, limits)
        saved = self._save(context, verdict)
        result = PipelineResult(
            folder=self._state.folder,
            settings=self._settings,
            hardware=context.hardware,
            wide=context.reference.wide,
            context_count=self._settings.make_context_count(context.device),
            facts=context.facts,
            recommendation=context.recommendation,
            verdict=verdict,
            saved=saved,
            run_ids=tuple(
                (candidate.key, pair.run_id)
                for candidate, pair in zip(context.recommendation.candidates, pairs, strict=True)
                if pair.run_id
            ),
        )
        with one_line_os_errors(self._state.folder):
            write_reports(result)
        return result

    def _look(self) -> _Context:
        """Load the model and rank what may be measured."""
        from bench_cases.pipeline.load import OpenedModel

        target = read_target("auto")
        self._clock.plan(["load", "recommend", *["measure"] * self._settings.candidates_count, "save"], {})
        opened = OpenedModel(self._settings.model, target.device)
        try:
            facts = self._load(opened)
            self._plan(facts, target.device, self._settings.candidates_count, done=1)
            context = self._recommend(opened, facts, target)
        finally:
            opened.close()
        self._plan(facts, target.device, len(context.recommendation.candidates), done=2)
        return context

    def _plan(self, facts: ModelFacts, device: str, measured: int, done: int) -> None:
        steps = ["load", "recommend"][done:] + ["measure"] * measured + ["save"]
        guess = measuring_guess_s(facts.parameters_count, device, self._settings.processes_count)
        self._clock.plan(steps, {"recommend": 10.0, "measure": guess, "save": 10.0})

    def _load(self, opened: OpenedModel) -> ModelFacts:
        stored = self._state.stored_answer("load")
        if stored is not None:
            facts = self._read(lambda: facts_from_plain(stored["facts"]))
            self._clock.reuse(f"loading {facts.name}: {_facts_text(facts)}", stored.get("took_s"))
            return facts
        self._clock.begin(f"loading {find_model(self._settings.model).name}")
        facts = opened.facts()
        self._state.finish("load", {"facts": facts.plain(), "took_s": self._clock.end(_facts_text(facts))})
        return facts

    def _recommend(self, opened: OpenedModel, facts: ModelFacts, target: Target) -> _Context:
        stored = self._state.stored_answer("recommend")
        if stored is not None:
            recommendation = self._read(lambda: recommendation_from_plain(stored["recommendation"]))
            reference = find_model(self._settings.model)
            self._clock.reuse(f"recommending: {_ranked_text(recommendation)}", stored.get("took_s"))
            return _Context(facts, reference, recommendation, str(stored.get("hardware")), target.device)
        settings = self._settings
        self._clock.begin(f"recommending for {settings.phase}, batch {settings.batch_count}")
        reference = opened.reference()
        context = settings.make_context_count(target.device)
        if reference.shape is not None:
            check_context(reference.shape, Workload.of(settings.phase, settings.batch_count, context))
        chip = self._seams.find_chip(settings.hw, pipeline_case(reference, reference.wide, settings, target.device))
        if (chip.kind == "cpu") != (target.device == "cpu"):
            raise UnsupportedError(
                f"torch runs on {target} here, which is not {chip.key}: a pipeline measures; `roofline recommend "
                "--model` predicts for other chips"
            )
        recommendation = recommend_precisions(
            reference, settings, chip, target, lambda case, work: opened.host_time(case, work, chip)
        )
        took_s = self._clock.end(_ranked_text(recommendation))
        answer = {"recommendation": recommendation.plain(), "hardware": chip.key, "took_s": took_s}
        self._state.finish("recommend", answer)
        return _Context(facts, reference, recommendation, chip.key, target.device)

    def _measure(self, context: _Context, option: Option, earlier: Sequence[MeasuredPair]) -> MeasuredPair:
        name, wide, request = f"measure {option.key}", context.reference.wide, self._request(context, option)
        stored = self._state.stored_answer(name)
        pair = None if stored is None else _stored_pair(request)
        if stored is not None and pair is not None:
            self._clock.reuse(_pair_text(option, pair), stored.get("took_s"))
            return pair
        count = self._settings.processes_count
        self._clock.begin(f"measuring {option.label} beside {wide}, processes: {count}")
        with one_line_os_errors(self._state.folder):
            pair = self._seams.measure(request)
        if not any(each.baseline is not None and each.baseline.pooled is not None for each in (pair, *earlier)):
            log = self._state.folder / RUNS_FOLDER / f"{request.name}.log"
            where = f" (pytest's output: {log})" if log.exists() else ""
            reason = pair.reason_of(pair.baseline)
            raise UnsupportedError(f"{wide} of {context.facts.name} could not be measured: {reason}{where}")
        self._state.finish(name, {"took_s": self._clock.end(_pair_text(option, pair))})
        return pair

    def _request(self, context: _Context, option: Option) -> MeasureRequest:
        settings, device = self._settings, context.device
        baseline = context.recommendation.baseline
        expected_times_s = [time for time in (baseline.times.expected_s, option.times.expected_s) if time is not None]
        return MeasureRequest(
            baseline=pipeline_case(context.reference, context.reference.wide, settings, device),
            case=pipeline_case(context.reference, option.key, settings, device),
            hw=settings.hw,
            device=device,
            db=self._db,
            label=f"pipeline-{self._state.key}-{option.key}",
            folder=self._state.folder / RUNS_FOLDER,
            processes_count=settings.processes_count,
            parameters_count=context.facts.parameters_count,
            slowest_s=max(expected_times_s) if len(expected_times_s) == 2 else None,
            text=settings.text,
        )

    def _read(self, parse: Callable[[], _Parsed]) -> _Parsed:
        """Return a stored step; raises `DefinitionError` for one that another release wrote, or a person changed."""
        try:
            return parse()
        except (KeyError, TypeError, ValueError) as error:
            raise DefinitionError(
                f"{self._state.folder / STATE_FILE} holds a step of another form ({error}): start again with --fresh"
            ) from None

    def _save(self, context: _Context, verdict: Verdict) -> SavedModel | None:
        winner = verdict.winner
        if winner is None:
            self._clock.begin("saving the winner")
            self._clock.end("there is none")
            return None
        stored = self._state.stored_answer("save")
        model_folder = self._state.folder / MODEL_FOLDER
        if stored is not None and stored.get("precision") == winner.option.key and model_folder.is_dir():
            saved = self._read(lambda: saved_from_plain(stored["saved"]))
            self._clock.reuse(f"saving {winner.name}: {format_memory(saved.saved_bytes)}", stored.get("took_s"))
            return saved
        from bench_cases.pipeline.save import save_winner

        self._clock.begin(f"quantising and saving {winner.name}")
        case = pipeline_case(context.reference, winner.option.key, self._settings, context.device)
        with one_line_os_errors(self._state.folder):
            assert winner.measured is not None, "a winner was measured"
            saved = save_winner(case, winner.measured, self._state.folder, context.device, self._settings.text)
        took_s = self._clock.end(f"{format_memory(saved.saved_bytes)}, equal logits")
        self._state.finish("save", {"precision": winner.option.key, "saved": saved.plain(), "took_s": took_s})
        return saved


def _stored_pair(request: MeasureRequest) -> MeasuredPair | None:
    """Return what an earlier pipeline measured; None where that is gone, or failed: it is measured again."""
    try:
        pair = read_pair(request)
    except StoreError:
        return None
    return None if pair.candidate is None or pair.candidate.status == "failed" else pair


def _facts_text(facts: ModelFacts) -> str:
    size = format_memory(facts.model_bytes)
    return f"{facts.class_name}, {facts.parameters_count / 1e6:.4g} M parameters, {facts.linears_count} Linears, {size}"


def _ranked_text(recommendation: PipelineRecommendation) -> str:
    speedups = []
    for candidate in recommendation.candidates:
        expected = recommendation.speedup(candidate, "expected")
        speedups.append(f"{candidate.label} {'unknown' if expected is None else f'{expected:.2f}×'}")
    large = "; ".join(f"{option.label} is too large" for option in recommendation.too_large)
    return "; ".join(
        part for part in (f"expected {', '.join(speedups)}" if speedups else "no candidate", large) if part
    )


def _pair_text(option: Option, pair: MeasuredPair) -> str:
    baseline, candidate = pair.baseline, pair.candidate
    speedup = measured_speedup(baseline, candidate)
    if speedup is None or baseline is None or candidate is None:
        status = "failed" if candidate is None else candidate.status
        unmeasured = candidate if candidate is None or candidate.pooled is None else baseline
        return f"{option.key}: {status}: {pair.reason_of(unmeasured)}"
    return f"{option.key}: {format_time(candidate.measured_s)} against {format_time(baseline.measured_s)}, {speedup}"
