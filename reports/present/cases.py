"""A case in words, and the columns of cases that every surface shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from reports.present.blocks import Cell, Column, Paragraph, Span, memory_cell, percent_cell, time_cell
from reports.present.display_text import prefixed, regime_words, shown
from results.cases.case_result import CaseResult
from results.cases.state import CaseEnergy, CaseState
from results.records.flags import DOUBTFUL_FLAGS, FLAGS
from results.statistics.replication import width_text
from roofline_model.core.answer import Option
from roofline_model.core.finding import Finding, code_text, short_text
from roofline_model.core.units import counted, format_achieved, format_percent, format_time
from roofline_model.operators.case import Case, case_title, is_model_case, op_title

if TYPE_CHECKING:
    from results.records.records import HardwareProfile
    from roofline_model.chips.hardware import Device

_LEAST_COMMON = 3
"""Cases whose remark is worth a line of its own."""


def case_precision(case: Case) -> str:
    """Return what people call the formats of a case, fit to be shown: `INT4 (W4A16)`, `no format`."""
    return shown(case.precision_label or "no format", 60)


def case_label(case: Case) -> str:
    """Return what people call a configuration, fit to be shown: `INT4 (W4A16) · tinygemm`."""
    return shown(case.configuration_label, 120)


def option_precision(option: Option) -> str:
    """Return what people call the formats of an option, fit to be shown: `INT4 (W4A16)`, `no format`."""
    return shown(option.precision or "no format", 60)


def option_label(option: Option) -> str:
    """Return what people call an option, fit to be shown: `INT4 (W4A16) · tinygemm`."""
    return shown(option.label, 120)


def option_memory_cell(option: Option) -> Cell:
    """Return what an option takes: a product's operands, a model's weights and cache."""
    return memory_cell(None if option.memory is None else option.memory.total_bytes)


def operator_title(case: Case) -> str:
    """Return the operator in words: `gemv`, `seeded-llama-156m decode`."""
    return shown(op_title(case), 80)


def title_of(case: Case) -> str:
    """Return operator and sizes in words: `gemv 1x4096x4096`, `seeded-llama-156m, decode, batch 1, 128 tokens`."""
    return shown(case_title(case.op, case.shape), 140)


def name_of(case: Case) -> str:
    """Return what a table calls the case: its id; of a whole model its title and precision."""
    return f"{title_of(case)}: {case_label(case)}" if is_model_case(case) else shown(case.id, 160)


def regime_of(case: Case) -> str:
    """Return cache state and mode in words."""
    return regime_words(case.cache, case.mode)


def shown_flags(result: CaseResult) -> tuple[str, ...]:
    """Return the flags of a case, fit to be shown."""
    return tuple(shown(flag, 60) for flag in result.flags)


def remarks_of(result: CaseResult) -> tuple[str, ...]:
    """Return its remarks, fit to be shown."""
    return tuple(dict.fromkeys(map(shown, result.remarks)))


def common_remarks(results: Sequence[CaseResult]) -> dict[str, int]:
    """Return the remarks that at least half of the cases share, with how many do: said once, not in each row."""
    counts = Counter(remark for result in results for remark in remarks_of(result))
    return {remark: count for remark, count in counts.items() if count >= _LEAST_COMMON and 2 * count >= len(results)}


def counted_processes(count: int) -> str:
    """Return `one process`, `3 processes`."""
    return "one process" if count == 1 else counted(count, "process", "processes")


def total_basis(result: CaseResult) -> str:
    """Return where `interval_total` comes from: `3 processes`, `A/A floor`, `other cases` (one process, the spread of
    the run's other cases), or `one process` where it is not known; empty if unmeasured.
    """
    if result.pooled is None:
        return ""
    if result.total is not None and result.total_ratio is not None:
        if result.total.basis == "floor":
            return "A/A floor"
        return "other cases" if result.process_count == 1 else counted_processes(result.process_count)
    return counted_processes(result.process_count)


# Times and rates -----------------------------------------------------------------------------------------------


def width_cell(ratio: float | None, *, is_total: bool = True) -> Cell:
    """Return the half width of an interval, with a mark of one within a process; missing → `–`."""
    return Cell("–" if ratio is None else f"±{width_text(ratio)}{'' if is_total else '*'}", ratio)


def plus_minus_cell(result: CaseResult) -> Cell:
    """Return the ± of the total interval; of the one within where the total is not known."""
    return width_cell(result.plus_minus_ratio, is_total=result.total_ratio is not None)


def achieved_text(result: CaseResult) -> str:
    """Return the rate that the bound is about: GB/s of compulsory traffic, or TFLOP/s."""
    bound = "" if result.ideal is None else result.ideal.bound
    return format_achieved(bound, result.achieved_bytes_per_s, result.achieved_flops_per_s)


def _energy_cell(result: CaseResult) -> Cell:
    joules = None if result.energy is None else result.energy.energy_j
    return Cell(prefixed(joules, "J"), joules)


def _power_cell(result: CaseResult) -> Cell:
    return Cell(prefixed(result.power_w, "W"), result.power_w)


CASES = (
    Column("Format", lambda result: case_precision(result.case), is_head=True),
    Column("Kernel", lambda result: shown(result.case.kernel, 60), "prose", least=12),
    Column("Measured", lambda result: time_cell(result.measured_s), "number"),
    Column("!", lambda result: "!" if result.doubts else ""),
    Column("±", plus_minus_cell, "number", drop=3),
    Column("Ideal", lambda result: time_cell(result.ideal_s), "number", drop=1),
    Column("Error", lambda result: percent_cell(result.error_ideal_ratio, signed=True), "number"),
    Column("Expected", lambda result: time_cell(result.expected_s), "number", drop=4),
    Column("Exp. error", lambda result: percent_cell(result.error_expected_ratio, signed=True), "number", drop=2),
    Column("Of roof", lambda result: percent_cell(result.roof_share_ratio, 0), "number", drop=9),
    Column("Rate", achieved_text, "number", drop=6),
    Column("Bound", lambda result: result.ideal.bound if result.ideal else "–", drop=8),
    Column("Energy", _energy_cell, "number", drop=5),
    Column("Power", _power_cell, "number", drop=7),
)
"""The cases of one shape side by side. Of a narrow table that leaves first which other columns imply: the share of the
roof is the error plus one, the expected time is the measured one and its error.
"""


def case_columns(*headers: str) -> tuple[Column, ...]:
    """Return some of the columns of cases by their headers."""
    by_header = {column.header: column for column in CASES}
    return tuple(by_header[header] for header in headers)


STATUS = Column("Status", lambda result: Span(result.status, f"status {result.status}"), drop=9)
"""What became of a case."""


def interval_blocks(results: Iterable[CaseResult]) -> Iterator[Paragraph]:
    """Yield which interval the ± of a table is."""
    results = list(results)
    if any(each.total_ratio is not None for each in results):
        yield Paragraph("± is interval_total: it knows how far fresh processes differ", "quiet")
    if any(each.total_ratio is None and each.within_ratio is not None for each in results):
        text = "* ± is of one process: another may differ by more; `roofline doctor --noise` says how much"
        yield Paragraph(text, "quiet")


def flag_blocks(results: Iterable[CaseResult]) -> Iterator[Paragraph]:
    """Yield the meaning of each flag that occurs."""
    occurring = {flag for each in results for flag in each.flags}
    for flag in FLAGS:
        if flag in occurring:
            is_doubtful = flag in DOUBTFUL_FLAGS
            yield Paragraph(
                f"{flag}{' (!)' if is_doubtful else ''}: {code_text(flag)}", "warning" if is_doubtful else "quiet"
            )


def reason_blocks(results: Sequence[CaseResult]) -> Iterator[Paragraph]:
    """Yield once per reason which cases were not measured, and once per flag which ones carry it.

    A reason that all share names none of them.
    """
    labels: dict[tuple[str, str], list[str]] = {}
    for each in results:
        if each.status != "measured":
            labels.setdefault((each.status, shown(each.reason) or "no reason stored"), []).append(case_label(each.case))
        for flag in shown_flags(each):
            labels.setdefault(("flag", flag), []).append(case_label(each.case))
    timed_count = sum(each.pooled is not None for each in results)
    for (status, text), named in labels.items():
        names = "" if len(named) == len(results) else ", ".join(dict.fromkeys(named))
        if status == "flag":
            names = ("all that were measured" if names else "all") if len(named) == timed_count else names
            yield Paragraph(f"  {text}: {names}", "warning")
        else:
            yield Paragraph(
                f"  {status}: {names}{': ' if names else ''}{text}", "failed" if status == "failed" else "warning"
            )


# State and energy ----------------------------------------------------------------------------------------------


def clock_text(clock_hz: float | None) -> str:
    """Print a clock as `1.98 GHz` or `810 MHz`; missing → `–`."""
    return prefixed(clock_hz, "Hz", 4)


def clocks_text(state: CaseState) -> str:
    """Return `1.98 GHz (1.62 to 1.98)`, the range where samples have clocks of their own and differ."""
    text = clock_text(state.clock_hz)
    low_hz, high_hz = state.clock_low_hz, state.clock_high_hz
    if low_hz is None or high_hz is None or high_hz <= low_hz * 1.0005:
        return text
    return f"{text} ({clock_text(low_hz)} to {clock_text(high_hz)})"


def throttled_text(state: CaseState) -> str:
    """Return `power cap 1.2 s, heat seen`; `none`, `none counted` below the rated clock, `–` where the counters cannot
    be read.
    """
    if state.throttled_s is None:
        return "–"
    ranked = sorted(state.throttled_s.items(), key=lambda item: -item[1])
    parts = [
        f"{shown(reason, 40)} {format_time(seconds, 2) if seconds > 0 else 'seen, time not counted'}"
        for reason, seconds in ranked
        if seconds > 0 or state.is_below_rated
    ]
    return ", ".join(parts) or ("none counted" if state.is_below_rated else "none")


def load_text(state: CaseState) -> str:
    """Return `others 3 %, stolen 0 %`; `–` where neither is known."""
    parts = [("others", state.others_ratio), ("stolen", state.stolen_ratio)]
    return ", ".join(f"{name} {format_percent(ratio, 0)}" for name, ratio in parts if ratio is not None) or "–"


def pace_text(energy: CaseEnergy) -> str:
    """Return `in the windows a call took 2× its median`; empty where the pace is the same within 10 %."""
    return f"in the windows a call took {energy.pace_ratio:.3g}× its median" if energy.is_of_another_pace else ""


def per_flop_text(energy: CaseEnergy) -> str:
    """Return `0.62 pJ/FLOP, 1.61 TFLOP/J`; `–` without FLOPs."""
    if energy.energy_j_per_flop is None or energy.flops_per_j is None:
        return "–"
    return f"{prefixed(energy.energy_j_per_flop, 'J/FLOP')}, {prefixed(energy.flops_per_j, 'FLOP/J')}"


def windows_text(energy: CaseEnergy) -> str:
    """Return `3 windows of 2 s`; empty for records without a reading of windows."""
    return (
        f"{counted(energy.window_count, 'window')} of {format_time(energy.window_s, 2)}" if energy.window_count else ""
    )


def listed(names: Iterable[str]) -> str:
    """Return stored names side by side; `–` for none."""
    return ", ".join(shown(name, 40) for name in names) or "–"


# Predictions -----------------------------------------------------------------------------------------------------


_PARTS = {
    "ideal": ("ideal roof", ""),
    "memory": ("memory efficiency", "the bandwidth that is reached, below the rated one"),
    "tiles": ("tiles and waves", "tensor pipe with padding, tail and delivered rate"),
    "exp": ("exp bound", "the softmax's unit, not the tensor pipe"),
    "launch": ("launch floor", ""),
    "widening": ("dequantising, casting, split-K sums", ""),
    "host": ("the framework on the host, between the kernels", ""),
    "supply": ("operand supply from L2, latency, imperfect overlap", ""),
    "kernel": ("the kernels beyond the ceilings, as expected", ""),
    "clock": ("clock below nominal, where the SMs bind the time", ""),
    "unexplained": ("unexplained", ""),
}
"""Part of a measured time → its name for readers, and what it means; in the order of the split (`PARTS`)."""
NAMES = {part: name for part, (name, _) in _PARTS.items()}
LABELS = {part: f"{name}: {meaning}" if meaning else name for part, (name, meaning) in _PARTS.items()}


AGAIN = ", for the runs that follow"


def for_the_next(doubt: Finding | None) -> str:
    """Return a doubt of a calibration, and that a new one mends the runs that follow; empty where there is none."""
    return "" if doubt is None else f"{short_text(doubt)}{AGAIN}"


def calibration_doubts(device: Device | None) -> tuple[str, ...]:
    """Return why a chip has no ideal or no expected times: it was busy while it was calibrated."""
    from roofline_model.chips.hardware import doubts_of

    return () if device is None else tuple(map(for_the_next, doubts_of(device)))


def profile_doubts(profiles: Iterable[HardwareProfile]) -> list[str]:
    """Return these reasons for the stored profiles of a run, each once; a profile that cannot be read has none."""
    return list(dict.fromkeys(text for profile in profiles for text in calibration_doubts(profile.device)))
