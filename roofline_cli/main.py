"""The `roofline` command line: the app, its commands, and the entry point."""

from __future__ import annotations

import os
import sys
from importlib import metadata
from typing import Annotated

import typer

from roofline_cli import (
    calibrate,
    compare,
    db,
    diff,
    doctor,
    fit,
    formats,
    hardware,
    history,
    losses,
    pipeline,
    predict,
    prune,
    recommend,
    report,
    runs,
    serve,
    stored_runs,
    sweep,
    tiling,
    transfer,
    transfer_import,
    validate,
)
from roofline_cli.group import RooflineGroup

app = typer.Typer(
    cls=RooflineGroup,
    help="Predict transformer-inference kernels from roofline theory, compare with measurements, choose a numeric format.",
    epilog="Start with `roofline doctor`, then `roofline predict gemv -N 4096 -K 4096 --hw gb10`.",
    add_completion=False,
    # Plain help and errors: readable when piped, and starting the command does not load rich.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(predict.app, name="predict")
app.command("recommend")(recommend.recommend)
app.command("pipeline")(pipeline.pipeline)
app.command("losses")(losses.losses)
app.command("tiling")(tiling.tiling)
app.command("sweep")(sweep.sweep)
app.add_typer(compare.app, name="compare")
app.command("formats")(formats.formats)
app.add_typer(hardware.app, name="hardware")
app.add_typer(stored_runs.app, name="runs")
app.command("show")(runs.show_run)
app.command("diff")(diff.diff_runs)
app.command("history")(history.history)
app.command("export")(transfer.export_run)
app.command("import")(transfer_import.import_files)
app.add_typer(db.app, name="db")
app.command("prune")(prune.prune)
app.command("report")(report.write_run_report)
app.command("serve")(serve.serve)
app.command("calibrate")(calibrate.calibrate)
app.command("fit")(fit.fit)
app.command("validate")(validate.validate)
app.command("doctor")(doctor.doctor)


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Predict, measure, compare, decide."""
    if version:
        typer.echo(f"roofline-bench {installed_version()}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def installed_version() -> str:
    """Return the version of the installed distribution, or say that this is a checkout."""
    try:
        return metadata.version("roofline-bench")
    except metadata.PackageNotFoundError:
        return "(checkout, not installed)"


def run() -> None:
    """Run the command line; the console script comes here by `entry.run`."""
    # A caller that closed a stream (`>&-`) leaves None in its place; what is said there goes nowhere.
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115  # open as long as the process lives
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        # A locale without µ or × must not turn a table into a traceback.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    app(prog_name="roofline")
