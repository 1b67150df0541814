"""The steps of a nightly run, in their order: what each leaves in the folder, and which exit code remains."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from roofline_cli.shared.children import machine_lock, roofline_command, run_child, say
from roofline_cli.shared.run_file import FAILED, MeasuredRun, read_run
from roofline_model.core.errors import InvalidValueError, RooflineError

EXIT_UNUSABLE, EXIT_SLOW_MACHINE = 2, 5
WORST_FIRST = (EXIT_UNUSABLE, 1, EXIT_SLOW_MACHINE, 4, 3)
LOCK_WAIT_S = 3600.0
FORMS = {"text": "diff.txt", "md": "diff.md", "json": "diff.json", "junit": "diff.junit.xml"}
HISTORIES = {metric: f"history-{metric}.json" for metric in ("time", "energy", "error")}
"""What is watched over the nights → its file. `error`: of the expected time, which shows a model that drifts away."""
RUN, DOCTOR, CANARY, ALERTS, REPORT = "run.json", "doctor.json", "canary.txt", "alerts.json", "report.html"
LAST_RUN = "diff-last-run.md"
"""A pooled baseline that holds a slow run is no yardstick for the run in which it is mended; the one before is."""
SUMMARY, SUMMARY_JSON = "summary.md", "summary.json"
FILES = {
    *(RUN, DOCTOR, CANARY, ALERTS, REPORT, LAST_RUN, SUMMARY, SUMMARY_JSON, *FORMS.values(), *HISTORIES.values()),
    *("roofline.png", "roofline.svg"),
}
"""What a nightly run writes."""
LEFT_BY_A_KILL = ".roofline-"
"""How the name of a file begins that `roofline … -o` has not completed."""
VERDICTS = {
    0: "✅ nothing worse",
    1: "❌ a case got worse or failed",
    2: "⛔ a step could not do its work",
    3: "⚠️ too much is ambiguous",
    4: "⛔ not comparable with the baseline",
    5: "⛔ the state of the machine decides, of this run or its baseline",
}


@dataclass(frozen=True, slots=True)
class NightlyPlan:
    """What a nightly run measures, and what it is compared with."""

    label: str
    pytest_words: tuple[str, ...]
    against: str
    gate: tuple[str, ...]
    """Options of `roofline diff`: what fails."""
    lists: tuple[str, ...]
    """Options of `roofline diff` and `roofline history`: what is expected, what is known to be unreliable."""
    bench_minutes: float
    """After this pytest is interrupted; it stores what it has, and the run counts as incomplete."""
    db: str | None


@dataclass(frozen=True, slots=True)
class Step:
    """What one step did."""

    step: str
    exit_code: int | None
    """None: left out."""
    seconds: float
    note: str


def empty_folder(folder: Path) -> None:
    """Make the folder of a nightly run and empty it; raises `InvalidValueError` where it holds files of others."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = sorted(folder.iterdir())
    for path in paths:
        is_ours = path.name in FILES or path.name.startswith(LEFT_BY_A_KILL)
        if not is_ours or (path.is_dir() and not path.is_symlink()):
            raise InvalidValueError(
                f"{folder} holds {path.name}, which no nightly run wrote: choose a folder of its own with -o"
            )
    for path in paths:
        path.unlink()


