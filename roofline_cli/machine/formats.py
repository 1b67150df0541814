"""`roofline formats`: the catalog of number formats."""

from __future__ import annotations

from reports.present.screen import Column, show_json, show_table
from roofline_cli.shared.options import FormatsFileOption, JsonOption, register_formats

COMMANDS = {
    "formats": ("formats", "List the number formats: bits, bytes, scales, blocks, aliases."),
}


def formats(formats_file: FormatsFileOption = None, as_json: JsonOption = False) -> None:
    """List the number formats: bits, bytes, scales, blocks, aliases."""
    from reports.present.encoder import command_json
    from roofline_model.predictions.catalog import format_list

    catalog = format_list(register_formats(formats_file))
    if as_json:
        show_json(command_json(catalog))
        return
    columns = (
        Column("Format"),
        Column("Bits", "right"),
        Column("Bytes/elem", "right"),
        Column("Overhead", "right"),
        Column("Block", "right"),
        Column("Element", drop=1),
        Column("Aliases", drop=2),
        Column("Description", is_prose=True, drop=3),
    )
    rows = [
        [
            fmt.key,
            f"{fmt.nominal_bits:g}",
            f"{float(f'{fmt.bytes_per_element:.3f}'):g}",
            f"{fmt.scale_overhead_ratio * 100:.1f} %" if fmt.scales else "–",
            "–" if fmt.block_elems is None else str(fmt.block_elems),
            fmt.element_dtype or ("code table" if fmt.kind == "table" else "packed"),
            ", ".join(fmt.aliases) or "–",
            fmt.description,
        ]
        for fmt in catalog.formats
    ]
    show_table(columns, rows)
