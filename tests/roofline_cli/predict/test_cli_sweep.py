"""`roofline sweep`: the table, CSV and Parquet files, JSON, and what it refuses."""

from __future__ import annotations

import json

import pandas as pd
import pytest
from typer.testing import CliRunner

from roofline_cli.main import app

runner = CliRunner()
GRID = ("-M", "1:64:*4", "-N", "4096", "-K", "4096,8192", "--hw", "gb10,h100", "--formats", "BF16,INT4.BF16")


def roofline(*arguments, **environment):
    return runner.invoke(app, ["sweep", *map(str, arguments)], env=environment)


@pytest.mark.parametrize("width", ["80", "120"])
def test_the_table_fits_and_says_how_many_rows_it_left_out(width):
    text = roofline(*GRID, COLUMNS=width).stdout
    assert max(map(len, text.splitlines())) <= int(width)
    assert "and 12 more rows" in text
    assert "32 predictions in" in text


@pytest.mark.parametrize(("name", "read"), [("s.csv", pd.read_csv), ("s.parquet", pd.read_parquet)])
def test_files_hold_every_row(tmp_path, name, read):
    pytest.importorskip("pyarrow")
    assert roofline(*GRID, "-o", tmp_path / name).exit_code == 0
    table = read(tmp_path / name)
    assert len(table) == 32
    assert set(table.hardware) == {"gb10", "h100-sxm"}
    assert (table.expected_s > table.ideal_s).mean() > 0.9


def test_json_holds_the_rows_with_null_for_what_is_unknown():
    document = json.loads(roofline("-M", 1, "-N", 64, "-K", 64, "--hw", "b10", "--json").stdout)
    assert document["row_count"] == 1
    assert document["rows"][0]["expected_s"] is None
    assert document["rows"][0]["ideal_s"] > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-M", "1:"), "is not a list of sizes"),
        (("--cache", "hot"), "--cache must be cold or warm"),
        (("-o", "x.xlsx"), "name a .csv or .parquet file"),
        (("--hw", "gb10,,h100"), "unknown hardware"),
        (("-M", "1:1000:1", "-N", "1:1000:1", "--json"), "--json prints at most"),
        (("-M", "1:1000:1", "-N", "1:1000:1", "-K", "1:1000:1"), "use coarser steps"),
    ],
)
def test_what_it_refuses_is_one_line(arguments, message):
    done = roofline(*GRID, *arguments)
    assert done.exit_code == 2
    assert message in done.output
    assert done.output.count("\n") == 1
