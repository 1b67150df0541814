"""A product that widens its weights does the arithmetic of the 16-bit product, so that it saves memory traffic and no more.

Kernels of narrow weights were timed on two chips only. Lent to another, they would outrun its 16-bit kernels where arithmetic
binds: their lender's board was not throttled (L40S to L4), or its launch and supply were scaled and its tensor rate was not
(B200, H100). The limit is the time of the chip's own 16-bit product with the DRAM traffic of the narrow operands:

    limit = T_16 with T_d · (narrow traffic / 16-bit traffic) in its norm
    T     = T + share · max(0, limit - T)

The share is 1 from the ridge point of the 16-bit product's roofline on and falls to 0 at half of it: where memory binds, a
lean kernel for few rows may well beat what the 16-bit one takes beyond DRAM (A100, INT4 weights, up to 16 rows: measured at
0.76 of the limit in one row of ten). Beyond, A100's timed kernels keep it: median 1.03 of it for INT8 weights, 1.07 for INT4.
A chip whose weight-only kernels were timed keeps their times: on L40S, whose 16-bit kernels throttle at 350 W, long products
of narrow weights were measured at 0.7 to 0.9 of the 16-bit ones. Two widened operands were never timed together: share 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache, reduce
from operator import add
from typing import TYPE_CHECKING, Any

from roofline_model.core.finding import Finding, finding
from roofline_model.expected.batch import NORM_PARTS, ExpectedBatch, ExpectedCall
from roofline_model.expected.chip import fitted_numbers
from roofline_model.expected.gemm.elementwise import larger, smaller
from roofline_model.expected.gemm.formats import GemmFormats
from roofline_model.expected.gemm.norm import powered, rooted
from roofline_model.expected.gemm.product import ProductModel, copies_of
from roofline_model.expected.gemm.work import work_of
from roofline_model.kept import Kept

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

_MOST_KEPT = 256
"""Shapes whose 16-bit products are kept: a recommendation asks for the same one in every narrow format."""
_CALLS: Kept[dict[tuple[int, int, int, str], tuple[ExpectedCall, Any]]] = Kept(64)


def no_faster(
    model: ProductModel, found: ExpectedBatch, M: ArrayLike, N: ArrayLike, K: ArrayLike, cache: str
) -> ExpectedBatch:
    """Return the times raised to the limit, intervals by the same factor; what is added counts as the library's."""
    import numpy as np

    assert model.wide is not None
    m, n, k = (
        np.atleast_1d(size).astype(np.float64).ravel()
        for size in np.broadcast_arrays(*(np.asarray(size) for size in (M, N, K)))
    )
    every_share = limit_share(model, m, n, k)
    index = np.flatnonzero(every_share > 0)
    if not len(index):
        return found
    m, n, k = m[index], n[index], k[index]
    wide = model.wide.expected(m, n, k, cache=cache)
    of_wide_s = _dram_s(model.wide, model.wide.formats, m, n, k, cache)
    limit_s = _limit(wide, of_wide_s, _dram_s(model.wide, _narrowed(model), m, n, k, cache))
    time_s = found.time_s.copy()
    time_s[index] = _raised(found.time_s[index], limit_s, every_share[index])
    factor = time_s / found.time_s
    added = {"library": found.parts.get("library", 0.0) + (time_s - found.time_s)}
    return replace(
        found,
        time_s=time_s,
        low_s=found.low_s * factor,
        high_s=found.high_s * factor,
        parts={**found.parts, **added},
        findings=_with_limit(found.findings, bool((factor > 1).any())),
    )


def one_no_faster(model: ProductModel, found: ExpectedCall, M: int, N: int, K: int, cache: str) -> ExpectedCall:
    """Return what `no_faster` does of one shape, to the bit."""
    time_s = raised_one(model, found.time_s, M, N, K, cache)
    factor = time_s / found.time_s
    added = {"library": found.parts.get("library", 0.0) + (time_s - found.time_s)}
    return replace(
        found,
        time_s=time_s,
        low_s=found.low_s * factor,
        high_s=found.high_s * factor,
        parts={**found.parts, **added},
        findings=_with_limit(found.findings, factor > 1),
    )


