"""docs/how_to/nightly.md names only what exists: commands, options, steps, inputs, files; its lists are readable
ones."""

from __future__ import annotations

import datetime
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import typer.main
import yaml

ROOT = Path(__file__).resolve().parents[2]
TEXT = "\n".join(
    (ROOT / "docs" / "how_to" / name).read_text(encoding="utf-8") for name in ("nightly.md", "pull_request.md")
)
FENCE = re.compile(r"^( *)```(\w+)\n(.*?)^\1```", re.DOTALL | re.MULTILINE)


def blocks(language: str) -> list[str]:
    return [
        re.sub(f"^{indent}", "", body, flags=re.MULTILINE)
        for indent, kind, body in FENCE.findall(TEXT)
        if kind == language
    ]


def commands() -> list[list[str]]:
    """Return every command that a reader may type: of console blocks, and of `code` that begins with a program's
    name.
    """
    lines = [
        line.removeprefix("$ ") for block in blocks("console") for line in block.splitlines() if line.startswith("$ ")
    ]
    prose = FENCE.sub("", TEXT)
    lines += [code for code in re.findall(r"`([^`\n]+)`", prose) if code.split()[0] in ("roofline", "python", "pytest")]
    return [shlex.split(line) for line in lines]


def command_of(words: list[str]) -> tuple[str, object]:
    """Return the name and the typer command of a `roofline …` line."""
    from roofline_cli.main import app

    command = typer.main.get_command(app)
    name = "roofline"
    for word in words[1:]:
        inner = getattr(command, "commands", {})
        if word not in inner:
            break
        command, name = inner[word], f"{name} {word}"
    return name, command


def test_there_is_something_to_check():
    programs = {words[0] for words in commands()}
    assert {"roofline", "python"} <= programs
    assert len(blocks("yaml")) == 2
    assert len(blocks("toml")) == 2


@pytest.mark.parametrize("words", [words for words in commands() if words[0] == "roofline"], ids=" ".join)
def test_commands_and_their_options_exist(words):
    name, command = command_of(words)
    assert name != "roofline"
    options = {option for parameter in command.params for option in parameter.opts + parameter.secondary_opts}
    given = [word.partition("=")[0] for word in words if word.startswith("-")]
    assert not [option for option in given if option not in options]


@pytest.mark.parametrize("words", [words for words in commands() if words[0] == "python"], ids=" ".join)
def test_scripts_and_their_options_exist(words):
    path = ROOT / words[1]
    assert path.is_file()
    done = subprocess.run([sys.executable, str(path), "--help"], capture_output=True, text=True, check=True)
    options = set(re.findall(r"(?<![\w-])(--?[a-z][a-z-]*)", done.stdout))
    assert not [word for word in words if word.startswith("-") and word.partition("=")[0] not in options]


def test_options_named_in_the_text_exist():
    from roofline_pytest_options import OPTIONS

    named = set(re.findall(r"`(--[a-z][a-z-]+)", FENCE.sub("", TEXT)))
    commands_of_the_pages = [command_of(["roofline", name])[1] for name in ("nightly", "pr", "history")]
    options = {option for command in commands_of_the_pages for parameter in command.params for option in parameter.opts}
    of_others = {"--ephemeral"}  # of GitHub's own runner
    assert named - options - {name for name, _ in OPTIONS} - of_others == set()


def test_the_steps_are_those_of_a_run():
    table = re.findall(r"^\| `(\w+)` \|", TEXT, flags=re.MULTILINE)
    assert table == ["doctor", "canary", "bench", "diff", "history", "report"]


@pytest.mark.parametrize("text", blocks("yaml"), ids=["nightly", "pull-request-bench"])
def test_the_example_callers_fit_the_workflows(text):
    caller = yaml.safe_load(text)
    (job,) = caller["jobs"].values()
    repository, _, name = job["uses"].partition("/.github/workflows/")
    file, _, commit = name.partition("@")
    called = yaml.safe_load((ROOT / ".github" / "workflows" / file).read_text(encoding="utf-8"))
    accepted = called[True]["workflow_call"]
    assert set(job["with"]) <= set(accepted["inputs"])
    assert set(job.get("secrets", {})) <= set(accepted.get("secrets", {}))
    assert (job["with"]["tool_repository"], job["with"]["tool_ref"]) == (repository, commit)
    permissions = {
        scope: right for job in called["jobs"].values() for scope, right in job.get("permissions", {}).items()
    }
    granted = job["permissions"]
    assert {scope for scope, right in permissions.items() if right == "write"} <= {
        scope for scope, right in granted.items() if right == "write"
    }
    assert set(permissions) <= set(granted)


def test_the_lists_are_readable(tmp_path):
    from results.watch.annotations import load_annotations
    from results.watch.quarantine import load_quarantine

    kinds = {next(iter(tomllib.loads(text))): text for text in blocks("toml")}
    assert set(kinds) == {"case", "annotation"}
    (tmp_path / "quarantine.toml").write_text(kinds["case"], encoding="utf-8")
    assert len(load_quarantine(tmp_path / "quarantine.toml", datetime.date(2026, 11, 21)).entries) == 1
    (tmp_path / "annotations.toml").write_text(kinds["annotation"], encoding="utf-8")
    assert len(load_annotations(tmp_path / "annotations.toml")) == 1


def test_the_exit_codes_are_those_of_the_summary():
    rows = {int(code) for code in re.findall(r"^\| (\d)[,\s]", TEXT, flags=re.MULTILINE)}
    assert rows == {0, 1, 2, 3, 4, 5}


def test_links_inside_the_page_lead_somewhere():
    headings = {
        re.sub(r"[^a-z0-9 -]", "", line.lstrip("# ").lower()).replace(" ", "-")
        for line in TEXT.splitlines()
        if line.startswith("#")
    }
    assert not set(re.findall(r"\]\(#([\w-]+)\)", TEXT)) - headings
    for file, heading in re.findall(
        r"docs/how_to/nightly\.md#([\w-]+)()",
        "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "roofline_cli").glob("*/*.py")),
    ):
        assert file in headings, heading
