"""What no kernel can beat: the chip's highest clock and bandwidth decide, not the rated ones."""

from __future__ import annotations

from dataclasses import replace

import pytest

from roofline_model import gemm, get_hardware, list_hardware, predict
from roofline_model.ideal.limits import RATED_MARGIN, limit_s

LARGE = gemm(8192, 8192, 8192, a="BF16")
WIDE = gemm(1, 65536, 65536, a="BF16")
"""8.6 GB: beyond every cache."""
CHIPS = [chip for chip in list_hardware() if not chip.is_placeholder]


@pytest.mark.parametrize("chip", [chip for chip in CHIPS if "clock_max" in chip.chip], ids=lambda chip: chip.key)
def test_every_chip_may_reach_its_highest_clock_and_no_more(chip) -> None:
    ideal = predict(LARGE, chip)
    assert ideal.bound == "compute"
    headroom = chip.chip["clock_max"].value / chip.path("BF16").dense.clock_hz
    at_most = max(1.0, headroom) * chip.path("BF16").accumulate_factor
    assert limit_s(ideal, chip) == pytest.approx(ideal.time_s / at_most / RATED_MARGIN)


def test_no_published_product_is_impossible() -> None:
    published = [(chip, key, path.achieved) for chip in CHIPS for key, path in chip.paths.items() if path.achieved]
    assert len(published) > 20
    for chip, key, best in published:
        work = gemm(8192, 8192, 8192, a=key)
        assert work.cost.total_flops / best.value > limit_s(predict(work, chip), chip), (chip.key, key)


def test_without_a_highest_clock_arithmetic_has_no_limit() -> None:
    chip = get_hardware("h100")
    unknown = replace(chip, chip={name: value for name, value in chip.chip.items() if name != "clock_max"})
    ideal = predict(LARGE, unknown)
    assert 0 < limit_s(ideal, unknown, cache="cold") <= ideal.memory_time_s


@pytest.mark.parametrize(("key", "gain", "is_possible"), [("rtx-4090", 1.14, True), ("rtx-5090", 1.2, True),
                                                          ("rtx-pro-6000", 1.16, True), ("h200", 1.14, False),
                                                          ("l40s", 1.14, False), ("gb10", 1.14, False)])  # fmt: skip
def test_only_owners_of_boards_can_raise_the_clock_of_a_memory(key, gain, is_possible) -> None:
    chip = get_hardware(key)
    ideal = predict(WIDE, chip)
    assert (ideal.time_s / gain > limit_s(ideal, chip, cache="cold")) is is_possible


def test_what_a_cache_holds_is_free_where_nobody_says_that_it_was_cold() -> None:
    chip = get_hardware("l40s")  # 96 MB of L2
    small = predict(gemm(16, 4096, 4096, a="BF16"), chip)
    assert limit_s(small, chip) < small.time_s / 20
    assert limit_s(small, chip, cache="cold") == pytest.approx(small.time_s / RATED_MARGIN)
    wide = predict(WIDE, chip)
    assert 0.97 * wide.time_s / RATED_MARGIN < limit_s(wide, chip) < wide.time_s


@pytest.mark.parametrize("status", ["placeholder", "unconfirmed", "declared"])
def test_numbers_without_a_document_limit_nothing(status) -> None:
    chip = get_hardware("h100")
    bf16 = chip.paths["BF16"]
    guessed = replace(
        chip,
        bandwidth=replace(chip.bandwidth, status=status),
        paths={**chip.paths, "BF16": replace(bf16, dense=replace(bf16.dense, status=status))},
    )
    assert limit_s(predict(LARGE, guessed), guessed) == 0
