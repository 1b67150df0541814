"""What the expected-time model needs for products of one pair of formats on one chip: numbers, kernel family, constants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from roofline_model.expected.batch import ExpectedBatch, ExpectedCall
from roofline_model.expected.chip import ChipSpec
from roofline_model.expected.gemm.constants import FittedGemm
from roofline_model.expected.gemm.formats import GemmFormats, gemm_formats
from roofline_model.expected.gemm.library import find_gemm
from roofline_model.expected.gemm.reached_rate import with_published_rate
from roofline_model.expected.gemm.rotation import COLD, HOT
from roofline_model.expected.measured_here import with_measured_bandwidth
from roofline_model.formats import NumberFormat, get_format
from roofline_model.hardware import Device
from roofline_model.kept import Kept

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


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
    wide: ProductModel | None = None
    """The product of the format it computes in, the limit of what widens its operands and was never timed on this chip
    (`widened_floor.py`); None elsewhere."""

    @classmethod
    def of(cls, device: Device, *, weight: str | NumberFormat, activation: str, output: str) -> ProductModel:
        """Choose family and constants; raises `UnsupportedError` where the chip or the formats have no model."""
        operands = (get_format(weight), get_format(activation), get_format(output))
        return _KEPT.of((device, *operands), lambda: cls._chosen(device, weight, activation, output))

    @classmethod
    def _chosen(cls, device: Device, weight: str | NumberFormat, activation: str, output: str) -> ProductModel:
        formats = gemm_formats(weight, activation, output)
        computes_wide = device.path(formats.compute_format).kind == "dequantize"
        if computes_wide:
            formats = gemm_formats(weight, activation, output, computes_wide=True)
        chip = ChipSpec.of(device, formats.compute_format)
        fitted = with_published_rate(find_gemm(chip, formats.family), device, formats)
        fitted = with_measured_bandwidth(fitted, device)
        wide = None
        if computes_wide or (formats.is_weight_only and fitted.provenance != "fitted"):
            key = formats.compute_format
            wide = cls.of(device, weight=key, activation=key, output=output)
        return cls(chip, formats, fitted, get_format(weight).key, activation, output, computes_wide, wide)

    def expected(
        self, M: ArrayLike, N: ArrayLike, K: ArrayLike, *, cache: str = "cold", quantizes_activations: bool = False
    ) -> ExpectedBatch:
        """Return the expected times of the broadcast shapes; `cache="warm"`: the weights are found in the L2."""
        from roofline_model.expected.gemm.model import expected_of_formats
        from roofline_model.expected.gemm.widened_floor import no_faster

        found = expected_of_formats(
            self.chip,
            M,
            N,
            K,
            formats=self.formats,
            constants=self.fitted,
            weight_copies=copies_of(cache),
            dynamic_activation_quantization=quantizes_activations,
        )
        return found if self.wide is None else no_faster(self, found, M, N, K, cache)

    def expected_one(
        self, M: int, N: int, K: int, *, cache: str = "cold", quantizes_activations: bool = False
    ) -> ExpectedCall:
        """Return the expected time of one shape: the same numbers, sooner."""
        from roofline_model.expected.gemm.one_product import expected_of_product
        from roofline_model.expected.gemm.widened_floor import one_no_faster

        found = expected_of_product(
            self.chip,
            M,
            N,
            K,
            formats=self.formats,
            fitted=self.fitted,
            weight_copies=copies_of(cache),
            dynamic_activation_quantization=quantizes_activations,
        )
        return found if self.wide is None else one_no_faster(self, found, M, N, K, cache)


_KEPT: Kept[ProductModel] = Kept(512)


def copies_of(cache: str) -> float:
    """Return the copies of a weight that are touched between two uses of one, in a state of the cache."""
    return HOT if cache == "warm" else COLD
