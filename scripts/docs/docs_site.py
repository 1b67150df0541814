"""Hooks of mkdocs: pages made from the code, and links that leave docs/.

The command line's pages are written from the commands themselves at every build, so they cannot grow old. A link to a
file outside docs/ becomes that file's path: the site has no such page.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from mkdocs.structure.files import File

from roofline_pytest_options import OPTIONS

ROOT = Path(__file__).resolve().parents[2]
ROOT_PAGES = {"CONTRIBUTING.md": "development/contributing.md", "CHANGELOG.md": "development/changelog.md"}
"""Pages of the repository's root, by where the site has them."""

LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")


def on_config(config: Any) -> Any:
    """List the decisions in the navigation: there is one more from time to time."""
    pages = sorted((ROOT / "docs" / "development" / "decisions").glob("*.md"))
    development = next(entry["Development"] for entry in config["nav"] if "Development" in entry)
    decisions = {"Decisions": [f"development/decisions/{page.name}" for page in pages]}
    config["nav"] = [entry for entry in config["nav"] if "Development" not in entry]
    config["nav"].append({"Development": [*development, decisions]})
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are no files of docs/."""
    pages = {target: (ROOT / name).read_text(encoding="utf-8") for name, target in ROOT_PAGES.items()}
    pages["reference/command_line.md"] = command_line_page()
    pages["reference/pytest_options.md"] = pytest_options_page()
    for target, text in pages.items():
        files.append(File.generated(config, target, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Return a page's text with links that the site can follow."""
    source = page.file.src_uri
    folder = next((posixpath.dirname(name) for name, target in ROOT_PAGES.items() if target == source), None)
    if folder is None:
        folder = posixpath.join("docs", posixpath.dirname(source))

    def followed(match: re.Match[str]) -> str:
        text, target = match.groups()
        if re.match(r"[a-z]+:|#", target):
            return match[0]
        name, _, anchor = target.partition("#")
        path = posixpath.normpath(posixpath.join(folder, name))
        inside = ROOT_PAGES.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else None)
        if path == "docs/development/decisions":
            return text
        if inside is None:
            return f"`{path}`" if text.strip("`") in path else f"{text} (`{path}`)"
        relative = posixpath.relpath(inside, posixpath.dirname(source) or ".")
        return f"[{text}]({relative}{'#' + anchor if anchor else ''})"

    return LINK.sub(followed, markdown)


def commands(group: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yield every command of a group with its whole name.

    Typer brings its own click, so nothing is asked for its type.
    """
    for part, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{name} {part}")
        else:
            yield f"{name} {part}", command


def command_line_page() -> str:
    """Return a page of every command's help, as `--help` prints it."""
    from roofline_cli.main import app

    parts = [
        "# Command line",
        (
            "What `roofline COMMAND --help` prints, for every command. [Commands by task](commands.md) says which answers "
            "what."
        ),
    ]
    for name, command in commands(typer.main.get_command(app), "roofline"):
        context = command.context_class(command, info_name=name, terminal_width=100, max_content_width=100)
        parts.append(f"## {name}\n\n```text\n{command.get_help(context).strip()}\n```")
    return "\n\n".join(parts) + "\n"


def pytest_options_page() -> str:
    """Return a page of the options that the plugin gives pytest."""
    rows = [
        "# pytest options",
        "",
        "What `pytest --help` says under *roofline*. [Measuring](measuring.md) explains what each of them changes.",
        "",
        "| option | what it does |",
        "|---|---|",
    ]
    for option, settings in OPTIONS:
        metavar = f" {settings['metavar']}" if "metavar" in settings else ""
        shown = f"{option}{metavar}".replace("|", "\\|")
        text = settings["help"].replace("%%", "%").replace("|", "\\|")
        rows.append(f"| `{shown}` | {text} |")
    return "\n".join(rows) + "\n"
