"""torchao really applied on this CPU: what each layer became, what it holds, and that it still computes."""

from __future__ import annotations

import importlib.util

import pytest
import torch
from torch import nn

pytest.importorskip("torchao")

from bench_cases.quantization import apply_plan, apply_quantization, model_bytes
from bench_cases.quantization.held_bytes import held_bytes
from bench_cases.quantization.plans.precisions import PRECISIONS
from bench_cases.quantization.target import Target
from roofline_model.core.errors import InvalidValueError, UnknownNameError, UnsupportedError
from roofline_model.core.finding import finding, has_code
from roofline_model.formats.catalog import get_format

# Largest relative logits error (Frobenius) of an untrained model of two layers. Bounds, not measurements: a wrong scale
# or a swapped nibble gives about 1.4.
LOGITS_ERROR = {
    "INT8": 0.03, "INT8.INT8": 0.06, "INT4": 0.30, "INT4.INT8": 0.30, "FP8": 0.08, "FP8.BF16": 0.08, "NVFP4": 0.30,
    "NVFP4.BF16": 0.30, "MXFP8": 0.12, "MXFP4": 0.45, "INT4.FP8": 0.30,
}  # fmt: skip


@pytest.mark.parametrize("precision", PRECISIONS)
def test_every_precision_on_this_cpu(small_llama, token_ids, precision):
    reference = small_llama(token_ids).logits.float()
    before = model_bytes(small_llama)
    result = apply_quantization(small_llama, precision)
    assert result
    assert len(result.quantized) == len(result.layers) == 15
    for layer in result.layers:
        assert layer.became == precision or layer.findings, layer
        assert layer.format_bytes <= layer.held_bytes
        assert layer.padding or layer.held_bytes == layer.format_bytes
        assert layer.held_bytes < layer.original_bytes
        weight = small_llama.get_submodule(layer.name).weight
        assert type(weight).__name__ == layer.tensor != "Parameter"
    assert result.before_bytes == before
    assert result.after_bytes == model_bytes(small_llama)
    outside = [value for name, value in small_llama.named_parameters() if "embed" in name or "norm" in name]
    assert result.outside_bytes == held_bytes([*outside, *small_llama.buffers()])
    assert result.saved_bytes == sum(layer.original_bytes - layer.held_bytes for layer in result.layers)
    logits = small_llama(token_ids).logits.float()
    error = ((logits - reference).norm() / reference.norm()).item()
    assert 0 < error < LOGITS_ERROR[precision], error


def test_int4_bytes_are_the_formats_bytes(small_llama):
    result = apply_quantization(small_llama, "INT4", group_size=64)
    layer = result.layer("model.layers.0.mlp.down_proj")
    assert (layer.N, layer.K, layer.group_size) == (128, 384, 64)
    assert layer.held_bytes == get_format("INT4").grouped(64, scale_bits=16, zero_bits=16).storage_bytes((128, 384))
    assert layer.held_bytes == 128 * 384 // 2 + 128 * 6 * 4
    assert layer.method == "round-to-nearest"
    assert "15 × INT4" in result.summary()
    assert len(result.lines()) == 15


def test_block_scales_are_padded_and_said_to_be(small_llama):
    layer = apply_quantization(small_llama, "NVFP4.BF16").layer("model.layers.0.self_attn.k_proj")
    assert (layer.N, layer.K) == (64, 128)
    assert layer.format_bytes == 64 * 128 // 2 + 64 * 8 + 4
    assert layer.held_bytes == 64 * 128 // 2 + 128 * 8 + 4  # rows padded to 128
    assert [item.code for item in layer.padding] == ["held-beside"]


def test_sixteen_bits_change_nothing(small_llama):
    state = {name: value.clone() for name, value in small_llama.state_dict().items()}
    result = apply_quantization(small_llama, "BF16")
    assert not result
    assert not result.fallbacks
    assert all(layer.became == "BF16" for layer in result.layers)
    assert all(torch.equal(value, state[name]) for name, value in small_llama.state_dict().items())


