"""Which chip runs which version, and the comparison of versions."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from roofline_model import UnsupportedError, get_hardware, list_hardware
from roofline_model.core.finding import finding, has_code
from roofline_model.expected.attention.flash.model import (
    FlashAttentionConfig,
    FlashAttentionRoofline,
    FlashAttentionVersion,
    compare_fa_rows,
    compare_fa_versions,
)
from roofline_model.expected.attention.flash.versions import TRAITS, newest_available, padded_head_dim, why_unavailable

RUNS = {
    "b10": "fa1 fa2 fa3 fa4", "gb10": "fa1 fa2", "rtx-pro-6000": "fa1 fa2", "a100": "fa1 fa2", "l40s": "fa1 fa2", "orin": "fa1 fa2",
    "h100": "fa1 fa2 fa3", "h200": "fa1 fa2 fa3", "b200": "fa1 fa2 fa4", "b300": "fa1 fa2 fa4", "thor": "fa1 fa2 fa4", "mi300x": "fa2",
}  # fmt: skip


@pytest.mark.parametrize("chip", RUNS)
def test_who_runs_what(chip: str) -> None:
    results = compare_fa_versions(1, 32, 4096, 128, chip, precision="BF16")
    assert list(results) == ["fa1", "fa2", "fa3", "fa4"]
    assert [name for name, prediction in results.items() if prediction.available] == RUNS[chip].split()
    for result in results.values():
        if result.available:
            assert result.time_s > 0
            assert not result.reason
        else:
            # As on a chip that had its instruction, with the reason first.
            assert result.predicted_time_us > 0
            assert result.arithmetic_intensity > 0
            assert result.bottleneck in ("memory", "compute")
            assert result.findings[0] == result.why_unavailable
            assert result.reason
            with pytest.raises(UnsupportedError, match=result.version.value):
                _ = result.cost


def test_what_could_not_run_with_any_instruction_has_no_numbers() -> None:
    wide = FlashAttentionRoofline("h100").predict(1, 8, 64, 64, 512, FlashAttentionConfig("fa3"))
    on_cpu = FlashAttentionRoofline(replace(get_hardware("gb10"), kind="cpu")).predict(1, 8, 64, 64, 64)
    for answer in (wide, on_cpu):
        assert not answer.available
        assert answer.time_s is answer.predicted_time_us is answer.dram_bytes is answer.flops is None
        assert (answer.parts, answer.bottleneck) == ((), "")


@pytest.mark.parametrize("length", [1024, 4096, 16384])
def test_without_sms_no_version_pays_for_its_tiles(length: int) -> None:
    same = compare_fa_versions(1, 32, length, 128, "b10", precision="FP16")
    assert same["fa3"].time_s == pytest.approx(same["fa2"].time_s)
    assert same["fa4"].time_s == pytest.approx(same["fa2"].time_s)
    assert has_code(same["fa3"].findings, "attention-assumption")


def test_gb10_says_why_and_what_instead() -> None:
    results = compare_fa_versions(1, 32, 4096, 128, "gb10")
    assert "wgmma" in results["fa3"].reason
    assert "tcgen05" in results["fa4"].reason
    assert all("use fa2" in results[name].reason for name in ("fa3", "fa4"))
    assert newest_available(get_hardware("gb10"), 128) is FlashAttentionVersion.FA2


def test_the_newest_of_each_chip() -> None:
    newest = {chip: newest_available(get_hardware(chip), 128) for chip in ("a100", "h100", "b200", "b10", "mi300x")}
    assert [version.value for version in newest.values() if version] == ["fa2", "fa3", "fa4", "fa4", "fa2"]
    assert newest_available(get_hardware("h100"), 1024) is None


def test_every_chip_of_the_registry_gets_an_answer() -> None:
    for device in list_hardware():
        for version, traits in TRAITS.items():
            if why_unavailable(traits, device, 128) is None:
                config = FlashAttentionConfig(version, qkv_precision="BF16")
                assert FlashAttentionRoofline(device).predict(1, 8, 256, 256, 128, config).time_s > 0


def test_head_dimensions() -> None:
    fa1, fa3 = TRAITS[FlashAttentionVersion.FA1], TRAITS[FlashAttentionVersion.FA3]
    why = why_unavailable(fa1, get_hardware("a100"), 256)
    assert why == finding("flash-unavailable", kind="head-dim", kernel="fa1", head_dim=256, largest_head_dim=128)
    assert padded_head_dim(fa3, 72) == 96
    narrow, wide = (
        FlashAttentionRoofline("h100").predict(1, 8, 4096, 4096, d, FlashAttentionConfig("fa3")) for d in (72, 96)
    )
    assert narrow.padded_flops == wide.padded_flops  # padded to the same kernel
    assert narrow.flops == 0.75 * wide.flops


def test_fp8_needs_the_units() -> None:
    assert (
        FlashAttentionRoofline("h100")
        .predict(1, 8, 64, 64, 64, FlashAttentionConfig("fa3", use_native_fp8=True))
        .available
    )
    device = get_hardware("a100")
    why = why_unavailable(TRAITS[FlashAttentionVersion.FA2], device, 128, native_fp8=True)
    assert why.value("kind") == "fp8"


def test_the_default_comparison_uses_fp8_where_there_is_some() -> None:
    formats = {
        name: prediction.compute_format for name, prediction in compare_fa_versions(1, 32, 4096, 128, "b10").items()
    }
    assert formats == {"fa1": "FP16", "fa2": "FP16", "fa3": "FP8_E4M3", "fa4": "FP8_E4M3"}
    same = {
        compare_fa_version.compute_format
        for compare_fa_version in compare_fa_versions(1, 32, 4096, 128, "b10", precision="BF16").values()
    }
    assert same == {"BF16"}


def test_a_comparison_across_formats_says_so_and_one_in_a_single_format_does_not() -> None:
    mixed = compare_fa_versions(1, 32, 4096, 128, "h100")
    assert finding("flash-counted", kind="formats-differ", versions=("fa1", "fa2")) in mixed["fa3"].findings
    assert not any(has_code(mixed[name].findings, "flash-counted", "formats-differ") for name in ("fa1", "fa2"))
    same = compare_fa_versions(1, 32, 4096, 128, "h100", precision="FP16")
    assert not any(has_code(prediction.findings, "flash-counted", "formats-differ") for prediction in same.values())
    rows = {row["version"]: row for row in compare_fa_rows(1, 32, 4096, 128, "h100")}
    assert [item["code"] for item in rows["fa3"]["findings"]] == [item.code for item in mixed["fa3"].findings]


def test_decode_may_have_a_narrow_cache_in_any_version() -> None:
    decode = compare_fa_versions(4, 32, 8192, 128, "h100", seq_len_q=1, num_kv_heads=8, kv_cache_precision="NVFP4")
    assert decode["fa3"].bottleneck == "memory"
    assert decode["fa3"].shape.kv_heads == 8


def test_rows_for_a_table() -> None:
    rows = compare_fa_rows(1, 32, 4096, 128, "h100", precision="BF16")
    assert [row["version"] for row in rows] == ["fa1", "fa2", "fa3", "fa4"]
    assert rows[0]["speedup"] == 1.0
    assert rows[2]["speedup"] == pytest.approx(rows[0]["time_s"] / rows[2]["time_s"])
    assert (rows[3]["available"], rows[3]["speedup"]) == (False, None)
    assert (rows[2]["tile"], rows[3]["tile"]) == ("128x176", "256x128")
    assert json.loads(json.dumps(rows)) == rows


def test_the_bound_follows_the_shape() -> None:
    def bound(chip: str, version: str, *sizes: int, **options: object) -> str:
        return FlashAttentionRoofline(chip).predict(*sizes, FlashAttentionConfig(version, **options)).bound

    assert bound("h100", "fa3", 1, 32, 1, 65536, 128) == "memory"
    assert bound("h100", "fa3", 1, 16, 16384, 16384, 256) == "tensor"
    assert bound("b200", "fa4", 1, 32, 16384, 16384, 64) == "exp"
    assert bound("h100", "fa3", 1, 1, 16, 16, 64) == "launch"
    assert bound("h100", "fa2", 1, 8, 16384, 16384, 256) == "shared"
    # Twice the exponentials move the bound of B300 back to the products.
    assert bound("b300", "fa4", 1, 32, 16384, 16384, 128) == "tensor"
