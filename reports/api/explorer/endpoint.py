"""GET /api/explorer/{part}: the explorer page's own. The page sends its address and shows the blocks that come back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

import anyio
from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic_core import to_json

from reports.api.answer_models import json_response
from reports.api.catalog.chip_lookup import DEFAULT_CHIP, asked_chip, find_chip, find_model
from reports.api.catalog.sensors import SharedSensors
from reports.api.explorer.address import MOST_CHIPS, Address, input_errors, listed
from reports.api.explorer.chips import chip_facts, chips_blocks, unknown_chip
from reports.api.explorer.gpu import gpu_blocks
from reports.api.explorer.measured import MOST_CASES, asked_blocks, run_blocks, run_title, runs_text
from reports.api.explorer.questions import USUAL_FORMATS, ChipAnswer, Question
from reports.api.explorer.sections import (
    answer_blocks,
    batches_blocks,
    formats_blocks,
    prediction_blocks,
    ranking_blocks,
    tiling_blocks,
    time_blocks,
)
from reports.api.http.problem import ProblemError
from reports.api.http.service import Service, computed
from reports.api.predict.whole_model import BatchRequest, curves_of_model
from reports.api.stored.run_endpoints import ReadRun, cases_with, fastest_cases, read_run
from reports.present.answers.batches import batch_answer
from reports.present.block_json import block_json
from reports.present.blocks import Block, FigureBlock, Heading, Paragraph
from reports.present.display_text import printable
from reports.present.predicted.row import Row
from roofline_model.chips.hardware import Device
from roofline_model.core.errors import RooflineError
from roofline_model.formats.catalog import format_pair
from roofline_model.predictions.batches import with_limits
from roofline_model.predictions.tiling import product_curve, product_tiling

if TYPE_CHECKING:
    from results.cases.case_result import CaseResult

router = APIRouter(include_in_schema=False)

MOST_RUNS = 100
Part = Literal["answer", "chips", "batches", "measured", "gpu"]
Sections = Mapping[str, Iterable[Block]]


@router.get("/api/explorer/{part}")
async def explorer_part(request: Request, part: Part, address: Annotated[Address, Query()]) -> Response:
    """One part of the page for an address: its sections as blocks, its figures, and which inputs are wrong."""
    make: Callable[..., dict[str, Any]] = {
        "answer": answer_part, "chips": chips_part, "batches": batches_part, "measured": measured_part, "gpu": gpu_part,
    }[part]  # fmt: skip
    asked = partial(make, request, address)
    is_long = address.operator == "model" and part in ("answer", "chips", "batches")
    document = await (computed(request, asked) if is_long else anyio.to_thread.run_sync(asked))
    return json_response(to_json(document, inf_nan_mode="null"))


def answer_part(request: Request, address: Address) -> dict[str, Any]:
    """Return what is said of the chosen chip: the answer, one format's prediction, the formats side by side."""
    try:
        handle = asked_chip(request, address.hw or DEFAULT_CHIP)
    except ProblemError as problem:
        is_auto = address.hw.lower() == "auto"
        error = str(problem.detail) if is_auto else f"No chip here is called “{address.hw}”."
        unknown = unknown_chip(address, address.hw, _nearest(problem), is_compared=False)
        refusal = Paragraph(error, "bad") if is_auto else unknown
        return {"errors": {"hw": error}, "sections": _blocks({"answer": [refusal]}, ANSWER_SECTIONS)}
    chip = find_chip(handle)
    about = {"hw": "auto" if handle.startswith("auto:") else chip.key, "chip_facts": chip_facts(chip)}
    try:
        question = Question(address)
    except ProblemError as problem:
        refusal = Paragraph("No prediction until the marked input is mended.", "verdict")
        return {**about, "errors": input_errors(problem), "sections": _blocks({"answer": [refusal]}, ANSWER_SECTIONS)}
    answer = question.ask(handle)
    focus = answer.focus(address.focus)
    read = _run_of(request, address)
    if read is not None and read.run.hardware_key != chip.key:
        read = None  # its points are drawn under its own roofs
    cases = [] if read is None else cases_with(read, address.words, "measured")[:MOST_CASES]
    tile, figures = ([], {}) if focus is None else _tiling(question, chip, focus)
    sections: dict[str, Iterable[Block]] = {"answer": answer_blocks(answer)}
    if focus is not None:
        measured = _fastest(read, question)
        sections |= {
            "prediction": prediction_blocks(focus, is_misfit=bool(answer.misfit)),
            "formats": formats_blocks(question, answer, focus, measured),
            "time": [*time_blocks(focus), *tile],
        }
    if focus is not None or cases:
        named = [row.cells[0] for row in answer.short.rows] if answer.short else []
        figures["roofline"] = _roofline(answer.rows, cases, focus, named)
        label = f"Roofline of {chip.name}. The table of formats has the numbers."
        sections["roofline"] = [FigureBlock("roofline", label)]
    if answer.advice is not None:
        sections["ranking"] = ranking_blocks(answer.advice)
    return {
        **about,
        "title": f"{question.title} on {chip.name}",
        "asked": f"{question.title} · {chip.name}",
        "model": find_model(address.model).name if address.operator == "model" else "",
        "formats": _choices(question, chip),
        "errors": input_errors(answer.problem) if isinstance(answer.problem, ProblemError) else {},
        "sections": _blocks(sections, ANSWER_SECTIONS),
        "figures": figures,
    }


