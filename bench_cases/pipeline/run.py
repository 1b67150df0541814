"""The whole way from a model to a decision: load, recommend, quantise and benchmark, judge, save (the seeds'
`run_pipeline`).

Every finished step is stored in the folder, so that the same command goes on where an interrupted one was. Models are
measured by pytest in processes of their own, as everything here is, and their runs are in the results database.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from bench_cases.models.model_cases import ModelCase
from bench_cases.models.reference import find_model
from bench_cases.pipeline.facts import ModelFacts, SavedModel
from bench_cases.pipeline.measure import Measure, MeasuredPair, MeasureRequest, measure_pair, read_pair
from bench_cases.pipeline.progress import StepClock, Tell, measuring_guess_s
from bench_cases.pipeline.pytest_run import find_chip
from bench_cases.pipeline.recommend import PipelineRecommendation, pipeline_case, recommend_precisions
from bench_cases.pipeline.report import write_reports
from bench_cases.pipeline.result import PipelineResult
from bench_cases.pipeline.settings import PipelineLimits, PipelineSettings, make_settings
from bench_cases.pipeline.state import (
    MODEL_FOLDER,
    RUNS_FOLDER,
    PipelineState,
    one_line_os_errors,
    opened_state,
)
from bench_cases.pipeline.verdict import Verdict, judge, measured_speedup
from bench_cases.quantization.plans.layer_report import ROUND_TO_NEAREST
from bench_cases.quantization.target import read_target
from roofline_model.chips.hardware import Device
from roofline_model.core.answer import Option
from roofline_model.core.definition_text import user_path
from roofline_model.core.errors import StoreError, UnsupportedError
from roofline_model.core.units import format_memory, format_time
from roofline_model.models.decoder_step import Workload, check_context

if TYPE_CHECKING:
    from bench_cases.pipeline.load import OpenedModel

_Answer = TypeVar("_Answer")
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
        clock = StepClock(progress or (lambda event: None))
        return _Pipeline(settings, state, clock, db, seams or PipelineSeams()).run()


class _Pipeline:
    """One run through the steps; each looks first whether it is finished already."""

    def __init__(
        self, settings: PipelineSettings, state: PipelineState, clock: StepClock, db: str | None, seams: PipelineSeams
    ) -> None:
        self._settings, self._state, self._clock, self._db, self._seams = settings, state, clock, db, seams
        self._target = read_target("auto")
        self._reference = find_model(settings.model)

    def run(self) -> PipelineResult:
        settings, device = self._settings, self._target.device
        facts, recommendation = self._look()
        pairs: list[MeasuredPair] = []
        for candidate in recommendation.candidates:
            pairs.append(self._measure(facts, recommendation, candidate, pairs))
        verdict = judge(recommendation, pairs, settings.limits_of(is_seeded=facts.is_seeded))
        runs = zip(recommendation.candidates, pairs, strict=True)
        result = PipelineResult(
            folder=self._state.folder,
            settings=settings,
            wide=self._reference.wide,
            context_count=settings.make_context_count(device),
            facts=facts,
            recommendation=recommendation,
            verdict=verdict,
            saved=self._save(verdict),
            run_ids=tuple((candidate.key, pair.run_id) for candidate, pair in runs if pair.run_id),
        )
        with one_line_os_errors(self._state.folder):
            write_reports(result)
        return result

    def _look(self) -> tuple[ModelFacts, PipelineRecommendation]:
        """Load the model and rank what may be measured."""
        from bench_cases.pipeline.load import OpenedModel

        settings, device = self._settings, self._target.device
        count = settings.candidates_count
        self._clock.plan(["load", "recommend", *["measure"] * count, "save"], {})
        opened = OpenedModel(settings.model, device)
        try:
            facts = self._step("load", ModelFacts, f"loading {self._reference.name}", opened.facts, _facts_text)
            guess = measuring_guess_s(facts.parameters_count, device, settings.processes_count)
            guesses = {"recommend": 10.0, "measure": guess, "save": 10.0}
            self._clock.plan(["recommend", *["measure"] * count, "save"], guesses)
            begun = f"recommending for {settings.phase}, batch {settings.batch_count}"
            recommendation = self._step(
                "recommend", PipelineRecommendation, begun, partial(self._recommend, opened), _ranked_text
            )
        finally:
            opened.close()
        self._clock.plan([*["measure"] * len(recommendation.candidates), "save"], guesses)
        return facts, recommendation

    def _step(
        self,
        name: str,
        kind: type[_Answer],
        begun: str,
        find: Callable[[], _Answer],
        outcome_text: Callable[[_Answer], str],
    ) -> _Answer:
        """Return what a step finds, or found in an earlier run. `outcome_text`: what came out, for people."""
        if self._state.is_finished(name):
            answer, took_s = self._state.answer(name, kind)
            self._clock.reuse(f"{begun}: {outcome_text(answer)}", took_s)
            return answer
        self._clock.begin(begun)
        answer = find()
        self._state.finish(name, answer, self._clock.end(outcome_text(answer)))
        return answer

    def _case(self, precision: str) -> ModelCase:
        return pipeline_case(self._reference, precision, self._settings, self._target.device)

    def _recommend(self, opened: OpenedModel) -> PipelineRecommendation:
        settings, target = self._settings, self._target
        self._reference = reference = opened.reference()
        context = settings.make_context_count(target.device)
        if reference.shape is not None:
            check_context(reference.shape, Workload.of(settings.phase, settings.batch_count, context))
        chip = self._seams.find_chip(settings.hw, self._case(reference.wide))
        if (chip.kind == "cpu") != (target.device == "cpu"):
            raise UnsupportedError(
                f"torch runs on {target} here, which is not {chip.key}: a pipeline measures; `roofline recommend "
                "--model` predicts for other chips"
            )
        return recommend_precisions(
            reference, settings, chip, target, lambda case, work: opened.host_time(case, work, chip)
        )

    def _measure(
        self,
        facts: ModelFacts,
        recommendation: PipelineRecommendation,
        option: Option,
        earlier: Sequence[MeasuredPair],
    ) -> MeasuredPair:
        name, wide, count = f"measure {option.key}", self._reference.wide, self._settings.processes_count
        expected_times_s = [each.times.expected_s for each in (recommendation.baseline, option)]
        request = MeasureRequest(
            baseline=self._case(wide),
            case=self._case(option.key),
            hw=self._settings.hw,
            device=self._target.device,
            db=self._db,
            label=f"pipeline-{self._state.key}-{option.key}",
            folder=self._state.folder / RUNS_FOLDER,
            processes_count=count,
            parameters_count=facts.parameters_count,
            slowest_s=None if None in expected_times_s else max(filter(None, expected_times_s)),
            text=self._settings.text,
        )
        if self._state.is_finished(name) and (stored := _stored_pair(request)) is not None:
            self._clock.reuse(_pair_text(option, stored), self._state.answer(name, str)[1])
            return stored
        self._clock.begin(f"measuring {option.label} beside {wide}, processes: {count}")
        with one_line_os_errors(self._state.folder):
            pair = self._seams.measure(request)
        if not any(each.baseline is not None and each.baseline.pooled is not None for each in (pair, *earlier)):
            log = request.folder / f"{request.name}.log"
            where = f" (pytest's output: {log})" if log.exists() else ""
            reason = pair.reason_of(pair.baseline)
            raise UnsupportedError(f"{wide} of {facts.name} could not be measured: {reason}{where}")
        self._state.finish(name, pair.run_id, self._clock.end(_pair_text(option, pair)))
        return pair

    def _save(self, verdict: Verdict) -> SavedModel | None:
        winner = verdict.winner
        if winner is None or winner.measured is None:
            self._clock.begin("saving the winner")
            self._clock.end("there is none")
            return None
        folder, measured = self._state.folder, winner.measured
        if self._state.is_finished("save"):
            saved, _ = self._state.answer("save", SavedModel)
            if saved.precision != winner.option.key or not (folder / MODEL_FOLDER).is_dir():
                self._state.forget("save")

        def save() -> SavedModel:
            from bench_cases.pipeline.save import save_winner

            case = self._case(winner.option.key)
            with one_line_os_errors(folder):
                return save_winner(case, measured, folder, self._target.device, self._settings.text)

        return self._step("save", SavedModel, f"quantising and saving {winner.name}", save, _saved_text)


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


def _saved_text(saved: SavedModel) -> str:
    return f"{format_memory(saved.saved_bytes)}, equal logits"


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
