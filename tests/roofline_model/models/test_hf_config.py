"""config.json files of every architecture we read give the shipped shape; what is wrong in one is named."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from published_configs import CONFIGS, llama

from roofline_model.chips.hardware import get_hardware
from roofline_model.core.errors import DefinitionError, RooflineError, UnknownNameError, UnsupportedError
from roofline_model.models.format_plan import published_plan
from roofline_model.models.hf.config import (
    cached_config,
    hub_cache,
    read_config,
    shape_from_config,
    supported_architectures,
)
from roofline_model.models.hf.parameters import parameter_counts
from roofline_model.models.llm import predict_model
from roofline_model.models.model_registry import get_model
from roofline_model.models.model_shapes import ModelShape


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
    "architectures",
    "hidden_act",
    "hidden_size",
    "intermediate_size",
    "max_position_embeddings",
    "num_attention_heads",
    "num_hidden_layers",
    "vocab_size",
)


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
        ({"num_hidden_layers": 10**8}, "num_hidden_layers must be at most 10,000"),
        ({"vocab_size": 10**12}, "vocab_size must be a whole number"),
        ({"vocab_size": 32000.0}, "vocab_size must be a whole number"),
        ({"tie_word_embeddings": "no"}, "tie_word_embeddings must be true or false, got 'no'"),
        ({"hidden_act": 7}, "field 'hidden_act' must be text, got 7"),
        (
            {"num_attention_heads": 33, "num_key_value_heads": 33},
            "head_dim is missing and hidden_size 4096 is not a multiple",
        ),
        ({"partial_rotary_factor": 2}, "partial_rotary_factor must be a number from 0 to 1"),
        (
            {"architectures": ["MistralForCausalLM"], "sliding_window": 0},
            "sliding_window must be a whole number from 1",
        ),
        (
            {"architectures": ["MistralForCausalLM"], "sliding_window": -4},
            "sliding_window must be a whole number from 1",
        ),
        ({"max_position_embeddings": None}, "field 'max_position_embeddings' is missing; add it"),
        ({"hidden_act": None}, "field 'hidden_act' is missing; add it"),
        ({"architectures": []}, "field 'architectures' is missing"),
        ({"architectures": [3]}, "field 'architectures' is missing"),
    ],
)
def test_a_wrong_field_is_named(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(DefinitionError) as raised:
        shape_from_config(llama(**changes), name="x")
    assert words in str(raised.value)


def test_an_unknown_class_is_refused_without_naming_another() -> None:
    for name in ("LLaMAForCausalLM", "Qwen3_5ForConditionalGeneration", "MambaForCausalLM"):
        with pytest.raises(UnsupportedError) as raised:
            shape_from_config(llama(architectures=[name]), name="x")
        assert repr(name) in str(raised.value)
        assert not [other for other in supported_architectures() if other in str(raised.value)]
        assert "Did you mean" not in str(raised.value)


# Fields by which published configs show a part that has no model here (facts of their configuration classes).
UNMODELLED: dict[str, tuple[dict[str, Any], str]] = {
    "qwen3-next": ({"full_attention_interval": 4}, "linear attention (full_attention_interval)"),
    "qwen3.5": ({"layer_types": [*["linear_attention"] * 3, "full_attention"] * 8}, "linear attention (layer_types)"),
    "kimi-linear": ({"linear_attn_config": {"kda_layers": [1, 2, 3]}}, "linear attention (linear_attn_config)"),
    "minimax-01": ({"attn_type_list": [*[0] * 7, 1] * 4}, "linear attention (attn_type_list)"),
    "nemotron-h": ({"hybrid_override_pattern": "M-M-M*-"}, "state-space layers (hybrid_override_pattern)"),
    "nemotron-3": ({"layers_block_type": ["mamba", "attention"]}, "state-space layers (layers_block_type)"),
    "jamba": ({"attn_layer_period": 8, "attn_layer_offset": 4}, "state-space layers (attn_layer_period)"),
    "bamba": ({"attn_layer_indices": [9, 18, 27]}, "state-space layers (attn_layer_indices)"),
    "falcon-h1": ({"mamba_d_ssm": 3072}, "state-space layers (mamba_d_ssm)"),
    "zamba": ({"layers_block_type": ["hybrid", "mamba"]}, "state-space layers (layers_block_type)"),
    "mamba": ({"state_size": 16, "conv_kernel": 4}, "state-space layers (state_size)"),
    "lfm2": ({"conv_L_cache": 3, "full_attn_idxs": [2, 5, 8]}, "convolution layers (conv_L_cache)"),
    "lfm2 of transformers 5": ({"layer_types": ["conv", "full_attention"]}, "convolution layers (layer_types)"),
    "recurrentgemma": ({"block_types": ["recurrent", "attention"]}, "recurrent layers (block_types)"),
    "deepseek-v3.2": ({"index_topk": 2048}, "sparse attention (index_topk)"),
    "deepseek-v4": ({"compress_ratios": [0, 4, 128]}, "sparse attention (compress_ratios)"),
    "minimax-m3": (
        {"sparse_attention_config": {"sparse_topk_blocks": 16}},
        "sparse attention (sparse_attention_config)",
    ),
    "llama-4": ({"attention_chunk_size": 8192}, "chunked attention (attention_chunk_size)"),
    "decilm": ({"block_configs": [{"attention": {"no_op": True}}]}, "uneven layers (block_configs)"),
    "gemma-4": ({"global_head_dim": 512}, "uneven layers (global_head_dim)"),
    "mimo-v2": ({"swa_num_key_value_heads": 8}, "uneven layers (swa_num_key_value_heads)"),
    "gemma-3n": ({"num_kv_shared_layers": 15}, "shared caches (num_kv_shared_layers)"),
    "deepseek-v2": ({"kv_lora_rank": 512}, "latent attention (kv_lora_rank)"),
    "a mixture": ({"num_experts": 128}, "experts (num_experts)"),
    "a class that is new": ({"layer_types": ["wavelet"] * 32}, "layers of kind 'wavelet' (layer_types)"),
}


@pytest.mark.parametrize("family", UNMODELLED)
@pytest.mark.parametrize("level", ["", "text_config."])
@pytest.mark.parametrize("name", ["LlamaForCausalLM", "Qwen3ForCausalLM", "TheirOwnForCausalLM"])
def test_a_part_without_a_model_is_refused_by_its_name_whatever_the_class(family: str, level: str, name: str) -> None:
    fields, part = UNMODELLED[family]
    config = llama(architectures=[name], **({"text_config": fields} if level else fields))
    shown = part.replace("(", f"({level}")
    if name == "TheirOwnForCausalLM" and family in ("deepseek-v2", "a mixture"):
        shown = repr(name)  # others have a model of these: it is the class that has none
    with pytest.raises(UnsupportedError) as raised:
        shape_from_config(config, name="x")
    assert shown in str(raised.value)
    assert not [other for other in supported_architectures() if other in str(raised.value) and other != name]


def test_fields_that_say_a_part_is_absent_refuse_nothing() -> None:
    absent = {
        "num_experts": 0, "num_local_experts": None, "kv_lora_rank": None, "attn_type_list": [1, 1], "attn_output_gate": False,
        "attention_chunk_size": None, "is_encoder_decoder": False, "num_kv_shared_layers": 0, "compress_ratios": [0, 0],
        "layer_types": ["full_attention"] * 32, "vision_config": {"conv_kernel": 14, "state_size": 3},
        "quantization_config": {"quant_method": "fp8", "ssm": True},
    }  # fmt: skip
    assert shape_from_config({**llama(), **absent}, name="x").layer_count == 32


def test_a_config_of_several_megabytes_is_read(tmp_path: Path) -> None:
    names = [f"model.layers.{layer}.experts.{index}.w1" for layer in range(300) for index in range(256)]
    config = {**llama(), "quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": names}}
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config, indent=1))
    assert path.stat().st_size > 2 * 1024**2
    assert read_config(path).layer_count == 32
    path.write_text("{" + " " * 16 * 1024**2)
    with pytest.raises(DefinitionError, match="longer than 16 MiB"):
        read_config(path)


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("gpt-oss-20b", {"layer_types": [[]] * 24}, "layer_types holds []"),
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
    with pytest.raises(UnknownNameError, match="'someone/absent'"):
        get_model("someone/absent")
    assert cached_config("../../etc") is None
    assert cached_config("a/../b") is None


@pytest.mark.parametrize("text", ["", "\x00", "x" * 5000, "a\nb", "./nowhere.json", "~nobody/x"])
def test_hostile_names_are_errors_of_ours(text: str) -> None:
    with pytest.raises(RooflineError):
        get_model(text)


JSON_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.lists(st.integers(), max_size=3),
    st.dictionaries(st.text(max_size=5), st.integers(), max_size=2),
    st.sampled_from(["sliding_attention", 0, -1, 10**30]),
)


@given(data=st.data(), name=st.sampled_from(sorted(CONFIGS)), value=JSON_VALUES)
def test_any_value_in_any_field_is_a_shape_or_one_line(data: st.DataObject, name: str, value: Any) -> None:
    config = dict(CONFIGS[name])
    config[data.draw(st.sampled_from(sorted(config)))] = value
    message = ""
    try:
        assert parameter_counts(shape_from_config(config, name="x")).total_count > 0
    except RooflineError as error:
        message = str(error)
    assert "\n" not in message
    assert len(message) < 1000


def test_a_name_of_any_length_is_cut(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**CONFIGS["gpt-oss-20b"], "_name_or_path": "n" * 900_000}), encoding="utf-8")
    assert len(read_config(file).name) < 300


def test_a_file_of_formats_beside_the_config_wins_and_its_cache_counts(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(llama(quantization_config={"quant_method": "a-new-one"})))
    sidecar = {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}
    (tmp_path / "hf_quant_config.json").write_text(json.dumps({"quantization": sidecar}))
    plan = published_plan(read_config(tmp_path))
    assert (plan.base.label, plan.kv) == ("FP8_E4M3", "FP8_E4M3")
    assert plan.of("lm_head").weights == "BF16"


def test_attention_that_a_checkpoint_excludes_stays_wide_part_by_part() -> None:
    excluded = ["lm_head", *(f"model.layers.*.self_attn.{name}*" for name in ("q_a", "q_b", "kv_a", "kv_b"))]
    config = {**CONFIGS["deepseek-v3"], "quantization_config": None}
    sidecar = {"quantization": {"quant_algo": "NVFP4", "exclude_modules": excluded}}
    shape = shape_from_config(config, name="x", sidecar=sidecar)
    plan = published_plan(shape)
    assert {part: plan.of(part, 0).weights for part in ("q_proj", "k_proj", "o_proj")} == {
        "q_proj": "BF16",
        "k_proj": "BF16",
        "o_proj": "NVFP4",
    }
    assert predict_model(get_hardware("b300"), shape).memory.weights_bytes == pytest.approx(389e9, rel=0.01)


ALONE = {"weights": {"type": "float", "num_bits": 4, "group_size": 16}, "input_activations": None}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (
            {"quantization_config": {"quant_method": "compressed-tensors", "config_groups": {"g": ALONE}}},
            ("NVFP4", "BF16"),
        ),
        ({"quantization": {"bits": 4, "group_size": 64}}, ("INT4", "BF16")),
    ],
)
def test_weights_alone_keep_activations_of_sixteen_bit(config: dict[str, Any], expected: tuple[str, str]) -> None:
    base = published_plan(shape_from_config(llama(**config), name="x")).base
    assert (base.weights, base.activations) == expected


def test_no_shared_expert_may_be_written_as_0() -> None:
    shape = shape_from_config({**CONFIGS["qwen3-30b-a3b"], "shared_expert_intermediate_size": 0}, name="x")
    assert shape.experts is not None
    assert shape.experts.shared_ffn_size == 0
