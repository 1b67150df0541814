"""The decoder architectures of Hugging Face that we can read: what each one's code fixes beside its config.json.

One entry per name in `architectures`. A field that the class itself fills in by rule is listed under `defaults`; what
the code fixes (biases, norms, the kind of FFN) under `fixed`. Source: the model and configuration classes of
transformers 5.23 (models/*/configuration_*.py and modeling_*.py), read 2026-11-21.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from roofline_model.core.errors import DefinitionError, InvalidValueError, UnsupportedError
from roofline_model.models.hf.unmodelled_parts import DENSE_FIRST, EXPERTS, LATENT, SHARED_EXPERTS, unmodelled_parts
from roofline_model.models.model_shapes import FULL, WINDOWED, Experts, smallest_pattern
from roofline_model.operators.product import MAX_DIMENSION

_ADD_IT = "add it: the config.json published with the checkpoint has it"


@dataclass(frozen=True, slots=True)
class Config:
    """The fields of one config.json, read with checks: every error names file and field."""

    values: Mapping[str, Any]
    defaults: Mapping[str, Any]
    where: str

    def get(self, *names: str) -> Any:
        """Return the first of `names` that is given and not null, else the architecture's default for one, else
        None.
        """
        for source in (self.values, self.defaults):
            for name in names:
                if source.get(name) is not None:
                    return source[name]
        return None

    def size(self, *names: str, least: int = 1) -> int:
        """Return a required whole number; the first of `names` is the one an error asks for."""
        value = self.optional_size(*names, least=least)
        if value is None:
            raise DefinitionError(f"{self.where}: field {names[0]!r} is missing; {_ADD_IT}")
        return value

    def optional_size(self, *names: str, least: int = 1) -> int | None:
        """Return a whole number, or None when the field is absent or null."""
        value = self.get(*names)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MAX_DIMENSION:
            shown = repr(value)[:40]
            raise DefinitionError(
                f"{self.where}: {names[0]} must be a whole number from {least} to {MAX_DIMENSION:,}, got {shown}"
            )
        return value

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Return a true/false field."""
        value = self.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise DefinitionError(f"{self.where}: {name} must be true or false, got {repr(value)[:40]}")
        return value

    def text(self, *names: str) -> str:
        """Return a required text field."""
        value = self.get(*names)
        if not isinstance(value, str):
            problem = f"is missing; {_ADD_IT}" if value is None else f"must be text, got {repr(value)[:40]}"
            raise DefinitionError(f"{self.where}: field {names[0]!r} {problem}")
        return value

    def ratio(self, name: str) -> float:
        """Return a share between 0 and 1; it may stand in `rope_parameters`; 1 when it is nowhere."""
        rope = self.values.get("rope_parameters")
        value = self.values.get(name)
        if value is None and isinstance(rope, dict):
            value = rope.get(name)
        if value is None:
            value = self.defaults.get(name, 1.0)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            raise DefinitionError(f"{self.where}: {name} must be a number from 0 to 1, got {repr(value)[:40]}")
        return float(value)


WindowRule = Callable[[Config, int, int], tuple[int | None, str]]


def full_attention(config: Config, layers: int, context: int) -> tuple[int | None, str]:
    """Every layer sees the whole context."""
    return None, ""


def window_everywhere(config: Config, layers: int, context: int) -> tuple[int | None, str]:
    """`sliding_window` holds for every layer, or for those `layer_types` names; null: none (Mistral, Phi-3)."""
    return _windows(config, layers, context, lambda layer: True)


def window_switched(config: Config, layers: int, context: int) -> tuple[int | None, str]:
    """`sliding_window` holds from `max_window_layers` on, and only with `use_sliding_window` (Qwen)."""
    if not config.flag("use_sliding_window"):
        return None, ""
    first = config.size("max_window_layers", least=0)
    return _windows(config, layers, context, lambda layer: layer >= first)


def window_alternating(config: Config, layers: int, context: int) -> tuple[int | None, str]:
    """Every second layer has the window, beginning with the first (Gemma 2, gpt-oss)."""
    return _windows(config, layers, context, lambda layer: layer % 2 == 0)


def window_five_to_one(config: Config, layers: int, context: int) -> tuple[int | None, str]:
    """Every `sliding_window_pattern`-th layer is full, the others have the window (Gemma 3)."""
    every = config.size("sliding_window_pattern", "_sliding_window_pattern")
    return _windows(config, layers, context, lambda layer: (layer + 1) % every != 0)


def _windows(config: Config, layers: int, context: int, rule: Callable[[int], bool]) -> tuple[int | None, str]:
    window = config.optional_size("sliding_window")
    if window is None or window >= context:  # a window no context can fill hides nothing
        return None, ""
    letters = _layer_letters(config, layers) or "".join(WINDOWED if rule(layer) else FULL for layer in range(layers))
    pattern = smallest_pattern(letters)
    return (window, pattern) if pattern else (None, "")


