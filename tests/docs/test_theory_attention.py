"""docs/theory/attention.md: the figures are computed again and looked up in the page."""

from __future__ import annotations

import pytest
from theory_pages import Page

from roofline_model import get_hardware, predict
from roofline_model.expected.attention.flash.model import (
    BANDWIDTH_FILLING_SHARE,
    AttentionShape,
    FlashAttentionConfig,
    FlashAttentionPrediction,
    FlashAttentionRoofline,
    compare_fa_versions,
)
from roofline_model.expected.attention.flash.pipeline import step_clocks
from roofline_model.expected.attention.flash.splits import plan_work
from roofline_model.expected.attention.flash.tiles import count_blocks, ctas_per_sm
from roofline_model.expected.attention.flash.traffic import L2_SHARE
from roofline_model.expected.attention.flash.units import (
    LEGACY_MMA_SHARE,
    MUFU_PER_CLOCK,
    SHARED_BYTES_PER_CLOCK,
    chip_units,
)
from roofline_model.expected.attention.flash.versions import (
    FILL_CYCLES_PER_CTA,
    MASK_OVERHEAD_RATIO,
    POLYNOMIAL_OPS_PER_EXP,
    TRAITS,
    emulated_exp_ratio,
)
from roofline_model.expected.attention.unfused import unfused_attention
from roofline_model.ideal.operator_sequence import predict_operator
from roofline_model.operators.attention import PAGE_NUMBER_BYTES, attention, unfused_attention_parts
from roofline_model.operators.attention_shape import keys_read, visible_pairs

GB10 = get_hardware("gb10")
PAGE = Page("theory/attention.md")
section, table = PAGE.section, PAGE.table
LLAMA = (1, 32, 8)


def flash(
    version: str, chip: str, *shape: int, kv_heads: int | None = None, **options: object
) -> FlashAttentionPrediction:
    config = FlashAttentionConfig(version, **options)  # type: ignore[arg-type]
    return FlashAttentionRoofline(chip).predict(*shape, config, num_kv_heads=kv_heads)  # type: ignore[arg-type]


def test_the_pairs_of_the_mask_table() -> None:
    queries, keys, window = 5, 9, 3
    seen = [keys - queries + i + 1 for i in range(queries)]
    assert visible_pairs(queries, keys) == queries * keys
    assert visible_pairs(queries, keys, causal=True) == sum(seen)
    assert visible_pairs(6, 6, causal=True) == 6 * 7 // 2
    assert visible_pairs(queries, keys, causal=True, window=window) == sum(min(position, window) for position in seen)
    assert keys_read(queries, keys, window=window) == min(keys, queries + window - 1)


def test_the_table_of_fused_attention() -> None:
    cases = {
        "prefill, causal": {"causal": True}, "prefill, window 1024": {"causal": True, "window": 1024}, "decode": {},
        "decode, FP8 cache": {"kv": "FP8"}, "decode, NVFP4 cache": {"kv": "NVFP4"}, "decode, window 1024": {"window": 1024},
    }  # fmt: skip
    expected = []
    for name, options in cases.items():
        new = 4096 if name.startswith("prefill") else 1
        work = attention(*LLAMA, new, 4096, 128, **options)  # type: ignore[arg-type]
        prediction = predict(work, GB10)
        expected.append(
            [
                name,
                str(new),
                "4096",
                f"{work.cost.total_flops:,.0f}",
                f"{work.cost.total_bytes:,.0f}",
                f"{work.cost.intensity_flop_per_byte:.1f}",
                f"{prediction.time_s * 1e6:.1f}",
                prediction.bound,
            ]
        )
    assert table("Case") == expected


