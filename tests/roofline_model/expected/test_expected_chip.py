"""What the expected-time models read of a chip, and what they say when it is missing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from roofline_model import InvalidValueError, UnknownNameError, UnsupportedError, get_hardware, list_hardware
from roofline_model.expected.chip import FAMILIES, ChipSpec, family_of_architecture, family_rules, fitted_numbers


def test_gb10_as_the_models_see_it():
    chip = ChipSpec.of(get_hardware("gb10"), "BF16")
    assert (chip.key, chip.family, chip.sm_count, chip.l2_bytes) == ("gb10", "sm120", 48, 24 * 2**20)
    assert (chip.clock_hz, chip.peak_flops_per_s) == (2.418e9, 118.8e12)
    assert chip.load_bytes_per_s == 64 * 48 * 2.418e9


@pytest.mark.parametrize(
    ("architecture", "family"),
    [
        ("Ampere sm_80", "sm80"), ("Ampere sm_87", "sm80"), ("Ada sm_89", "sm89"), ("Hopper sm_90", "sm90"),
        ("Blackwell Ultra sm_103", "sm100"), ("Blackwell sm_110", "sm100"), ("Blackwell sm_121", "sm120"),
    ],
)  # fmt: skip
def test_architectures_belong_to_families(architecture, family):
    assert family_of_architecture(architecture) == family


@pytest.mark.parametrize("architecture", ["CDNA3 gfx942", "placeholder", "", "Volta sm_70"])
def test_an_architecture_without_kernels_is_refused(architecture):
    with pytest.raises(UnsupportedError, match="known families: sm80"):
        family_of_architecture(architecture)


def test_an_unknown_family_names_the_known_ones():
    with pytest.raises(UnknownNameError, match="sm120"):
        family_rules("sm12")


def test_every_nvidia_chip_of_the_registry_from_ampere_on_is_described():
    chips = [chip for chip in list_hardware() if chip.vendor == "nvidia" and not chip.is_placeholder]
    described = [ChipSpec.of(chip, "BF16").key for chip in chips if chip.match.capability >= (8, 0)]
    assert {"gb10", "h100-sxm", "b200", "orin-agx-64gb", "thor-t5000", "rtx-5070"} <= set(described)
    for older in ("gtx-1070", "t4"):
        with pytest.raises(UnsupportedError, match="no expected-time constants"):
            ChipSpec.of(get_hardware(older), "BF16")


@pytest.mark.parametrize(
    ("missing", "message"), [("sm_count", "sm_count"), ("clock", "clock"), ("levels", "capacity of its L2")]
)
def test_a_missing_number_is_named(missing, message):
    chip = get_hardware("l40s")
    if missing == "levels":
        chip = replace(chip, levels=())
    else:
        chip = replace(chip, chip={name: value for name, value in chip.chip.items() if name != missing})
        # the clock of a peak stands in for the chip's own
        chip = replace(
            chip, paths={"BF16": replace(chip.paths["BF16"], dense=replace(chip.paths["BF16"].dense, clock_hz=None))}
        )
    with pytest.raises(UnsupportedError, match=message):
        ChipSpec.of(chip, "BF16")


def test_the_clock_of_the_peak_stands_in_for_the_chips():
    chip = get_hardware("l40s")
    without = replace(chip, chip={name: value for name, value in chip.chip.items() if name != "clock"})
    assert ChipSpec.of(without, "BF16").clock_hz == chip.paths["BF16"].dense.clock_hz


@pytest.mark.parametrize("name", ["sm_count", "clock_hz", "peak_flops_per_s", "bandwidth_bytes_per_s", "l2_bytes"])
def test_numbers_are_positive(name):
    chip = ChipSpec.of(get_hardware("l40s"), "BF16")
    with pytest.raises(InvalidValueError, match=name):
        replace(chip, **{name: 0})


def test_roundings_of_one_number_take_the_fitted_one():
    chip = ChipSpec.of(get_hardware("b200"), "BF16")
    fitted = replace(chip, clock_hz=chip.clock_hz * 0.997, peak_flops_per_s=2 * chip.peak_flops_per_s)
    merged = fitted_numbers(chip, fitted)
    assert merged.clock_hz == fitted.clock_hz  # 1.850 and 1.856 GHz are one clock
    assert merged.peak_flops_per_s == chip.peak_flops_per_s  # the peak of another format stays
    assert fitted_numbers(chip, replace(fitted, key="b300")) is chip


def test_families_hold_what_the_study_found():
    # (a, h, a_O, theta) and the smallest tile side
    rows = {
        key: (
            family.l2_share_ratio,
            family.l2_edge_factor,
            family.output_l2_share_ratio,
            family.clock_loss_ratio,
            family.smallest_mma_elems,
        )
        for key, family in FAMILIES.items()
    }
    assert rows == {
        "sm80": (0.47, 12, 0.20, 0, 16),
        "sm89": (1.02, 40, 0.60, 0.05, 16),
        "sm120": (1.01, 40, 0.75, 0, 16),
        "sm90": (0.68, 10, 0.25, 0.02, 64),
        "sm100": (0.50, 10, 1.20, 0.035, 128),
    }
