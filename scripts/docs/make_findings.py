"""Write docs/reference/findings.md: every code of the catalog of findings, with its severity, its line and its
explanation.

`python scripts/docs/make_findings.py` writes the file; `--check` writes nothing and exits 1 with one line when the
committed file is stale. The text depends on `roofline_model/core/findings.toml` only.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "docs" / "reference" / "findings.md"

sys.path.insert(0, str(ROOT))  # the checkout this script stands in, whatever else is installed

from roofline_model.core.finding import SEVERITIES, CatalogEntry, catalog  # noqa: E402

INTRODUCTION = """\
# Findings

What there is to know about a prediction, a measurement, a ranking or a comparison is a *finding*: a code with values. The
command line, reports and the API print its line; `roofline explain CODE` prints what stands here. Written by
`scripts/docs/make_findings.py` from `roofline_model/core/findings.toml`: change that, then run `make findings`.

In JSON a finding has `code`, `severity`, `subject` (what it is about, where that is not the answer itself), `values` and
`text`. Codes are stored and exported: read them, not the words. In the lines below a value stands in braces; a part in
brackets is left out where one of its values is not known.
"""

HEADINGS = {
    "warning": "## Warnings\n\nDo not act on the number before this is settled.\n",
    "caution": "## Cautions\n\nThe number beside it is weaker than others.\n",
    "info": "## Context\n\nNothing is wrong; it says where a number comes from, or why an option stands where it stands.\n",
}


def render() -> str:
    """Return the whole document."""
    parts = [INTRODUCTION]
    for severity in SEVERITIES:
        parts.append(HEADINGS[severity])
        entries = sorted(catalog().values(), key=lambda each: each.code)
        parts += [
            f"### {entry.code}\n\n`{entry.short}`\n\n{entry.explanation}\n{_fix(entry)}"
            for entry in entries
            if entry.severity == severity
        ]
    return "\n".join(parts)


def _fix(entry: CatalogEntry) -> str:
    return f"\nFix: {entry.fix}\n" if entry.fix else ""


def main(arguments: Sequence[str] | None = None, target: Path = TARGET) -> int:
    """Write the document, or with `--check` return 1 and print one line when the file differs from it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when the file is stale")
    options = parser.parse_args(arguments)
    text = render()
    if not options.check:
        target.write_text(text, encoding="utf-8")
        return 0
    if not target.is_file() or target.read_text(encoding="utf-8") != text:
        print(f"docs/reference/{target.name} is stale: the catalog changed; run `make findings`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
