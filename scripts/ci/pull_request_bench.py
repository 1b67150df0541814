#!/usr/bin/env python3
"""Measure two checkouts against each other: base and head in turn (ABBA BAAB …), each time in a fresh process, then the
diff.

    python scripts/ci/pull_request_bench.py --base FOLDER --head FOLDER --out FOLDER [--rounds 8] [--tests …] [-k …]

Interleaving is what makes the answer independent of how the machine moves meanwhile; fresh processes are the unit of
the diff. Results stay in FOLDER: a pull request never writes into the database of the nights, so it is never a
baseline.

Exit codes are those of `roofline diff`; 1 also when a case of the head fails that does not fail in the base, 2 when a
side could not be measured (a round that measures nothing ends the comparison), 5 when the machine is in a slow state.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from child_command import EXIT_INTERRUPTED, interruptible, run_command
from machine_lock import machine_lock
from measured_run import MeasuredRun
from nightly_plan import OWN_WORKLOADS, PlanError, add_max_ambiguous, read_json
from plan_checks import complaints, split_words

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
ROUNDS_FILE = "rounds.db"
GIVEN = {
    "--roofline-run": "rounds are called base-0, head-0, …",
    "--roofline-db": "rounds are kept in --out",
    "--roofline-json": "rounds are kept in --out",
    "--roofline-require-measured": "every round has to measure a case",
}
"""Options of pytest that each round is given → why they are not the user's to give."""
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
        """Return a side's own database: an older base cannot write into what a newer head migrated.

        The head's is the one that remains, with the rounds of both.
        """
        return self.out / ("base.db" if side == "base" else ROUNDS_FILE)

    def label(self, side: str, ordinal: int) -> str:
        """Return the label of one run."""
        return f"{side}-{ordinal}"

    def run_file(self, side: str, ordinal: int) -> Path:
        """Return the file that a round writes when it ends."""
        return self.out / f"{self.label(side, ordinal)}.json"

    def order(self) -> Iterator[tuple[str, int]]:
        """Yield (side, round): ABBA BAAB …, so that a steady drift is fair to both."""
        for ordinal in range(self.rounds):
            first = ordinal % 4 in (0, 3)
            for side in SIDES if first else reversed(SIDES):
                yield side, ordinal

    def bench(self, side: str, ordinal: int) -> list[str]:
        """Return one round's command, run in the folder of its side."""
        return [
            self.python,
            "-m",
            "pytest",
            *self.tests,
            *self.options,
            "-p",
            "no:cacheprovider",
            # Behind `=`: pytest takes a word of its own that is an existing path for a test's.
            f"--roofline-db={self.database(side)}",
            f"--roofline-run={self.label(side, ordinal)}",
            f"--roofline-json={self.run_file(side, ordinal)}",
            "--roofline-require-measured=1",
        ]

    def roofline(self, *arguments: str) -> list[str]:
        """Return a command of the tool."""
        return [self.python, "-P", "-m", "roofline_cli", *arguments]

    def environment(self, side: str, *, is_tool: bool = False) -> dict[str, str]:
        """Return the environment of a side: its own modules first, no secret.

        `is_tool`: for the tool's commands, which a results.py of the repository under test must not reach.
        """
        public_environment = {name: value for name, value in os.environ.items() if name not in PRIVATE}
        folder = self.folder(side)
        roots = [folder, *([folder / "src"] if (folder / "src").is_dir() else [])]
        if is_tool and not (folder / "roofline_cli").is_dir():
            roots = [SCRIPTS.parents[1]]
        paths = [*map(str, roots), *filter(None, [public_environment.get("PYTHONPATH")])]
        tools = os.pathsep.join([str(Path(self.python).parent), public_environment.get("PATH", "")])
        return {**public_environment, "PYTHONPATH": os.pathsep.join(paths), "PATH": tools, "PYTHONUNBUFFERED": "1"}