def test_layers_a_kernel_cannot_take_fall_back_with_a_reason():
    model = nn.ModuleDict(
        {
            "good": nn.Linear(128, 64, bias=True),
            "narrow": nn.Linear(96, 64),  # 128 does not divide 96, 32 does
            "odd_inputs": nn.Linear(100, 64),
            "odd_outputs": nn.Linear(128, 20),
        }
    ).bfloat16()
    result = apply_quantization(model, "INT4")
    reasons = {layer.name: {item.code: dict(item.values) for item in layer.findings} for layer in result.layers}
    assert reasons["good"] == {}
    assert reasons["narrow"]["group-unfit"]["used_count"] == 32
    assert reasons["odd_inputs"]["group-unfit"]["input_count"] == 100
    assert "used_count" not in reasons["odd_inputs"]["group-unfit"]
    odd = reasons["odd_outputs"]["recipe-unfit"]
    assert (odd["dimension"], odd["multiple_count"], odd["size_count"]) == ("N", 16, 20)
    assert [layer.name for layer in result.fallbacks] == ["narrow", "odd_inputs", "odd_outputs"]
    assert [layer.name for layer in result.quantized] == ["good", "narrow"]
    x = torch.randn(3, 128, dtype=torch.bfloat16)
    expected = nn.functional.linear(x, _decoded(model["good"].weight), model["good"].bias)
    assert torch.allclose(model["good"](x), expected, atol=0.05)


def _decoded(weight):
    identity = torch.eye(weight.shape[1], dtype=torch.bfloat16)
    return nn.functional.linear(identity, weight).t()


def test_a_format_without_a_recipe_takes_the_nearest(small_llama):
    with pytest.raises(UnsupportedError, match=r"torchao.*Linear.*NF4: INT4"):
        apply_quantization(small_llama, "NF4", strict=True)
    result = apply_quantization(small_llama, "NF4")
    assert {(layer.requested, layer.became, layer.findings) for layer in result.layers} == {
        ("NF4", "INT4", (finding("recipe-unfit", kind="format", format="NF4", instead="INT4"),))
    }


def test_decoded_weights_are_within_half_a_step():
    """The steps are computed here from the weights: a swapped nibble or a shifted group is off by many."""
    torch.manual_seed(2)
    weight = torch.randn(48, 256)
    groups = weight.view(48, 4, 64)
    int4_step = ((groups.amax(2) - groups.amin(2)) / 15).repeat_interleave(64, dim=1)
    int8_step = (weight.abs().amax(1, keepdim=True) / 127).expand(48, 256)
    for precision, step in (("INT4", int4_step), ("INT8", int8_step)):
        model = nn.Sequential(nn.Linear(256, 48, bias=False))
        with torch.no_grad():
            model[0].weight.copy_(weight)
        apply_quantization(model, precision, group_size=64)
        with torch.no_grad():
            decoded = model(torch.eye(256)).t()
        assert ((decoded - weight).abs() <= step * 0.51).all()
        assert (decoded - weight).abs().mean() > 0.2 * step.mean()  # uniform rounding: a quarter of a step


def test_strict_refuses_and_leaves_the_model_alone():
    model = nn.Sequential(nn.Linear(128, 64), nn.Linear(100, 64)).bfloat16()
    weights = [layer.weight for layer in model]
    with pytest.raises(UnsupportedError, match=r"1 of 2.*group 128"):
        apply_quantization(model, "INT4", strict=True)
    assert all(layer.weight is weight for layer, weight in zip(model, weights, strict=True))
    assert apply_quantization(model, "INT4", strict=True, exclude=["1"])


def test_a_device_that_lacks_the_format(small_llama):
    with pytest.raises(UnsupportedError, match=r"torchao.*cpu.*FP8"):
        apply_quantization(small_llama, "FP8", strict=True)
    result = apply_quantization(small_llama, "FP8")
    assert {layer.became for layer in result.layers} == {"FP8.BF16"}
    assert {layer.findings for layer in result.layers} == {
        (finding("torchao-kernel-missing", "FP8", kind="device", device="cpu"),)
    }
    assert all(layer.is_emulated for layer in result.layers)


def test_another_kernel_of_the_same_precision_is_no_fallback(small_llama):
    result = apply_quantization(small_llama, "INT4.INT8", strict=True, targets={"cpu": Target("cpu")})
    layer = result.layers[0]
    assert (layer.became, layer.findings, layer.is_emulated) == ("INT4.INT8", (), True)
    assert layer.notes[0].value("package") == "torchao::da8w4_linear_cpu"


@pytest.mark.parametrize(("has_vnni", "largest"), [(True, 127), (False, 64)])
def test_a_cpu_without_vnni_gets_seven_bits_and_says_so(monkeypatch, has_vnni, largest):
    monkeypatch.setattr("torchao.utils._cpu_is_vnni_supported", lambda: has_vnni)
    model = nn.Sequential(nn.Linear(128, 64)).bfloat16()
    layer = apply_quantization(model, "INT8.INT8").layers[0]
    assert int(model[0].weight.qdata.abs().max()) in (largest, largest - 1)
    assert has_code(layer.notes, "codes-of-7-bits") == (not has_vnni)
    assert not layer.findings


