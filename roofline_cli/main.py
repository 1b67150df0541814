"""The `roofline` command line: the app, its commands, and the entry point."""

from __future__ import annotations

import os
import sys
from importlib import metadata
from typing import Annotated, ClassVar

import typer

from roofline_cli.shared.group import LazyCommand, LazyGroup, RooflineGroup


class PredictCommands(LazyGroup):
    """The commands of `roofline predict`."""

    entries: ClassVar = {
        "gemv": LazyCommand(
            "roofline_cli.predict.products:predict_gemv", "Predict y = x·W of a decode step (M from 1 to 16)."
        ),
        "gemm": LazyCommand("roofline_cli.predict.products:predict_gemm", "Predict C(M×N) = A(M×K)·B(K×N)."),
        "attention": LazyCommand(
            "roofline_cli.predict.attention:predict_attention", "Predict fused attention, per format of the cache."
        ),
        "ffn": LazyCommand("roofline_cli.predict.ffn:predict_ffn", "Predict a feed-forward block, kernel by kernel."),
        "model": LazyCommand(
            "roofline_cli.predict.model:predict_model_command",
            "Predict a whole model: time by operator, tokens/s, memory.",
        ),
    }


class RootCommands(RooflineGroup):
    """The commands of `roofline`, in the order in which a newcomer meets them."""

    entries: ClassVar = {
        "doctor": LazyCommand(
            "roofline_cli.machine.doctor:doctor", "Say what this machine has, what is missing, how to install it."
        ),
        "predict": LazyCommand(
            "roofline_cli.main:predict", "Predict how fast an operator or a whole model runs, per format."
        ),
        "recommend": LazyCommand(
            "roofline_cli.recommend.shape:recommend", "Rank formats for a shape, a model, or by stored runs."
        ),
        "losses": LazyCommand(
            "roofline_cli.recommend.losses:losses", "Measure the loss of every group of layers × format on a text."
        ),
        "pipeline": LazyCommand(
            "roofline_cli.recommend.pipeline:pipeline", "Choose a model's format by measuring it, and save the winner."
        ),
        "compare": LazyCommand(
            "roofline_cli.compare.measured:app", "Predicted against measured for your M, N, K, per format."
        ),
        "formats": LazyCommand(
            "roofline_cli.machine.formats:formats", "List the number formats: bits, bytes, scales, blocks, aliases."
        ),
        "explain": LazyCommand(
            "roofline_cli.predict.explain:explain", "Explain the code of a finding; without one, list all."
        ),
        "hardware": LazyCommand(
            "roofline_cli.machine.hardware:app", "List, show and check chips: every number with source."
        ),
        "runs": LazyCommand(
            "roofline_cli.runs.stored_runs:app", "List the runs and what each holds, relabel or delete one."
        ),
        "show": LazyCommand(
            "roofline_cli.runs.show:show_run", "Show one run: measured, predicted, error, bound, rate."
        ),
        "diff": LazyCommand(
            "roofline_cli.diff.runs:diff_runs", "Say what changed between two runs by more than noise."
        ),
        "export": LazyCommand(
            "roofline_cli.database.export:export_run", "Write a run or cases of many: JSON, CSV or Parquet."
        ),
        "import": LazyCommand(
            "roofline_cli.database.transfer_import:import_files",
            "Store exported runs, or what other programs measured.",
        ),
        "report": LazyCommand(
            "roofline_cli.runs.report:write_run_report", "Write the report of a run: a page, Markdown, JSON or print."
        ),
        "serve": LazyCommand("roofline_cli.serve.server:serve", "Serve the API and the explorer page; read-only."),
        "db": LazyCommand("roofline_cli.database.maintenance:app", "Care for the results database."),
        "prune": LazyCommand(
            "roofline_cli.database.prune:prune", "Drop raw samples of old runs, keep every statistic."
        ),
        "tiling": LazyCommand(
            "roofline_cli.predict.tiling:tiling", "Explain a product's tile: waves, occupancy, L2, bound."
        ),
        "sweep": LazyCommand(
            "roofline_cli.predict.sweep:sweep", "Predict a whole grid of products, to CSV or Parquet."
        ),
        "history": LazyCommand(
            "roofline_cli.diff.history:history", "Show a case over its nights: steps, drifts, and why."
        ),
        "calibrate": LazyCommand(
            "roofline_cli.machine.calibrate:calibrate", "Measure this machine's real ceilings and constants."
        ),
        "fit": LazyCommand(
            "roofline_cli.model_fit.fit:fit", "Fit the expected-time model to a table of measured kernels."
        ),
        "validate": LazyCommand("roofline_cli.model_fit.validate:validate", "Compare predicted with measured times."),
    }


predict = typer.Typer(cls=PredictCommands, help=RootCommands.entries["predict"].summary)
app = typer.Typer(
    cls=RootCommands,
    help="Predict transformer-inference kernels from roofline theory, compare with measurements, choose a numeric format.",
    epilog="Start with `roofline doctor`, then `roofline predict gemv -N 4096 -K 4096 --hw gb10`.",
    add_completion=False,
    # Plain help and errors: readable when piped, and starting the command does not load rich.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


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
