"""The rounds of a pull request: ABBA BAAB …, so that a steady drift of the machine is fair to both sides."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from roofline_cli.shared.children import PACKAGE_ROOT, machine_lock, roofline_command, run_child, say
from roofline_cli.shared.run_file import MeasuredRun, read_run
from roofline_model.core.errors import RooflineError

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
"""A nightly run may be going on; the job's own limit is the end of waiting."""
FORMS = {"text": "diff.txt", "md": "diff.md", "json": "diff.json"}


@dataclass(frozen=True, slots=True)
class Round:
    """One process of one side."""

    side: str
    ordinal: int
    """From 0."""
    exit_code: int
    run: MeasuredRun

    @property
    def failures(self) -> tuple[str, ...]:
        """What failed, as `CASE: reason`; a test that is no case of ours has no name here."""
        if self.run.failures or not self.exit_code:
            return self.run.failures
        return ("a test that measures nothing: see the log",)

    @property
    def sentence(self) -> str:
        """What was measured and what failed."""
        return "; ".join([f"{self.side}, round {self.ordinal + 1}: {self.run.counts_text}", *self.failures])


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is measured, how often, and what was found so far.

    Each side has a database of its own: an older base cannot write into what a newer head made. The head's is the one
    that remains, with the rounds of both.
    """

    folders: Mapping[str, Path]
    out: Path
    pytest_words: tuple[str, ...]
    rounds: int
    prepare: tuple[str, ...]
    gate: tuple[str, ...]
    round_minutes: float
    done: list[Round] = field(default_factory=list)

    def run(self, *, as_json: bool) -> int:
        """Prepare both sides, look at the canary, measure in turn, compare; return the exit code.

        Raises `RooflineError` where a side cannot be measured.
        """
        for side in SIDES if self.prepare else ():
            if self._call(list(self.prepare), side) != 0:
                raise RooflineError(f"--prepare failed in {side}: {' '.join(self.prepare)}")
        with machine_lock(LOCK_WAIT_S):
            if (slow := self._roofline("doctor", "--canary", "--db", str(self._database("base")))) != 0:
                return slow
            self._measure()
        self._bring_together()
        code = self._diff()
        new_failures = self.new_failures
        if new_failures:
            code = 1
        self._add_remarks(new_failures)
        self._show(code, new_failures, as_json=as_json)
        return code

    def order(self) -> Iterator[tuple[str, int]]:
        """Yield (side, round)."""
        for ordinal in range(self.rounds):
            for side in SIDES if ordinal % 4 in (0, 3) else reversed(SIDES):
                yield side, ordinal

    @property
    def new_failures(self) -> list[str]:
        """What fails in the head and in no round of the base, without its reason."""
        base, head = (
            {text.partition(": ")[0] for each in self.done if each.side == side for text in each.failures}
            for side in SIDES
        )
        return sorted(head - base)

    def environment(self, side: str, *, is_tool: bool = False) -> dict[str, str]:
        """Return the environment of a side: its own modules first, no secret.

        `is_tool`: for our commands, which a results.py of the repository under test must not reach.
        """
        folder = self.folders[side]
        roots = [folder, *([folder / "src"] if (folder / "src").is_dir() else [])]
        if is_tool and not (folder / "roofline_cli").is_dir():
            roots = [PACKAGE_ROOT]
        public = {name: value for name, value in os.environ.items() if name not in PRIVATE}
        paths = [*map(str, roots), *filter(None, [public.get("PYTHONPATH")])]
        tools = os.pathsep.join([str(Path(sys.executable).parent), public.get("PATH", "")])
        return {**public, "PATH": tools, "PYTHONUNBUFFERED": "1", "PYTHONPATH": os.pathsep.join(paths)}

    def _measure(self) -> None:
        """Measure all rounds. Raises `RooflineError` for one that measured nothing: what is left would be compared as
        if it were all.
        """
        say(f"order: {' '.join(side for side, _ in self.order())} (ABBA: a steady drift is fair to both)")
        for side, ordinal in self.order():
            where = f"{side}, round {ordinal + 1} of {self.rounds}"
            say(f"── {where}")
            # Values stand behind `=`: pytest takes a word of its own that is an existing path for a test's.
            options = [
                f"--roofline-db={self._database(side)}",
                f"--roofline-run={side}-{ordinal}",
                f"--roofline-json={self._run_file(side, ordinal)}",
                "--roofline-require-measured=1",
            ]
            command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *self.pytest_words, *options]
            code = self._call(command, side, limit_s=self.round_minutes * 60)
            if code not in (0, 1):
                raise RooflineError(f"pytest ended with {code} in {where}: nothing can be compared")
            run = read_run(self._run_file(side, ordinal))
            if run is None or not run.measured_count:
                counts = "no run was stored" if run is None else run.counts_text
                why = f" ({run.failures[0]})" if run is not None and run.failures else ""
                raise RooflineError(f"nothing was measured in {where}: {counts}{why}; nothing can be compared")
            self.done.append(Round(side, ordinal, code, run))

    def _bring_together(self) -> None:
        """Carry the runs of the base into the database of the head: an exported run is read by every later version."""
        for ordinal in range(self.rounds):
            words = ("import", str(self._run_file("base", ordinal)), "--db", str(self._database("head")))
            if self._roofline(*words) != 0:
                raise RooflineError(f"run base-{ordinal} could not be carried over")
        for side, ordinal in self.order():
            self._run_file(side, ordinal).unlink()
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self._database('base')}{suffix}").unlink(missing_ok=True)

    def _diff(self) -> int:
        """Write diff.md, diff.json and diff.txt; return the exit code of `roofline diff`."""
        sides = [",".join(f"{side}-{ordinal}" for ordinal in range(self.rounds)) for side in SIDES]
        for form, name in FORMS.items():
            words = ("diff", *sides, *self.gate, "--format", form, "-o", str(self.out / name))
            code = self._roofline(*words, "--db", str(self._database("head")))
            if code == 2:
                raise RooflineError("roofline diff failed; its message stands above")
        return code

    def _add_remarks(self, new_failures: list[str]) -> None:
        """Say in diff.md and diff.txt what fails in the head alone, above the verdict, and which rounds lack cases."""
        most = max(each.run.measured_count for each in self.done)
        remarks = [each.sentence for each in self.done if each.failures or each.run.measured_count < most]
        count = len(new_failures)
        verdict = f"{count} case{'s' * (count > 1)} fail{'s' * (count == 1)} in the head and not in the base: "
        verdict = f"{verdict}{', '.join(new_failures)}" if count else ""
        head = "Rounds that were not whole"
        for name, above, below in (
            (FORMS["text"], verdict, [f"{head}:", *remarks]),
            (
                FORMS["md"],
                f"### ❌ {_as_text(verdict)}",
                [f"**{head}**", "", *(f"- {_as_text(each)}" for each in remarks)],
            ),
        ):
            text = (self.out / name).read_text(encoding="utf-8")
            parts = [*([above, ""] if count else []), text, *(below if remarks else [])]
            (self.out / name).write_text("\n".join(parts).rstrip() + "\n", encoding="utf-8")

    def _show(self, code: int, new_failures: list[str], *, as_json: bool) -> None:
        """Write result.json, and show it or the diff."""
        from reports.present.screen import show_json, show_line

        diff = json.loads((self.out / FORMS["json"]).read_text(encoding="utf-8"))
        result: dict[str, Any] = {
            "schema_version": diff["schema_version"],
            "exit_code": code,
            "verdict": diff["verdict"],
            "rounds": self.rounds,
            "fails_in_head_only": new_failures,
            "measured": [asdict(each) for each in self.done],
        }
        (self.out / "result.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        if as_json:
            show_json(result)
            return
        sys.stdout.write((self.out / FORMS["text"]).read_text(encoding="utf-8"))
        failed = sum(bool(each.failures) for each in self.done)
        failures = f"; something failed in {failed} of {len(self.done)} rounds" if failed else ""
        show_line(f"exit code {code}{failures} · {self.out / FORMS['md']} · {self._database('head')}")

    def _database(self, side: str) -> Path:
        return self.out / ("base.db" if side == "base" else "rounds.db")

    def _run_file(self, side: str, ordinal: int) -> Path:
        return self.out / f"{side}-{ordinal}.json"

    def _roofline(self, *words: str) -> int:
        """Run a command of ours, as the head has it."""
        return self._call(roofline_command(*words), "head", is_tool=True)

    def _call(self, command: list[str], side: str, *, limit_s: float | None = None, is_tool: bool = False) -> int:
        environment = self.environment(side, is_tool=is_tool)
        return run_child(command, folder=self.folders[side], environment=environment, limit_s=limit_s)


def _as_text(line: str) -> str:
    """Return a line that Markdown shows as it is: names and reasons come from the code under test."""
    return re.sub(r"([\\`*_{}\[\]<>#|~])", r"\\\1", " ".join(line.split()))
