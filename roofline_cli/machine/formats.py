"""`roofline formats`: the catalog of number formats."""

from __future__ import annotations

from reports.present.blocks import Column, table
from reports.present.screen import MISSING, present
from roofline_cli.shared.options import FormatsFileOption, JsonOption, register_formats

COMMANDS = {
    "formats": ("formats", "List the number formats: bits, bytes, scales, blocks, aliases."),
}


_FORMATS = (
    Column("Format", lambda fmt: fmt.key, is_head=True),
    Column("Bits", lambda fmt: f"{fmt.nominal_bits:g}", "number"),
    Column("Bytes/elem", lambda fmt: f"{float(f'{fmt.bytes_per_element:.3f}'):g}", "number"),
    Column("Overhead", lambda fmt: f"{fmt.scale_overhead_ratio * 100:.1f} %" if fmt.scales else MISSING, "number"),
    Column("Block", lambda fmt: MISSING if fmt.block_elems is None else str(fmt.block_elems), "number"),
    Column("Element", lambda fmt: fmt.element_dtype or ("code table" if fmt.kind == "table" else "packed"), drop=1),
    Column("Aliases", lambda fmt: ", ".join(fmt.aliases) or MISSING, drop=2),
    Column("Description", lambda fmt: fmt.description, "prose", drop=3),
)


def formats(formats_file: FormatsFileOption = None, as_json: JsonOption = False) -> None:
    """List the number formats: bits, bytes, scales, blocks, aliases."""
    from reports.present.encoder import command_json
    from roofline_model.predictions.catalog import format_list

    catalog = format_list(register_formats(formats_file))
    present(lambda: command_json(catalog), lambda: [table("Formats", _FORMATS, catalog.formats)], as_json=as_json)
