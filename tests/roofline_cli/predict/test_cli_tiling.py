"""`roofline tiling`: the table, the document, the picture, and what it refuses."""

from __future__ import annotations

import itertools
import json
import re

import pytest
from typer.testing import CliRunner

from roofline_cli.main import app

runner = CliRunner()
SHAPE = ("-M", "512", "-N", "7168", "-K", "4096", "--hw", "gb10")


def roofline(*arguments, **environment):
    return runner.invoke(app, ["tiling", *map(str, arguments)], env=environment)


@pytest.mark.parametrize("width", ["80", "120"])
def test_the_table_names_every_figure_and_fits(width):
    text = roofline(*SHAPE, "--all", COLUMNS=width).stdout
    for word in (
        "tile",
        "blocks",
        "waves",
        "tail",
        "occupancy",
        "L2 hits",
        "beyond compulsory",
        "bound",
        "Where the expected time goes",
    ):
        assert word in text
    assert max(map(len, text.splitlines())) <= int(width)


def test_the_document_holds_the_same_numbers():
    tiling = json.loads(roofline(*SHAPE, "--json").stdout)["tiling"]
    assert (tiling["tile_m"], tiling["tile_n"], tiling["block_count"], tiling["wave_count"]) == (128, 256, 112, 3)
    assert tiling["tail_ratio"] == pytest.approx(1 - 112 / 144)
    assert tiling["occupancy"]["limiter"] == "shared memory"


def parts_table(text):
    lines = text.splitlines()
    *_, begin = (i for i, line in enumerate(lines) if line.startswith("Part"))
    rows = itertools.takewhile(lambda line: not line.startswith("Alone:"), lines[begin + 2 :])
    return [re.match(r"(\w+) +(–|[\d.]+ µs) +(-?[\d.]+) µs +(-?[\d.]+) %  (\S.*)", line).groups() for line in rows]


@pytest.mark.parametrize("formats", ["BF16", "FP8", "INT4.BF16"])
def test_the_answer_shows_why_the_bound_is_the_bound(formats):
    """DRAM adds most to the time of a product that its tensor cores bound: alone they take longer."""
    text = roofline(*SHAPE, "--formats", formats).stdout
    alone_us = {name: float(time) for name, time in re.findall(r"^(\w+) +([\d.]+) µs +-?[\d.]+ µs ", text, re.M)}
    tiling = json.loads(roofline(*SHAPE, "--formats", formats, "--json").stdout)["tiling"]
    assert max(alone_us, key=alone_us.__getitem__) == tiling["bound"]


@pytest.mark.parametrize("formats", ["BF16", "FP8", "NVFP4", "INT4.BF16"])
def test_the_parts_shown_add_up_and_each_is_explained(formats):
    rows = parts_table(roofline(*SHAPE, "--formats", formats, "--all").stdout)
    expected_us = json.loads(roofline(*SHAPE, "--formats", formats, "--json").stdout)["tiling"]["expected_s"] * 1e6
    assert sum(float(adds) for _, _, adds, _, _ in rows) == pytest.approx(expected_us, abs=0.05)
    assert sum(float(share) for *_, share, _ in rows) == pytest.approx(100, abs=0.5)
    assert all(meaning.strip() for *_, meaning in rows)


def test_what_overlaps_is_shown_alone_too():
    text = roofline(*SHAPE, "--all").stdout
    tensor = next(row for row in parts_table(text) if row[0] == "tensor")
    # 2·512·7168·4096 FLOPs at 118.8 TFLOP/s are 253 µs: no share of a joint time may be taken for the tensor pipe's
    # own.
    assert float(tensor[1].split()[0]) > 253 > float(tensor[2])
    assert "run at the same time" in text


def test_dram_is_held_against_all_three_operands():
    line = next(
        line
        for line in roofline("-M", 4096, "-N", 4096, "-K", 128, "--hw", "h100", "--all").stdout.splitlines()
        if line.startswith("DRAM")
    )
    assert "A, B and C once are 35.65 MB" in line  # (4096·128·2 + 4096²)·2 bytes


def test_a_gemv_kernel_is_said_to_have_no_tiles():
    assert "has no tiles" in roofline("-M", 1, "-N", 4096, "-K", 4096, "--hw", "gb10").stdout
    assert json.loads(roofline("-M", 1, "-N", 4096, "-K", 4096, "--hw", "gb10", "--json").stdout)["tiling"] is None


@pytest.mark.parametrize(
    ("chip", "sm_count", "kinds"),
    [("b10", 48, ["rates", "sms"]), ("mi300x", 304, ["rates"])],
)
def test_a_chip_without_constants_gets_its_tile_and_no_time(chip, sm_count, kinds):
    arguments = ("-M", 512, "-N", 4096, "-K", 4096, "--hw", chip)
    tiling = json.loads(roofline(*arguments, "--json").stdout)["tiling"]
    assert tiling["sm_count"] == sm_count
    assert tiling["wave_count"] == -(-tiling["block_count"] // sm_count)
    assert 0 <= tiling["tail_ratio"] < 1
    assert tiling["occupancy"]["shared_bytes"] > 0
    assert tiling["expected_s"] is tiling["low_s"] is tiling["efficiency_ratio"] is None
    assert (tiling["dram_bytes"] is None) == (chip == "b10")  # no cache is known of it
    assert [item["values"]["kind"] for item in tiling["findings"]] == kinds
    shown = roofline(*arguments, "--all")
    assert shown.exit_code == 0
    assert "expected" not in shown.stdout.replace("no expected", "")


@pytest.mark.parametrize(("name", "magic"), [("curve.png", b"\x89PNG"), ("curve.svg", b"<?xml")])
def test_the_picture_is_written(tmp_path, name, magic):
    done = roofline(*SHAPE, "-o", tmp_path / name)
    assert done.exit_code == 0
    assert (tmp_path / name).read_bytes().startswith(magic)
    assert name in done.stdout


def test_the_curve_of_the_largest_size_ends_there(tmp_path):
    largest = [word for letter in "MNK" for word in (f"-{letter}", "1000000000")]
    done = roofline(*largest, "--hw", "h100", "-o", str(tmp_path / "x.png"))
    assert done.exit_code == 0, done.output
    assert (tmp_path / "x.png").stat().st_size > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--cache", "hot"), "--cache must be cold or warm"),
        (("-o", "x.pdf"), "name a .png or .svg file"),
        (("--hw", "mi300x", "-o", "-"), "no expected-time constants"),
        (("-M", "0"), "M must be a whole number"),
        (("--formats", "FP99"), "unknown format"),
    ],
)
def test_what_it_refuses_is_one_line(arguments, message):
    done = roofline(*SHAPE, *arguments)
    assert done.exit_code == 2
    assert message in done.output
    assert done.output.count("\n") == 1