def test_fused_attention_in_words() -> None:
    text = section("1. What fused")
    multi_head = attention(1, 32, 32, 1, 4096, 128)
    latent = attention(1, 128, 1, 1, 4096, 576, Dv=512, shared_kv=True)
    paged = attention(*LLAMA, 1, 4096, 128, page_tokens=16)
    for words in (
        f"whose ridge is {GB10.critical_intensity('BF16'):.0f}",
        (
            f"it is {multi_head.cost.intensity_flop_per_byte:.1f} and the step takes "
            f"{predict(multi_head, GB10).time_s * 1e6:.1f} µs"
        ),
        f"the intensity is {latent.cost.intensity_flop_per_byte:.1f} in BF16",
        f"256 pages of 16 tokens are {dict(paged.cost.read_bytes)['block_table']:,} bytes",
        f"adds {PAGE_NUMBER_BYTES} bytes per page",
    ):
        assert words in text
    # "tends to 2·G/kv": 8-bit cache, G = 4
    long = attention(*LLAMA, 1, 10**6, 128, kv="FP8").cost.intensity_flop_per_byte
    assert long == pytest.approx(2 * 4 / 1, rel=1e-3)


def test_unfused_attention() -> None:
    parts = unfused_attention_parts(*LLAMA, 4096, 4096, 128)
    predictions = {name: predict_operator(work, GB10) for name, work in parts.items()}
    assert table("Kernel") == [
        [
            name,
            f"{work.cost.total_flops:,.0f}",
            f"{work.cost.total_bytes:,.0f}",
            f"{work.cost.intensity_flop_per_byte:.1f}",
            f"{predictions[name].time_s * 1e6:.1f}",
        ]
        for name, work in parts.items()
    ]
    sum_s = sum(prediction.time_s for prediction in predictions.values())
    fused_s = predict(attention(*LLAMA, 4096, 4096, 128), GB10).time_s
    library = unfused_attention("gb10", AttentionShape(*LLAMA, 4096, 4096, 128), "BF16")
    text = section("2. Attention without")
    for words in (
        f"{sum_s * 1e3:.1f} ms in sum, {sum_s / fused_s:.0f} times the {fused_s * 1e3:.2f} ms",
        f"the scores occupy {library.score_matrix_bytes / 2**30:g} GiB",
        f"with launches: {library.time_s * 1e3:.1f} ms",
    ):
        assert words in text


def test_tiles_and_masks() -> None:
    text = section("3. Tiles")
    full, causal, window = (
        count_blocks(4096, 4096, 1, 128, 64, causal=causal, window=window)
        for causal, window in ((False, None), (True, None), (True, 1024))
    )
    for words in (
        f"has {full.tiles_count} tiles of {full.longest_count} blocks, {full.total_count} steps",
        (
            f"Causal: {causal.total_count} steps ({100 * causal.total_count / full.total_count:.1f} %, not 50 %), from "
            f"{causal.shortest_count} to {causal.longest_count} per tile"
        ),
        f"window of 1024: {window.total_count}, at most {window.longest_count} per tile",
    ):
        assert words in text
    shape = AttentionShape(1, 32, 32, 4096, 4096, 128)
    tile = plan_work(shape, FlashAttentionConfig("fa2"), GB10).tile
    assert f"{tile.rows_count} rows by {tile.keys_count} keys" in text


def test_the_clocks_of_a_step() -> None:
    expected = []
    for version, chip in (
        ("fa1", "a100"),
        ("fa2", "a100"),
        ("fa2", "gb10"),
        ("fa2", "h100"),
        ("fa3", "h100"),
        ("fa4", "b200"),
    ):
        config, device = FlashAttentionConfig(version), get_hardware(chip)
        traits = TRAITS[config.version]
        tile = plan_work(AttentionShape(1, 32, 32, 16384, 16384, 128), config, device).tile
        emulated = emulated_exp_ratio(device, causal=False, head_dim=128) if version == "fa4" else 0.0
        clocks = step_clocks(tile, config, traits, chip_units(device, traits, "FP16"), emulated)
        assert clocks is not None
        alone = (
            clocks.tensor_clocks_per_score,
            clocks.shared_clocks_per_score,
            clocks.exp_clocks_per_score,
            clocks.vector_clocks_per_score,
        )
        scores = 128 * 128
        expected.append(
            [
                version,
                chip,
                *(f"{scores * value:.0f}" for value in alone),
                f"{traits.overlap_factor:g}",
                f"{scores * clocks.combined(traits.overlap_factor):.0f}",
            ]
        )
        if version == "fa4":
            assert f"share of them ({emulated:g} here)" in section("4. What a step")
            # the FA4 paper's counts for 128³: the products at the full rate, every exponential on its unit
            units = chip_units(device, traits, "FP16")
            rate = units.peak_flops_per_s / (units.sm_count * units.clock_hz)  # type: ignore[operator]
            paper = (4 * 128 * scores / rate, scores / 16, scores * alone[1])
            assert [round(rate) for rate in paper] == pytest.approx([1024, 1024, 768], rel=0.01)
    assert table("Version | Chip | Tensor") == expected


