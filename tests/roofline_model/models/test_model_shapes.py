"""Every shipped model has exactly the parameters, active parameters and cache bytes that were published."""

from __future__ import annotations

from dataclasses import replace

import pytest

from roofline_model.core.errors import DefinitionError, InvalidValueError, UnknownNameError
from roofline_model.models.hf.parameters import (
    attention_matrices,
    kv_bytes_per_token,
    kv_elements,
    parameter_counts,
    read_weight_count,
)
from roofline_model.models.model_registry import get_model, list_models, shape_from_table
from roofline_model.models.model_shapes import Experts, LatentAttention, smallest_pattern

# Parameters to the last one, as the safetensors headers of the named checkpoints add up and the model pages on
# huggingface.co show them ("Model size"). A tied embedding is stored once; Gemma 3 without its vision tower, which has
# 416,866,032 parameters and a projector of 1152·hidden + 1152 (4B: 4,300,079,472 in all, 12B: 12,187,325,040,
# 27B: 27,432,406,640); DeepSeek-V3 without its multi-token-prediction layer (README: 671B + 14B = 685B).
PUBLISHED_PARAMETERS = {
    "llama-2-7b": 6_738_415_616,
    "llama-2-13b": 13_015_864_320,
    "llama-2-70b": 68_976_648_192,
    "llama-3-8b": 8_030_261_248,
    "llama-3-70b": 70_553_706_496,
    "llama-3.1-8b": 8_030_261_248,
    "llama-3.1-70b": 70_553_706_496,
    "llama-3.3-70b": 70_553_706_496,
    "llama-3.1-405b": 405_853_388_800,
    "llama-3.2-1b": 1_235_814_400,
    "llama-3.2-3b": 3_212_749_824,
    "tinyllama": 1_100_048_384,
    "phi-2": 2_779_683_840,
    "phi-3-mini": 3_821_079_552,
    "phi-3-mini-128k": 3_821_079_552,
    "phi-3-medium": 13_960_238_080,
    "phi-3.5-moe": 41_873_153_344,
    "phi-4": 14_659_507_200,
    "phi-4-mini": 3_836_021_760,
    "mistral-7b-v0.1": 7_241_732_096,
    "mistral-7b": 7_248_023_552,
    "mistral-nemo": 12_247_782_400,
    "mistral-small-24b": 23_572_403_200,
    "mixtral-8x7b": 46_702_792_704,
    "mixtral-8x22b": 140_620_634_112,
    "qwen2.5-0.5b": 494_032_768,
    "qwen2.5-1.5b": 1_543_714_304,
    "qwen2.5-3b": 3_085_938_688,
    "qwen2.5-7b": 7_615_616_512,
    "qwen2.5-14b": 14_770_033_664,
    "qwen2.5-32b": 32_763_876_352,
    "qwen2.5-72b": 72_706_203_648,
    "qwen1.5-moe-a2.7b": 14_315_784_192,
    "qwen3-0.6b": 596_049_920,
    "qwen3-1.7b": 1_720_574_976,
    "qwen3-4b": 4_022_468_096,
    "qwen3-8b": 8_190_735_360,
    "qwen3-14b": 14_768_307_200,
    "qwen3-32b": 32_762_123_264,
    "qwen3-30b-a3b": 30_532_122_624,
    "qwen3-235b-a22b": 235_093_634_560,
    "gemma-2-2b": 2_614_341_888,
    "gemma-2-9b": 9_241_705_984,
    "gemma-2-27b": 27_227_128_320,
    "gemma-3-1b": 999_885_952,
    "gemma-3-4b": 3_880_263_168,
    "gemma-3-12b": 11_766_034_176,
    "gemma-3-27b": 27_009_346_304,
    "deepseek-v2-lite": 15_706_484_224,
    "deepseek-v3": 671_026_419_200,
}

# In G, rounded as the publisher does, with what the publisher counts.
PUBLISHED_ROUNDED = [
    # gpt-oss model card (arXiv 2508.10925), table 1: total and active parameters, the latter without the embedding
    # table.
    ("gpt-oss-20b", "total_count", 20.91, 2),
    ("gpt-oss-20b", "active_count", 3.61, 2),
    ("gpt-oss-120b", "total_count", 116.83, 2),
    ("gpt-oss-120b", "active_count", 5.13, 2),
    # Same table: attention 0.64 and 0.96, MLP 19.12 and 114.71, biases and router included there.
    ("gpt-oss-20b", "attention_count", 0.64, 2),
    ("gpt-oss-120b", "attention_count", 0.96, 2),
    # Qwen2 technical report (arXiv 2407.10671), table 1: 57B in all, 14B active.
    ("qwen2-57b-a14b", "total_count", 57, 0),
    ("qwen2-57b-a14b", "active_count", 14, 0),
    # DeepSeek-V3 technical report (arXiv 2412.19437), abstract: 671B, 37B active.
    ("deepseek-v3", "total_count", 671, 0),
    ("deepseek-v3", "active_count", 37, 0),
    # Mixtral of Experts (arXiv 2401.04088), abstract: 47B, 13B active.
    ("mixtral-8x7b", "total_count", 47, 0),
    ("mixtral-8x7b", "active_count", 13, 0),
    # Qwen3 technical report (arXiv 2505.09388), table 2: 30B-A3B and 235B-A22B.
    ("qwen3-30b-a3b", "active_count", 3, 0),
    ("qwen3-235b-a22b", "active_count", 22, 0),
    # Phi-3 technical report (arXiv 2404.14219): Phi-3.5-MoE has 6.6B active with its embedding table (0.13).
    ("phi-3.5-moe", "total_count", 42, 0),
]

