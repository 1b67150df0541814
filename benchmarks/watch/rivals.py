"""Other tools' rules on the same series, from their published descriptions: pytest-benchmark, asv, Apache Otava.

None of their code is here. Sources: pytest-benchmark's manual, `--benchmark-compare-fail=median:5%`. asv's manual,
"Step detection" (its fit after F. Friedrich et al., *Complexity Penalized M-Estimation*, J. Comput. Graph. Stat. 17
(2008) 201, and Y.-C. Yao, Stat. Probab. Lett. 6 (1988) 181) and "asv continuous" (`--factor 1.1`). Otava: M. Daly et
al., *The Use of Change Point Detection to Identify Software Performance Regressions*, ICPE 2020, with the t test of
*Hunter*, arXiv:2301.03034 (window 50, p < 0.001).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Alarm = tuple[int, int]
"""(night of the alarm, first night of the level)"""

GATE_RATIO = 1.05
"""pytest-benchmark's usual `median:5%`."""
ASV_FACTOR = 1.1
ASV_THRESHOLD = 0.05
"""asv's `regressions_thresholds` default: smaller steps are no regressions."""
OTAVA_CHANCE = 1e-3
OTAVA_WINDOW = 50
SAME_STEP_NIGHTS = 3
"""A step this near to one that was raised already is that one."""


def gate_fails(before_log: Floats, after_log: Floats, ratio: float = GATE_RATIO) -> npt.NDArray[np.bool_]:
    """Return which cases are slower by more than a ratio: medians of one run each."""
    return after_log - before_log > np.log(ratio)


def asv_alarms(series: Floats, first_night: int) -> list[Alarm]:
    """Return the regressions of asv's step detection, asked anew every night: exact L1 segments, their number by its
    information criterion.

    min over segments of γ·k + Σ|y − median|; γ minimises β·k + ln(σ₀ + Σ|r_j − ρ r_{j−1}|) with β = 4 ln n / n. A
    grid takes the place of its golden-section search, exact sums that of its windows.
    """
    cost = _segment_costs(series)
    spread = float(np.median(np.abs(np.diff(series)))) or 1e-9
    fits = [_potts(cost, float(gamma)) for gamma in spread * np.geomspace(0.5, 2.0 * len(series), 14)]

    def steps(prefix: Floats) -> list[int]:
        edges = {tuple(_edges(came_from, len(prefix))) for came_from in fits}
        return _regressions(prefix, min(edges, key=lambda candidate: (_criterion(prefix, candidate), len(candidate))))

    return raised_nights(steps, series, first_night)


def _segment_costs(series: Floats) -> Floats:
    count = len(series)
    cost = np.zeros((count + 1, count + 1))
    for start in range(count):
        for stop in range(start + 1, count + 1):
            part = series[start:stop]
            cost[start, stop] = np.abs(part - np.median(part)).sum()
    return cost


def _potts(cost: Floats, gamma: float) -> npt.NDArray[np.intp]:
    """Return for every length of the series where its best last segment begins."""
    count = len(cost) - 1
    total, came_from = np.zeros(count + 1), np.zeros(count + 1, dtype=np.intp)
    for stop in range(1, count + 1):
        options = total[:stop] + cost[:stop, stop] + gamma
        came_from[stop] = int(np.argmin(options))
        total[stop] = options[came_from[stop]]
    return came_from


def _edges(came_from: npt.NDArray[np.intp], count: int) -> list[int]:
    edges = [count]
    while edges[-1]:
        edges.append(int(came_from[edges[-1]]))
    return edges[::-1]


def _criterion(series: Floats, edges: Sequence[int]) -> float:
    count = len(series)
    left = np.concatenate([series[a:b] - np.median(series[a:b]) for a, b in pairwise(edges)])
    power = float(left[:-1] @ left[:-1])
    rho = min(1.0, max(0.0, float(left[1:] @ left[:-1]) / power)) if power > 0 else 0.0
    error = abs(float(left[0])) + float(np.abs(left[1:] - rho * left[:-1]).sum())
    floor = 1e-3 * float(np.abs(series - np.median(series)).sum()) + 1e-12
    return 4 * np.log(count) / count * (len(edges) - 1) + float(np.log(floor + error))


