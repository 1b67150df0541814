"""docs/theory/math.md: the figures are computed again and looked up in the text."""

from __future__ import annotations

import pytest
from theory_pages import Page

from roofline_model import (
    OpCost,
    create_custom_asic,
    gemm,
    gemv,
    get_format,
    get_hardware,
    predict,
    predict_gemm,
    predict_gemv,
)
from roofline_model.ideal.operator_sequence import predict_operator, predict_sequence
from roofline_model.ideal.roofline import MODEL_VERSION
from roofline_model.models.hf.parameters import kv_elements, parameter_counts, read_weight_count
from roofline_model.models.llm import GRAPH_GAP_S, HOST_LAUNCH_S, STREAM_GAP_S, kv_crossover_tokens, predict_model
from roofline_model.models.model_registry import get_model
from roofline_model.models.tensor_parallel import Parallel, all_reduce_count
from roofline_model.operators.attention import PAGE_NUMBER_BYTES
from roofline_model.operators.attention_shape import pages_read
from roofline_model.operators.elementwise import gelu, residual_add, residual_rmsnorm, rmsnorm, rope, silu_mul, softmax
from roofline_model.operators.kv_cache import SLOT_NUMBER_BYTES, kv_cache_bytes
from roofline_model.operators.layers import ffn_parts, projections
from roofline_model.operators.product import GEMV_MAX_ROWS
from roofline_model.operators.quantize import dequantize, quantize

GB10 = get_hardware("gb10")
PAGE = Page("theory/math.md")
section, table = PAGE.section, PAGE.table


# --- the formulas and the worked examples


def test_the_gb10_table() -> None:
    baseline = predict_gemv("gb10", 4096, 4096, "BF16")
    expected = []
    for weight, activation in (("BF16", "BF16"), ("FP8_E4M3", "FP8_E4M3"), ("NVFP4", "NVFP4"), ("INT4", "BF16")):
        prediction = predict_gemv("gb10", 4096, 4096, activation, weight_precision=weight)
        expected.append(
            [
                weight,
                activation,
                f"{prediction.read_bytes + prediction.write_bytes:,.0f}",
                f"{prediction.time_s * 1e6:.2f}",
                f"{prediction.arithmetic_intensity:.2f}",
                f"{prediction.critical_ai:.0f}",
                f"{baseline.time_s / prediction.time_s:.2f}",
                prediction.bound,
                prediction.path,
            ]
        )
    assert table("Weight") == expected


