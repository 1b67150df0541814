"""What the attention formulas leave over: learnt per width, faded where the L2 holds something else, never beyond the
light.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from roofline_model import get_hardware
from roofline_model.core.errors import InvalidValueError
from roofline_model.expected.attention.chip import AttentionChip
from roofline_model.expected.attention.decode import decode_work
from roofline_model.expected.attention.fitted.constants import GRIDS, AttentionCorrection, fit_surface, surface_trust
from roofline_model.expected.attention.fitted.library import find_attention
from roofline_model.expected.attention.model import expected_attention
from roofline_model.expected.attention.predict import predict_attention
from roofline_model.expected.attention.shape import AttentionShapes
from roofline_model.operators.attention import attention

COUNT = GRIDS["decode"].knot_count
H100 = AttentionChip.of(get_hardware("h100"))


def level(value: float, phase: str = "decode") -> AttentionCorrection:
    """Return a surface that is the same everywhere, for 16-bit rows only."""
    return AttentionCorrection(phase, {"16bit": (value,) * COUNT})


def decode(correction, *, B=1, Skv=4096, kv="BF16", cache="warm"):
    corrected = replace(find_attention(H100, "decode"), correction=correction, correction_chip=None)
    return expected_attention(H100, B, 32, 8, 1, Skv, 128, causal=True, kv_format=kv, cache=cache, constants=corrected)


def test_a_surface_moves_the_time_and_says_so():
    plain, slower = decode(None), decode(level(0.2))
    assert slower.time_s[0] == pytest.approx(plain.time_s[0] * np.exp(0.2))
    assert slower.parts["library"][0] == pytest.approx(slower.time_s[0] - plain.time_s[0])
    assert "library" not in plain.parts
    assert slower.low_s[0] / slower.time_s[0] == pytest.approx(plain.low_s[0] / plain.time_s[0])


def test_a_width_without_a_surface_is_left_alone():
    assert decode(level(0.2), kv="FP8").time_s[0] == decode(None, kv="FP8").time_s[0]


def test_a_surface_learnt_in_cache_is_not_used_cold():
    # 16.8 MB of cache lie in the 50 MB of L2 when calls repeat, and in DRAM between the layers of a model.
    assert decode(level(0.2), cache="cold").time_s[0] == pytest.approx(decode(None, cache="cold").time_s[0], rel=1e-3)
    # 1.07 GB never fit: warm or cold is the same, and the surface holds.
    for cache in ("warm", "cold"):
        ratio = decode(level(0.2), B=64, cache=cache).time_s[0] / decode(None, B=64, cache=cache).time_s[0]
        assert ratio == pytest.approx(np.exp(0.2), rel=1e-3)


def test_a_smaller_cache_than_the_lenders_fades_it():
    shapes = AttentionShapes.of(1, 32, 8, 1, 8192, 128, causal=True, window=None)  # 33.5 MB
    gb10 = AttentionChip.of(get_hardware("gb10"))
    work = decode_work(gb10, shapes, is_8bit=False, cache_bytes=2.0, is_cold=False)
    rtx = AttentionChip.of(get_hardware("rtx-pro-6000"))
    assert surface_trust(work, rtx)[0] < 0.01  # 24 MB here, 128 MB there
    assert surface_trust(work, gb10)[0] == 1


def test_no_surface_makes_a_kernel_faster_than_light():
    fast = decode(level(-0.7), B=64, Skv=16384)
    moved = 64 * 8 * 16384 * 128 * 2 * 2
    assert fast.time_s[0] >= moved / H100.bandwidth_bytes_per_s
    prompt = AttentionCorrection("prefill", {"16bit": (-0.7,) * COUNT})
    corrected = replace(find_attention(H100, "prefill"), correction=prompt, correction_chip=None)
    batch = expected_attention(H100, 8, 32, 8, 4096, 4096, 128, causal=False, constants=corrected)
    assert batch.time_s[0] >= 0.999999 * 4 * 8 * 32 * 4096**2 * 128 / H100.peak_16bit_flops_per_s


def test_a_smooth_remainder_is_found_at_new_shapes():
    def truth(units, tokens, group, dim):
        return 0.15 * np.sin(np.log2(units) / 3) + 0.1 * np.cos(np.log2(tokens) / 2) - 0.05 * (dim == 64)

    def shapes(count, seed):
        rng = np.random.default_rng(seed)
        spans = ((0, 14), (4, 16), (0, 6))
        return (*(2 ** rng.uniform(low, high, count) for low, high in spans), rng.choice([64.0, 128.0, 256.0], count))

    rows, new = shapes(1200, 1), shapes(300, 9)
    noise = np.random.default_rng(2).normal(0, 0.04, 1200)
    correction = AttentionCorrection("decode", {"8bit": fit_surface("decode", rows, truth(*rows) + noise)})
    error = correction.logs("8bit", new) - truth(*new)
    assert np.mean(np.abs(error)) < 0.04 < np.mean(np.abs(truth(*new)))
    assert not correction.logs("16bit", new).any()
    half = correction.scaled(0.5)
    assert half.logs("8bit", new) == pytest.approx(0.5 * correction.logs("8bit", new))


def test_one_row_among_many_moves_it_little():
    rng = np.random.default_rng(1)
    rows = (
        *(2 ** rng.uniform(low, high, 800) for low, high in ((0, 14), (4, 16), (0, 6))),
        rng.choice([64.0, 128.0], 800),
    )
    odd = np.zeros(800)
    odd[7] = 0.5
    correction = AttentionCorrection("decode", {"16bit": fit_surface("decode", rows, odd)})
    assert abs(correction.logs("16bit", tuple(column[7:8] for column in rows))[0]) < 0.25


def test_sizes_of_a_surface_are_checked():
    with pytest.raises(InvalidValueError, match=f"{COUNT} grid values"):
        AttentionCorrection("decode", {"16bit": (0.0,) * (COUNT - 1)})
    with pytest.raises(InvalidValueError, match=r"0\.7"):
        AttentionCorrection("decode", {"16bit": (0.8,) + (0.0,) * (COUNT - 1)})
    with pytest.raises(InvalidValueError, match="prefill or decode"):
        fit_surface("both", (np.ones(1),) * 4, np.zeros(1))


def test_published_bandwidth_holds_lent_constants_back():
    gb10 = get_hardware("gb10")
    share = gb10.bandwidth_achieved.value / gb10.bandwidth.value
    lender = find_attention(AttentionChip.of(get_hardware("rtx-pro-6000")), "decode")
    assert lender.values["dram_ratio"] > share
    prediction = predict_attention(attention(64, 32, 8, 1, 16384, 128, causal=True), gb10)
    moved = 64 * 8 * 16384 * 128 * 2 * 2
    assert moved / prediction.time_s < gb10.bandwidth_achieved.value
    assert prediction.time_s == pytest.approx(moved / gb10.bandwidth_achieved.value, rel=0.05)
    (limited,) = [item for item in prediction.findings if item.value("kind") == "limited"]
    assert (limited.value("hardware"), limited.value("dram_share_ratio")) == ("gb10", pytest.approx(0.85, abs=0.005))
    assert sum(seconds for _, seconds in prediction.parts) == pytest.approx(prediction.time_s)
