"""Expected times through the seam of the recommendation: what a good kernel of the chip takes, case by case or all at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from roofline_model.chips.hardware import Device
from roofline_model.core.answer import Estimate
from roofline_model.core.errors import UnsupportedError
from roofline_model.core.finding import unsupported
from roofline_model.core.memo import Memo
from roofline_model.expected.calibrated import KERNEL_VERSION
from roofline_model.expected.ideal_floor import raised_to_ideal
from roofline_model.expected.predict import PRODUCTS, has_gpu_model, predict_expected
from roofline_model.expected.prediction import EXPECTED_VERSION
from roofline_model.formats.catalog import NumberFormat, get_format
from roofline_model.ideal.product_roof import ProductRoof
from roofline_model.kernels.known_kernels import why_no_product_kernel
from roofline_model.operators.case import Case
from roofline_model.operators.product import check_dimension, gemm

if TYPE_CHECKING:
    from roofline_model.expected.products.product import ProductModels

Operands = tuple[NumberFormat, NumberFormat, NumberFormat]
"""Formats of a, b and c."""


@dataclass(frozen=True, slots=True)
class _Priced:
    """Formats on a chip, and how those of them that the fitted model knows are priced together."""

    roofs: tuple[ProductRoof | None, ...]
    """One per triple of formats; None: it is asked for by itself (a machine's own calibration, or both operands widened)."""
    models: ProductModels | None
    """Of the triples with a roof, in their order; None where there is none."""
    unknown: frozenset[int]
    """Places of the triples that have no expected time at all."""


_PRICED: Memo[_Priced] = Memo(256)


@dataclass(frozen=True, slots=True)
class ExpectedTimes:
    """The expected times of one chip."""

    device: Device

    def __call__(self, case: Case) -> Estimate | None:
        """Return the expected time of one product, or None; see `expected_times`."""
        if not _is_product(case):
            return None
        sizes, formats = dict(case.shape), dict(case.formats)
        work = gemm(sizes["M"], sizes["N"], sizes["K"], a=formats["a"], b=formats["b"], c=formats["c"])
        found = predict_expected(work, self.device, cache=case.cache)
        if found is None or found.model_version not in (EXPECTED_VERSION, KERNEL_VERSION):
            return None
        return Estimate(found.time_s, found.low_s, found.high_s, "expected", found.provenance)

    def many(self, cases: Sequence[Case]) -> list[Estimate | None]:
        """Return the expected time of each case: the same as one by one, sooner for the formats of one cold shape."""
        if not cases:
            return []
        first = cases[0]
        is_one_shape = all(_is_product(one) and one.cache == "cold" and one.shape == first.shape for one in cases)
        if not is_one_shape or not has_gpu_model(self.device):
            return [self(case) for case in cases]
        for name, size in first.shape:
            check_dimension(name, size)
        named = [dict(case.formats) for case in cases]
        triples = [(get_format(one["a"]), get_format(one["b"]), get_format(one["c"])) for one in named]
        key = (self.device, *(fmt for triple in triples for fmt in triple))
        priced = _PRICED.of(key, lambda: _priced(self.device, triples))
        sizes = dict(first.shape)
        together = iter(_estimates(priced, sizes["M"], sizes["N"], sizes["K"]))
        return [
            next(together) if roof is not None else None if place in priced.unknown else self(case)
            for place, (case, roof) in enumerate(zip(cases, priced.roofs, strict=True))
        ]


def _is_product(case: Case) -> bool:
    """Return whether a case is a product with its sizes: a kernel of somebody's own may be called one and have others."""
    return case.op in PRODUCTS and {"M", "N", "K"} <= dict(case.shape).keys()


def expected_times(device: Device) -> ExpectedTimes:
    """Return the function that gives the expected time of a product on `device`, for `recommend_quantization(times=…)`.

    It answers None for what is no product (gemv, gemm), where the chip has no expected time, and where all that is known are
    the ceilings of a calibrated machine: they do not say whether it has a kernel for the formats. The recommendation then
    falls back to the ideal and says so.
    """
    return ExpectedTimes(device)


def _priced(device: Device, triples: Sequence[Operands]) -> _Priced:
    from roofline_model.expected.products.product import ProductModel, ProductModels

    roofs: list[ProductRoof | None] = []
    models, unknown = [], set()
    for place, (activation, weight, output) in enumerate(triples):
        roof = None
        try:
            if (why_not := why_no_product_kernel(gemm(1, 1, 1, a=activation, b=weight, c=output), device)) is not None:
                raise unsupported(why_not)
            model = ProductModel.of(device, weight=weight.key, activation=activation.key, output=output.key)
            if not model.computes_wide:
                roof = ProductRoof.of(device, activation=activation, weight=weight, output=output)
                models.append(model)
        except UnsupportedError:
            if device.calibration is None:
                unknown.add(place)
        roofs.append(roof)
    return _Priced(tuple(roofs), ProductModels.of(models) if models else None, frozenset(unknown))


def _estimates(priced: _Priced, M: int, N: int, K: int) -> list[Estimate]:
    """Return the expected times of the triples that are priced together."""
    if priced.models is None:
        return []
    roofs = [roof for roof in priced.roofs if roof is not None]
    estimates = []
    for roof, model, times in zip(roofs, priced.models.models, priced.models.expected(M, N, K), strict=True):
        ideal = roof.at(M, N, K)
        time_s, low_s, high_s = raised_to_ideal(*times, ideal.memory_s, ideal.compute_s / roof.beaten_ratio)
        estimates.append(Estimate(time_s, low_s, high_s, "expected", model.parameters.provenance))
    return estimates
