#!/usr/bin/env python3
"""Measure two checkouts against each other: base and head in turn (ABBA BAAB …), each time in a fresh process, then the diff.

    python scripts/pull_request_bench.py --base FOLDER --head FOLDER --out FOLDER [--rounds 8] [--tests …] [-k …]

Interleaving is what makes the answer independent of how the machine moves meanwhile; fresh processes are the unit of the
diff. Results stay in FOLDER: a pull request never writes into the database of the nights, so it is never a baseline.

Exit codes are those of `roofline diff`; 1 also when a kernel of the head fails its check, 2 when a side could not be
measured, 5 when the machine is in a slow state.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from child_command import EXIT_INTERRUPTED, interruptible, run_command
from machine_lock import machine_lock
from night_plan import OWN_WORKLOADS, PlanError

SCRIPTS = Path(__file__).resolve().parent
SIDES = ("base", "head")
PRIVATE = (
    "GITHUB_TOKEN",
    "GH_TOKEN",
    "ACTIONS_RUNTIME_TOKEN",
    "ACTIONS_ID_TOKEN_REQUEST_TOKEN",
    "PGPASSWORD",
    "ROOFLINE_DB",
)
"""Never handed to the code under test."""
LOCK_WAIT_S = 3 * 3600.0
"""A night may be running; the job's own limit is the end of waiting."""


@dataclass(frozen=True, slots=True)
class Contest:
    """What is measured, and how often."""

    base: Path
    head: Path
    out: Path
    python: str
    tests: tuple[str, ...]
    rounds: int
    options: tuple[str, ...]
    """Of pytest, alike on both sides."""
    prepare: str
    round_minutes: float

    def folder(self, side: str) -> Path:
        """Return the checkout of a side."""
        return self.base if side == "base" else self.head

    def database(self, side: str) -> Path:
        """Return a side's own database: an older base cannot write into what a newer head migrated."""
        return self.out / f"{side}.db"

    def label(self, side: str, ordinal: int) -> str:
        """Return the label of one run."""
        return f"{side}-{ordinal}"

    def order(self) -> Iterator[tuple[str, int]]:
        """Yield (side, round): ABBA BAAB …, so that a steady drift is fair to both."""
        for ordinal in range(self.rounds):
            first = ordinal % 4 in (0, 3)
            for side in SIDES if first else reversed(SIDES):
                yield side, ordinal

    def bench(self, side: str, ordinal: int) -> list[str]:
        """Return one round's command, run in the folder of its side."""
        return [
            self.python, "-m", "pytest", *self.tests, *self.options, "-p", "no:cacheprovider",
            "--roofline-db", str(self.database(side)), "--roofline-run", self.label(side, ordinal),
            "--roofline-require-measured=1",
        ]  # fmt: skip

    def roofline(self, *arguments: str) -> list[str]:
        """Return a command of the tool."""
        return [self.python, "-P", "-m", "roofline_cli", *arguments]

    def environment(self, side: str, *, is_tool: bool = False) -> dict[str, str]:
        """Return the environment of a side: its own modules first, no secret.

        `is_tool`: for the tool's commands, which a results.py of the repository under test must not reach.
        """
        kept = {name: value for name, value in os.environ.items() if name not in PRIVATE}
        folder = self.folder(side)
        own = [folder, *([folder / "src"] if (folder / "src").is_dir() else [])]
        if is_tool and not (folder / "roofline_cli").is_dir():
            own = [SCRIPTS.parent]
        paths = [*map(str, own), *filter(None, [kept.get("PYTHONPATH")])]
        tools = os.pathsep.join([str(Path(self.python).parent), kept.get("PATH", "")])
        return {**kept, "PYTHONPATH": os.pathsep.join(paths), "PATH": tools, "PYTHONUNBUFFERED": "1"}