ANSWER_SECTIONS = ("answer", "prediction", "roofline", "formats", "time", "ranking")


def _nearest(problem: ProblemError) -> list[Device]:
    """Return the chips whose names come near one that is not known, each once."""
    chips = [find_chip(name) for fault in problem.fields for name in fault.nearest]
    return list({chip.key: chip for chip in chips}.values())


def _blocks(sections: Sections, names: Iterable[str]) -> dict[str, Any]:
    """Return sections as JSON; those without blocks are empty, so that the page takes theirs away."""
    return {name: block_json(list(sections.get(name, ())), printable) for name in names}


def _choices(question: Question, chip: Device) -> list[dict[str, Any]]:
    """Return the formats that the form offers, with those that are chosen."""
    chosen, base = question.formats(chip), question.base(chip)
    offered = dict.fromkeys((*USUAL_FORMATS, f"INT4.{base}", f"INT8.{base}", *chosen))
    return [{"key": key, "label": question.format_label(key), "is_chosen": key in chosen} for key in offered]


def _roofline(
    rows: Iterable[Row], cases: list[CaseResult], focus: Row | None, named: Iterable[str] = ()
) -> dict[str, Any]:
    """Return the roofline of formats and cases; `named`: labels of other formats on the page, to be coloured alike."""
    from reports.figures.drawing.plotly_drawer import plotly_json
    from reports.figures.options_roofline import options_colours, options_roofline

    rows = list(rows)
    figure = plotly_json(options_roofline(rows, cases, None if focus is None else focus.key), with_texts=True)
    colours = options_colours(rows, cases, named)
    return {**figure, "colours": {label: list(colour[:2]) for label, colour in colours.items()}}


def _tiling(question: Question, chip: Device, row: Row) -> tuple[list[Block], dict[str, Any]]:
    """Return the tile of a row's product with its figure; nothing for what has none: other operators, chips without
    tiles, and products without an expected time, for a tile is a choice of the kernel that would have one.
    """
    from reports.figures.drawing.plotly_drawer import figure_json
    from reports.figures.tiling import efficiency_figure
    from roofline_model.core.finding import reason_text

    if question.shape is None or chip.kind == "cpu" or row.expected is None:
        return [], {}
    pair, cache, (rows, columns, inner) = format_pair(row.key), question.address.cache, question.shape
    try:
        answer = product_tiling(chip, question.shape, pair, cache=cache)
        blocks = list(tiling_blocks(answer.tiling, reason_text(answer.tiling_reason)))
        if answer.tiling is None:
            return blocks, {}
        curve = product_curve(chip, question.shape, pair, cache=cache)
    except RooflineError as error:
        return [Heading(3, "Tiling"), Paragraph(str(error))], {}
    title = f"Efficiency against N: M = {rows}, K = {inner}, {chip.name}"
    return blocks, {"tiling": figure_json(efficiency_figure(curve, title=title, asked_columns=columns))}


def _run_of(request: Request, address: Address) -> ReadRun | None:
    """Return the chosen run; None where there is none or it cannot be read: the measured part says why."""
    if not _is_name(address.run):
        return None
    try:
        return read_run(request.app.state.service, address.run)
    except ProblemError:
        return None


def _is_name(text: str) -> bool:
    return bool(text) and text.isprintable()


def _fastest(read: ReadRun | None, question: Question) -> dict[tuple[str, str], CaseResult]:
    if read is None or question.shape is None:
        return {}
    return fastest_cases(read, question.shape, question.address.cache)


def chips_part(request: Request, address: Address) -> dict[str, Any]:
    """Return the chips side by side, the chosen one first."""
    try:
        question = Question(address)
        main = question.ask(asked_chip(request, address.hw or DEFAULT_CHIP))
    except ProblemError:
        return {"sections": _blocks({}, ("chips",)), "compared": []}
    compared: dict[str, ChipAnswer | Paragraph] = {}
    for name in listed(address.compare, MOST_CHIPS):
        try:
            handle = asked_chip(request, name)
        except ProblemError as problem:
            compared[name] = unknown_chip(address, name, _nearest(problem), is_compared=True)
            continue
        if main.chip is not None and find_chip(handle).key != main.chip.key:
            compared[name] = question.ask(handle)
    chips = [("", main), *compared.items()][:MOST_CHIPS]
    return {
        "sections": _blocks({"chips": chips_blocks(address, chips, main.focus(address.focus))}, ("chips",)),
        "compared": [name for name, _ in chips[1:]],
    }


