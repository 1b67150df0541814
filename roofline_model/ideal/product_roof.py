"""The ideal roofline of products in fixed formats on a fixed chip: looked up once, then a few multiplications a shape.

What `roofline.predict` gives of `operators.gemm`, for those who ask for many shapes (arrays) or many formats.
"""

from __future__ import annotations

from dataclasses import dataclass

from roofline_model.chips.hardware import Device
from roofline_model.core.elementwise import Numbers
from roofline_model.formats.catalog import NumberFormat
from roofline_model.ideal.published_rate import published_over_peak
from roofline_model.ideal.roofline import RoofTimes, memory_roof, path_kind
from roofline_model.operators.product import compute_format


@dataclass(frozen=True, slots=True)
class ProductRoof:
    """Bytes per element, bandwidth and peak that `predict` has for products of these formats on this chip."""

    device: Device
    activation_bytes_per_element: float
    weight_bytes_per_element: float
    output_bytes_per_element: float
    bandwidth_bytes_per_s: float
    """Of the DRAM."""
    peak_flops_per_s: float
    path: str
    """native, emulated or dequantize."""
    beaten_ratio: float
    """The best published rate over the peak where it is higher, else 1 (`published_over_peak`)."""

    @classmethod
    def of(cls, device: Device, *, activation: NumberFormat, weight: NumberFormat, output: NumberFormat) -> ProductRoof:
        """Return the roof of C = A·B; raises `UnsupportedError` when the chip cannot compute in the formats."""
        computes_in = compute_format(activation, weight)
        return cls(
            device,
            activation.traffic_bytes_per_element,
            weight.traffic_bytes_per_element,
            output.traffic_bytes_per_element,
            device.bandwidth.value,
            device.peak_flops_per_s(computes_in),
            path_kind([device.path(computes_in).kind], widens_operand=weight.element_bits < activation.element_bits),
            published_over_peak(device, computes_in),
        )

    def at(self, M: Numbers, N: Numbers, K: Numbers, *, cache: str = "cold") -> RoofTimes:
        """Return the times of shapes: whole numbers of one, arrays of many. `cache` as of `predict`."""
        flops = 2.0 * (M * N * K)
        read_bytes = M * K * self.activation_bytes_per_element + K * N * self.weight_bytes_per_element
        total_bytes = read_bytes + M * N * self.output_bytes_per_element
        bandwidth_bytes_per_s = self.bandwidth_bytes_per_s
        if cache == "warm":
            bandwidth_bytes_per_s = memory_roof(self.device, total_bytes, cache).bandwidth_bytes_per_s
        return RoofTimes(flops, total_bytes, total_bytes / bandwidth_bytes_per_s, flops / self.peak_flops_per_s)
