"""A decoder as a list of layers: what each mixes tokens with, what follows it, and the matrices both hold.

A layer is a mixer (attention of some kind, or a recurrence) and a feed-forward block; either may be missing, as in
Nemotron-H, whose list holds them one by one. A model family is nothing but such a list: there is no class per name.
Sizes are elements; formats are the checkpoint's (`stored_formats`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

Role = Literal[
    "attention",
    "linear",
    "indexer",
    "ffn",
    "shared_expert",
    "expert",
    "router",
    "embedding",
    "per_layer_embedding",
    "lm_head",
]
"""What a matrix is for; a checkpoint stores each role in a format of its own."""
_STATE_BYTES = 4
"""Recurrent states are kept in FP32 by every engine that was read (vLLM 0.33: `mamba_ssm_cache_dtype`)."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """One weight matrix of a layer, or several of the same shape."""

    role: Role
    name: str
    """As checkpoints name its module; patterns of what is not quantised match it."""
    n: int
    """Output features."""
    k: int
    """Input features."""
    count: int = 1

    @property
    def element_count(self) -> int:
        """Elements of all of them."""
        return self.n * self.k * self.count


@dataclass(frozen=True, slots=True)
class Attention:
    """Softmax attention with grouped queries."""

    heads: int
    kv_heads: int
    key_dim: int
    """Width of one head's query and key."""
    value_dim: int
    window: int | None = None
    """Tokens it looks back; None: all."""
    has_gate: bool = False
    """A gate as wide as the queries, projected with them."""
    has_own_cache: bool = True
    """False: it reads the cache of an earlier layer, and has no key and value projections."""
    is_value_key: bool = False
    """The values are the keys: one projection for both."""

    def matrices(self, hidden: int) -> Iterator[Matrix]:
        """Yield its projections."""
        gate = 2 if self.has_gate else 1
        yield Matrix("attention", "q_proj", gate * self.heads * self.key_dim, hidden)
        if self.has_own_cache:
            yield Matrix("attention", "k_proj", self.kv_heads * self.key_dim, hidden)
        if self.has_own_cache and not self.is_value_key:
            yield Matrix("attention", "v_proj", self.kv_heads * self.value_dim, hidden)
        yield Matrix("attention", "o_proj", hidden, self.heads * self.value_dim)

    def seen(self, context: float) -> float:
        """Return how many tokens a query sees."""
        return context if self.window is None else min(context, self.window)

    def read_elements(self, context: float) -> float:
        """Return the cached elements that one token of decode reads."""
        return self.kv_heads * (self.key_dim + self.value_dim) * self.seen(context)

    def held_elements(self, context: float) -> float:
        """Return the elements that a sequence keeps in memory."""
        return self.read_elements(context) if self.has_own_cache else 0.0

    def flops(self, new_tokens: float, cached: float) -> float:
        """Return the FLOPs of scores and values of new tokens after cached ones: half of the new ones are seen."""
        return 2.0 * self.heads * (self.key_dim + self.value_dim) * new_tokens * self.seen(cached + new_tokens / 2)


@dataclass(frozen=True, slots=True)
class Latent:
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434), with or without a sparse index (DeepSeek-V3.2)."""

    heads: int
    query_rank: int
    """0: queries are projected directly."""
    kv_rank: int
    nope_dim: int
    rope_dim: int
    value_dim: int
    has_gate: bool = False
    index_heads: int = 0
    """Heads of the index that picks `index_top_count` tokens; 0: none."""
    index_dim: int = 0
    index_top_count: int | None = None
    has_own_index: bool = True
    """False: it takes what an earlier layer's index picked."""

    def matrices(self, hidden: int) -> Iterator[Matrix]:
        """Yield its projections, those of the index among them."""
        queries = self.heads * (self.nope_dim + self.rope_dim)
        if self.query_rank:
            yield Matrix("attention", "q_a_proj", self.query_rank, hidden)
        yield Matrix("attention", "q_b_proj" if self.query_rank else "q_proj", queries, self.query_rank or hidden)
        yield Matrix("attention", "kv_a_proj_with_mqa", self.cached_dim, hidden)
        yield Matrix("attention", "kv_b_proj", self.heads * (self.nope_dim + self.value_dim), self.kv_rank)
        yield Matrix("attention", "o_proj", hidden, self.heads * self.value_dim)
        if self.has_gate:
            yield Matrix("attention", "g_proj", self.heads * self.value_dim, hidden)
        if self.index_heads and self.has_own_index:
            yield Matrix("indexer", "indexer.wq_b", self.index_heads * self.index_dim, self.query_rank or hidden)
            yield Matrix("indexer", "indexer.wk", self.index_dim, hidden)
            yield Matrix("indexer", "indexer.weights_proj", self.index_heads, hidden)

    @property
    def cached_dim(self) -> int:
        """Elements cached per token, for all heads."""
        return self.kv_rank + self.rope_dim

    def seen(self, context: float) -> float:
        """Return how many tokens a query sees."""
        return context if self.index_top_count is None else min(context, self.index_top_count)

    def read_elements(self, context: float) -> float:
        """Return the cached elements that one token of decode reads."""
        return self.cached_dim * self.seen(context)

    def held_elements(self, context: float) -> float:
        """Return the elements that a sequence keeps in memory, keys of the index among them."""
        return (self.cached_dim + (self.index_dim if self.index_heads and self.has_own_index else 0)) * context

    def flops(self, new_tokens: float, cached: float) -> float:
        """Return the FLOPs of scores and values of new tokens after cached ones."""
        width = self.nope_dim + self.rope_dim + self.value_dim
        return 2.0 * self.heads * width * new_tokens * self.seen(cached + new_tokens / 2)


