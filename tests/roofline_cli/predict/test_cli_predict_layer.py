"""`roofline predict attention` and `roofline predict ffn`: tables, JSON, widths of the screen, bad input."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from roofline_cli.main import app
from roofline_model.core.finding import finding
from roofline_model.expected.predict import predict_expected
from roofline_model.ideal.operator_sequence import predict_sequence
from roofline_model.ideal.roofline import predict
from roofline_model.operators.attention import attention
from roofline_model.operators.layers import ffn_parts

runner = CliRunner()
DECODE = [
    "predict",
    "attention",
    "--heads",
    "32",
    "--kv-heads",
    "8",
    "--head-dim",
    "128",
    "--kv-len",
    "4096",
    "--hw",
    "b10",
]
BLOCK = ["predict", "ffn", "--hidden", "4096", "--ffn-dim", "14336", "--hw", "b10"]


@pytest.fixture(autouse=True)
def _plain(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)


def invoke(*arguments: str) -> str:
    """Run a command to its end; `predict` with everything that it can show."""
    details = ["--all"] if arguments[0] == "predict" and "--json" not in arguments else []
    result = runner.invoke(app, [*arguments, *details])
    assert result.exit_code == 0, result.output
    return result.stdout


def read(*arguments: str) -> dict:
    return json.loads(invoke(*arguments, "--json"))


def details(text: str) -> str:
    """Return what `--all` adds to an answer."""
    return text.partition("\n\n")[2]


def test_decode_on_the_placeholder():
    text = invoke(*DECODE)
    assert "attention B=1 Hq=32 Hkv=8 Sq=1 Skv=4096 D=128, every key visible on b10" in text
    cells = next(line.split() for line in details(text).splitlines() if line.startswith("FP16 "))
    # 16,777,216 bytes of K and V and 16,384 of Q and O at 1000 GB/s
    assert cells[:5] == ["FP16", "16.78", "MB", "16.79", "µs"]
    assert cells[-3:] == ["1.0×", "memory", "native"]
    rows = read(*DECODE)["predictions"]
    assert all(
        row["expected"] is None and row["expected_reason"]["text"] in text for row in rows
    )  # a placeholder was never measured
    assert "Expected  " not in text
    assert "[1] FP8_E4M3 keys and values are widened to FP16 before the product" in text
    assert "placeholders, for examples only" in text


def test_attention_json_is_the_model():
    data = read(*DECODE, "--window", "1024", "--page-tokens", "16", "--batch", "3", "--formats", "NVFP4.FP16,FP8")
    first, second = data["predictions"]
    assert [first[letter] for letter in ("B", "Hq", "Hkv", "Sq", "Skv", "D")] == [3, 32, 8, 1, 4096, 128]
    assert (first["causal"], first["window"], first["page_tokens"], first["op"]) == (False, 1024, 16, "attention")
    work = attention(3, 32, 8, 1, 4096, 128, q="FP16", kv="NVFP4", window=1024, page_tokens=16)
    prediction = predict(work, "b10")
    assert first["format"] == "NVFP4.FP16"
    assert (first["kv_format"], first["activation_format"], first["output_format"]) == ("NVFP4", "FP16", "FP16")
    assert (first["time_s"], first["read_bytes"], first["bound"]) == (
        prediction.time_s,
        prediction.read_bytes,
        "memory",
    )
    assert first["kv_read_bytes"] == 3 * 8 * 1024 * 128 * 2 * 4.53125 / 8
    assert first["path"] == "dequantize"
    assert (second["format"], second["kv_format"], second["path"]) == ("FP8_E4M3", "FP8_E4M3", "native")
    assert first["unfused_time_s"] > first["time_s"]


@pytest.fixture
def unknown_nvfp4_caches(monkeypatch):
    """An expected model that knows nothing of NVFP4 caches, whatever the shipped constants cover."""
    from roofline_model.predictions import attention as module

    predict_expected, why = (
        module.predict_expected,
        finding("unsupported", reason="no expected attention with a NVFP4 cache here"),
    )

    def is_known(work) -> bool:
        return dict(work.formats).get("kv") != "NVFP4"

    monkeypatch.setattr(
        module,
        "predict_expected",
        lambda work, *rest, **more: predict_expected(work, *rest, **more) if is_known(work) else None,
    )
    monkeypatch.setattr(module, "why_no_expected", lambda work, *_, **__: None if is_known(work) else why)


@pytest.mark.usefixtures("unknown_nvfp4_caches")
@pytest.mark.parametrize("chip", ["h100", "gb10"])
def test_expected_times_stand_beside_the_ideal_ones(chip: str):
    command = [*DECODE, "--formats", "BF16,NVFP4.BF16", "--hw", chip]
    data = read(*command)
    modelled, unknown = data["predictions"]
    expected = modelled["expected"]
    assert modelled["time_s"] < expected["low_s"] < expected["time_s"] < expected["high_s"]
    assert sum(expected["parts_s"].values()) == pytest.approx(expected["time_s"])
    assert expected["provenance"]
    assert unknown["expected"] is None
    assert "NVFP4" in unknown["expected_reason"]["text"]
    text = invoke(*command)
    assert expected["provenance"] in text
    assert unknown["expected_reason"]["text"] in text
    assert {"Ideal", "Expected", "80"} <= set(
        next(line for line in text.splitlines() if line.startswith("Format")).split()
    )


def test_prefill_defaults_to_as_many_keys_as_queries_and_heads():
    data = read(
        "predict", "attention", "--heads", "32", "--head-dim", "128", "--q-len", "4096", "--causal", "--hw", "b10"
    )
    fp16 = data["predictions"][0]
    assert (fp16["Hkv"], fp16["Skv"], fp16["causal"]) == (32, 4096, True)
    assert fp16["flops"] == 4 * 32 * 128 * (4096 * 4097 // 2)
    assert fp16["time_s"] == pytest.approx(fp16["flops"] / 200e12)
    assert (fp16["bound"], fp16["speedup_ratio"]) == ("compute", 1)
    assert "causal, window of 8 keys, pages of 4 tokens" in invoke(
        "predict",
        "attention",
        "--heads",
        "2",
        "--head-dim",
        "8",
        "--q-len",
        "9",
        "--causal",
        "--hw",
        "b10",
        "--window",
        "8",
        "--page-tokens",
        "4",
    )


def test_ffn_on_the_placeholder():
    text = invoke(*BLOCK)
    assert "ffn (gated) of 1 token, 4096 to 14336 and back on b10" in text
    header, _, fp16, *_ = details(text).splitlines()
    assert header.split()[:6] == ["Format", "Ideal", "gate_proj", "up_proj", "silu_mul", "down_proj"]
    # weights 352,321,536 bytes, activations 196,608, at 1000 GB/s
    assert fp16.split()[:3] == ["FP16", "352.5", "µs"]
    assert "INT4 (W4A16)" in text
    first = read(*BLOCK)["predictions"][0]
    assert first["expected"] is None  # a placeholder was never measured
    assert first["expected_reason"]["subject"] == "gate_proj"
    assert f"gate_proj: {first['expected_reason']['text']}" in text
    assert {kernel["expected_s"] for kernel in first["kernels"]} == {None}


@pytest.mark.parametrize(
    ("chip", "options"),
    [
        ("h100", []),
        ("gb10", ["--fused"]),
        ("h100", ["--no-gate", "--fused", "--tokens", "512"]),
        ("gb10", ["--dynamic-activation-quantization"]),
    ],
)
def test_the_expected_time_of_a_block_is_the_sum_of_its_kernels(chip: str, options: list[str]):
    command = [*BLOCK, *options, "--formats", "BF16,FP8,INT4.BF16", "--hw", chip]
    for row in read(*command)["predictions"]:
        kernels, expected = row["kernels"], row["expected"]
        assert row["time_s"] < expected["time_s"]
        assert expected["low_s"] < expected["time_s"] < expected["high_s"]
        for end in ("time_s", "low_s", "high_s"):
            assert expected[end] == pytest.approx(sum(kernel["expected"][end] for kernel in kernels))
        assert list(expected["parts_s"]) == [kernel["name"] for kernel in kernels]
        assert all(kernel["time_s"] < kernel["expected_s"] for kernel in kernels)
        assert expected["binding"] in {kernel["expected"]["binding"] for kernel in kernels}
        assert expected["provenance"] in {kernel["expected"]["provenance"] for kernel in kernels}
    text = invoke(*command)
    assert expected["provenance"] in text
    assert all(finding["text"] in text for finding in expected["findings"])
    assert {"Ideal", "Expected"} <= set(next(line for line in text.splitlines() if line.startswith("Format")).split())


def test_a_kernel_without_a_model_leaves_the_block_without_an_expected_time(monkeypatch):
    """A part is no whole: the sum of what is left would look like a fast block."""
    from roofline_model.models import step_expected

    expected_call = step_expected.expected_call
    monkeypatch.setattr(
        step_expected,
        "expected_call",
        lambda work, device: None if dict(work.shape).get("K") == 14336 else expected_call(work, device),
    )
    command = [*BLOCK, "--formats", "BF16", "--hw", "h100"]
    [row] = read(*command)["predictions"]
    assert row["expected"] is None
    assert row["expected_reason"]["subject"] == "down_proj"
    by_name = {kernel["name"]: kernel["expected_s"] for kernel in row["kernels"]}
    assert by_name["down_proj"] is None
    assert by_name["gate_proj"] > by_name["silu_mul"] > 0
    text = invoke(*command)
    assert "Expected" not in next(line for line in text.splitlines() if line.startswith("Format"))
    assert f"down_proj: {row['expected_reason']['text']}" in text


def test_ffn_json_is_the_model():
    data = read(*BLOCK, "--tokens", "64", "--formats", "FP8,INT4.BF16", "--dynamic-activation-quantization")
    first, second = data["predictions"]
    parts = ffn_parts(64, 4096, 14336, a="FP8", dynamic_activation_quantization=True)
    prediction = predict_sequence(parts, "b10")
    assert [kernel["name"] for kernel in first["kernels"]] == list(parts)
    assert first["time_s"] == prediction.time_s == pytest.approx(sum(kernel["time_s"] for kernel in first["kernels"]))
    assert (first["operands"], second["operands"]) == ("W8A8", "W4A16")
    assert [kernel["name"] for kernel in second["kernels"]] == ["gate_proj", "up_proj", "silu_mul", "down_proj"]
    question = first["question"]
    assert (question["tokens_count"], question["is_gated"], question["is_fused"]) == (64, True, False)
    fused = read(*BLOCK, "--fused", "--formats", "FP16")["predictions"][0]
    assert [kernel["name"] for kernel in fused["kernels"]] == ["gate_up_silu_mul", "down_proj"]
    plain = read(*BLOCK, "--no-gate", "--formats", "FP16")["predictions"][0]
    assert [kernel["name"] for kernel in plain["kernels"]] == ["up_proj", "gelu", "down_proj"]


@pytest.mark.parametrize("columns", ["80", "120"])
@pytest.mark.parametrize("command", [DECODE, BLOCK, [*BLOCK, "--dynamic-activation-quantization"]])
@pytest.mark.parametrize("chip", ["b10", "gb10", "a100", "mi300x"])
def test_tables_fit_the_screen(monkeypatch, columns: str, command: list[str], chip: str):
    monkeypatch.setenv("COLUMNS", columns)
    text = invoke(*command, "--hw", chip)  # the last --hw counts
    assert max(len(line.rstrip()) for line in text.splitlines()) <= int(columns)
    assert "Time" in text or "Ideal" in text
    if columns == "80":
        assert "(left out at this width:" in text


def test_a_chip_without_a_default_format_leaves_it_out_or_says_so(tmp_path):
    chip = tmp_path / "mine.toml"
    chip.write_text(
        'schema = 1\nkey = "mine"\nname = "Mine"\nkind = "custom"\n'
        '[memory]\nbandwidth = {value = 50, unit = "GB/s", status = "declared", source = "me"}\n'
        '[[peak]]\nformats = ["BF16"]\ndense = {value = 4, unit = "TOP/s", status = "declared", source = "me"}\n'
    )
    block = [*BLOCK[:-1], str(chip)]
    data = read(*block)
    assert data["predictions"][0]["baseline_format"] == "BF16"
    assert [row["format"] for row in data["predictions"]] == ["BF16", "INT8.BF16", "INT4.BF16"]
    assert {exclusion["key"] for exclusion in data["excluded"]} == {"FP8_E4M3", "INT8", "NVFP4"}
    assert "elementwise arithmetic is counted at its BF16 rate" in invoke(*block)
    attention_rows = read(*DECODE[:-1], str(chip))
    assert [row["format"] for row in attention_rows["predictions"]][:2] == ["BF16", "FP8_E4M3.BF16"]
    assert "left out: FP8_E4M3: mine declares no such rate" in invoke(*DECODE[:-1], str(chip))


def test_user_formats_are_caches_and_weights(tmp_path, monkeypatch):
    from roofline_model.formats import catalog as formats

    monkeypatch.setattr(formats, "_USER_FORMATS", {})
    file = tmp_path / "mine.toml"
    file.write_text(
        '[Q4_K]\nkind = "int"\nelement_bits = 4\nscales = [{bits = 12, block_elems = 32}, {bits = 32, block_elems = '
        "256}]\n"
    )
    for command in (DECODE, BLOCK):
        rows = read(*command, "--formats-file", str(file))["predictions"]
        assert rows[-1]["format"] == "Q4_K.FP16"
        assert rows[-1]["speedup_ratio"] == pytest.approx(16 / 4.5, rel=0.02)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([*DECODE[:4], "--kv-heads", "5", *DECODE[6:]], "heads (Hq=32) is not divisible by kv_heads (Hkv=5)"),
        ([*DECODE, "--window", "0"], "--window must be a whole number"),
        ([*DECODE, "--window", "-3"], "--window must be a whole number"),
        ([*DECODE, "--q-len", "8192", "--causal"], "Sq must not exceed Skv with causal=True"),
        ([*DECODE, "--window", "99999999999"], "--window must be a whole number from 1 to 1,000,000,000"),
        ([*DECODE, "--window", "2.5"], "--window must be a whole number from 1 to 1,000,000,000, got '2.5'"),
        ([*DECODE, "--q-len", "8192", "--window", "8"], "Sq must not exceed Skv with window=8"),
        ([*DECODE, "--page-tokens", "0"], "--page-tokens must be a whole number"),
        ([*DECODE, "--batch", "many"], "--batch must be a whole number"),
        ([*DECODE, "--formats", "INT8.FP8"], "formats INT8.FP8_E4M3: q=FP8_E4M3 and kv=INT8 contradict each other"),
        (
            [*DECODE, "--formats", "FP16.FP8"],
            "--formats FP16.FP8_E4M3: a cache in FP16 is wider than its query in FP8_E4M3",
        ),
        ([*DECODE, "--formats", "FP8."], "unknown format 'FP8.'"),
        ([*DECODE, "--formats", "NF4.NF4"], "q=NF4: a code table"),
        ([*DECODE, "--formats", "FP17"], "Did you mean FP16"),
        (["predict", "attention", "--heads", "8", "--hw", "b10"], "Missing option '--head-dim'"),
        ([*BLOCK, "--tokens", "0"], "--tokens must be a whole number"),
        ([*BLOCK, "--formats", "FP8.INT8"], "formats FP8_E4M3.INT8: a=INT8 and b=FP8_E4M3 contradict each other"),
        ([*BLOCK, "--formats", "BF16.INT4"], "a weight in BF16 is wider than its activation in INT4"),
        ([*BLOCK, "--formats", "BF16.INT4"], "write WEIGHT.ACTIVATION, e.g. INT4.BF16, or one format for both"),
        (
            [*BLOCK, "--formats", "BF16,INT4.BF16", "--dynamic-activation-quantization"],
            "needs a format with activations narrower",
        ),
        (["predict", "ffn", "--hidden", "64", "--hw", "b10"], "Missing option '--ffn-dim'"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], words: str):
    result = runner.invoke(app, arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert words in result.stderr


# What expected attention has in it, and gains of rows that lack it ---------------------------------------------------


def test_it_is_said_what_the_expected_attention_includes():
    text = invoke(*DECODE, "--hw", "h100", "--formats", "BF16")
    assert "RoPE, the append to the cache and every launch, which neither ideal has in it" in text
    header = details(text).splitlines()[0]
    assert header.index("Expected") < header.index("Ideal") < header.index("Unfused")  # the two ideals side by side
    assert "RoPE" not in invoke(*DECODE, "--hw", "b10", "--formats", "FP16")


@pytest.mark.usefixtures("unknown_nvfp4_caches")
def test_a_gain_without_an_expected_time_is_marked_as_ideal():
    text = invoke(*DECODE, "--hw", "h100", "--formats", "FP16,FP8,NVFP4.FP16")
    rows = {line.split("  ")[0]: line for line in text.splitlines() if line.startswith(("FP", "NV"))}
    data = {
        prediction["format"]: prediction
        for prediction in read(*DECODE, "--hw", "h100", "--formats", "FP16,FP8,NVFP4.FP16")["predictions"]
    }
    assert "exp. vs FP16" in text
    assert data["FP8_E4M3"]["expected_speedup_ratio"] == pytest.approx(
        data["FP16"]["expected"]["time_s"] / data["FP8_E4M3"]["expected"]["time_s"]
    )
    assert "(ideal)" not in rows["FP8 Q+KV"]
    assert data["NVFP4.FP16"]["expected_speedup_ratio"] is None
    assert f"{data['NVFP4.FP16']['speedup_ratio']:.1f}× (ideal)" in rows["NVFP4 KV"]


@pytest.mark.parametrize(
    ("chip", "context", "is_said"), [("h100", 65536, True), ("b200", 65536, False), ("h100", 1024, False)]
)
def test_growth_under_a_window_is_explained_where_it_happens(chip: str, context: int, is_said: bool):
    command = [
        "predict",
        "attention",
        "--heads",
        "32",
        "--kv-heads",
        "8",
        "--head-dim",
        "128",
        "--kv-len",
        str(context),
        "--window",
        "1024",
        "--formats",
        "BF16",
        "--hw",
        chip,
    ]
    assert ("grow with the context under a window" in invoke(*command)) == is_said


def test_the_block_compares_expected_with_expected():
    first, second = read(
        "predict", "ffn", "--hidden", "4096", "--ffn-dim", "14336", "--hw", "gb10", "--formats", "FP16,NVFP4"
    )["predictions"]
    assert first["expected_speedup_ratio"] == 1
    assert second["expected_speedup_ratio"] == pytest.approx(first["expected"]["time_s"] / second["expected"]["time_s"])
    assert second["speedup_ratio"] == pytest.approx(first["time_s"] / second["time_s"])


@pytest.mark.parametrize(("kernel", "provenance"), [("FA3", "derived"), ("trtllm", "fitted"), ("cudnn", "derived")])
def test_attention_by_a_named_kernel(kernel, provenance):
    shape = [*DECODE[:-1], "h100", "--formats", "BF16,FP8.BF16"]
    data, plain = read(*shape, "--kernel", kernel), read(*shape)
    for row, usual, cache in zip(data["predictions"], plain["predictions"], ("BF16", "FP8_E4M3"), strict=True):
        work = attention(1, 32, 8, 1, 4096, 128, q="BF16", kv=cache)
        expected = predict_expected(work, "h100", attention_kernel=kernel)
        interval = row["expected"]
        assert (row["kernel"], usual["kernel"]) == (kernel.lower(), None)
        assert (interval["time_s"], interval["high_s"], interval["provenance"]) == (
            expected.time_s,
            expected.high_s,
            provenance,
        )
        assert interval["covered_ops"] == list(expected.covered_ops)
        assert (row["time_s"], row["unfused_time_s"]) == (usual["time_s"], usual["unfused_time_s"])
        assert (interval["time_s"] == usual["expected"]["time_s"]) == (kernel == "trtllm")


def test_a_kernel_without_the_chips_instruction_leaves_the_ideal_and_its_reason():
    data = read(*DECODE[:-1], "gb10", "--formats", "BF16", "--kernel", "fa3")
    [row] = data["predictions"]
    assert row["expected"] is None
    assert "wgmma" in row["expected_reason"]["text"]
    assert row["time_s"] > 0


def test_an_unknown_kernel_is_an_error():
    result = runner.invoke(app, [*DECODE, "--kernel", "fa5"])
    assert result.exit_code == 2
    assert "fa4" in result.stderr
