"""Expected times of products in one pair of formats on one chip, and of several pairs together, held to two limits.

**The published rate.** A lender's board says nothing about another's power, clock or accumulator rate: constants of a
350 W L40S throttle where a 450 W RTX 4090 does not, and an RTX 5090 runs above its rated boost clock. A rate published
for the chip (`achieved` in its file) is a proof that it can be reached, so large products on transferred constants are
not expected to be slower. It is no upper limit: one library's best says nothing against a faster kernel (the published
bandwidth, a micro-benchmark, is one: `measured_here`). Published rates are the best over shapes; where the lenders'
fitted kernels stay below what was published for the lenders (B200: 0.84 in 16 bit, 0.73 in NVFP4), so will the chip's.
Constants fitted on a chip's own rows stay as they are for that reason.

**The 16-bit product.** A product that widens its weights does the arithmetic of the 16-bit product, so that it saves
memory traffic and no more. Kernels of narrow weights were timed on two chips only. Lent to another, they would outrun
its 16-bit kernels where arithmetic binds: their lender's board was not throttled (L40S to L4), or its launch and supply
were scaled and its tensor rate was not (B200, H100). The limit is the time of the chip's own 16-bit product with the
DRAM traffic of the narrow operands:

    limit = T_16 with T_d · (narrow traffic / 16-bit traffic) in its norm
    T     = T + share · max(0, limit - T)

The share is 1 from the ridge point of the 16-bit product's roofline on and falls to 0 at half of it: where memory
binds, a lean kernel for few rows may well beat what the 16-bit one takes beyond DRAM (A100, INT4 weights, up to 16
rows: measured at 0.76 of the limit in one row of ten). Beyond, A100's timed kernels keep it: median 1.03 of it for INT8
weights, 1.07 for INT4. A chip whose weight-only kernels were timed keeps their times: on L40S, whose 16-bit kernels
throttle at 350 W, long products of narrow weights were measured at 0.7 to 0.9 of the 16-bit ones. Two widened operands
were never timed together: share 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from operator import add
from typing import TYPE_CHECKING

from roofline_model.chips.hardware import Device, get_hardware
from roofline_model.core.elementwise import Numbers, larger, powered, rooted, smaller
from roofline_model.core.errors import RooflineError
from roofline_model.core.finding import Finding, finding
from roofline_model.core.memo import Memo
from roofline_model.expected.chip import ChipSpec
from roofline_model.expected.prediction import NORM_PARTS, ExpectedBatch
from roofline_model.expected.products.fitted.constants import FittedGemm
from roofline_model.expected.products.fitted.library import find_gemm, with_measured_bandwidth
from roofline_model.expected.products.formula import checked_sizes, expected_batch, product_times, work_of
from roofline_model.expected.products.parameters import (
    COLD,
    GemmFormats,
    ProductParameters,
    copies_of,
    gemm_formats,
    side_by_side,
)
from roofline_model.formats.catalog import NumberFormat, get_format
from roofline_model.ideal.roofline import published_rate

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


LARGE_SIZE = 8192
"""M = N = K of the product that stands for large ones; published best rates come from 4096³ to 16384³."""
CLOCKED = ("tensor_ratio", "l2_ratio", "sm_ratio")
"""Constants of what runs at the SMs' clock: a product bound by the tensor units needs all three."""
_STEPS_COUNT = 6
"""Corrections until launch and DRAM, which do not scale, are made up for; each leaves about a tenth of the rest."""


def with_published_rate(fitted: FittedGemm, device: Device, formats: GemmFormats) -> FittedGemm:
    """Return transferred constants that reach the chip's published rate in large products; others unchanged.

    Kernels that widen their weights are left alone: nothing published is of them.
    """
    if fitted.provenance == "fitted" or formats.is_weight_only:
        return fitted
    best = published_rate(device, formats.compute_format)
    if best is None:
        return fitted
    wanted = best.value * min([1.0, *filter(None, (_lender_share(key, formats) for key in fitted.sources))])
    reached = finding("constants-adjusted", kind="published-rate", rate_flops_per_s=best.value, hardware=device.key)
    return _scaled_to_rate(fitted, formats, wanted, reached)


@lru_cache(maxsize=256)
def _scaled_to_rate(fitted: FittedGemm, formats: GemmFormats, wanted: float, reached: Finding) -> FittedGemm:
    if wanted <= _large_rate(fitted, formats):
        return fitted
    # The lender's loss of clock in long kernels is its board's power limit.
    scaled = replace(fitted, constants=replace(fitted.constants, clock_loss_ratio=0.0))
    for _ in range(_STEPS_COUNT):
        gain = wanted / _large_rate(scaled, formats)
        clocked = {name: getattr(scaled.constants, name) * gain for name in CLOCKED}
        scaled = replace(scaled, constants=replace(scaled.constants, **clocked))
    return replace(scaled, findings=(*fitted.findings, reached))


