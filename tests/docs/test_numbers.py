"""docs/reference/numbers.md is what scripts/docs/make_numbers.py writes, and it holds every number of every chip."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
from loaded_scripts import load_script

from roofline_model import FORMATS, list_hardware
from roofline_model.chips.hardware import Quantity

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "docs" / "make_numbers.py"
TEXT = (ROOT / "docs" / "reference" / "numbers.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def make_numbers() -> ModuleType:
    return load_script("make_numbers")


@pytest.mark.parametrize("seed", ["1", "2"])
def test_the_committed_file_is_fresh_whatever_the_hash_seed_and_folder(seed: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--check"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_stale_file_is_one_line_and_exit_1(
    make_numbers: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "numbers.md"
    assert make_numbers.main(["--check"], target) == 1
    assert "missing" in capsys.readouterr().err
    assert not target.exists()
    assert make_numbers.main([], target) == 0
    assert target.read_text(encoding="utf-8") == TEXT
    target.write_text(TEXT.replace("273.06 GB/s", "287 GB/s"), encoding="utf-8")
    assert make_numbers.main(["--check"], target) == 1
    error_text = capsys.readouterr().err
    assert error_text.count("\n") == 1
    assert "stale" in error_text
    assert "make numbers" in error_text
    assert "287 GB/s" in target.read_text(encoding="utf-8"), "--check must not write"


MARKS = {
    text.replace("\\|", "|"): mark for mark, text in re.findall(r"^- \*\*([SR]\d+)\*\*: (.+)$", TEXT, re.MULTILINE)
}
"""Sources and reasons of many rows → the mark that stands for each."""


def chip_text(key: str) -> str:
    return re.split(r"^## ", TEXT.split(f"\n## {key}\n")[1], flags=re.MULTILINE)[0]


def test_the_chips_stand_sorted_after_gb10() -> None:
    keys = re.findall(r"^## ([a-z0-9.-]+)$", TEXT, flags=re.MULTILINE)
    assert keys == ["gb10", *sorted(chip.key for chip in list_hardware() if chip.key != "gb10")]


@pytest.mark.parametrize("chip", list_hardware(), ids=lambda chip: chip.key)
def test_every_quantity_of_a_chip_file_is_there(chip, make_numbers: ModuleType) -> None:
    data = tomllib.loads(
        (ROOT / "roofline_model" / "chips" / "devices" / f"{chip.key}.toml").read_text(encoding="utf-8")
    )
    text = chip_text(chip.key).replace("\\|", "|")
    tables = [*data["memory"].values(), *data.get("chip", {}).values()]
    for part in (*data.get("level", []), *data["peak"]):
        tables += [value for value in part.values() if isinstance(value, dict)]
    assert len(tables) >= 6
    rows = [[cell.strip() for cell in line.split(" | ")] for line in text.splitlines() if line.startswith("| ")]
    for table in tables:
        clock = f"{table['clock_mhz']:.6g} MHz" if "clock_mhz" in table else "–"
        source = MARKS.get(table["source"], table["source"])
        matches = [row for row in rows if len(row) >= 5 and row[2:5] == [table["status"], clock, source]]
        assert [row for row in matches if same_value(row[1], table)], table
        assert table.get("note", "") in text


def same_value(shown: str, table: dict[str, object]) -> bool:
    """Compare a printed value with a file's by number and unit, independently of the script's formatting."""
    scale = {"": 1, "W": 1, "MHz": 1e6, "GB/s": 1e9, "TFLOP/s": 1e12, "B": 1, "KiB": 2**10, "MiB": 2**20, "GB": 1e9}
    in_file = {
        **scale,
        "GHz": 1e9,
        "TB/s": 1e12,
        "TOP/s": 1e12,
        "PFLOP/s": 1e15,
        "GFLOP/s": 1e9,
        "MB": 1e6,
        "GiB": 2**30,
        "kB": 1e3,
        "Hz": 1,
    }
    number, _, unit = shown.partition(" ")
    # Six digits are printed: half a unit of the last one.
    return float(number.replace(",", "")) * scale[unit] == pytest.approx(
        float(str(table["value"])) * in_file[str(table["unit"])], rel=5e-6
    )


@pytest.mark.parametrize("chip", list_hardware(), ids=lambda chip: chip.key)
def test_every_format_has_a_path_on_every_chip(chip) -> None:
    rows = [line.strip("| ").split(" | ") for line in chip_text(chip.key).partition("Path of each")[2].splitlines()]
    for key in FORMATS:
        path = chip.paths.get(key)
        (cells,) = [row for row in rows if key in row[0].split(", ")]
        assert cells[1].strip() == ("none" if path is None else path.kind)
        if path is not None:
            assert cells[2] == ("itself" if path.compute_format == key else path.compute_format)
            assert float(cells[3].split()[0]) * 1e12 == pytest.approx(path.dense.value)
            assert float(cells[4]) == pytest.approx(chip.critical_intensity(key), abs=0.051)
            assert (cells[5].rstrip(" |") if len(cells) > 5 else "") == MARKS.get(path.reason, path.reason)


def test_the_format_table_is_the_catalog() -> None:
    rows = [line.split(" | ") for line in TEXT.splitlines() if line.startswith("| [") and "theory/formats.md" in line]
    assert [row[0].split("[")[1].split("]")[0] for row in rows] == list(FORMATS)
    for row, fmt in zip(rows, FORMATS.values(), strict=True):
        assert float(row[7]) == fmt.nominal_bits
        assert float(row[8]) == fmt.traffic_bytes_per_element
        assert int(row[9].rstrip(" |").replace(",", "")) == fmt.storage_bytes((4096, 4096))


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (273.06e9, "B/s", "273.06 GB/s"),
        (8e12, "B/s", "8000 GB/s"),
        (475.3e12, "FLOP/s", "475.3 TFLOP/s"),
        (0.464e12, "FLOP/s", "0.464 TFLOP/s"),
        (4266.5e6, "Hz", "4266.5 MHz"),
        (128e9, "B", "128 GB"),
        (24 * 2**20, "B", "24 MiB"),
        (126.5 * 2**20, "B", "126.5 MiB"),
        (99 * 1024, "B", "99 KiB"),
        (140.0, "W", "140 W"),
        (65536.0, "", "65,536"),
    ],
)
def test_readable_values(make_numbers: ModuleType, value: float, unit: str, shown: str) -> None:
    assert make_numbers.readable(Quantity(value, unit, "derived", "test")) == shown
