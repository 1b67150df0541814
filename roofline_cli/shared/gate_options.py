"""Options of the gates, `roofline nightly` and `roofline pr`: what pytest runs, and what fails."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

PytestOption = Annotated[
    str,
    typer.Option(
        "--pytest",
        metavar="'WORDS'",
        help="What pytest runs, with its options, as typed in a shell: 'tests/perf bench_cases -k gemv'.",
    ),
]
FailOnOption = Annotated[str, typer.Option("--fail-on", metavar="RULES", help="As of `roofline diff`.")]
MaxAmbiguousOption = Annotated[
    str,
    typer.Option(
        "--max-ambiguous", metavar="N|P%", help="Exit 3 with more ambiguous cases, or a larger share; '': no limit."
    ),
]
QuarantineOption = Annotated[
    Path | None, typer.Option("--quarantine", metavar="FILE.toml", help="Cases that are shown and fail nothing.")
]
AnnotationsOption = Annotated[
    Path | None,
    typer.Option("--annotations", metavar="FILE.toml", help="Expected changes: they fail nothing and raise no alert."),
]


def gate_words(fail_on: str, max_ambiguous: str) -> tuple[str, ...]:
    """Return the options of `roofline diff` that make it a gate; raises `InvalidValueError` for a wrong one."""
    from results.diff.gate import parse_fail_on, parse_max_ambiguous

    parse_fail_on([fail_on])
    parse_max_ambiguous(max_ambiguous)
    return ("--fail-on", fail_on, *(("--max-ambiguous", max_ambiguous) if max_ambiguous else ()))
