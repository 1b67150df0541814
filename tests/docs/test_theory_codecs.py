"""docs/theory/formats.md, "Codecs": the table of measured errors, the choices, and what cannot be encoded."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import get_args

import numpy as np

from roofline_model import FORMATS
from roofline_model.formats.codecs import CodecOptions, format_error
from roofline_model.formats.codecs import layout as choices
from roofline_model.formats.codecs.encode import MSE_FACTORS

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "theory" / "formats.md").read_text(encoding="utf-8")
SECTION = TEXT.split("\n## Codecs\n")[1].split("\n## ")[0]


def measured_rows() -> list[str]:
    """Return the lines of the table, in the order of the catalog."""
    values = np.random.default_rng(0).standard_normal((64, 4096)).astype(np.float32)
    rows = []
    for key in FORMATS:
        error = format_error(values, key)
        assert error.sqnr_db is not None
        shown = "exact" if np.isinf(error.sqnr_db) else f"{error.sqnr_db:.1f} dB"
        rows.append(f"| {key} | {error.bits_per_element:.5g} | {shown} |")
    return rows


def test_the_table_is_measured() -> None:
    stated = [line for line in SECTION.splitlines() if re.match(r"\| [A-Z0-9_]+ \| [\d.]+ \|", line)]
    assert stated == measured_rows()


def test_every_choice_is_documented() -> None:
    for field in fields(CodecOptions):
        if field.name != "clip_quantile_ratio":  # belongs to `percentile`
            assert f"`{field.name}" in SECTION or f'`{field.name}="' in SECTION, field.name
    for choice in (choices.ScaleScope, choices.ScaleRule, choices.Clip, choices.Overflow):
        for name in get_args(choice):
            assert re.search(rf"\b{name}\b", SECTION), name
    assert f"{len(MSE_FACTORS)} steps" in " ".join(SECTION.split())
    assert MSE_FACTORS[-1] == 1 / 5


def test_the_example_runs() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", SECTION, flags=re.DOTALL)
    names = {"weight": np.random.default_rng(0).standard_normal((4, 256))}
    exec(example, names)
    assert names["data"].nbytes == names["q"].packed_bytes  # type: ignore[attr-defined]
