"""The `roofline` command line: the app, its commands, and the entry point."""

from __future__ import annotations

import os
import sys
from importlib import metadata
from typing import Annotated, Any, ClassVar

import typer

from roofline_cli.shared.group import LazyGroup, RooflineGroup, commands_of

COMPLETE_VARIABLE = "_ROOFLINE_COMPLETE"
"""Set by a shell that asks for completions, as click and typer do."""
COMMAND_GROUPS = {
    "Predict": ("predict", "check", "tiling", "sweep"),
    "Choose": ("recommend", "losses", "pipeline", "explain"),
    "Measure": ("doctor", "demo", "compare", "calibrate", "validate", "fit"),
    "Watch": ("runs", "show", "diff", "history", "nightly", "pr"),
    "Report": ("report", "serve"),
    "Keep": ("export", "import", "push", "db", "prune"),
    "Look up": ("formats", "hardware"),
}
"""Task → its commands, as `docs/reference/commands.md` lists them."""
PREDICT_ORDER = ("predict gemv", "predict gemm", "predict attention", "predict ffn", "predict model", "predict serve")

COMMANDS = {"predict": ("predict", "Predict how fast an operator or a whole model runs, per format.")}


class RootCommands(RooflineGroup):
    """The commands of `roofline`."""

    entries: ClassVar = commands_of("", [name for names in COMMAND_GROUPS.values() for name in names])

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands task by task, their sentences in one column."""
        width = max(map(len, self.entries))
        for task, names in COMMAND_GROUPS.items():
            with formatter.section(task):
                formatter.write_dl([(name.ljust(width), self.entries[name].summary) for name in names])


class PredictCommands(LazyGroup):
    """The commands of `roofline predict`."""

    entries: ClassVar = commands_of("predict", PREDICT_ORDER)


predict = typer.Typer(cls=PredictCommands, help=COMMANDS["predict"][1])
app = typer.Typer(
    cls=RootCommands,
    help=(
        "Predict transformer-inference kernels from roofline theory, compare with measurements, choose a numeric "
        "format."
    ),
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
    if COMPLETE_VARIABLE in os.environ:  # a shell asks what may follow; only then is it worth the import
        from typer._completion_classes import completion_init

        completion_init()
    app(prog_name="roofline")
