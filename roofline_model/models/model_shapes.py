"""The shape of a decoder model: layers, heads, widths, experts and windows, exactly as its checkpoint declares them.

A `ModelShape` is what config.json says, in our words; `model_registry.py` reads the ones we ship (models/catalog),
`hf/config.py` any other from its config.json, `hf/parameters.py` counts parameters, `llm.py` predicts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from roofline_model.core.errors import InvalidValueError
from roofline_model.formats.catalog import get_format
from roofline_model.operators.product import check_dimension

FeedForward = Literal["gated", "plain"]
Norm = Literal["rmsnorm", "layernorm"]

WINDOWED, FULL = "W", "F"
"""Letters of `ModelShape.window_pattern`."""


DEFAULT_CONTEXT = 4096
"""Tokens of a sequence where nobody names them; fewer where the model's longest is shorter."""
MAX_LAYERS = 10_000
"""More are taken for a slip: the deepest published decoders have some hundred."""


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """Multi-head latent attention (MLA): keys and values of all heads are rebuilt from one cached vector per token.

    Source: DeepSeek-AI, "DeepSeek-V2", arXiv 2405.04434, §2.1.
    """

    kv_rank: int
    """Width of the cached latent (kv_lora_rank); `rope_dim` more are cached beside it for the rotary part of the
    key.
    """
    nope_dim: int
    """Width of a head's query and key without rotary position (qk_nope_head_dim)."""
    rope_dim: int
    """Width of the rotary part, one key for all heads (qk_rope_head_dim)."""
    value_dim: int
    """Width of a head's value (v_head_dim)."""
    query_rank: int | None = None
    """Width of the query's own latent (q_lora_rank); None: queries are projected directly."""

    def __post_init__(self) -> None:
        for name in ("kv_rank", "nope_dim", "rope_dim", "value_dim"):
            _check_size(f"latent.{name}", getattr(self, name))
        if self.query_rank is not None:
            _check_size("latent.query_rank", self.query_rank)

    @property
    def cached_dim(self) -> int:
        """Elements cached per token and layer."""
        return self.kv_rank + self.rope_dim

    @property
    def query_dim(self) -> int:
        """Width of one head's query and key."""
        return self.nope_dim + self.rope_dim


@dataclass(frozen=True, slots=True)
class Experts:
    """The mixture of experts that replaces the FFN in most layers. Every expert is a gated FFN of width `ffn_size`."""

    expert_count: int
    """Routed experts of one layer."""
    active_count: int
    """Routed experts one token visits."""
    ffn_size: int
    """Intermediate width of one routed expert."""
    shared_ffn_size: int = 0
    """Intermediate width of the shared experts together, which every token visits; 0: none."""
    dense_layer_count: int = 0
    """The first layers that keep a dense FFN (DeepSeek-V3: 3)."""
    has_router_bias: bool = False
    """One number per routed expert beside the router's weights."""
    has_expert_bias: bool = False
    has_shared_gate: bool = False
    """A hidden → 1 gate scales the shared expert's output (Qwen MoE)."""

    def __post_init__(self) -> None:
        for name in ("expert_count", "active_count", "ffn_size"):
            _check_size(f"experts.{name}", getattr(self, name))
        for name in ("shared_ffn_size", "dense_layer_count"):
            _check_size(f"experts.{name}", getattr(self, name), least=0)
        if self.active_count > self.expert_count:
            raise InvalidValueError(
                f"experts.active_count {self.active_count} is more than experts.expert_count {self.expert_count}"
            )
        if self.has_shared_gate and not self.shared_ffn_size:
            raise InvalidValueError("experts.has_shared_gate needs experts.shared_ffn_size")


