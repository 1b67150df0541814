"""Where a block is clipped: its largest magnitude, a percentile of its magnitudes, or the limit of least squared error.

Clipping trades a large error of a few outliers for a finer step of all others. Sources: Wu et al., Integer Quantization
for Deep Learning Inference, arXiv 2004.09602 (maximum and percentile calibration); Banner et al., arXiv 1810.05723
(the clip of least squared error).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from roofline_model.formats.codecs.scales.blocks import block_count

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

MSE_FACTORS = tuple(round(1 - 0.02 * i, 2) for i in range(41))
"""Shares of the full range that the search tries, 1.00 down to 0.20. The full range is first: it wins ties."""


def percentile_limits(rows: Array, block_elems: int | None, quantile_ratio: float) -> Array:
    """Return per block (blocks,) the magnitude below which `quantile_ratio` of its elements lie, interpolated linearly.

    A short last block is judged by its own elements. A block whose percentile is zero (nearly all zeros) keeps its
    maximum: clipped to nothing it would lose everything it holds.
    """
    import numpy as np

    magnitudes = np.abs(rows)
    if block_elems is None:
        magnitudes, block_elems = magnitudes.reshape(1, -1), rows.size
    full = magnitudes.shape[1] // block_elems
    limits = np.empty((len(magnitudes), block_count(magnitudes.shape[1], block_elems)), np.float32)
    parts = [(slice(0, full), magnitudes[:, : full * block_elems].reshape(len(magnitudes), full, block_elems))]
    if magnitudes.shape[1] % block_elems:
        parts.append((slice(full, full + 1), magnitudes[:, None, full * block_elems :]))
    for some, part in parts:
        if part.size:
            found = np.quantile(part, quantile_ratio, axis=2)
            limits[:, some] = np.where(found > 0, found, part.max(axis=2))
    return limits.reshape(-1)


def least_error_factor(errors_of: Callable[[float], Array]) -> Array:
    """Return per block the factor of `MSE_FACTORS` whose squared error `errors_of(factor)` is least."""
    import numpy as np

    best_error = errors_of(MSE_FACTORS[0])
    best = np.full(len(best_error), MSE_FACTORS[0], np.float32)
    for factor in MSE_FACTORS[1:]:
        error = errors_of(factor)
        is_better = error < best_error
        best[is_better], best_error[is_better] = factor, error[is_better]
    return best
