"""What of a night's plan can be known to be wrong before an hour is spent on it. The tool's own readers decide, not a
second set of rules.

They are imported where they are needed, and need nothing but Python: a plan is made before anything is installed.
"""

from __future__ import annotations

import datetime
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

GIVEN_BY_A_NIGHT = {
    "--roofline-run": "--label names the run",
    "--roofline-db": "--db names the database",
    "--roofline-processes": "--processes says how many",
    "--roofline-require-measured": "--require-measured says how many",
    "--roofline-json": "the run is run.json in the folder of the night",
}
"""Options of pytest that a night gives itself → what to use instead: given twice, it would look for its run
elsewhere.
"""
_AGAINST = re.compile(r"(latest|baseline)(.*)|branch:(.*)", re.IGNORECASE)
_PASSWORD = re.compile(r"(?i)\b(ssl)?password\s*=\s*\S")


def holds_password(text: str) -> bool:
    """Return whether a text holds a password: in a database URL as `results.store.target` reads it, or as
    `password=…`.
    """
    _import_ours()
    from results.store.target import mask_passwords

    words = [text, *text.split()]
    return bool(_PASSWORD.search(text)) or any(mask_passwords(word) != word for word in words)


def holds_credentials(text: str) -> bool:
    """Return whether an address of a package names user and password."""
    return re.search(r"://[^/@\s]*:[^/@\s]*@", text) is not None


def split_words(option: str, text: str) -> list[str]:
    """Return the words of a text as a shell reads it; raises `ValueError` in one line."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise ValueError(
            f"{option} cannot be read as a shell would ({str(error).lower()}): close the quotation"
        ) from None


def complaints(
    *,
    fail_on: str,
    against: str,
    max_ambiguous: str,
    quarantine: str,
    annotations: str,
    pytest_words: Sequence[str],
    tests: Sequence[str],
    given: Mapping[str, str] = GIVEN_BY_A_NIGHT,
) -> Iterator[str]:
    """Yield what cannot be meant, a line each. `given`: options of pytest that are not the user's to give, and why."""
    _import_ours()
    from results.diff.gate import parse_fail_on, parse_max_ambiguous
    from results.watch.annotations import load_annotations
    from results.watch.quarantine import load_quarantine
    from roofline_model.core.errors import RooflineError

    today = datetime.datetime.now(datetime.UTC).date()
    readers = (
        (fail_on, lambda: parse_fail_on([fail_on]), ""),
        (max_ambiguous, lambda: parse_max_ambiguous(max_ambiguous), ""),
        (quarantine, lambda: load_quarantine(quarantine, today), "--quarantine "),
        (annotations, lambda: load_annotations(annotations), "--annotations "),
    )
    for text, read, option in readers:
        try:
            if text:
                read()
        except RooflineError as error:
            yield f"{option}{error}"
    yield from _against(against)
    yield from _pytest_options(pytest_words, given)
    if not any(word.startswith("-") for word in tests):
        for word in tests:
            if word != "bench_cases" and not Path(word.partition("::")[0]).exists():
                yield f"--tests {word[:80]}: there is no such file or folder here"


def _against(text: str) -> Iterator[str]:
    """Complain about a word of `--against` that `roofline diff` could not read, whatever is stored."""
    word = text.strip()
    match = _AGAINST.fullmatch(word)
    accepted = "latest, latest~N, baseline, baseline:N, branch:NAME, or the label or id of a run"
    if not word:
        yield f"--against is empty; give {accepted}"
    elif match is None:
        return
    elif match[1] is None:
        if not match[3].strip():
            yield "--against branch: needs the name of a branch, such as branch:main"
    elif match[1].lower() == "baseline" and match[2]:
        number = re.fullmatch(r":([0-9]{1,9})", match[2])
        if number is None or not 1 <= int(number[1]) <= 100:
            yield f"--against {word[:40]!r}: baseline:N takes 1 to 100 runs; or give {accepted}"
    elif match[2] and re.fullmatch(r"~[0-9]{1,9}", match[2]) is None:
        yield f"--against {word[:40]!r} is none of {accepted}"


def _pytest_options(words: Sequence[str], given: Mapping[str, str]) -> Iterator[str]:
    from roofline_pytest_options import OPTIONS

    pytest_options = {name for name, _ in OPTIONS}
    for word in words:
        name = word.partition("=")[0]
        if name in given:
            yield f"--pytest-options holds {name}, which pytest is given already: {given[name]}"
        elif name.startswith("--roofline-") and name not in pytest_options:
            yield (
                f"--pytest-options holds {name[:60]}, which pytest does not know; `pytest --help` lists those of the "
                "group roofline"
            )


def _import_ours() -> None:
    """Let the tool's own modules be found first, in a checkout that is not installed, too."""
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))


def stored_complaint(label: str, against: str, runs: Sequence[Mapping[str, Any]]) -> str:
    """Return what these stored runs (of `roofline runs --json`) show to be wrong with a label or a baseline; empty
    where nothing is.
    """
    taken = next((run for run in runs if run["label"] == label), None)
    if taken is not None:
        return (
            f"--label {label} is taken by run {taken['run_id'][:8]} of {taken['started_at'][:16]}: one label, one "
            "night; "
            "plan with another one, or without"
        )
    word = against.strip()
    match = _AGAINST.fullmatch(word)
    if match is None:
        prefix = word.lower() if re.fullmatch(r"[0-9a-fA-F]{4,}", word) else None
        is_known = any(run["label"] == word or (prefix and run["run_id"].startswith(prefix)) for run in runs)
        return (
            "" if is_known else f"--against {word[:80]}: no stored run has this label or id; `roofline runs` lists them"
        )
    branches = {run["git_branch"] for run in runs if run["status"] == "complete" and run["git_branch"]}
    if match[1] is None and branches and match[3].strip() not in branches:
        return f"--against {word[:80]}: no complete run is of this branch; known: {', '.join(sorted(branches)[:8])}"
    return ""
