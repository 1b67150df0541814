"""Answers from the results database: runs, cases, histories, diffs. Names and labels are text as stored, cut and cleaned."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from reports.api.base_models import Answer


class RunBody(Answer):
    """One run."""

    run_id: str = Field(description="32 hex digits")
    label: str = Field(description="the name it was given; empty without one")
    started_at: str = Field(description="UTC, ISO 8601")
    finished_at: str | None = Field(description="UTC, ISO 8601")
    status: Literal["running", "complete", "interrupted"] = Field(description="how it ended; running: not yet")
    exit_code: int | None = Field(description="of pytest, code")
    hardware: str = Field(description="key of the chip asked for")
    is_forced: bool = Field(description="measured on a machine that is not that chip")
    git_commit: str | None = Field(description="commit of the code that was measured; null where unknown")
    git_branch: str | None = Field(description="branch of that commit; null where unknown")
    git_is_dirty: bool | None = Field(description="whether files differed from that commit; null where unknown")
    plugin_version: str = Field(description="version of roofline-bench that measured")
    machine: str = Field(description="host, device and CPU, as far as known")


class Page(Answer):
    """Where a page lies in the whole list."""

    offset: int = Field(description="items before this page, count")
    limit: int = Field(description="most items of a page, count")
    total_count: int = Field(description="items in all, count")
    next_offset: int | None = Field(description="offset of the next page, count; null on the last one")


class RunList(Answer):
    """Runs, newest first."""

    page: Page = Field(description="which part of the list this is")
    runs: list[RunBody] = Field(description="the runs of this page, newest first")


class RunDetail(Answer):
    """One run with its counts, machine and warnings."""

    run: RunBody = Field(description="the run itself")
    command: str = Field(description="command line it was started with")
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
    case_id: str = Field(description="the case as the benchmarks name it, with sizes and formats")
    record_id: str = Field(description="of the record that speaks for the case: evidence")
    title: str = Field(description="operator and sizes in words")
    op: str = Field(description="operator: gemv, gemm, attention, …")
    shape: dict[str, int] = Field(description="dimension letter → size")
    formats: dict[str, str] = Field(description="operand → format key; a: activation, b: weight, c: output")
    precision: str = Field(description="`BF16`, `INT4 (W4A16)`, …")
    kernel: str = Field(description="kernel that was run, as recorded")
    cache: str = Field(description="cold: operands came from DRAM; warm: they were in the last-level cache")
    mode: str = Field(description="how calls were made: eager, …")
    hardware: str | None = Field(description="key of the chip the predictions are for")
    status: Literal["measured", "predicted", "skipped", "failed"] = Field(description="what became of it")
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
    processes: list[ProcessTime] = Field(
        description="what each process measured by itself; empty where nothing was measured"
    )
    flags: list[str] = Field(description="warnings about the samples")
    doubts: list[str] = Field(description="those flags that put the time in doubt")


class CaseList(Answer):
    """Cases of a run in the order they were stored."""

    run: RunBody = Field(description="the run they are of")
    page: Page = Field(description="which part of the list this is")
    cases: list[CaseBody] = Field(description="the cases of this page")


class NightBody(Answer):
    """One run's value of a case."""

    run_id: str = Field(description="id of the run")
    started_at: str = Field(description="UTC, ISO 8601")
    label: str = Field(description="label of the run; empty without one")
    git_commit: str | None = Field(description="commit that was measured; null where unknown")
    value: float = Field(description="in the metric's unit")
    process_count: int = Field(description="processes, count")
    flags: list[str] = Field(description="warnings about its samples")
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

    history_key: str = Field(description="what the nights have in common, as a key")
    hardware: str = Field(description="key of the chip")
    method_version: str = Field(description="version of the measuring method")
    split: list[str] = Field(description="what differs from the segment before, in words")
    nights: list[NightBody] = Field(description="the nights, oldest first")
    levels: list[LevelBody] = Field(description="the levels between the steps, oldest first")