@dataclass(frozen=True, slots=True)
class ModelShape:
    """One decoder model. Sizes are elements; nothing here depends on a number format except the checkpoint's own."""

    DERIVED: ClassVar = ("expert_format",)

    name: str
    source: str
    """Where the numbers are from, e.g. "config.json of meta-llama/Meta-Llama-3-8B"."""
    layer_count: int
    hidden_size: int
    query_heads: int
    kv_heads: int
    head_dim: int
    ffn_size: int
    """Intermediate width of the dense FFN (also of the dense layers of a mixture); 0 when every layer has experts."""
    vocab_size: int
    max_context_size: int
    """Longest context the checkpoint declares (max_position_embeddings), in tokens."""
    ffn: FeedForward = "gated"
    """gated: gate and up projection before the activation (SwiGLU, GeGLU); plain: one (GELU)."""
    activation: str = "silu"
    norm: Norm = "rmsnorm"
    norm_count: int = 2
    """Norms of one layer over the hidden width: 2; 4 with norms behind attention and FFN (Gemma); 1 in a parallel
    block.
    """
    has_tied_embedding: bool = False
    has_qk_norm: bool = False
    """RMSNorm over each query and key head."""
    has_qkv_bias: bool = False
    has_output_bias: bool = False
    """Bias of the attention's output projection."""
    has_ffn_bias: bool = False
    has_head_bias: bool = False
    has_sinks: bool = False
    """One learned attention sink per query head (gpt-oss)."""
    rotary_ratio: float = 1.0
    """Share of a head's width that is rotated (Phi-2: 0.4)."""
    is_parallel: bool = False
    """Attention and FFN read the same norm and are added together (Phi-2)."""
    window_size: int | None = None
    """Tokens a sliding-window layer looks back; None: every layer sees everything."""
    window_pattern: str = ""
    """Layer kinds from the first layer on, repeated: "WF" = window, full, window, …; empty without a window."""
    experts: Experts | None = None
    latent: LatentAttention | None = None
    wide_format: str = "BF16"
    """16-bit (or wider) float of the checkpoint: norms, embeddings, head, and every matrix it does not quantise."""
    weight_format: str | None = "BF16"
    """Format of the checkpoint's layer matrices; None where its quantisation is not one we know."""
    activation_format: str | None = None
    """Format that these are multiplied in; None: as published checkpoints of that format usually are."""
    cache_format: str | None = None
    """Format of keys and values that the checkpoint asks for; None: its 16-bit one."""
    format_exceptions: tuple[str, ...] = ()
    """Parts that the checkpoint stores otherwise, `PART=FORMATS` (gpt-oss: `experts=MXFP4.BF16`)."""
    checkpoints: tuple[str, ...] = ()
    """Hub ids that have exactly this shape; they work as names."""

    def __post_init__(self) -> None:
        for name in (
            "layer_count",
            "hidden_size",
            "query_heads",
            "kv_heads",
            "head_dim",
            "vocab_size",
            "max_context_size",
        ):
            _check_size(f"{self.name}: {name}", getattr(self, name))
        _check_size(f"{self.name}: ffn_size", self.ffn_size, least=0 if self.experts else 1)
        _check_size(f"{self.name}: norm_count", self.norm_count)
        if self.layer_count > MAX_LAYERS:
            raise InvalidValueError(f"{self.name}: layer_count must be at most {MAX_LAYERS:,}, got {self.layer_count}")
        if self.query_heads % self.kv_heads:
            raise InvalidValueError(
                f"{self.name}: query_heads {self.query_heads} must be a multiple of kv_heads {self.kv_heads}"
            )
        for name, allowed in (("ffn", ("gated", "plain")), ("norm", ("rmsnorm", "layernorm"))):
            if getattr(self, name) not in allowed:
                raise InvalidValueError(
                    f"{self.name}: {name} must be {' or '.join(allowed)}, got {getattr(self, name)!r}"
                )
        self._check_windows()
        self._check_experts()
        if not 0 <= self.rotary_ratio <= 1:
            raise InvalidValueError(f"{self.name}: rotary_ratio must be between 0 and 1, got {self.rotary_ratio!r}")
        for key in (self.wide_format, self.weight_format, self.activation_format, self.cache_format):
            if key is not None:
                get_format(key)

    @property
    def expert_format(self) -> str | None:
        """Format of the routed experts where the checkpoint stores them otherwise than its other matrices."""
        parts = dict(text.split("=", 1) for text in self.format_exceptions)
        return parts["experts"].partition(".")[0] if "experts" in parts else None

    def _check_windows(self) -> None:
        if self.window_size is not None:
            _check_size(f"{self.name}: window_size", self.window_size)
        if (self.window_size is None) != (not self.window_pattern):
            raise InvalidValueError(
                f"{self.name}: window_size and window_pattern belong together; give both or neither"
            )
        if set(self.window_pattern) - {WINDOWED, FULL}:
            raise InvalidValueError(
                f"{self.name}: window_pattern takes {WINDOWED} (window) and {FULL} (full), got {self.window_pattern!r}"
            )
        if len(self.window_pattern) > self.layer_count:
            raise InvalidValueError(
                f"{self.name}: window_pattern names {len(self.window_pattern)} layers, the model has {self.layer_count}"
            )

    def _check_experts(self) -> None:
        dense = self.layer_count if self.experts is None else self.experts.dense_layer_count
        if dense > self.layer_count:
            raise InvalidValueError(
                f"{self.name}: experts.dense_layer_count {dense} is more than layer_count {self.layer_count}"
            )
        if dense and not self.ffn_size:
            raise InvalidValueError(f"{self.name}: {dense} dense layers need an ffn_size")

    # --- derived sizes

    @property
    def query_width(self) -> int:
        """Width of all query heads together (the hidden size in most models, not in all)."""
        return self.query_heads * self.head_dim

    @property
    def kv_width(self) -> int:
        """Width of all key heads together (of the values as well)."""
        return self.kv_heads * self.head_dim

    @property
    def attention_width(self) -> int:
        """Width of what attention hands to the output projection."""
        return self.query_heads * (self.latent.value_dim if self.latent else self.head_dim)

    @property
    def cached_elements_per_token(self) -> int:
        """KV-cache elements one token leaves in one layer."""
        return self.latent.cached_dim if self.latent else 2 * self.kv_width

    def is_windowed(self, layer: int) -> bool:
        """Return whether a layer (from 0) sees only the last `window_size` tokens."""
        return bool(self.window_pattern) and self.window_pattern[layer % len(self.window_pattern)] == WINDOWED

    def has_experts(self, layer: int) -> bool:
        """Return whether a layer (from 0) has experts instead of one dense FFN."""
        return self.experts is not None and layer >= self.experts.dense_layer_count

    @property
    def windowed_count(self) -> int:
        """Layers with a sliding window."""
        return sum(self.is_windowed(layer) for layer in range(self.layer_count))


def smallest_pattern(letters: str) -> str:
    """Return the shortest text whose repetition gives `letters`: "WFWFW" → "WF"; empty when no layer has a window.

    Linear in the layers: the longest proper border of each prefix from those before it (Knuth, Morris, Pratt 1977);
    what a text has beyond its longest border is its smallest period.
    """
    if WINDOWED not in letters:
        return ""
    borders = [0] * len(letters)
    border = 0
    for i in range(1, len(letters)):
        while border and letters[i] != letters[border]:
            border = borders[border - 1]
        border += letters[i] == letters[border]
        borders[i] = border
    return letters[: len(letters) - border]


def _check_size(name: str, size: Any, *, least: int = 1) -> None:
    if least == 0 and size == 0 and not isinstance(size, bool):
        return
    check_dimension(name, size)