def _layer_letters(config: Config, layers: int) -> str:
    """Return one letter per layer from `layer_types`, or nothing where the config has none."""
    kinds = config.get("layer_types")
    if kinds is None:
        return ""
    if not isinstance(kinds, list) or len(kinds) != layers:
        raise DefinitionError(f"{config.where}: layer_types must be a list with one entry for each of {layers} layers")
    letters = {"sliding_attention": WINDOWED, "full_attention": FULL}
    for kind in kinds:
        if not isinstance(kind, str) or kind not in letters:
            raise UnsupportedError(
                f"{config.where}: layer_types holds {repr(kind)[:40]}; only sliding_attention and full_attention "
                "layers can be predicted"
            )
    return "".join(letters[kind] for kind in kinds)


def no_experts(config: Config) -> Experts | None:
    """Every layer has a dense FFN."""
    return None


def mixtral_experts(config: Config) -> Experts:
    """Experts of width `intermediate_size` in every layer."""
    return _experts(config, config.size("num_local_experts"), config.size("intermediate_size"))


def gpt_oss_experts(config: Config) -> Experts:
    """The same, with biases on router and experts."""
    return _experts(
        config,
        config.size("num_local_experts"),
        config.size("intermediate_size"),
        has_router_bias=True,
        has_expert_bias=True,
    )


def qwen_experts(config: Config) -> Experts:
    """Experts of width `moe_intermediate_size`; Qwen2 adds a gated shared expert."""
    _only_every_layer(config, "decoder_sparse_step")
    dense = config.get("mlp_only_layers") or []
    if not isinstance(dense, list) or dense != list(range(len(dense))):
        raise UnsupportedError(
            f"{config.where}: mlp_only_layers {repr(dense)[:40]} names others than the first layers; that cannot be "
            "predicted"
        )
    shared = config.optional_size("shared_expert_intermediate_size", least=0) or 0
    return _experts(
        config,
        config.size("num_experts", "num_local_experts"),
        config.size("moe_intermediate_size"),
        shared_ffn_size=shared,
        has_shared_gate=bool(shared),
        dense_layer_count=len(dense),
    )


def deepseek_v2_experts(config: Config) -> Experts | None:
    """Routed and shared experts behind the first dense layers."""
    return _deepseek_experts(config, has_router_bias=False)


def deepseek_v3_experts(config: Config) -> Experts | None:
    """The same, with a correction bias per routed expert."""
    return _deepseek_experts(config, has_router_bias=True)


def _deepseek_experts(config: Config, *, has_router_bias: bool) -> Experts | None:
    if config.get("n_routed_experts") is None:
        return None
    _only_every_layer(config, "moe_layer_freq")
    size = config.size("moe_intermediate_size")
    return _experts(
        config,
        config.size("n_routed_experts"),
        size,
        shared_ffn_size=size * (config.optional_size("n_shared_experts", least=0) or 0),
        dense_layer_count=config.size("first_k_dense_replace", least=0),
        has_router_bias=has_router_bias,
    )


def _only_every_layer(config: Config, name: str) -> None:
    every = config.optional_size(name)
    if every not in (None, 1):
        raise UnsupportedError(f"{config.where}: {name} = {every}; only experts in every layer (1) can be predicted")


def _experts(config: Config, count: int, size: int, **more: Any) -> Experts:
    try:
        return Experts(count, config.size("num_experts_per_tok"), size, **more)
    except InvalidValueError as error:
        text = str(error).replace("experts.active_count", "num_experts_per_tok")
        raise DefinitionError(
            f"{config.where}: {text.replace('experts.expert_count', 'the number of experts')}"
        ) from None


def attention_bias(config: Config) -> dict[str, bool]:
    """`attention_bias` puts a bias on all four projections, `mlp_bias` on the FFN's (Llama and most others)."""
    both = config.flag("attention_bias")
    return {"has_qkv_bias": both, "has_output_bias": both, "has_ffn_bias": config.flag("mlp_bias")}


def qkv_bias(config: Config) -> dict[str, bool]:
    """Query, key and value have a bias, the output has none (Qwen2; `qkv_bias` may switch it off)."""
    return {"has_qkv_bias": config.flag("qkv_bias", default=True)}


def phi_bias(config: Config) -> dict[str, bool]:
    """Everything has a bias (Phi-1 and Phi-2)."""
    return {"has_qkv_bias": True, "has_output_bias": True, "has_ffn_bias": True, "has_head_bias": True}


def phi_moe_bias(config: Config) -> dict[str, bool]:
    """Switched by `attention_bias` and `lm_head_bias`."""
    return {**attention_bias(config), "has_head_bias": config.flag("lm_head_bias")}


