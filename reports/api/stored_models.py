"""Answers from the results database: runs, cases, histories, diffs. Names and labels are text as stored, cut and cleaned."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from reports.api.base_models import Answer


class RunBody(Answer):
    """One run."""

    run_id: str = Field(description="32 hex digits")
    label: str
    started_at: str = Field(description="UTC, ISO 8601")
    finished_at: str | None = Field(description="UTC, ISO 8601")
    status: Literal["running", "complete", "interrupted"]
    exit_code: int | None = Field(description="of pytest, code")
    hardware: str = Field(description="key of the chip asked for")
    is_forced: bool = Field(description="measured on a machine that is not that chip")
    git_commit: str | None
    git_branch: str | None
    git_is_dirty: bool | None
    plugin_version: str
    machine: str = Field(description="host, device and CPU, as far as known")


class Page(Answer):
    """Where a page lies in the whole list."""

    offset: int = Field(description="items before this page, count")
    limit: int = Field(description="most items of a page, count")
    total_count: int = Field(description="items in all, count")
    next_offset: int | None = Field(description="offset of the next page, count; null on the last one")


class RunList(Answer):
    """Runs, newest first."""

    page: Page
    runs: list[RunBody]


class RunDetail(Answer):
    """One run with its counts, machine and warnings."""

    run: RunBody
    command: str
    counts: dict[str, int] = Field(description="measured, predicted, skipped, failed → cases, count")
    case_count: int = Field(description="cases, count")
    environment: dict[str, Any] = Field(description="facts of machine and software")
    canary_sentence: str = Field(description="what the canary kernel says of the machine's state; may be empty")


class ProcessTime(Answer):
    """What one process measured."""

    process: int = Field(description="ordinal of the process")
    measured_s: float = Field(description="median, seconds")
    sample_count: int = Field(description="samples, count")


class CaseBody(Answer):
    """One case of a run, its processes pooled. What was not measured is null, never 0."""

    case_key: str = Field(description="sixteen hex digits: the same case on every machine and night")
    case_id: str
    record_id: str = Field(description="of the record that speaks for the case: evidence")
    title: str = Field(description="operator and sizes in words")
    op: str
    shape: dict[str, int] = Field(description="dimension letter → size")
    formats: dict[str, str] = Field(description="operand → format key; a: activation, b: weight, c: output")
    precision: str = Field(description="`BF16`, `INT4 W4A16`, …")
    kernel: str
    cache: str
    mode: str
    hardware: str | None = Field(description="key of the chip the predictions are for")
    status: Literal["measured", "predicted", "skipped", "failed"]
    reason: str | None = Field(description="why it was skipped or failed")
    measured_s: float | None = Field(description="median of the processes' medians, seconds")
    interval_half_width_ratio: float | None = Field(description="± to show: half the 95 % interval over the median")
    is_interval_total: bool = Field(description="whether that interval knows how far fresh processes differ")
    ideal_s: float | None = Field(description="speed of light, seconds")
    error_ideal_ratio: float | None = Field(description="(ideal − measured) / measured; negative: predicted too fast")
    expected_s: float | None = Field(description="expected time, seconds")
    expected_low_s: float | None = Field(description="lower end of the 80 % interval, seconds")
    expected_high_s: float | None = Field(description="upper end of the 80 % interval, seconds")
    error_expected_ratio: float | None = Field(description="(expected − measured) / measured")
    bound: str | None = Field(description="memory or compute, of the ideal time")
    path: str | None = Field(description="native, emulated or dequantize")
    flops: float | None = Field(description="work, FLOP")
    moved_bytes: float | None = Field(description="compulsory traffic, bytes")
    intensity_flop_per_byte: float | None = Field(description="FLOP per byte")
    achieved_flops_per_s: float | None = Field(description="flops over the measured time, FLOP per second")
    achieved_bytes_per_s: float | None = Field(description="moved_bytes over the measured time, bytes per second")
    peak_flops_per_s: float | None = Field(description="dense peak of the roof, FLOP per second")
    bandwidth_bytes_per_s: float | None = Field(description="bandwidth of the roof, bytes per second")
    roof_share_ratio: float | None = Field(description="ideal over measured")
    power_w: float | None = Field(description="watts")
    energy_j: float | None = Field(description="joules per call")
    process_count: int = Field(description="processes that measured it, count")
    processes: list[ProcessTime]
    flags: list[str] = Field(description="warnings about the samples")
    doubts: list[str] = Field(description="those flags that put the time in doubt")


class CaseList(Answer):
    """Cases of a run in the order they were stored."""

    run: RunBody
    page: Page
    cases: list[CaseBody]


class NightBody(Answer):
    """One run's value of a case."""

    run_id: str
    started_at: str = Field(description="UTC, ISO 8601")
    label: str
    git_commit: str | None
    value: float = Field(description="in the metric's unit")
    process_count: int = Field(description="processes, count")
    flags: list[str]
    is_used: bool = Field(description="whether it takes part in the search for steps")
    doubt: str = Field(description="why not; empty where it does")


