"""Layers and weights: errors as computed by hand, other weights for a while, and the old ones back."""

from __future__ import annotations

import copy
import math

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torchao")
pytest.importorskip("transformers")

from torch import nn  # noqa: E402

from bench_cases.models.sources import seeded_llama  # noqa: E402
from bench_cases.quality import compare_layers, layer_quality, simulated, synthetic_windows, weight_quality  # noqa: E402
from bench_cases.quality.substitution import quantizable_sites, substituted  # noqa: E402
from bench_cases.quantization import apply_quantization  # noqa: E402
from roofline_model.core.errors import InvalidValueError, UnsupportedError  # noqa: E402
from roofline_model.formats.codecs import format_error, round_trip, tensor_spread  # noqa: E402

DOWN = "model.layers.1.mlp.down_proj"


def test_weights_are_measured_by_the_codecs(small_llama, untouched):
    with untouched(small_llama):
        qualities = weight_quality(small_llama, ["int8", "NVFP4", "INT8"], layers=(DOWN,))
    weight = small_llama.get_submodule(DOWN).weight.detach()
    (only,) = qualities
    assert (only.name, only.role) == (DOWN, "ffn")
    assert only.spread == tensor_spread(weight)
    assert [key for key, _ in only.errors] == ["INT8", "NVFP4"]
    assert only.error("NVFP4") == format_error(weight, "NVFP4")


def test_all_weights_are_measured_once(small_llama):
    qualities = weight_quality(small_llama, ["INT4"])
    assert len({quality.name for quality in qualities}) == len(qualities) == 2 * 7 + 1


def test_inside_the_block_weights_are_what_the_format_stores(small_llama, untouched):
    layer = small_llama.get_submodule(DOWN)
    before = layer.weight
    plan = {"ffn": "INT4", "lm_head": "W8A8", DOWN: "NVFP4", "o_proj": "BF16"}
    with untouched(small_llama), simulated(small_llama, plan) as keys:
        expected = torch.from_numpy(round_trip(before.detach(), "NVFP4")).bfloat16()
        assert torch.equal(layer.weight, expected)
        assert keys[DOWN] == "NVFP4"
        assert keys["lm_head"] == "INT8.INT8"
        assert keys["model.layers.0.mlp.up_proj"] == "INT4"
        assert not any("o_proj" in name or "q_proj" in name for name in keys)
    assert layer.weight is before


def test_an_error_inside_the_block_brings_the_weights_back(small_llama, untouched):
    with untouched(small_llama):
        with pytest.raises(ZeroDivisionError), simulated(small_llama, "INT2"):
            raise ZeroDivisionError
        first, second, *_ = quantizable_sites(small_llama)
        wrong = {first: first.weight.detach(), second: torch.zeros(2, 2)}
        with pytest.raises(InvalidValueError, match="its new weight"), substituted(wrong):
            pass


def test_a_head_that_shares_the_embedding_is_narrowed_alone(untouched):
    model = seeded_llama("seeded-llama-1m-tied")
    embedding = model.get_input_embeddings().weight
    assert model.lm_head.weight is embedding
    with untouched(model), simulated(model, "INT4"):
        assert model.lm_head.weight is not embedding
        assert model.get_input_embeddings().weight is embedding
    assert model.lm_head.weight is embedding


def test_synthetic_inputs_show_the_error_of_the_weight(small_llama, untouched):
    """White noise through a layer loses what the weight lost: E‖ΔW·x‖² / E‖W·x‖² = ‖ΔW‖² / ‖W‖²."""
    with untouched(small_llama):
        quality_of = {quality.name: quality for quality in layer_quality(small_llama, None, "INT4", rows_count=512)}
    down = quality_of[DOWN]
    expected = format_error(small_llama.get_submodule(DOWN).weight.detach(), "INT4").relative_error
    assert down.relative_error.value == pytest.approx(expected, rel=0.05)
    assert down.relative_error.low_value < down.relative_error.value < down.relative_error.high_value
    assert down.sqnr_db == pytest.approx(-20 * math.log10(down.relative_error.value))
    assert down.activations == "synthetic"