def test_the_constants_in_words() -> None:
    text = section("4. What a step") + section("5. From steps") + section("6. The four")
    fa1, fa2, fa3, fa4 = TRAITS.values()
    assert {version.vector_ops_per_score for version in (fa1, fa2, fa3)} == {4.8}
    assert fa4.vector_ops_per_score == 2.4
    for words in (
        f"/ {SHARED_BYTES_PER_CLOCK:g} bytes per clock",
        f"(4.8 + {POLYNOMIAL_OPS_PER_EXP:g} · emulated)",
        f"/ {MUFU_PER_CLOCK[90].value:g} exponentials per clock",
        f"({MUFU_PER_CLOCK[103].value:g} on sm_103)",
        f"reach {LEGACY_MMA_SHARE[90]} of the peak on Hopper and {LEGACY_MMA_SHARE[100]} on datacentre Blackwell",
        f"Each wave adds {FILL_CYCLES_PER_CTA:g} clocks",
        f"adds {100 * MASK_OVERHEAD_RATIO:g} % of the share of blocks",
        f"m is {fa2.memory_overlap_factor:g}, for FA1 {fa1.memory_overlap_factor:g}",
        f"costs {fa3.fp8_fill_clocks_per_element} clocks per element",
    ):
        assert words in text
    assert BANDWIDTH_FILLING_SHARE == 0.5  # "with fewer blocks than half the SMs"
    assert f"fit in {L2_SHARE} of the L2" in section("7. DRAM")


def test_the_worked_example_on_gb10() -> None:
    text = section("5. From steps")
    prediction = flash("fa2", "gb10", 1, 32, 4096, 4096, 128)
    work = plan_work(prediction.shape, prediction.config, GB10)
    units = chip_units(GB10, TRAITS[prediction.version], "FP16")
    clocks = step_clocks(work.tile, prediction.config, TRAITS[prediction.version], units, 0.0)
    assert clocks is not None
    assert units.clock_hz is not None
    step_s = work.tile.scores_count * clocks.combined(1.5) / units.clock_hz
    parts = dict(prediction.parts)
    for words in (
        f"{prediction.ctas_count} blocks of 64 steps are {work.total_blocks:,.0f} steps",
        f"A step has {work.tile.scores_count} scores and takes {step_s * 1e6:.2f} µs",
        f"48 SMs do {work.total_blocks / 48:.1f} each, {work.total_blocks / 48 * step_s * 1e3:.2f} ms",
        (
            f"make {prediction.waves_count:.1f} waves, so the busiest SM does "
            f"{work.busiest_sm_blocks(48, longest_first=False):.0f} steps"
        ),
        f"the tail is {(parts['tail'] or 0) * 1e3:.2f} ms",
        f"DRAM takes {prediction.dram_bytes:,.0f} bytes / 232 GB/s = {(parts['memory'] or 0) * 1e3:.2f} ms",
        (
            f"In sum {(prediction.time_s or 0) * 1e3:.2f} ms, {(prediction.rate_flops_per_s or 0) / 1e12:.0f} TFLOP/s, against "
            f"{predict(attention(1, 32, 32, 4096, 4096, 128), GB10).time_s * 1e3:.2f} ms ideal"
        ),
    ):
        assert words in text
    decode = flash("fa2", "gb10", 1, 32, 1, 4096, 128, kv_heads=8)
    shares = dict(decode.parts)
    assert (
        f"splits 4096 keys in {decode.split_count}: {decode.ctas_count} blocks for 48 SMs, "
        f"{(shares['memory'] or 0) * 1e6:.1f} µs for {decode.dram_bytes:,.0f} bytes" in text
    )
    assert (
        f"two launches of {(shares['launch'] or 0) * 1e6:.1f} µs: {(decode.time_s or 0) * 1e6:.1f} µs, against" in text
    )
    assert f"against {predict(attention(*LLAMA, 1, 4096, 128), GB10).time_s * 1e6:.1f} ideal" in text


