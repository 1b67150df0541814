"""What one step of a checkpoint reads and computes: bytes and FLOPs by how they move, for one device of several."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from roofline_model.core.errors import InvalidValueError
from roofline_model.formats.catalog import get_format
from roofline_model.formats.gguf import bytes_per_element, mix_bytes_per_element
from roofline_model.models.hf.stored_formats import CheckpointFormats
from roofline_model.models.layer_kinds import Attention, Decoder, Latent, Recurrent, Role, ShortConvolution
from roofline_model.operators.product import with_group_scales

WIDE_HEAD_DIM = 512
"""Heads from this width on have slower attention kernels in every engine measured (Gemma 4, GB10)."""
LATENT_CACHE_BYTES = 2.0
"""Engines keep the latent cache of MLA in 16 bit unless told otherwise (vLLM 0.33, SGLang 0.5.23)."""
_PASSES = 14
"""BF16 values per token, layer and element of the width that norms, residuals and casts read and write."""
_RECURRENT_PASSES = 8
"""The same of a recurrent layer, per element of its input."""
_MLX_GROUP_SIZE = 64
"""Weights that share a scale and a bias in MLX."""
Unpacking = Literal["none", "four-bit", "k-quant"]
"""What stands between the bytes of a weight and its use: engines pay a little for it."""


@dataclass(frozen=True, slots=True)
class StoredFormat:
    """How the matrices of a role are stored and multiplied."""

    bytes_per_element: float
    """Of a weight with its scales."""
    multiplied_in: str
    """Key of the format that its products multiply in."""
    unpacking: Unpacking = "none"


def stored_format(weights: str, activations: str) -> StoredFormat:
    """Return how a catalog format is stored, multiplied with activations of another."""
    fmt = with_group_scales(get_format(weights))
    return StoredFormat(fmt.traffic_bytes_per_element, activations, "four-bit" if fmt.element_bits <= 4 else "none")


def checkpoint_roles(formats: CheckpointFormats, wide: str = "BF16") -> dict[Role, StoredFormat]:
    """Return the stored formats of a checkpoint; a role of which a part is in 16 bit has the mean bytes of both."""
    roles: dict[Role, StoredFormat] = {}
    for role, each in formats.roles.items():
        narrow, rest = stored_format(each.weights, each.activations), stored_format(wide, wide)
        mean = each.share_ratio * narrow.bytes_per_element + (1 - each.share_ratio) * rest.bytes_per_element
        roles[role] = StoredFormat(mean, narrow.multiplied_in, narrow.unpacking)
    return roles


def gguf_roles(decoder: Decoder, mix: str, experts: str | None = None) -> dict[Role, StoredFormat]:
    """Return the stored format of every role of a GGUF file, by the name of its mix. Products multiply in 8 bit.

    `experts`: type of the routed experts where a mix leaves them as they are.
    """
    stored_bytes: dict[Role, float] = defaultdict(float)
    counts: dict[Role, float] = defaultdict(float)
    for matrix in decoder.matrices():
        own_type = experts if matrix.role == "expert" else None
        size = bytes_per_element(own_type, matrix.k) if own_type else mix_bytes_per_element(mix, matrix.name, matrix.k)
        stored_bytes[matrix.role] += matrix.element_count * size
        counts[matrix.role] += matrix.element_count
    unpacking: Unpacking = "k-quant" if "_K" in mix or mix.startswith("IQ") else "none"
    return {role: StoredFormat(stored_bytes[role] / counts[role], "INT8", unpacking) for role in counts}


def mlx_roles(decoder: Decoder, bits: int) -> dict[Role, StoredFormat]:
    """Return the stored format of every role of an MLX file of integers: groups of 64 with a scale and a bias in 16
    bit (mlx-lm 0.28, its default). Products multiply in 16 bit.
    """
    stored = StoredFormat((bits + 32 / _MLX_GROUP_SIZE) / 8, "BF16")
    return dict.fromkeys((matrix.role for matrix in decoder.matrices()), stored)


@dataclass(frozen=True)
class StoredModel:
    """A decoder with the format of every role and of its cache."""

    decoder: Decoder
    roles: Mapping[Role, StoredFormat]
    """Roles that are not named are in `wide`."""
    cache_bytes: float
    """Bytes of a cached element of softmax attention."""
    wide: str = "BF16"
    has_block_scales: bool = False
    """FP8 with a scale per 128 × 128 block: each product casts its activations first."""

    def stored(self, role: Role) -> StoredFormat:
        """Return the format of a role."""
        return self.roles.get(role) or stored_format(self.wide, self.wide)

    @cached_property
    def elements(self) -> Mapping[Role, float]:
        """Elements by role; of routed experts those of one expert of each layer together."""
        counts: dict[Role, float] = defaultdict(float)
        experts = self.decoder.experts
        for matrix in self.decoder.matrices():
            share = experts.expert_count if matrix.role == "expert" and experts is not None else 1
            counts[matrix.role] += matrix.element_count / share
        return counts

    @cached_property
    def model_class(self) -> Literal["dense", "hybrid", "moe"]:
        """Kind of the model, as intervals tell them apart: with recurrences, with experts alone, or with neither."""
        if self.recurrent_count:
            return "hybrid"
        return "moe" if self.expert_layer_count else "dense"

    @cached_property
    def recurrent_count(self) -> int:
        """Layers with a recurrence or a convolution."""
        return sum(run.count for run in self.decoder.layers if isinstance(run.mixer, Recurrent | ShortConvolution))

    @cached_property
    def latent_count(self) -> int:
        """Layers with latent attention."""
        return sum(run.count for run in self.decoder.layers if isinstance(run.mixer, Latent))

    @cached_property
    def sparse_count(self) -> int:
        """Layers whose attention picks its tokens by an index."""
        return sum(
            run.count
            for run in self.decoder.layers
            if isinstance(run.mixer, Latent) and run.mixer.index_top_count is not None
        )

    @cached_property
    def expert_layer_count(self) -> int:
        """Layers with routed experts."""
        return sum(run.count for run in self.decoder.layers if run.feed_forward and run.feed_forward.expert_count)

    @cached_property
    def state_bytes(self) -> float:
        """Bytes of recurrent states that a token reads and writes."""
        return 2.0 * sum(
            run.count * run.mixer.state_bytes
            for run in self.decoder.layers
            if isinstance(run.mixer, Recurrent | ShortConvolution)
        )

    @cached_property
    def elementwise_bytes(self) -> float:
        """Bytes per token of everything that is neither a product nor attention."""
        decoder, experts = self.decoder, self.decoder.experts
        total = 2.0 * _PASSES * decoder.hidden_size * decoder.layer_count
        if experts is not None:
            per_expert = 2 * decoder.hidden_size + 3 * experts.expert_size
            total += 2.0 * self.expert_layer_count * experts.active_count * per_expert
        return total + sum(
            2.0 * _RECURRENT_PASSES * run.mixer.input_width * run.count
            for run in decoder.layers
            if isinstance(run.mixer, Recurrent | ShortConvolution)
        )

    def cache_reads(self, context: float, kv_ranks: int = 1) -> tuple[float, float]:
        """Return the bytes of cache that a token of decode reads on one device: of narrow heads, and of wide or latent
        ones. `kv_ranks`: devices that heads of keys and values are spread over.
        """
        narrow = wide = 0.0
        for run in self.decoder.layers:
            if isinstance(run.mixer, Latent):
                wide += run.count * run.mixer.read_elements(context) * LATENT_CACHE_BYTES
            elif isinstance(run.mixer, Attention):
                read = run.count * run.mixer.read_elements(context) * self.cache_bytes
                read /= min(kv_ranks, run.mixer.kv_heads)
                if run.mixer.key_dim >= WIDE_HEAD_DIM:
                    wide += read
                else:
                    narrow += read
        return narrow, wide

    def attention_flops(self, new_tokens: float, cached: float) -> tuple[float, float]:
        """Return the FLOPs of attention in a prefill, of narrow and of wide heads; recurrences count as narrow."""
        narrow = wide = 0.0
        for run in self.decoder.layers:
            if isinstance(run.mixer, Recurrent | ShortConvolution):
                narrow += run.count * run.mixer.flops(new_tokens)
            elif isinstance(run.mixer, Attention) and run.mixer.key_dim >= WIDE_HEAD_DIM:
                wide += run.count * run.mixer.flops(new_tokens, cached)
            elif run.mixer is not None:
                narrow += run.count * run.mixer.flops(new_tokens, cached)
        return narrow, wide

    def held_bytes(self, context: float, kv_ranks: int = 1) -> float:
        """Return what a sequence keeps on one device: cache and states, bytes."""
        total = self.state_bytes / 2 / kv_ranks
        for run in self.decoder.layers:
            if isinstance(run.mixer, Latent):
                total += run.count * run.mixer.held_elements(context) * LATENT_CACHE_BYTES
            elif isinstance(run.mixer, Attention):
                held = run.mixer.held_elements(context) * self.cache_bytes
                total += run.count * held / min(kv_ranks, run.mixer.kv_heads)
        return total

    def weight_bytes(self, layout: Layout | None = None) -> float:
        """Return the bytes of all weights as they are stored, a tied embedding once; with a layout those of a
        device.
        """
        experts = self.decoder.experts
        total = 0.0
        for role, count in self.elements.items():
            if role == "embedding" and self.decoder.has_tied_embedding:
                continue
            copies = experts.expert_count if role == "expert" and experts is not None else 1
            ranks = 1 if layout is None else layout.ranks(role)
            total += count * copies * self.stored(role).bytes_per_element / ranks
        return total

    @cached_property
    def active_count(self) -> float:
        """Elements of layers that a token is multiplied with: the experts that it visits, no embedding and no head."""
        experts = self.decoder.experts
        return sum(
            count * (experts.active_count if role == "expert" and experts is not None else 1)
            for role, count in self.elements.items()
            if role not in ("embedding", "per_layer_embedding", "lm_head")
        )


@dataclass(frozen=True, slots=True)
class Layout:
    """How a model is spread over devices. One device is the default."""

    device_count: int = 1
    tensor_rank_count: int = 1
    """Devices that share each matrix."""
    attention_replica_count: int = 1
    """Devices that each hold all of attention, shared experts and router, and serve sequences of their own."""
    expert_rank_count: int = 1
    """Devices that routed experts are spread over, by tensor or by expert."""
    link_bytes_per_s: float | None = None
    """One direction of a device's link to the others; None: that of the chip."""

    def __post_init__(self) -> None:
        for name in ("device_count", "tensor_rank_count", "attention_replica_count", "expert_rank_count"):
            if getattr(self, name) < 1:
                raise InvalidValueError(f"{name} must be 1 or more, got {getattr(self, name)}")

    def ranks(self, role: Role) -> int:
        """Return the devices that a role's matrices are spread over."""
        if role == "expert":
            return self.expert_rank_count
        if self.attention_replica_count > 1:
            return 1 if role in ("attention", "linear", "indexer", "shared_expert", "router") else self.device_count
        return self.tensor_rank_count

    @property
    def cache_ranks(self) -> int:
        """Devices that a sequence's keys and values are spread over."""
        return 1 if self.attention_replica_count > 1 else self.tensor_rank_count


ONE_DEVICE = Layout()