@dataclass(frozen=True, slots=True)
class Recurrent:
    """Attention by a recurrence with a state of fixed size: Gated DeltaNet, Kimi's delta attention, or Mamba2."""

    kind: Literal["gated-delta", "kimi-delta", "mamba2"]
    key_heads: int
    """Heads of query and key; of Mamba2 the groups that share B and C."""
    value_heads: int
    key_dim: int
    """Width of a head's key; of Mamba2 the size of the state (d_state)."""
    value_dim: int
    convolution_size: int
    """Tokens of the convolution before it, the newest among them."""

    @property
    def _keys(self) -> int:
        return self.key_heads * self.key_dim

    @property
    def _values(self) -> int:
        return self.value_heads * self.value_dim

    def matrices(self, hidden: int) -> Iterator[Matrix]:
        """Yield its projections and its convolution."""
        if self.kind == "kimi-delta":
            rank = self.value_dim
            yield Matrix("linear", "qkv_proj", 2 * self._keys + self._values, hidden)
            yield Matrix("linear", "f_a_proj", rank, hidden)
            yield Matrix("linear", "f_b_proj", self._keys, rank)
            yield Matrix("linear", "g_a_proj", rank, hidden)
            yield Matrix("linear", "g_b_proj", self._values, rank)
            yield Matrix("linear", "b_proj", self.value_heads, hidden)
        elif self.kind == "gated-delta":
            yield Matrix("linear", "in_proj_qkv", 2 * self._keys + self._values, hidden)
            yield Matrix("linear", "in_proj_z", self._values, hidden)
            yield Matrix("linear", "in_proj_ba", 2 * self.value_heads, hidden)
        else:
            yield Matrix("linear", "in_proj", 2 * (self._values + self._keys) + self.value_heads, hidden)
        yield Matrix("linear", "out_proj", hidden, self._values)
        yield Matrix("linear", "conv1d", 2 * self._keys + self._values, self.convolution_size)

    @property
    def input_width(self) -> int:
        """Elements per token that its first projection makes."""
        return 2 * (self._keys + self._values)

    @property
    def state_bytes(self) -> int:
        """Bytes of its state and of the convolution's last inputs, per sequence."""
        last_inputs = (2 * self._keys + self._values) * (self.convolution_size - 1)
        return self.value_heads * self.key_dim * self.value_dim * _STATE_BYTES + 2 * last_inputs

    def flops(self, new_tokens: float) -> float:
        """Return the FLOPs of updating and reading the state; the delta rule reads it once more."""
        passes = 2 if self.kind == "mamba2" else 3
        return 2.0 * passes * self.value_heads * self.key_dim * self.value_dim * new_tokens


@dataclass(frozen=True, slots=True)
class ShortConvolution:
    """A gated convolution over the last tokens (LFM2)."""

    inner_size: int
    convolution_size: int

    def matrices(self, hidden: int) -> Iterator[Matrix]:
        """Yield its projections and its convolution."""
        yield Matrix("linear", "conv.in_proj", 3 * self.inner_size, hidden)
        yield Matrix("linear", "conv.conv", self.inner_size, self.convolution_size)
        yield Matrix("linear", "conv.out_proj", hidden, self.inner_size)

    @property
    def input_width(self) -> int:
        """Elements per token that its first projection makes."""
        return 3 * self.inner_size

    @property
    def state_bytes(self) -> int:
        """Bytes of the last inputs, per sequence, in 16 bit."""
        return 2 * self.inner_size * (self.convolution_size - 1)

    def flops(self, new_tokens: float) -> float:
        """Return the FLOPs of the convolution."""
        return 2.0 * self.inner_size * self.convolution_size * new_tokens


Mixer = Attention | Latent | Recurrent | ShortConvolution