def test_tied_weights_stay_tied_unless_a_copy_is_asked_for(tied_llama, token_ids):
    result = apply_quantization(tied_llama, "INT4")
    head = result.layer("lm_head")
    assert not head.is_quantized
    assert head.findings == (finding("layer-stays-wide", kind="shared", parameter="model.embed_tokens.weight"),)
    assert tied_llama.lm_head.weight is tied_llama.model.embed_tokens.weight
    assert tied_llama.config.tie_word_embeddings
    with_copy = apply_quantization(tied_llama, "INT4", untie=True)
    assert with_copy.layer("lm_head").is_quantized
    assert with_copy.saved_bytes == -with_copy.layer("lm_head").held_bytes  # the embedding keeps its own
    assert not tied_llama.config.tie_word_embeddings
    assert torch.isfinite(tied_llama(token_ids).logits).all()


def test_shared_modules_and_shared_weights_are_quantised_once():
    shared, other = nn.Linear(128, 64), nn.Linear(128, 64)
    other.weight = shared.weight
    model = nn.ModuleDict({"a": shared, "again": shared, "b": other, "c": nn.Linear(128, 64)}).bfloat16()
    other.weight = shared.weight
    result = apply_quantization(model, "INT8")
    assert [(layer.name, layer.aliases) for layer in result.layers] == [("a", ("again", "b")), ("c", ())]
    assert model["a"].weight is model["b"].weight
    assert result.after_bytes == held_bytes([model["a"].weight, model["c"].weight]) + 3 * 64 * 2


def test_sharing_layers_cannot_have_two_precisions():
    model = nn.ModuleDict({"a": nn.Linear(128, 64), "b": nn.Linear(128, 64)})
    model["b"].weight = model["a"].weight
    with pytest.raises(InvalidValueError, match=r"INT8.*INT4"):
        apply_plan(model, {"a": "INT8", "b": "INT4"})
    assert apply_plan(model, {"a": "INT8"}).layers[0].is_quantized


def test_a_model_without_linears():
    with pytest.raises(UnsupportedError, match=r"Sequential.*nn\.Linear"):
        apply_quantization(nn.Sequential(nn.Conv1d(3, 3, 1), nn.ReLU()), "INT8")


def test_a_model_that_is_one_linear():
    layer = nn.Linear(128, 64, dtype=torch.bfloat16)
    result = apply_quantization(layer, "INT8")
    assert result.layers[0].name == ""
    assert type(layer.weight).__name__ == "Int8Tensor"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_weights_that_are_no_numbers(small_llama, value):
    layer = small_llama.model.layers[1].mlp.up_proj
    with torch.no_grad():
        layer.weight[3, 5] = value
    weight = layer.weight
    with pytest.raises(InvalidValueError, match=r"model\.layers\.1\.mlp\.up_proj.*NaN"):
        apply_quantization(small_llama, "INT8")
    assert layer.weight is weight
    assert type(small_llama.lm_head.weight) is nn.Parameter


@pytest.mark.parametrize(
    "precision", ["INT4", "INT8", "INT8.INT8", "FP8.BF16", "NVFP4.BF16", "MXFP8", "MXFP4", "INT4.INT8"]
)
@pytest.mark.parametrize("rows", [slice(None), slice(5, 6)], ids=["layer", "row"])
def test_zeros_still_give_zeros(precision, rows):
    """A row of them is a pruned output feature. torchao's FP8 divides zero by zero there: the layer is kept instead."""
    model = nn.Sequential(nn.Linear(128, 64, bias=False)).bfloat16()
    with torch.no_grad():
        model[0].weight[rows] = 0
    result = apply_quantization(model, precision)
    assert result.layers[0].is_quantized or has_code(result.layers[0].findings, "layer-kept-wide")
    output = model(torch.ones(2, 128, dtype=torch.bfloat16))
    assert torch.isfinite(output).all()
    assert not output[:, rows].any()


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
def test_empty_layers_and_integer_weights_are_kept():
    model = nn.ModuleDict({"empty": nn.Linear(0, 4), "codes": nn.Linear(32, 32), "good": nn.Linear(128, 64)})
    model["codes"].weight = nn.Parameter(torch.ones(32, 32, dtype=torch.int8), requires_grad=False)
    result = apply_quantization(model, "INT8")
    assert result.layer("empty").findings == (finding("layer-stays-wide", kind="empty"),)
    assert result.layer("codes").findings == (finding("layer-kept-wide", kind="dtype", dtype="int8"),)
    assert result.layer("good").is_quantized


