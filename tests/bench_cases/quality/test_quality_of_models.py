"""Figures of whole models against formulas computed another way; models as they were, whatever happens."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
from scipy.special import rel_entr
from simulated_formats import simulated

torch = pytest.importorskip("torch")
pytest.importorskip("torchao")
pytest.importorskip("transformers")

from torch import nn  # noqa: E402

from bench_cases.models.sources import seeded_llama  # noqa: E402
from bench_cases.quality import compare_models, synthetic_windows  # noqa: E402
from bench_cases.quality.texts.token_scores import score_windows  # noqa: E402
from bench_cases.quantization import make_kv_cache  # noqa: E402
from roofline_model.core.errors import InvalidValueError, RooflineError, UnsupportedError  # noqa: E402


class Table(nn.Module):
    """Next-token logits looked up by token: no config, no cache, nothing but logits."""

    def __init__(self, logits):
        super().__init__()
        self.table = nn.Parameter(logits)

    def forward(self, ids):
        return self.table[ids]


def table(vocabulary=16, seed=0, scale=1.0):
    return Table(scale * torch.randn(vocabulary, vocabulary, generator=torch.Generator().manual_seed(seed)))


def test_scores_are_the_textbooks():
    generator = torch.Generator().manual_seed(5)
    first, second = torch.randn(2, 3, 7, 11, generator=generator)
    ids = torch.randint(0, 11, (3, 7), generator=generator)
    scores = score_windows(first, second, ids)
    p, q = (x[:, :-1].double().softmax(-1).numpy() for x in (first, second))
    np.testing.assert_allclose(scores.kl_nats.numpy(), rel_entr(p, q).sum((1, 2)), rtol=1e-10)
    losses = nn.functional.cross_entropy(first[:, :-1].flatten(0, 1).double(), ids[:, 1:].flatten(), reduction="none")
    torch.testing.assert_close(scores.reference_loss_nats, losses.view(3, 6).sum(1))
    agreeing = (p.argmax(-1) == q.argmax(-1)).sum(1)
    assert scores.agreeing.tolist() == agreeing.tolist()


def test_a_long_text_in_pieces_gives_the_same_scores(monkeypatch):
    generator = torch.Generator().manual_seed(6)
    first, second = torch.randn(2, 2, 9, 5, generator=generator)
    ids = torch.randint(0, 5, (2, 9), generator=generator)
    whole = score_windows(first, second, ids)
    monkeypatch.setattr("bench_cases.quality.texts.token_scores._PIECE_ELEMS", 20)
    torch.testing.assert_close(score_windows(first, second, ids).kl_nats, whole.kl_nats)


def test_a_model_equals_itself(small_llama, few_windows, untouched):
    with untouched(small_llama):
        quality = compare_models(small_llama, small_llama, few_windows)
    assert (quality.kl.value, quality.top1_agreement.value, quality.perplexity_ratio.value) == (0.0, 1.0, 1.0)
    assert quality.tokens_count == quality.kl.tokens_count == 8 * 23


def test_perplexity_of_a_known_model():
    windows = synthetic_windows(16, windows_count=6, window_elems=9)
    uniform = Table(torch.zeros(16, 16))
    assert compare_models(uniform, table(), windows).reference_perplexity.value == pytest.approx(16)


def test_paired_intervals_are_narrower_than_two_texts():
    windows = synthetic_windows(16, windows_count=12, window_elems=30)
    first = table(scale=2.0)
    second = Table((first.table + 0.01 * table(seed=9).table).detach())
    quality = compare_models(first, second, windows)
    paired = quality.perplexity_ratio.high_value - quality.perplexity_ratio.low_value
    alone = quality.reference_perplexity.high_value - quality.reference_perplexity.low_value
    assert paired < 0.1 * alone / quality.reference_perplexity.value
    ratio = quality.quantized_perplexity.value / quality.reference_perplexity.value
    assert quality.perplexity_ratio.value == pytest.approx(ratio)


def test_narrower_formats_are_further_away(small_llama, few_windows, untouched):
    divergence = {}
    with untouched(small_llama):
        for key in ("INT8", "INT4", "INT2"):
            other = copy.deepcopy(small_llama)
            with simulated(other, key):
                divergence[key] = compare_models(small_llama, other, few_windows).kl
    assert 0 < divergence["INT8"].high_value < divergence["INT4"].low_value
    assert divergence["INT4"].high_value < divergence["INT2"].low_value


def test_batches_are_a_matter_of_memory_only(small_llama, few_windows):
    other = copy.deepcopy(small_llama)
    with simulated(other, "INT4"):
        values = [compare_models(small_llama, other, few_windows, batch_windows=count).kl.value for count in (1, 3, 8)]
    assert values[1:] == pytest.approx([values[0]] * 2, rel=0.05)  # BF16 sums in another order
    with pytest.raises(InvalidValueError, match="batch_windows"):
        compare_models(small_llama, other, few_windows, batch_windows=0)


def test_a_narrow_cache_costs_quality_of_its_own(small_llama, few_windows, untouched):
    with untouched(small_llama):
        wide, narrow = (
            compare_models(
                small_llama, small_llama, few_windows, quantized_cache=lambda key=key: make_kv_cache(small_llama, key)
            )
            for key in ("BF16", "FP8")
        )
    assert wide.kl.value < narrow.kl.value


def _nan_model():
    model = table()
    model.table.data[3] = math.nan
    return model


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (lambda: table(17), "vocabularies differ: 16 and 17"),
        (_nan_model, "logits of the quantised model hold NaN"),
        (lambda: nn.Embedding(16, 16), None),
    ],
)
def test_models_that_cannot_be_compared(other, message, untouched):
    windows = synthetic_windows(16, windows_count=4, window_elems=20)
    reference, quantized = table().train(), other().train()
    with untouched(reference, quantized):
        if message is None:  # any module that gives logits per token will do
            assert compare_models(reference, quantized, windows).kl.value > 0
            return
        with pytest.raises(InvalidValueError, match=message) as caught:
            compare_models(reference, quantized, windows)
    assert "\n" not in str(caught.value)


def test_a_module_without_logits_is_no_language_model(few_windows):
    with pytest.raises(UnsupportedError, match="no logits per token"):
        compare_models(nn.Flatten(), nn.Flatten(), few_windows)


def test_tokens_and_lengths_a_model_does_not_know(small_llama, untouched):
    with untouched(small_llama):
        with pytest.raises(InvalidValueError, match=r"token .* knows 512"):
            compare_models(small_llama, small_llama, synthetic_windows(4096))
        with pytest.raises(InvalidValueError, match="512 positions"):
            compare_models(small_llama, small_llama, synthetic_windows(512, window_elems=513))


def test_an_error_in_the_middle_leaves_modes_alone(small_llama, few_windows, untouched):
    small_llama.train()
    small_llama.model.layers[1].eval()  # modes that one call of train() could not give back
    broken = seeded_llama("seeded-llama-1m", seed=1)
    broken.lm_head.weight.data[0, 0] = math.inf
    with untouched(small_llama, broken), pytest.raises(RooflineError):
        compare_models(small_llama, broken, few_windows)
