"""The time of one step of decode and of one prefill, from what they read and compute.

Structure and constants: fits on public runs of vLLM, SGLang, TensorRT-LLM, llama.cpp, Ollama and MLX
(`docs/theory/engines.md`). Products that read and compute at once take about the larger (a norm of order 4); parts
follow one another; what a layer costs beside them adds up, because kernels of a step run one after the other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from roofline_model.chips.hardware import Device
from roofline_model.core.errors import InvalidValueError
from roofline_model.engines.amounts import ONE_DEVICE, Layout, StoredFormat, StoredModel
from roofline_model.engines.engine import EngineConstants
from roofline_model.formats.catalog import get_format
from roofline_model.ideal.limits import memory_limit_s
from roofline_model.models.experts import visited_count
from roofline_model.models.layer_kinds import Role

_STEP_NORM_ORDER = 4.0
"""Order of the norm of reading and computing in a step: 1 adds them up, infinity takes the larger."""
_ONE_SHOT_S, _RING_S = 5e-6, 30e-6
"""Latency of an all-reduce in a graph: every device sends to every other; and of a ring, from some MB on. Read off the
custom all-reduce of TensorRT-LLM on 8 H100 and B200 (aiconfigurator, Apache-2.0).
"""
_PRODUCTS: tuple[Role, ...] = ("attention", "linear", "indexer", "ffn", "shared_expert", "router", "lm_head")


@dataclass(frozen=True)
class StepModel:
    """A stored model in an engine on a chip, spread over devices. Times are seconds on one of them."""

    model: StoredModel
    device: Device
    constants: EngineConstants
    layout: Layout = ONE_DEVICE

    @property
    def is_of_fitted_chip(self) -> bool:
        """Whether runs of this very chip are behind the constants."""
        return self.device.key in self.constants.fitted_chips

    def step_s(self, sequences: float, context: float) -> float:
        """Return the time of one step of decode: `sequences` on this device, each with `context` tokens."""
        model, constants, bandwidth = self.model, self.constants, self.device.bandwidth.value
        narrow, wide = model.cache_reads(context, self.layout.cache_ranks)
        per_sequence = (
            narrow / (constants.cache_ratio or constants.bandwidth_ratio)
            + wide / (constants.wide_cache_ratio or constants.bandwidth_ratio)
            + self._state_bytes / constants.bandwidth_ratio
            + model.elementwise_bytes * constants.elementwise_ratio
        ) / bandwidth
        layers = model.decoder.layer_count
        return (
            self._products_s(sequences, sequences, _STEP_NORM_ORDER)
            + sequences * (per_sequence + layers * constants.sequence_layer_s)
            + self._layers_s()
            + constants.step_s
        )

    def least_step_s(self, sequences: float, context: float) -> float:
        """Return what the bytes of that step allow at the chip's highest bandwidth: no engine is faster with one token
        a step; 0 where the bandwidth is not sure. Of routed experts those of one token are read: all tokens may agree.
        """
        model = self.model
        experts = model.decoder.experts
        read_bytes = sequences * (sum(model.cache_reads(context, self.layout.cache_ranks)) + self._state_bytes)
        for role, count in model.elements.items():
            if role not in ("embedding", "per_layer_embedding"):
                active = experts.active_count if role == "expert" and experts is not None else 1
                read_bytes += count * active * model.stored(role).bytes_per_element / self.layout.ranks(role)
        return memory_limit_s(read_bytes, self.device, "cold")

    @property
    def _state_bytes(self) -> float:
        """Bytes of recurrent states that a token reads and writes on one device, which has a share of their heads."""
        return self.model.state_bytes / self.layout.cache_ranks

    def prefill_s(self, tokens: int, cached: float = 0.0, prompts: int = 1) -> float:
        """Return the time of prompts of `tokens` each that share passes, after `cached` tokens, with nothing beside."""
        model, constants = self.model, self.constants
        whole_passes, rest = divmod(prompts * tokens, constants.prompt_chunk_tokens)
        products_s = whole_passes * self._pass_s(constants.prompt_chunk_tokens)
        products_s += self._pass_s(rest) if rest else 0.0
        narrow, wide = model.attention_flops(tokens, cached)
        attention_flops = prompts * (narrow / constants.attention_ratio + wide / constants.wide_attention_ratio)
        attention_s = attention_flops / self.device.peak_flops_per_s(model.wide) / self.layout.cache_ranks
        moved_bytes = prompts * tokens * model.elementwise_bytes * constants.elementwise_ratio
        return products_s + attention_s + moved_bytes / self.device.bandwidth.value

    def _pass_s(self, tokens: int) -> float:
        """Return the products and layers of one pass over tokens of prompts; the head computes one of them."""
        return self._products_s(tokens, 1, self.constants.prefill_norm_order) + self._layers_s()

    def _products_s(self, tokens: float, head_tokens: float, norm_order: float) -> float:
        """Return the time of all products over some tokens, and of the all-reduces between devices."""
        parts = list(self._dense_parts(tokens, head_tokens))
        total = _norm(sum(read_s for read_s, _ in parts), sum(compute_s for _, compute_s in parts), norm_order)
        if self.model.decoder.experts is not None:
            total += self._experts_s(tokens * self.layout.attention_replica_count, norm_order)
        if self.layout.device_count > 1:
            total += 2 * self.model.decoder.layer_count * self._all_reduce_s(tokens)
        return total

    def _dense_parts(self, tokens: float, head_tokens: float) -> Iterator[tuple[float, float]]:
        """Yield (seconds of reading, seconds of computing) of each role that every token passes."""
        for role in _PRODUCTS:
            count = self.model.elements.get(role, 0.0) / self.layout.ranks(role)
            stored = self.model.stored(role)
            rows = head_tokens if role == "lm_head" else tokens
            yield self._read_s(count, stored, self.constants.bandwidth_ratio), 2 * count * rows / self._rate(stored)

    def _experts_s(self, tokens: float, norm_order: float) -> float:
        """Return the time of the routed experts over the tokens of all replicas."""
        block, stored = self.model.decoder.experts, self.model.stored("expert")
        assert block is not None
        count = self.model.elements["expert"] / self.layout.expert_rank_count
        constants = self.constants
        visited = visited_count(tokens, block.active_count, constants.expert_spread_ratio * block.expert_count)
        share = constants.expert_bandwidth_ratio or constants.bandwidth_ratio
        rows = tokens * block.active_count / visited_count(tokens, block.active_count, block.expert_count)
        fewest_rows, most_rows = constants.expert_tile_rows
        padding = 1 + min(max(rows, fewest_rows), most_rows) / rows
        computed_s = 2 * count * block.active_count * tokens * padding / self._rate(stored)
        return _norm(visited * self._read_s(count, stored, share), computed_s, norm_order)

    def _read_s(self, count: float, stored: StoredFormat, share: float) -> float:
        unpacking = self.constants.unpacking_ratios.get(stored.unpacking, 1.0)
        return count * stored.bytes_per_element * unpacking / (share * self.device.bandwidth.value)

    def _rate(self, stored: StoredFormat) -> float:
        """Return the FLOP/s that large products of a format reach."""
        constants, bits = self.constants, get_format(stored.multiplied_in).element_bits
        ratio = constants.tensor_ratio
        if bits <= 4 or (bits > 8 and stored.unpacking == "four-bit"):
            ratio *= constants.four_bit_tensor_ratio
        elif bits <= 8:
            ratio *= constants.narrow_tensor_ratio
        return ratio * self.device.peak_flops_per_s(stored.multiplied_in)

    def _layers_s(self) -> float:
        """Return what the layers of a step cost beside bytes and FLOPs."""
        model, constants = self.model, self.constants
        layers = model.decoder.layer_count
        counts = (
            layers
            + model.expert_layer_count * constants.expert_layer_ratio
            + layers * constants.block_scale_layer_ratio * model.has_block_scales
            + model.recurrent_count * constants.recurrent_layer_ratio
            + layers * constants.post_norm_layer_ratio * model.decoder.has_post_norms
        )
        return (
            counts * constants.layer_s
            + model.latent_count * constants.latent_layer_s
            + model.sparse_count * constants.sparse_layer_s
        )

    def _all_reduce_s(self, tokens: float) -> float:
        """Return the time of one all-reduce: one message to every other device, or a ring where that is faster."""
        count, link = self.layout.device_count, self.layout.link_bytes_per_s or self.device.link_bytes_per_s
        if link is None:
            raise InvalidValueError(f"the link between devices of {self.device.key} is not known: give --link-gb-s")
        message = 2.0 * tokens * self.layout.attention_replica_count * self.model.decoder.hidden_size
        ring_s = 2 * (count - 1) / count * message / link + _RING_S
        return _ONE_SHOT_S + min((count - 1) * message / link, ring_s)

    def most_sequences(self, context: float) -> float:
        """Return how many sequences of a length fit into the memory of a device."""
        if self.device.capacity is None:
            return math.inf
        constants = self.constants
        free = constants.memory_ratio * self.device.capacity.value - constants.memory_own_bytes
        return (free - self.model.weight_bytes(self.layout)) / self.model.held_bytes(context, self.layout.cache_ranks)


def _norm(first: float, second: float, order: float) -> float:
    return float((first**order + second**order) ** (1 / order))