@dataclass(frozen=True, slots=True)
class Round:
    """What one round of one side came to."""

    side: str
    number: int
    """From 1."""
    exit_code: int
    """Of pytest: 0, or 1 where a test failed."""
    run: MeasuredRun

    @property
    def failures(self) -> tuple[str, ...]:
        """What failed, as `CASE: reason`; a test that is no case of ours has no name here."""
        if self.run.failures or not self.exit_code:
            return self.run.failures
        return ("a test that measures nothing: see the log",)

    @property
    def sentence(self) -> str:
        """Return the round in one line."""
        failed = "".join(f"; {text}" for text in self.failures)
        return f"{self.side}, round {self.number}: {self.run.counts_text}{failed}"

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON values."""
        return {
            "side": self.side,
            "round": self.number,
            "exit_code": self.exit_code,
            "run_id": self.run.run_id,
            "counts": self.run.counts,
            "failures": list(self.failures),
        }


@dataclass(slots=True)
class Rounds:
    """All rounds so far."""

    done: list[Round] = field(default_factory=list)

    @property
    def remarks(self) -> list[str]:
        """The rounds in which something failed, or fewer cases were measured than in others of either side, a line
        each.
        """
        most = max((side_run.run.measured_count for side_run in self.done), default=0)
        return [side_run.sentence for side_run in self.done if side_run.failures or side_run.run.measured_count < most]

    @property
    def new_failures(self) -> list[str]:
        """What fails in the head and in no round of the base, without its reason."""
        names = {
            side: {
                text.partition(": ")[0] for side_run in self.done if side_run.side == side for text in side_run.failures
            }
            for side in SIDES
        }
        return sorted(names["head"] - names["base"])


def main(arguments: list[str] | None = None) -> int:
    """Measure, compare, and return the exit code."""
    parser = argparse.ArgumentParser(
        description="Measure two checkouts against each other.",
        epilog=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
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
    add_max_ambiguous(parser)
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
    """Prepare both sides, look at the canary, measure in turn, compare. Raises `PlanError` where a side cannot be
    measured.
    """
    for side in SIDES:
        if contest.prepare and _call(shlex.split(contest.prepare), contest, side) != 0:
            raise PlanError(f"--prepare failed in {side}: {contest.prepare}")
    canary = [contest.python, "-P", str(SCRIPTS / "nightly_canary.py"), "--db", str(contest.database("base"))]
    with machine_lock(LOCK_WAIT_S, lambda text: print(text, flush=True)) as is_ours:
        if not is_ours:
            raise PlanError("another benchmark held the machine all the time")
        if (slow := _call(canary, contest, "base", is_tool=True)) != 0:
            return slow
        rounds = _measured(contest)
    _bring_together(contest)
    code = _compare(contest, gates, rounds)
    if rounds.new_failures:
        code = code if code == 2 else 1
    _finish(contest, rounds, code)
    return code


def _measured(contest: Contest) -> Rounds:
    """Measure all rounds. Raises `PlanError` for one that measured nothing: what is left would be compared as if it
    were all.
    """
    rounds = Rounds()
    print(f"order: {' '.join(side for side, _ in contest.order())} (ABBA: a steady drift is fair to both)", flush=True)
    for side, ordinal in contest.order():
        print(f"── round {ordinal + 1} of {contest.rounds}: {side}", flush=True)
        code = _call(contest.bench(side, ordinal), contest, side, limit_s=contest.round_minutes * 60)
        where = f"in {side}, round {ordinal + 1} of {contest.rounds}"
        if code not in (0, 1):
            raise PlanError(f"pytest ended with {code} {where}: nothing can be compared")
        run = MeasuredRun.read(contest.run_file(side, ordinal))
        if run is None or not run.measured_count:
            counts = "no run was stored" if run is None else run.counts_text
            why = f" ({run.failures[0]})" if run is not None and run.failures else ""
            raise PlanError(f"nothing was measured {where}: {counts}{why}; nothing can be compared")
        rounds.done.append(Round(side, ordinal + 1, code, run))
    return rounds


def _contest(given: argparse.Namespace) -> Contest:
    base, head, out = (path.resolve() for path in (given.base, given.head, given.out))
    for side, folder in (("--base", base), ("--head", head)):
        if not folder.is_dir():
            raise PlanError(f"{side} {folder} is not a folder: check out both commits first")
    if given.rounds < 2:
        raise PlanError(f"--rounds is 2 or more, got {given.rounds}: one process a side says nothing about noise")
    if out.exists() and any(out.iterdir()):
        raise PlanError(f"{out} is not empty: give each comparison a folder of its own")
    try:
        tests, further = split_words("--tests", given.tests), split_words("--pytest-options", given.pytest_options)
        split_words("--prepare", given.prepare)
    except ValueError as error:
        raise PlanError(str(error)) from None
    wrong = complaints(
        fail_on=given.fail_on,
        against="latest",
        max_ambiguous=given.max_ambiguous,
        quarantine="",
        annotations="",
        pytest_words=further,
        tests=(),
        given=GIVEN,
    )
    if (first := next(wrong, None)) is not None:
        raise PlanError(first)
    out.mkdir(parents=True, exist_ok=True)
    named = {
        "-k": given.keyword,
        "--roofline-hw": given.hw,
        "--roofline-shapes": given.shapes,
        "--roofline-formats": given.formats,
    }
    options = [word for name, value in named.items() if value for word in _as_option(name, value)]
    return Contest(
        base,
        head,
        out,
        os.path.abspath(given.python),
        tuple(tests),
        given.rounds,
        (*options, *further),
        given.prepare,
        given.round_minutes,
    )


def _as_option(name: str, value: str) -> tuple[str, ...]:
    return (name, value) if name == "-k" else (f"{name}={value}",)


def _bring_together(contest: Contest) -> None:
    """Carry the runs of the base into the database of the head: an exported run is read by every later version."""
    for ordinal in range(contest.rounds):
        command = contest.roofline(
            "import", str(contest.run_file("base", ordinal)), "--db", str(contest.database("head"))
        )
        if _call(command, contest, "head", is_tool=True) != 0:
            raise PlanError(f"run {contest.label('base', ordinal)} could not be carried over")
    for side, ordinal in contest.order():
        contest.run_file(side, ordinal).unlink()
    for suffix in ("", "-wal", "-shm"):
        Path(f"{contest.database('base')}{suffix}").unlink(missing_ok=True)


def _compare(contest: Contest, gates: list[str], rounds: Rounds) -> int:
    """Write diff.md, diff.json and diff.txt, with what failed in a round, and return the exit code of `roofline
    diff`.
    """
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
    if rounds.remarks:
        _add_remarks(contest.out, rounds)
    return code


def _add_remarks(out: Path, rounds: Rounds) -> None:
    """Say in diff.md and diff.txt what failed: above the verdict, where it fails the comparison, the rounds below."""
    count, names = len(rounds.new_failures), ", ".join(rounds.new_failures)
    verdict = f"{count} case{'s' * (count > 1)} fail{'s' * (count == 1)} in the head and not in the base: {names}"
    head = "Rounds that were not whole"
    text, page = out / "diff.txt", out / "diff.md"
    above = f"{verdict}\n\n" if count else ""
    text.write_text(
        "\n".join([f"{above}{text.read_text(encoding='utf-8')}", f"{head}:", *rounds.remarks]) + "\n", encoding="utf-8"
    )
    above = f"### ❌ {_as_text(verdict)}\n\n" if count else ""
    listed = [f"- {_as_text(remark)}" for remark in rounds.remarks]
    page.write_text(
        "\n".join([f"{above}{page.read_text(encoding='utf-8')}", f"**{head}**", "", *listed]) + "\n", encoding="utf-8"
    )


def _as_text(line: str) -> str:
    """Return a line that Markdown shows as it is: names and reasons come from the code under test."""
    return re.sub(r"([\\`*_{}\[\]<>#|~])", r"\\\1", " ".join(line.split()))


def _finish(contest: Contest, rounds: Rounds, code: int) -> None:
    """Show the diff, write result.json, and say where everything is."""
    print((contest.out / "diff.txt").read_text(encoding="utf-8"))
    document = read_json(contest.out / "diff.json")
    result = {
        "exit_code": code,
        "verdict": document.get("verdict") if isinstance(document, dict) else None,
        "rounds": contest.rounds,
        "fails_in_head_only": rounds.new_failures,
        "measured": [side_run.to_dict() for side_run in rounds.done],
    }
    (contest.out / "result.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    failed = sum(bool(side_run.failures) for side_run in rounds.done)
    failures = f"; something failed in {failed} of {len(rounds.done)} rounds" if failed else ""
    print(
        f"exit code {code}{failures} · Markdown: {contest.out / 'diff.md'} · runs of both sides: "
        f"{contest.database('head')}",
        flush=True,
    )


def _call(
    command: list[str], contest: Contest, side: str, *, limit_s: float | None = None, is_tool: bool = False
) -> int:
    environment = contest.environment(side, is_tool=is_tool)
    return run_command(command, environment, folder=contest.folder(side), limit_s=limit_s, limit_name="--round-minutes")


if __name__ == "__main__":
    sys.exit(main())
