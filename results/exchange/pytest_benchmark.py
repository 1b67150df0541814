"""pytest-benchmark's JSON (`--benchmark-json`, `--benchmark-autosave`) as cases of their own: seconds per call.

Layout: pytest_benchmark/{plugin,stats}.py of version 5.3.1, read 2026-11-21. `data` holds one value per round, already
divided by `iterations`; it is there with `--benchmark-json` and `--benchmark-save-data`, else only the statistics are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

from results.exchange.fields import Fields
from results.exchange.foreign import ForeignFile, ForeignRow, Stated
from results.exchange.measured import from_one_figure, from_samples
from results.records.plain_form import FormError, UnclearFormError
from results.records.records import Measurement
from roofline_model.core.finding import finding
from roofline_model.operators.case import Case

KIND = "pytest-benchmark"
_MACHINE = ("node", "processor", "machine", "python_implementation", "python_version", "system", "release")
_ROUNDING = 1e-9
_UNITS_S = {
    name + ending: unit_s
    for name in ("perf_counter", "monotonic", "process_time", "thread_time", "time", "clock")
    for ending, unit_s in (("", 1.0), ("_ns", 1e-9))
}
"""Seconds in what a timer of Python's `time` counts (https://docs.python.org/3/library/time.html); the file says no
unit.
"""
_COMMIT = re.compile("[0-9a-f]{7,64}")


def is_pytest_benchmark(value: Any) -> bool:
    """Return whether a JSON value is a file of pytest-benchmark."""
    return isinstance(value, Mapping) and isinstance(value.get("benchmarks"), list) and "machine_info" in value


def read_pytest_benchmark(value: Any, name: str, stated: Stated) -> ForeignFile:
    """Return the benchmarks of a file. Raises `FormError` naming the benchmark and the field.

    `stated` is not looked at: a test of somebody's own has no work that we could predict.
    """
    document = Fields(value, "")
    machine = document.inside("machine_info").data
    facts = {key: machine[key] for key in _MACHINE if isinstance(machine.get(key), str)}
    cpu, commit = (
        each if isinstance(each, Mapping) else {} for each in (machine.get("cpu"), document.data.get("commit_info"))
    )
    if isinstance(brand := cpu.get("brand_raw") or cpu.get("brand"), str):
        facts["cpu"] = brand
    if document.has("version"):
        facts["pytest_benchmark"] = document.text("version")
    started = document.date("datetime")
    rows = tuple(
        _row(Fields(benchmark, f"benchmarks[{position}]"), started, facts.get("node", ""))
        for position, benchmark in enumerate(document.data["benchmarks"])
    )
    if not rows:
        raise FormError("benchmarks is empty: nothing was timed")
    # Outside a repository it writes `unversioned` or `unknown`, on the branch `(unknown)`.
    commit_id, dirty, branch = (commit.get(key) for key in ("id", "dirty", "branch"))
    has_commit = isinstance(commit_id, str) and _COMMIT.fullmatch(commit_id[:200]) is not None
    return ForeignFile(
        KIND,
        name,
        rows,
        facts=facts,
        class_facts={key: facts[key] for key in ("node", "cpu", "python_version") if key in facts} | {"engine": KIND},
        git_commit=commit_id if has_commit else None,
        git_branch=branch[:200] if isinstance(branch, str) and branch not in ("", "(unknown)") else None,
        git_is_dirty=dirty if has_commit and isinstance(dirty, bool) else None,
    )


def _row(fields: Fields, started: str, node: str) -> ForeignRow:
    name = fields.text("fullname") if fields.has("fullname") else fields.text("name")
    stats, options = fields.inside("stats"), fields.data.get("options")
    timer = options.get("timer") if isinstance(options, Mapping) else None
    # Files of old versions name no timer.
    unit_s = 1.0 if timer is None else _UNITS_S.get(str(timer).rpartition(".")[2])
    if unit_s is None:
        raise UnclearFormError(
            f"{fields.where}.options.timer is {str(timer)[:60]!r}, whose unit is unknown (known: {', '.join(_UNITS_S)}): "
            "run it with --benchmark-timer=time.perf_counter"
        )
    measurement = _measurement(stats, unit_s)
    names = ("min", "max", "mean", "median", "rounds", "iterations", "total")
    content = {
        "fullname": name,
        "datetime": started,
        "node": node,
        "stats": {key: stats.data.get(key) for key in names},
    }
    return ForeignRow(
        where=fields.where,
        content=content if unit_s == 1 else {**content, "unit_s": unit_s},
        case=Case(KIND, (), (), name, "none", "eager"),
        measurement=measurement,
        settings={"timer": timer} if isinstance(timer, str) else {},
        created_at=started,
        test_id=name,
        facts={
            "statistic": "samples" if measurement.samples_s else "statistics",
            **{key: fields.data[key] for key in ("group", "params", "param", "extra_info") if fields.data.get(key)},
        },
        reason=finding("foreign-not-predicted", kind="work"),
    )


def _measurement(stats: Fields, unit_s: float) -> Measurement:
    iterations = stats.count("iterations", least=1) if stats.has("iterations") else 1
    rounds = stats.count("rounds", least=1) if stats.has("rounds") else None
    samples_s = stats.times_s("data", unit_s)
    if samples_s and rounds not in (None, len(samples_s)):
        raise FormError(f"{stats.where}.rounds is {rounds:,}, but data holds {len(samples_s):,} times")
    if not samples_s and not stats.has("median"):
        return from_one_figure(stats.time_s("mean", unit_s), iterations)
    times_s = {name: stats.time_s(name, unit_s) for name in ("min", "median", "max", "mean") if stats.has(name)}
    std_s = stats.number("stddev", least=0) * unit_s if stats.has("stddev") else None
    if samples_s:
        measured = from_samples(samples_s, iterations)
    else:
        median_s, min_s, max_s = (stats.time_s(name, unit_s) for name in ("median", "min", "max"))
        if not (stats.has("q1") and stats.has("q3")):
            return from_one_figure(median_s, iterations)
        q1_s, q3_s = (stats.time_s(name, unit_s) for name in ("q1", "q3"))
        if any(value > other * (1 + _ROUNDING) for value, other in pairwise((min_s, q1_s, median_s, q3_s, max_s))):
            raise FormError(f"{stats.where}: min, q1, median, q3 and max are not in this order")
        measured = replace(
            from_one_figure(median_s, iterations),
            samples_s=(),
            min_s=min_s,
            max_s=max_s,
            mean_s=stats.time_s("mean", unit_s),
            std_s=std_s,
            q1_s=q1_s,
            q3_s=q3_s,
            sample_count=rounds or 1,
        )
    for name in ("min", "mean", "median", "max"):
        low_s, high_s = measured.min_s, measured.max_s
        if name in times_s and not low_s * (1 - _ROUNDING) <= times_s[name] <= high_s * (1 + _ROUNDING):
            raise FormError(f"{stats.where}.{name} is {times_s[name]:g} s, not between {low_s:g} s and {high_s:g} s")
    # The standard deviation is at most their range / √2.
    if std_s is not None and std_s > measured.max_s - measured.min_s + _ROUNDING * measured.max_s:
        raise FormError(f"{stats.where}.stddev is {std_s:g} s, more than max − min")
    return measured