def main(arguments: list[str] | None = None) -> int:
    """Measure, compare, and return the exit code."""
    parser = argparse.ArgumentParser(
        description="Measure two checkouts against each other.", epilog=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--base", metavar="FOLDER", type=Path, required=True)
    parser.add_argument("--head", metavar="FOLDER", type=Path, required=True)
    parser.add_argument("--out", metavar="FOLDER", type=Path, default=Path(".roofline/pull-request"))
    parser.add_argument(
        "--rounds", metavar="N", type=int, default=8, help="Processes a side (default 8: a step of 3 %% is seen)."
    )
    parser.add_argument("--tests", metavar="'PATH …'", default=OWN_WORKLOADS, help="What pytest runs in both folders.")
    parser.add_argument("-k", "--keyword", metavar="EXPRESSION", default="")
    parser.add_argument("--hw", metavar="NAME|FILE|auto", default="")
    parser.add_argument("--shapes", metavar="SET", default="")
    parser.add_argument("--formats", metavar="F1,F2", default="")
    parser.add_argument("--pytest-options", metavar="'…'", default="", help="Further options for pytest.")
    parser.add_argument(
        "--prepare",
        metavar="COMMAND",
        default="",
        help="Run in each folder first, e.g. 'python setup.py build_ext --inplace'.",
    )
    parser.add_argument("--python", metavar="PATH", default=sys.executable, help="Interpreter that has roofline-bench.")
    parser.add_argument("--fail-on", metavar="RULES", default="", help="As of `roofline diff`.")
    parser.add_argument("--max-ambiguous", metavar="N", default="", help="As of `roofline diff`.")
    parser.add_argument(
        "--round-minutes", metavar="MINUTES", type=float, default=30.0, help="Limit of one round (default 30)."
    )
    given = parser.parse_args(arguments)
    interruptible()
    gates = [
        word
        for name in ("fail_on", "max_ambiguous")
        if (value := getattr(given, name))
        for word in (f"--{name.replace('_', '-')}", value)
    ]
    try:
        return run(_contest(given), gates)
    except PlanError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED


def run(contest: Contest, gates: list[str]) -> int:
    """Prepare both sides, look at the canary, measure in turn, compare. Raises `PlanError` where a side cannot be measured."""
    for side in SIDES:
        if contest.prepare and _call(shlex.split(contest.prepare), contest, side) != 0:
            raise PlanError(f"--prepare failed in {side}: {contest.prepare}")
    canary = [contest.python, "-P", str(SCRIPTS / "night_canary.py"), "--db", str(contest.database("base"))]
    with machine_lock(LOCK_WAIT_S, lambda text: print(text, flush=True)) as is_ours:
        if not is_ours:
            raise PlanError("another benchmark held the machine all the time")
        if (slow := _call(canary, contest, "base", is_tool=True)) != 0:
            return slow
        failed = _measured(contest)
    _bring_together(contest)
    code = _compare(contest, gates)
    if failed["head"] and not failed["base"]:
        print("a kernel of the head failed its check; those of the base did not", file=sys.stderr)
        return code if code == 2 else 1
    return code


def _measured(contest: Contest) -> dict[str, bool]:
    """Measure all rounds; return per side whether a kernel failed its check, or too few cases were measured."""
    failed = dict.fromkeys(SIDES, False)
    for side, ordinal in contest.order():
        print(f"── round {ordinal + 1} of {contest.rounds}: {side}", flush=True)
        code = _call(contest.bench(side, ordinal), contest, side, limit_s=contest.round_minutes * 60)
        if code not in (0, 1):
            raise PlanError(f"pytest ended with {code} in {side}, round {ordinal + 1}: nothing can be compared")
        failed[side] |= code == 1
    return failed


def _contest(given: argparse.Namespace) -> Contest:
    base, head, out = (path.resolve() for path in (given.base, given.head, given.out))
    for side, folder in (("--base", base), ("--head", head)):
        if not folder.is_dir():
            raise PlanError(f"{side} {folder} is no folder: check out both commits first")
    if given.rounds < 2:
        raise PlanError(f"--rounds is 2 or more, got {given.rounds}: one process a side says nothing about noise")
    if out.exists() and any(out.iterdir()):
        raise PlanError(f"{out} is not empty: give each comparison a folder of its own")
    out.mkdir(parents=True, exist_ok=True)
    named = {
        "-k": given.keyword,
        "--roofline-hw": given.hw,
        "--roofline-shapes": given.shapes,
        "--roofline-formats": given.formats,
    }
    options = [word for name, value in named.items() if value for word in (name, value)]
    return Contest(
        base, head, out, os.path.abspath(given.python), tuple(shlex.split(given.tests)), given.rounds,
        (*options, *shlex.split(given.pytest_options)), given.prepare, given.round_minutes,
    )  # fmt: skip


def _bring_together(contest: Contest) -> None:
    """Carry the runs of the base into the database of the head: an exported run is read by every later version."""
    for ordinal in range(contest.rounds):
        file = contest.out / f"{contest.label('base', ordinal)}.json"
        label = contest.label("base", ordinal)
        commands = (
            ("base", contest.roofline("export", label, "--db", str(contest.database("base")), "-o", str(file))),
            ("head", contest.roofline("import", str(file), "--db", str(contest.database("head")))),
        )
        for side, command in commands:
            if _call(command, contest, side, is_tool=True) != 0:
                raise PlanError(f"run {label} could not be carried over")
        file.unlink()


def _compare(contest: Contest, gates: list[str]) -> int:
    """Write diff.md, diff.json and diff.txt, show the last, and return the exit code of `roofline diff`."""
    names = [[contest.label(side, ordinal) for ordinal in range(contest.rounds)] for side in SIDES]
    sides = [",".join(labels) for labels in names]
    code = 2
    for form, name in (("md", "diff.md"), ("json", "diff.json"), ("text", "diff.txt")):
        output = contest.out / name
        command = contest.roofline(
            "diff", *sides, *gates, "--db", str(contest.database("head")), "--format", form, "-o", str(output)
        )
        code = _call(command, contest, "head", is_tool=True)
        if code == 2:
            raise PlanError("roofline diff failed; its message stands above")
    print((contest.out / "diff.txt").read_text(encoding="utf-8"))
    (contest.out / "result.json").write_text(
        json.dumps({"exit_code": code, "rounds": contest.rounds}) + "\n", encoding="utf-8"
    )
    return code


def _call(
    command: list[str], contest: Contest, side: str, *, limit_s: float | None = None, is_tool: bool = False
) -> int:
    environment = contest.environment(side, is_tool=is_tool)
    return run_command(command, environment, folder=contest.folder(side), limit_s=limit_s, limit_name="--round-minutes")


if __name__ == "__main__":
    sys.exit(main())