def test_the_gb10_example_in_words() -> None:
    text = section("9. Worked example")
    prediction = predict_gemv("gb10", 4096, 4096, "BF16")
    moved = prediction.read_bytes + prediction.write_bytes
    grouped = predict_gemv("gb10", 4096, 4096, "BF16", weight_precision=get_format("INT4").grouped(128, zero_bits=16))
    plain = predict_gemv("gb10", 4096, 4096, "BF16", weight_precision="INT4")
    nvfp4 = predict_gemv("gb10", 4096, 4096, "NVFP4")
    for words in (
        f"FLOPs = 2 · 1 · 4096 · 4096 = {prediction.flops:,.0f}.",
        f"A is {4096 * 2:,} bytes, B {4096 * 4096 * 2:,}, C {4096 * 2:,}, in sum {moved:,.0f} bytes",
        f"memory_time = {moved:,.0f} / {prediction.bandwidth_bytes_per_s / 1e9:g}e9 = {prediction.memory_time_s * 1e6:.2f} µs",
        (
            f"compute_time = {prediction.flops:,.0f} / {prediction.peak_flops_per_s / 1e12:g}e12 = {prediction.compute_time_s * 1e6:.2f} "
            "µs"
        ),
        (
            f"- time = {prediction.time_s * 1e6:.2f} µs, memory-bound; intensity {prediction.arithmetic_intensity:.2f} against a "
            f"ridge of {prediction.critical_ai:.0f}"
        ),
        f"becomes {grouped.read_bytes + grouped.write_bytes:,.0f} bytes and {grouped.time_s * 1e6:.2f} µs",
        (
            f"{100 * (1 - grouped.time_s / nvfp4.time_s):.0f} % less time than NVFP4, not "
            f"{100 * (1 - plain.time_s / nvfp4.time_s):.0f} %"
        ),
        f"BF16 takes {predict_gemm('gb10', 2048, 4096, 4096, 'BF16').time_s * 1e6:.1f} µs",
        f"FP8 {predict_gemm('gb10', 2048, 4096, 4096, 'FP8').time_s * 1e6:.1f} µs",
        f"NVFP4 {predict_gemm('gb10', 2048, 4096, 4096, 'NVFP4').time_s * 1e6:.1f} µs",
        (
            f"activations take {predict_gemm('gb10', 2048, 4096, 4096, 'BF16', weight_precision='INT4').time_s * 1e6:.1f} "
            "µs"
        ),
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
            [
                key,
                f"{decode.time_s * 1e6:.2f}",
                f"{decode.arithmetic_intensity:.2f}",
                f"{baseline[0].time_s / decode.time_s:.1f}",
                f"{prefill.time_s * 1e6:.1f}",
                f"{prefill.arithmetic_intensity:.0f}",
                f"{same.arithmetic_intensity:.0f}",
                f"{baseline[1].time_s / prefill.time_s:.1f}",
            ]
        )
    assert table("Format") == expected
    rates = "; FP16 {:g}, FP8 and INT8 {:g}, INT4 and NVFP4 {:g} TFLOP/s."
    text = section("10. Worked example")
    assert (
        f"{get_hardware('b10').bandwidth.value / 1e9:g} GB/s"
        + rates.format(*(get_hardware("b10").peak_flops_per_s(key) / 1e12 for key in ("FP16", "FP8", "NVFP4")))
        in text
    )
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
    assert unknown.findings[0].code == "cache-bandwidth-unknown"
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


# --- the other operators, and whole models

LLAMA = parameter_counts(get_model("llama-3-8b"))
H, HEADS, KV_HEADS, D_HEAD, D_FF = 4096, 32, 8, 128, 14336


def test_the_table_of_elementwise_operators() -> None:
    expected, intensities = [], []
    for operator in (softmax, rmsnorm, residual_add, residual_rmsnorm, rope, silu_mul, gelu):
        work = operator(2048, 4096, a="FP16")
        elements = 2048 * 4096
        reads, writes = len(work.cost.read_bytes), len(work.cost.write_bytes)
        assert work.cost.total_bytes == (reads + writes) * elements * 2
        prediction = predict_operator(work, GB10)
        assert prediction.bound == "memory"
        intensities.append(work.cost.intensity_flop_per_byte)
        expected.append(
            [
                work.op,
                f"{work.cost.total_flops / elements:g}",
                str(reads),
                str(writes),
                f"{intensities[-1]:.2f}",
                f"{prediction.time_s * 1e6:.1f}",
            ]
        )
    assert table("Operator") == expected
    text = section("11. Elementwise")
    vector_ridge = predict_operator(softmax(2048, 4096), GB10).critical_intensity_flop_per_byte
    assert f"GB10's FP32 ridge is {vector_ridge:.0f}" in text
    assert f"by a factor of {int(vector_ridge / max(intensities))} and more" in text
    fused, parts = residual_rmsnorm(8, 8), (residual_add(8, 8), rmsnorm(8, 8))
    tensors = [
        sum(len(operator.cost.read_bytes) + len(operator.cost.write_bytes) for operator in group)
        for group in ((fused,), parts)
    ]
    assert f"moves {tensors[0]} tensors; apart they move {tensors[1]}" in text
    custom = create_custom_asic("no FP32", 500, {"FP16": 50.0})
    assert predict_operator(softmax(8, 8), custom).findings[0].value("kind") == "elementwise"


