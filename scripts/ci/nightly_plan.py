"""What a nightly run measures and what it is compared with: `NightlyPlan`, and the command line of every step. Needs
nothing but Python.

The workflows and a person at a terminal run the same steps through `scripts/ci/nightly.py`; what a step does stands
here and nowhere else. A password never gets into a plan: a database on a server is named by ROOFLINE_DB, which every
command reads.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from plan_checks import ROOT, complaints, holds_credentials, holds_password, split_words

OWN_WORKLOADS = "bench_cases"
DEFAULT_AGAINST = "baseline"
"""The rolling one: the newest five complete runs of the same machine, branch and method, pooled."""
DEFAULT_FAIL_ON = "slower,gone"
DEFAULT_MAX_AMBIGUOUS = "20%"
"""A gate that cannot tell in more of its cases has seen nothing: it does not pass."""


class PlanError(Exception):
    """The night cannot be planned, or a step cannot begin; one line that says what to do."""


@dataclass(frozen=True, slots=True)
class NightlyPlan:
    """One night. Empty text: the tool's own default."""

    label: str
    """Names the run; one label, one night."""
    python: str
    """Interpreter that has roofline-bench."""
    tests: tuple[str, ...] = (OWN_WORKLOADS,)
    """Folders and files given to pytest; `bench_cases` are the tool's own workloads."""
    keyword: str = ""
    hw: str = ""
    shapes: str = ""
    formats: str = ""
    db: str = ""
    spool: str = ""
    """Folder outside the workspace for results that the database would not take; empty: .roofline/spool, here."""
    processes: int = 3
    """Fresh processes per case: the unit of the diff."""
    require_measured: int = 1
    """Fewer measured cases fail the night."""
    pytest_options: str = ""
    """Further options, as typed in a shell."""
    against: str = DEFAULT_AGAINST
    fail_on: str = DEFAULT_FAIL_ON
    max_ambiguous: str = DEFAULT_MAX_AMBIGUOUS
    """Empty: no limit."""
    quarantine: str = ""
    annotations: str = ""
    bench_minutes: float = 240.0
    """After this pytest is interrupted; it stores what it has, and the run counts as incomplete."""
    venv: str = ""
    """Folder of the environment that the step `install` builds; empty: `python` is ready as it is."""
    packages: str = ""
    """Arguments of `pip install` for the repository under test, e.g. `-e .`; never replaces torch."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", self.label) or self.label.startswith("latest"):
            raise PlanError(
                f"--label {self.label!r} cannot name a night: letters, digits, . _ - only, not beginning with latest"
            )
        self._check_secrets()
        if self.processes < 1 or self.require_measured < 1 or not 0 < self.bench_minutes <= 6000:
            raise PlanError(
                "--processes and --require-measured are 1 or more, --bench-minutes above 0 and at most 6000"
            )
        if not self.tests:
            raise PlanError("--tests is empty: name the folder with your benchmarks, or bench_cases")

    def _check_secrets(self) -> None:
        """Refuse a password in any text: the plan is stored, uploaded and printed."""
        for name, value in asdict(self).items():
            texts = [value] if isinstance(value, str) else value if isinstance(value, tuple) else []
            is_secret = holds_credentials if name == "packages" else holds_password
            if any(is_secret(text) for text in texts):
                raise PlanError(
                    f"--{name.replace('_', '-')} holds a password: put the URL into ROOFLINE_DB, or the password into "
                    "PGPASSFILE"
                )

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> NightlyPlan:
        """Return the plan that `to_dict` described."""
        given: dict[str, Any] = {field.name: values[field.name] for field in fields(cls) if field.name in values}
        return cls(**{**given, "tests": tuple(given["tests"])})

    # One command line per step.

    def install(self) -> list[list[str]]:
        """Build the environment as `make bench` does, then add the packages of the repository under test."""
        if not self.venv:
            return []
        commands = [["make", "--no-print-directory", "-C", str(ROOT), "venv", f"VENV={self.venv}"]]
        if self.packages:
            constraints = (
                Path(self.venv) / "constraints.txt"
            )  # there, and with the vendor's torch in it, on a vendor's Python
            pins = constraints if constraints.is_file() else ROOT / "constraints.txt"
            commands.append(
                [self.python, "-m", "pip", "install", "--no-input", "-c", str(pins), *shlex.split(self.packages)]
            )
        return commands

    def doctor(self) -> list[str]:
        """Say what this machine has; exits 1 when something is broken."""
        return self._roofline("doctor", "--json")

    def canary(self) -> list[str]:
        """Run the canary kernel alone; exits 5 when the machine is in a slow state."""
        return [self.python, "-P", str(ROOT / "scripts" / "ci" / "nightly_canary.py"), *self._database()]

    def bench(self, json_file: Path) -> list[str]:
        """Measure; the finished run is written to `json_file`, too.

        Values stand behind `=`: pytest takes a word of its own that is an existing path for a test's.
        """
        tests = [
            str(ROOT / OWN_WORKLOADS) if test == OWN_WORKLOADS and not Path(test).exists() else test
            for test in self.tests
        ]
        options = {
            "--roofline-hw": self.hw,
            "--roofline-shapes": self.shapes,
            "--roofline-formats": self.formats,
            "--roofline-db": self.db,
            "--roofline-run": self.label,
            "--roofline-processes": str(self.processes),
        }
        keyword = ["-k", self.keyword] if self.keyword else []
        return [
            self.python,
            "-m",
            "pytest",
            *tests,
            *keyword,
            *(f"{name}={value}" for name, value in options.items() if value),
            *shlex.split(self.pytest_options),
            f"--roofline-json={json_file}",
            f"--roofline-require-measured={self.require_measured}",
        ]

    def diff(self, run_id: str, form: str, output: Path, against: str = "") -> list[str]:
        """Compare the night's run with its baseline, or with `against`; exit codes of `roofline diff`."""
        options = {
            "--fail-on": self.fail_on,
            "--max-ambiguous": self.max_ambiguous,
            "--quarantine": self.quarantine,
            "--annotations": self.annotations,
        }
        given = [word for name, value in options.items() if value for word in (name, value)]
        return self._roofline(
            "diff", run_id, "--against", against or self.against, *given, "--format", form, "-o", str(output)
        )

    def history(self, metric: str) -> list[str]:
        """List the change points of every case in one metric, as JSON on stdout."""
        options = {"--annotations": self.annotations, "--quarantine": self.quarantine}
        given = [word for name, value in options.items() if value for word in (name, value)]
        return self._roofline("history", "--all", "--metric", metric, *given, "--json")

    def report(self, run_id: str, output: Path, *, compares: bool) -> list[str]:
        """Write the page of the night, with what changed since its baseline where it `compares`."""
        since = ["--baseline", self.against] if compares else []
        return self._roofline("report", "--run", run_id, *since, "-o", str(output))

    def runs(self) -> list[str]:
        """List what is stored."""
        return self._roofline("runs", "--json", "--limit", "100000")

    def _roofline(self, *arguments: str) -> list[str]:
        # -P: a results.py of the repository under test is not ours.
        return [self.python, "-P", "-m", "roofline_cli", *arguments, *self._database()]

    def _database(self) -> list[str]:
        return ["--db", self.db] if self.db else []


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that make a plan."""
    text = {
        "--label": ("LABEL", "Name of the night's run (default: nightly-DATE-TIME in UTC)."),
        "--keyword": ("EXPRESSION", "pytest's -k: only these cases."),
        "--hw": ("NAME|FILE|auto", "The chip, as pytest's --roofline-hw (default: this machine)."),
        "--shapes": ("SET", "As pytest's --roofline-shapes."),
        "--formats": ("F1,F2", "As pytest's --roofline-formats."),
        "--db": ("URL|PATH", "Results database, without a password (default: ROOFLINE_DB, else .roofline/results.db here)."),
        "--spool": ("FOLDER", "Keep results that a server did not take here, not in a workspace that CI empties."),
        "--pytest-options": ("'…'", "Further options for pytest."),
        "--quarantine": ("FILE.toml", "Cases that are shown but fail nothing."),
        "--annotations": ("FILE.toml", "Changes that are expected: they fail nothing and raise no alert."),
        "--venv": ("FOLDER", "Build this environment first, as `make bench` does; never replaces a working vendor torch."),
        "--packages": ("'…'", "With --venv: arguments of pip install for the repository under test, e.g. '-e .'."),
        "--python": ("PATH", "Interpreter that has roofline-bench (default: the one of --venv, else this one)."),
    }  # fmt: skip
    for name, (metavar, help_text) in text.items():
        parser.add_argument(name, metavar=metavar, default="", help=help_text)
    parser.add_argument("-k", dest="keyword", metavar="EXPRESSION", help="Short for --keyword.")
    parser.add_argument(
        "--tests", metavar="PATH …", default=OWN_WORKLOADS, help="What pytest runs (default: bench_cases)."
    )
    parser.add_argument(
        "--against",
        metavar="RUN",
        default=DEFAULT_AGAINST,
        help=f"Baseline, as of `roofline diff` (default {DEFAULT_AGAINST}: the rolling one).",
    )
    parser.add_argument(
        "--fail-on",
        metavar="RULES",
        default=DEFAULT_FAIL_ON,
        help=f"As of `roofline diff` (default {DEFAULT_FAIL_ON}).",
    )
    add_max_ambiguous(parser)
    parser.add_argument("--processes", metavar="N", type=int, default=3, help="Fresh processes per case (default 3).")
    parser.add_argument(
        "--require-measured", metavar="N", type=int, default=1, help="Fail when fewer cases were measured (default 1)."
    )
    parser.add_argument(
        "--bench-minutes", metavar="MINUTES", type=float, default=240.0, help="Stop measuring after this (default 240)."
    )


def add_max_ambiguous(parser: argparse.ArgumentParser) -> None:
    """Add the option that the gates of nights and pull requests have in common."""
    parser.add_argument(
        "--max-ambiguous",
        metavar="N|P%",
        default=DEFAULT_MAX_AMBIGUOUS,
        help=f"As of `roofline diff` (default {DEFAULT_MAX_AMBIGUOUS}; '': no limit).".replace("%", "%%"),
    )


def plan_from(given: argparse.Namespace) -> NightlyPlan:
    """Return the plan of the options; raises `PlanError` for what cannot be meant."""
    values = {field.name: getattr(given, field.name) for field in fields(NightlyPlan)}
    try:
        values["tests"] = tuple(split_words("--tests", given.tests))
        split_words("--packages", given.packages)
        pytest_words = split_words("--pytest-options", given.pytest_options)
    except ValueError as error:
        raise PlanError(str(error)) from None
    values["label"] = given.label or f"nightly-{datetime.datetime.now(datetime.UTC):%Y-%m-%d-%H%M%S}"
    values["keyword"] = given.keyword or ""
    values["db"] = given.db if "://" in given.db else os.path.expanduser(given.db)
    values["spool"] = os.path.abspath(os.path.expanduser(given.spool)) if given.spool else ""
    values["venv"] = os.path.abspath(given.venv) if given.venv else ""
    values["python"] = given.python or (str(Path(values["venv"]) / "bin" / "python") if given.venv else sys.executable)
    plan = NightlyPlan(**values)
    wrong = complaints(
        fail_on=plan.fail_on,
        against=plan.against,
        max_ambiguous=plan.max_ambiguous,
        quarantine=plan.quarantine,
        annotations=plan.annotations,
        pytest_words=pytest_words,
        tests=plan.tests,
    )
    if (first := next(wrong, None)) is not None:
        raise PlanError(first)
    return plan


def shown(command: Sequence[str]) -> str:
    """Return a command as one would type it, with paths below the current folder made short."""
    here = os.getcwd() + os.sep
    return shlex.join([word.removeprefix(here) for word in command])


def read_json(path: Path) -> Any:
    """Return a JSON file's content; None where there is none or it is no JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