def read_json(path: Path) -> dict[str, Any]:
    """Return the document of a file; empty where there is none, or it is no such file."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


@dataclass(slots=True)
class NightlyRun:
    """One nightly run in its folder."""

    folder: Path
    plan: NightlyPlan
    steps: list[Step] = field(default_factory=list)
    run: MeasuredRun | None = None
    """What was measured; None before that, and where nothing was stored."""

    def go(self) -> None:
        """Run the steps. One that cannot do its work for an earlier one is left out and says so."""
        say(f"nightly run {self.plan.label} in {self.folder}")
        steps: tuple[Callable[[], tuple[int | None, str]], ...] = (
            self.doctor,
            self.canary,
            self.bench,
            self.diff,
            self.history,
            self.report,
        )
        for step in steps:
            say(f"── {step.__name__}")
            began = time.monotonic()
            code, note = step()
            self.steps.append(Step(step.__name__, code, round(time.monotonic() - began, 1), note))
            if note:
                say(note)

    @property
    def exit_code(self) -> int:
        """The verdict: the worst of the steps."""
        codes = {step.exit_code for step in self.steps}
        return next((code for code in WORST_FIRST if code in codes), 0)

    @property
    def verdict(self) -> str:
        """The run in a few words; a first run is not called good, only not bad."""
        is_first = self.exit_code == 0 and self.compared_with == []
        words = "✅ nothing was compared: no earlier run" if is_first else VERDICTS[self.exit_code]
        return f"{words} (exit code {self.exit_code})"

    @property
    def compared_with(self) -> list[Any] | None:
        """The runs that it was compared with, none for a first run; None where no diff was made."""
        document = read_json(self.folder / FORMS["json"])
        return list(document.get("before") or ()) if document else None

    @property
    def doctor_remarks(self) -> list[str]:
        """What `roofline doctor` found broken or missing, a line each with the command that mends it."""
        return [
            f"{check['status']}: {check['name']}: {check['detail']}" + (f" ({check['fix']})" if check["fix"] else "")
            for check in read_json(self.folder / DOCTOR).get("checks", ())
            if check["status"] in ("warn", "error")
        ]

    def doctor(self) -> tuple[int | None, str]:
        """Look at the machine; what it warns of is kept for the summary."""
        code = self._roofline("doctor", "--json", output=DOCTOR)
        for remark in self.doctor_remarks:
            say(remark)
        return (EXIT_UNUSABLE, "something is broken: `roofline doctor` says what mends it") if code else (0, "")

    def canary(self) -> tuple[int | None, str]:
        """Look for the slow state before an hour is spent in it."""
        if self._failed:
            return None, f"left out: {self._failed} failed"
        code = self._roofline("doctor", "--canary", output=CANARY)
        last = (self.folder / CANARY).read_text(encoding="utf-8").strip()
        if code == EXIT_SLOW_MACHINE:
            return code, f"nothing was measured: {last}"
        return (EXIT_UNUSABLE, "the canary could not run") if code else (0, last)

    def bench(self) -> tuple[int | None, str]:
        """Measure. pytest's 1 (a wrong kernel, too few measured) is passed on; all else that is not 0 is 2."""
        if self._failed:
            return None, f"left out: {self._failed} failed"
        limit_s = self.plan.bench_minutes * 60
        # The words of --pytest come after the defaults, which they change, and before what is reserved.
        defaults = ("--roofline-processes=3", "--roofline-require-measured=1")
        reserved = [f"--roofline-run={self.plan.label}", f"--roofline-json={self.folder / RUN}"]
        reserved += [f"--roofline-db={self.plan.db}"] if self.plan.db else []
        try:
            with machine_lock(min(limit_s, LOCK_WAIT_S)):
                command = [sys.executable, "-m", "pytest", *defaults, *self.plan.pytest_words, *reserved]
                code = run_child(command, limit_s=limit_s)
        except RooflineError as error:
            return EXIT_UNUSABLE, str(error)
        self.run = read_run(self.folder / RUN)
        counts = "no run was stored" if self.run is None else self.run.counts_text
        if code in (0, 1):
            has_failed = self.run is not None and FAILED in self.run.counts
            why = "cases failed" if has_failed else "a test failed, or fewer cases were measured than required"
            return code, f"{why}: {counts}" if code else counts
        if code == 5:
            return EXIT_UNUSABLE, "no case was selected"
        return EXIT_UNUSABLE, f"pytest stopped with {code}: the run is incomplete, and never a baseline"

    def diff(self) -> tuple[int | None, str]:
        """Compare with the baseline, in every form; the exit code is that of `roofline diff`."""
        if self.run is None or self.run.status != "complete":
            state = "no run was stored" if self.run is None else f"the run is {self.run.status}"
            return None, f"left out: {state}"
        if not self.run.measured_count:
            return None, "left out: no case was measured"
        words = ("diff", self.run.run_id, *self.plan.gate, *self.plan.lists)
        for form, name in FORMS.items():
            output = str(self.folder / name)
            code = self._roofline(*words, "--against", self.plan.against, "--format", form, "-o", output)
            if code not in VERDICTS or code == EXIT_UNUSABLE:
                return EXIT_UNUSABLE, "roofline diff failed; its message is in the log"
        before = self.compared_with
        is_last_run = self.plan.against.lower().startswith("baseline") and before is not None and len(before) <= 1
        if self.plan.against != "latest" and not is_last_run:
            output = str(self.folder / LAST_RUN)
            self._roofline(*words, "--against", "latest", "--format", "md", "-o", output)
        say((self.folder / FORMS["text"]).read_text(encoding="utf-8"))
        return code, "nothing was compared: no earlier run" if before == [] else VERDICTS[code].partition(" ")[2]

    def history(self) -> tuple[int | None, str]:
        """Find the change points of time, energy and prediction error. They are listed and filed, and fail no run:
        the diff does that.
        """
        from roofline_cli.nightly.alerts import write_alerts

        for metric, name in HISTORIES.items():
            if self._roofline("history", "--all", "--metric", metric, *self.plan.lists, "--json", output=name):
                return EXIT_UNUSABLE, "roofline history failed; its message is in the log"
        write_alerts(self.folder / ALERTS, [read_json(self.folder / name) for name in HISTORIES.values()])
        return 0, ""

    def report(self) -> tuple[int | None, str]:
        """Write the page, with what changed since the baseline."""
        if self.run is None:
            return None, "left out: no run was stored"
        is_compared = any(step.step == "diff" and step.exit_code not in (None, EXIT_UNUSABLE) for step in self.steps)
        since = ("--baseline", self.plan.against) if is_compared else ()
        code = self._roofline("report", "--run", self.run.run_id, *since, "-o", str(self.folder / REPORT))
        return (EXIT_UNUSABLE, "could not be written") if code else (0, "")

    @property
    def _failed(self) -> str:
        return next((step.step for step in self.steps if step.exit_code), "")

    def _roofline(self, *words: str, output: str = "") -> int:
        """Run a command of ours on the database of the run; `output` is the file that takes its stdout."""
        database = ("--db", self.plan.db) if self.plan.db else ()
        return run_child(roofline_command(*words, *database), output=self.folder / output if output else None)