# KV-cache bytes per token at 16 bit.
PUBLISHED_KV_BYTES = {
    # "Insights into DeepSeek-V3" (arXiv 2505.09343), table 1: 70.272, 327.680 and 516.096 KB per token in BF16.
    "deepseek-v3": 70_272,
    "qwen2.5-72b": 327_680,
    "llama-3.1-405b": 516_096,
    # Original document 004: Llama-3 8B, 32K tokens, 4096 MB.
    "llama-3-8b": 4096 * 1024**2 // 32768,
    # NVIDIA technical blog "Mastering LLM Techniques: Inference Optimization" (2023): Llama 2 7B, 4096 tokens, about 2
    # GB.
    "llama-2-7b": 2 * 1024**3 // 4096,
    # The vLLM paper (arXiv 2309.06180), §3: 800 KB per token of OPT-13B, whose 40 layers have the same 40 heads of 128.
    "llama-2-13b": 800 * 1024,
}


@pytest.mark.parametrize(("name", "published"), PUBLISHED_PARAMETERS.items())
def test_parameters_equal_the_published_count(name: str, published: int) -> None:
    assert parameter_counts(get_model(name)).total_count == published


@pytest.mark.parametrize(("name", "what", "billions", "digits"), PUBLISHED_ROUNDED)
def test_rounded_parameters_equal_the_published_ones(name: str, what: str, billions: float, digits: int) -> None:
    assert round(getattr(parameter_counts(get_model(name)), what) / 1e9, digits) == billions


def test_every_model_has_a_published_number_and_a_source() -> None:
    names = {shape.name for shape in list_models()}
    assert names == set(PUBLISHED_PARAMETERS) | {name for name, *_ in PUBLISHED_ROUNDED}
    for shape in list_models():
        assert shape.source.startswith("config.json of ")
        assert shape.checkpoints
        assert shape.checkpoints[0].lower() in shape.source.lower()


@pytest.mark.parametrize(("name", "published"), PUBLISHED_KV_BYTES.items())
def test_cache_bytes_per_token_equal_the_published_ones(name: str, published: int) -> None:
    assert kv_bytes_per_token(get_model(name)) == published


def test_llama_3_8b_by_hand() -> None:
    shape = get_model("llama-3-8b")
    counts = parameter_counts(shape)
    assert attention_matrices(shape) == {
        "q_proj": (4096, 4096),
        "k_proj": (1024, 4096),
        "v_proj": (1024, 4096),
        "o_proj": (4096, 4096),
    }
    layers = 32 * (2 * 4096**2 + 2 * 4096 * 1024 + 3 * 4096 * 14336)  # the corrected formula: 6.979 G
    assert counts.attention_count + counts.ffn_count == layers == 6_979_321_856
    assert counts.embedding_count == counts.head_count == 128256 * 4096
    assert counts.small_count == 65 * 4096  # two norms per layer and the last one
    assert counts.active_count == counts.total_count - counts.embedding_count
    assert read_weight_count(shape) == layers + 128256 * 4096


def test_windowed_layers_keep_their_window() -> None:
    shape = get_model("gpt-oss-20b")  # 12 of 24 layers look back 128 tokens
    assert shape.windowed_count == 12
    assert kv_elements(shape, 100) == 24 * 100 * 2 * 8 * 64
    assert kv_elements(shape, 4096) == 12 * (4096 + 128) * 2 * 8 * 64
    assert kv_elements(shape, 4096, batch=3) == 3 * kv_elements(shape, 4096)
    gemma = get_model("gemma-3-27b")
    assert gemma.windowed_count == 52
    assert [gemma.is_windowed(layer) for layer in range(6)] == [True] * 5 + [False]


def test_a_latent_cache_holds_one_vector_for_all_heads() -> None:
    shape = get_model("deepseek-v3")
    assert shape.cached_elements_per_token == 512 + 64
    assert [shape.has_experts(layer) for layer in (0, 2, 3, 60)] == [False, False, True, True]
    assert parameter_counts(shape).router_count == 58 * 7168 * 256


@pytest.mark.parametrize(
    "name",
    [
        "llama-3-8b",
        "LLAMA-3-8B",
        "llama_3_8b",
        "meta-llama/Meta-Llama-3-8B",
        "Meta-Llama-3-8B-Instruct",
        "llama3:8b",
        "llama-3-8b-instruct",
        "Llama 3 8B",
    ],
)
def test_names_and_hub_ids_find_a_model(name: str) -> None:
    assert get_model(name).name == "llama-3-8b"


