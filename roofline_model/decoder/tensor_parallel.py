"""Tensor parallelism as one stated term: every device holds a slice of each layer, two all-reduces join them again.

Heads, FFN columns and vocabulary are divided; norms, router and a latent cache are on every device. A ring all-reduce of S
bytes moves 2·(n − 1)/n·S over each device's link (Patarasu and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
workstations", JPDC 69(2), 2009). Ignores: latency of the collectives, overlap with computing, the gathering of logits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from roofline_model.decoder.model_shapes import ModelShape
from roofline_model.errors import InvalidValueError

ALL_REDUCES_PER_LAYER = 2
"""Behind attention and behind the FFN (Shoeybi et al., "Megatron-LM", arXiv 1909.08053); a parallel block needs one."""
MAX_DEVICES = 1024


@dataclass(frozen=True, slots=True)
class Parallel:
    """How many devices share the model, and how fast one sends to the others."""

    device_count: int = 1
    link_bytes_per_s: float | None = None
    """One direction of one device's link; required with more than one device: no chip file knows how it is connected."""

    def __post_init__(self) -> None:
        count = self.device_count
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MAX_DEVICES:
            raise InvalidValueError(f"tensor parallelism takes 1 to {MAX_DEVICES} devices, got {count!r}")
        link = self.link_bytes_per_s
        if count > 1 and link is None:
            raise InvalidValueError(
                f"tensor parallelism over {count} devices needs the speed of one device's link; give it, e.g. --link-gb-s 450 (NVLink 4, one direction)"
            )
        if link is not None and (isinstance(link, bool) or not 0 < link < 1e18):
            raise InvalidValueError(f"the link's speed must be a positive number of bytes per second, got {link!r}")

    def all_reduce_s(self, size_bytes: float) -> float:
        """Return the time to sum `size_bytes` over all devices."""
        if self.device_count == 1 or self.link_bytes_per_s is None:
            return 0.0
        return 2 * (self.device_count - 1) / self.device_count * size_bytes / self.link_bytes_per_s


def shard(shape: ModelShape, device_count: int) -> ModelShape:
    """Return the slice of the model one device computes. Fewer key/value heads than devices are copied.

    Raises `InvalidValueError` naming the size that cannot be divided.
    """
    if device_count == 1:
        return shape
    sizes = {"query_heads": shape.query_heads, "ffn_size": shape.ffn_size}
    if shape.experts is not None:
        sizes["experts.ffn_size"] = shape.experts.ffn_size
        sizes["experts.shared_ffn_size"] = shape.experts.shared_ffn_size
    for name, size in sizes.items():
        if size % device_count:
            raise InvalidValueError(f"{shape.name}: {name} {size} cannot be divided among {device_count} devices")
    query_heads = shape.query_heads // device_count
    kv_heads = query_heads if shape.latent else max(1, shape.kv_heads // device_count)
    if query_heads % kv_heads:
        raise InvalidValueError(
            f"{shape.name}: kv_heads {shape.kv_heads} cannot be divided among {device_count} devices"
        )
    experts = shape.experts and replace(
        shape.experts,
        ffn_size=shape.experts.ffn_size // device_count,
        shared_ffn_size=shape.experts.shared_ffn_size // device_count,
    )
    return replace(
        shape,
        query_heads=query_heads,
        kv_heads=kv_heads,
        ffn_size=shape.ffn_size // device_count,
        vocab_size=math.ceil(shape.vocab_size / device_count),
        experts=experts,
    )


def all_reduce_count(shape: ModelShape) -> int:
    """Return the all-reduces of one pass."""
    return shape.layer_count * (1 if shape.is_parallel else ALL_REDUCES_PER_LAYER)