def test_the_table_of_versions() -> None:
    def yes(answer: bool) -> str:
        return "yes" if answer else "no"

    assert table("Version | Instruction") == [
        [
            traits.version.value,
            traits.instruction,
            f"{traits.overlap_factor:g}",
            yes(traits.has_gqa),
            yes(traits.has_split_kv),
            yes(traits.longest_first),
            yes(traits.fp8_fill_clocks_per_element is not None),
            ", ".join(map(str, traits.head_dims)),
        ]
        for traits in TRAITS.values()
    ]
    versions = compare_fa_versions(1, 32, 4096, 128, "gb10")
    assert [name for name, version in versions.items() if version.available] == ["fa1", "fa2"]
    assert all(
        compare_fa_version.available for compare_fa_version in compare_fa_versions(1, 32, 4096, 128, "b10").values()
    )


def test_each_at_its_best_and_in_one_format() -> None:
    text = section("6. The four versions")
    mixed, same = (compare_fa_versions(1, 32, 4096, 128, "h100", precision=precision) for precision in (None, "FP16"))
    first, second = ((by_version["fa2"].time_s or 0) / (by_version["fa3"].time_s or 1) for by_version in (mixed, same))
    assert f"FA3 is {first:.1f} times as fast as FA2 in the first way, {second:.1f} times in the second" in text
    best, peak = get_hardware("mi300x").paths["BF16"].achieved, get_hardware("mi300x").path("FP16").dense
    assert best is not None
    assert f"{best.value / 1e12:.0f} of {peak.value / 1e12:.0f} TFLOP/s on MI300X" in text


def test_the_published_rates() -> None:
    rows = table("Version | Chip | S")
    tokens = {"h100": 16384, "b200": 32768}
    assert len(rows) == 8
    for version, chip, length, mask, published, model, _ in rows:
        size, batch = int(length), tokens[chip] // int(length)
        prediction = flash(version, chip, batch, 16, size, size, 128, causal=mask == "causal")
        flops = 4 * batch * 16 * size**2 * 128 / (2 if mask == "causal" else 1)
        assert prediction.time_s is not None
        assert model == f"{flops / prediction.time_s / 1e12:.0f}"
        assert int(model) == pytest.approx(int(published), rel=0.12)


def test_the_traffic() -> None:
    text = section("7. DRAM")
    first, second = (flash(version, "gb10", 1, 32, 4096, 4096, 128) for version in ("fa1", "fa2"))
    assert f"FA2 moves {second.dram_bytes:,.0f} bytes" in text
    assert (
        f"round trips add {dict(first.traffic_bytes)['output_round_trips']:,.0f} and make it {first.bound}-bound: "
        f"{(first.time_s or 0) * 1e3:.1f} ms" in text
    )
    steps = plan_work(first.shape, first.config, GB10)
    beyond = steps.total_blocks - steps.head_count * steps.blocks.tiles_count
    concurrent = min(48 * ctas_per_sm(steps.tile, GB10, first.version), steps.ctas_count)
    in_work = concurrent * 4096 / steps.split_count * 128 * (2 + 4)
    missed = 1 - L2_SHARE * GB10.last_level_cache.capacity_bytes / in_work
    trips = beyond * steps.tile.rows_count * 128 * (2 + 8) * missed
    assert dict(first.traffic_bytes)["output_round_trips"] == pytest.approx(trips)
