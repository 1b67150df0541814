"""Count sentences over 30 words, and words that docs/development/style.md replaces, in what a reader sees.

    python scripts/checks/check_words.py            # a line per file
    python scripts/checks/check_words.py -v FILE…   # every sentence and word

Reads README, CONTRIBUTING, CHANGELOG, docs, examples, the catalog of findings, the texts of tests/wording and every
`--help`. Generated pages are left out: they repeat a catalog. Exits 1 when one of them breaks a rule.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MOST_WORDS = 30
GENERATED = ("docs/reference/findings.md", "docs/reference/numbers.md", "docs/theory/labelled_truth.md")
CATALOG = "roofline_model/core/findings.toml"
BANNED = {
    "level": r"\blevel with\b|\bare level\b|\bonly level\b",
    "told": r"\b(?:is|are|was|were|be) told\b(?! apart)",
    "night": r"\b(?:one|a|the|this|that|last|two|three|earlier|over its|of the) nights?\b",
    "gentler": r"\bgentl(?:er|est)\b",
}
"""Words not to use, as patterns that find them in the sense that is meant."""

ALLOWED = re.compile(r"[Ll]ast night\?")


def prose(markdown: str) -> Iterator[str]:
    """Yield the paragraphs, list items and table cells of a Markdown text, without code."""
    text = re.sub(r"^ *```.*?^ *```", "\n", markdown, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"<!--.*?-->", "\n", text, flags=re.DOTALL)
    text = re.sub(r"^#+ .*$|^(?: {4}|\t).*$", "\n", text, flags=re.MULTILINE)
    text = re.sub(r"^\s*(?:[-*]|\d+\.) ", "\n\n", text, flags=re.MULTILINE)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"`[^`]*`", "Code", text)
    for paragraph in re.split(r"\n\s*\n", text):
        if paragraph.lstrip().startswith("|"):
            for cell in (cell.strip() for line in paragraph.splitlines() for cell in line.split("|")):
                yield re.sub(r"Code(?:(?:, | and )Code)+", "Code", cell)  # a list of names is no sentence
        else:
            yield re.sub(r"\s+", " ", paragraph).strip()


def sentences(paragraph: str) -> list[str]:
    """Split a paragraph where a full stop, question or exclamation mark ends a sentence, and a list at its dots."""
    return [part for part in re.split(r"(?<=[.!?])[)*_\"]*\s+(?=[A-Z0-9`*_\[\"(])| · ", paragraph) if part]


def paragraphs(path: Path) -> Iterator[str]:
    """Yield what a reader sees of a file: of Markdown the prose, of the catalog its words, of other texts the
    paragraphs.
    """
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield from prose(text)
    elif path.suffix == ".toml":
        yield from (line for entry in strings(tomllib.loads(text)) for line in prose(entry))
    else:
        yield from (re.sub(r"\s+", " ", part).strip() for part in re.split(r"\n\s*\n", text))


def strings(node: object) -> Iterator[str]:
    """Yield every string of a nested table."""
    if isinstance(node, str):
        yield node
    elif isinstance(node, dict):
        for item in node.values():
            yield from strings(item)
    elif isinstance(node, list):
        for item in node:
            yield from strings(item)


def help_paragraphs() -> Iterator[str]:
    """Yield the help of every command, argument and option, and of every option of pytest."""
    sys.path.insert(0, str(ROOT))
    import typer

    from roofline_cli.main import app
    from roofline_pytest_options import OPTIONS

    waiting = [typer.main.get_command(app)]
    while waiting:
        command = waiting.pop()
        waiting += getattr(command, "commands", {}).values()
        yield from re.split(r"\n\s*\n", command.help or "")
        yield from (parameter.help or "" for parameter in command.params if hasattr(parameter, "help"))
    yield from (settings["help"] for _, settings in OPTIONS)


def problems(path: Path) -> Iterator[str]:
    """Yield what breaks a rule in a file, with the words that do."""
    # A screen's tables have no sentences.
    yield from broken_rules(paragraphs(path), has_sentences=path.suffix in (".md", ".toml"))


def broken_rules(paragraphs: Iterable[str], *, has_sentences: bool = True) -> Iterator[str]:
    """Yield what breaks a rule in paragraphs, with the words that do."""
    for paragraph in paragraphs:
        if has_sentences:
            for sentence in sentences(paragraph):
                count = len(re.findall(r"\w[\w.,'’-]*", sentence))
                if count > MOST_WORDS:
                    yield f"{count} words: {sentence}"
        for word, pattern in BANNED.items():
            for match in re.finditer(pattern, ALLOWED.sub("", paragraph)):
                yield f"{word!r}: …{paragraph[max(0, match.start() - 40) : match.end() + 40]}…"


def files() -> list[Path]:
    """Return the files that are read when none is named."""
    docs = sorted((ROOT / "docs").rglob("*.md"))
    wording = sorted((ROOT / "tests" / "wording" / "texts").rglob("*.ambr"))
    roots = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    chosen = [*roots, *docs, *sorted((ROOT / "examples").rglob("*.md")), ROOT / CATALOG, *wording]
    # The style page names the words that it bans.
    skipped = {*GENERATED, "docs/development/style.md"}
    return [path for path in chosen if path.relative_to(ROOT).as_posix() not in skipped]


def main() -> int:
    """Print the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-v", "--verbose", action="store_true", help="print every sentence and word")
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="only these files")
    given = parser.parse_args()
    status, long_total, word_total = 0, 0, 0
    paths = [file.resolve() for file in given.files] or files()
    read = {path.relative_to(ROOT).as_posix(): list(problems(path)) for path in paths}
    if not given.files:
        read["--help"] = list(broken_rules(help_paragraphs()))
    for name, broken in read.items():
        if not broken:
            continue
        long = sum(line[0].isdigit() for line in broken)
        long_total, word_total = long_total + long, word_total + len(broken) - long
        print(f"{name}: {long} sentences over {MOST_WORDS} words, {len(broken) - long} words to replace")
        if given.verbose:
            print("\n".join(f"  {line}" for line in broken))
        status = 1
    print(f"in all: {long_total} sentences, {word_total} words")
    return status


if __name__ == "__main__":
    sys.exit(main())
