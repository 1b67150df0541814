"""Sensitivities against closed forms and against each other; rankings against scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import spearmanr

torch = pytest.importorskip("torch")
pytest.importorskip("torchao")
pytest.importorskip("transformers")

from torch import nn  # noqa: E402

from bench_cases.models.sources import seeded_llama  # noqa: E402
from bench_cases.quality import (  # noqa: E402
    check_ranking,
    compare_models,
    fisher_sensitivity,
    kl_sensitivity,
    prior_sensitivity,
    simulated,
    synthetic_windows,
)
from bench_cases.quality.sensitivity.fisher import _fisher_diagonal  # noqa: E402
from bench_cases.quality.sensitivity.prior import depth_prior  # noqa: E402
from bench_cases.quality.substitution import quantizable_sites  # noqa: E402
from roofline_model.core.errors import InvalidValueError  # noqa: E402
from roofline_model.formats.codecs import format_error  # noqa: E402

Q0, DOWN1 = "model.layers.0.self_attn.q_proj", "model.layers.1.mlp.down_proj"


class Softmax(nn.Module):
    """Logits W·x of a fixed vector per token: its Fisher information is known."""

    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(2)
        self.register_buffer("features", torch.randn(6, 4, generator=generator))
        self.head = nn.Linear(4, 6, bias=False)
        self.head.weight.data = 0.5 * torch.randn(6, 4, generator=generator)

    def forward(self, ids):
        return self.head(self.features[ids])


def test_the_fisher_diagonal_of_a_softmax(untouched):
    """F[i, j] = E[p_i (1 − p_i) x_j²], the mean over tokens: the second derivative of the loss."""
    model = Softmax()
    windows = synthetic_windows(6, windows_count=40, window_elems=16)
    with untouched(model):
        (diagonal,) = _fisher_diagonal(model, quantizable_sites(model), windows, 20, seed=0).values()
    x = model.features[windows.ids[:, :-1]].double()
    p = (x @ model.head.weight.detach().double().T).softmax(-1)
    expected = ((p * (1 - p)).unsqueeze(-1) * x.square().unsqueeze(-2)).mean((0, 1))
    np.testing.assert_allclose(diagonal.numpy(), expected.numpy(), rtol=0.3)
    assert float(diagonal.sum()) == pytest.approx(float(expected.sum()), rel=0.04)


def test_fisher_estimates_the_measured_divergence(untouched):
    model = seeded_llama("seeded-llama-1m", dtype=torch.float32)
    windows = synthetic_windows(512, windows_count=8, window_elems=24, seed=1)
    layers = (Q0, DOWN1, "lm_head")
    with untouched(model):
        measured = kl_sensitivity(model, windows, ["INT4"], layers=layers)
        estimated = fisher_sensitivity(model, windows, ["INT4"], layers=layers, draws_count=2)
    for key, value in measured.scores().items():
        assert estimated.scores()[key] == pytest.approx(value, rel=0.5)
    assert measured.ranking("INT4") == estimated.ranking("INT4")
    assert (measured.confidence, estimated.confidence) == ("measured", "estimated")
    assert measured.tokens_count == 8 * 23


def test_frozen_and_training_models_are_left_so(small_llama, few_windows, untouched):
    small_llama.train().requires_grad_(False)
    small_llama.lm_head.weight.requires_grad_(True)
    with untouched(small_llama), torch.no_grad():
        table = fisher_sensitivity(small_llama, few_windows, ["INT8"], layers=(DOWN1,))
    assert table.rows[0].score_value > 0
    assert small_llama.training
    assert [name for name, parameter in small_llama.named_parameters() if parameter.requires_grad] == ["lm_head.weight"]


def test_a_shared_head_is_a_head_alone(few_windows, untouched):
    """The embedding's part of a tied weight has no say in what the head's product loses."""
    tied = seeded_llama("seeded-llama-1m-tied", dtype=torch.float32)
    with untouched(tied):
        estimated = fisher_sensitivity(tied, few_windows, ["INT4"], layers=("lm_head",), draws_count=2).rows[0]
        measured = kl_sensitivity(tied, few_windows, ["INT4"], layers=("lm_head",)).rows[0]
    assert estimated.score_value == pytest.approx(measured.score_value, rel=0.5)


def test_the_measured_score_is_the_divergence_of_that_layer_alone(small_llama, few_windows, untouched):
    import copy

    with untouched(small_llama):
        (row,) = kl_sensitivity(small_llama, few_windows, ["INT2"], layers=(DOWN1,)).rows
        other = copy.deepcopy(small_llama)
        with simulated(other, {DOWN1: "INT2"}):
            whole = compare_models(small_llama, other, few_windows)
    assert row.score_value == row.estimate.value == whole.kl.value
    assert (row.estimate.low_value, row.estimate.high_value) == (whole.kl.low_value, whole.kl.high_value)
    assert (row.role, row.parameters, row.format) == ("ffn", 128 * 384, "INT2")


def test_a_text_in_parts_gives_the_same_scores(small_llama, few_windows, monkeypatch):
    whole = kl_sensitivity(small_llama, few_windows, ["INT2"], layers=(DOWN1,))
    monkeypatch.setattr("bench_cases.quality.variants.REFERENCE_LIMIT_BYTES", 1)
    parts = kl_sensitivity(small_llama, few_windows, ["INT2"], layers=(DOWN1,))
    assert parts.rows[0].score_value == pytest.approx(whole.rows[0].score_value, rel=0.1)  # BF16, other batches


def test_without_data_the_score_is_error_times_prior(small_llama, untouched):
    with untouched(small_llama):
        table = prior_sensitivity(small_llama, ["INT8", "INT4"], layers=(Q0, DOWN1))
    error = format_error(small_llama.get_submodule(DOWN1).weight.detach(), "INT4").relative_error
    assert table.scores("int4")[DOWN1, "INT4"] == pytest.approx(error**2 * 2.0 / 2)  # down_proj 2, second block 1/2
    assert (table.confidence, table.tokens_count) == ("low", 0)
    assert table.formats == ("INT8", "INT4")
    with pytest.raises(InvalidValueError, match="must be positive"):
        prior_sensitivity(small_llama, ["INT8"], priors={"q_proj": 0.0})
    with pytest.raises(InvalidValueError, match="no score for NVFP4"):
        table.ranking("NVFP4")


def test_depth_is_read_from_the_name():
    assert [depth_prior(name) for name in ("model.layers.0.mlp.up_proj", "h.3.attn.c_attn", "lm_head")] == [1, 0.25, 1]


def test_an_error_in_the_middle_leaves_the_model_as_it_was(small_llama, few_windows, untouched, monkeypatch):
    def fail(*_):
        raise OverflowError

    for place in ("variants.score_windows", "sensitivity.fisher._drawn"):
        monkeypatch.setattr(f"bench_cases.quality.{place}", fail)
    with untouched(small_llama):
        with pytest.raises(OverflowError):
            kl_sensitivity(small_llama, few_windows, ["INT8"])
        with pytest.raises(OverflowError):
            fisher_sensitivity(small_llama, few_windows, ["INT8"])


@pytest.mark.parametrize("method", [kl_sensitivity, fisher_sensitivity])
def test_bad_input_is_one_line(small_llama, few_windows, method):
    for formats in (["BF16"], []):
        with pytest.raises(InvalidValueError, match="below 16 bit"):
            method(small_llama, few_windows, formats)
    with pytest.raises(InvalidValueError, match=r"token .* knows 512"):
        method(small_llama, synthetic_windows(4096), ["INT8"])
    with pytest.raises(InvalidValueError, match=r"nn\.Linear"):
        method(small_llama, few_windows, ["INT8"], layers=("head",))
    small_llama.lm_head.weight.data[0, 0] = math.nan
    with pytest.raises(InvalidValueError, match="lm_head holds NaN"):
        method(small_llama, few_windows, ["INT8"])


def test_the_rank_correlation_is_scipys():
    generator = np.random.default_rng(4)
    scores = dict(enumerate(generator.integers(0, 12, 30).tolist()))  # with ties
    measured = {key: value + generator.normal(0, 4) for key, value in scores.items()}
    check = check_ranking(scores, measured)
    expected = spearmanr(list(scores.values()), [measured[key] for key in scores]).statistic
    assert check.correlation_ratio == pytest.approx(expected)
    assert check.inverted_ratio == pytest.approx(-expected)
    assert abs(check.random_mean_ratio) < 0.03
    assert check.beats_chance


def test_a_random_ranking_does_not_beat_chance():
    generator = np.random.default_rng(7)
    measured = dict(enumerate(generator.normal(size=40).tolist()))
    beaten = [
        check_ranking(dict(enumerate(generator.normal(size=40).tolist())), measured).beats_chance for _ in range(20)
    ]
    assert sum(beaten) <= 4  # one expected; five or more has a chance of 0.3 %
    assert not check_ranking({key: -value for key, value in measured.items()}, measured).beats_chance


@pytest.mark.parametrize(
    ("scores", "measured", "message"),
    [
        ({"a": 1.0, "b": 2.0}, {"a": 1.0, "b": 2.0}, "too few"),
        ({"a": 1.0}, {"b": 1.0}, "different items, such as a, b"),
        (dict.fromkeys("abcd", 1.0), dict(zip("abcd", range(4), strict=True)), "not all equal"),
        (dict(zip("abcd", [1, 2, 3, math.nan], strict=True)), dict.fromkeys("abcd", 1.0), "finite"),
    ],
)
def test_rankings_that_mean_nothing(scores, measured, message):
    with pytest.raises(InvalidValueError, match=message):
        check_ranking(scores, measured)
