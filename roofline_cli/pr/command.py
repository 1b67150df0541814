"""`roofline pr`: base and head of a pull request measured in turn, each time in a fresh process, then their diff."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from roofline_cli.shared.children import end_with_ctrl_c, pytest_words, shell_words
from roofline_cli.shared.gate_options import FailOnOption, MaxAmbiguousOption, PytestOption, gate_words
from roofline_cli.shared.options import JsonOption
from roofline_model.core.errors import InvalidValueError

COMMANDS = {
    "pr": ("pr", "Measure two checkouts in turn, and show what changed."),
}
_RESERVED = {
    "--roofline-run": "rounds are called base-0, head-0, …",
    "--roofline-db": "rounds are kept in the folder of -o",
    "--roofline-json": "rounds are kept in the folder of -o",
    "--roofline-require-measured": "every round has to measure a case",
}


def pr(
    base: Annotated[Path, typer.Argument(metavar="BASE", help="Folder of the older checkout.")],
    head: Annotated[Path, typer.Argument(metavar="HEAD", help="Folder of the newer checkout.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FOLDER", help="A new folder for the comparison.")
    ] = Path(".roofline/pr"),
    pytest: PytestOption = "bench_cases",
    rounds: Annotated[
        int, typer.Option("--rounds", metavar="N", min=2, help="Processes a side; 8 see a step of 3 %.")
    ] = 8,
    prepare: Annotated[
        str,
        typer.Option("--prepare", metavar="COMMAND", help="Run in each folder first: 'python setup.py build_ext -i'."),
    ] = "",
    fail_on: FailOnOption = "slower",
    max_ambiguous: MaxAmbiguousOption = "20%",
    as_json: JsonOption = False,
) -> None:
    """Measure two checkouts in turn, and show what changed.

    Exit codes are those of `roofline diff`; 1 is also a case that fails in HEAD and not in BASE, 2 a side that could
    not be measured.
    """
    from roofline_cli.pr.comparison import Comparison

    for folder in (base, head):
        if not folder.is_dir():
            raise InvalidValueError(f"{folder} is not a folder: check out both commits first")
    if base.resolve() == head.resolve():
        raise InvalidValueError(f"BASE and HEAD are the same folder, {base}: give each commit a checkout of its own")
    if output.exists() and any(output.iterdir()):
        raise InvalidValueError(f"{output} is not empty: give each comparison a folder of its own with -o")
    comparison = Comparison(
        folders={"base": base.resolve(), "head": head.resolve()},
        out=output.resolve(),
        pytest_words=tuple(pytest_words(pytest, _RESERVED)),
        rounds=rounds,
        prepare=tuple(shell_words("--prepare", prepare)),
        gate=gate_words(fail_on, max_ambiguous),
    )
    output.mkdir(parents=True, exist_ok=True)
    end_with_ctrl_c()
    raise typer.Exit(comparison.run(as_json=as_json))
