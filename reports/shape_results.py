"""What was decided per shape: configurations ranked on evidence, the baseline, and one verdict line.

A *configuration* is one case (formats + kernel) of one shape; repeated processes of it are pooled by the median of their
medians. Speed-ups compare like with like: measured with measured, ideal with ideal, always against the same baseline.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from reports.case_rows import CaseRow
from reports.display_text import counted, times_faster
from roofline_model.errors import RooflineError
from roofline_model.formats import get_format
from roofline_model.units import format_time

ShapeKey = tuple[str, str, str, str]
"""(op, shape label, cache, mode)."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """One case of a shape with its pooled times."""

    case_key: str
    case_id: str
    label: str
    precision: str
    weight_format: str
    activation_format: str
    kernel: str
    is_sixteen_bit: bool
    is_full_precision: bool
    measured_s: float | None
    ideal_s: float | None
    rows: tuple[CaseRow, ...]

    @property
    def is_measured(self) -> bool:
        """True when at least one process timed it."""
        return self.measured_s is not None


@dataclass(frozen=True, slots=True)
class ShapeResult:
    """All configurations of one shape, cache state and mode, and which one wins."""

    key: ShapeKey
    title: str
    """`1x4096x4096`; warm cache, other modes and other operators than products are named."""
    ranked: tuple[Configuration, ...]
    """Measured ones by time, then predicted ones by ideal time. Failed and skipped cases are not here."""
    baseline: Configuration | None
    """See `baseline_of`."""
    best: Configuration | None
    verdict: str
    predicted_speedup: float | None
    """Of `best` over `baseline`, ideal over ideal."""
    measured_speedup: float | None
    """Of `best` over `baseline`, measured over measured."""

    @property
    def op(self) -> str:
        """The operator of the shape."""
        return self.key[0]

    @property
    def is_contest(self) -> bool:
        """True when at least two configurations compete on equal evidence: one alone wins nothing."""
        leaders = [one for one in self.ranked if one.is_measured] or list(self.ranked)
        return len(leaders) > 1


def shape_results(rows: Iterable[CaseRow]) -> tuple[ShapeResult, ...]:
    """Group the rows of one chip by op, shape, cache and mode, in the order they were run, and judge each group."""
    groups: dict[ShapeKey, list[CaseRow]] = {}
    for row in rows:
        groups.setdefault((row.op, row.shape_label, row.cache, row.mode), []).append(row)
    return tuple(_shape_result(key, members) for key, members in groups.items())


def configurations(rows: Iterable[CaseRow]) -> tuple[Configuration, ...]:
    """Pool rows of the same case: measured ones by time, then predicted ones by ideal time."""
    by_case: dict[str, list[CaseRow]] = {}
    for row in rows:
        if row.measured_s is not None or (row.status == "predicted" and row.ideal_s is not None):
            by_case.setdefault(row.case_key, []).append(row)
    pooled = [_configuration(members) for members in by_case.values()]
    return tuple(sorted(pooled, key=_rank))


def baseline_of(ranked: Iterable[Configuration]) -> Configuration | None:
    """Return what speed-ups are counted against: the best 16-bit configuration on the best evidence, else the best FP32.

    A measured baseline goes before a predicted one, so that a measured winner is compared with something measured.
    """
    ranked = tuple(ranked)
    for is_measured in (True, False):
        pool = [one for one in ranked if one.is_measured == is_measured]
        wide = [one for one in pool if one.is_sixteen_bit] or [one for one in pool if one.is_full_precision]
        if wide:
            return wide[0]
    return None


def speedups(one: Configuration | None, baseline: Configuration | None) -> tuple[float | None, float | None]:
    """Return (predicted, measured) speed-up of a configuration over the baseline; None where a time is missing."""
    if one is None or baseline is None:
        return None, None
    return _ratio(baseline.ideal_s, one.ideal_s), _ratio(baseline.measured_s, one.measured_s)


def best_overall(results: Iterable[ShapeResult]) -> ShapeResult | None:
    """Return the shape whose best configuration gains most: by measured speed-up, else predicted, else the first."""
    candidates = [result for result in results if result.best is not None]
    candidates = [result for result in candidates if result.is_contest] or candidates
    for attribute in ("measured_speedup", "predicted_speedup"):
        known = [result for result in candidates if getattr(result, attribute) is not None]
        if known:
            return max(known, key=lambda result: getattr(result, attribute))
    measured = [result for result in candidates if result.best is not None and result.best.is_measured]
    return next(iter(measured or candidates), None)


def _configuration(rows: list[CaseRow]) -> Configuration:
    first = rows[0]
    times_s = [row.measured_s for row in rows if row.measured_s is not None]
    ideals_s = [row.ideal_s for row in rows if row.ideal_s is not None]
    return Configuration(
        case_key=first.case_key,
        case_id=first.case_id,
        label=first.label,
        precision=first.precision,
        weight_format=first.weight_format,
        activation_format=first.activation_format,
        kernel=first.kernel,
        is_sixteen_bit=first.is_sixteen_bit,
        is_full_precision=first.is_full_precision,
        measured_s=median(times_s) if times_s else None,
        ideal_s=ideals_s[0] if ideals_s else None,
        rows=tuple(rows),
    )


def _rank(one: Configuration) -> tuple[bool, float, str]:
    if one.measured_s is not None:
        return False, one.measured_s, one.case_id
    return True, one.ideal_s if one.ideal_s is not None else float("inf"), one.case_id


def _shape_result(key: ShapeKey, rows: list[CaseRow]) -> ShapeResult:
    ranked = configurations(rows)
    baseline = baseline_of(ranked)
    best = ranked[0] if ranked else None
    predicted, measured = speedups(best, baseline)
    title = _title(key)
    verdict = f"{title}: {_verdict(rows, ranked, best, baseline)}"
    return ShapeResult(key, title, ranked, baseline, best, verdict, predicted, measured)


def _title(key: ShapeKey) -> str:
    op, shape, cache, mode = key
    words = [] if op in ("gemv", "gemm") else [op]
    words.append(shape)
    words += [] if cache in ("cold", "none") else [cache]
    words += [] if mode == "eager" else [mode]
    return " ".join(words)


def _verdict(
    rows: list[CaseRow], ranked: tuple[Configuration, ...], best: Configuration | None, baseline: Configuration | None
) -> str:
    if best is None:
        reasons = dict.fromkeys(row.reason or row.status for row in rows)
        return f"nothing measured or predicted ({counted(len(rows), 'case')}: {'; '.join(list(reasons)[:2])})"
    if len(ranked) == 1:
        return f"{best.label} {_time_of(best)}; nothing else ran on this shape"
    if baseline is None:
        return f"{best.label} is fastest, {_time_of(best)}; no 16-bit or FP32 kernel to compare with"
    if best is not baseline:
        return f"{best.label} {_comparison(best, baseline)}"
    rival = next((one for one in ranked if _is_narrow(one) and one.is_measured == best.is_measured), None)
    if rival is None:
        return f"{best.label} is fastest, {_time_of(best)}; no narrower format was {'measured' if best.is_measured else 'predicted'}"
    return f"{best.label} stays fastest, {_time_of(best)}; {rival.label} {_comparison(rival, baseline)}"


def _comparison(one: Configuration, baseline: Configuration) -> str:
    predicted, measured = speedups(one, baseline)
    first = f"predicted {times_faster(predicted)} {baseline.precision}" if predicted is not None else "no prediction"
    if measured is not None:
        # Without a prediction the baseline has not been named yet.
        return f"{first}, measured {times_faster(measured)}" + (
            "" if predicted is not None else f" {baseline.precision}"
        )
    if one.measured_s is not None:
        return f"{first}, measured {format_time(one.measured_s)} (no 16-bit or FP32 kernel was measured)"
    return f"{first}, not measured"


def _time_of(one: Configuration) -> str:
    if one.measured_s is not None:
        return f"measured {format_time(one.measured_s)}"
    return f"predicted {format_time(one.ideal_s)}"


def _is_narrow(one: Configuration) -> bool:
    try:
        return bool(one.weight_format) and get_format(one.weight_format).element_bits < 16
    except RooflineError:  # a user's format that this process has not loaded
        return False


def _ratio(slow_s: float | None, fast_s: float | None) -> float | None:
    return slow_s / fast_s if slow_s and fast_s else None
