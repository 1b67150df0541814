"""What the expected-time model needs for products of one pair of formats on one chip: numbers, kernel family, constants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from roofline_model.expected.chip import ChipSpec
from roofline_model.expected.gemm.constants import FittedGemm
from roofline_model.expected.gemm.formats import GemmFormats, gemm_formats
from roofline_model.expected.gemm.library import find_gemm
from roofline_model.expected.gemm.rotation import COLD, HOT
from roofline_model.expected.measured_here import with_measured_bandwidth
from roofline_model.hardware import Device

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from roofline_model.expected.batch import ExpectedBatch


@dataclass(frozen=True, slots=True)
class ProductModel:
    """The model of C = A·B in fixed formats on a fixed chip; `expected` gives the times of any shapes."""

    chip: ChipSpec
    formats: GemmFormats
    fitted: FittedGemm
    weight: str
    activation: str
    output: str
    computes_wide: bool
    """Whether the chip has no unit for the pair, so that both operands are widened to 16 bit."""

    @classmethod
    def of(cls, device: Device, *, weight: str, activation: str, output: str) -> ProductModel:
        """Choose family and constants; raises `UnsupportedError` where the chip or the formats have no model."""
        formats = gemm_formats(weight, activation, output)
        computes_wide = device.path(formats.compute_format).kind == "dequantize"
        if computes_wide:
            formats = gemm_formats(weight, activation, output, computes_wide=True)
        chip = ChipSpec.of(device, formats.compute_format)
        fitted = with_measured_bandwidth(find_gemm(chip, formats.family), device)
        return cls(chip, formats, fitted, weight, activation, output, computes_wide)

    def expected(
        self, M: ArrayLike, N: ArrayLike, K: ArrayLike, *, cache: str = "cold", quantizes_activations: bool = False
    ) -> ExpectedBatch:
        """Return the expected times of the broadcast shapes; `cache="warm"`: the weights are found in the L2."""
        from roofline_model.expected.gemm.model import expected_gemm

        return expected_gemm(
            self.chip, M, N, K, weight_format=self.weight, activation_format=self.activation, output_format=self.output,
            dynamic_activation_quantization=quantizes_activations, weight_copies=HOT if cache == "warm" else COLD,
            computes_wide=self.computes_wide, constants=self.fitted,
        )  # fmt: skip