def _regressions(series: Floats, edges: Sequence[int]) -> list[int]:
    """Return the starts of levels above the lowest before them by more than the errors and the threshold."""
    steps, low, low_error = [], np.inf, 0.0
    for start, stop in pairwise(edges):
        part = series[start:stop]
        level = float(np.median(part))
        error = float(np.abs(part - level).mean())
        if stop - start >= 2 and level > low + max(low_error, error, np.log1p(ASV_THRESHOLD)):
            steps.append(start)
        if level < low and stop - start >= 2:
            low, low_error = level, error
    return steps


def otava_alarms(series: Floats, first_night: int) -> list[Alarm]:
    """Return the rises that Otava finds, asked anew every night."""
    return raised_nights(_otava_steps, series, first_night)


def _otava_steps(series: Floats) -> list[int]:
    """Return the rises that E-divisive means with a t test finds in the newest window of a series."""
    offset = max(0, len(series) - OTAVA_WINDOW)
    window = series[offset:]
    points = _candidates(window, 0)
    while points:
        edges = [0, *points, len(window)]
        parts = [window[a:b] for a, b in pairwise(edges)]
        chances = [_chance(left, right) for left, right in pairwise(parts)]
        worst = int(np.argmax(chances))
        if chances[worst] <= OTAVA_CHANCE:
            return [
                offset + point
                for point, (left, right) in zip(points, pairwise(parts), strict=True)
                if right.mean() > left.mean()
            ]
        del points[worst]
    return []


def _candidates(series: Floats, offset: int) -> list[int]:
    if len(series) < 6:
        return []
    place = _split(series)
    if place is None or _chance(series[:place], series[place:]) > 10 * OTAVA_CHANCE:
        return []
    return [*_candidates(series[:place], offset), offset + place, *_candidates(series[place:], offset + place)]


def _split(series: Floats) -> int | None:
    """Return where the energy distance of both sides is largest, from sums over all pairs."""
    count = len(series)
    sums = np.zeros((count + 1, count + 1))
    sums[1:, 1:] = np.abs(series[:, None] - series).cumsum(0).cumsum(1)
    k = np.arange(2, count - 1)
    m = count - k
    inside = sums[k, k]
    between = sums[k, count] - inside
    right = sums[count, count] - 2 * sums[k, count] + inside
    scores = k * m / count * (2 * between / (k * m) - inside / (k * (k - 1)) - right / (m * (m - 1)))
    at = int(np.argmax(scores))
    return int(k[at]) if scores[at] > 0 else None


def _chance(left: Floats, right: Floats) -> float:
    """Return the two-sided p of Student's t test."""
    from scipy.special import stdtr

    n, m = len(left), len(right)
    if n + m < 3:
        return 1.0
    pooled = (((left - left.mean()) ** 2).sum() + ((right - right.mean()) ** 2).sum()) / (n + m - 2)
    if pooled <= 0:
        return 1.0
    t = (right.mean() - left.mean()) / np.sqrt(pooled * (1 / n + 1 / m))
    return float(2 * stdtr(n + m - 2, -abs(t)))


def raised_nights(steps: Callable[[Floats], list[int]], series: Floats, first_night: int) -> list[Alarm]:
    """Return the alarms of a rule that is asked anew every night; `steps`: series → first nights of slower levels."""
    alarms: list[Alarm] = []
    for run_index in range(first_night, len(series)):
        for start in steps(series[: run_index + 1]):
            if not any(abs(start - earlier) <= SAME_STEP_NIGHTS for _, earlier in alarms):
                alarms.append((run_index, start))
    return alarms


DETECTORS = {"asv, step detection": asv_alarms, "Otava": otava_alarms}
"""Watch a history from a night on."""
