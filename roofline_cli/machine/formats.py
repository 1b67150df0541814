"""`roofline formats`: the catalog of number formats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofline_cli.screen.tables import Column, show_json, show_table
from roofline_cli.shared.options import FormatsFileOption, JsonOption, register_formats
from roofline_model.formats.catalog import FORMATS

if TYPE_CHECKING:
    from roofline_model.formats.catalog import NumberFormat


def formats(formats_file: FormatsFileOption = None, as_json: JsonOption = False) -> None:
    """List the number formats: bits, bytes, scales, blocks, aliases."""

    catalog = [*FORMATS.values(), *register_formats(formats_file)]
    if as_json:
        show_json({"formats": [_format_json(fmt) for fmt in catalog]})
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
        for fmt in catalog
    ]
    show_table(columns, rows)


def _format_json(fmt: NumberFormat) -> dict[str, Any]:
    return {
        "key": fmt.key,
        "kind": fmt.kind,
        "aliases": list(fmt.aliases),
        "element_bits": fmt.element_bits,
        "container_bits": fmt.container_bits,
        "nominal_bits": fmt.nominal_bits,
        "bytes_per_element": fmt.bytes_per_element,
        "traffic_bytes_per_element": fmt.traffic_bytes_per_element,
        "scale_overhead_ratio": fmt.scale_overhead_ratio,
        "block_elems": fmt.block_elems,
        "element_dtype": fmt.element_dtype or None,
        "exponent_bits": fmt.exponent_bits,
        "mantissa_bits": fmt.mantissa_bits,
        "max_value": fmt.max_value,
        "description": fmt.description,
    }
