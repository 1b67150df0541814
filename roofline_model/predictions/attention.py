"""Fused attention predicted on one chip, in a pair of formats of cache and query or in several beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from roofline_model.chips.hardware import Device
from roofline_model.core.answer import Exclusion
from roofline_model.expected.predict import predict_expected, why_no_expected
from roofline_model.formats.catalog import NumberFormat, Pair, get_format, pair_label
from roofline_model.formats.usual import CACHES
from roofline_model.ideal.operator_sequence import predict_operator, predict_sequence
from roofline_model.kernels.known_kernels import cache_gap
from roofline_model.operators.attention import attention, unfused_attention_parts
from roofline_model.operators.product import Operator
from roofline_model.predictions.kernel import (
    Baseline,
    KernelAnswer,
    PredictionTable,
    ideal_values,
    operand_formats,
    predicted_table,
    ratio,
    undeclared,
)
from roofline_model.recommend.options import baseline_format


class AttentionQuestion(NamedTuple):
    """One shape of attention: Q (B, Hq, Sq, D) with K and V (B, Hkv, Skv, D)."""

    B: int
    """Sequences, count."""
    Hq: int
    """Query heads, count."""
    Hkv: int
    """Key/value heads, count."""
    Sq: int
    """New tokens, count."""
    Skv: int
    """Tokens in the cache, count."""
    D: int
    """Elements of a head, count."""
    causal: bool = False
    """Whether a query sees only the keys up to its own place."""
    window: int | None = None
    """Keys a query sees, count; null: all."""
    page_tokens: int | None = None
    """Tokens of a page where the cache is paged, count; null: it is not."""

    def work(self, cache: str | NumberFormat, query: str | NumberFormat) -> Operator:
        """Return the fused kernel in these formats."""
        return attention(
            *self[:6], q=query, kv=cache, causal=self.causal, window=self.window, page_tokens=self.page_tokens
        )

    def unfused(self, cache: str | NumberFormat, query: str | NumberFormat) -> dict[str, Operator]:
        """Return the three kernels that the fused one replaces."""
        return unfused_attention_parts(*self[:6], q=query, kv=cache, causal=self.causal, window=self.window)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionPrediction(KernelAnswer):
    """The ideal roofline of fused attention, the expected time, and the three kernels it replaces."""

    B: int
    """Sequences, count."""
    Hq: int
    """Query heads, count."""
    Hkv: int
    """Key/value heads, count."""
    Sq: int
    """New tokens, count."""
    Skv: int
    """Tokens in the cache, new ones included, count."""
    D: int
    """Elements of a head, count."""
    causal: bool
    """Whether a query sees only the keys up to its own place."""
    window: int | None
    """Keys a query sees, count; null: all."""
    page_tokens: int | None
    """Tokens of a page where the cache is paged, count; null: it is not."""
    kv_format: str
    """Format key of K and V."""
    kv_read_bytes: float
    """K and V as the kernel reads them, bytes."""
    kernel: str | None
    """Kernel whose expected time was asked for; null: the fitted one, by default."""
    unfused_time_s: float
    """Ideal time of the three kernels without fusion, seconds."""


def sixteen_bit_attention(chip: Device, question: AttentionQuestion, kernel: str | None = None) -> Baseline:
    """Return the baseline of attention, ideal and expected."""
    baseline = baseline_format(chip)
    if baseline is None:
        return Baseline(None)
    work = question.work(baseline, baseline)
    expected = predict_expected(work, chip, attention_kernel=kernel)
    time_s = predict_operator(work, chip).time_s
    return Baseline(baseline, time_s, None if expected is None else expected.time_s)


def predict_attention(
    chip: Device,
    question: AttentionQuestion,
    pair: Pair,
    *,
    kernel: str | None = None,
    baseline: Baseline | None = None,
) -> AttentionPrediction:
    """Predict attention in a pair of formats, cache and query; `kernel`: whose time is expected (None: the default
    one's).

    Raises `UnsupportedError` where the chip cannot compute in the formats, `InvalidValueError` for a shape that
    contradicts itself.
    """
    cache, query = pair
    work = question.work(cache, query)
    ideal = predict_operator(work, chip)
    expected = predict_expected(work, chip, attention_kernel=kernel)
    kv_format, reads = dict(work.formats)["kv"], dict(work.cost.read_bytes)
    wide = baseline or sixteen_bit_attention(chip, question, kernel)
    return AttentionPrediction(
        **ideal_values(ideal, chip),
        **operand_formats(work),
        **question._asdict(),
        op=work.op,
        format=pair_label(pair),
        expected=expected,
        expected_reason=None if expected is not None else why_no_expected(work, chip, attention_kernel=kernel),
        baseline_format=wide.format,
        speedup_ratio=ratio(wide.time_s, ideal.time_s),
        expected_speedup_ratio=ratio(wide.expected_s, None if expected is None else expected.time_s),
        kernel_gap=cache_gap(chip, kv_format),
        engine_gap=None,  # the kernels that read a narrow cache are the engines' own
        kv_format=kv_format,
        kv_read_bytes=reads["K"] + reads.get("V", 0.0),
        kernel=kernel,
        unfused_time_s=predict_sequence(question.unfused(cache, query), chip).time_s,
    )


def predict_attentions(
    chip: Device,
    question: AttentionQuestion,
    pairs: Sequence[Pair] | None = None,
    user_formats: Sequence[NumberFormat] = (),
    *,
    kernel: str | None = None,
) -> PredictionTable[AttentionPrediction]:
    """Predict one shape in the pairs asked for, else in the default ones and with caches in the `user_formats`.

    A default pair that the chip cannot compute in is excluded with its reason; one that was asked for raises
    `UnsupportedError`, and so does a table without rows.
    """
    baseline = sixteen_bit_attention(chip, question, kernel)
    chosen, excluded = _default_pairs(chip, baseline.format, user_formats) if pairs is None else (pairs, [])

    def predict_pair(pair: Pair) -> AttentionPrediction:
        return predict_attention(chip, question, pair, kernel=kernel, baseline=baseline)

    return predicted_table(chip, chosen, predict_pair, excluded=excluded, is_asked=pairs is not None)


def _default_pairs(
    chip: Device, baseline: str | None, user_formats: Sequence[NumberFormat]
) -> tuple[list[Pair], list[Exclusion]]:
    """Return 16 bits, FP8 where the chip multiplies in it, then narrower caches under 16-bit queries."""
    wide, fp8 = get_format(baseline or "FP16"), get_format("FP8_E4M3")
    pairs, excluded = [(wide, wide)], list[Exclusion]()
    if chip.declares(fp8.key):
        pairs.append((fp8, fp8))
    else:
        excluded.append(undeclared(chip, fp8.key))
    return pairs + [(get_format(name), wide) for name in CACHES] + [(fmt, wide) for fmt in user_formats], excluded