@lru_cache(maxsize=64)
def _lender_share(key: str, formats: GemmFormats) -> float | None:
    """Return what the lender's own constants expect of a large product, over what was published for the lender."""
    try:
        device = get_hardware(key)
        best = published_rate(device, formats.compute_format)
        if best is None:
            return None
        fitted = find_gemm(ChipSpec.of(device, formats.compute_format), formats.family)
    except RooflineError:
        return None  # a chip that only the caller's file describes, or one without the format
    return _large_rate(fitted, formats, ChipSpec.of(device, formats.compute_format)) / best.value


def _large_rate(fitted: FittedGemm, formats: GemmFormats, chip: ChipSpec | None = None) -> float:
    """Return FLOP/s of the large product, weights cold."""
    size = float(LARGE_SIZE)
    parameters = ProductParameters.of(chip or fitted.chip, formats, fitted)
    return float(2.0 * size**3 / product_times(parameters, size, size, size, COLD).time_s)


def large_product_share(device: Device, format_key: str) -> float:
    """Return what is expected of a large product with both operands in a format, over the chip's dense peak."""
    model = ProductModel.of(device, weight=format_key, activation=format_key, output=format_key)
    return _large_rate(model.fitted, model.formats, model.chip) / model.chip.peak_flops_per_s


def widening_share(
    wide: ProductParameters, m: Numbers, n: Numbers, k: Numbers, *, computes_wide: bool = False
) -> Numbers:
    """Return from 0 to 1 how much of the limit holds for each shape. `computes_wide`: both operands are widened."""
    if computes_wide:
        return m * 0.0 + 1.0
    moved = (
        m * k * wide.activation_bytes_per_element
        + n * k * wide.weight_bytes_per_element
        + m * n * wide.output_bytes_per_element
    )
    # The compute side of the 16-bit product's roofline over its memory side.
    over = 2.0 * m * n * k / wide.peak_flops_per_s / (moved / wide.bandwidth_bytes_per_s)
    return smaller(larger(2.0 * over - 1.0, 0.0), 1.0)


def narrow_limit(wide: ExpectedBatch, wide_dram_s: Numbers, narrow_dram_s: Numbers) -> Numbers:
    """Return the time of the 16-bit product with the DRAM traffic of the narrow operands in its norm.

    Both DRAM terms are those of the 16-bit kernel, with its own operands and with the narrow ones.
    """
    parts, order, before = wide.parts, wide.norm_order, wide.parts["dram"]
    powers = reduce(add, (powered(value, order) for name, value in parts.items() if name in NORM_PARTS), 0.0)
    # The library's surface is a factor on the whole time: it shrinks with the body.
    beside = reduce(add, (value for name, value in parts.items() if name not in (*NORM_PARTS, "library")), 0.0)
    narrowed = before * smaller(narrow_dram_s / larger(wide_dram_s, 1e-30), 1.0)
    # Nothing is left of a body that the library is expected to save whole: its launch is all of it.
    left = larger(powers - powered(before, order) + powered(narrowed, order), 0.0) / larger(powers, 1e-300)
    return beside + (wide.time_s - beside) * rooted(left, order)


def nearer_to_limit(time_s: Numbers, limit_s: Numbers, share: Numbers) -> Numbers:
    """Return each time with its share of what is missing to the limit."""
    return time_s + share * larger(limit_s - time_s, 0.0)


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
    """The product of the format it computes in, the limit of what widens its operands and was never timed on this chip;
    None elsewhere."""
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
            # The limit is one of arithmetic. The serial loops are a trait of the 16-bit library; other kernels do not
            # have them.
            wide = replace(wide, parameters=replace(wide.parameters, is_sixteen_bit=False))
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
            findings=(*batch.findings, finding("product-held", kind="wide-product")) if is_raised else batch.findings,
        )

    def not_faster_than_wide(self, time_s: Numbers, m: Numbers, n: Numbers, k: Numbers, cache: str) -> Numbers:
        """Return times raised to the limit that the 16-bit product sets, where there is one."""
        if self.wide is None:
            return time_s
        share = widening_share(self.wide.parameters, m, n, k, computes_wide=self.computes_wide)
        if isinstance(share, float):
            return nearer_to_limit(time_s, self._limit_of_one(m, n, k, cache), share) if share > 0 else time_s
        import numpy as np

        places = np.flatnonzero(share > 0)
        limit_s = np.zeros_like(share)
        if len(places):
            some = m[places], n[places], k[places]
            limit_s[places] = self._limit(self.wide.expected(*some, cache=cache), *some, cache)
        return nearer_to_limit(time_s, limit_s, share)

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
