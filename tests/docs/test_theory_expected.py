"""docs/theory/expected.md: worked examples from the constants printed there, and the rules as the code has them.

The examples use the page's own rounded constants, not the files that ship, so a new fit does not make the page wrong.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest
from theory_pages import Page

from roofline_model import create_custom_asic, gemm, gemv, get_hardware, predict
from roofline_model.chips.machine_constants import Calibration, Constant
from roofline_model.core.cost import OpCost
from roofline_model.expected.attention.chip import AttentionChip
from roofline_model.expected.attention.decode import RESIDENT, decode_terms, decode_work, kernels_of
from roofline_model.expected.attention.fitted.constants import FLOOR_RATIO as ATTENTION_FLOOR
from roofline_model.expected.attention.fitted.constants import GRIDS, MID_RATIO
from roofline_model.expected.attention.prefill import prefill_terms, prefill_work
from roofline_model.expected.attention.shape import AttentionShapes
from roofline_model.expected.calibrated import predict_calibrated
from roofline_model.expected.chip import FAMILIES, LIKE_RATIO, NEAR_FAMILIES, ChipSpec
from roofline_model.expected.gap import PARTS, explain_gap
from roofline_model.expected.grid_surface import LARGEST_LOG
from roofline_model.expected.intervals import DRIFT, FLOOR_RATIO, REGIMES
from roofline_model.expected.predict import expected_times, predict_expected
from roofline_model.expected.prediction import ExpectedBatch
from roofline_model.expected.products.fitted.constants import AXES, FITTED_BOUNDS, KERNEL_FAMILIES, from_values
from roofline_model.expected.products.fitted.library import EASIER_RATIO, find_gemm
from roofline_model.expected.products.formula import CLOCK_LOSS_ONSET_S, COLD_LATENCY_RATIO, WAVE_S, expected_gemm
from roofline_model.expected.products.parameters import SMALLEST_SLICE, SPLITS, TILE_COLUMNS, TILE_ROWS_TMA
from roofline_model.operators.attention import attention
from roofline_model.recommend.shape import recommend_quantization
from roofline_model.tiling.waves import gemm_tiling

PAGE = Page("theory/expected.md")
section, table = PAGE.section, PAGE.table
H100 = get_hardware("h100")
CHIP = ChipSpec.of(H100, "BF16")
ROWS = (16, 128, 2048, 4096)


def products() -> ExpectedBatch:
    """Return the example of section 4 from the constants printed there."""
    values = {name: float(value) for _, name, value, _ in table("Letter")}
    return expected_gemm(
        CHIP,
        ROWS,
        4096,
        4096,
        weight_format="BF16",
        activation_format="BF16",
        constants=from_values(values, "sm90", "BF16"),
    )


def test_the_calibrated_example() -> None:
    def rate(best: float, median: float, slow: float, unit: str = "B/s") -> Constant:
        return Constant(unit, best, median, slow, 0.1, 20)

    calibration = Calibration(
        measured_at="2026-11-21T12:00:00+00:00",
        subject="invented",
        kind="cpu",
        dram={"read": rate(50e9, 40e9, 20e9)},
        peaks={"BF16": rate(400e9, 320e9, 200e9, "FLOP/s")},
        floors={"call": rate(1e-6, 2e-6, 4e-6, "s"), "fork-join": rate(3e-6, 4e-6, 8e-6, "s")},
    )
    chip = replace(create_custom_asic("invented", 50, {"FP32": 0.2, "BF16": 0.4}), calibration=calibration, kind="cpu")
    work = gemv(4096, 4096, a="BF16")
    prediction = predict_calibrated(work, chip)
    assert prediction is not None
    memory_s, compute_s, fixed_s = (dict(prediction.terms)[name] for name in ("dram", "tensor", "launch"))
    text = section("2. The calibrated")
    for words in (
        (f"{work.cost.total_bytes:,.0f} bytes: {memory_s * 1e6:.1f} µs of memory, {compute_s * 1e6:.1f} of arithmetic"),
        (
            f"{fixed_s * 1e6:.0f} fixed, in sum {prediction.time_s * 1e6:.1f} µs, from "
            f"{prediction.low_s * 1e6:.1f} to {prediction.high_s * 1e6:.1f}"
        ),
    ):
        assert words in text


def test_the_tiling_example() -> None:
    text = section("3. Tiles")
    first, second = (gemm_tiling(gemm(2048, size, 4096, a="BF16"), H100) for size in (4096, 4352))
    assert first is not None
    assert second is not None
    same_tile = math.ceil(2048 / first.tile_m) * math.ceil(4352 / first.tile_n)
    x = same_tile / first.sm_count
    for words in (
        (
            f"tile {first.tile_m}×{first.tile_n}, {first.block_count} blocks on {first.sm_count} SMs, x = "
            f"{first.blocks_per_sm_ratio:.2f}, tail {100 * first.tail_ratio:.1f} %, no padding"
        ),
        f"{first.occupancy.stage_count} stages take {first.occupancy.shared_bytes:,} bytes of shared memory",
        (
            f"The operands are {first.operand_bytes:,.0f} bytes, the blocks ask for {first.requested_bytes:,.0f}: "
            f"{first.requested_bytes / first.operand_bytes:.0f} times"
        ),
        f"the L2 serves {100 * first.l2_hit_ratio:.1f} %",
        f"makes {same_tile} blocks, x = {x:.2f} and a tail of {100 * (1 - x / math.ceil(x)):.1f} %",
    ):
        assert words in text
    assert (second.tile_m, second.tile_n) != (first.tile_m, first.tile_n)  # "takes another one there"
    assert second.tail_ratio < 1 - x / math.ceil(x)
    assert first.padding_ratio == 0
    assert (first.occupancy.block_count, first.occupancy.limiter) == (1, "shared memory")


def test_the_table_of_products() -> None:
    products_table = products()
    expected = []
    for i, rows in enumerate(ROWS):
        terms = [f"{products_table.parts[name][i] * 1e6:.1f}" for name in ("tensor", "dram", "l2", "sm", "latency")]
        ideal_s = predict(gemm(rows, 4096, 4096, a="BF16"), H100).time_s
        expected.append(
            [
                str(rows),
                products_table.kernel[i],
                *terms,
                f"{products_table.time_s[i] * 1e6:.1f}",
                f"{ideal_s * 1e6:.1f}",
                products_table.binding[i],
            ]
        )
    assert table("M | Tile") == expected


def test_the_formulas_give_the_table() -> None:
    """The last line by hand, as the page writes the formulas."""
    c = {letter: float(value) for letter, _, value, _ in table("Letter")}
    M = N = K = 4096
    bm, bn, s, S = 128, 256, 1, 132
    clock, peak, bandwidth, l2 = 1.83e9, 989.4e12, 3352e9, 50 * 2**20
    x = math.ceil(M / bm) * math.ceil(N / bn) * s / S
    w = (1 - c["ω"]) * math.ceil(x) + c["ω"] * max(x, 1)
    doublings = math.log2(2 * M * N * K / peak / CLOCK_LOSS_ONSET_S)
    rules = FAMILIES["sm90"]
    e_c = c["e_c"] * (1 - rules.clock_loss_ratio * doublings)
    size = 2.0 * M * N  # bytes of W, A and C are equal here

    def miss(touched: float, share: float) -> float:
        return 1 - 1 / (1 + min(touched / (share * l2), 4) ** rules.l2_edge_factor)

    traffic = size + size * miss(3 * size, rules.l2_share_ratio) + size * miss(2 * size, rules.output_l2_share_ratio)
    supply = c["e_L2"] * 64 * S * clock
    terms = (
        w * K * 2 * bm * bn * S / (e_c * peak),
        traffic / (c["e_m"] * bandwidth),
        (x * S * K * 2 * (bm + bn) + c["κ"] * size) / supply,
        w * K * 2 * (bm + bn) / (c["e_sm"] * 64 * clock),
        w * K / 64 * c["τ_k"] * (1 + COLD_LATENCY_RATIO),
    )
    assert [f"{term * 1e6:.1f}" for term in terms] == table("M | Tile")[-1][2:7]
    time_s = c["t0"] + sum(term**4 for term in terms) ** 0.25 + WAVE_S * (w - 1)
    assert f"{time_s * 1e6:.1f}" == table("M | Tile")[-1][7]
    text = section("4. Expected products")
    assert f"{round(x * S)} blocks, x = {x:.2f}, w = 0.3·4 + 0.7·{x:.2f} = {w:.2f}" in text
    assert f"are {doublings:.2f} doublings of {CLOCK_LOSS_ONSET_S * 1e6:.0f}" in text


def test_the_families() -> None:
    assert table("Family") == [
        [
            key,
            family.supply_class,
            f"{family.l2_share_ratio:g}",
            f"{family.l2_edge_factor:g}",
            f"{family.output_l2_share_ratio:g}",
            f"{family.clock_loss_ratio:g}",
            str(family.smallest_mma_elems),
            "yes" if family.has_gemv_kernel else "no",
        ]
        for key, family in FAMILIES.items()
    ]
    text = section("4. Expected products")
    for words in (
        f"+ {WAVE_S * 1e9:g} ns ·",
        f"(1 + {COLD_LATENCY_RATIO} · miss)",
        f"Splits: {', '.join(map(str, SPLITS))}, at least {SMALLEST_SLICE} of k each",
        f"bm {TILE_ROWS_TMA[0]} to {TILE_ROWS_TMA[-1]} (192 too with tma), bn {TILE_COLUMNS[0]} to {TILE_COLUMNS[-1]}",
        (
            f"{CHIP.sm_count} SMs, {CHIP.clock_hz / 1e9:g} GHz, {CHIP.peak_flops_per_s / 1e12:g} TFLOP/s, "
            f"{CHIP.bandwidth_bytes_per_s / 1e9:g} GB/s, {CHIP.l2_bytes / 2**20:g} MiB"
        ),
    ):
        assert words in text
    assert ChipSpec.of(get_hardware("gb10"), "BF16").family == "sm120"


def test_the_rules_of_constants() -> None:
    other = section("5. Other kernels")
    assert f"families ({', '.join(KERNEL_FAMILIES)})" in other
    assert [len(axis) for axis in AXES] == [7, 7, 7]
    assert "at most a factor of 2" in other
    assert math.exp(LARGEST_LOG) == pytest.approx(2, rel=0.01)
    text = section("6. Constants")
    tensor, dram = FITTED_BOUNDS["tensor_ratio"], FITTED_BOUNDS["dram_ratio"]
    for words in (
        f"tensor rate {tensor[0]:g} to {tensor[1]:g} of the peak, DRAM {dram[0]:g} to {dram[1]:g}",
        f"up to {FLOOR_RATIO} launch floors",
        (
            f"{100 * DRIFT['sibling']:g} % to a sibling (same family, SM count within a factor of {LIKE_RATIO}, the "
            "same tensor rate per clock and SM)"
        ),
        (
            f"{100 * DRIFT['near']:g} % to another product of the family or between "
            f"{' and '.join(sorted(NEAR_FAMILIES, key=len))}"
        ),
        f"{100 * DRIFT['far']:g} % to another family (FP8: {100 * DRIFT['far-FP8']:g} %)",
        f"{100 * DRIFT['format']:g} % where the kernel family itself",
    ):
        assert words in text
    assert len(REGIMES) == 6
    assert pytest.approx(0.2) == 1 - 1 / EASIER_RATIO  # "a fifth fewer"
    lent = find_gemm(ChipSpec.of(get_hardware("gb10"), "BF16"), "BF16")
    assert (lent.provenance, lent.sources) == ("transferred-sibling", ("rtx-pro-6000",))


def test_a_decoded_weight_is_a_pass_before_the_product() -> None:
    plain = gemv(4096, 4096, a="BF16")
    read, written = 4096 * 4096 / 2, 4096 * 4096 * 2
    cost = OpCost(plain.cost.flops, {"A": 8192, "B": read, "B decoded": written}, {"C": 8192, "B decoded": written})
    decoded = replace(plain, formats=(("a", "BF16"), ("b", "INT4"), ("c", "BF16")), cost=cost)
    product, expected = predict_expected(plain, H100), predict_expected(decoded, H100)
    assert product is not None
    assert expected is not None
    fitted = find_gemm(CHIP, "BF16").constants
    pass_s = fitted.launch_s + (read + written) / (fitted.dram_ratio * CHIP.bandwidth_bytes_per_s)
    assert dict(expected.parts)["dequantize"] == pytest.approx(pass_s)
    assert expected.time_s == pytest.approx(product.time_s + pass_s)


def attention_constants(phase: str) -> dict[str, float]:
    """Return the page's constants of a phase, by the model's names for D = 128 in 16 bit; the others stand as 1."""
    (row,) = [row for row in table("Phase | Constants") if row[0] == phase]
    printed = {name: float(value) for name, value in re.findall(r"(\w+) ([\d.]+)", row[1])}
    shared = {name: printed.pop(name) for name in ("dram_ratio", "l2_bytes_per_clock", "miss_us") if name in printed}
    if phase == "prefill":
        launch = printed.pop("launch_us")
        sized = {f"{name}_{size}_16bit": value for name, value in printed.items() for size in (64, 128, 256)}
        return {**shared, **sized, "launch_us_16bit": launch}
    unused = ("head_launch_us", "head_cta_us", "head_token_ns", "head_split_us", "head_fill_us")
    return {
        **shared,
        **{f"{name}_16bit": value for name, value in printed.items()},
        **{f"{name}_16bit": 1.0 for name in unused},
    }


def test_the_attention_example() -> None:
    chip = AttentionChip.of(H100)
    prompt = AttentionShapes.of(1, 32, 8, 4096, 4096, 128, causal=True, window=None)
    token = AttentionShapes.of(1, 32, 8, 1, 4096, 128, causal=True, window=None)
    first = prefill_terms(
        prefill_work(chip, prompt, is_8bit=False, cache_bytes=2.0, is_cold=True), attention_constants("prefill")
    )
    work = decode_work(chip, token, is_8bit=False, cache_bytes=2.0, is_cold=True)
    second = decode_terms(work, attention_constants("decode"))
    ideal = [predict(attention(1, 32, 8, new, 4096, 128, causal=True), H100).time_s * 1e6 for new in (4096, 1)]

    def shown(name: str, terms: dict[str, object]) -> str:
        return f"{float(terms[name][0]):.1f}" if name in terms else "–"  # type: ignore[index]

    expected = []
    for phase, (time_us, terms), ideal_us, main in (
        ("prefill, causal", first, ideal[0], "tensor"),
        ("decode", second, ideal[1], "latency"),
    ):
        parts = [shown(name, dict(terms)) for name in ("launch", "append", "split", "waves", main, "l2", "dram")]
        expected.append([phase, *parts, f"{float(time_us[0]):.1f}", f"{ideal_us:.1f}"])
    assert table("Phase | Launch") == expected
    assert kernels_of(work) == ["mma/16"]
    text = section("7. Expected attention")
    assert f"/ {RESIDENT['mma']})³" in text
    assert f"below {ATTENTION_FLOOR} floors, below {MID_RATIO:g}, above" in text
    assert f"{' × '.join(str(len(axis)) for axis in GRIDS['decode'].axes)} knots for each width" in " ".join(
        text.split()
    )
    assert GRIDS["prefill"] == GRIDS["decode"]
    rules = AttentionChip.of(get_hardware("a100")).rules, chip.rules
    assert {rule.tile_rows_count for rule in rules} == {64}
    assert [rule.tile_columns_count for rule in rules] == [32, 256]
    launch, split = float(second[1]["launch"][0]), float(second[1]["split"][0])
    assert (round(4 * launch / second[0][0]), round(5 * split / second[0][0])) == (1, 1)  # "a quarter", "a fifth"


def test_the_gap_example() -> None:
    products_table, i = products(), ROWS.index(2048)
    ideal = predict(gemm(2048, 4096, 4096, a="BF16"), H100)
    gap = explain_gap(
        measured_s=92e-6,
        ideal_memory_s=ideal.memory_time_s,
        ideal_compute_s=ideal.compute_time_s,
        expected_s=float(products_table.time_s[i]),
        terms_s={name: float(part[i]) for name, part in products_table.parts.items()},
        clock_ratio=0.97,
    )
    assert math.fsum(seconds for _, seconds in gap.parts) == pytest.approx(92e-6)
    assert table("Part | µs") == [[name, f"{seconds * 1e6:.2f}"] for name, seconds in gap.parts]
    assert [row[0] for row in table("Part | Time after this step")] == list(PARTS)


def test_the_ranking_by_expected_times() -> None:
    text = section("1. Four answers")
    ideal = recommend_quantization(H100, 1, 4096, 4096)
    expected = recommend_quantization(H100, 1, 4096, 4096, times=expected_times(H100))
    assert (ideal.precision, expected.precision) == ("INT4", "FP8_E4M3")
    assert f"the ideals put INT4 weights first with {ideal.speedup:.1f} times FP16" in text
    assert f"expected, FP8 on both sides comes first with {expected.speedup:.1f}" in text


def test_two_blocks_on_an_sm() -> None:
    tiling = gemm_tiling(gemm(512, 4096, 4096, a="BF16", b="INT4"), get_hardware("gb10"))
    assert tiling is not None
    slots = tiling.sm_count * tiling.occupancy.block_count
    assert (
        f"{tiling.block_count} blocks on {tiling.sm_count} SMs, two at a time, are {tiling.resident_wave_count} rounds "
        f"of {slots}, "
        f"and still one SM has {tiling.wave_count} blocks while the average is {tiling.blocks_per_sm_ratio:.2f}: "
        f"tail {100 * tiling.tail_ratio:.0f} %, not "
        f"{100 * (1 - tiling.block_count / (tiling.resident_wave_count * slots)):.0f}"
    ) in section("3. Tiles")
