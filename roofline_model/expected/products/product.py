"""The expected-time model of products in one pair of formats on one chip, and of several pairs together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from roofline_model.chips.hardware import Device
from roofline_model.core.elementwise import Numbers
from roofline_model.core.finding import finding
from roofline_model.core.memo import Memo
from roofline_model.expected.batch import ExpectedBatch
from roofline_model.expected.chip import ChipSpec
from roofline_model.expected.measured_here import with_measured_bandwidth
from roofline_model.expected.products.fitted.constants import FittedGemm
from roofline_model.expected.products.fitted.library import find_gemm
from roofline_model.expected.products.formats import GemmFormats, gemm_formats
from roofline_model.expected.products.formula import checked_sizes, expected_batch, product_times
from roofline_model.expected.products.parameters import ProductParameters, side_by_side
from roofline_model.expected.products.reached_rate import with_published_rate
from roofline_model.expected.products.rotation import COLD, copies_of
from roofline_model.expected.products.widened_floor import narrow_limit, raised, widening_share
from roofline_model.expected.products.work import work_of
from roofline_model.formats.catalog import NumberFormat, get_format

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

MAX_STORED_SHAPES = 256
"""Shapes whose 16-bit products are stored: a recommendation asks for the same one in every narrow format."""


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
    parameters: ProductParameters
    cast_parameters: ProductParameters
    """Of calls that quantise their activations themselves."""
    wide: ProductModel | None = None
    """The product of the format it computes in, the limit of what widens its operands and was never timed on this chip
    (`widened_floor.py`); None elsewhere."""
    narrow_parameters: ProductParameters | None = None
    """Of the kernel of `wide` with the bytes of the narrow operands."""

    @classmethod
    def of(cls, device: Device, *, weight: str | NumberFormat, activation: str, output: str) -> ProductModel:
        """Choose family and constants; raises `UnsupportedError` where the chip or the formats have no model."""
        operands = (get_format(weight), get_format(activation), get_format(output))
        return _MODELS.of((device, *operands), lambda: cls._chosen(device, weight, activation, output))

    @classmethod
    def _chosen(cls, device: Device, weight: str | NumberFormat, activation: str, output: str) -> ProductModel:
        formats = gemm_formats(weight, activation, output)
        computes_wide = device.path(formats.compute_format).kind == "dequantize"
        if computes_wide:
            formats = gemm_formats(weight, activation, output, computes_wide=True)
        chip = ChipSpec.of(device, formats.compute_format)
        fitted = constants_here(find_gemm(chip, formats.family), device, formats)
        parameters = ProductParameters.of(chip, formats, fitted)
        wide, narrow = None, None
        if computes_wide or (formats.is_weight_only and fitted.provenance != "fitted"):
            key = formats.compute_format
            wide = cls.of(device, weight=key, activation=key, output=output)
            narrow = replace(
                wide.parameters,
                weight_bytes_per_element=formats.weight_bytes_per_element,
                activation_bytes_per_element=formats.activation_bytes_per_element,
            )
        return cls(
            chip,
            formats,
            fitted,
            get_format(weight).key,
            activation,
            output,
            computes_wide,
            parameters,
            ProductParameters.of(chip, formats, fitted, quantizes_activations=True),
            wide,
            narrow,
        )

    def expected(
        self, M: ArrayLike, N: ArrayLike, K: ArrayLike, *, cache: str = "cold", quantizes_activations: bool = False
    ) -> ExpectedBatch:
        """Return the expected times of the broadcast shapes, of three numbers as numbers.

        `cache="warm"`: the weights are found in the L2.
        """
        parameters = self.cast_parameters if quantizes_activations else self.parameters
        m, n, k, copies = checked_sizes(M, N, K, copies_of(cache))
        batch = expected_batch(parameters, m, n, k, copies)
        if self.wide is None:
            return batch
        time_s = self.not_faster_than_wide(batch.time_s, m, n, k, cache)
        factor = time_s / batch.time_s
        is_raised = factor > 1 if isinstance(factor, float) else bool((factor > 1).any())
        library_s = batch.parts.get("library", 0.0) + (time_s - batch.time_s)
        return replace(
            batch,
            time_s=time_s,
            low_s=batch.low_s * factor,
            high_s=batch.high_s * factor,
            parts={**batch.parts, "library": library_s},
            findings=(*batch.findings, finding("held-to-wide-product")) if is_raised else batch.findings,
        )

    def not_faster_than_wide(self, time_s: Numbers, m: Numbers, n: Numbers, k: Numbers, cache: str) -> Numbers:
        """Return times raised to the limit that the 16-bit product sets, where there is one (`widened_floor.py`)."""
        if self.wide is None:
            return time_s
        share = widening_share(self.wide.parameters, m, n, k, computes_wide=self.computes_wide)
        if isinstance(share, float):
            return raised(time_s, self._limit_of_one(m, n, k, cache), share) if share > 0 else time_s
        import numpy as np

        places = np.flatnonzero(share > 0)
        limit_s = np.zeros_like(share)
        if len(places):
            some = m[places], n[places], k[places]
            limit_s[places] = self._limit(self.wide.expected(*some, cache=cache), *some, cache)
        return raised(time_s, limit_s, share)

    def _limit_of_one(self, m: float, n: float, k: float, cache: str) -> float:
        assert self.wide is not None
        stored = _WIDE_TIMES.of((self.wide,), dict)
        wide = stored.get((m, n, k, cache))
        if wide is None:
            if len(stored) >= MAX_STORED_SHAPES:
                stored.clear()
            wide = stored[m, n, k, cache] = self.wide.expected(m, n, k, cache=cache)
        return float(self._limit(wide, m, n, k, cache))

    def _limit(self, wide: ExpectedBatch, m: Numbers, n: Numbers, k: Numbers, cache: str) -> Numbers:
        assert self.wide is not None
        assert self.narrow_parameters is not None
        copies = copies_of(cache) + m * 0.0
        wide_dram_s = work_of(self.wide.parameters, m, n, k, copies).dram_s
        return narrow_limit(wide, wide_dram_s, work_of(self.narrow_parameters, m, n, k, copies).dram_s)


_MODELS: Memo[ProductModel] = Memo(512)
_WIDE_TIMES: Memo[dict[tuple[float, float, float, str], ExpectedBatch]] = Memo(64)


@dataclass(frozen=True, slots=True)
class ProductModels:
    """The models of several pairs of formats on one chip, priced together: all the formats of one shape in one pass."""

    models: tuple[ProductModel, ...]
    parameters: ProductParameters
    """Of all of them, side by side."""

    @classmethod
    def of(cls, models: Sequence[ProductModel]) -> ProductModels:
        """Return models of one chip together, in their order; there is at least one."""
        return cls(tuple(models), side_by_side([model.parameters for model in models]))

    def expected(self, M: int, N: int, K: int) -> list[tuple[float, float, float]]:
        """Return the (expected, low, high) seconds of C(M×N) = A(M×K)·B(K×N) in each pair, weights cold.

        The numbers of `ProductModel.expected`; sizes are whole numbers from 1, unchecked.
        """
        m, n, k = float(M), float(N), float(K)
        times = product_times(self.parameters, m, n, k, COLD)
        each = list(zip(times.time_s.tolist(), times.low_s.tolist(), times.high_s.tolist(), strict=True))
        for place, model in enumerate(self.models):
            if model.wide is not None:
                time_s, low_s, high_s = each[place]
                raised_s = model.not_faster_than_wide(time_s, m, n, k, "cold")
                factor = raised_s / time_s
                each[place] = raised_s, low_s * factor, high_s * factor
        return each


def constants_here(fitted: FittedGemm, device: Device, formats: GemmFormats) -> FittedGemm:
    """Return transferred constants with what is published of this chip's rate and known of its DRAM in their place."""
    return with_measured_bandwidth(with_published_rate(fitted, device, formats), device)