def test_the_casts() -> None:
    text, rows = section("12. Casts"), table("Scale")
    assert [row[0].split(":")[0] for row in rows] == ["static", "row", "tensor", "block", "block under a tensor scale"]
    cases = [("FP8", "static"), ("FP8", "row"), ("FP8", "tensor"), ("MXFP4", None), ("NVFP4", None)]
    for row, (target, scale) in zip(rows, cases, strict=True):
        cost = quantize(2048, 4096, "BF16", target, scale=scale).cost
        elements = 2048 * 4096
        assert [f"{cost.total_read_bytes / (2 * elements):g}", f"{cost.total_flops / elements:g}"] == row[1:3]
        beside = dict(cost.write_bytes).get("scales", 0)
        assert row[3].startswith({0: ("–", "the format"), 8192: "4 bytes per row", 4: "4 bytes"}[beside])
    fp8, nvfp4 = quantize(2048, 4096, "BF16", "FP8"), quantize(2048, 4096, "BF16", "NVFP4")
    written = dict(fp8.cost.write_bytes)
    cast_s = predict_operator(fp8, GB10).time_s
    product_s = predict_gemm("gb10", 2048, 4096, 4096, "FP8").time_s
    for words in (
        (
            f"{fp8.cost.total_read_bytes:,.0f} bytes read, {written['Y']:,.0f} + {written['scales']:,} written, "
            f"{cast_s * 1e6:.1f} µs on GB10"
        ),
        (
            f"To NVFP4: {nvfp4.cost.total_read_bytes:,.0f} read, {nvfp4.cost.total_write_bytes:,.0f} written, "
            f"{predict_operator(nvfp4, GB10).time_s * 1e6:.1f} µs"
        ),
        f"takes {product_s * 1e6:.1f} µs, so the cast adds {100 * cast_s / product_s:.0f} %",
    ):
        assert words in text
    assert dequantize(4, 8, "FP8").cost.total_flops == 4 * 8


def test_the_products_of_a_layer() -> None:
    attention_parts, block = projections(1, H, HEADS, KV_HEADS, D_HEAD), ffn_parts(1, H, D_FF)
    named = {"H": H, "n_h·d_h": HEADS * D_HEAD, "n_kv·d_h": KV_HEADS * D_HEAD, "d_ff": D_FF, "T": 1}
    works = {**attention_parts, **{name: work for name, work in block.items() if name.endswith("_proj")}}
    rows = table("Product")
    assert [row[0] for row in rows] == list(works)
    for row, work in zip(rows, works.values(), strict=True):
        assert tuple(named[size] for size in row[1:4]) == tuple(size for _, size in work.shape)
        assert row[4] == f"{work.cost.total_flops:,.0f}"
    text = section("13. The products")
    gated = sum(work.cost.total_flops for name, work in block.items() if name != "silu_mul")
    assert f"are {sum(work.cost.total_flops for work in attention_parts.values()):,.0f} FLOPs per token" in text
    assert f"block {gated:,.0f}." in text
    times = [
        predict_sequence(ffn_parts(rows, H, D_FF, fused=fused), GB10).time_s * 1e3
        for rows in (2048, 1)
        for fused in (True, False)
    ]
    assert f"takes {times[0]:.2f} ms fused and {times[1]:.2f} ms as four kernels" in text
    assert f"{times[2]:.2f}" == f"{times[3]:.2f}"
    assert f"at T = 1 both take {times[2]:.2f} ms" in text


def test_the_cache() -> None:
    text = section("14. The key")
    per_token = kv_cache_bytes(1, 8, 1, 128, kv="FP16", layers=32)
    latent = kv_cache_bytes(1, 1, 1, 576, layers=61, shared_kv=True)
    deepseek = get_model("deepseek-v3")
    assert deepseek.layer_count * deepseek.cached_elements_per_token * 2 == latent
    pages = kv_cache_bytes(1, 8, 1000, 128, kv="FP16", page_tokens=16)
    for words in (
        f"32 · 8 · 2 · 128 · 2 = {per_token:,.0f} bytes per token, {per_token * 32768 / 2**30:g} GiB at 32,768",
        f"61 · (512 + 64) · 2 = {latent:,.0f} bytes",
        f"16 occupy {pages_read(1000, 1000, 16)} pages, so {16 * pages_read(1000, 1000, 16):,} rows",
        (
            f"one layer takes {pages:,.0f} bytes in FP16 with its table, in one piece "
            f"{kv_cache_bytes(1, 8, 1000, 128, kv='FP16'):,.0f}"
        ),
        f"adds {SLOT_NUMBER_BYTES} bytes per token for its slot",
        f"a table of {PAGE_NUMBER_BYTES} bytes per page",
    ):
        assert words in text


