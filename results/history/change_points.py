"""Steps in a series of nights: where the level changed, found as the nights come in. Deterministic. Pure; numpy, scipy
lazily.

**How.** Night after night, the newest 2, 3, 4, 5 … 64 nights are held against all nights of the same level before them
(`step_scan`): a t test whose threshold was set by simulation for a search repeated every night. What passes is also
asked: is a straight line (or, over many nights, a bent one) an equally good account, then it is no step; are nights far
off usual here, then two of them in a row mean nothing. The first night that passes everything *finds* the step; where
the level began is the split that explains the nights best. A new level starts there, and the search goes on in it.

**Found once, confirmed later.** A step found on few nights is kept only if the first six nights of the new level still
show it (`_is_confirmed`); otherwise it is withdrawn, and the nights return to the level before. Only later nights
decide about that: a step that was found stays the same step on every following night, so it can be told about once.

The search over windows with a t test instead of permutations is that of E-divisive as used by Hunter (D. Matteson,
N. James, J. Am. Stat. Assoc. 109 (2014) 334; M. Fleming et al., arXiv:2301.03034); see
docs/development/decisions/0007-change-points.md for what was compared.

**A young series** knows too little of its spread for that. There five nights are a step when the new and the earlier
nights lie apart by three quarters of what either group spans (`_is_clear`): of 3,000 unchanged series of normal noise
that happened in none. Fewer new nights that lie so far off are *pending*: told, and no step yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from results.history.fences import clip_to_fences, is_heavy_tailed
from results.history.step_scan import (
    DOUBTFUL_SHARE,
    LEAST_NIGHTS_FOR,
    WINDOWS,
    Scan,
    critical,
    scan,
    window_chances,
)
from roofline_model.core.finding import Finding, finding

if TYPE_CHECKING:
    from numpy.typing import NDArray

LEAST_NIGHTS = 6
"""With fewer nights nothing is said of steps at all."""
CONFIRMING_NIGHTS = 6
_CONFIRMING_CHANCE = 5e-5
_CONFIRMING_SD = 1.5
_CONFIRMING_LAGS = 15
_SHORT = {2: 0.0, 3: 0.02, 4: 0.05}
"""Windows in which single nights count for much → share of earlier nights that may have been at the new level
already.
"""
_VISITED = {2: 1.0, 3: 0.8, 4: 0.8}
"""From which share of the step on an earlier night counts as having been there: a machine with two states visits
both.
"""
_CONFIRMING_SHARE = 0.1
_LEAST_NIGHT_SHARE = {2: 0.4, 3: 0.5, 4: 0.5}
"""Of the new nights, the nearer half lies at least this far from the old level, as a share of the step: one night far
off does not carry the others.
"""
_MOST_UNLIKE = 4.0
"""Of few new nights, the farthest lies at most this many times as far from the old level as the others do on
average.
"""
_FEW = 8
_MOST_RESIDUAL_CORRELATION = 0.7
_LONG = 5
CLEAR_NIGHTS = range(5, 9)
"""Newest nights that are a step where they lie clear of all earlier ones of the level …"""
_CLEAR_AFTER = range(5, 20)
"""… which are so many: the t tests find fewer new nights after more."""
_CLEAR_SHARE = 0.75
"""Clear is a gap of this share of what the earlier or the new nights span, the wider of the two."""


@dataclass(frozen=True, slots=True)
class Step:
    """A level that changed. Indices count the nights of the series."""

    start_index: int
    """First night of the new level."""
    found_index: int
    """The night on which it was found."""
    is_confirmed: bool
    """Whether `CONFIRMING_NIGHTS` nights of the new level have shown it; False: it is too new to be sure."""
    is_withdrawn: bool = False
    """Later nights took it back: they belong to the level before."""


def find_steps(values: Sequence[float], *, least: float = 0.0) -> tuple[Step, ...]:
    """Return the steps of a series of nights in order, withdrawn ones among them.

    `values`: on a scale on which noise adds (logarithms of times). `least`: the smallest step that counts, in that
    unit. Adding later nights never moves a step that was found; it can only confirm or withdraw it.
    """
    import numpy as np

    series = np.asarray(values, dtype=float)
    steps: list[Step] = []
    level_index, first_index = 0, 0
    earlier_squares, earlier_df = 0.0, 0
    while len(series) - level_index >= (LEAST_NIGHTS if level_index == 0 else 3):
        level = series[level_index:]
        clipped = clip_to_fences(level.tolist(), least)
        hit = _first_step(level, clipped - clipped[0], first_index, earlier_squares, earlier_df, least)
        if hit is None:
            break
        end, start = hit
        judged = max(end, start + CONFIRMING_NIGHTS - 1)
        is_judged = judged < len(level)
        withdrawn = is_judged and not (
            _is_confirmed(level, start, judged, earlier_squares, earlier_df, least)
            or (start in _CLEAR_AFTER and _is_clear(level[: judged + 1], start, least))
        )
        steps.append(Step(level_index + start, level_index + end, is_judged and not withdrawn, withdrawn))
        if withdrawn:
            first_index = judged + 1
            continue
        earlier = clipped[:start]
        earlier_squares += float(np.sum((earlier - earlier.mean()) ** 2))
        earlier_df += start - 1
        level_index, first_index = level_index + start, 0
    return tuple(steps)


def find_pending(values: Sequence[float], steps: Sequence[Step], *, least: float = 0.0) -> Finding | None:
    """Return how many of the newest nights differ from all others of their level though they are too few to be a step,
    and how many it takes after so many earlier ones; None where none do. `steps`: of `find_steps` of the same values.
    """
    import numpy as np

    first = max((step.start_index for step in steps if not step.is_withdrawn), default=0)
    level = np.asarray(values[first:], dtype=float)
    for newer in range(CLEAR_NIGHTS.start - 1, 1, -1):
        before = len(level) - newer
        if before >= _CLEAR_AFTER.start and _is_clear(level, before, least):
            more = range(newer + 1, CLEAR_NIGHTS.start)
            needed = next((count for count in more if before >= LEAST_NIGHTS_FOR[count]), CLEAR_NIGHTS.start)
            return finding("step-pending", newer_count=newer, needed_count=needed)
    return None


def _is_clear(level: NDArray[Any], start: int, least: float) -> bool:
    """Return whether the nights from `start` on all lie beyond all nights before, with a gap between them."""
    import numpy as np

    before, after = level[:start], level[start:]
    gap = float(max(after.min() - before.max(), before.min() - after.max()))
    return gap > 0 and gap >= max(least, _CLEAR_SHARE * float(max(np.ptp(before), np.ptp(after))))


def _first_step(
    level: NDArray[Any], clipped: NDArray[Any], first_index: int, earlier_squares: float, earlier_df: int, least: float
) -> tuple[int, int] | None:
    """Return (night of finding, first night of the new level) of the first step in one level, or None."""
    import numpy as np

    hits = scan(clipped, first_index=first_index, earlier_squares=earlier_squares, earlier_df=earlier_df, least=least)
    hit_ends = np.flatnonzero(hits.is_hit.any(axis=1)).tolist()
    young_ends = range(first_index, min(len(level), _CLEAR_AFTER.stop + CLEAR_NIGHTS.stop))
    for end in sorted({*hit_ends, *young_ends}):
        for column in np.flatnonzero(hits.is_hit[end]).tolist():
            if _is_step(level, clipped, hits, end, column):
                return end, _start_of(clipped[: end + 1])
        for newer in CLEAR_NIGHTS:
            start = end + 1 - newer
            if start in _CLEAR_AFTER and _is_clear(level[: end + 1], start, least):
                return end, start
    return None


def _is_step(level: NDArray[Any], clipped: NDArray[Any], hits: Scan, end: int, column: int) -> bool:
    """Return whether the nights before and in a window are two levels, rather than outliers, a trend or a wander."""
    import numpy as np

    window = WINDOWS[column]
    start = end + 1 - window
    difference = float(hits.difference[end, column])
    before, after = clipped[:start], clipped[start : end + 1]
    # As they were measured, not as they were drawn in.
    distances = np.sort(np.sign(difference) * (level[start : end + 1] - (before.mean() + level[0])))
    if window <= _FEW and distances[-1] > _MOST_UNLIKE * distances[:-1].mean():
        return False
    if window in _SHORT:
        if _visited_share(before, _VISITED[window] * difference) > _SHORT[window]:
            return False
        if is_heavy_tailed(level[:start]):
            limits = critical(window_chances(DOUBTFUL_SHARE), hits.df[end : end + 1])
            if window == 2 or abs(difference) <= limits[0, column] * hits.error[end, column]:
                return False
        if distances[(window - 1) // 2] < _LEAST_NIGHT_SHARE[window] * abs(difference):
            return False
    if window >= _LONG:
        residuals = np.concatenate([before - before.mean(), after - after.mean()])
        if _summed_correlation(residuals) > _MOST_RESIDUAL_CORRELATION:
            return False
        near = max(0, start - max(window, 8))
        around = _squares(clipped[near:start]) + _squares(after)
        if _squares_around_curve(clipped[near : end + 1], 2) <= around:
            return False
    return _squares_around_curve(clipped[: end + 1], 1) > float(hits.unexplained[end, column])


def _start_of(clipped: NDArray[Any]) -> int:
    """Return the split that explains the nights best: largest between-group sum of squares, two nights a side at
    least.
    """
    import numpy as np

    count = len(clipped)
    starts = np.arange(2, count - 1)
    excess = np.cumsum(clipped - clipped.mean())[starts - 1]
    return int(starts[np.argmax(excess**2 / (starts * (count - starts)))])


def _is_confirmed(
    level: NDArray[Any], start: int, judged: int, earlier_squares: float, earlier_df: int, least: float
) -> bool:
    """Return whether the nights `start` … `judged` still lie off the level before, its autocorrelation counted in
    full.
    """
    import numpy as np

    before = clip_to_fences(level[:start].tolist(), least)
    residuals = before - before.mean()
    squares = float(np.sum(residuals**2))
    df = start - 1 + earlier_df
    spread = float(((squares + earlier_squares) / df) ** 0.5)
    window = judged - start + 1
    fence = max(6 * spread, 3 * least)
    after = np.clip(level[start : judged + 1] - before.mean(), -fence, fence)
    lags = np.arange(1, min(_CONFIRMING_LAGS, start // 4) + 1)
    correlation = np.array([float(np.sum(residuals[lag:] * residuals[:-lag])) for lag in lags.tolist()])
    correlation = correlation / squares + 1 / start if squares > 0 else np.zeros(len(lags))
    grown = max(1.0, 1 + 2 * float(np.sum(np.maximum(1 - lags / window, 0.0) * correlation)))
    grown_before = max(1.0, 1 + 2 * float(np.sum((1 - lags / start) * correlation)))
    error = spread * (grown / window + grown_before / start) ** 0.5
    limit = float(critical((_CONFIRMING_CHANCE,), np.array([[df]]))[0, 0])
    size = abs(float(after.mean()))
    if _visited_share(before, 0.8 * float(after.mean())) > _CONFIRMING_SHARE:
        return False
    return bool(size > limit * error and size > _CONFIRMING_SD * spread)


def _visited_share(before: NDArray[Any], difference: float) -> float:
    """Return which share of the nights before lies as far from their mean as `difference`, on its side."""
    distances = (before - before.mean()) * (1 if difference > 0 else -1)
    return float((distances >= abs(difference)).mean())


def _summed_correlation(residuals: NDArray[Any]) -> float:
    """Return the autocorrelation of four lags, summed, over its standard error in white noise."""
    import numpy as np

    squares, count = float(np.sum(residuals**2)), len(residuals)
    if squares == 0:
        return 0.0
    correlations = [float(np.sum(residuals[lag:] * residuals[:-lag])) / squares + 2 / count for lag in (1, 2, 3, 4)]
    return float(sum(correlations) / 2 * count**0.5)


def _squares(values: NDArray[Any]) -> float:
    import numpy as np

    return float(np.sum((values - values.mean()) ** 2))


def _squares_around_curve(values: NDArray[Any], degree: int) -> float:
    """Return the sum of squares around the best polynomial."""
    import numpy as np

    x = np.linspace(-1.0, 1.0, len(values))
    basis = np.vander(x, degree + 1)
    fitted, *_ = np.linalg.lstsq(basis, values, rcond=None)
    return float(np.sum((values - basis @ fitted) ** 2))
