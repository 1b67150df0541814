#!/usr/bin/env python3
"""Run one night of benchmarks, here or in CI: the same steps, the same commands, the same exit codes.

    python scripts/ci/nightly.py [STEP …] [--out FOLDER] [options]

Without a step: all of them, in this order. With steps: those, on the plan that `plan` (or the whole night) left in
FOLDER.

plan      write the plan of the night: label, tests, database, baseline, limits
install   with --venv: build the environment as `make bench` does; a vendor's torch stays as it is
doctor    say what this machine has; what is broken ends the night
canary    is the machine in a slow state that no sensor shows? Then nothing is measured
bench     pytest, every case in fresh processes; the whole run as JSON
diff      the night against its baseline: text, Markdown, JSON, JUnit; and, to be read only, against the night before
history   the change points of every case: time, energy, prediction error
report    the HTML page, with what changed since the baseline
summary   summary.md and summary.json; exits with the verdict of the night

Exit codes: 0 nothing worse; 1 something got slower, is gone, is wrong or was not measured; 2 a step could not do its
work; 3 too much is ambiguous; 4 not comparable with the baseline; 5 the machine was in a slow state.
docs/how_to/nightly.md says what to do for each.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import nightly_summary as summary
from child_command import EXIT_INTERRUPTED, interruptible, run_command
from machine_lock import machine_lock
from measured_run import MeasuredRun
from nightly_plan import ROOT, NightlyPlan, PlanError, add_options, plan_from, read_json, shown
from plan_checks import stored_complaint

STATE_FILE = "night.json"
EXIT_WORSE, EXIT_UNUSABLE, EXIT_AMBIGUOUS, EXIT_INCOMPARABLE, EXIT_SLOW_MACHINE = 1, 2, 3, 4, 5
WORST_FIRST = (EXIT_UNUSABLE, EXIT_WORSE, EXIT_SLOW_MACHINE, EXIT_INCOMPARABLE, EXIT_AMBIGUOUS)
LOCK_WAIT_S = 3600.0
RUN_FILE = "run.json"
LEFT_BY_A_KILL = ".roofline-"
"""What `roofline … -o` calls a file that is not complete yet."""
FORMS = {"text": "diff.txt", "md": "diff.md", "json": "diff.json", "junit": "diff.junit.xml"}


@dataclass(slots=True)
class NightlyRun:
    """The folder of a night: its plan, and what its steps did."""

    folder: Path
    plan: NightlyPlan
    steps: list[dict[str, Any]]
    run: MeasuredRun | None = None
    """What `bench` measured; None before it, and where it stored nothing."""

    @classmethod
    def load(cls, folder: Path) -> NightlyRun:
        """Read the night that `plan` began; raises `PlanError`."""
        state = read_json(folder / STATE_FILE)
        try:
            plan, run = NightlyPlan.from_dict(state["plan"]), state.get("run")
            steps = [{name: step[name] for name in ("step", "exit_code", "seconds", "note")} for step in state["steps"]]
            return cls(folder, plan, steps, None if run is None else MeasuredRun.from_dict(run))
        except (AttributeError, KeyError, TypeError):
            raise PlanError(f"{folder} holds no plan: begin with `nightly.py plan --out {folder} …`") from None

    def save(self) -> None:
        """Write the state, atomically: a night that is killed keeps what it had."""
        new = self.folder / f"{STATE_FILE}.new"
        new.write_text(
            json.dumps({"plan": self.plan.to_dict(), "steps": self.steps, "run": _plain(self.run)}, indent=1) + "\n",
            encoding="utf-8",
        )
        new.replace(self.folder / STATE_FILE)

    def code_of(self, step: str) -> int | None:
        """Return the exit code of a step; None where it did not run or was left out."""
        codes = [entry["exit_code"] for entry in self.steps if entry["step"] == step]
        return codes[-1] if codes else None

    def note(self, step: str, exit_code: int | None, began: float, note: str = "") -> int:
        """Add what a step did; return its exit code, 0 for one that was left out."""
        self.steps = [entry for entry in self.steps if entry["step"] != step]
        self.steps.append(
            {"step": step, "exit_code": exit_code, "seconds": round(time.monotonic() - began, 1), "note": note}
        )
        self.save()
        return exit_code or 0

    @property
    def exit_code(self) -> int:
        """The verdict of the night: the worst of its steps."""
        codes = {step["exit_code"] for step in self.steps if step["exit_code"]}
        return next((code for code in WORST_FIRST if code in codes), EXIT_UNUSABLE if codes else 0)


def main(arguments: list[str] | None = None) -> int:
    """Run the steps and return the exit code."""
    parser = argparse.ArgumentParser(
        description="Run one night of benchmarks.", epilog=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "steps", metavar="STEP", nargs="*", choices=[*STEPS, []], help=f"{', '.join(STEPS)}; default: all"
    )
    parser.add_argument(
        "--out", metavar="FOLDER", default=".roofline/night", help="Folder of the night (default .roofline/night)."
    )
    add_options(parser)
    given = parser.parse_args(arguments)
    interruptible()
    folder = Path(given.out)
    try:
        is_begun = given.steps and "plan" not in given.steps
        nightly_run = NightlyRun.load(folder) if is_begun else begin(folder, plan_from(given))
        return _run(nightly_run, [step for step in given.steps or STEPS if step != "plan"])
    except PlanError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_UNUSABLE
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED


def begin(folder: Path, plan: NightlyPlan) -> NightlyRun:
    """Begin a night in a folder; what an earlier night left there is removed, if it is ours."""
    folder.mkdir(parents=True, exist_ok=True)
    own_files = {STATE_FILE, f"{STATE_FILE}.new", RUN_FILE, *FORMS.values(), *summary.FILES}
    strangers = sorted(
        path.name
        for path in folder.iterdir()
        if not (path.name in own_files or path.name.startswith(LEFT_BY_A_KILL))
        or (path.is_dir() and not path.is_symlink())
    )
    if strangers:
        raise PlanError(f"{folder} holds {strangers[0]}, which no night wrote: choose a folder of its own with --out")
    for path in folder.iterdir():
        path.unlink()
    nightly_run = NightlyRun(folder, plan, [])
    nightly_run.save()
    print(f"night {plan.label} in {folder}", flush=True)
    return nightly_run


def _run(nightly_run: NightlyRun, steps: list[str]) -> int:
    code = 0
    for step in steps:
        print(f"── {step}", flush=True)
        code = STEPS[step](nightly_run)
    return code if len(steps) == 1 else nightly_run.exit_code


def install(nightly_run: NightlyRun) -> int:
    """Build the environment, where the plan has one."""
    began = time.monotonic()
    commands = nightly_run.plan.install()
    for command in commands:
        if _call(command) != 0:
            return nightly_run.note("install", EXIT_UNUSABLE, began, f"failed: {shown(command)}")
    return nightly_run.note(
        "install", 0 if commands else None, began, "" if commands else "no --venv: the interpreter is used as it is"
    )


def doctor(nightly_run: NightlyRun) -> int:
    """Look at the machine; what it warns of is kept for the summary."""
    began = time.monotonic()
    code, text = _output(nightly_run.plan.doctor())
    (nightly_run.folder / summary.DOCTOR).write_text(text, encoding="utf-8")
    remarks = summary.doctor_remarks(nightly_run.folder)
    print("\n".join(remarks) if remarks else "nothing is missing" if code == 0 else text, flush=True)
    note = "" if code == 0 else "something is broken: its line in the log says what, and the command that mends it"
    return nightly_run.note("doctor", EXIT_UNUSABLE if code else 0, began, note)


def canary(nightly_run: NightlyRun) -> int:
    """Look for the slow state before an hour is spent in it."""
    began = time.monotonic()
    if nightly_run.code_of("doctor"):
        return nightly_run.note("canary", None, began, "left out: doctor found something broken")
    code, text = _output(nightly_run.plan.canary())
    print(text, end="", flush=True)
    if code == EXIT_SLOW_MACHINE:
        return nightly_run.note("canary", code, began, "the machine is in a slow state: nothing was measured")
    last_line = (text.strip().splitlines() or [""])[-1]
    return nightly_run.note(
        "canary", EXIT_UNUSABLE if code else 0, began, "the canary could not run" if code else last_line
    )


def bench(nightly_run: NightlyRun) -> int:
    """Measure. pytest's 1 (a wrong kernel, too few measured) is passed on; all else that is not 0 is 2."""
    began = time.monotonic()
    for before in ("install", "doctor", "canary"):
        if nightly_run.code_of(before):
            return nightly_run.note("bench", None, began, f"left out: {before} failed")
    stored = _stored_runs(nightly_run)
    if stored is not None and (wrong := stored_complaint(nightly_run.plan.label, nightly_run.plan.against, stored)):
        print(f"error: {wrong}", file=sys.stderr, flush=True)
        return nightly_run.note("bench", EXIT_UNUSABLE, began, wrong)
    limit_s = nightly_run.plan.bench_minutes * 60
    keep_spool(nightly_run.plan.spool)
    with machine_lock(min(limit_s, LOCK_WAIT_S), lambda text: print(text, flush=True)) as is_ours:
        if not is_ours:
            return nightly_run.note("bench", EXIT_UNUSABLE, began, "another benchmark held the machine all the time")
        code = _call(nightly_run.plan.bench(nightly_run.folder / RUN_FILE), limit_s=limit_s)
    nightly_run.run = MeasuredRun.read(nightly_run.folder / RUN_FILE)
    counts = "no run was stored" if nightly_run.run is None else nightly_run.run.counts_text
    note = {
        0: counts,
        1: f"a kernel failed its check, or fewer cases were measured than required: {counts}",
        5: "no case was selected",
    }.get(code, f"pytest stopped with {code}: the run is incomplete, and never a baseline")
    return nightly_run.note("bench", code if code in (0, 1) else EXIT_UNUSABLE, began, note)


