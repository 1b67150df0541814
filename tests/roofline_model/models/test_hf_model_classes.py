"""Our parameter counts beside transformers' own model classes, built on the meta device (no weights, no network)."""

from __future__ import annotations

from typing import Any

import pytest
from published_configs import CONFIGS, llama

from roofline_model.models.hf.config import shape_from_config
from roofline_model.models.hf.parameters import parameter_counts

# Architectures that no shipped model has.
OTHERS: dict[str, dict[str, Any]] = {
    "smollm3": llama(
        architectures=["SmolLM3ForCausalLM"],
        hidden_size=2048,
        intermediate_size=11008,
        num_attention_heads=16,
        num_hidden_layers=36,
        num_key_value_heads=4,
        tie_word_embeddings=True,
    ),
    "granite": llama(
        architectures=["GraniteForCausalLM"],
        hidden_size=2048,
        intermediate_size=8192,
        num_hidden_layers=40,
        tie_word_embeddings=True,
        vocab_size=49155,
    ),
    "gemma": llama(
        architectures=["GemmaForCausalLM"],
        hidden_size=2048,
        intermediate_size=16384,
        num_attention_heads=8,
        num_hidden_layers=18,
        num_key_value_heads=1,
        head_dim=256,
        tie_word_embeddings=None,
        vocab_size=256000,
    ),
    "llama with biases": llama(attention_bias=True, mlp_bias=True, num_hidden_layers=2),
    "qwen3 with biases": {**CONFIGS["qwen3-0.6b"], "attention_bias": True},
}
QUICK = ("qwen3-0.6b", "gemma-3-1b", "phi-2", "llama with biases")


def counted_by_transformers(config: dict[str, Any]) -> int:
    """Return the parameters of transformers' model of this config, tied ones once, DeepSeek's correction bias
    included.
    """
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    inner = config.get("text_config")
    name = "Gemma3ForCausalLM" if inner else config["architectures"][0].replace("PhiMoE", "Phimoe")
    model_class = getattr(transformers, name)
    left_out = ("architectures", "quantization_config", "vision_config")
    fields = {key: value for key, value in (inner or config).items() if key not in left_out}
    with torch.device("meta"):
        model = model_class(model_class.config_class(**fields))
    model.tie_weights()
    correction = sum(buffer.numel() for key, buffer in model.named_buffers() if "e_score_correction_bias" in key)
    return sum(parameter.numel() for parameter in model.parameters()) + correction


@pytest.mark.parametrize("name", QUICK)
def test_small_models_have_the_parameters_of_their_class(name: str) -> None:
    config = {**CONFIGS, **OTHERS}[name]
    assert parameter_counts(shape_from_config(config, name=name)).total_count == counted_by_transformers(config)


@pytest.mark.full
@pytest.mark.parametrize("name", [name for name in (*CONFIGS, *OTHERS) if name not in QUICK])
def test_every_architecture_has_the_parameters_of_its_class(name: str) -> None:
    config = {**CONFIGS, **OTHERS}[name]
    assert parameter_counts(shape_from_config(config, name=name)).total_count == counted_by_transformers(config)
