"""`roofline import`: our own exports, and what pytest-benchmark, llama-bench, vLLM or a table of kernels measured."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reports.present.blocks import Block, Paragraph
from reports.present.imported import comparison_blocks, comparison_json
from reports.present.screen import present
from roofline_cli.screen.progress_bar import progress_bar
from roofline_cli.shared.database import writing
from roofline_cli.shared.group import typed
from roofline_cli.shared.options import (
    DatabaseOption,
    DevicesOption,
    JsonOption,
    LinkOption,
    find_chip,
    parse_parallel,
    parse_size,
)
from roofline_model.formats.catalog import get_format

if TYPE_CHECKING:
    from results.exchange.exported.load import ImportReport
    from results.exchange.foreign import ReadFile, Stated

COMMANDS = {
    "import": ("import_files", "Store exported runs, or what other programs measured."),
}


def import_files(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="JSON exports; pytest-benchmark, llama-bench, vLLM; kernel tables."),
    ],
    hw: Annotated[
        str | None,
        typer.Option("--hw", metavar="NAME|FILE|auto", help="Chip it was measured on, where the file does not say."),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME|PATH|ID", help="Model, where the file does not say.")
    ] = None,
    formats: Annotated[
        str | None, typer.Option("--formats", metavar="FORMATS", help="WEIGHT or WEIGHT.ACTIVATION of that model.")
    ] = None,
    kv: Annotated[str | None, typer.Option("--kv", metavar="FORMAT", help="Format of its KV cache.")] = None,
    batch: Annotated[
        str | None, typer.Option("--batch", metavar="INT", help="Sequences in flight, where the file does not say.")
    ] = None,
    input_len: Annotated[
        str | None, typer.Option("--input-len", metavar="TOKENS", help="Prompt tokens of each sequence.")
    ] = None,
    output_len: Annotated[
        str | None, typer.Option("--output-len", metavar="TOKENS", help="Generated tokens of each sequence.")
    ] = None,
    tensor_parallel: DevicesOption = None,
    link_gb_s: LinkOption = None,
    db: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Store exported runs, or what other programs measured.

    Records that are already stored are left alone. Tokens/s of a model are compared with `predict model`.
    """
    from results.exchange.importing import read_any, store_read

    stated = _stated(hw, model, formats, kv, batch, input_len, output_len, tensor_parallel, link_gb_s)
    with progress_bar("reading", is_quiet=as_json) as advance:
        # All are read and checked before the first is stored.
        imports = [read_any(file, stated, advance=advance) for file in files]
    with writing(db) as store:
        done = [(file, read, store_read(store, read)) for file, read in zip(files, imports, strict=True)]
    present(
        lambda: {"imported": [_document(*each) for each in done]},
        lambda: (block for each in done for block in _blocks(*each)),
        as_json=as_json,
    )


def _stated(
    hw: str | None,
    model: str | None,
    formats: str | None,
    kv: str | None,
    batch: str | None,
    input_len: str | None,
    output_len: str | None,
    tensor_parallel: str | None,
    link_gb_s: str | None,
) -> Stated:
    from results.exchange.foreign import Stated

    def size(option: str, text: str | None) -> int | None:
        return None if text is None else parse_size(option, text)

    parallel = parse_parallel(tensor_parallel, link_gb_s)
    return Stated(
        hardware=None if hw is None else find_chip(hw),
        model=model,
        formats=formats,
        kv_format=None if kv is None else get_format(kv).key,
        batch_count=size("--batch", batch),
        input_count=size("--input-len", input_len),
        output_count=size("--output-len", output_len),
        device_count=parallel.device_count,
        link_bytes_per_s=parallel.link_bytes_per_s,
    )


def _document(file: Path, read: ReadFile, report: ImportReport) -> dict[str, Any]:
    from results.exchange.importing import as_stored

    document: dict[str, Any] = {
        "file": str(file),
        "run_ids": list(report.run_ids),
        "added_count": report.added,
        "duplicate_count": report.duplicates,
        "differing_count": report.differing_count,
        "inconsistent_count": report.inconsistent_count,
        "differing_run_ids": list(report.differing_runs),
    }
    if read.kind:
        document |= {"kind": read.kind, **comparison_json(as_stored(read, report))}
    return document


def _blocks(file: Path, read: ReadFile, report: ImportReport) -> Iterator[Block]:
    from results.exchange.importing import as_stored

    names = ", ".join(run_id[:8] for run_id in report.run_ids[:8]) + (", …" if len(report.run_ids) > 8 else "")
    kind = f" ({read.kind})" if read.kind else ""
    several = "s" if len(report.run_ids) > 1 else ""
    yield Paragraph(
        f"{file}{kind}: run{several} {names}: {report.added} record{'s' * (report.added != 1)} added, "
        f"{report.duplicates} already there"
    )
    yield from (Paragraph(text, "warning") for text in _doubts(read, report))
    if read.kind:
        yield from comparison_blocks(as_stored(read, report))


def _doubts(read: ReadFile, report: ImportReport) -> Iterator[str]:
    """Yield what of a file does not agree with what is stored, or with itself."""
    count = report.differing_count
    if count and not read.kind:
        yield (
            f"{count} of these are stored with other contents: the file or the database is a changed copy; nothing was "
            "overwritten"
        )
    if report.differing_runs:
        shown = ", ".join(run_id[:8] for run_id in report.differing_runs[:8])
        yield f"run {shown}: stored with another label, start, commit or machine than in the file; nothing was overwritten"
    if report.inconsistent_count:
        yield f"{report.inconsistent_count} of the file's records have statistics that their samples do not have"
    if count and read.kind:
        chips = sorted({each.hardware_key for record in report.stored_records for each in record.predictions})
        runs = sorted({record.run_id[:8] for record in report.stored_records})
        yield (
            f"{count} of these are stored with the predictions of {', '.join(chips) or 'no chip'}, which stay and are "
            f"shown; for others: `roofline runs delete {runs[0]} --yes{typed('--db')}`, then import again"
        )
    elif read.kind and report.duplicates and not report.added:
        yield "nothing was added: the same measurements are stored already, with the predictions they came with"