@dataclass(frozen=True, slots=True)
class FeedForward:
    """A feed-forward block, with or without experts; a block with both has a dense part beside them (Gemma 4)."""

    dense_size: int = 0
    expert_count: int = 0
    active_count: int = 0
    """Experts that one token visits."""
    expert_size: int = 0
    expert_input_size: int | None = None
    """Width that experts read and write where it is not the model's (Nemotron-3 Super, Kimi K3)."""
    shared_size: int = 0
    """Width of the shared experts together."""
    has_shared_gate: bool = False
    is_gated: bool = True
    """Two matrices before the activation, or one."""

    def matrices(self, hidden: int) -> Iterator[Matrix]:
        """Yield its matrices."""
        before = 2 if self.is_gated else 1
        if self.dense_size:
            yield Matrix("ffn", "gate_up_proj", before * self.dense_size, hidden)
            yield Matrix("ffn", "down_proj", hidden, self.dense_size)
        if self.expert_count:
            width = self.expert_input_size or hidden
            yield Matrix("router", "gate", self.expert_count, hidden)
            yield Matrix("expert", "experts.gate_up_proj", before * self.expert_size, width, self.expert_count)
            yield Matrix("expert", "experts.down_proj", width, self.expert_size, self.expert_count)
            if self.expert_input_size is not None:
                yield Matrix("ffn", "latent_in_proj", width, hidden)
                yield Matrix("ffn", "latent_out_proj", hidden, width)
        if self.shared_size:
            yield Matrix("shared_expert", "shared_expert.gate_up_proj", before * self.shared_size, hidden)
            yield Matrix("shared_expert", "shared_expert.down_proj", hidden, self.shared_size)
        if self.has_shared_gate:
            yield Matrix("router", "shared_expert_gate", 1, hidden)


@dataclass(frozen=True, slots=True)
class LayerRun:
    """Layers that are alike, wherever they lie in the model."""

    mixer: Mixer | None
    feed_forward: FeedForward | None
    count: int


@dataclass(frozen=True, slots=True)
class Decoder:
    """A whole decoder."""

    name: str
    hidden_size: int
    vocab_size: int
    layers: tuple[LayerRun, ...]
    has_tied_embedding: bool = False
    has_post_norms: bool = False
    """Norms behind attention and feed-forward, too (Gemma)."""
    per_layer_embedding_size: int = 0
    """Width that an embedding table per layer adds to each layer (Gemma 3n and 4); 0: none."""

    def matrices(self) -> Iterator[Matrix]:
        """Yield every matrix; of a tied embedding both names, as both are read."""
        for run in self.layers:
            for part in (run.mixer, run.feed_forward):
                for matrix in () if part is None else part.matrices(self.hidden_size):
                    yield replace(matrix, count=matrix.count * run.count)
        if self.per_layer_embedding_size:
            width, layers = self.per_layer_embedding_size, self.layer_count
            yield Matrix("per_layer_embedding", "embed_tokens_per_layer", self.vocab_size, width, layers)
            yield Matrix("ffn", "per_layer_model_projection", width, self.hidden_size, layers)
            yield Matrix("ffn", "per_layer_input_gate", width, self.hidden_size, layers)
            yield Matrix("ffn", "per_layer_projection", self.hidden_size, width, layers)
        yield Matrix("embedding", "embed_tokens", self.vocab_size, self.hidden_size)
        yield Matrix("lm_head", "lm_head", self.vocab_size, self.hidden_size)

    @property
    def layer_count(self) -> int:
        """Layers, a mixer and what follows it counted once."""
        return sum(run.count for run in self.layers if run.mixer is not None)

    @property
    def head_counts(self) -> frozenset[int]:
        """Counts of the query heads of its layers with attention."""
        return frozenset(run.mixer.heads for run in self.layers if isinstance(run.mixer, Attention | Latent))

    @property
    def parameter_count(self) -> int:
        """Elements of all matrices, a tied embedding once; norms and biases are not counted (below 0.1 %)."""
        tied = self.vocab_size * self.hidden_size if self.has_tied_embedding else 0
        return sum(matrix.element_count for matrix in self.matrices()) - tied

    @property
    def active_parameter_count(self) -> float:
        """The same of what a token visits: of experts those that it is routed to."""
        block = self.experts
        resting_ratio = 0.0 if block is None else 1 - block.active_count / block.expert_count
        resting = sum(matrix.element_count for matrix in self.matrices() if matrix.role == "expert") * resting_ratio
        return self.parameter_count - resting

    @property
    def experts(self) -> FeedForward | None:
        """The feed-forward block with experts; None without. All such blocks of a published model are alike."""
        blocks = (run.feed_forward for run in self.layers)
        return next((block for block in blocks if block is not None and block.expert_count), None)
