"""A page of the docs that a script writes, and checks with `--check`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path


def write_or_check(
    render: Callable[[], str], target: Path, command: str, about: str | None, arguments: Sequence[str] | None
) -> int:
    """Write the page, or with `--check` return 1 and print one line when the file differs from it.

    `command` writes it anew: `make findings`. `about` describes the script in its help.
    """
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when the file is stale")
    options = parser.parse_args(arguments)
    text = render()
    if not options.check:
        target.write_text(text, encoding="utf-8")
        return 0
    if target.is_file() and target.read_text(encoding="utf-8") == text:
        return 0
    print(f"{target.name} is stale or missing: run `{command}`", file=sys.stderr)
    return 1
