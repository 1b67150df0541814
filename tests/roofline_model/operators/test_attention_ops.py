"""Attention counted by hand, fused and not; what holds between the two, between phases and between head layouts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline_model import InvalidValueError, Operator, total_cost
from roofline_model.operators.attention import attention, unfused_attention_parts
from roofline_model.operators.attention_shape import visible_pairs

SMALL = st.integers(min_value=1, max_value=64)
HEADS = st.integers(min_value=1, max_value=8)
FLOATS = st.sampled_from(["FP32", "BF16", "FP16", "FP8_E4M3", "MXFP8_E4M3", "NVFP4"])


def test_fused_prefill_by_hand() -> None:
    work = attention(2, 8, 2, 4, 4, 16, q="BF16", causal=True)
    pairs = 1 + 2 + 3 + 4
    assert work.op == "attention"
    assert work.shape == (
        ("B", 2),
        ("Hq", 8),
        ("Hkv", 2),
        ("Sq", 4),
        ("Skv", 4),
        ("D", 16),
        ("causal", 1),
        ("window", 0),
    )
    assert work.formats == (("q", "BF16"), ("kv", "BF16"), ("o", "BF16"))
    assert work.cost.flops == (("BF16", 4 * 2 * 8 * pairs * 16),)
    assert dict(work.cost.read_bytes) == {"Q": 2 * 8 * 4 * 16 * 2, "K": 2 * 2 * 4 * 16 * 2, "V": 2 * 2 * 4 * 16 * 2}
    assert dict(work.cost.write_bytes) == {"O": 2 * 8 * 4 * 16 * 2}


def test_decode_with_a_quantised_window_by_hand() -> None:
    work = attention(3, 8, 2, 1, 4096, 128, q="BF16", kv="NVFP4", window=1024, page_tokens=16)
    assert work.cost.flops == (("BF16", 4 * 3 * 8 * 1024 * 128),)
    kv_bytes = 3 * 2 * 1024 * 128 * 4.53125 / 8
    pages = 64
    assert dict(work.cost.read_bytes) == {
        "Q": 3 * 8 * 128 * 2,
        "K": kv_bytes,
        "V": kv_bytes,
        "block_table": 3 * pages * 4,
    }
    assert work.shape[6:] == (("causal", 0), ("window", 1024), ("page", 16))


@pytest.mark.parametrize(
    ("q", "kv", "o", "computes_in", "widths"),
    [
        ("BF16", None, None, "BF16", (2, 2, 2)),
        ("BF16", "FP8", None, "BF16", (2, 1, 2)),
        ("FP8", "FP8", None, "FP8_E4M3", (1, 1, 2)),
        ("FP8", "FP8", "FP8", "FP8_E4M3", (1, 1, 1)),
        ("FP8", "FP16", None, "FP16", (1, 2, 2)),
        ("BF16", "NF4", None, "BF16", (2, 4.25 / 8, 2)),
        ("BF16", "INT8", "FP32", "BF16", (2, 1, 4)),
        ("INT8", "INT4", "BF16", "INT8", (1, 0.5, 2)),
    ],
)
def test_every_operand_has_its_own_width(
    q: str, kv: str | None, o: str | None, computes_in: str, widths: tuple[float, float, float]
) -> None:
    cost = attention(1, 4, 4, 8, 8, 64, q=q, kv=kv, o=o).cost
    elements = 4 * 8 * 64
    assert dict(cost.read_bytes) == {"Q": elements * widths[0], "K": elements * widths[1], "V": elements * widths[1]}
    assert dict(cost.write_bytes) == {"O": elements * widths[2]}
    assert [name for name, _ in cost.flops] == [computes_in]


def test_latent_attention_reads_its_cache_once() -> None:
    # DeepSeek-V3, absorbed decode: 128 query heads share one latent row of 512 + 64 elements per token.
    work = attention(1, 128, 1, 1, 1000, 576, Dv=512, shared_kv=True)
    assert work.cost.total_flops == 2 * 128 * 1000 * (576 + 512)
    assert dict(work.cost.read_bytes) == {"Q": 128 * 576 * 2, "K": 1000 * 576 * 2}
    assert dict(work.cost.write_bytes) == {"O": 128 * 512 * 2}
    assert dict(work.shape)["Dv"] == 512
    apart = attention(1, 128, 1, 1, 1000, 576, Dv=512)
    assert dict(apart.cost.read_bytes)["V"] == 1000 * 512 * 2


def test_unfused_kernels_by_hand() -> None:
    parts = unfused_attention_parts(2, 8, 2, 4, 6, 16, q="FP16")
    scores = 2 * 8 * 4 * 6
    assert parts["qk_scores"].cost.flops == (("FP16", 2 * scores * 16),)
    assert dict(parts["qk_scores"].cost.read_bytes) == {"Q": 2 * 8 * 4 * 16 * 2, "K": 2 * 2 * 6 * 16 * 2}
    assert dict(parts["qk_scores"].cost.write_bytes) == {"scores": scores * 2}
    assert parts["softmax"].cost.flops == (("FP32", 5 * scores),)
    assert parts["softmax"].cost.total_bytes == 2 * scores * 2
    assert parts["scores_value"].cost.flops == (("FP16", 2 * scores * 16),)
    assert dict(parts["scores_value"].cost.read_bytes) == {"scores": scores * 2, "V": 2 * 2 * 6 * 16 * 2}
    assert dict(parts["scores_value"].cost.write_bytes) == {"O": 2 * 8 * 4 * 16 * 2}


def test_scores_of_quantised_queries_are_16_bit() -> None:
    parts = unfused_attention_parts(1, 2, 2, 8, 8, 64, q="FP8", kv="FP8")
    assert dict(parts["qk_scores"].formats)["scores"] == "FP16"
    assert [name for name, _ in parts["qk_scores"].cost.flops] == ["FP8_E4M3"]
    assert [name for name, _ in parts["scores_value"].cost.flops] == ["FP16"]


SHAPES = st.tuples(SMALL, HEADS, HEADS, SMALL, SMALL, SMALL)


@given(SHAPES, FLOATS, st.none() | SMALL)
def test_unfused_attention_is_the_sum_of_its_kernels(
    shape: tuple[int, int, int, int, int, int], key: str, window: int | None
) -> None:
    b, hkv, group, sq, more, d = shape
    arguments = (b, hkv * group, hkv, sq, sq + more, d)
    whole = attention(*arguments, q=key, window=window, fused=False)
    parts = unfused_attention_parts(*arguments, q=key, window=window)
    assert whole.op == "unfused_attention"
    assert whole.cost == total_cost(part.cost for part in parts.values())
    assert list(parts) == ["qk_scores", "softmax", "scores_value"]


def make(**changes: object) -> Operator:
    shape: dict[str, object] = {"B": 1, "Hq": 8, "Hkv": 2, "Sq": 4, "Skv": 64, "D": 128, **changes}
    return attention(**shape)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"Hkv": 3}, r"heads \(Hq=8\) is not divisible by kv_heads \(Hkv=3\)"),
        ({"window": 0}, "window must be"),
        ({"q": "NF4"}, "q=NF4: a code table"),
        ({"o": "NF4"}, "o=NF4: a code table"),
        ({"q": "FP8", "kv": "INT8"}, "q=FP8_E4M3 and kv=INT8 contradict each other"),
        ({"q": "INT8", "kv": "FP8"}, "no unit multiplies an integer by a float"),
        ({"Dv": 0}, "Dv must be"),
        ({"Dv": 256, "shared_kv": True}, "Dv must not exceed D with shared_kv"),
        ({"page_tokens": 0}, "page_tokens must be"),
        ({"fused": False, "page_tokens": 16}, "fused=False"),
        ({"fused": False, "shared_kv": True}, "fused=False"),
        ({"fused": False, "q": "FP8", "kv": "INT8"}, "contradict"),
    ],
)
def test_contradictions_are_refused_by_field(changes: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidValueError, match=words):
        make(**changes)


def test_the_mask_reaches_the_flops() -> None:
    for arguments in ({"causal": True}, {"window": 3}, {"causal": True, "window": 3}):
        assert make(**arguments).cost.total_flops == 4 * 8 * 128 * visible_pairs(4, 64, **arguments)  # type: ignore[arg-type]


def test_cases_tell_masks_formats_and_pages_apart() -> None:
    variants: list[dict[str, object]] = [
        {}, {"causal": True}, {"window": 8}, {"kv": "FP8"}, {"q": "FP8"}, {"o": "FP8"}, {"page_tokens": 16}, {"Hkv": 4}, {"fused": False}, {"Dv": 64},
    ]  # fmt: skip
    cases = [make(**variant).case("sdpa") for variant in variants]
    assert len({case.case_key for case in cases}) == len(variants)
    assert cases[0].id == "1x8x2x4x64x128x0x0-BF16-sdpa-cold"
    assert cases[3].id == "1x8x2x4x64x128x0x0-BF16.FP8_E4M3-sdpa-cold"
