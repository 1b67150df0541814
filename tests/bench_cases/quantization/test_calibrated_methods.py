"""AWQ and HQQ are really computed, and do what they are for."""

from __future__ import annotations

import pytest
import torch
from torch import nn

pytest.importorskip("torchao")

from bench_cases.quantization import apply_quantization, token_batches
from roofline_model.core.errors import InvalidValueError, UnsupportedError
from roofline_model.core.finding import finding

TOKENS, K, N = 96, 256, 64


@pytest.fixture
def outlier_activations():
    """Activations whose few loud channels decide the output: what AWQ is for."""
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(TOKENS, K, generator=generator)
    x[:, ::32] *= 40
    return x.bfloat16()


def fresh_layer():
    torch.manual_seed(11)
    return nn.Sequential(nn.Linear(K, N, bias=True)).bfloat16()


def output_error(model, x, reference):
    return ((model(x).float() - reference).norm() / reference.norm()).item()


def test_awq_beats_rounding_where_activations_have_outliers(outlier_activations):
    x = outlier_activations
    reference = fresh_layer().float()(x.float()).detach()
    errors = {}
    for method in ("round-to-nearest", "AWQ"):
        model = fresh_layer()
        result = apply_quantization(model, "INT4", method=method, calibration=[x] if method == "AWQ" else None)
        assert result.layers[0].method == method
        errors[method] = output_error(model, x, reference)
    assert errors["AWQ"] < 0.8 * errors["round-to-nearest"], errors
    assert result.calibration_tokens_count == TOKENS
    weight = model[0].weight
    assert weight.act_pre_scale is not None
    layer = result.layers[0]
    assert layer.held_bytes == layer.format_bytes + K * 2  # the input scales are held, too
    assert [item.code for item in layer.padding] == ["held-beside"]


def test_hqq_lowers_the_weight_error():
    """Half-quadratic zero points on weights with outliers; no activations involved."""
    errors = {}
    for method in ("round-to-nearest", "HQQ"):
        model = fresh_layer()
        with torch.no_grad():
            model[0].weight[:, 7::64] *= 6
        original = model[0].weight.detach().float().clone()
        result = apply_quantization(model, "INT4", method=method)
        assert result.layers[0].method == method
        decoded = nn.functional.linear(torch.eye(K).bfloat16(), model[0].weight).t().float()
        errors[method] = float((decoded - original).abs().pow(0.7).mean())  # HQQ minimises a norm below one
    assert errors["HQQ"] < errors["round-to-nearest"], errors


def test_awq_on_a_model(small_llama, token_ids):
    reference = small_llama(token_ids).logits.float()
    result = apply_quantization(small_llama, "INT4", method="awq", calibration=[token_ids, {"input_ids": token_ids}])
    assert {layer.method for layer in result.layers} == {"AWQ"}
    assert result.calibration_tokens_count == 48
    logits = small_llama(token_ids).logits.float()
    assert ((logits - reference).norm() / reference.norm()).item() < 0.3


def test_layers_the_data_never_reaches_are_rounded_and_say_so(outlier_activations):
    class TwoHeads(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.unused = nn.Linear(K, N), nn.Linear(K, N)

        def forward(self, x):
            return self.used(x)

    model = TwoHeads().bfloat16()
    result = apply_quantization(model, "INT4", method="AWQ", calibration=[outlier_activations])
    assert result.layer("used").method == "AWQ"
    assert result.layer("unused").method == "round-to-nearest"
    assert result.layer("unused").findings == (finding("rounded-to-nearest", kind="data"),)
    with pytest.raises(UnsupportedError, match="never reached this layer"):
        apply_quantization(TwoHeads().bfloat16(), "INT4", method="AWQ", calibration=[outlier_activations], strict=True)


def test_methods_and_precisions_that_do_not_meet(small_llama, token_ids):
    result = apply_quantization(small_llama, "INT8.INT8", method="AWQ", calibration=[token_ids])
    assert {layer.method for layer in result.layers} == {"round-to-nearest"}
    assert {layer.findings for layer in result.layers} == {
        (finding("rounded-to-nearest", kind="formats", method="AWQ", formats=("INT4", "INT8")),)
    }


@pytest.mark.parametrize(
    ("method", "error", "message"),
    [
        ("AWQ", InvalidValueError, "needs calibration="),
        ("GPTQ", UnsupportedError, "GPTQ runs on CUDA only"),
        ("SmoothQuant", InvalidValueError, "unknown method 'SmoothQuant'. Known: round-to-nearest, AWQ, HQQ"),
    ],
)
def test_methods_that_cannot_run(small_llama, method, error, message):
    with pytest.raises(error, match=message):
        apply_quantization(small_llama, "INT4", method=method)


@pytest.mark.parametrize("method", ["round-to-nearest", "HQQ"])
def test_data_that_no_method_would_look_at(small_llama, token_ids, method):
    with pytest.raises(InvalidValueError, match=f"{method} uses no calibration data"):
        apply_quantization(small_llama, "INT4", method=method, calibration=[token_ids])


def test_no_batches(small_llama):
    with pytest.raises(InvalidValueError, match="no calibration batch"):
        apply_quantization(small_llama, "INT4", method="AWQ", calibration=iter(()))


def test_the_recommendations_names_of_rounding(small_llama):
    assert apply_quantization(small_llama, "INT4", method="PTQ").layers[0].method == "round-to-nearest"


def test_token_batches():
    def tokenizer(text):
        return {"input_ids": [ord(letter) for letter in text]}

    batches = token_batches(["abcde", "fg"], tokenizer, tokens_per_batch=3, max_tokens=7)
    assert [batch.tolist() for batch in batches] == [[[97, 98, 99]], [[100, 101, 102]], [[103]]]
    with pytest.raises(InvalidValueError, match="holds no token"):
        token_batches("", tokenizer)
