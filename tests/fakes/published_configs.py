"""The fields of published config.json files that shape a model, as their owners wrote them (old and new spellings)."""

from __future__ import annotations

from typing import Any

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
