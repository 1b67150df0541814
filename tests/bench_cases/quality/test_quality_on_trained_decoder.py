"""A decoder that has learnt: formats cost what they should, and sensitivities rank its layers better than chance."""

from __future__ import annotations

import copy
import math

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torchao")
pytest.importorskip("transformers")

from bench_cases.quality import (  # noqa: E402
    check_ranking,
    compare_generation,
    compare_models,
    fisher_sensitivity,
    kl_sensitivity,
    perplexity,
    prior_sensitivity,
    simulated,
    synthetic_windows,
    text_windows,
    train_tiny_decoder,
)
from bench_cases.quality.texts.tiny_decoder import FULL_RUN, TrainingRun  # noqa: E402
from bench_cases.quantization import apply_quantization  # noqa: E402
from roofline_model.core.errors import InvalidValueError  # noqa: E402

pytestmark = pytest.mark.full  # the decoder is trained first
NARROW = ("INT8", "INT4", "INT2")


@pytest.fixture(scope="module")
def unseen(decoder):
    windows = text_windows(list(decoder.text.held_out), decoder.loaded.tokenizer, window_elems=64, max_tokens=None)
    return windows.thinned(32)


@pytest.fixture(scope="module")
def measured(decoder, unseen):
    model = copy.deepcopy(decoder.loaded.model).float()  # BF16 activations would hide the least sensitive layers
    return model, kl_sensitivity(model, unseen.thinned(4), ["INT4", "INT2"])


def qualities(model, windows, formats):
    comparisons = {}
    for key in formats:
        other = copy.deepcopy(model)
        with simulated(other, key):
            comparisons[key] = compare_models(model, other, windows)
    return comparisons


def test_it_has_learnt_and_is_what_it_says(decoder, unseen):
    assert 0.9e6 < decoder.loaded.parameters_count < 1.2e6
    assert decoder.loaded.source == "trained"
    assert not decoder.loaded.is_seeded
    assert not decoder.loaded.model.training
    assert all(parameter.grad is None for parameter in decoder.loaded.model.parameters())
    assert perplexity(decoder.loaded.model, unseen).high_value < 0.15 * 256  # knowing nothing is 256
    assert decoder.final_loss_value < math.log(256) / 1.5


@pytest.mark.full
def test_the_same_run_gives_the_same_weights():
    run = TrainingRun(steps_count=1, window_elems=8, batch_count=2)
    first, second = (train_tiny_decoder(run).loaded.model.state_dict() for _ in range(2))
    other = train_tiny_decoder(TrainingRun(steps_count=1, window_elems=8, batch_count=2, seed=1)).loaded.model
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(first["lm_head.weight"], other.lm_head.weight)


def test_fewer_bits_cost_more(decoder, unseen, untouched):
    with untouched(decoder.loaded.model):
        comparisons = qualities(decoder.loaded.model, unseen, NARROW)
    for better, worse in (("INT8", "INT4"), ("INT4", "INT2")):
        assert 0 < comparisons[better].kl.high_value < comparisons[worse].kl.low_value
        assert comparisons[better].top1_agreement.value > comparisons[worse].top1_agreement.value
    assert comparisons["INT2"].is_worse
    assert comparisons["INT2"].perplexity_ratio.low_value > comparisons["INT8"].perplexity_ratio.high_value


@pytest.mark.full
def test_torchao_and_the_codec_agree_on_int8(decoder, unseen):
    other = copy.deepcopy(decoder.loaded.model)
    apply_quantization(other, "INT8")
    kernel = compare_models(decoder.loaded.model, other, unseen).kl
    codec = qualities(decoder.loaded.model, unseen, ["INT8"])["INT8"].kl
    assert 0.3 < kernel.value / codec.value < 3


@pytest.mark.parametrize("format", [None, "INT4", "INT2"])
def test_gradients_rank_the_layers(measured, unseen, format):
    model, truth = measured
    check = check_ranking(
        fisher_sensitivity(model, unseen.thinned(8), ["INT4", "INT2"]).scores(format), truth.scores(format)
    )
    assert check.beats_chance
    assert check.correlation_ratio > 0.8
    assert check.inverted_ratio < -0.8


@pytest.mark.full
@pytest.mark.parametrize("format", [None, "INT4", "INT2"])
def test_gradients_on_random_tokens_rank_the_layers_too(measured, format):
    model, truth = measured
    windows = synthetic_windows(256, windows_count=8, window_elems=64)
    check = check_ranking(fisher_sensitivity(model, windows, ["INT4", "INT2"]).scores(format), truth.scores(format))
    assert check.beats_chance
    assert check.correlation_ratio > 0.7


def test_the_guess_without_data_orders_layers_and_formats(measured):
    model, truth = measured
    table = prior_sensitivity(model, ["INT4", "INT2"])
    check = check_ranking(table.scores(), truth.scores())
    assert check.beats_chance
    assert check.correlation_ratio > 0.6
    for format in ("INT4", "INT2"):
        assert check_ranking(table.scores(format), truth.scores(format)).beats_chance
    assert table.confidence == "low"


@pytest.mark.parametrize("options", [{"steps_count": 0}, {"batch_count": 0}, {"window_elems": 513}])
def test_runs_that_train_nothing(options):
    with pytest.raises(InvalidValueError):
        TrainingRun(**options)


@pytest.mark.full
def test_the_curve_of_a_decoder_trained_for_a_minute():
    """The order and rough size of the figures in docs/theory/quality.md."""
    decoder = train_tiny_decoder(FULL_RUN)
    model = decoder.loaded.model
    windows = text_windows(list(decoder.text.held_out), decoder.loaded.tokenizer, window_elems=128, max_tokens=None)
    assert windows.clusters.name == "documents"
    assert perplexity(model, windows).value < 8
    formats = ("INT8", "FP8.BF16", "NVFP4.BF16", "INT4", "INT2")
    comparisons = qualities(model, windows.thinned(200), formats)
    divergences = [comparisons[key].kl for key in formats]
    assert [divergence.value for divergence in divergences] == sorted(divergence.value for divergence in divergences)
    assert 0.99 < comparisons["INT8"].perplexity_ratio.value < 1.01
    assert comparisons["INT4"].perplexity_ratio.low_value > 1.01
    assert comparisons["INT4"].perplexity_ratio.high_value < 1.15
    assert comparisons["INT2"].perplexity_ratio.low_value > 2
    other = copy.deepcopy(model)
    agreements = []
    for key in ("INT8", "INT2"):
        with simulated(other, key):
            written = compare_generation(model, other, windows.thinned(24), prompt_elems=64)
        agreements.append(written.equal_prefix.value)
    assert agreements[0] > 2 * agreements[1]
    wide = copy.deepcopy(model).float()
    truth = kl_sensitivity(wide, windows.thinned(8), ["INT4", "INT2"])
    fisher = fisher_sensitivity(wide, windows.thinned(8), ["INT4", "INT2"])
    guess = prior_sensitivity(wide, ["INT4", "INT2"])
    for key in (None, "INT4", "INT2"):
        assert check_ranking(fisher.scores(key), truth.scores(key)).correlation_ratio > 0.85
        assert check_ranking(guess.scores(key), truth.scores(key)).beats_chance