def keep_spool(folder: str) -> None:
    """Make .roofline/spool a link to a folder that outlives the workspace: pytest finds there what waits, and leaves
    there what has to.
    """
    link = Path(".roofline") / "spool"
    if not folder or link.is_symlink() or link.exists():
        return
    Path(folder).mkdir(parents=True, exist_ok=True)
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(folder, target_is_directory=True)


def diff(nightly_run: NightlyRun) -> int:
    """Compare with the baseline, in every form; the exit code is that of `roofline diff`."""
    began = time.monotonic()
    measured_run = nightly_run.run
    if measured_run is None:
        return nightly_run.note("diff", None, began, "left out: this night stored no run")
    if measured_run.status != "complete":
        return nightly_run.note("diff", None, began, f"left out: the run is {measured_run.status}")
    code = EXIT_UNUSABLE
    for form, name in FORMS.items():
        output = nightly_run.folder / name
        code = _call(nightly_run.plan.diff(measured_run.run_id, form, output))
        if code not in summary.VERDICTS or code == EXIT_UNUSABLE:
            return nightly_run.note("diff", EXIT_UNUSABLE, began, "roofline diff failed; its message is in the log")
    before = summary.compared_with(nightly_run.folder)
    is_last_night = nightly_run.plan.against.lower().startswith("baseline") and before is not None and len(before) <= 1
    if nightly_run.plan.against != "latest" and not is_last_night:
        _call(nightly_run.plan.diff(measured_run.run_id, "md", nightly_run.folder / summary.LAST_NIGHT, "latest"))
    print((nightly_run.folder / FORMS["text"]).read_text(encoding="utf-8"), flush=True)
    return nightly_run.note(
        "diff", code, began, summary.NOT_COMPARED if before == [] else summary.VERDICTS.get(code, "")
    )