def test_no_two_models_share_a_name_and_another_format_is_another_checkpoint() -> None:
    for shape in list_models():
        for name in (shape.name, *shape.checkpoints):
            assert get_model(name) is shape
    for name in ("Qwen/Qwen3-8B-FP8", "llama-3-8b-awq"):
        with pytest.raises(UnknownNameError):
            get_model(name)


def test_an_unknown_name_gets_the_nearest_ones() -> None:
    with pytest.raises(UnknownNameError, match=r"'llama-3-9b'.*llama-3-8b") as raised:
        get_model("llama-3-9b")
    assert "config.json" in str(raised.value)


LLAMA = get_model("llama-3-8b")
SIZES = dict.fromkeys(("layer_count", "hidden_size", "query_heads", "kv_heads", "head_dim"), 8)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kv_heads": 5}, "query_heads 32 must be a multiple of kv_heads 5"),
        ({"layer_count": 0}, "layer_count must be a whole number"),
        ({"layer_count": 10**6}, "layer_count must be at most 10,000"),
        ({"hidden_size": 4096.0}, "hidden_size must be a whole number"),
        ({"vocab_size": True}, "vocab_size must be a whole number"),
        ({"ffn": "swiglu"}, "ffn must be gated or plain, got 'swiglu'"),
        ({"norm": "none"}, "norm must be rmsnorm or layernorm"),
        ({"window_size": 0, "window_pattern": "W"}, "window_size must be a whole number from 1"),
        ({"window_size": 128}, "window_size and window_pattern belong together"),
        ({"window_size": 128, "window_pattern": "WX"}, "window_pattern takes W"),
        ({"window_size": 128, "window_pattern": "W" * 33}, "names 33 layers, the model has 32"),
        ({"ffn_size": 0}, "ffn_size must be a whole number"),
        ({"rotary_ratio": 1.5}, "rotary_ratio must be between 0 and 1"),
        ({"weight_format": "FP17"}, "unknown format 'FP17'"),
        ({"experts": Experts(8, 2, 64, dense_layer_count=40)}, "dense_layer_count 40 is more than layer_count 32"),
        ({"experts": Experts(8, 2, 64, dense_layer_count=2), "ffn_size": 0}, "2 dense layers need an ffn_size"),
    ],
)
def test_contradictions_name_the_field(changes: dict[str, object], words: str) -> None:
    with pytest.raises((InvalidValueError, UnknownNameError)) as raised:
        replace(LLAMA, **changes)
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"expert_count": 8, "active_count": 9, "ffn_size": 64}, "active_count 9 is more than experts.expert_count 8"),
        ({"expert_count": 0, "active_count": 1, "ffn_size": 64}, "experts.expert_count must be"),
        ({"expert_count": 8, "active_count": 2, "ffn_size": 64, "has_shared_gate": True}, "shared_ffn_size"),
    ],
)
def test_experts_are_checked(arguments: dict[str, int], words: str) -> None:
    with pytest.raises(InvalidValueError) as raised:
        Experts(**arguments)
    assert words in str(raised.value)


def test_a_latent_is_checked() -> None:
    with pytest.raises(InvalidValueError, match=r"latent\.rope_dim"):
        LatentAttention(kv_rank=512, nope_dim=128, rope_dim=0, value_dim=128)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"layers": 3}, "m.toml, [x]: unknown field 'layers'"),
        ({"layer_count": 3}, "field ffn_size, head_dim, hidden_size, kv_heads"),
        (3, "must be a table"),
        (
            {
                **SIZES,
                "source": "s",
                "ffn_size": 8,
                "vocab_size": 8,
                "max_context_size": 8,
                "experts": {"expert_count": 2},
            },
            "[x] experts: field active_count, ffn_size is missing",
        ),
        (
            {**SIZES, "source": "s", "ffn_size": 8, "vocab_size": -1, "max_context_size": 8},
            "vocab_size must be a whole number",
        ),
    ],
)
def test_a_bad_table_names_file_model_and_field(table: object, words: str) -> None:
    with pytest.raises(DefinitionError) as raised:
        shape_from_table("x", table, "m.toml")
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("letters", "shortest"),
    [
        ("WFWF", "WF"),
        ("WFWFW", "WF"),
        ("WWWW", "W"),
        ("FFFF", ""),
        ("WWF", "WWF"),
        ("FW", "FW"),
        ("WWWWWFWW", "WWWWWF"),
    ],
)
def test_a_pattern_is_written_as_its_shortest_period(letters: str, shortest: str) -> None:
    assert smallest_pattern(letters) == shortest


def test_a_pattern_of_very_many_layers_takes_no_time():
    letters = "W" * 100_000 + "F"  # trying every length would take minutes
    assert smallest_pattern(letters) == letters
    assert smallest_pattern("WWF" * 50_000) == "WWF"


@pytest.mark.parametrize("name", ["", "  "])
def test_an_empty_name_is_no_folder(name, tmp_path, monkeypatch):
    (tmp_path / "config.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidValueError, match="the name of the model is empty"):
        get_model(name)