def test_the_formulas_of_whole_models() -> None:
    text = section("15. Kernels in sequence")
    shape = get_model("llama-3-8b")
    in_layers = LLAMA.attention_count + LLAMA.ffn_count
    read = read_weight_count(shape)
    assert read == in_layers + LLAMA.head_count
    step = predict_model("gb10", "llama-3-8b", context=4096, formats="FP16")
    small = predict_model("b200", "llama-3.2-1b", context=4096, formats="FP16")
    parallel = Parallel(2, 450e9)
    joined = predict_model("h100", "llama-3.1-70b", context=4096, formats="BF16", parallel=parallel)
    sent = joined.model.hidden_size * 2
    int4, plain = (
        predict_model(
            "gb10",
            "llama-3-8b",
            context=4096,
            formats="INT4.FP16",
            kv="FP16",
            exceptions=["lm_head=INT4", "embedding=INT4"],
            has_group_scales=has_group_scales,
        )
        for has_group_scales in (True, False)
    )
    for words in (
        f"{in_layers // 32:,} per layer, {in_layers:,} in 32 layers",
        (
            f"V·H = {LLAMA.head_count:,} each; with {LLAMA.small_count:,} norm weights the model has {LLAMA.total_count:,} "
            "parameters"
        ),
        f"w = {read:,} elements",
        f"e = {kv_elements(shape, 1):,}",
        f"S* = {read:,} / {kv_elements(shape, 1):,} = {kv_crossover_tokens(shape, 'FP16'):,.0f} tokens at B = 1",
        f"{kv_crossover_tokens(shape, 'FP16', batch=8):,.0f} at B = 8",
        f"n · {GRAPH_GAP_S * 1e6:g} µs",
        f"max(time + n · {STREAM_GAP_S * 1e6:g} µs, n · {HOST_LAUNCH_S * 1e6:g} µs)",
        (
            f"has {step.launch_count} kernels per decode step: on GB10 {step.time_s * 1e3:.2f} ms become "
            f"{step.graph_time_s * 1e3:.2f} and {step.stream_time_s * 1e3:.2f}"
        ),
        (
            f"has {small.launch_count}: on a B200 {small.time_s * 1e3:.2f} ms become {small.graph_time_s * 1e3:.2f} in a "
            f"graph and {small.stream_time_s * 1e3:.2f} without"
        ),
        f"{all_reduce_count(joined.model)} times {sent:,} bytes over 450 GB/s, {joined.all_reduce_s * 1e6:.1f} µs",
        f"({parallel.all_reduce_latency_s * 1e6:g} µs: two H100",
        f"NCCL issue 1259), {joined.expected_all_reduce_s * 1e6:.0f} µs in all here",
        (
            f"{100 * 2 * read / step.moved_bytes:.1f} % of the bytes are weights, "
            f"{100 * step.memory.kv_bytes / step.moved_bytes:.1f} % the cache"
        ),
        f"{step.flops / 1e9:.1f} GFLOP in that time are {step.flops / step.time_s / 1e12:.1f} TFLOP/s of 118.8",
        f"takes {int4.time_s * 1e3:.2f} ms; {plain.time_s * 1e3:.2f} ms",
    ):
        assert words in text
    assert small.stream_time_s == small.launch_count * HOST_LAUNCH_S  # the host sets the pace


def test_the_worked_example_of_a_step() -> None:
    step = predict_model("gb10", "llama-3-8b", context=4096, formats="FP16")
    expected = [
        [
            kernel.kernel.name,
            str(kernel.kernel.calls_count),
            f"{kernel.moved_bytes:,.0f}",
            f"{kernel.time_s * 1e3:.2f}",
            kernel.prediction.bound,
        ]
        for kernel in step.kernels
    ]
    expected.append(["all", str(step.launch_count), f"{step.moved_bytes:,.0f}", f"{step.time_s * 1e3:.2f}", step.bound])
    assert table("Kernel") == expected
