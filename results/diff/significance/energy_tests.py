"""The energy of a call, tested like its time: a family of false alarms of its own. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from results.cases.case_result import CaseResult
from results.diff.rules import DiffRules, Verdict
from results.diff.side_facts import process_values
from results.diff.significance.judgement import judge
from results.diff.significance.metrics import MetricChange, MetricVerdict
from results.diff.significance.t_test import Samples, evidence, is_replicated, pooled_spread, rank_p_value, ratio_of

_WORDS: dict[Verdict, MetricVerdict] = {"SLOWER": "WORSE", "FASTER": "BETTER", "SAME": "SAME"}


def energy_changes(pairs: Mapping[str, tuple[CaseResult, CaseResult]], rules: DiffRules) -> dict[str, MetricChange]:
    """Return the change of energy of the cases whose every process was read, on both sides by the same sensor."""
    logs: dict[str, tuple[list[float], list[float]]] = {}
    for key, (before, after) in pairs.items():
        first, second = _energy_logs(before), _energy_logs(after)
        if first and second and _sensors(before) == _sensors(after):
            logs[key] = (first, second)
    if not logs:
        return {}
    sides = list(logs.values())
    samples = Samples.of(sides)
    tests = evidence(
        samples,
        pooled_spread(samples, spans_runs=False),
        min_effect_ratio=rules.min_effect_ratio,
        false_discovery_ratio=rules.false_discovery_ratio,
    )

    def ranks(index: int, is_higher: bool) -> float | None:
        before, after = sides[index]
        return rank_p_value(before, after) if is_higher else rank_p_value(after, before)

    verdicts = judge(
        tests,
        false_discovery_ratio=rules.false_discovery_ratio,
        limit_ratio=rules.limit_ratio,
        ranks=ranks,
        # No floors of energy are stored, which would stand in for processes.
        is_replicated=np.array([is_replicated(len(before), len(after)) for before, after in sides]),
    )
    changes = {}
    for index, (key, (old_logs, new_logs)) in enumerate(logs.items()):
        verdict, reason = verdicts[index]
        changes[key] = MetricChange(
            "energy",
            "energy_j",
            "J",
            False,
            _mean(old_logs),
            _mean(new_logs),
            math.expm1(float(samples.change_log[index])),
            ratio_of(float(tests.low_log[index])),
            ratio_of(float(tests.high_log[index])),
            _WORDS.get(verdict, "AMBIGUOUS"),
            reason,
        )
    return changes


def _energy_logs(side: CaseResult) -> list[float]:
    """Return the logarithm per process used; none where one of them did not measure it."""
    energies_j = process_values(side, "energy_j")
    return [math.log(value) for value in energies_j.values()] if len(energies_j) == side.process_count else []


def _sensors(side: CaseResult) -> frozenset[tuple[str, str]]:
    readings = [record.measurement.energy for record in side.records if record.measurement is not None]
    return frozenset((reading.source, reading.scope) for reading in readings if reading is not None)


def _mean(logs: list[float]) -> float:
    return math.exp(math.fsum(logs) / len(logs))