def test_captured_inputs_are_those_of_the_model(small_llama, few_windows, untouched):
    layer = small_llama.get_submodule(DOWN)
    seen = []
    handle = layer.register_forward_pre_hook(lambda module, arguments: seen.append(arguments[0].detach()))
    with torch.no_grad():
        small_llama(few_windows.ids)
    handle.remove()
    with untouched(small_llama):
        (quality,) = layer_quality(small_llama, few_windows, {DOWN: "INT4"})
    wide = seen[0].double() @ layer.weight.detach().double().T
    narrow = seen[0].double() @ torch.from_numpy(round_trip(layer.weight.detach(), "INT4")).bfloat16().double().T
    assert quality.relative_error.value == pytest.approx(float((wide - narrow).norm() / wide.norm()), rel=1e-4)
    assert quality.max_error == pytest.approx(float((wide - narrow).abs().max()), rel=1e-4)
    assert quality.relative_error.tokens_count == 8 * 24
    assert quality.activations == "text"


@pytest.mark.parametrize("is_text", [True, False])
def test_layers_that_torchao_quantised(small_llama, few_windows, untouched, is_text):
    other = copy.deepcopy(small_llama)
    apply_quantization(other, "INT8", exclude=["lm_head"])
    with untouched(small_llama):
        qualities = compare_layers(small_llama, other, few_windows if is_text else None)
    assert len(qualities) == 2 * 7  # the head is unchanged
    simulated_error = {quality.name: quality for quality in layer_quality(small_llama, None, "INT8")}
    for layer in qualities:
        # The kernel's BF16 output adds its own rounding, 2^-9 at most for every value.
        assert 0 < layer.relative_error.value < 1.5 * simulated_error[layer.name].relative_error.value + 2**-8


def test_copies_that_are_no_copies(small_llama, few_windows):
    with pytest.raises(InvalidValueError, match="no layer of the quantised model differs"):
        compare_layers(small_llama, copy.deepcopy(small_llama), few_windows)
    with pytest.raises(InvalidValueError, match=r"has no layer model\.layers\.0"):
        compare_layers(small_llama, nn.Linear(4, 4), few_windows)
    with pytest.raises(InvalidValueError, match="in the original and"):
        compare_layers(nn.Sequential(nn.Linear(4, 4)), nn.Sequential(nn.Linear(4, 5)), None)


def test_hooks_go_when_the_model_fails(small_llama, untouched):
    class FailsLate(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(8, 8)

        def forward(self, ids):
            self.first(torch.ones(*ids.shape, 8))
            raise OverflowError

    model = FailsLate()
    with untouched(model), pytest.raises(OverflowError):
        layer_quality(model, synthetic_windows(8), "INT8")


def test_a_layer_that_gives_zero_has_no_relative_error():
    model = nn.Sequential(nn.Linear(8, 8, bias=False))
    model[0].weight.data.zero_()
    with pytest.raises(InvalidValueError, match="all zero"):
        layer_quality(model, None, "INT8")


@pytest.mark.parametrize(
    ("change", "formats", "error", "message"),
    [
        (lambda model: model[0].weight.data.fill_(math.nan), ["INT8"], InvalidValueError, "NaN or infinity"),
        (lambda model: model[0].weight.data[0].fill_(math.inf), ["INT8"], InvalidValueError, "NaN or infinity"),
        (lambda model: None, ["BF16"], InvalidValueError, "below 16 bit"),
        (lambda model: None, [], InvalidValueError, "below 16 bit"),
        (lambda model: model.__delitem__(0), ["INT8"], UnsupportedError, "no nn.Linear"),
        (lambda model: model.__setitem__(0, nn.Linear(0, 4)), ["INT8"], InvalidValueError, "is empty"),
    ],
)
@pytest.mark.filterwarnings("ignore:Initializing zero-element")
def test_models_that_cannot_be_measured(change, formats, error, message):
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh())
    change(model)
    with pytest.raises(error, match=message) as caught:
        weight_quality(model, formats)
    assert "\n" not in str(caught.value)


def test_plans_and_names_nobody_knows(small_llama, few_windows):
    with pytest.raises(InvalidValueError, match="Did you mean"):
        weight_quality(small_llama, ["INT8"], layers=("model.layers.1.mlp.down_prj",))
    with pytest.raises(InvalidValueError, match="16 bit or more"):
        layer_quality(small_llama, few_windows, "BF16")
    with pytest.raises(InvalidValueError, match="rows_count"):
        layer_quality(small_llama, None, "INT8", rows_count=0)
