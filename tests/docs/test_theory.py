"""docs/theory_math.md: the figures are computed again and looked up in the text."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from roofline_model import (
    OpCost,
    gemm,
    gemv,
    get_format,
    get_hardware,
    predict,
    predict_gemm,
    predict_gemv,
    recommend_quantization,
)  # fmt: skip
from roofline_model.operators import GEMV_MAX_ROWS
from roofline_model.roofline import MODEL_VERSION

PAGE = Path(__file__).resolve().parents[2] / "docs" / "theory_math.md"
SHAPE = (4096, 4096)
GB10 = get_hardware("gb10")


@cache
def lines() -> list[str]:
    return PAGE.read_text(encoding="utf-8").splitlines()


def section(title: str) -> str:
    """Return the text under a heading whose title starts so, up to the next heading; line breaks become spaces."""
    found = [i for i, line in enumerate(lines()) if re.match(rf"#+ {re.escape(title)}", line)]
    assert len(found) == 1, f"{len(found)} headings start with {title!r}"
    rest = lines()[found[0] + 1 :]
    end = next((i for i, line in enumerate(rest) if re.match("#+ ", line)), len(rest))
    return re.sub(r"\s+", " ", "\n".join(rest[:end]))


def table(first_header: str) -> list[list[str]]:
    """Return the rows of the only table whose header line starts so."""
    found = [i for i, line in enumerate(lines()) if line.startswith(f"| {first_header} |")]
    assert len(found) == 1, f"{len(found)} tables start with {first_header!r}"
    rows = []
    for line in lines()[found[0] + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


# --- the formulas and the worked examples


def test_the_gb10_table() -> None:
    baseline = predict_gemv("gb10", 4096, 4096, "BF16")
    expected = []
    for weight, activation in (("BF16", "BF16"), ("FP8_E4M3", "FP8_E4M3"), ("NVFP4", "NVFP4"), ("INT4", "BF16")):
        found = predict_gemv("gb10", 4096, 4096, activation, weight_precision=weight)
        expected.append(
            [weight, activation, f"{found.read_bytes + found.write_bytes:,.0f}", f"{found.time_s * 1e6:.2f}",
             f"{found.arithmetic_intensity:.2f}", f"{found.critical_ai:.0f}", f"{baseline.time_s / found.time_s:.2f}",
             found.bound, found.path]
        )  # fmt: skip
    assert table("Weight") == expected


def test_the_gb10_example_in_words() -> None:
    text = section("9. Worked example")
    found = predict_gemv("gb10", 4096, 4096, "BF16")
    moved = found.read_bytes + found.write_bytes
    grouped = predict_gemv("gb10", 4096, 4096, "BF16", weight_precision=get_format("INT4").grouped(128, zero_bits=16))
    plain = predict_gemv("gb10", 4096, 4096, "BF16", weight_precision="INT4")
    nvfp4 = predict_gemv("gb10", 4096, 4096, "NVFP4")
    for words in (
        f"FLOPs = 2 · 1 · 4096 · 4096 = {found.flops:,.0f}.",
        f"A is {4096 * 2:,} bytes, B {4096 * 4096 * 2:,}, C {4096 * 2:,}, in sum {moved:,.0f} bytes",
        f"memory_time = {moved:,.0f} / {found.bandwidth_bytes_per_s / 1e9:g}e9 = {found.memory_time_s * 1e6:.2f} µs",
        f"compute_time = {found.flops:,.0f} / {found.peak_flops_per_s / 1e12:g}e12 = {found.compute_time_s * 1e6:.2f} µs",
        f"- time = {found.time_s * 1e6:.2f} µs, memory-bound; intensity {found.arithmetic_intensity:.2f} against a ridge of {found.critical_ai:.0f}",
        f"becomes {grouped.read_bytes + grouped.write_bytes:,.0f} bytes and {grouped.time_s * 1e6:.2f} µs",
        f"{100 * (1 - grouped.time_s / nvfp4.time_s):.0f} % less time than NVFP4, not {100 * (1 - plain.time_s / nvfp4.time_s):.0f} %",
        f"BF16 takes {predict_gemm('gb10', 2048, 4096, 4096, 'BF16').time_s * 1e6:.1f} µs",
        f"FP8 {predict_gemm('gb10', 2048, 4096, 4096, 'FP8').time_s * 1e6:.1f} µs",
        f"NVFP4 {predict_gemm('gb10', 2048, 4096, 4096, 'NVFP4').time_s * 1e6:.1f} µs",
        f"activations take {predict_gemm('gb10', 2048, 4096, 4096, 'BF16', weight_precision='INT4').time_s * 1e6:.1f} µs",
    ):
        assert words in text


def test_the_placeholder_table() -> None:
    baseline = predict_gemv("b10", 4096, 4096), predict_gemm("b10", 2048, 4096, 4096)
    expected = []
    for key in ("FP16", "FP8_E4M3", "INT8", "NVFP4", "INT4"):
        decode, prefill = predict_gemv("b10", 4096, 4096, key), predict_gemm("b10", 2048, 4096, 4096, key)
        same = predict_gemm("b10", 2048, 4096, 4096, key, output_precision=key)
        assert (decode.bound, prefill.bound) == ("memory", "compute")
        expected.append(
            [key, f"{decode.time_s * 1e6:.2f}", f"{decode.arithmetic_intensity:.2f}", f"{baseline[0].time_s / decode.time_s:.1f}",
             f"{prefill.time_s * 1e6:.1f}", f"{prefill.arithmetic_intensity:.0f}", f"{same.arithmetic_intensity:.0f}",
             f"{baseline[1].time_s / prefill.time_s:.1f}"]
        )  # fmt: skip
    assert table("Format") == expected
    rates = "; FP16 {:g}, FP8 and INT8 {:g}, INT4 and NVFP4 {:g} TFLOP/s."
    text = section("10. Worked example")
    assert f"{get_hardware('b10').bandwidth.value / 1e9:g} GB/s" + rates.format(*(get_hardware("b10").peak_flops_per_s(key) / 1e12 for key in ("FP16", "FP8", "NVFP4"))) in text  # fmt: skip
    square = gemm(4096, 4096, 4096, a="FP16").cost.intensity_flop_per_byte
    assert f"4096×4096×4096 in FP16 has an intensity of {square:.0f}" in text


def test_the_ridge_table() -> None:
    expected = []
    for name in ("gb10", "h100-sxm", "b200", "a100-sxm-80gb", "b10"):
        chip = get_hardware(name)
        shown = f"{name} (placeholder)" if chip.is_placeholder else name
        peak = chip.peak_flops_per_s("BF16")
        expected.append(
            [shown, f"{peak / 1e12:g}", f"{chip.bandwidth.value / 1e9:g}", f"{peak / chip.bandwidth.value:.0f}"]
        )
    assert table("Chip") == expected


def test_the_warm_examples() -> None:
    text = section("6. Cold and warm")
    fits = gemv(2048, 2048, a="FP16")
    cold, warm = predict(fits, "a100"), predict(fits, "a100", cache="warm")
    assert (cold.memory_level, warm.memory_level) == ("DRAM", "L2")
    assert f"cold is {cold.time_s * 1e6:.2f} µs and warm {warm.time_s * 1e6:.2f} µs" in " ".join(text.split())
    assert f"({fits.cost.total_bytes / 1e6:.1f} MB, L2 40 MiB at 5400 GB/s)" in text
    tight = gemv(4096, 4096, a="FP16")
    partly = predict(tight, "a100", cache="warm")
    assert (partly.memory_level, partly.time_s) == ("DRAM", predict(tight, "a100").time_s)
    assert f"({tight.cost.total_bytes / 1e6:.1f} MB, 80 % of that L2) both are {partly.time_s * 1e6:.2f} µs" in text
    small = gemv(4096, 4096, a="FP8")
    unknown = predict(small, GB10, cache="warm")
    assert unknown.time_s == predict(small, GB10).time_s
    assert "not known" in unknown.notes[0]
    assert f"({small.cost.total_bytes / 1e6:.1f} MB, L2 24 MiB) both are {unknown.time_s * 1e6:.2f} µs" in text


def test_the_rules_in_words() -> None:
    peak = section("4. The peak")
    assert f"48 × 1024 × 2.418 GHz = {48 * 1024 * 2.418e9 / 1e12:.1f} TFLOP/s" in peak
    assert f"{GB10.peak_flops_per_s('BF16') / 1e12:.1f}" == f"{48 * 1024 * 2.418e9 / 1e12:.1f}"
    assert GB10.path("INT4").kind == "emulated"
    assert GB10.path("INT4").compute_format == "INT8"
    both = OpCost(flops={"BF16": 1e12, "FP8_E4M3": 1e12})  # FLOPs in several formats: the times are added
    each = sum(1e12 / GB10.peak_flops_per_s(key) for key in ("BF16", "FP8_E4M3"))
    assert predict(both, GB10).compute_time_s == pytest.approx(each)
    sizes = section("3. Bytes")
    assert f"4 + 8/32 = {get_format('MXFP4').nominal_bits} bits" in sizes
    assert f"4 + 32/128 = {get_format('INT4').grouped(128, zero_bits=16).nominal_bits} bits" in sizes
    tf32, nvfp4 = get_format("TF32"), get_format("NVFP4")
    assert f"(TF32 {tf32.nominal_bits:g}, NVFP4 {nvfp4.nominal_bits})" in sizes
    assert f"(TF32 {tf32.traffic_bytes_per_element:g} bytes)" in sizes
    assert f"M ≤ {GEMV_MAX_ROWS} is called GEMV" in section("2. FLOPs")
    assert f"`{MODEL_VERSION}`" in section("The roofline, as")
    left_out = section("8. What")
    achieved = GB10.bandwidth_achieved
    assert achieved is not None
    slower = f"still takes {100 * (GB10.bandwidth.value / achieved.value - 1):.0f} % longer"
    assert f"{achieved.value / 1e9:g} of {GB10.bandwidth.value / 1e9:g} GB/s" in left_out
    assert slower in left_out


# --- "Where the original documents differ": Llama-3 8B and Llama-2 70B by plain arithmetic

H, LAYERS, HEADS, KV_HEADS, D_HEAD, D_FF, VOCABULARY = 4096, 32, 32, 8, 128, 14336, 128_256
BANDWIDTH = GB10.bandwidth.value
FP16, FP8, NVFP4, INT4 = (get_format(name).bytes_per_element for name in ("FP16", "FP8", "NVFP4", "INT4"))


def layer_weights(h: int, heads: int, kv_heads: int, d_head: int, d_ff: int) -> int:
    return 2 * h * heads * d_head + 2 * h * kv_heads * d_head + 3 * h * d_ff


def crossover(weight_bytes: float, kv_bytes: float, *, big: bool = False, as_printed: bool = False) -> float:
    """Tokens at which one step reads as many bytes of KV cache as of weights, at batch 1."""
    h, layers, heads, d_ff, vocabulary = (8192, 80, 64, 28672, 32_000) if big else (H, LAYERS, HEADS, D_FF, VOCABULARY)
    weights = layer_weights(h, heads, KV_HEADS, D_HEAD, d_ff)
    if as_printed:
        weights = 4 * h * h + 2 * h * KV_HEADS * D_HEAD + 3 * h * d_ff
    return (layers * weights + h * vocabulary) * weight_bytes / (layers * 2 * KV_HEADS * D_HEAD * kv_bytes)


def kv_cache_bytes(tokens: int, kv_bytes: float) -> float:
    return LAYERS * 2 * KV_HEADS * tokens * D_HEAD * kv_bytes


IN_LAYERS = LAYERS * layer_weights(H, HEADS, KV_HEADS, D_HEAD, D_FF)
EMBEDDING = H * VOCABULARY
READ_PER_TOKEN = IN_LAYERS + EMBEDDING  # the head is read whole, the embedding table one row


def step_ms(tokens: int, weight_bytes: float, kv_bytes: float) -> float:
    return (READ_PER_TOKEN * weight_bytes + kv_cache_bytes(tokens, kv_bytes)) / BANDWIDTH * 1e3


def qk_intensity(kv_heads: int, tokens: int = 4096) -> float:
    moved = (HEADS * tokens * D_HEAD + kv_heads * tokens * D_HEAD + HEADS * tokens * tokens) * FP16
    return 2 * HEADS * tokens * tokens * D_HEAD / moved


def tflops(name: str, key: str) -> str:
    return f"{get_hardware(name).peak_flops_per_s(key) / 1e12:g}"


def ridge(name: str) -> str:
    return f"{get_hardware(name).critical_intensity('FP16'):.0f}"


def thousands(value: float) -> str:
    return f"{value:,.0f}"


GEMV_FLOPS = 2 * 4096 * 4096
ATTENTION_FLOPS = 4 * HEADS * 4096 * 4096 * D_HEAD
PRINTED_US = (34.0, 17.0, 9.5)
SCORES_BYTES = HEADS * 4096 * 4096 * FP16
TILES_BYTES = HEADS * 4096 * D_HEAD * 128 * FP16
Q_AND_O_BYTES = 2 * HEADS * 4096 * D_HEAD * FP16

# A part of the first cell, then what the second cell has to say.
DIFFERENCES = [
    ("H100 has 1979", [tflops("h100", "FP16"), tflops("b200", "FP16"), ridge("h100"), ridge("b200"), "295", "281"]),
    ("GB10: NVFP4 1000", [tflops("gb10", key) for key in ("NVFP4", "FP8", "INT8", "FP16")] + ["273.06", "232"]),
    ("4H² + 2H·d_kv", [f"{IN_LAYERS / 1e9:.3f} G", f"{EMBEDDING / 1e9:.3f} G", f"{(IN_LAYERS + 2 * EMBEDDING) / 1e9:.2f} G", "8.03 G",
                       f"{LAYERS * (4 * H * H + 2 * H * KV_HEADS * D_HEAD + 3 * H * D_FF) / 1e9:.3f} G"]),
    ("8·B·H²", [thousands(2 * (2 * H * HEADS * D_HEAD + 2 * H * KV_HEADS * D_HEAD)), thousands(8 * H * H)]),
    ("about 1600 tokens", [thousands(crossover(FP16, FP16)), "114,512", thousands(crossover(FP16, FP16, big=True)),
                           thousands(crossover(FP16, FP16, as_printed=True)), thousands(crossover(FP16, FP16, big=True, as_printed=True))]),
    ("QKᵀ in prefill", [f"{qk_intensity(HEADS):.1f}", f"{qk_intensity(KV_HEADS):.1f}", f"{2 * D_HEAD / FP16:.0f} at most", ridge("gb10")]),
    ("0.494, 0.988", ["0.987, 1.97 and 3.53", *(f"{GEMV_FLOPS / (us * 1e6):.3g}" for us in PRINTED_US),
                      f"{(GEMV_FLOPS + 16384) / 34e-6 / 1e9:.0f} GB/s",
                      *(f"{predict_gemv('b10', 4096, 4096, key).predicted_tflops:.2f}" for key in ("FP16", "FP8"))]),
    ("Elementwise", [", ".join(f"{ops / (tensors * FP16):.3g}" for ops, tensors in ((5, 2), (5, 2), (1, 3), (6, 2))).replace("0.167", "0.17")]),
    ("The crossover comes later", [thousands(crossover(FP8, FP8)), thousands(crossover(FP8, NVFP4)), "202,173",
                                   thousands(crossover(FP8, NVFP4, big=True))]),
    ("128 tiles", [f"{TILES_BYTES / 2**30:.0f} GiB at 2 bytes", f"{Q_AND_O_BYTES / 2**20:.0f} MiB is Q and O", f"{SCORES_BYTES / 2**30:.0f} GiB (32 heads"]),
    ("30 % sparsity", [f"{100 * 820 / 1175:.0f} % of the 1175"]),
    ("1175 MB", [f"{kv_cache_bytes(32768, NVFP4) / 2**20:.0f} MiB", "1160", f"FP16 {kv_cache_bytes(32768, FP16) / 2**20:.0f} MiB",
                 f"FP8 {kv_cache_bytes(32768, FP8) / 2**20:.0f} MiB"]),
    ("91.6, 52.3", [f"{step_ms(32768, FP16, FP16):.1f} ms", f"{step_ms(4096, FP8, FP8):.1f} ms", f"{step_ms(4096, INT4, FP16):.1f} ms"]),
    ("FlashAttention has intensity", [f"{gemm(8, 4096, 4096).cost.intensity_flop_per_byte:.1f} at M = 8"]
     + [f"{gemm(m, 4096, 4096).cost.intensity_flop_per_byte:.0f} at M = {m}" for m in (128, 2048)]),
    ("FA3 or FA4 is chosen", ["wgmma", "tcgen05", "b10"]),
    ("`fp8_balanced`", [recommend_quantization("b10", 2048, 4096, 4096).precision, f"{recommend_quantization('b10', 2048, 4096, 4096).speedup:.1f} times"]),
    ("is AWQ", ["round to nearest"]),
    ("always memory-bound", ["exp"]),
    ("FA1 33.8", [f"{ATTENTION_FLOPS / 1e9:.0f} GFLOP", f"{ATTENTION_FLOPS / 62e12 * 1e3:.2f} ms",
                  f"{ATTENTION_FLOPS / GB10.peak_flops_per_s('FP16') * 1e3:.2f} ms"]),
    ("mixture of depths", ["Block sparsity is an option"]),
    ("45.8 ms", [f"{READ_PER_TOKEN * FP16 / 1e9:.1f} GB of weights", f"{kv_cache_bytes(4096, FP16) / 1e9:.2f} GB of cache", f"{step_ms(4096, FP16, FP16):.1f} ms"]),
    ("torchao has no FP8", ["FP8, NVFP4 and MX"]),
    ("Quality loss", ["*claimed*"]),
    ("about 34 µs on GB10", [f"{predict_gemv('gb10', 4096, 4096).time_s * 1e6:.1f} µs"]),
    ("248 TFLOPS", [tflops("gb10", "INT4"), tflops("gb10", "BF16")]),
    ("INT8: H100 3958", [tflops("h100", "INT8"), tflops("b200", "INT8")]),
    ("intensity of about 4", [f"{predict_gemv('gb10', 4096, 4096, 'NVFP4').arithmetic_intensity:.2f}"]),
    ("6.6 % more storage", [f"{100 * (NVFP4 / get_format('MXFP4').bytes_per_element - 1):.1f} %",
                            f"{100 * (get_format('NVFP4').storage_bytes(SHAPE) / get_format('MXFP4').storage_bytes(SHAPE) - 1):.1f} %"]),
]  # fmt: skip


@cache
def differences() -> list[list[str]]:
    start = next(i for i, line in enumerate(lines()) if line.startswith("## 11. Where the original"))
    rows = [line for line in lines()[start:] if line.startswith("| ") and not line.startswith("| ---")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows if "The documents say" not in row]


@pytest.mark.parametrize(("claim", "figures"), DIFFERENCES, ids=[claim for claim, _ in DIFFERENCES])
def test_what_holds_instead(claim: str, figures: list[str]) -> None:
    found = [row for row in differences() if claim in row[0]]
    assert len(found) == 1
    assert not [figure for figure in figures if not re.search(rf"(?<![\d.,]){re.escape(figure)}(?![\d]|\.\d)", found[0][1])], found[0][1]  # fmt: skip
    assert len(found[0]) == 3
    assert found[0][2]


def test_the_models_of_the_differences_are_those_computed_here() -> None:
    text = section("11. Where the original")
    shape = f"n_kv = {KV_HEADS}, d_h = {D_HEAD}, d_ff = "
    assert (
        f"Llama-3 8B has H = {H}, {LAYERS} layers, n_h = {HEADS}, {shape}{D_FF}, a vocabulary of {VOCABULARY:,}" in text
    )
    assert f"Llama-2 70B has H = 8192, 80 layers, n_h = 64, {shape}28672, a vocabulary of 32,000" in text
    assert f"GB10's {BANDWIDTH / 1e9:g} GB/s" in text


def test_every_row_is_checked() -> None:
    assert len(differences()) == len(DIFFERENCES)
    impossible = step_ms(4096, FP8, FP8), step_ms(4096, INT4, FP16)
    assert impossible[0] > 23.7
    assert impossible[1] > 15.2
