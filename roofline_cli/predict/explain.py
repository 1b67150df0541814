"""`roofline explain`: what the code of a finding means."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from roofline_cli.screen.tables import Column, show_json, show_line, show_table
from roofline_cli.shared.options import JsonOption
from roofline_model.core.errors import UnknownNameError
from roofline_model.core.finding import SEVERITIES, CatalogEntry, catalog, value_names

COMMANDS = {
    "explain": ("explain", "Explain the code of a finding; without one, list all."),
}


def explain(
    code: Annotated[str, typer.Argument(help="code of a finding, e.g. kernel-gap; without one all are listed")] = "",
    as_json: JsonOption = False,
) -> None:
    """Explain the code of a finding; without one, list all."""
    entries = [entry_of(code)] if code else sorted(catalog().values(), key=lambda each: SEVERITIES.index(each.severity))
    if as_json:
        show_json({"codes": [_entry_json(entry) for entry in entries]})
    elif code:
        (entry,) = entries
        show_line(f"{entry.code} ({entry.severity})", "bold")
        show_line(entry.short)
        show_line("")
        show_line(" ".join(entry.explanation.split()))
        if entry.fix:
            show_line(f"Fix: {entry.fix}")
    else:
        columns = (Column("Code"), Column("Severity"), Column("Says", is_prose=True))
        show_table(columns, [[entry.code, entry.severity, entry.short] for entry in entries])


def entry_of(code: str) -> CatalogEntry:
    """Return the entry of a code, in any case. Raises `UnknownNameError` naming those that come near."""
    entry = catalog().get(code.strip().lower())
    if entry is None:
        raise UnknownNameError("finding", code, catalog())
    return entry


def _entry_json(entry: CatalogEntry) -> dict[str, Any]:
    return {
        "code": entry.code,
        "severity": entry.severity,
        "text": entry.short,
        "fix": entry.fix,
        "values": sorted(value_names(entry.short, is_optional=False) - {"subject"}),
        "optional_values": sorted(value_names(entry.short, is_optional=True) - {"subject"}),
        "explanation": " ".join(entry.explanation.split()),
    }
