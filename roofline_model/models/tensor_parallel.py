"""Tensor parallelism as one stated term: every device holds a slice of each layer, two all-reduces join them again.

Heads, FFN columns and vocabulary are divided; norms, router and a latent cache are on every device. A ring all-reduce
of S bytes moves 2·(n − 1)/n·S over each device's link (Patarasu and Yuan, "Bandwidth optimal all-reduce algorithms for
clusters of workstations", JPDC 69(2), 2009). The expected time adds a latency for each of them, the ideal time none.
Ignores: overlap with computing, the gathering of logits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from roofline_model.chips.hardware import Device
from roofline_model.core.errors import InvalidValueError
from roofline_model.models.model_shapes import ModelShape

ALL_REDUCES_PER_LAYER = 2
"""Behind attention and behind the FFN (Shoeybi et al., "Megatron-LM", arXiv 1909.08053); a parallel block needs one."""
MAX_DEVICES = 1024
ALL_REDUCE_LATENCY_S = 6e-6
"""What a small all-reduce takes however few its bytes: NVIDIA/nccl issue 1259 (2024-04-22), two H100 of an HGX node,
NVLink SHARP, NCCL 2.20.5, in a CUDA graph: about 6 µs for 128 bytes to 64 KiB. More devices take longer, and so do
other links.
"""
ALL_REDUCE_LOW_RATIO, ALL_REDUCE_HIGH_RATIO = 0.55, 2.5
"""Ends of what an all-reduce takes over its expected time: it is not fitted. Eight H100 with NVLink, published: 3.5 µs
for 8 KB by TensorRT-LLM's own kernel (0.58 of ours), 25.5 µs for 1 MiB by NCCL (2.5), 52 µs for 4 MB (2.3).
"""
ALL_REDUCE_LATENCY_SOURCE = "NCCL issue 1259: two H100, NVLink SHARP, in a CUDA graph"


@dataclass(frozen=True, slots=True)
class Parallel:
    """Tensor parallelism: number of devices, link bandwidth in bytes/s, all-reduce latency in seconds."""

    device_count: int = 1
    link_bytes_per_s: float | None = None
    """One direction of one device's link to the others; None: that of the chip's own fabric."""
    all_reduce_latency_s: float = ALL_REDUCE_LATENCY_S
    """Launch and synchronisation of one all-reduce, beside its bytes; in the expected time only."""

    def __post_init__(self) -> None:
        count = self.device_count
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MAX_DEVICES:
            raise InvalidValueError(f"tensor parallelism takes 1 to {MAX_DEVICES} devices, got {count!r}")
        link = self.link_bytes_per_s
        if link is not None and (isinstance(link, bool) or not 0 < link < 1e18):
            raise InvalidValueError(f"the link's speed must be a positive number of bytes per second, got {link!r}")
        latency = self.all_reduce_latency_s
        if isinstance(latency, bool) or not isinstance(latency, int | float) or not 0 <= latency < 1:
            raise InvalidValueError(f"the latency of an all-reduce must be seconds from 0 to below 1, got {latency!r}")

    def linked(self, device: Device) -> Parallel:
        """Return the same with the link of the chip's own fabric where none is given.

        Raises `InvalidValueError` for a chip without one: what a PCIe slot or a network brings depends on the machine.
        """
        if self.device_count == 1 or self.link_bytes_per_s is not None:
            return self
        if device.link_bytes_per_s is None:
            raise InvalidValueError(
                f"{device.key} has no link of its own to {self.device_count - 1} more: give what nccl-tests measures "
                "between yours as bus bandwidth, e.g. --link-gb-s 20"
            )
        return replace(self, link_bytes_per_s=device.link_bytes_per_s)

    def all_reduce_s(self, size_bytes: float) -> float:
        """Return the ideal time to sum `size_bytes` over all devices: its bytes over the link, no latency."""
        if self.device_count == 1 or self.link_bytes_per_s is None:
            return 0.0
        return 2 * (self.device_count - 1) / self.device_count * size_bytes / self.link_bytes_per_s


def shard(shape: ModelShape, device_count: int) -> ModelShape:
    """Return the slice of the model one device computes.

    Key/value heads are divided, or, where there are fewer than devices, each is copied to the same number of devices:
    the condition of vLLM (its llama.py), without which the query heads of one device would need unequal shares of them.
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
    if shape.latent is None and shape.kv_heads % device_count and device_count % shape.kv_heads:
        possible = ", ".join(str(count) for count in _device_counts(shape))
        raise InvalidValueError(
            f"{shape.name}: kv_heads {shape.kv_heads} cannot be divided among {device_count} devices, nor copied "
            "evenly to "
            f"them; it can be shared by {possible}"
        )
    kv_heads = query_heads if shape.latent else max(1, shape.kv_heads // device_count)
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


def _device_counts(shape: ModelShape) -> list[int]:
    """Return the device counts that divide query heads, FFN and key/value heads."""
    kv_heads, sizes = shape.kv_heads, [shape.query_heads, shape.ffn_size]
    if shape.experts is not None:
        sizes += [shape.experts.ffn_size, shape.experts.shared_ffn_size]
    return [
        count
        for count in range(1, min(MAX_DEVICES, shape.query_heads) + 1)
        if not any(size % count for size in sizes) and (kv_heads % count == 0 or count % kv_heads == 0)
    ]


def all_reduce_count(shape: ModelShape) -> int:
    """Return the all-reduces of one pass."""
    return shape.layer_count * (1 if shape.is_parallel else ALL_REDUCES_PER_LAYER)
