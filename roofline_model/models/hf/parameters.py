"""How many numbers a decoder model holds: parameters by part, and cached elements per token. Exact, from its shape.

Counts: every tensor of the checkpoint, norms and biases included. Ignores: rotary tables (computed, not learned),
vision towers and multi-token-prediction modules.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from roofline_model.core.errors import InvalidValueError
from roofline_model.formats.catalog import NumberFormat, get_format
from roofline_model.models.model_registry import get_model
from roofline_model.models.model_shapes import ModelShape


@dataclass(frozen=True, slots=True)
class ParameterCounts:
    """Parameters of a whole model by part. A tied embedding is counted once, as `embedding`."""

    embedding_count: int
    attention_count: int
    """Matrices of the query, key, value and output projections (of MLA's down- and up-projections), all layers."""
    ffn_count: int
    """Matrices of the dense FFNs, all layers."""
    expert_count: int
    """Matrices of the routed experts, all layers."""
    shared_expert_count: int
    """Matrices and gates of the shared experts, all layers."""
    router_count: int
    small_count: int
    """Norms, biases and sinks of everything."""
    head_count: int
    """The output head; 0 when it is the embedding."""
    active_expert_count: int
    """Matrices and biases of the routed experts that one token visits, all layers."""
    expert_bias_count: int = 0
    """The part of `small_count` that belongs to routed experts."""

    @property
    def total_count(self) -> int:
        """All parameters of the checkpoint, a tied embedding once."""
        return (
            self.embedding_count
            + self.attention_count
            + self.ffn_count
            + self.expert_count
            + self.shared_expert_count
            + self.router_count
            + self.small_count
            + self.head_count
        )

    @property
    def active_count(self) -> int:
        """Parameters one token computes with: routed experts only as far as it visits them, the embedding table not.

        The convention of the gpt-oss model card (the output head counts, the embedding look-up does not; a tied one
        does).
        """
        rest = self.total_count - self.expert_count - self.expert_bias_count + self.active_expert_count
        return rest - (self.embedding_count if self.head_count else 0)


def parameter_counts(model: ModelShape | str | Path) -> ParameterCounts:
    """Count the parameters of a model: a shape, or what `get_model` takes (a name, a path, an id in the local
    cache).
    """
    shape = get_model(model)
    hidden, experts = shape.hidden_size, shape.experts
    layers = range(shape.layer_count)
    moe_layers = sum(shape.has_experts(layer) for layer in layers)
    dense_layers = shape.layer_count - moe_layers
    attention = sum(rows * columns for rows, columns in attention_matrices(shape).values())
    small = shape.layer_count * _small_per_layer(shape) + _norm(shape)
    small += dense_layers * _ffn_bias(shape)
    small += shape.vocab_size if shape.has_head_bias else 0
    routed = active = shared = router = expert_bias = 0
    if experts is not None:
        expert_weights = 3 * hidden * experts.ffn_size
        bias = 2 * experts.ffn_size + hidden if experts.has_expert_bias else 0
        routed = moe_layers * experts.expert_count * expert_weights
        active = moe_layers * experts.active_count * (expert_weights + bias)
        shared = moe_layers * (3 * hidden * experts.shared_ffn_size + (hidden if experts.has_shared_gate else 0))
        router = moe_layers * hidden * experts.expert_count
        expert_bias = moe_layers * experts.expert_count * bias
        small += expert_bias + (moe_layers * experts.expert_count if experts.has_router_bias else 0)
    table = shape.vocab_size * hidden
    return ParameterCounts(
        embedding_count=table,
        attention_count=shape.layer_count * attention,
        ffn_count=dense_layers * ffn_matrix_count(shape) * hidden * shape.ffn_size,
        expert_count=routed,
        shared_expert_count=shared,
        router_count=router,
        small_count=small,
        head_count=0 if shape.has_tied_embedding else table,
        active_expert_count=active,
        expert_bias_count=expert_bias,
    )


def attention_matrices(shape: ModelShape) -> dict[str, tuple[int, int]]:
    """Return the attention projections of one layer as name → (output, input) features."""
    hidden, latent = shape.hidden_size, shape.latent
    if latent is None:
        return {
            "q_proj": (shape.query_width, hidden),
            "k_proj": (shape.kv_width, hidden),
            "v_proj": (shape.kv_width, hidden),
            "o_proj": (hidden, shape.attention_width),
        }
    queries = shape.query_heads * latent.query_dim
    matrices = {"q_proj": (queries, hidden)}
    if latent.query_rank is not None:
        matrices = {"q_a_proj": (latent.query_rank, hidden), "q_b_proj": (queries, latent.query_rank)}
    return {
        **matrices,
        "kv_a_proj": (latent.cached_dim, hidden),
        "kv_b_proj": (shape.query_heads * (latent.nope_dim + latent.value_dim), latent.kv_rank),
        "o_proj": (hidden, shape.attention_width),
    }


def ffn_matrix_count(shape: ModelShape) -> int:
    """Return 3 for a gated FFN (gate, up, down), 2 for a plain one (up, down)."""
    return 3 if shape.ffn == "gated" else 2


def read_weight_count(model: ModelShape | str | Path) -> int:
    """Return the matrix elements one token of decode reads: projections, FFN (experts it visits), head; no norm, no
    table.

    The numerator of the original documents' crossover formula, with its attention term corrected (docs/theory/math.md).
    """
    shape = get_model(model)
    counts = parameter_counts(shape)
    experts = 0
    if shape.experts is not None and counts.expert_count:
        experts = counts.expert_count * shape.experts.active_count // shape.experts.expert_count
    head = shape.vocab_size * shape.hidden_size
    return counts.attention_count + counts.ffn_count + experts + counts.shared_expert_count + counts.router_count + head


def kv_elements(model: ModelShape | str | Path, context: int, batch: int = 1) -> int:
    """Return the cached elements of `batch` sequences of `context` tokens; windowed layers keep only their window."""
    shape = get_model(model)
    if context < 0 or batch < 1:
        raise InvalidValueError(f"context must be ≥ 0 and batch ≥ 1, got {context} and {batch}")
    window = context if shape.window_size is None else min(context, shape.window_size)
    tokens = (shape.layer_count - shape.windowed_count) * context + shape.windowed_count * window
    return batch * tokens * shape.cached_elements_per_token


def model_kv_bytes(
    model: ModelShape | str | Path, context: int, batch: int = 1, *, kv: str | NumberFormat = "BF16"
) -> float:
    """Return the bytes of the KV cache in format `kv`, scales included at their nominal share.

    Llama-3 8B, 32,768 tokens: 4096 MiB at 16 bit, 2048 MiB at FP8, 1160 MiB at NVFP4 (4.53125 bits).
    """
    return kv_elements(model, context, batch) * get_format(kv).traffic_bytes_per_element


def kv_bytes_per_token(model: ModelShape | str | Path, *, kv: str | NumberFormat = "BF16") -> float:
    """Return the bytes one more token adds to the cache while it is shorter than any window."""
    return model_kv_bytes(model, 1, kv=kv)


def _norm(shape: ModelShape) -> int:
    return shape.hidden_size * (2 if shape.norm == "layernorm" else 1)


def _small_per_layer(shape: ModelShape) -> int:
    """Return the norms, biases and sinks of one layer, without those of its FFN."""
    small = shape.norm_count * _norm(shape)
    if shape.has_qk_norm:
        small += 2 * shape.head_dim
    if shape.has_qkv_bias:
        small += shape.query_width + 2 * shape.kv_width
    if shape.has_output_bias:
        small += shape.hidden_size
    if shape.has_sinks:
        small += shape.query_heads
    if shape.latent is not None:
        small += shape.latent.kv_rank + (shape.latent.query_rank or 0)
    return small


def _ffn_bias(shape: ModelShape) -> int:
    if not shape.has_ffn_bias:
        return 0
    return shape.ffn_size * (2 if shape.ffn == "gated" else 1) + shape.hidden_size
