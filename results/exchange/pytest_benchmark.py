"""pytest-benchmark's JSON (`--benchmark-json`, `--benchmark-autosave`) as cases of their own: seconds per call.

Layout: pytest_benchmark/{plugin,stats}.py of version 5.3.1, read 2026-11-21. `data` holds one value per round, already divided by
`iterations`; it is there with `--benchmark-json` and `--benchmark-save-data`, else only the statistics are.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from results.exchange.fields import Fields
from results.exchange.foreign import ForeignFile, ForeignRow, Stated
from results.exchange.measured import FLAGS, STOP_REASON, from_one_figure, from_samples
from results.plain_form import FormError
from results.records import Measurement
from roofline_model.case import Case

KIND = "pytest-benchmark"
_MACHINE = ("node", "processor", "machine", "python_implementation", "python_version", "system", "release")
_ROUNDING = 1e-9


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
        _row(Fields(one, f"benchmarks[{position}]"), started, facts)
        for position, one in enumerate(document.data["benchmarks"])
    )
    if not rows:
        raise FormError("benchmarks is empty: nothing was timed")
    dirty = commit.get("dirty")
    return ForeignFile(
        KIND, name, rows, started_at=started, facts=facts,
        class_facts={key: facts[key] for key in ("node", "cpu", "python_version") if key in facts} | {"engine": KIND},
        git_commit=_text(commit.get("id")), git_branch=_text(commit.get("branch")),
        git_is_dirty=dirty if isinstance(dirty, bool) else None,
    )  # fmt: skip


def _row(fields: Fields, started: str, facts: Mapping[str, Any]) -> ForeignRow:
    name = fields.text("fullname") if fields.has("fullname") else fields.text("name")
    stats = fields.inside("stats")
    measurement = _measurement(stats)
    options = fields.data.get("options")
    timer = options.get("timer") if isinstance(options, Mapping) else None
    extra = {key: fields.data[key] for key in ("group", "params", "param", "extra_info") if fields.data.get(key)}
    content = {
        "fullname": name, "datetime": started, "node": facts.get("node", ""),
        "stats": {key: stats.data.get(key) for key in ("min", "max", "mean", "median", "rounds", "iterations", "total")},
    }  # fmt: skip
    return ForeignRow(
        where=fields.where, content=content, case=Case(KIND, (), (), name, "none", "eager"), measurement=measurement,
        settings={"timer": timer} if isinstance(timer, str) else {}, created_at=started, test_id=name,
        facts={"statistic": "samples" if measurement.samples_s else "statistics", **extra},
        reason="a test of your own: its work is not declared, so there is nothing to predict",
    )  # fmt: skip


def _measurement(stats: Fields) -> Measurement:
    iterations = stats.count("iterations", least=1) if stats.has("iterations") else 1
    samples_s = stats.times_s("data")
    if samples_s:
        if any(time_s <= 0 for time_s in samples_s):
            raise FormError(f"{stats.where}.data holds 0 s: no call takes no time")
        return from_samples(samples_s, iterations)
    if not stats.has("median"):
        return from_one_figure(stats.time_s("mean"), iterations)
    median, low, high = (stats.time_s(name) for name in ("median", "min", "max"))
    quartiles = [stats.time_s(name) if stats.has(name) else None for name in ("q1", "q3")]
    if None in quartiles:
        return from_one_figure(median, iterations)
    first, third = (value for value in quartiles if value is not None)
    ordered = (low, first, median, third, high)
    if any(one > other * (1 + _ROUNDING) for one, other in pairwise(ordered)):
        raise FormError(f"{stats.where}: min, q1, median, q3 and max are not in this order")
    return Measurement(
        samples_s=(), calls_per_sample=iterations, median_s=median, min_s=low, max_s=high, mean_s=stats.time_s("mean"),
        std_s=stats.number("stddev", least=0) if stats.has("stddev") else None, q1_s=first, q3_s=third,
        sample_count=stats.count("rounds", least=1) if stats.has("rounds") else 1, ci_low_s=None, ci_high_s=None,
        stop_reason=STOP_REASON, flags=FLAGS,
    )  # fmt: skip


def _text(value: Any) -> str | None:
    return value[:200] if isinstance(value, str) and value else None
