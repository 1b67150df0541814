"""Everything that is stored about one case: times, predictions, samples, state, energy, kernels, method."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from reports.document.run_models import model_facts
from reports.present.blocks import Block, Column, Drawing, Facts, Heading, table, time_cell
from reports.present.cases import (
    LABELS,
    case_label,
    clock_text,
    clocks_text,
    counted_processes,
    listed,
    load_text,
    pace_text,
    per_flop_text,
    regime_of,
    remarks_of,
    shown_flags,
    throttled_text,
    title_of,
    total_basis,
    width_cell,
    windows_text,
)
from reports.present.display_text import prefixed, shown
from reports.present.sample_drawing import histogram_lines, sparkline, visits_text
from results.cases.errors import expected_gap
from results.diff.environments import plain_fact
from results.records.flags import DOUBTFUL_FLAGS
from roofline_model.core.finding import code_text, short_text
from roofline_model.core.units import counted, format_memory, format_percent, format_time
from roofline_model.ideal.roofline import error_ratio

if TYPE_CHECKING:
    from results.cases.case_result import CaseResult
    from results.records.records import PredictionRecord, Record, RunInfo

Fact = tuple[str, str]
_ORDER_WIDTH, _HISTOGRAM_WIDTH = 72, 76


def case_blocks(case: CaseResult, run: RunInfo, width: int) -> Iterator[Block]:
    """Yield one case of a run whole; `width`: characters that a drawing of its samples may take."""
    yield Heading(3, f"{title_of(case.case)}: {case_label(case.case)}, {regime_of(case.case)}")
    yield Facts(tuple(_facts(case)))
    if case.pooled is not None:
        if len(case.records) > 1:
            yield table("Each process", _PROCESSES, case.by_record)
        for record in case.timed:
            yield from _samples(record, case, width)
    yield Facts(tuple(_method(case, run)))


def _facts(case: CaseResult) -> Iterator[Fact]:
    yield "case", f"{shown(case.case.id, 160)} (key {case.case_key})"
    if case.pooled is None:
        yield "status", "; ".join([case.status, *remarks_of(case)])
    else:
        yield from _times(case)
    yield from model_facts(case)
    for prediction in case.lead.predictions:
        yield from _prediction(prediction, case)
    if case.pooled is not None:
        yield from _gap(case)
        yield from _flags(case)
        yield "state", "; ".join(_state(case)) or "this machine does not tell"
        yield from _energy(case)
        yield from _kernels(case)


def _times(case: CaseResult) -> Iterator[Fact]:
    count = case.process_count
    how = f"geometric mean of {counted_processes(count)}" if count > 1 else "median, one process"
    yield "measured", f"{format_time(case.measured_s)} ({how})"
    lead = case.measurements[0]
    where = f" ({format_time(lead.ci_low_s)} to {format_time(lead.ci_high_s)})" if lead.ci_low_s is not None else ""
    yield "± within", f"{_plus_minus(case.within_ratio)}{', the widest of its processes' if count > 1 else where}"
    total = case.total
    if total is not None and total.low_s is not None and case.total_ratio is not None:
        ends = f"{format_time(total.low_s)} to {format_time(total.high_s)}"
        yield "± total", f"{_plus_minus(case.total_ratio)} ({ends}), from {_basis_words(case)}"
    else:
        yield "± total", "not known: one process; `roofline doctor --noise` or --roofline-processes 3 measures it"
    rates = (prefixed(case.achieved_bytes_per_s, "B/s", 4), prefixed(case.achieved_flops_per_s, "FLOP/s", 4))
    achieved = ", ".join(rate for rate in rates if rate != "–") or "–"
    yield "rate", f"{achieved}; {format_percent(case.roof_share_ratio, 0)} of the roof"
    if lead.max_error is not None:
        yield "checked", _checked_words(lead.max_error, lead.tolerance)
    yield from (("remark", remark) for remark in remarks_of(case))


def _plus_minus(ratio: float | None) -> str:
    return "not known" if ratio is None else str(width_cell(ratio).content)


def _basis_words(case: CaseResult) -> str:
    words = {"A/A floor": "this machine's A/A floor", "other cases": "the spread of the run's other cases"}
    return words.get(total_basis(case), total_basis(case))


def _checked_words(error: float, tolerance: float | None) -> str:
    """Return how far the kernel's output was from right, beside what is allowed where it was furthest."""
    if error == 0:
        return "exact"
    if not tolerance:
        return f"off by {error:.3g}"
    return f"off by {error:.3g}, {format_percent(error / tolerance, 0)} of the tolerance {tolerance:.3g}"


