"""Encoders, biases, mixtures of experts, Conv1D: what is a Linear is quantised, what is not is counted as outside."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("torchao")
pytest.importorskip("transformers")

from bench_cases.quantization import apply_quantization, layer_role, load_quantized, save_quantized

SMALL = {
    "hidden_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "vocab_size": 64,
    "intermediate_size": 128,
}


def build(name):
    make = {
        "bert": lambda t: t.BertModel(t.BertConfig(**SMALL)),
        "opt": lambda t: t.OPTForCausalLM(
            t.OPTConfig(
                hidden_size=64,
                word_embed_proj_dim=64,
                ffn_dim=128,
                num_hidden_layers=1,
                num_attention_heads=2,
                vocab_size=64,
            )
        ),
        "mixtral": lambda t: t.MixtralForCausalLM(t.MixtralConfig(**SMALL, num_key_value_heads=1, num_local_experts=4)),
        "gpt2": lambda t: t.GPT2LMHeadModel(
            t.GPT2Config(n_embd=64, n_layer=1, n_head=2, vocab_size=64, bos_token_id=0, eos_token_id=0)
        ),
    }
    import transformers

    torch.manual_seed(0)
    return make[name](transformers).eval().bfloat16()


@pytest.mark.parametrize(
    ("name", "quantized_count", "wide_names", "roles"),
    [
        ("bert", 7, set(), {"qkv_proj", "o_proj", "ffn", None}),  # None: the pooler
        ("opt", 6, {"lm_head"}, {"qkv_proj", "o_proj", "ffn", "lm_head"}),
        ("mixtral", 5, set(), {"qkv_proj", "o_proj", "lm_head"}),
        ("gpt2", 0, {"lm_head"}, {"lm_head"}),
    ],
)
def test_architectures(name, quantized_count, wide_names, roles, tmp_path):
    model = build(name)
    ids = torch.arange(12).reshape(1, 12)
    with torch.no_grad():
        reference = model(ids)[0].float()
        result = apply_quantization(model, "INT4", group_size=64)
        output = model(ids)[0].float()
    assert len(result.quantized) == quantized_count
    assert bool(result) == (quantized_count > 0)
    assert {layer.name for layer in result.fallbacks} == wide_names
    assert {layer_role(layer.name) for layer in result.layers} == roles
    assert ((output - reference).norm() / reference.norm()).item() < 0.3
    loaded = load_quantized(save_quantized(model, tmp_path / "m", result))
    with torch.no_grad():
        assert torch.equal(loaded(ids)[0].float(), output)


def test_experts_kept_as_one_tensor_are_said_to_be_outside():
    result = apply_quantization(build("mixtral"), "INT8")
    experts_bytes = 4 * 3 * 64 * 128 * 2
    assert result.outside_bytes > experts_bytes
    assert "outside Linears" in result.summary()