def raised_one(model: ProductModel, time_s: float, M: int, N: int, K: int, cache: str = "cold") -> float:
    """Return the time of one shape alone, raised to the limit."""
    assert model.wide is not None
    m, n, k = (float(size) for size in (M, N, K))
    share = limit_share(model, m, n, k)
    if share <= 0:
        return time_s
    kept = _CALLS.of((model.wide,), dict)
    known = kept.get((M, N, K, cache))
    if known is None:
        if len(kept) >= _MOST_KEPT:
            kept.clear()
        of_wide_s = _dram_s(model.wide, model.wide.formats, m, n, k, cache)
        known = kept[M, N, K, cache] = model.wide.expected_one(M, N, K, cache=cache), of_wide_s
    limit_s = float(_limit(*known, _dram_s(model.wide, _narrowed(model), m, n, k, cache)))
    return float(_raised(time_s, limit_s, share))


def limit_share(model: ProductModel, m: Any, n: Any, k: Any) -> Any:
    """Return from 0 to 1 how much of the limit holds for each shape; numbers or arrays."""
    assert model.wide is not None
    if model.computes_wide:
        return m * 0.0 + 1.0
    chip, wide = model.wide.chip, model.wide.formats
    moved = (
        m * k * wide.activation_bytes_per_element
        + n * k * wide.weight_bytes_per_element
        + m * n * wide.output_bytes_per_element
    )
    # The compute side of the 16-bit product's roofline over its memory side.
    over = 2.0 * m * n * k / chip.peak_flops_per_s / (moved / chip.bandwidth_bytes_per_s)
    return smaller(larger(2.0 * over - 1.0, 0.0), 1.0)


def _limit(wide: ExpectedBatch | ExpectedCall, of_wide_s: Any, of_narrow_s: Any) -> Any:
    """Return the time of the 16-bit product with the DRAM traffic of the narrow operands; both as `_dram_s` gives them."""
    parts: Mapping[str, Any] = wide.parts
    order, before = wide.norm_order, parts["dram"]
    powers = reduce(add, (powered(value, order) for name, value in parts.items() if name in NORM_PARTS), 0.0)
    beside = reduce(add, (value for name, value in parts.items() if name not in NORM_PARTS), 0.0)
    narrowed = before * smaller(of_narrow_s / larger(of_wide_s, 1e-30), 1.0)
    # Nothing is left of a body that the library is expected to save whole: its launch is all of it.
    left = larger(powers - powered(before, order) + powered(narrowed, order), 0.0) / larger(powers, 1e-300)
    return beside + (wide.time_s - beside) * rooted(left, order)


def _dram_s(wide: ProductModel, formats: GemmFormats, m: Any, n: Any, k: Any, cache: str) -> Any:
    """Return the DRAM term of the 16-bit kernel, its operands of these formats."""
    chip = fitted_numbers(wide.chip, wide.fitted.chip)
    return work_of(chip, formats, wide.fitted.constants, m, n, k, copies_of(cache) + m * 0.0).dram_s


@lru_cache(maxsize=512)
def _narrow_formats(wide: GemmFormats, narrow: GemmFormats) -> GemmFormats:
    return replace(
        wide,
        weight_bytes_per_element=narrow.weight_bytes_per_element,
        activation_bytes_per_element=narrow.activation_bytes_per_element,
    )


def _narrowed(model: ProductModel) -> GemmFormats:
    """Return the formats of the 16-bit kernel with the bytes of the narrow operands."""
    assert model.wide is not None
    return _narrow_formats(model.wide.formats, model.formats)


def _raised(time_s: Any, limit_s: Any, share: Any) -> Any:
    return time_s + share * larger(limit_s - time_s, 0.0)


def _with_limit(findings: tuple[Finding, ...], is_raised: bool) -> tuple[Finding, ...]:
    return (*findings, finding("held-to-wide-product")) if is_raised else findings