def _prediction(prediction: PredictionRecord, case: CaseResult) -> Iterator[Fact]:
    text = format_time(prediction.time_s)
    if prediction.low_s is not None and prediction.high_s is not None:
        text += f" ({format_time(prediction.low_s)} to {format_time(prediction.high_s)})"
    error = prediction.error_ratio if len(case.records) == 1 else error_ratio(prediction.time_s, case.measured_s)
    parts = [f"error {format_percent(error, signed=True)}"] if error is not None else []
    parts.append(f"{prediction.bound}-bound")
    if prediction.bandwidth_bytes_per_s is not None:
        parts += [f"{prefixed(prediction.bandwidth_bytes_per_s, 'B/s', 4)} from {prediction.memory_level or 'memory'}"]
    if prediction.peak_flops_per_s is not None:
        rate = prefixed(prediction.peak_flops_per_s, "FLOP/s", 4)
        parts += [f"{rate} in {prediction.compute_format} ({prediction.path})"]
    parts += [prediction.provenance] if prediction.provenance else []
    model = f"model {prediction.model_version} of {prediction.hardware_key}"
    yield prediction.kind, f"{text}; {', '.join(parts)}; {model}"
    yield from (("", short_text(item)) for item in prediction.findings)


def _gap(case: CaseResult) -> Iterator[Fact]:
    """Yield where the time went; nothing where only the ideal is known, whose rest the error says already."""
    gap = expected_gap(case)
    for number, (name, time_s) in enumerate(gap.parts if gap is not None else ()):
        share = format_percent(time_s / gap.measured_s, 0) if gap is not None else ""
        size = format_time(time_s) if time_s >= 0 else f"−{format_time(-time_s)}"
        yield "" if number else "time went", f"{size} ({share}) {LABELS[name]}"


def _flags(case: CaseResult) -> Iterator[Fact]:
    for key in case.flags:
        yield "flag", f"{key}{' (!)' if key in DOUBTFUL_FLAGS else ''}: {code_text(key)}"
    if not case.flags:
        yield "flags", "none"


def _state(case: CaseResult) -> Iterator[str]:
    state = case.state
    if state is None:
        return
    if state.clock_hz is not None:
        rated = f", rated {clock_text(state.rated_clock_hz)}" if state.rated_clock_hz is not None else ""
        yield f"SM clock {clocks_text(state)}{rated}"
    if state.throttled_s is not None:
        yield f"throttled: {throttled_text(state)}"
    if state.retry_count:
        yield f"measured anew {counted(state.retry_count, 'time')}"
    if state.cpu_clock_hz is not None:
        yield f"CPU clock {clock_text(state.cpu_clock_hz)}"
    if load_text(state) != "–":
        yield f"CPU time taken: {load_text(state)}"
    if state.device_process_count is not None:
        yield f"{counted(state.device_process_count, 'other process', 'other processes')} on the GPU"
    if state.temperature_c is not None:
        yield f"{state.temperature_c:.0f} °C"


def _energy(case: CaseResult) -> Iterator[Fact]:
    energy = case.energy
    if energy is None:
        return
    sd = f" (sd {prefixed(energy.std_j, 'J', 2)})" if energy.std_j is not None else ""
    net = f", net of idle {prefixed(energy.net_energy_j, 'J')}" if energy.net_energy_j is not None else ""
    yield "energy", f"{prefixed(energy.energy_j, 'J')} per call{sd}{net}; {per_flop_text(energy)}"
    idle = f", idle {prefixed(energy.idle_power_w, 'W')}" if energy.idle_power_w is not None else ""
    windows = f", {windows_text(energy)}" if energy.window_count else ""
    origin = f"scope {listed(energy.scopes)}, source {listed(energy.sources)}"
    yield "power", f"{prefixed(energy.power_w, 'W')}{idle}{windows}; {origin}"
    if energy.is_of_another_pace:
        yield "", f"{pace_text(energy)}: energy and power are of that pace"
    if energy.disagreement_ratio is not None:
        judged = "they do not confirm each other" if energy.is_disputed else "the two agree"
        yield "", f"second source {format_percent(energy.disagreement_ratio, signed=True)}: {judged}"


