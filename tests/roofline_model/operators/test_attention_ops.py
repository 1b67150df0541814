"""Attention counted by hand, fused and not; what holds between the two, between phases and between head layouts."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline_model import FORMATS, InvalidValueError, Operator, gemm, total_cost
from roofline_model.operators.attention import attention, qk_scores, scores_value, unfused_attention_parts
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


@given(SHAPES, FLOATS)
def test_fusion_saves_the_scores_and_nothing_else(shape: tuple[int, int, int, int, int, int], key: str) -> None:
    b, hkv, group, sq, more, d = shape
    arguments = (b, hkv * group, hkv, sq, sq + more, d)
    fused, unfused = attention(*arguments, q=key).cost, attention(*arguments, q=key, fused=False).cost
    parts = unfused_attention_parts(*arguments, q=key)
    softmax_flops = parts["softmax"].cost.total_flops
    assert fused.total_flops == unfused.total_flops - softmax_flops
    saved = 2 * parts["softmax"].cost.total_bytes  # written, read, written, read
    assert fused.total_bytes == pytest.approx(unfused.total_bytes - saved)


@given(SMALL, HEADS, HEADS, SMALL, SMALL, FLOATS)
def test_decode_is_prefill_with_one_query(b: int, hkv: int, group: int, skv: int, d: int, key: str) -> None:
    """The only query stands at the end: it sees every key, masked or not."""
    plain = attention(b, hkv * group, hkv, 1, skv, d, q=key)
    assert attention(b, hkv * group, hkv, 1, skv, d, q=key, causal=True).cost == plain.cost
    assert plain.cost.total_flops == 4 * b * hkv * group * skv * d


@given(SMALL, HEADS, HEADS, SMALL, SMALL, FLOATS)
def test_decode_steps_add_up_to_causal_prefill(b: int, hkv: int, group: int, s: int, d: int, key: str) -> None:
    steps = [attention(b, hkv * group, hkv, 1, past, d, q=key).cost for past in range(1, s + 1)]
    prefill = attention(b, hkv * group, hkv, s, s, d, q=key, causal=True).cost
    whole = total_cost(steps)
    assert whole.total_flops == prefill.total_flops
    assert dict(whole.read_bytes)["Q"] == pytest.approx(dict(prefill.read_bytes)["Q"])
    assert whole.total_write_bytes == pytest.approx(prefill.total_write_bytes)
    assert whole.total_read_bytes >= prefill.total_read_bytes * (1 - 1e-12)  # each step reads the cache again


@given(SMALL, HEADS, SMALL, SMALL, SMALL, FLOATS)
def test_grouped_queries_with_a_head_each_are_multi_head(b: int, h: int, sq: int, more: int, d: int, key: str) -> None:
    grouped, full = attention(b, h, 1, sq, sq + more, d, q=key).cost, attention(b, h, h, sq, sq + more, d, q=key).cost
    assert grouped.total_flops == full.total_flops
    assert dict(grouped.read_bytes)["Q"] == dict(full.read_bytes)["Q"]
    assert h * dict(grouped.read_bytes)["K"] == pytest.approx(dict(full.read_bytes)["K"])
    # One query head for each key/value head, sequence by sequence: batch and heads mean the same then.
    flat = attention(b * h, 1, 1, sq, sq + more, d, q=key).cost
    assert flat.total_flops == full.total_flops
    assert flat.total_bytes == pytest.approx(full.total_bytes)


@given(st.integers(min_value=1, max_value=10**5), SMALL)
def test_causal_halves_the_flops_and_no_byte(s: int, d: int) -> None:
    full, causal = attention(1, 4, 2, s, s, d), attention(1, 4, 2, s, s, d, causal=True)
    assert Fraction(causal.cost.total_flops) / Fraction(full.cost.total_flops) == Fraction(s + 1, 2 * s)
    assert causal.cost.read_bytes == full.cost.read_bytes
    assert causal.cost.write_bytes == full.cost.write_bytes


@given(st.integers(min_value=1, max_value=10**4), SMALL, st.integers(min_value=1, max_value=2 * 10**4))
def test_a_window_bounds_the_cost_of_decode(skv: int, d: int, window: int) -> None:
    cost = attention(1, 4, 2, 1, skv, d, window=window).cost
    short = attention(1, 4, 2, 1, min(skv, window), d).cost
    assert cost == short


@given(SHAPES, FLOATS, FLOATS)
def test_one_query_head_is_two_products(shape: tuple[int, int, int, int, int, int], q: str, kv: str) -> None:
    _, _, _, sq, skv, d = shape
    scores = qk_scores(1, 1, 1, sq, skv, d, q=q, kv=kv, scores="FP32")
    assert scores.cost.flops == gemm(sq, skv, d, a=q, b=kv, c="FP32").cost.flops
    assert scores.cost.total_bytes == pytest.approx(gemm(sq, skv, d, a=q, b=kv, c="FP32").cost.total_bytes)
    value = scores_value(1, 1, 1, sq, skv, d, scores="FP32", kv=kv, o="BF16")
    assert value.cost.flops == gemm(sq, d, skv, a="FP32", b=kv, c="BF16").cost.flops
    assert value.cost.total_bytes == pytest.approx(gemm(sq, d, skv, a="FP32", b=kv, c="BF16").cost.total_bytes)


@given(SHAPES, st.booleans(), st.none() | SMALL)
def test_cost_grows_with_every_size(
    shape: tuple[int, int, int, int, int, int], causal: bool, window: int | None
) -> None:
    b, hkv, group, sq, more, d = shape

    def cost(b: int, hkv: int, sq: int, skv: int, d: int) -> tuple[float, float]:
        done = attention(b, hkv * group, hkv, sq, skv, d, causal=causal, window=window).cost
        return done.total_flops, done.total_bytes

    base = cost(b, hkv, sq, sq + more, d)
    for bigger in (
        cost(b + 1, hkv, sq, sq + more, d),
        cost(b, hkv + 1, sq, sq + more, d),
        cost(b, hkv, sq, sq + more, d + 1),
    ):
        assert bigger > base
    longer = cost(b, hkv, sq, sq + more + 1, d)
    assert longer >= base


@given(SHAPES, st.sampled_from(sorted(FORMATS)))
def test_a_narrower_cache_changes_only_what_is_read_of_it(shape: tuple[int, int, int, int, int, int], kv: str) -> None:
    b, hkv, group, sq, more, d = shape
    arguments = (b, hkv * group, hkv, sq, sq + more, d)
    plain, narrow = attention(*arguments, q="FP64").cost, attention(*arguments, q="FP64", kv=kv).cost
    ratio = FORMATS[kv].traffic_bytes_per_element / 8
    assert narrow.flops == plain.flops
    assert narrow.write_bytes == plain.write_bytes
    assert dict(narrow.read_bytes)["Q"] == dict(plain.read_bytes)["Q"]
    assert dict(narrow.read_bytes)["V"] == pytest.approx(dict(plain.read_bytes)["V"] * ratio)


@given(SMALL, st.integers(min_value=0, max_value=4096), st.integers(min_value=1, max_value=256))
def test_paging_adds_the_block_table_only(sq: int, before: int, page_tokens: int) -> None:
    plain = attention(2, 4, 2, sq, sq + before, 64).cost
    paged = attention(2, 4, 2, sq, sq + before, 64, page_tokens=page_tokens).cost
    table = 2 * 4 * -(-(sq + before) // page_tokens)
    assert paged.total_bytes - plain.total_bytes == table
    assert paged.flops == plain.flops


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
