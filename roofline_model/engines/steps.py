"""The time of one step of decode and of one prefill, from what they read and compute.

Structure and constants: fits on public runs of vLLM, SGLang, TensorRT-LLM, llama.cpp, Ollama and MLX (`docs/theory/
engines.md`). Products that read and compute at once take the larger, softly (exponent 4); parts follow one another;
what a layer costs beside them adds up, because kernels of a step run one after the other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from roofline_model.chips.hardware import Device
from roofline_model.core.errors import InvalidValueError
from roofline_model.engines.amounts import ONE_DEVICE, Layout, StoredFormat, StoredModel, visited_experts
from roofline_model.engines.engine import EngineConstants
from roofline_model.formats.catalog import get_format
from roofline_model.models.layer_kinds import Role

SOFTNESS = 4.0
"""Exponent of the norm of reading and computing: 1 adds them up, infinity takes the larger."""
_MIN_TILE_ROWS, _MAX_TILE_ROWS = 16.0, 64.0
"""Rows that the tiles of a grouped product are padded to, by the rows an expert gets (gpt-oss, B200 and H100)."""
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

    def step_s(self, sequences: float, context: float) -> float:
        """Return the time of one step of decode: `sequences` on this device, each with `context` tokens."""
        model, constants, bandwidth = self.model, self.constants, self.device.bandwidth.value
        narrow, wide = model.cache_reads(context, self.layout.cache_ranks)
        per_sequence = (
            narrow / constants.cache_ratio
            + wide / constants.wide_cache_ratio
            + model.state_bytes / constants.bandwidth_ratio
            + model.elementwise_bytes * constants.elementwise_ratio
        ) / bandwidth
        layers = model.decoder.layer_count
        return (
            self._products_s(sequences)
            + sequences * (per_sequence + layers * constants.sequence_layer_s)
            + self._layers_s()
            + constants.step_s
        )

    def prefill_s(self, tokens: float, cached: float = 0.0) -> float:
        """Return the time of one prompt computed alone, in chunks, after `cached` tokens."""
        constants, bandwidth = self.constants, self.device.bandwidth.value
        wide_peak = self.device.peak_flops_per_s(self.model.wide)
        total, left = 0.0, tokens
        while left > 0:
            chunk = min(left, constants.prompt_chunk_tokens)
            total += self._products_s(chunk, constants.prefill_norm_order) + self._layers_s()
            left -= chunk
        narrow, wide = self.model.attention_flops(tokens, cached)
        narrow, wide = narrow / constants.attention_ratio, wide / constants.wide_attention_ratio
        total += (narrow + wide) / wide_peak / self.layout.cache_ranks
        return total + tokens * self.model.elementwise_bytes * constants.elementwise_ratio / bandwidth

    def _products_s(self, tokens: float, softness: float = SOFTNESS) -> float:
        """Return the time of all products over some tokens, and of the all-reduces between devices."""
        reads_s, computes_s = map(sum, zip(*self._dense_parts(tokens), strict=True))
        total = _softly_larger(reads_s, computes_s, softness)
        experts = self.model.decoder.experts
        if experts is not None:
            total += self._experts_s(tokens * self.layout.attention_replica_count, softness)
        if self.layout.device_count > 1:
            total += 2 * self.model.decoder.layer_count * self._all_reduce_s(tokens)
        return total

    def _dense_parts(self, tokens: float) -> Iterator[tuple[float, float]]:
        """Yield (seconds of reading, seconds of computing) of each role that every token passes."""
        for role in _PRODUCTS:
            count = self.model.elements.get(role, 0.0) / self.layout.ranks(role)
            stored = self.model.stored(role)
            # Of a prompt the head computes one token.
            rows = 0.0 if role == "lm_head" and tokens > 1024 else tokens
            yield self._read_s(count, stored, self.constants.bandwidth_ratio), 2 * count * rows / self._rate(stored)

    def _experts_s(self, tokens: float, softness: float) -> float:
        """Return the time of the routed experts over the tokens of all replicas."""
        block, stored = self.model.decoder.experts, self.model.stored("expert")
        assert block is not None
        count = self.model.elements["expert"] / self.layout.expert_rank_count
        constants = self.constants
        visited = visited_experts(tokens, block.active_count, constants.expert_spread_ratio * block.expert_count)
        share = constants.expert_bandwidth_ratio or constants.bandwidth_ratio
        rows = tokens * block.active_count / visited_experts(tokens, block.active_count, block.expert_count)
        padding = 1 + min(max(rows, _MIN_TILE_ROWS), _MAX_TILE_ROWS) / rows
        computed_s = 2 * count * block.active_count * tokens * padding / self._rate(stored)
        return _softly_larger(visited * self._read_s(count, stored, share), computed_s, softness)

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
        count, link = self.layout.device_count, self.device.link_bytes_per_s
        if link is None:
            raise InvalidValueError(f"{self.device.key} has no link; one device alone can be predicted")
        message = 2.0 * tokens * self.layout.attention_replica_count * self.model.decoder.hidden_size
        ring_s = 2 * (count - 1) / count * message / link + _RING_S
        return _ONE_SHOT_S + min((count - 1) * message / link, ring_s)

    def most_sequences(self, context: float) -> float:
        """Return how many sequences of a length fit into the memory of a device."""
        model, constants = self.model, self.constants
        experts = model.decoder.experts
        weights = sum(
            count
            * (experts.expert_count if role == "expert" and experts is not None else 1)
            * model.stored(role).bytes_per_element
            / self.layout.ranks(role)
            for role, count in model.elements.items()
            if not (role == "embedding" and model.decoder.has_tied_embedding)
        )
        if self.device.capacity is None:
            return math.inf
        free = constants.memory_ratio * self.device.capacity.value - weights - constants.memory_own_bytes
        return free / model.held_bytes(context, self.layout.cache_ranks)


def _softly_larger(first: float, second: float, softness: float) -> float:
    return float((first**softness + second**softness) ** (1 / softness))
