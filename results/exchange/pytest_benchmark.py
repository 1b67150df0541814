"""pytest-benchmark's JSON (`--benchmark-json`, `--benchmark-autosave`) as cases of their own: seconds per call.

Layout: pytest_benchmark/{plugin,stats}.py of version 5.3.1, read 2026-11-21. `data` holds one value per round, already
divided by `iterations`; it is there with `--benchmark-json` and `--benchmark-save-data`, else only the statistics are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from results.exchange.fields import Fields
from results.exchange.foreign import ForeignFile, ForeignRow, Stated
from results.exchange.measured import FLAGS, STOP_REASON, from_one_figure, from_samples
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
    machine = document.inside("machine_info")
    facts = {key: machine.data[key] for key in _MACHINE if isinstance(machine.data.get(key), str)}
    cpu = machine.data.get("cpu")
    brand = cpu.get("brand_raw") or cpu.get("brand") if isinstance(cpu, Mapping) else None
    if isinstance(brand, str):
        facts["cpu"] = brand
    if document.has("version"):
        facts["pytest_benchmark"] = document.text("version")
    started = document.date("datetime")
    commit = document.data.get("commit_info")
    commit = commit if isinstance(commit, Mapping) else {}
    rows = tuple(
        _row(Fields(benchmark, f"benchmarks[{position}]"), started, facts)
        for position, benchmark in enumerate(document.data["benchmarks"])
    )
    if not rows:
        raise FormError("benchmarks is empty: nothing was timed")
    # Outside a repository it writes `unversioned` or `unknown`, on the branch `(unknown)`.
    commit_id, dirty = _text(commit.get("id")), commit.get("dirty")
    has_commit = commit_id is not None and _COMMIT.fullmatch(commit_id) is not None
    branch = _text(commit.get("branch"))
    return ForeignFile(
        KIND,
        name,
        rows,
        started_at=started,
        facts=facts,
        class_facts={key: facts[key] for key in ("node", "cpu", "python_version") if key in facts} | {"engine": KIND},
        git_commit=commit_id if has_commit else None,
        git_branch=None if branch == "(unknown)" else branch,
        git_is_dirty=dirty if has_commit and isinstance(dirty, bool) else None,
    )


def _row(fields: Fields, started: str, facts: Mapping[str, Any]) -> ForeignRow:
    name = fields.text("fullname") if fields.has("fullname") else fields.text("name")
    stats = fields.inside("stats")
    options = fields.data.get("options")
    timer = options.get("timer") if isinstance(options, Mapping) else None
    unit_s = _unit_s(timer, fields.where)
    measurement = _measurement(stats, unit_s)
    extra = {key: fields.data[key] for key in ("group", "params", "param", "extra_info") if fields.data.get(key)}
    content = {
        "fullname": name,
        "datetime": started,
        "node": facts.get("node", ""),
        "stats": {
            key: stats.data.get(key) for key in ("min", "max", "mean", "median", "rounds", "iterations", "total")
        },
    }
    if unit_s != 1:
        content["unit_s"] = unit_s
    return ForeignRow(
        where=fields.where,
        content=content,
        case=Case(KIND, (), (), name, "none", "eager"),
        measurement=measurement,
        settings={"timer": timer} if isinstance(timer, str) else {},
        created_at=started,
        test_id=name,
        facts={"statistic": "samples" if measurement.samples_s else "statistics", **extra},
        reason=finding("foreign-not-predicted", kind="work"),
    )


def _unit_s(timer: Any, where: str) -> float:
    """Return the seconds in what a timer counts; without a timer, as old files are, 1. Raises `FormError` for an
    unknown one.
    """
    if timer is None:
        return 1.0
    unit_s = _UNITS_S.get(str(timer).rpartition(".")[2])
    if unit_s is None:
        raise UnclearFormError(
            f"{where}.options.timer is {str(timer)[:60]!r}, whose unit is unknown (known: {', '.join(_UNITS_S)}): "
            "run it with --benchmark-timer=time.perf_counter"
        )
    return unit_s


def _measurement(stats: Fields, unit_s: float) -> Measurement:
    iterations = stats.count("iterations", least=1) if stats.has("iterations") else 1
    rounds = stats.count("rounds", least=1) if stats.has("rounds") else None
    samples_s = stats.times_s("data", unit_s)
    if samples_s:
        if any(time_s <= 0 for time_s in samples_s):
            raise FormError(f"{stats.where}.data holds 0 s: no call takes no time")
        if rounds is not None and rounds != len(samples_s):
            raise FormError(f"{stats.where}.rounds is {rounds:,}, but data holds {len(samples_s):,} times")
        measured = from_samples(samples_s, iterations)
        _check_statistics(stats, measured.min_s, measured.max_s, unit_s)
        return measured
    if not stats.has("median"):
        return from_one_figure(stats.time_s("mean", unit_s), iterations)
    median, low, high = (stats.time_s(name, unit_s) for name in ("median", "min", "max"))
    quartiles = [stats.time_s(name, unit_s) if stats.has(name) else None for name in ("q1", "q3")]
    if None in quartiles:
        return from_one_figure(median, iterations)
    first, third = (value for value in quartiles if value is not None)
    ordered = (low, first, median, third, high)
    if any(value > other * (1 + _ROUNDING) for value, other in pairwise(ordered)):
        raise FormError(f"{stats.where}: min, q1, median, q3 and max are not in this order")
    _check_statistics(stats, low, high, unit_s)
    return Measurement(
        samples_s=(),
        calls_per_sample=iterations,
        median_s=median,
        min_s=low,
        max_s=high,
        mean_s=stats.time_s("mean", unit_s),
        std_s=stats.number("stddev", least=0) * unit_s if stats.has("stddev") else None,
        q1_s=first,
        q3_s=third,
        sample_count=rounds or 1,
        ci_low_s=None,
        ci_high_s=None,
        stop_reason=STOP_REASON,
        flags=FLAGS,
    )


def _check_statistics(stats: Fields, low_s: float, high_s: float, unit_s: float) -> None:
    """Raise `FormError` for a statistic that no times between `low_s` and `high_s` have."""
    for name in ("min", "mean", "median", "max"):
        if stats.has(name):
            value = stats.time_s(name, unit_s)
            if not low_s * (1 - _ROUNDING) <= value <= high_s * (1 + _ROUNDING):
                raise FormError(f"{stats.where}.{name} is {value:g} s, not between {low_s:g} s and {high_s:g} s")
    if stats.has("stddev"):
        spread_s = stats.number("stddev", least=0) * unit_s
        if spread_s > high_s - low_s + _ROUNDING * high_s:  # it is at most their range / √2
            raise FormError(f"{stats.where}.stddev is {spread_s:g} s, more than max − min")


def _text(value: Any) -> str | None:
    return value[:200] if isinstance(value, str) and value else None
