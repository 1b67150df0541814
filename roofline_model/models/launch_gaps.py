"""The time between kernels: what launching costs a step of hundreds of short kernels, with and without CUDA graphs.

With a graph, kernel follows kernel after a short gap. Without, each gap is longer, and a step is never shorter than the
host needs to launch all its kernels: the host runs ahead only as long as the device is the slower one.
"""

from __future__ import annotations

from dataclasses import dataclass

from roofline_model.chips.hardware import Device
from roofline_model.core.errors import InvalidValueError

GRAPH_GAP_S = 0.5e-6
"""A. Gray, "Getting Started with CUDA Graphs", NVIDIA technical blog, 2019-09-05 (V100): kernels of 2.9 µs take 3.4 µs each
in a graph."""
STREAM_GAP_S = 0.9e-6
"""The same source: 3.8 µs each when launched one after the other without waiting."""
HOST_LAUNCH_S = 5e-6
"""Host time of one launch from a compiled program: 4 to 6 µs ("pegainfer (3): From Launch Overhead to CUDA Graph", susun-blog.com,
RTX 5070 Ti, CUDA 13.0). A Python framework needs several times as much: `roofline calibrate` measures your own."""


@dataclass(frozen=True, slots=True)
class LaunchCosts:
    """Seconds per kernel. `source` says whether they were measured on this machine."""

    graph_gap_s: float
    stream_gap_s: float
    host_launch_s: float
    source: str

    def __post_init__(self) -> None:
        for name in ("graph_gap_s", "stream_gap_s", "host_launch_s"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
                raise InvalidValueError(f"{name} must be seconds from 0 to below 1, got {value!r}")

    def step_s(self, kernels_s: float, launch_count: int, *, has_graph: bool) -> float:
        """Return the time of a step whose kernels alone take `kernels_s`."""
        if has_graph:
            return kernels_s + launch_count * self.graph_gap_s
        return max(kernels_s + launch_count * self.stream_gap_s, launch_count * self.host_launch_s)


PUBLISHED = LaunchCosts(
    GRAPH_GAP_S,
    STREAM_GAP_S,
    HOST_LAUNCH_S,
    source="published: NVIDIA technical blog 2019 (V100); pegainfer (RTX 5070 Ti)",
)
NO_LAUNCHES = LaunchCosts(
    0.0, 0.0, 0.0, source="a CPU launches nothing: a call's own cost is part of its expected time"
)


def launch_costs(device: Device) -> LaunchCosts:
    """Return the launch costs of a device: the host's own where this machine was calibrated, else the published ones."""
    if device.kind == "cpu":
        return NO_LAUNCHES
    known = device.calibration
    if known is None or known.kind != "cuda" or "host-launch" not in known.floors:
        return PUBLISHED
    host_s = known.floors["host-launch"].median_value
    return LaunchCosts(
        GRAPH_GAP_S, STREAM_GAP_S, host_s, source=f"host launch measured on {known.subject}, gaps published"
    )