def _kernels(case: CaseResult) -> Iterator[Fact]:
    traced = next((each.attribution for each in case.measurements if each.attribution is not None), None)
    if traced is not None:
        names = f": {', '.join(traced.kernel_names)}" if traced.kernel_names else ""
        times = f"busy {format_time(traced.busy_s)}, gap {format_time(traced.gap_s)}"
        yield "kernels", f"{traced.kernel_count:g} per call, {times} ({traced.source}){names}"


def _clocks(process: CaseResult) -> str:
    state = process.state
    return "–" if state is None else clocks_text(state)


def _ended(process: CaseResult) -> str:
    if process.lead.process.end_reason:
        return shown(process.lead.process.end_reason)
    return f"{process.status}: {shown(process.reason)}" if process.pooled is None else "–"


_PROCESSES = (
    Column("Process", lambda each: str(each.lead.process.ordinal), "number", is_head=True),
    Column("Median", lambda each: time_cell(each.measured_s), "number"),
    Column("± within", lambda each: width_cell(each.within_ratio), "number"),
    Column("Samples", lambda each: listed(str(measured.sample_count) for measured in each.measurements), "number"),
    Column("Stopped by", lambda each: listed(measured.stop_reason for measured in each.measurements), drop=3),
    Column("SM clock", _clocks, "number", drop=2),
    Column("Flags", lambda each: ", ".join(shown_flags(each)) or "–", "prose"),
    Column("Ended", _ended, "prose", drop=1),
)


def _samples(record: Record, case: CaseResult, width: int) -> Iterator[Block]:
    measured = record.measurement
    assert measured is not None  # the record is timed
    worth = measured.effective_sample_count
    worth_text = "" if worth is None else f" (worth {counted(round(worth), 'independent one')})"
    calls = counted(measured.calls_per_sample, "call")
    first = f"{counted(measured.sample_count, 'sample')}{worth_text} of {calls}, stopped by {measured.stop_reason}"
    quartiles = f"quartiles {format_time(measured.q1_s)} to {format_time(measured.q3_s)}"
    sd = f", sd {format_time(measured.std_s, 3)}" if measured.std_s is not None else ""
    sets = f"{counted(measured.rotation_count, 'operand set')} in rotation"
    parts = [
        first,
        visits_text(record.extra),
        f"min {format_time(measured.min_s)}, {quartiles}, max {format_time(measured.max_s)}",
        f"mean {format_time(measured.mean_s)}{sd}",
        "" if measured.outlier_count is None else counted(measured.outlier_count, "outlier"),
        "" if measured.first_call_s is None else f"first call {format_time(measured.first_call_s)}",
        sets if measured.working_set_bytes is None else f"{sets}, {format_memory(measured.working_set_bytes)}",
    ]
    name = "samples" if case.process_count == 1 else f"process {record.process.ordinal}"
    facts = [(name, "; ".join(part for part in parts if part))]
    samples_s = measured.samples_s
    if not samples_s:
        facts.append(("", "the samples themselves were pruned"))
    elif len(samples_s) > 1:
        facts.append(("in order", sparkline(samples_s, min(width, _ORDER_WIDTH))))
    yield Facts(tuple(facts))
    yield Drawing(tuple(f"  {line}" for line in histogram_lines(samples_s, min(width, _HISTOGRAM_WIDTH))))


def _method(case: CaseResult, run: RunInfo) -> Iterator[Fact]:
    method = case.lead.method
    if method is not None:
        settings = ", ".join(f"{name} {value}" for name, value in sorted(method.settings.items()))
        text = f"{method.timer}, version {method.version}, hash {method.method_hash}"
        yield "method", f"{text}: {settings}" if settings else text
    facts = run.environment.class_facts
    text = ", ".join(f"{name} {plain_fact(value)}" for name, value in sorted(facts.items()) if value is not None)
    yield "environment", f"class {run.environment.class_hash}{f': {text}' if text else ''}"
    yield "test", case.lead.test_id or "–"