def history(nightly_run: NightlyRun) -> int:
    """List the change points of time, energy and prediction error. They are told and filed, and fail no night: the diff
    does that.
    """
    began = time.monotonic()
    for metric, name in summary.HISTORIES.items():
        code, text = _output(nightly_run.plan.history(metric))
        if code:
            return nightly_run.note(
                "history", EXIT_UNUSABLE, began, "roofline history failed; its message is in the log"
            )
        (nightly_run.folder / name).write_text(text, encoding="utf-8")
    return nightly_run.note("history", 0, began)


def report(nightly_run: NightlyRun) -> int:
    """Write the page. The whole run as JSON is there since `bench`."""
    began = time.monotonic()
    if nightly_run.run is None:
        return nightly_run.note("report", None, began, "left out: this night stored no run")
    compares = nightly_run.code_of("diff") not in (None, EXIT_UNUSABLE)
    code = _call(nightly_run.plan.report(nightly_run.run.run_id, nightly_run.folder / "report.html", compares=compares))
    return nightly_run.note("report", EXIT_UNUSABLE if code else 0, began, "could not be written" if code else "")


def summarise(nightly_run: NightlyRun) -> int:
    """Write the summary, also where GitHub shows it, and return the verdict of the night."""
    text = summary.markdown(
        nightly_run.plan, nightly_run.steps, nightly_run.exit_code, nightly_run.folder, nightly_run.run
    )
    (nightly_run.folder / "summary.md").write_text(text, encoding="utf-8")
    document = {
        "label": nightly_run.plan.label,
        "exit_code": nightly_run.exit_code,
        "steps": nightly_run.steps,
        "run": _plain(nightly_run.run),
        "doctor": summary.doctor_remarks(nightly_run.folder),
    }
    (nightly_run.folder / "summary.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    if shown_at := os.environ.get("GITHUB_STEP_SUMMARY"):
        with open(shown_at, "a", encoding="utf-8") as stream:
            stream.write(summary.cut(text))
    print(
        f"{summary.verdict(nightly_run.exit_code, nightly_run.folder)} · {nightly_run.folder / 'summary.md'}",
        flush=True,
    )
    return nightly_run.exit_code


def _stored_runs(nightly_run: NightlyRun) -> list[Mapping[str, Any]] | None:
    """Return what the database holds before the night; None where it cannot be read, as before the first one."""
    done = subprocess.run(
        nightly_run.plan.runs(),
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        env=_environment(),
    )
    try:
        return list(json.loads(done.stdout)["runs"])
    except (ValueError, KeyError, TypeError):
        return None


def _plain(run: MeasuredRun | None) -> dict[str, Any] | None:
    return None if run is None else run.to_dict()


def _output(command: list[str]) -> tuple[int, str]:
    """Run a command; return its exit code and what it printed, 2 where it does not start. Its errors go to our own."""
    print(f"$ {shown(command)}", flush=True)
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, text=True, check=False, stdin=subprocess.DEVNULL, env=_environment()
        )
    except OSError as error:
        print(f"error: {command[0]} does not start ({error.strerror})", file=sys.stderr)
        return EXIT_UNUSABLE, ""
    return done.returncode, done.stdout


def _call(command: list[str], limit_s: float | None = None) -> int:
    return run_command(command, _environment(), limit_s=limit_s, limit_name="--bench-minutes")


def _environment() -> dict[str, str]:
    """Return ours, with the tool's own packages importable in a checkout that is not installed."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONPATH": os.pathsep.join(paths)}


STEPS: dict[str, Callable[[NightlyRun], int]] = {
    "plan": lambda nightly_run: 0,
    "install": install,
    "doctor": doctor,
    "canary": canary,
    "bench": bench,
    "diff": diff,
    "history": history,
    "report": report,
    "summary": summarise,
}


if __name__ == "__main__":
    sys.exit(main())
