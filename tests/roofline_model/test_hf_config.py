"""config.json files of every architecture we read give the shipped shape; what is wrong in one is named."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from roofline_model.errors import DefinitionError, RooflineError, UnknownNameError, UnsupportedError
from roofline_model.hf_config import cached_config, hub_cache, read_config, shape_from_config, supported_architectures
from roofline_model.model_parameters import parameter_counts
from roofline_model.model_registry import get_model
from roofline_model.model_shapes import ModelShape

LLAMA = {
    "architectures": ["LlamaForCausalLM"], "attention_bias": False, "hidden_act": "silu", "hidden_size": 4096,
    "intermediate_size": 14336, "max_position_embeddings": 8192, "model_type": "llama", "num_attention_heads": 32,
    "num_hidden_layers": 32, "num_key_value_heads": 8, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "vocab_size": 128256,
}  # fmt: skip


def llama(**changes: Any) -> dict[str, Any]:
    """Return the config of Llama-3 8B with changes; None takes a field out."""
    return {name: value for name, value in {**LLAMA, **changes}.items() if value is not None}


# The fields of published config.json files that matter here, as their owners wrote them (old and new spellings).
CONFIGS: dict[str, dict[str, Any]] = {
    "llama-3-8b": LLAMA,
    "llama-2-70b": llama(
        hidden_size=8192, intermediate_size=28672, num_attention_heads=64, num_hidden_layers=80, vocab_size=32000,
        max_position_embeddings=4096, torch_dtype="float16",
    ),
    "llama-3.2-1b": llama(
        hidden_size=2048, intermediate_size=8192, head_dim=64, num_hidden_layers=16, max_position_embeddings=131072,
        tie_word_embeddings=True,
    ),
    "mistral-7b-v0.1": llama(
        architectures=["MistralForCausalLM"], sliding_window=4096, vocab_size=32000, max_position_embeddings=32768
    ),
    "mistral-nemo": llama(
        architectures=["MistralForCausalLM"], hidden_size=5120, head_dim=128, num_hidden_layers=40, vocab_size=131072,
        max_position_embeddings=131072, sliding_window=None,
    ),
    "mixtral-8x7b": llama(
        architectures=["MixtralForCausalLM"], num_local_experts=8, num_experts_per_tok=2, vocab_size=32000,
        max_position_embeddings=32768,
    ),
    "qwen2.5-7b": {
        "architectures": ["Qwen2ForCausalLM"], "hidden_act": "silu", "hidden_size": 3584, "intermediate_size": 18944,
        "max_position_embeddings": 32768, "max_window_layers": 28, "num_attention_heads": 28, "num_hidden_layers": 28,
        "num_key_value_heads": 4, "sliding_window": 131072, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
        "use_sliding_window": False, "vocab_size": 152064,
    },
    "qwen1.5-moe-a2.7b": {
        "architectures": ["Qwen2MoeForCausalLM"], "hidden_act": "silu", "hidden_size": 2048, "intermediate_size": 5632,
        "max_position_embeddings": 8192, "num_attention_heads": 16, "num_hidden_layers": 24, "num_key_value_heads": 16,
        "use_sliding_window": False, "vocab_size": 151936, "torch_dtype": "bfloat16", "decoder_sparse_step": 1,
        "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632, "num_experts_per_tok": 4, "num_experts": 60,
    },
    "qwen3-0.6b": {
        "architectures": ["Qwen3ForCausalLM"], "attention_bias": False, "head_dim": 128, "hidden_act": "silu",
        "hidden_size": 1024, "intermediate_size": 3072, "max_position_embeddings": 40960, "num_attention_heads": 16,
        "num_hidden_layers": 28, "num_key_value_heads": 8, "sliding_window": None, "tie_word_embeddings": True,
        "torch_dtype": "bfloat16", "use_sliding_window": False, "vocab_size": 151936,
    },
    "qwen3-30b-a3b": {
        "architectures": ["Qwen3MoeForCausalLM"], "attention_bias": False, "decoder_sparse_step": 1, "head_dim": 128,
        "hidden_act": "silu", "hidden_size": 2048, "intermediate_size": 6144, "max_position_embeddings": 40960,
        "mlp_only_layers": [], "moe_intermediate_size": 768, "num_attention_heads": 32, "num_experts": 128,
        "num_experts_per_tok": 8, "num_hidden_layers": 48, "num_key_value_heads": 4, "tie_word_embeddings": False,
        "torch_dtype": "bfloat16", "use_sliding_window": False, "vocab_size": 151936,
    },
    "gemma-2-9b": {
        "architectures": ["Gemma2ForCausalLM"], "attention_bias": False, "head_dim": 256, "hidden_act": "gelu_pytorch_tanh",
        "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 3584, "intermediate_size": 14336,
        "max_position_embeddings": 8192, "num_attention_heads": 16, "num_hidden_layers": 42, "num_key_value_heads": 8,
        "sliding_window": 4096, "torch_dtype": "bfloat16", "vocab_size": 256000,
    },
    "gemma-3-1b": {
        "architectures": ["Gemma3ForCausalLM"], "attention_bias": False, "head_dim": 256,
        "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 1152, "intermediate_size": 6912,
        "max_position_embeddings": 32768, "num_attention_heads": 4, "num_hidden_layers": 26, "num_key_value_heads": 1,
        "sliding_window": 512, "sliding_window_pattern": 6, "torch_dtype": "bfloat16", "vocab_size": 262144,
    },
    "gemma-3-4b": {  # everything else is left to the class
        "architectures": ["Gemma3ForConditionalGeneration"], "torch_dtype": "bfloat16", "vision_config": {"hidden_size": 1152},
        "text_config": {
            "hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text", "num_hidden_layers": 34,
            "sliding_window": 1024,
        },
    },
    "gemma-3-27b": {
        "architectures": ["Gemma3ForConditionalGeneration"], "torch_dtype": "bfloat16",
        "text_config": {
            "head_dim": 128, "hidden_size": 5376, "intermediate_size": 21504, "num_attention_heads": 32,
            "num_hidden_layers": 62, "num_key_value_heads": 16, "sliding_window": 1024,
        },
    },
    "phi-2": {
        "architectures": ["PhiForCausalLM"], "hidden_act": "gelu_new", "hidden_size": 2560, "intermediate_size": 10240,
        "max_position_embeddings": 2048, "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32,
        "partial_rotary_factor": 0.4, "tie_word_embeddings": False, "torch_dtype": "float16", "vocab_size": 51200,
    },
    "phi-3-mini": {
        "architectures": ["Phi3ForCausalLM"], "attention_bias": False, "hidden_act": "silu", "hidden_size": 3072,
        "intermediate_size": 8192, "max_position_embeddings": 4096, "num_attention_heads": 32, "num_hidden_layers": 32,
        "num_key_value_heads": 32, "sliding_window": 2047, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
        "vocab_size": 32064,
    },
    "phi-3-mini-128k": {  # the window is longer than the context
        "architectures": ["Phi3ForCausalLM"], "attention_bias": False, "hidden_act": "silu", "hidden_size": 3072,
        "intermediate_size": 8192, "max_position_embeddings": 131072, "num_attention_heads": 32, "num_hidden_layers": 32,
        "num_key_value_heads": 32, "sliding_window": 262144, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
        "vocab_size": 32064,
    },
    "phi-3.5-moe": {
        "architectures": ["PhiMoEForCausalLM"], "attention_bias": True, "hidden_act": "silu", "hidden_size": 4096,
        "intermediate_size": 6400, "lm_head_bias": True, "max_position_embeddings": 131072, "num_attention_heads": 32,
        "num_experts_per_tok": 2, "num_hidden_layers": 32, "num_key_value_heads": 8, "num_local_experts": 16,
        "sliding_window": 131072, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "vocab_size": 32064,
    },
    "phi-4-mini": {
        "architectures": ["Phi3ForCausalLM"], "attention_bias": False, "hidden_act": "silu", "hidden_size": 3072,
        "intermediate_size": 8192, "max_position_embeddings": 131072, "num_attention_heads": 24, "num_hidden_layers": 32,
        "num_key_value_heads": 8, "partial_rotary_factor": 0.75, "sliding_window": 262144, "tie_word_embeddings": True,
        "torch_dtype": "bfloat16", "vocab_size": 200064,
    },
    "gpt-oss-20b": {
        "architectures": ["GptOssForCausalLM"], "attention_bias": True, "head_dim": 64, "hidden_act": "silu",
        "hidden_size": 2880, "intermediate_size": 2880, "layer_types": ["sliding_attention", "full_attention"] * 12,
        "max_position_embeddings": 131072, "num_attention_heads": 64, "num_experts_per_tok": 4, "num_hidden_layers": 24,
        "num_key_value_heads": 8, "num_local_experts": 32, "quantization_config": {"quant_method": "mxfp4"},
        "sliding_window": 128, "tie_word_embeddings": False, "vocab_size": 201088,
    },
    "deepseek-v3": {
        "architectures": ["DeepseekV3ForCausalLM"], "attention_bias": False, "first_k_dense_replace": 3, "hidden_act": "silu",
        "hidden_size": 7168, "intermediate_size": 18432, "kv_lora_rank": 512, "max_position_embeddings": 163840,
        "moe_intermediate_size": 2048, "moe_layer_freq": 1, "n_routed_experts": 256, "n_shared_experts": 1,
        "num_attention_heads": 128, "num_experts_per_tok": 8, "num_hidden_layers": 61, "num_key_value_heads": 128,
        "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "tie_word_embeddings": False,
        "quantization_config": {"fmt": "e4m3", "quant_method": "fp8", "weight_block_size": [128, 128]},
        "torch_dtype": "bfloat16", "v_head_dim": 128, "vocab_size": 129280,
    },
    "deepseek-v2-lite": {
        "architectures": ["DeepseekV2ForCausalLM"], "attention_bias": False, "first_k_dense_replace": 1, "hidden_act": "silu",
        "hidden_size": 2048, "intermediate_size": 10944, "kv_lora_rank": 512, "max_position_embeddings": 163840,
        "moe_intermediate_size": 1408, "moe_layer_freq": 1, "n_routed_experts": 64, "n_shared_experts": 2,
        "num_attention_heads": 16, "num_experts_per_tok": 6, "num_hidden_layers": 27, "num_key_value_heads": 16,
        "q_lora_rank": None, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "tie_word_embeddings": False,
        "torch_dtype": "bfloat16", "v_head_dim": 128, "vocab_size": 102400,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", CONFIGS)
def test_a_published_config_gives_the_shipped_shape(name: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIGS[name]))
    read, shipped = read_config(tmp_path, name=name), get_model(name)
    told_apart = {"source", "checkpoints"}
    for field in fields(ModelShape):
        if field.name not in told_apart:
            assert getattr(read, field.name) == getattr(shipped, field.name), field.name
    assert parameter_counts(read) == parameter_counts(shipped)
    assert read.source == f"model config {tmp_path / 'config.json'}"


def test_the_new_spellings_of_transformers_5_are_read() -> None:
    config = {**CONFIGS["qwen3-30b-a3b"], "num_local_experts": 128, "dtype": "bfloat16"}
    del config["num_experts"], config["torch_dtype"]
    assert shape_from_config(config, name="x").experts == get_model("qwen3-30b-a3b").experts
    gemma = {
        **CONFIGS["gemma-3-1b"],
        "layer_types": (["sliding_attention"] * 5 + ["full_attention"]) * 4 + ["sliding_attention"] * 2,
    }
    del gemma["sliding_window_pattern"]
    assert shape_from_config(gemma, name="x").window_pattern == "WWWWWF"
    phi = {**CONFIGS["phi-2"], "rope_parameters": {"partial_rotary_factor": 0.4}}
    del phi["partial_rotary_factor"]
    assert shape_from_config(phi, name="x").rotary_ratio == 0.4


def test_every_supported_architecture_is_a_class_of_transformers() -> None:
    transformers = pytest.importorskip("transformers")
    for name in supported_architectures():
        if name != "PhiMoEForCausalLM":  # the spelling of the published config; the class is PhimoeForCausalLM
            assert name in transformers.__all__ or hasattr(transformers, name), name


REQUIRED = (
    "architectures", "hidden_act", "hidden_size", "intermediate_size", "max_position_embeddings", "num_attention_heads",
    "num_hidden_layers", "vocab_size",
)  # fmt: skip


@pytest.mark.parametrize("field", REQUIRED)
def test_a_missing_field_is_named(field: str) -> None:
    with pytest.raises(DefinitionError, match=f"model config: field '{field}' is missing"):
        shape_from_config(llama(**{field: None}), name="x")


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("mixtral-8x7b", "num_local_experts"), ("mixtral-8x7b", "num_experts_per_tok"), ("qwen3-30b-a3b", "num_experts"),
        ("qwen3-30b-a3b", "moe_intermediate_size"), ("deepseek-v3", "kv_lora_rank"), ("deepseek-v3", "v_head_dim"),
        ("deepseek-v3", "first_k_dense_replace"), ("gpt-oss-20b", "num_local_experts"),
    ],
)  # fmt: skip
def test_a_missing_field_of_a_mixture_is_named(name: str, field: str) -> None:
    config = {key: value for key, value in CONFIGS[name].items() if key != field}
    with pytest.raises(DefinitionError, match=f"field '{field}' is missing"):
        shape_from_config(config, name="x")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"num_key_value_heads": 5}, "num_attention_heads 32 must be a multiple of num_key_value_heads 5"),
        ({"hidden_size": "4096"}, "hidden_size must be a whole number from 1 to 1,000,000,000, got '4096'"),
        ({"hidden_size": -1}, "hidden_size must be a whole number from 1"),
        ({"num_hidden_layers": True}, "num_hidden_layers must be a whole number"),
        ({"vocab_size": 10**12}, "vocab_size must be a whole number"),
        ({"vocab_size": 32000.0}, "vocab_size must be a whole number"),
        ({"tie_word_embeddings": "no"}, "tie_word_embeddings must be true or false, got 'no'"),
        ({"hidden_act": 7}, "field 'hidden_act' must be text, got 7"),
        (
            {"num_attention_heads": 33, "num_key_value_heads": 33},
            "head_dim is missing and hidden_size 4096 is no multiple",
        ),
        ({"partial_rotary_factor": 2}, "partial_rotary_factor must be a number from 0 to 1"),
        ({"architectures": []}, "field 'architectures' is missing"),
        ({"architectures": [3]}, "field 'architectures' is missing"),
    ],
)
def test_a_wrong_field_is_named(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(DefinitionError) as raised:
        shape_from_config(llama(**changes), name="x")
    assert words in str(raised.value)


def test_an_unknown_architecture_names_the_known_ones() -> None:
    with pytest.raises(UnknownNameError) as raised:
        shape_from_config(llama(architectures=["LLaMAForCausalLM"]), name="x")
    assert "unknown architecture 'LLaMAForCausalLM'. Did you mean LlamaForCausalLM" in str(raised.value)
    with pytest.raises(UnknownNameError, match="MambaForCausalLM"):
        shape_from_config(llama(architectures=["MambaForCausalLM"]), name="x")


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("gpt-oss-20b", {"layer_types": ["linear_attention"] * 24}, "layer_types holds 'linear_attention'"),
        ("qwen3-30b-a3b", {"decoder_sparse_step": 2}, "decoder_sparse_step = 2"),
        ("qwen3-30b-a3b", {"mlp_only_layers": [3]}, "mlp_only_layers [3]"),
        ("deepseek-v3", {"moe_layer_freq": 2}, "moe_layer_freq = 2"),
    ],
)
def test_what_cannot_be_predicted_is_said(name: str, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UnsupportedError) as raised:
        shape_from_config({**CONFIGS[name], **changes}, name="x")
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("gpt-oss-20b", {"layer_types": ["full_attention"]}, "one entry for each of 24 layers"),
        ("mixtral-8x7b", {"num_experts_per_tok": 9}, "num_experts_per_tok 9 is more than the number of experts 8"),
        ("deepseek-v3", {"first_k_dense_replace": 62}, "is more than num_hidden_layers 61"),
        ("qwen3-30b-a3b", {"moe_intermediate_size": 0}, "moe_intermediate_size must be a whole number"),
    ],
)
def test_contradictions_are_named_in_the_words_of_the_file(name: str, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(DefinitionError) as raised:
        shape_from_config({**CONFIGS[name], **changes}, name="x")
    assert words in str(raised.value)


def test_first_dense_layers_of_a_qwen_mixture() -> None:
    shape = shape_from_config({**CONFIGS["qwen3-30b-a3b"], "mlp_only_layers": [0, 1]}, name="x")
    assert [shape.has_experts(layer) for layer in (0, 1, 2)] == [False, False, True]
    assert shape.ffn_size == 6144


def test_a_switched_window_begins_at_its_layer() -> None:
    config = {**CONFIGS["qwen2.5-7b"], "use_sliding_window": True, "sliding_window": 4096, "max_window_layers": 21}
    shape = shape_from_config(config, name="x")
    assert (shape.window_size, shape.windowed_count) == (4096, 7)
    assert [shape.is_windowed(layer) for layer in (0, 20, 21, 27)] == [False, False, True, True]


@pytest.mark.parametrize(
    ("scheme", "expected"),
    [
        ({"quant_method": "gptq", "bits": 4}, "INT4"),
        ({"quant_method": "awq", "bits": 4}, "INT4"),
        ({"quant_method": "gptq", "bits": 3}, None),
        ({"quant_method": "fp8"}, "FP8_E4M3"),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "INT8"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}, "NF4"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "NVFP4"),
        ({"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": {"type": "float", "num_bits": 8}}}}, "FP8_E4M3"),
        ({"quant_method": "compressed-tensors",
          "config_groups": {"g": {"weights": {"type": "float", "num_bits": 4, "group_size": 16}}}}, "NVFP4"),
        ({"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": {"type": "int", "num_bits": 4}}}}, "INT4"),
        ({"quant_method": "compressed-tensors"}, None),
        ({"quant_method": "a-new-one"}, None),
        ({}, None),
    ],
)  # fmt: skip
def test_quantised_checkpoints_name_their_format_or_none(scheme: dict[str, Any], expected: str | None) -> None:
    shape = shape_from_config(llama(quantization_config=scheme), name="x")
    assert (shape.weight_format, shape.wide_format) == (expected, "BF16")


def test_a_missing_dtype_is_no_guess() -> None:
    assert shape_from_config(llama(torch_dtype=None), name="x").weight_format is None
    assert shape_from_config(llama(torch_dtype="torch.float16"), name="x").weight_format == "FP16"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "cannot be read as JSON"),
        ("[1]", "must be a JSON object"),
        ("[" * 100_000, "cannot be read as JSON"),
        ("\xff", "JSON"),
    ],
)
def test_a_bad_file_is_one_line(tmp_path: Path, content: str, words: str) -> None:
    file = tmp_path / "config.json"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(DefinitionError) as raised:
        read_config(file)
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


def test_paths_folders_and_ids_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    assert hub_cache() == tmp_path / "hub"
    snapshots = tmp_path / "hub" / "models--someone--llama" / "snapshots"
    for revision, layers in (("aaa", 2), ("bbb", 3)):
        (snapshots / revision).mkdir(parents=True)
        (snapshots / revision / "config.json").write_text(json.dumps(llama(num_hidden_layers=layers)))
    (tmp_path / "hub" / "models--someone--llama" / "refs").mkdir()
    (tmp_path / "hub" / "models--someone--llama" / "refs" / "main").write_text("aaa\n")
    assert get_model("someone/llama").layer_count == 2
    assert get_model("someone/llama").name == "someone/llama"
    (tmp_path / "hub" / "models--someone--llama" / "refs" / "main").unlink()
    assert cached_config("someone/llama") in {snapshots / name / "config.json" for name in ("aaa", "bbb")}
    folder = snapshots / "bbb"
    assert get_model(str(folder)).layer_count == get_model(folder / "config.json").layer_count == 3
    assert get_model(str(folder)).name == "bbb"


def test_an_id_that_was_never_downloaded_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(
        UnknownNameError, match=r"unknown model 'someone/absent'.*local hub cache \(nothing is downloaded"
    ):
        get_model("someone/absent")
    assert cached_config("../../etc") is None
    assert cached_config("a/../b") is None


@pytest.mark.parametrize("text", ["", "\x00", "x" * 5000, "a\nb", "./nowhere.json", "~nobody/x"])
def test_hostile_names_are_errors_of_ours(text: str) -> None:
    with pytest.raises(RooflineError):
        get_model(text)
