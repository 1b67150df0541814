"""What the expected-time model needs for products of one pair of formats on one chip: numbers, kernel family, constants."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from roofline_model.expected.batch import NORM_PARTS, ExpectedBatch, ExpectedCall
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
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]


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
    wide_fitted: FittedGemm | None = None
    """Constants of 16-bit products, the limit where both operands are widened; None where they are not."""

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
        if computes_wide:
            plain = gemm_formats(formats.compute_format, formats.compute_format, output)
            wide = with_measured_bandwidth(with_published_rate(find_gemm(chip, plain.family), device, plain), device)
        return cls(chip, formats, fitted, get_format(weight).key, activation, output, computes_wide, wide)

    def expected(
        self, M: ArrayLike, N: ArrayLike, K: ArrayLike, *, cache: str = "cold", quantizes_activations: bool = False
    ) -> ExpectedBatch:
        """Return the expected times of the broadcast shapes; `cache="warm"`: the weights are found in the L2."""
        from roofline_model.expected.gemm.model import expected_of_formats

        copies = HOT if cache == "warm" else COLD
        found = expected_of_formats(
            self.chip, M, N, K, formats=self.formats, constants=self.fitted, weight_copies=copies,
            dynamic_activation_quantization=quantizes_activations,
        )  # fmt: skip
        if self.wide_fitted is None:
            return found
        plain = gemm_formats(self.formats.compute_format, self.formats.compute_format, self.output)
        narrow = replace(
            plain,
            weight_bytes_per_element=self.formats.weight_bytes_per_element,
            activation_bytes_per_element=self.formats.activation_bytes_per_element,
        )
        wide_batch, narrow_batch = (
            expected_of_formats(self.chip, M, N, K, formats=one, constants=self.wide_fitted, weight_copies=copies)
            for one in (plain, narrow)
        )
        return _no_faster(found, _with_dram(wide_batch, narrow_batch.parts["dram"]))

    def expected_one(
        self, M: int, N: int, K: int, *, cache: str = "cold", quantizes_activations: bool = False
    ) -> ExpectedCall:
        """Return the expected time of one shape: the same numbers, sooner."""
        from roofline_model.expected.gemm.one_product import expected_of_product

        if self.wide_fitted is not None:
            return ExpectedCall.of_batch(
                self.expected(M, N, K, cache=cache, quantizes_activations=quantizes_activations)
            )
        return expected_of_product(
            self.chip, M, N, K, formats=self.formats, fitted=self.fitted, weight_copies=HOT if cache == "warm" else COLD,
            dynamic_activation_quantization=quantizes_activations,
        )  # fmt: skip


_KEPT: Kept[ProductModel] = Kept(512)


def _with_dram(batch: ExpectedBatch, dram_s: Floats) -> Floats:
    """Return the times of a batch whose DRAM term is at most `dram_s`, the terms beside it as they are."""
    import numpy as np

    order, before = batch.norm_order, batch.parts["dram"]
    powers = sum(value**order for name, value in batch.parts.items() if name in NORM_PARTS)
    beside = sum(value for name, value in batch.parts.items() if name not in NORM_PARTS)
    left = np.maximum(powers - before**order + np.minimum(before, dram_s) ** order, 0.0) / powers
    result: Floats = beside + (batch.time_s - beside) * left ** (1.0 / order)
    return result


def _no_faster(found: ExpectedBatch, limit_s: Floats) -> ExpectedBatch:
    """Return the times raised to `limit_s`, intervals by the same factor; what is added counts as the library's.

    Two widened operands were never measured together, and the library of another kernel (narrow weights) must not make
    them faster than the 16-bit product that fetches fewer bytes.
    """
    import numpy as np

    time_s = np.maximum(found.time_s, limit_s)
    factor = time_s / found.time_s
    library = found.parts.get("library", 0.0) + (time_s - found.time_s)
    note = "not faster than the 16-bit product but for its smaller DRAM traffic" if bool((factor > 1).any()) else ""
    return replace(
        found, time_s=time_s, low_s=found.low_s * factor, high_s=found.high_s * factor,
        parts={**found.parts, "library": library}, confidence="; ".join(filter(None, [found.confidence, note])),
    )  # fmt: skip