class LevelBody(Answer):
    """Nights between two steps."""

    run_id: str = Field(description="of its first night")
    started_at: str = Field(description="UTC, ISO 8601")
    night_count: int = Field(description="nights, count")
    value: float = Field(description="in the metric's unit")


class SegmentBody(Answer):
    """Nights of one chip, environment class and method: only these are compared."""

    history_key: str
    hardware: str
    method_version: str
    split: list[str] = Field(description="what differs from the segment before, in words")
    nights: list[NightBody]
    levels: list[LevelBody]


class ChangeBody(Answer):
    """A step or a drift."""

    kind: Literal["step", "drift"]
    alert_id: str = Field(description="the same on every later night")
    status: str = Field(description="open, back, annotated, …")
    is_open: bool
    before_value: float = Field(description="in the metric's unit")
    after_value: float = Field(description="in the metric's unit")
    change_value: float = Field(description="relative to before; for quality and error the difference")
    run_id: str
    started_at: str = Field(description="UTC, ISO 8601")
    changed: list[str] = Field(description="what differs in the environment from the night before")
    clock_ratio: float | None = Field(description="SM clock after over before, where it moved")
    reason: str = Field(description="of an annotation or quarantine; may be empty")


class HistoryAnswer(Answer):
    """One case over its nights."""

    case_key: str
    name: str
    metric: str
    unit: str = Field(description="unit of every value")
    branch: str | None = Field(description="whose nights count; null: every branch")
    night_count: int = Field(description="nights, count")
    alert_count: int = Field(description="changes somebody has to look at, count")
    segments: list[SegmentBody]
    changes: list[ChangeBody]


class DifferenceBody(Answer):
    """One fact of the environment that differs."""

    name: str
    before: str
    after: str
    is_blocking: bool = Field(description="whether the sides are not comparable for it")


class CaseChange(Answer):
    """One case on both sides; positive changes are slower."""

    case_key: str
    case_id: str
    name: str
    verdict: Literal["SLOWER", "FASTER", "SAME", "AMBIGUOUS", "INVALID", "NEW", "GONE"]
    reason: str = Field(description="code of the reason, explained in docs/diff.md")
    detail: str
    before_s: float | None = Field(description="seconds")
    after_s: float | None = Field(description="seconds")
    change_ratio: float | None = Field(description="(after − before) / before")
    low_ratio: float | None = Field(description="lower end of the 95 % interval of the change")
    high_ratio: float | None = Field(description="upper end")
    adjusted_p_value: float | None = Field(description="after Benjamini–Hochberg")
    before_process_count: int = Field(description="processes used, count")
    after_process_count: int = Field(description="processes used, count")


class DiffAnswer(Answer):
    """What changed between two runs by more than noise."""

    before: RunBody
    after: RunBody
    verdict: str = Field(description="one sentence")
    exit_code: int = Field(description="what `roofline diff` would exit with, code")
    is_comparable: bool
    environment_differences: list[DifferenceBody]
    counts: dict[str, int] = Field(description="verdict → cases, count")
    unmeasured_count: int = Field(description="cases that neither side measured, count")
    common_change_ratio: float | None = Field(description="median change over the cases judged")
    smallest_step_ratio: float | None = Field(description="median smallest slow-down that would be seen with 80 %")
    cases: list[CaseChange]