def batches_part(request: Request, address: Address) -> dict[str, Any]:
    """Return the curves of batch against latency within two limits of time, and the steps of their sliders."""
    from reports.figures.batches import batch_figure
    from reports.figures.drawing.plotly_drawer import plotly_json

    fields = ("context_tokens", "memory_limit_gb", "max_loss_pct", "max_token_s", "max_first_token_s")
    try:
        body = address.body(BatchRequest, fields)
        model, chip = find_model(address.model).name, asked_chip(request, address.hw or DEFAULT_CHIP)
    except ProblemError:
        return {"sections": _blocks({}, ("batches",)), "sliders": {}, "figures": {}}
    curves = curves_of_model(model, chip, body.context_tokens, body.memory_limit_gb, body.max_loss_pct)
    held = with_limits(curves, max_token_s=body.max_token_s, max_first_token_s=body.max_first_token_s)
    figure = plotly_json(batch_figure(held), with_texts=True)
    answer = batch_answer(held, figure)
    steps = {"token": answer.token_steps, "first": answer.first_token_steps}
    return {
        "sections": _blocks({"batches": batches_blocks(answer, has_figure=bool(figure["data"]))}, ("batches",)),
        "sliders": {name: [[step.value_s, step.text] for step in offered] for name, offered in steps.items()},
        "figures": {"batches": figure},
    }


def measured_part(request: Request, address: Address) -> dict[str, Any]:
    """Return the runs of the database, the measured cases of the chosen one, and what all of them say."""
    service: Service = request.app.state.service
    names = ("measured", "stored")
    try:
        with service.store.reading() as store:
            runs = list(store.runs())[:MOST_RUNS]
        if not address.run:
            text = runs_text(runs)
            sections: dict[str, list[Block]] = {"measured": [Paragraph(text, "quiet")]}
            figures: dict[str, Any] = {}
        else:
            sections, figures = _run_part(request, address)
    except ProblemError as problem:
        runs, figures = [], {}
        text = str(problem.detail)
        if problem.slug == "no-database":
            text = (
                "There is no results database here yet. `pytest bench_cases -k gemv` makes one; `roofline serve --db "
                "PATH` names another."
            )
        sections = {"measured": [Paragraph(text, "bad" if problem.status_code != 404 else "plain")]}
    else:
        sections["stored"] = _stored(request, address, {run.hardware_key for run in runs})
    listed_runs = [[run.run_id, run_title(run)] for run in runs]
    return {"sections": _blocks(sections, names), "figures": figures, "runs": listed_runs}


def _run_part(request: Request, address: Address) -> tuple[dict[str, list[Block]], dict[str, Any]]:
    if not _is_name(address.run):
        raise ProblemError(404, "unknown-run", "no run has such a name")
    read = read_run(request.app.state.service, address.run)
    cases = cases_with(read, address.words, "measured")
    try:
        chip_key = find_chip(asked_chip(request, address.hw or DEFAULT_CHIP)).key
    except ProblemError:
        chip_key = ""
    is_here = read.run.hardware_key == chip_key
    figures = {} if is_here or not cases else {"measured": _roofline((), cases[:MOST_CASES], None)}
    blocks = run_blocks(read, cases, chip_key=chip_key, has_words=bool(address.words))
    return {"measured": list(blocks)}, figures


def _stored(request: Request, address: Address, stored_chips: set[str]) -> list[Block]:
    """Return what the stored runs recommend; nothing of chips without runs, and of what the store cannot be asked."""
    from results.rankings import StoredQuestion, recommend_from_store

    service: Service = request.app.state.service
    try:
        chip = find_chip(asked_chip(request, address.hw or DEFAULT_CHIP))
        question = Question(address)
    except ProblemError:
        return []
    if chip.key not in stored_chips or address.operator == "attention":
        return []
    asked = (
        StoredQuestion(hardware_key=chip.key, model=find_model(address.model).name, phase=address.phase)
        if question.shape is None
        else StoredQuestion(hardware_key=chip.key, shape=question.shape)
    )
    answer = service.store.answer(("explorer", asked), lambda store: recommend_from_store(store, asked))
    return list(asked_blocks(answer, address.cache))


def gpu_part(request: Request, address: Address) -> dict[str, Any]:
    """Return what the sensors of this server's GPU say."""
    sensors: SharedSensors = request.app.state.service.sensors
    status = sensors.read()
    reading = status.reading
    return {
        "sections": _blocks({"gpu": gpu_blocks(status)}, ("gpu",)),
        "name": status.name or "GPU" if status.available else "",
        "power_w": None if reading is None else reading.power_w,
    }
