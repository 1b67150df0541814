"""Steps in a history: false alarms on unchanged series, nights until a step is found, seconds for `history --all`.

Rivals were measured once: docs/development/decisions/0007-change-points.md.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.store.sample_history import write_history
from benchmarks.timing.rows import Figure, Row
from results import open_store
from results.history import HistoryOptions, case_histories
from results.history.change_points import find_steps
from results.records.metrics import get_metric

NIGHTS = 60
CASES, HISTORY_NIGHTS, AIM_S = 2000, 90, 10.0


def noises() -> dict[str, Callable[[Any, int], Any]]:
    """Return unchanged series with a standard deviation of about 1, by kind."""
    return {
        "normal": lambda source, count: source.normal(size=count),
        "heavy-tailed (t, 3 df)": lambda source, count: source.standard_t(3, size=count) / 3**0.5,
        "bimodal (30 %)": lambda source, count: (source.random(count) < 0.3) * 2.13 + 0.2 * source.normal(size=count),
        "slowly wandering": lambda source, count: (
            source.normal(size=count) + 0.5 * np.sin(2 * np.pi * (np.arange(count) / 50 + source.random()))
        ),
        "neighbours alike (AR 0.5)": lambda source, count: autoregressive(source, count, 0.5),
        "wandering (AR 0.95, a third)": lambda source, count: (
            0.8 * source.normal(size=count) + 0.6 * autoregressive(source, count, 0.95)
        ),
    }


HARD = ("neighbours alike (AR 0.5)", "wandering (AR 0.95, a third)")
"""Kinds without an aim: nights that stay off the level for one or two weeks are a change of level to any test."""


def autoregressive(source: Any, count: int, share: float) -> Any:
    """Return nights of which each keeps `share` of the one before; standard deviation 1."""
    values = source.normal(size=count)
    for number in range(1, count):
        values[number] = share * values[number - 1] + (1 - share**2) ** 0.5 * values[number]
    return values


def measure(folder: Path, *, quick: bool) -> list[Row | Figure]:
    """Simulate, then read and judge a database of 2,000 cases × 90 nights."""
    count = 100 if quick else 1000
    rows: list[Row | Figure] = []
    for kind, noise in noises().items():
        source = np.random.default_rng(2026)
        steps = [find_steps(noise(source, NIGHTS)) for _ in range(count)]
        standing = sum(not alert.is_withdrawn for step in steps for alert in step) / count
        raised = sum(len(step) for step in steps) / count
        rows.append(
            Figure(
                f"false steps per unchanged series: {kind}",
                standing,
                count,
                "share",
                None if kind in HARD else 0.0,
                None if kind in HARD else 0.01,
                "ever raised, on any night",
                raised,
            )
        )
    rows.append(_two_hundred_nights())
    rows += _steps(count)
    rows.append(_reading(folder, quick))
    return rows


def _two_hundred_nights() -> Figure:
    source = np.random.default_rng(2027)
    steps = [find_steps(source.normal(size=200)) for _ in range(50)]
    standing = sum(not alert.is_withdrawn for step in steps for alert in step)
    raised = sum(len(step) for step in steps)
    return Figure(
        "50 cases × 200 unchanged nights: false steps",
        standing / 50,
        50,
        "share",
        0.0,
        3 / 50,
        "ever raised",
        raised / 50,
    )


def _steps(count: int) -> list[Row | Figure]:
    rows: list[Row | Figure] = []
    for prior in (30, 60, 120):
        source = np.random.default_rng(9)
        waited = []
        for _ in range(count):
            series = source.normal(size=prior + 16)
            series[prior:] += 3
            steps = [step.found_index - prior + 1 for step in find_steps(series) if step.found_index >= prior]
            waited.append(steps[0] if steps else 99)
        for nights, aim in ((2, 0.65), (3, None), (4, 0.95)):
            share = float(np.mean(np.array(waited) <= nights))
            best = None if nights == 3 else best_possible(nights, prior)
            rows.append(
                Figure(
                    f"3 σ found within {nights} nights, after {prior}",
                    share,
                    count,
                    "share",
                    aim if prior >= 60 else None,
                    None,
                    "σ and level known" if best else "",
                    best,
                )
            )
    return rows


def best_possible(nights: int, prior: int) -> float:
    """Return how often the mean of the new nights alone passes at 3 alerts in 10,000 nights, if σ were known
    (normal).
    """
    from scipy.stats import norm

    limit = norm.ppf(1 - 1.5e-4)
    return float(norm.cdf(3 / (1 / nights + 1 / prior) ** 0.5 - limit))


def _reading(folder: Path, quick: bool) -> Row:
    folder.mkdir(parents=True, exist_ok=True)
    cases = 200 if quick else CASES
    database = folder / "history.db"
    write_history(database, cases, HISTORY_NIGHTS)
    with open_store(database, create=False, read_only=True) as store:
        begin = time.process_time()
        histories = case_histories(store, options=HistoryOptions(get_metric("time")))
        taken_s = time.process_time() - begin
    alerts = sum(len(history.alerts) for history in histories)
    return Row(
        f"history --all: {cases:,} cases × {HISTORY_NIGHTS} nights",
        taken_s,
        1,
        AIM_S * cases / CASES,
        note=f"CPU seconds of one core; {alerts} alerts in {len(histories):,} histories, 1 case of 50 made 10 % slower",
    )
