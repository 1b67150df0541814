"""Write docs/reference/findings.md: every code of the catalog of findings, with its severity, its line and its
explanation.

`python scripts/docs/make_findings.py` writes the file; `--check` writes nothing and exits 1 with one line when the
committed file is stale. The text depends on `roofline_model/core/findings.toml` only.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "docs" / "reference" / "findings.md"

# The checkout this script stands in, whatever else is installed, and what stands beside it.
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

from written_page import write_or_check  # noqa: E402

from roofline_model.core.finding import SEVERITIES, CatalogEntry, catalog  # noqa: E402

INTRODUCTION = """\
# Findings

What there is to know about a prediction, a measurement, a ranking or a comparison is a *finding*: a code with values. The
command line, reports and the API print its line; `roofline explain CODE` prints what stands here. Written by
`scripts/docs/make_findings.py` from `roofline_model/core/findings.toml`: change that, then run `make findings`.

In JSON a finding has `code`, `severity`, `subject` (what it is about, where that is not the answer itself), `values` and
`text`. Codes are stored and exported: read them, not the words. In the lines below a value stands in braces; a part in
brackets is left out where one of its values is not known. Where one code covers several circumstances, its value `kind` names
the one, whose words stand in a list.
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
            f"### {entry.code}\n\n`{entry.short}`\n\n{_kinds(entry)}{entry.explanation}\n{_fix(entry)}"
            for entry in entries
            if entry.severity == severity
        ]
    return "\n".join(parts)


def _kinds(entry: CatalogEntry) -> str:
    lines = [f"- {kind}: `{words}`\n" for kind, words in entry.kinds.items()]
    return "".join([*lines, "\n"]) if lines else ""


def _fix(entry: CatalogEntry) -> str:
    return f"\nFix: {entry.fix}\n" if entry.fix else ""


def main(arguments: Sequence[str] | None = None, target: Path = TARGET) -> int:
    """Write the document, or check it: see `write_or_check`."""
    return write_or_check(render, target, "make findings", __doc__, arguments)


if __name__ == "__main__":
    sys.exit(main())
