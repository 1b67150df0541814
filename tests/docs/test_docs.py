"""The documentation is complete: errors, options, commands, changes; and nothing of one machine is written down."""

from __future__ import annotations

import ast
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest
import typer
import warm_start

import roofline_model.core.errors as errors

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("roofline_model", "bench_cases", "plugin", "results", "reports", "roofline_cli")


@cache
def documentation() -> str:
    """Return README and docs/ as one text."""
    return "\n".join(
        path.read_text(encoding="utf-8")
        for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
        if path.exists()
    )


def error_classes() -> list[type[errors.RooflineError]]:
    classes = [errors.RooflineError]
    for error in classes:
        classes += error.__subclasses__()
    return [error for error in classes if error.__module__.split(".")[0] in PACKAGES]


@cache
def names_in_code() -> set[str]:
    """Return the kinds of names that some code says it does not know: the first argument of UnknownNameError."""
    kinds = set()
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            if "UnknownNameError" not in text:  # reading is quicker than parsing
                continue
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("UnknownNameError") and node.args:
                    kind = node.args[0]
                    assert isinstance(kind, ast.Constant), f"{path}:{node.lineno}: give the kind as a plain string"
                    kinds.add(str(kind.value))
    return kinds


def headings(text: str) -> set[str]:
    return {
        re.sub(r"[^a-z0-9 -]", "", line.lstrip("# ").lower()).replace(" ", "-")
        for line in text.splitlines()
        if line.startswith("#")
    }


def test_errors_md_explains_every_error_and_no_other():
    slugs = {error.slug for error in error_classes()}
    slugs |= {f"unknown-{kind.replace(' ', '-')}" for kind in names_in_code()}
    text = (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
    assert len(slugs) >= 10
    assert not slugs - headings(text)
    assert not headings("\n".join(line for line in text.splitlines() if line.startswith("## "))) - slugs


def test_every_option_is_documented():
    done = warm_start.run("pytest", "--help", cwd=ROOT)
    group = done.stdout[done.stdout.index("roofline:") :]
    options = set(re.findall(r"^  (--(?:roofline-[a-z-]+|hw))", group, flags=re.MULTILINE))
    assert "--roofline-hw" in options
    text = documentation()
    assert not [option for option in sorted(options) if not re.search(re.escape(option) + r"(?![a-z-])", text)]


def commands() -> list[str]:
    """Return every command of the `roofline` program, sub-commands with their group."""
    app = pytest.importorskip("roofline_cli.main").app

    def names(group, prefix: str):
        for name, command in group.commands.items():
            if hasattr(command, "commands"):
                yield from names(command, f"{prefix}{name} ")
            else:
                yield prefix + name

    return list(names(typer.main.get_command(app), ""))


def test_every_command_is_documented():
    names = commands()
    assert {"predict gemv", "doctor", "report"} <= set(names)
    text = documentation()
    assert not [command for command in names if f"roofline {command}" not in text]


def test_decisions_are_numbered_and_short():
    files = sorted((ROOT / "docs" / "development" / "decisions").glob("*.md"))
    numbers = [path.name[:4] for path in files]
    assert numbers == [f"{ordinal:04d}" for ordinal in range(1, len(files) + 1)]
    for path in files:
        text = path.read_text(encoding="utf-8")
        # Rows of a table may be many: decision 14 lists contests one by one.
        assert len([line for line in text.splitlines() if not line.startswith("|")]) <= 60, path.name
        assert all(f"## {title}" in text for title in ("Context", "Choice", "Cost")), path.name


def tracked_files() -> list[Path]:
    """Return what a commit would hold: tracked files, and new ones that are not ignored."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], capture_output=True, cwd=ROOT)
    if listed.returncode != 0:  # an unpacked archive: no caches, no environment, no results
        ignored = re.compile(r"(^|/)(\.(?!ci/|github/)[^/]*/|__pycache__/|build/|dist/|[^/]*\.egg-info/)")
        files = [path for path in ROOT.rglob("*") if path.is_file()]
        return [path for path in files if not ignored.search(path.relative_to(ROOT).as_posix())]
    return [path for name in listed.stdout.decode().split("\0") if name and (path := ROOT / name).is_file()]


# Paths of one machine, and hosts that serve packages. Public images' own places are not one machine's.
PERSONAL = re.compile(
    r"(?<![\w.~$}/-])/(?:work|root|tmp|home/(?!me\b|user\b|you\b))[/\w]|(?<![\w.~$}/-])/opt/(?!conda/|venv/|pytorch/)"
    r"|(?:pypi|pythonhosted|npmjs|anaconda|jfrog|artifactory)[.](?:org|com|io)|download[.]pytorch[.]org|pypi[.]nvidia"
)


def test_nothing_of_one_machine_is_written_down():
    stale = []
    for path in tracked_files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # a picture
        for number, line in enumerate(text.splitlines(), 1):
            if PERSONAL.search(line) and path != Path(__file__).resolve():
                stale.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}")
    assert not stale, "\n".join(stale)


@pytest.mark.parametrize(
    ("text", "is_personal"),
    [
        ("cd /" + "work/main", True),
        ('open("/' + 'tmp/x.db")', True),
        ("/" + "root/.cache", True),
        ("/home/alice/x", True),
        ("/" + "opt/dev/venv", True),
        ("https://pypi" + ".org/simple", True),
        ("/opt/conda/bin/python", False),
        ("the work/root ratio of rooflines", False),
        ("docs/" + "tmp/x and $HOME/" + "work/x", False),
        ("/home/me/miniforge3", False),
    ],
)
def test_the_rule_for_personal_paths(text, is_personal):
    assert bool(PERSONAL.search(text)) is is_personal
