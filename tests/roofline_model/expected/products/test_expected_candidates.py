"""Tiles and splits, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from roofline_model.expected.products.parameters import SPLITS, may_split, tiles_of, usable_tiles


def pairs(tiles, usable=None):
    candidates_walked = list(
        zip(tiles.rows[:, 0].astype(int).tolist(), tiles.columns[:, 0].astype(int).tolist(), strict=True)
    )
    return (
        candidates_walked
        if usable is None
        else [pair for pair, use in zip(candidates_walked, usable, strict=True) if use]
    )


def test_every_tile_of_sm120():
    # 5 × 4 sides, without 16×32 (512 elements) and 256×256 (65,536)
    assert set(pairs(tiles_of("sm120"))) == {(bm, bn) for bm in (16, 32, 64, 128, 256) for bn in (32, 64, 128, 256)} - {
        (16, 32),
        (256, 256),
    }


def test_the_instruction_sets_the_smallest_tile():
    assert all(max(pair) >= 64 for pair in pairs(tiles_of("sm90")))
    assert all(max(pair) >= 128 for pair in pairs(tiles_of("sm100")))
    assert (192, 128) in pairs(tiles_of("sm100"))
    assert (192, 128) not in pairs(tiles_of("sm120"))


def test_padding_and_residency_of_a_tile():
    tiles = tiles_of("sm120")
    of = {pair: i for i, pair in enumerate(pairs(tiles))}
    assert tiles.padding_ratio[of[128, 128], 0] == 1.0
    assert tiles.padding_ratio[of[64, 64], 0] == pytest.approx(1.02)  # two halvings
    assert tiles.padding_ratio[of[128, 256], 0] == 1.0
    assert [tiles.resident[of[pair], 0] for pair in ((128, 256), (128, 128), (64, 64))] == [1, 2, 4]


def test_a_tile_is_at_most_twice_the_output():
    tiles = tiles_of("sm120")
    usable = usable_tiles(tiles, np.array([1.0, 24.0, 4096.0]), np.array([4096.0, 4096.0, 48.0]))
    assert {bm for bm, _ in pairs(tiles, usable[:, 0])} == {16}
    assert {bm for bm, _ in pairs(tiles, usable[:, 1])} == {16, 32}  # 2 · 24 = 48 < 64
    assert {bn for _, bn in pairs(tiles, usable[:, 2])} == {32, 64}  # 2 · 48 = 96 < 128


def test_the_instructions_own_tile_is_always_usable():
    tiles = tiles_of("sm100")
    usable = usable_tiles(tiles, np.array([1.0]), np.array([4096.0]))[:, 0]
    assert {bm for bm, _ in pairs(tiles, usable)} == {16, 32, 64, 128}


@pytest.mark.parametrize("family", ["sm80", "sm89", "sm90", "sm100", "sm120"])
@pytest.mark.parametrize("is_weight_only", [False, True])
def test_every_output_has_a_tile(family, is_weight_only):
    m, n = (values.ravel() for values in np.meshgrid([1.0, 2, 16, 17, 300, 1e5], [1.0, 16, 31, 32, 33, 1e5]))
    assert usable_tiles(tiles_of(family), m, n, is_weight_only).any(axis=0).all()


def test_kernels_of_narrow_weights_have_no_narrow_tile():
    tiles = tiles_of("sm89")
    usable = usable_tiles(tiles, 64.0, np.array([16.0, 16.0, 4096.0]), np.array([True, False, True]))
    assert {bn for _, bn in pairs(tiles, usable[:, 0])} == {64}  # the smallest, for an output that none fits
    assert {bn for _, bn in pairs(tiles, usable[:, 1])} == {32}
    assert {bn for _, bn in pairs(tiles, usable[:, 2])} == {64, 128, 256}
    some = tiles.at(np.array([3, 1]))
    assert some.labels[:2] == (tiles.labels[3], tiles.labels[1])
    assert [label.rpartition("x")[2] for label in some.labels[::2]] == [str(split) for split in SPLITS]


def test_labels_are_split_major():
    tiles = tiles_of("sm90")
    count = len(tiles.rows)
    assert [label.rpartition("x")[2] for label in tiles.labels[::count]] == [str(split) for split in SPLITS]
    assert tiles.labels[count + 2] == f"{int(tiles.rows[2, 0])}x{int(tiles.columns[2, 0])}x2"


def splits(family, kernel_family, m, n, k):
    return bool(may_split(family, kernel_family == "BF16", float(m), float(n), float(k)))


@pytest.mark.parametrize(
    ("family", "shape", "expected"),
    [
        # from two rows on, m·n·k < 2^21
        ("sm120", (8, 64, 4095), False),
        ("sm120", (8, 64, 4096), True),
        ("sm120", (1, 64, 4096), True),
        ("sm89", (13, 32, 2048), False),
        ("sm89", (32, 32, 2048), True),
        # short k
        ("sm120", (64, 512, 2047), False),
        ("sm120", (64, 512, 2048), True),
        ("sm120", (64, 256, 1536), True),
        ("sm120", (65, 256, 1536), False),
        ("sm89", (512, 256, 1024), True),
        ("sm89", (512, 257, 1024), False),
        # sm89: wide outputs of few rows
        ("sm89", (128, 1024, 4096), False),
        ("sm89", (129, 1024, 4096), True),
        ("sm89", (128, 1024, 4097), True),
        ("sm120", (128, 1024, 4096), True),
        # other families have no such rule
        ("sm80", (8, 64, 512), True),
        ("sm90", (8, 64, 512), True),
        ("sm100", (8, 64, 512), True),
    ],
)
def test_rules_of_16_bit_libraries(family, shape, expected):
    assert splits(family, "BF16", *shape) is expected
    assert splits(family, "FP8", *shape) is True