class ChangeBody(Answer):
    """A step or a drift."""

    kind: Literal["step", "drift"] = Field(description="step: from one night to the next; drift: slowly over many")
    alert_id: str = Field(description="the same on every later night")
    status: str = Field(description="open, back, annotated, …")
    is_open: bool = Field(description="whether somebody still has to look at it")
    before_value: float = Field(description="in the metric's unit")
    after_value: float = Field(description="in the metric's unit")
    change_value: float = Field(description="relative to before; for quality and error the difference")
    run_id: str = Field(description="run of the first night after it")
    started_at: str = Field(description="UTC, ISO 8601")
    changed: list[str] = Field(description="what differs in the environment from the night before")
    clock_ratio: float | None = Field(description="SM clock after over before, where it moved")
    reason: str = Field(description="of an annotation or quarantine; may be empty")


class HistoryAnswer(Answer):
    """One case over its nights."""

    case_key: str = Field(description="sixteen hex digits: the case")
    name: str = Field(description="the case in words")
    metric: str = Field(description="what is watched: time, energy, memory, quality or error")
    unit: str = Field(description="unit of every value")
    branch: str | None = Field(description="whose nights count; null: every branch")
    night_count: int = Field(description="nights, count")
    alert_count: int = Field(description="changes somebody has to look at, count")
    segments: list[SegmentBody] = Field(description="nights that may be compared with each other, oldest first")
    changes: list[ChangeBody] = Field(description="steps and drifts")


class DifferenceBody(Answer):
    """One fact of the environment that differs."""

    name: str = Field(description="name of the fact")
    before: str = Field(description="its value in the earlier run")
    after: str = Field(description="its value in the later run")
    is_blocking: bool = Field(description="whether the sides are not comparable for it")


class CaseChange(Answer):
    """One case on both sides; positive changes are slower."""

    case_key: str = Field(description="sixteen hex digits: the case on both sides")
    case_id: str = Field(description="the case as the benchmarks name it")
    name: str = Field(description="the case in words")
    verdict: Literal["SLOWER", "FASTER", "SAME", "AMBIGUOUS", "INVALID", "NEW", "GONE"] = Field(
        description="SAME: within noise; AMBIGUOUS: it may be either; INVALID: not comparable; NEW, GONE: on one side only"
    )
    reason: str = Field(description="code of the reason, explained in docs/reference/diff.md")
    detail: str = Field(description="the reason in words; may be empty")
    before_s: float | None = Field(
        description="seconds; geometric mean of the processes' medians, of which the test is"
    )
    after_s: float | None = Field(description="seconds; the same of the later run")
    change_ratio: float | None = Field(description="(after − before) / before")
    low_ratio: float | None = Field(description="lower end of the 95 % interval of the change")
    high_ratio: float | None = Field(description="upper end")
    adjusted_p_value: float | None = Field(description="after Benjamini–Hochberg")
    before_process_count: int = Field(description="processes used, count")
    after_process_count: int = Field(description="processes used, count")


class DiffAnswer(Answer):
    """What changed between two runs by more than noise."""

    before: RunBody = Field(description="the earlier run")
    after: RunBody = Field(description="the later run")
    verdict: str = Field(description="one sentence")
    exit_code: int = Field(description="what `roofline diff` would exit with, code")
    is_comparable: bool = Field(description="whether the environments allow a comparison at all")
    environment_differences: list[DifferenceBody] = Field(description="facts of the environment that differ")
    counts: dict[str, int] = Field(description="verdict → cases, count")
    unmeasured_count: int = Field(description="cases that neither side measured, count")
    unselected_count: int = Field(
        description="cases of the earlier run that the later one was not asked for (`pytest -k`), count"
    )
    common_change_ratio: float | None = Field(description="median change over the cases judged")
    smallest_step_ratio: float | None = Field(description="median smallest slow-down that would be seen with 80 %")
    cases: list[CaseChange] = Field(description="every case of either side")