def test_layers_that_others_read_are_kept():
    model = nn.ModuleDict(
        {"attention": nn.MultiheadAttention(128, 4), "scaled": nn.Linear(128, 64), "too": nn.Linear(128, 64)}
    )
    nn.utils.parametrizations.weight_norm(model["scaled"])
    nn.utils.parametrizations.weight_norm(model["too"])
    result = apply_quantization(model, "INT8")
    assert [layer.aliases for layer in result.layers] == [(), (), ()]
    assert has_code(result.layer("attention.out_proj").findings, "layer-kept-wide")
    assert has_code(result.layer("scaled").findings, "layer-kept-wide")
    assert not result


def test_the_meta_device():
    with pytest.raises(UnsupportedError, match="meta device"):
        apply_quantization(nn.Sequential(nn.Linear(128, 64, device="meta")), "INT8")


def test_a_second_time_keeps_what_is_quantised(small_llama):
    apply_quantization(small_llama, "INT8", exclude=["lm_head"])
    weight = small_llama.model.layers[0].self_attn.q_proj.weight
    result = apply_quantization(small_llama, "INT4")
    assert result.layer("lm_head").became == "INT4"
    layer = result.layer("model.layers.0.self_attn.q_proj")
    assert (layer.became, layer.findings) == (
        "Int8Tensor",
        (finding("layer-kept-wide", kind="quantised", tensor="Int8Tensor"),),
    )
    assert small_llama.model.layers[0].self_attn.q_proj.weight is weight
    with pytest.raises(UnsupportedError, match="already held as"):
        apply_quantization(small_llama, "INT4", strict=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_other_weight_dtypes(dtype):
    model = nn.Sequential(nn.Linear(128, 64)).to(dtype)
    assert apply_quantization(model, "INT4").layers[0].held_bytes == 128 * 32 + 64 * 2 * dtype.itemsize
    assert model(torch.ones(1, 128, dtype=dtype)).dtype is dtype
    model = nn.Sequential(nn.Linear(128, 64)).to(dtype)
    layer = apply_quantization(model, "MXFP8").layers[0]
    assert layer.became == "FP8.BF16"
    assert layer.findings[0].value("dtypes") == ("bfloat16",)


@pytest.mark.parametrize("group_size", [0, -128, 1.5, True, "128"])
def test_group_sizes_that_are_none(small_llama, group_size):
    with pytest.raises(InvalidValueError, match=r"group_size.*1"):
        apply_quantization(small_llama, "INT4", group_size)


def test_unknown_precision(small_llama):
    with pytest.raises(UnknownNameError, match="unknown format 'INT3'"):
        apply_quantization(small_llama, "INT3")


def test_without_torchao(small_llama, monkeypatch):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "torchao" else find_spec(name, *rest)
    )
    weight = small_llama.lm_head.weight
    with pytest.warns(UserWarning, match=r"torchao is not installed.*pip install .*quant"):
        assert apply_quantization(small_llama, "INT4") is False
    assert small_llama.lm_head.weight is weight


def test_compile_is_declared_and_needs_a_compiler(monkeypatch):
    import bench_cases.quantization.apply as apply_module

    model = nn.Sequential(nn.Linear(128, 64)).bfloat16()
    monkeypatch.setattr(apply_module.shutil, "which", lambda name: None)
    with pytest.raises(UnsupportedError, match=r"needs a C\+\+ compiler"):
        apply_quantization(model, "INT8", compile=True)
    assert type(model[0].weight) is nn.Parameter
    monkeypatch.setattr(apply_module.shutil, "which", lambda name: "/usr/bin/g++")
    compiled = []
    monkeypatch.setattr(model, "compile", lambda: compiled.append(True), raising=False)
    assert apply_quantization(model, "INT8", compile=True).is_compiled
    assert compiled == [True]
    assert not apply_quantization(nn.Sequential(nn.Linear(128, 64)), "INT8").is_compiled


def test_a_recipe_chosen_for_another_device_fails_as_a_whole(small_llama):
    """Tinygemm on a CPU: torchao raises for every layer, and the model is as it was."""
    weights = dict(small_llama.named_parameters())
    with pytest.raises(UnsupportedError, match=r"15.*15.*torchao"):
        apply_quantization(small_llama, "INT4", targets={"cpu": Target("cuda", (9, 0))}, strict=True)
    assert not apply_quantization(small_llama, "INT4", targets={"cpu": Target("cuda", (9, 0))})
    assert all(value is weights[name] for name, value in small_llama.named_parameters())