@dataclass(frozen=True, slots=True)
class Architecture:
    """What a model class adds to its config."""

    fixed: Mapping[str, Any] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Fields the configuration class supplies where published files leave them out."""
    windows: WindowRule = full_attention
    experts: Callable[[Config], Experts | None] = no_experts
    biases: Callable[[Config], dict[str, bool]] = attention_bias
    is_latent: bool = False

    @property
    def modelled_parts(self) -> tuple[str, ...]:
        """Return the parts of `unmodelled_parts` that this class has a model of."""
        of_experts: dict[Callable[[Config], Experts | None], tuple[str, ...]] = {
            no_experts: (),
            qwen_experts: (EXPERTS, SHARED_EXPERTS),
            deepseek_v2_experts: (EXPERTS, SHARED_EXPERTS, DENSE_FIRST),
            deepseek_v3_experts: (EXPERTS, SHARED_EXPERTS, DENSE_FIRST),
        }
        experts = of_experts.get(self.experts, (EXPERTS,))
        return (*experts, LATENT) if self.is_latent else experts


_GEMMA = {"norm_count": 4}
_TIED = {"tie_word_embeddings": True}
# google/gemma-3-4b-it and its larger sisters publish a text_config without these fields.
_GEMMA_3 = {
    **_TIED,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "vocab_size": 262208,
    "max_position_embeddings": 131072,
    "sliding_window": 4096,
    "sliding_window_pattern": 6,
    "hidden_activation": "gelu_pytorch_tanh",
}
_GEMMA_3_ENTRY = Architecture(
    fixed={**_GEMMA, "has_qk_norm": True}, defaults=_GEMMA_3, windows=window_five_to_one, biases=attention_bias
)
_DENSE_QWEN_3 = Architecture(fixed={"has_qk_norm": True}, windows=window_switched)

ARCHITECTURES: dict[str, Architecture] = {
    "LlamaForCausalLM": Architecture(),
    "GraniteForCausalLM": Architecture(),
    "SmolLM3ForCausalLM": Architecture(defaults=_TIED, windows=window_switched),
    "MistralForCausalLM": Architecture(windows=window_everywhere),
    "Mistral3ForConditionalGeneration": Architecture(windows=window_everywhere),
    "MixtralForCausalLM": Architecture(windows=window_everywhere, experts=mixtral_experts),
    "Qwen2ForCausalLM": Architecture(windows=window_switched, biases=qkv_bias),
    "Qwen2MoeForCausalLM": Architecture(windows=window_switched, biases=qkv_bias, experts=qwen_experts),
    "Qwen3ForCausalLM": _DENSE_QWEN_3,
    "Qwen3MoeForCausalLM": Architecture(fixed={"has_qk_norm": True}, windows=window_switched, experts=qwen_experts),
    "GemmaForCausalLM": Architecture(defaults={**_TIED, "head_dim": 256}),
    "Gemma2ForCausalLM": Architecture(fixed=_GEMMA, defaults={**_TIED, "head_dim": 256}, windows=window_alternating),
    "Gemma3ForCausalLM": _GEMMA_3_ENTRY,
    "Gemma3ForConditionalGeneration": _GEMMA_3_ENTRY,
    "PhiForCausalLM": Architecture(
        fixed={"ffn": "plain", "norm": "layernorm", "norm_count": 1, "is_parallel": True},
        defaults={"hidden_act": "gelu_new", "partial_rotary_factor": 0.5},
        biases=phi_bias,
    ),
    "Phi3ForCausalLM": Architecture(windows=window_everywhere),
    "PhimoeForCausalLM": Architecture(
        fixed={"norm": "layernorm"}, windows=window_everywhere, experts=mixtral_experts, biases=phi_moe_bias
    ),
    "PhiMoEForCausalLM": Architecture(
        fixed={"norm": "layernorm"}, windows=window_everywhere, experts=mixtral_experts, biases=phi_moe_bias
    ),
    "GptOssForCausalLM": Architecture(
        fixed={"has_sinks": True},
        defaults={"attention_bias": True},
        windows=window_alternating,
        experts=gpt_oss_experts,
    ),
    "DeepseekV2ForCausalLM": Architecture(experts=deepseek_v2_experts, is_latent=True),
    "DeepseekV3ForCausalLM": Architecture(experts=deepseek_v3_experts, is_latent=True),
}
"""Name in `architectures` → what its class fixes."""


def architecture_of(data: Mapping[str, Any], where: str) -> Architecture:
    """Return the entry of the config's architecture.

    Raises `UnsupportedError` that names the parts of the model, or the class, that have no model here. It names no
    other class: layers of another one give an answer that looks right.
    """
    names = data.get("architectures")
    if isinstance(names, str):
        names = [names]
    if not isinstance(names, list) or not names or not isinstance(names[0], str):
        raise DefinitionError(
            f"{where}: field 'architectures' is missing; it names the model class, e.g. LlamaForCausalLM"
        )
    name = next((name for name in names if name in ARCHITECTURES), names[0])
    architecture = ARCHITECTURES.get(name)
    parts = unmodelled_parts(data, (architecture or ARCHITECTURES["DeepseekV3ForCausalLM"]).modelled_parts)
    if parts:
        shown = [f"{part} ({field})" for part, field in parts.items()]
        more = f" and {len(shown) - 3} more" if len(shown) > 3 else ""
        raise UnsupportedError(
            f"{where}: {str(name)[:80]} with {', '.join(shown[:3])}{more} has no model here, and its other layers alone "
            "would give a wrong answer"
        )
    if architecture is None:
        raise UnsupportedError(
            f"{where}: the model class {str(name)[:80]!r} has no model here; `roofline_model.supported_architectures()` "
            "lists those that have one"
        )
    return architecture
