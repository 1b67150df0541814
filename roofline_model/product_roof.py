"""The ideal roofline of products in fixed formats on a fixed chip: looked up once, then a few multiplications a shape.

`roofline.predict` of `operators.gemm`, cold, to the bit (tested); for those who ask for many shapes or many formats.
"""

from __future__ import annotations

from dataclasses import dataclass

from roofline_model.formats import NumberFormat
from roofline_model.hardware import Device
from roofline_model.operators import compute_format, gemm
from roofline_model.published_rate import published_over_peak
from roofline_model.roofline import Bound, predict


@dataclass(frozen=True, slots=True)
class RoofTimes:
    """One product under its roof."""

    flops: float
    total_bytes: float
    """A and B read once, C written once."""
    memory_s: float
    compute_s: float

    @property
    def time_s(self) -> float:
        """The ideal time."""
        return max(self.memory_s, self.compute_s)

    @property
    def bound(self) -> Bound:
        """What takes the ideal time."""
        return "compute" if self.compute_s > self.memory_s else "memory"


@dataclass(frozen=True, slots=True)
class ProductRoof:
    """The numbers that `predict` finds for products of these formats on this chip."""

    activation_bytes_per_element: float
    weight_bytes_per_element: float
    output_bytes_per_element: float
    bandwidth_bytes_per_s: float
    peak_flops_per_s: float
    path: str
    """native, emulated or dequantize."""
    beaten_ratio: float
    """The best published rate over the peak where it is higher, else 1 (`published_over_peak`)."""

    @classmethod
    def of(cls, device: Device, *, activation: NumberFormat, weight: NumberFormat, output: NumberFormat) -> ProductRoof:
        """Return the roof of C = A·B; raises `UnsupportedError` when the chip cannot compute in the formats."""
        smallest = predict(gemm(1, 1, 1, a=activation, b=weight, c=output), device)
        computes_in = compute_format(activation, weight)
        return cls(
            activation.traffic_bytes_per_element,
            weight.traffic_bytes_per_element,
            output.traffic_bytes_per_element,
            smallest.bandwidth_bytes_per_s,
            device.peak_flops_per_s(computes_in),
            smallest.path,
            published_over_peak(device, computes_in),
        )

    def at(self, M: int, N: int, K: int) -> RoofTimes:
        """Return the times of one shape of whole numbers, operands cold."""
        count = 2 * M * N * K
        read_bytes = M * K * self.activation_bytes_per_element + K * N * self.weight_bytes_per_element
        total_bytes = read_bytes + M * N * self.output_bytes_per_element
        return RoofTimes(
            float(count), total_bytes, total_bytes / self.bandwidth_bytes_per_s, count / self.peak_flops_per_s
        )
