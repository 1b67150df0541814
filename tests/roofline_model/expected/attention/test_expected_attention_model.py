"""Expected attention as a whole: limits, order, formats, intervals, parts, and what it refuses."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline_model.chips.hardware import get_hardware
from roofline_model.core.errors import InvalidValueError, UnsupportedError
from roofline_model.core.finding import reason_text
from roofline_model.expected.attention.model import expected_attention
from roofline_model.expected.predict import predict_expected, why_no_expected
from roofline_model.ideal.roofline import predict
from roofline_model.operators.attention import attention

CHIPS = ("a100", "h100", "h200", "b200", "b300", "l40s", "rtx-pro-6000", "gb10")


def decode(chip="h100", **call):
    sizes = {"B": 1, "Hq": 32, "Hkv": 8, "Sq": 1, "Skv": 4096, "D": 128, "causal": True} | call
    return expected_attention(chip, *(sizes.pop(name) for name in ("B", "Hq", "Hkv", "Sq", "Skv", "D")), **sizes)


def prefill(chip="h100", **call):
    size = call.pop("S", 2048)
    return decode(chip, **{"Sq": size, "Skv": size} | call)


@given(
    chip=st.sampled_from(CHIPS),
    batch=st.sampled_from([1, 7, 64]),
    heads=st.sampled_from([(8, 8), (32, 8), (32, 4), (48, 1), (96, 96)]),
    keys=st.integers(1, 60_000),
    dim=st.sampled_from([64, 80, 128, 192, 256]),
    query=st.sampled_from([1, 17, 512, 4000]),
    kv=st.sampled_from(["BF16", "FP8"]),
)
def test_every_answer_is_positive_inside_its_interval_and_the_sum_of_its_parts(
    chip, batch, heads, keys, dim, query, kv
):
    kv = "BF16" if chip == "a100" else kv
    query = min(query, keys)
    prediction = decode(
        chip, B=batch, Hq=heads[0], Hkv=heads[1], Skv=keys, Sq=query, D=dim, activation_format="BF16", kv_format=kv
    )
    assert 0 < prediction.low_s[0] <= prediction.time_s[0] <= prediction.high_s[0] < 1e4
    parts = prediction.additive_parts()
    assert all(value[0] >= -1e-15 for value in parts.values())
    assert sum(value[0] for value in parts.values()) == pytest.approx(prediction.time_s[0], rel=1e-9)
    assert prediction.binding[0] in prediction.parts


@pytest.mark.parametrize("chip", CHIPS)
def test_large_decode_is_bound_by_dram_and_never_faster_than_light(chip):
    work = attention(64, 32, 8, 1, 16384, 128)
    prediction = decode(chip, B=64, Skv=16384)
    ideal = predict(work, get_hardware(chip)).time_s
    assert prediction.binding == ["dram"]
    assert 1.0 < prediction.time_s[0] / ideal < 1.35


@pytest.mark.parametrize("chip", CHIPS)
def test_large_prefill_is_bound_by_the_tensor_cores(chip):
    prediction = prefill(chip, B=4, S=16384)
    # 2·D MACs, QK and PV, half of the square under the mask.
    flops = 4 * 4 * 32 * 16384**2 / 2 * 128
    rate = flops / prediction.time_s[0] / get_hardware(chip).peak_flops_per_s("BF16")
    assert prediction.binding == ["tensor"]
    assert 0.3 < rate < 0.85


@pytest.mark.parametrize("chip", ["h100", "rtx-pro-6000", "gb10"])
def test_longer_caches_and_more_sequences_never_get_faster(chip):
    # Steps of the library's split rule make single lengths a little faster than shorter ones: doublings do not.
    lengths = decode(chip, B=16, Skv=2 ** np.arange(10, 18)).time_s
    assert (np.diff(lengths) > 0).all()
    assert (np.diff(prefill(chip, S=2 ** np.arange(6, 15)).time_s) > 0).all()
    assert (np.diff(decode(chip, B=2 ** np.arange(4, 11), Skv=2048).time_s) > 0).all()


def test_a_long_window_is_no_window():
    assert decode(window=4096).time_s[0] == decode(window=0).time_s[0] == decode(window=None).time_s[0]
    assert decode(B=64, Skv=32768, window=1024).time_s[0] < 0.2 * decode(B=64, Skv=32768).time_s[0]
    assert prefill(S=16384, window=512).time_s[0] < 0.2 * prefill(S=16384).time_s[0]


def test_without_a_mask_twice_the_work():
    # A little less than twice: blocks on the diagonal were computed whole before, too.
    assert 1.85 < prefill(S=16384, causal=False).time_s[0] / prefill(S=16384).time_s[0] < 2


def test_a_chunk_costs_less_than_the_whole_and_more_than_its_tokens_alone():
    chunk = decode(Sq=512, Skv=8192, phase="prefill").time_s[0]
    assert prefill(S=512).time_s[0] < chunk < prefill(S=8192).time_s[0]


def test_cold_caches_come_from_dram():
    warm, cold = decode(Skv=16384), decode(Skv=16384, cache="cold")
    assert cold.time_s[0] > warm.time_s[0]
    assert cold.parts["dram"][0] > warm.parts["dram"][0]
    # Nothing was cached before a prefill that starts at zero.
    assert prefill(cache="cold").time_s[0] == prefill().time_s[0]


def test_an_eight_bit_cache_halves_large_reads():
    wide, narrow = (decode(B=64, Skv=32768, kv_format=kv).time_s[0] for kv in ("BF16", "FP8"))
    assert narrow == pytest.approx(wide / 2, rel=0.1)


def test_hopper_computes_in_fp8_as_soon_as_the_cache_is():
    mixed = prefill("h100", B=8, S=8192, activation_format="BF16", kv_format="FP8").time_s[0]
    assert mixed < prefill("h100", B=8, S=8192).time_s[0]
    ada = [prefill("l40s", B=8, S=8192, activation_format="BF16", kv_format=kv).time_s[0] for kv in ("BF16", "FP8")]
    assert ada[1] == pytest.approx(ada[0], rel=0.03)


def test_a_few_speculated_tokens_are_a_decode_step():
    four = decode(Sq=4)
    assert four.kernel == ["mma/16"]
    assert decode().time_s[0] <= four.time_s[0] < 1.2 * decode().time_s[0]
    assert decode(Sq=4, Skv=4).kernel == ["fmha/16bit"]


def test_mixed_rows_come_back_in_order():
    mixed = decode(Sq=np.array([1, 512, 1]), Skv=np.array([4096, 512, 100]))
    alone = [decode().time_s[0], prefill(S=512).time_s[0], decode(Skv=100).time_s[0]]
    assert mixed.time_s.tolist() == alone
    assert mixed.kernel == ["mma/16", "fmha/16bit", "head/1"]
    assert set(mixed.parts) >= {"latency", "tensor"}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"Hq": 30}, "Hq must be a multiple of Hkv"),
        ({"Skv": 0}, "Skv must be a whole number from 1"),
        ({"Sq": 5000}, "at least Sq"),
        ({"D": 12.5}, "D must be a whole number"),
        ({"window": -1}, "window must be a whole number from 0"),
        ({"phase": "training"}, "phase must be prefill or decode"),
        ({"cache": "hot"}, "cache must be warm or cold"),
        ({"B": [1, 2], "Skv": [1, 2, 3]}, "must have one length"),
        ({"B": "four"}, "B must be whole numbers"),
    ],
)
def test_bad_input_names_the_field(call, message):
    with pytest.raises(InvalidValueError, match=message):
        decode(**call)


@pytest.mark.parametrize(
    ("chip", "call", "message"),
    [
        ("mi300x", {}, "no kernel family"),
        ("b10", {}, "no kernel family"),
        ("a100", {"Sq": 64, "activation_format": "FP8", "kv_format": "FP8"}, "no FP8 unit"),
        ("h100", {"kv_format": "FP32"}, "FP32 cache"),
        ("h100", {"activation_format": "INT8"}, "INT8 activations"),
    ],
)
def test_what_was_never_measured_is_refused(chip, call, message):
    with pytest.raises(UnsupportedError, match=message):
        decode(chip, **call)


def test_an_operator_gets_the_same_time():
    work = attention(1, 32, 8, 1, 8192, 128, window=1024)
    prediction = predict_expected(work, "gb10")
    assert prediction is not None
    assert prediction.time_s == pytest.approx(decode("gb10", Skv=8192, window=1024, cache="cold").time_s[0])
    assert prediction.provenance == "transferred-family"
    assert "rtx-pro-6000" in str([item.value("chips") for item in prediction.findings])
    assert predict_expected(work, "gb10", cache="warm").time_s <= prediction.time_s


def test_latent_attention_is_refused_with_a_reason():
    work = attention(1, 128, 1, 1, 4096, 576, Dv=512, shared_kv=True)
    assert predict_expected(work, "h100") is None
    assert "Dv 512" in reason_text(why_no_expected(work, "h100"))


def test_one_prediction_is_fast():
    decode()
    start = time.process_time()
    for _ in range(20):
        decode()
        prefill()
    assert (time.process_time() - start) / 40 < 3e-3  # about 0.3 ms on a quiet core


def test_many_rows_are_fast():
    rows = np.random.default_rng(0).integers(1, 30_000, 20_000)
    start = time.process_time()
    decode(Skv=rows)
    prefill(S=rows)
    assert 2 * len(rows) / (time.process_time() - start) > 50_000
