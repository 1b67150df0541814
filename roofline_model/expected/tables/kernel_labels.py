"""What a row of a kernel table is called when rows are grouped: its phase and its formats."""

from __future__ import annotations

import math

from roofline_model.expected.tables.table import KernelTable
from roofline_model.operators.product import GEMV_MAX_ROWS


def phase_of(table: KernelTable, i: int) -> str:
    """Return the phase of a row: as given; else by its rows (a GEMM), or by its query length (attention)."""
    given = table.text("phase")[i]
    if given:
        return given
    size = {"gemm": "m", "attention": "q_len"}.get(table.texts["op"][i])
    if size is None or math.isnan(table.numbers[size][i]):
        return ""
    return "decode" if table.numbers[size][i] <= (GEMV_MAX_ROWS if size == "m" else 1) else "prefill"


def formats_label(table: KernelTable, i: int) -> str:
    """Return the formats of a row: `BF16`, `INT4.BF16` (weight first), `FP8_E4M3+cast`, attention `BF16/FP8_E4M3` (maths/cache)."""
    activation, kv = table.text("activation_format")[i], table.text("kv_format")[i]
    if table.texts["op"][i] == "attention":
        first = activation or "BF16"
        return first if kv in ("", first) else f"{first}/{kv}"
    weight = table.text("weight_format")[i]
    label = weight if activation in ("", weight) else f"{weight}.{activation}"
    return label + ("+cast" if table.numbers["dynamic_activation_quantization"][i] == 1 else "")
