"""scripts/fit/make_validation.py writes every table of docs/theory/validation.md from any kernel table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from loaded_scripts import load_script
from synthetic_kernels import write_rows

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def script():
    return load_script("make_validation")


@pytest.mark.full
def test_every_marker_of_the_page_is_filled(script, tmp_path, monkeypatch, capsys):
    page = tmp_path / "validation.md"
    page.write_text((ROOT / "docs" / "theory" / "validation.md").read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setattr(script, "PAGE", page)
    table = write_rows(tmp_path / "t.csv", 80, devices=("h100-sxm", "b200"))
    assert script.main([str(table)]) == 0
    text = page.read_text(encoding="utf-8")
    names = re.findall(r"^<!-- (?!end)(\w+) -->$", text, re.MULTILINE)
    assert names == ["summary", "file", "shipped", "groups", "sizes", "chips", "drift", "few"]
    blocks = dict(re.findall(r"<!-- (\w+) -->\n(.*?)\n<!-- end -->", text, re.DOTALL))
    assert "`t.csv`, 160 rows, SHA-256" in blocks["file"]
    assert blocks["groups"].count("| h100-sxm | BF16 |") == 2  # decode and prefill
    assert "| b200 | gemm BF16 | h100-sxm | family | 80 |" in blocks["chips"]
    assert re.search(r"\| products \| far \| 22\.8 \| [\d.]+ \| 2 \| 2 \|", blocks["drift"])
    assert "| products | sibling | 6.5 | – | – | – |" in blocks["drift"]
    few = [
        float(cell.split("/")[0])
        for cell in re.search(r"\| b200 \| gemm BF16 \| ([^|]+)\| ([^|]+)\|", blocks["few"]).groups()
    ]
    assert few[1] < few[0]
    assert "## Your own table" in text


def test_a_page_without_a_marker_is_told(script):
    with pytest.raises(ValueError, match="no marker <!-- groups -->"):
        script.replaced("<!-- file -->\n<!-- end -->\n", "groups", "x")
    assert (
        script.replaced("<!-- a -->\n<!-- end -->\n<!-- b -->\n<!-- end -->", "a", "x")
        == "<!-- a -->\nx\n<!-- end -->\n<!-- b -->\n<!-- end -->"
    )


def test_use_is_told(script, capsys):
    assert script.main([]) == 2
    assert "usage" in capsys.readouterr().err
