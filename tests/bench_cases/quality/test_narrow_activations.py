"""Activations in narrow formats: bit for bit the codecs', in the layer that reads them, and nowhere else."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from simulated_formats import simulated

torch = pytest.importorskip("torch")
pytest.importorskip("torchao")
pytest.importorskip("transformers")

from torch import nn  # noqa: E402

from bench_cases.quality import compare_models  # noqa: E402
from bench_cases.quality.activation_codecs import round_trip_rows  # noqa: E402
from bench_cases.quality.layer_formats import layer_formats  # noqa: E402
from bench_cases.quantization import apply_quantization  # noqa: E402
from roofline_model.core.errors import InvalidValueError, UnknownNameError  # noqa: E402
from roofline_model.formats.codecs import round_trip  # noqa: E402

ACTIVATIONS = (
    "FP8_E4M3",
    "FP8_E5M2",
    "INT8",
    "INT4",
    "INT2",
    "MXFP8_E4M3",
    "MXFP8_E5M2",
    "MXFP6_E3M2",
    "MXFP6_E2M3",
    "MXFP4",
    "MXINT8",
    "NVFP4",
)
values_of_any_size = st.floats(-(2.0**100), 2.0**100, width=32) | st.sampled_from(
    [0.0, -0.0, 448.0, 6.0, 5.0, 2.0**-126, 1e-42]
)


@pytest.mark.parametrize("format", ACTIVATIONS)
@settings(max_examples=15)
@given(rows=arrays(np.float32, array_shapes(min_dims=2, max_dims=2, max_side=70), elements=values_of_any_size))
def test_rows_are_the_codecs_bit_for_bit(format, rows):
    rounded = round_trip_rows(torch.from_numpy(rows.copy()), format).numpy()
    np.testing.assert_array_equal(rounded, round_trip(rows, format))


@pytest.mark.parametrize("format", ["FP8_E4M3", "INT8"])
def test_each_token_has_a_scale_of_its_own(format):
    rows = torch.randn(5, 48, generator=torch.Generator().manual_seed(3))
    together = round_trip_rows(rows, format)
    assert torch.equal(together, torch.cat([round_trip_rows(row[None], format) for row in rows]))
    assert torch.equal(round_trip_rows(rows * 2.0**20, format), together * 2.0**20)


def test_no_token_and_no_table():
    assert round_trip_rows(torch.zeros(0, 8), "INT8").shape == (0, 8)
    with pytest.raises(InvalidValueError, match="code table"):
        round_trip_rows(torch.ones(1, 64), "NF4")


@pytest.mark.parametrize(
    ("text", "weights", "activations", "name"),
    [
        ("int4", "INT4", None, "INT4"), ("NF4", "NF4", None, "NF4"), ("INT8.INT8", "INT8", "INT8", "INT8.INT8"),
        ("W8A8", "INT8", "INT8", "INT8.INT8"), ("w4a16", "INT4", None, "INT4"), ("fp8", "FP8_E4M3", "FP8_E4M3", "FP8_E4M3"),
        ("FP8.BF16", "FP8_E4M3", None, "FP8_E4M3.BF16"), ("MXFP4.MXFP8", "MXFP4", "MXFP8_E4M3", "MXFP4.MXFP8_E4M3"),
        ("NVFP4", "NVFP4", "NVFP4", "NVFP4"), ("BF16", "BF16", None, "BF16"), ("INT4.BF16", "INT4", None, "INT4"),
        ("INT4.FP8", "INT4", "FP8_E4M3", "INT4.FP8_E4M3"),
    ],
)  # fmt: skip
def test_what_a_format_says_of_a_layer(text, weights, activations, name):
    formats = layer_formats(text)
    assert (formats.weights, formats.narrow_activations, formats.name) == (weights, activations, name)
    again = layer_formats(formats.name)
    assert (again.weights, again.narrow_activations, again.name) == (weights, activations, name)
    assert formats.is_narrow is (weights != "BF16")


def test_labels_of_the_search_name_both_operands():
    labels = {text: layer_formats(text).part_label("FP16") for text in ("INT4", "FP8", "FP8.BF16", "INT8.INT8")}
    assert labels == {"INT4": "INT4.FP16", "FP8": "FP8_E4M3", "FP8.BF16": "FP8_E4M3.FP16", "INT8.INT8": "INT8"}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("FP16.FP8", InvalidValueError),
        ("NF4.NF4", InvalidValueError),
        ("FP8.INT8", InvalidValueError),
        ("FP9", UnknownNameError),
    ],
)
def test_pairs_that_nothing_multiplies(text, error):
    with pytest.raises(error):
        layer_formats(text)


@pytest.mark.parametrize(
    ("plan", "format"), [("FP8", "FP8_E4M3"), ("INT8.INT8", "INT8"), ("NVFP4", "NVFP4"), ("MXFP8", "MXFP8")]
)
def test_a_layer_multiplies_what_both_codecs_decode(plan, format, untouched):
    torch.manual_seed(4)
    model = nn.Sequential(nn.Linear(64, 24), nn.Linear(24, 3, bias=False)).bfloat16()
    inputs = torch.randn(2, 5, 64).bfloat16()
    x, w = (round_trip(tensor.detach().float().view(-1, 64).numpy(), format) for tensor in (inputs, model[0].weight))
    expected = x.astype(np.float64) @ w.astype(np.float64).T + model[0].bias.detach().double().numpy()
    with untouched(model), simulated(model, plan, ["0"]), torch.no_grad():
        output = model[0](inputs)
        assert model[1].weight.dtype == torch.bfloat16
        assert "forward" not in model[1].__dict__
    assert output.shape == (2, 5, 24)
    assert output.dtype == torch.bfloat16
    torch.testing.assert_close(output.view(-1, 24).double(), torch.from_numpy(expected), rtol=2**-8, atol=1e-6)


def test_somebody_elses_forward_comes_back(untouched):
    model = nn.Sequential(nn.Linear(32, 32))
    theirs = model[0].forward
    model[0].forward = theirs
    with untouched(model):
        with simulated(model, "FP8"):
            assert model[0].forward is not theirs
        assert model[0].forward is theirs


def test_narrow_activations_cost_more_than_weights_alone(small_llama, few_windows, untouched):
    divergence = {}
    with untouched(small_llama):
        other = copy.deepcopy(small_llama)
        for plan in ("INT8", "INT8.INT8", "FP8.BF16", "FP8"):
            with simulated(other, plan):
                divergence[plan] = compare_models(small_llama, other, few_windows).kl.value
    assert 0 < divergence["INT8"] < divergence["INT8.INT8"] < divergence["FP8.BF16"] < divergence["FP8"]


@pytest.mark.parametrize(("has_vnni", "step_ratio"), [(True, 1), (False, 2)])
def test_torchao_and_the_codecs_agree_on_both_operands(small_llama, few_windows, monkeypatch, has_vnni, step_ratio):
    """On a CPU without VNNI torchao rounds to 7 bits: steps of twice the size, so four times the KL of the 8-bit
    codec.
    """
    monkeypatch.setattr("torchao.utils._cpu_is_vnni_supported", lambda: has_vnni)
    other, simulation = copy.deepcopy(small_llama), copy.deepcopy(small_llama)
    apply_quantization(other, "INT8.INT8")
    kernel = compare_models(small_llama, other, few_windows).kl.value
    with simulated(simulation, "INT8.INT8"):
        codec = compare_models(small_llama, simulation, few_windows).kl.value
    assert 0.5 < kernel / (codec * step_ratio**2) < 2
