"""`roofline show RUN CASE…`: everything that is stored about one case, in words and numbers."""

from __future__ import annotations

import textwrap
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from reports.present.display_text import counted, prefixed
from reports.present.screen import (
    Cell,
    Column,
    clean,
    paired_times,
    plus_minus,
    screen_width,
    show_line,
    show_table,
)
from roofline_cli.runs.model_view import print_model_facts
from roofline_model.core.finding import short_text
from roofline_model.core.units import format_memory, format_percent, format_time

if TYPE_CHECKING:
    from reports.cases.rows import CaseRow
    from reports.cases.summary import CaseSummary
    from results.records.records import Measurement, PredictionRecord, RunInfo

_NAME_WIDTH = 12
_PLAIN_WIDTH = 100
"""Width of folded facts and histograms when the output is piped."""


def print_case(case: CaseSummary, run: RunInfo) -> None:
    """Print one case: its times and intervals, predictions, samples, flags, state, energy, kernels, method,
    environment.
    """
    lead = case.lead
    show_line(f"{lead.title}: {lead.label}, {case.regime}", "bold")
    _fact("case", f"{lead.case_id} (key {lead.case_key})")
    if case.measured_s is None:
        _fact("status", "; ".join([lead.status, *case.remarks]))
    else:
        _print_times(case)
    print_model_facts(case.result, _fact)
    for prediction in lead.record.predictions:
        _print_prediction(prediction, case)
    if case.measured_s is not None:
        _print_gap(case)
        _print_flags(case)
        _print_state(case)
        _print_energy(case)
        _print_kernels(case)
        _print_processes(case)
        for row in case.measured_rows:
            _print_samples(row, case)
    _print_method(case, run)


def case_detail_json(case: CaseSummary) -> dict[str, Any]:
    """Return everything about one case as JSON: the pooled case, and each process with all its statistics."""
    from reports.answers.run_answer import case_process, stored_case
    from reports.present.encoder import answer_json

    return {
        **answer_json(stored_case(case)),
        "processes": [
            {
                **answer_json(case_process(row)),
                "process_role": row.record.process.role,
                "process_end_reason": row.record.process.end_reason or None,
                "created_at": row.record.created_at,
                "method": _method_json(row),
                "measurement": _measurement_json(row.record.measurement),
                "predictions": [asdict(prediction) for prediction in row.record.predictions],
            }
            for row in case.rows
        ],
    }


def _print_times(case: CaseSummary) -> None:
    from reports.cases.summary import counted_processes

    count = case.process_count
    shown = f"geometric mean of {counted_processes(count)}" if count > 1 else "median, one process"
    _fact("measured", f"{format_time(case.measured_s)} ({shown})")
    lead = case.measurements[0]
    where = f" ({format_time(lead.ci_low_s)} to {format_time(lead.ci_high_s)})" if lead.ci_low_s is not None else ""
    widest = ", the widest of its processes" if case.process_count > 1 else where
    _fact("± within", f"{_plus_minus(case.within_ratio)}{widest}")
    total = case.total
    if total is not None and total.low_s is not None and case.total_ratio is not None:
        ends = f"{format_time(total.low_s)} to {format_time(total.high_s)}"
        _fact("± total", f"{_plus_minus(case.total_ratio)} ({ends}), from {_basis_words(case)}")
    else:
        _fact("± total", "not known: one process; `roofline doctor --noise` or --roofline-processes 3 measures it")
    rates = [
        prefixed(case.pooled.achieved_bytes_per_s, "B/s", 4),
        prefixed(case.pooled.achieved_flops_per_s, "FLOP/s", 4),
    ]
    _fact(
        "rate",
        f"{', '.join(rate for rate in rates if rate != '–') or '–'}; {format_percent(case.roof_share_ratio, 0)} of the "
        "roof",
    )
    if case.lead.max_error is not None:
        _fact("checked", _checked_words(case.lead.max_error, case.lead.tolerance))
    for remark in case.remarks:
        _fact("remark", remark)


def _checked_words(error: float, tolerance: float | None) -> str:
    """Return how far the kernel's output was from right, beside what is allowed where it was furthest."""
    if error == 0:
        return "exact"
    if not tolerance:
        return f"off by {error:.3g}"
    return f"off by {error:.3g}, {format_percent(error / tolerance, 0)} of the tolerance {tolerance:.3g}"


def _basis_words(case: CaseSummary) -> str:
    words = {"A/A floor": "this machine's A/A floor", "other cases": "the spread of the run's other cases"}
    return words.get(case.total_basis, case.total_basis)


def _print_prediction(prediction: PredictionRecord, case: CaseSummary) -> None:
    from roofline_model.ideal.roofline import error_ratio

    text = format_time(prediction.time_s)
    if prediction.low_s is not None and prediction.high_s is not None:
        text += f" ({format_time(prediction.low_s)} to {format_time(prediction.high_s)})"
    error = prediction.error_ratio if len(case.rows) == 1 else error_ratio(prediction.time_s, case.measured_s)
    parts = [f"error {format_percent(error, signed=True)}"] if error is not None else []
    parts.append(f"{prediction.bound}-bound")
    if prediction.bandwidth_bytes_per_s is not None:
        parts += [f"{prefixed(prediction.bandwidth_bytes_per_s, 'B/s', 4)} from {prediction.memory_level or 'memory'}"]
    if prediction.peak_flops_per_s is not None:
        rate = prefixed(prediction.peak_flops_per_s, "FLOP/s", 4)
        parts += [f"{rate} in {prediction.compute_format} ({prediction.path})"]
    parts += [prediction.provenance] if prediction.provenance else []
    _fact(prediction.kind, f"{text}; {', '.join(parts)}; model {prediction.model_version} of {prediction.hardware_key}")
    for item in prediction.findings:
        _fact("", short_text(item))


def _print_gap(case: CaseSummary) -> None:
    """Print where the time went; nothing where only the ideal is known, whose rest the error says already."""
    from reports.cases.errors import LABELS, expected_gap

    gap = expected_gap(case)
    if gap is None:
        return
    for number, (name, time_s) in enumerate(gap.parts):
        share = format_percent(time_s / gap.measured_s, 0)
        _fact(
            "time went" if not number else "",
            f"{format_time(abs(time_s)) if time_s >= 0 else '−' + format_time(-time_s)} ({share}) {LABELS[name]}",
        )


def _print_flags(case: CaseSummary) -> None:
    from results.records.flags import DOUBTFUL_FLAGS
    from roofline_model.core.finding import code_text

    for key in case.flags:
        mark = " (!)" if key in DOUBTFUL_FLAGS else ""
        _fact("flag", f"{key}{mark}: {code_text(key)}")
    if not case.flags:
        _fact("flags", "none")


def _print_state(case: CaseSummary) -> None:
    from reports.cases.state import case_state, clock_text

    state = case_state(case)
    if state is None:
        _fact("state", "this machine does not tell")
        return
    parts = []
    if state.clock_hz is not None:
        rated = f", rated {clock_text(state.rated_clock_hz)}" if state.rated_clock_hz is not None else ""
        parts.append(f"SM clock {state.clock_text}{rated}")
    parts += [f"throttled: {state.throttled_text}"] if state.throttled_s is not None else []
    parts += [f"measured anew {counted(state.retry_count, 'time')}"] if state.retry_count else []
    parts += [f"CPU clock {clock_text(state.cpu_clock_hz)}"] if state.cpu_clock_hz is not None else []
    parts += [f"CPU time taken: {state.load_text}"] if state.load_text != "–" else []
    others = state.device_process_count
    parts += [f"{counted(others, 'other process', 'other processes')} on the GPU"] if others is not None else []
    parts += [f"{state.temperature_c:.0f} °C"] if state.temperature_c is not None else []
    _fact("state", "; ".join(parts) or "this machine does not tell")


def _print_energy(case: CaseSummary) -> None:
    from reports.cases.state import case_energy

    energy = case_energy(case)
    if energy is None:
        return
    sd = f" (sd {prefixed(energy.std_j, 'J', 2)})" if energy.std_j is not None else ""
    net = f", net of idle {prefixed(energy.net_energy_j, 'J')}" if energy.net_energy_j is not None else ""
    _fact("energy", f"{prefixed(energy.energy_j, 'J')} per call{sd}{net}; {energy.per_flop_text}")
    idle = f", idle {prefixed(energy.idle_power_w, 'W')}" if energy.idle_power_w is not None else ""
    windows = f", {energy.windows}" if energy.windows else ""
    _fact("power", f"{prefixed(energy.power_w, 'W')}{idle}{windows}; scope {energy.scope}, source {energy.source}")
    if energy.pace_text:
        _fact("", f"{energy.pace_text}: energy and power are of that pace")
    if energy.disagreement_ratio is not None:
        judged = "they do not confirm each other" if energy.is_disputed else "the two agree"
        _fact("", f"second source {format_percent(energy.disagreement_ratio, signed=True)}: {judged}")


def _print_kernels(case: CaseSummary) -> None:
    example = next(
        (measurement.attribution for measurement in case.measurements if measurement.attribution is not None), None
    )
    if example is not None:
        names = f": {', '.join(example.kernel_names)}" if example.kernel_names else ""
        _fact(
            "kernels",
            f"{example.kernel_count:g} per call, busy {format_time(example.busy_s)}, gap {format_time(example.gap_s)} "
            f"({example.source}){names}",
        )


def _print_processes(case: CaseSummary) -> None:
    if len(case.rows) < 2:
        return
    from reports.cases.state import state_of

    medians, _ = paired_times([row.measured_s for row in case.rows], [])
    columns = (
        Column("Process", "right"),
        Column("Median", "right"),
        Column("± within", "right"),
        Column("Samples", "right"),
        Column("Stopped by", drop=3, hide_empty=True),
        Column("SM clock", "right", drop=2, hide_empty=True),
        Column("Flags", is_prose=True, hide_empty=True),
        Column("Ended", is_prose=True, drop=1, hide_empty=True),
    )
    cells: list[list[Cell]] = []
    for row, time in zip(case.rows, medians, strict=True):
        measured = row.record.measurement
        state = None if measured is None else state_of([measured])
        cells.append(
            [
                str(row.process),
                time,
                plus_minus(row.interval_ratio),
                "–" if measured is None else str(measured.sample_count),
                "–" if measured is None else measured.stop_reason,
                state.clock_text if state else "–",
                ", ".join(row.flags) or "–",
                row.record.process.end_reason or (f"{row.status}: {row.reason}" if row.measured_s is None else "–"),
            ]
        )
    show_table(columns, cells)


def _print_samples(row: CaseRow, case: CaseSummary) -> None:
    from roofline_cli.runs.sample_text import histogram_lines, order_line, visits_text

    measurement = row.record.measurement
    assert measurement is not None  # a measured row has its measurement
    worth = (
        f" (worth {counted(round(measurement.effective_sample_count), 'independent one')})"
        if measurement.effective_sample_count is not None
        else ""
    )
    parts = [
        (
            f"{counted(measurement.sample_count, 'sample')}{worth} of {counted(measurement.calls_per_sample, 'call')}, "
            f"stopped by {measurement.stop_reason}"
        )
    ]
    parts += [text] if (text := visits_text(row.record.extra)) else []
    parts.append(
        f"min {format_time(measurement.min_s)}, quartiles {format_time(measurement.q1_s)} to "
        f"{format_time(measurement.q3_s)}, max {format_time(measurement.max_s)}"
    )
    parts.append(
        f"mean {format_time(measurement.mean_s)}"
        + (f", sd {format_time(measurement.std_s, 3)}" if measurement.std_s is not None else "")
    )
    parts += [f"{counted(measurement.outlier_count, 'outlier')}"] if measurement.outlier_count is not None else []
    parts += [f"first call {format_time(measurement.first_call_s)}"] if measurement.first_call_s is not None else []
    sets = f"{counted(measurement.rotation_count, 'operand set')} in rotation"
    parts.append(
        f"{sets}, {format_memory(measurement.working_set_bytes)}" if measurement.working_set_bytes is not None else sets
    )
    _fact("samples" if case.process_count == 1 else f"process {row.process}", "; ".join(parts))
    if not measurement.samples_s:
        _fact("", "the samples themselves were pruned")
        return
    room = _width() - 2
    if order := order_line(measurement.samples_s, min(room - _NAME_WIDTH, 72)):
        _fact("in order", order)
    for line in histogram_lines(measurement.samples_s, min(room, 76)):
        show_line(f"  {line}")


def _print_method(case: CaseSummary, run: RunInfo) -> None:
    from results.diff.environments import plain_fact

    method = case.lead.record.method
    if method is not None:
        settings = ", ".join(f"{name} {value}" for name, value in sorted(method.settings.items()))
        _fact(
            "method",
            f"{method.timer}, version {method.version}, hash {method.method_hash}{f': {settings}' if settings else ''}",
        )
    facts = run.environment.class_facts
    text = ", ".join(f"{name} {plain_fact(value)}" for name, value in sorted(facts.items()) if value is not None)
    _fact("environment", f"class {run.environment.class_hash}{f': {text}' if text else ''}")
    _fact("test", case.lead.record.test_id or "–")


def _fact(name: str, text: str) -> None:
    """Print `  name        text`, folded under itself."""
    first = f"  {clean(name):<{_NAME_WIDTH}}"
    lines = textwrap.wrap(clean(text), max(_width() - len(first), 20), break_on_hyphens=False) or [""]
    for index, line in enumerate(lines):
        # show_line would fold a long word again: these lines fit already.
        show_line(f"{first if index == 0 else ' ' * len(first)}{line}")


def _width() -> int:
    return screen_width() or _PLAIN_WIDTH


def _plus_minus(ratio: float | None) -> str:
    return "not known" if ratio is None else plus_minus(ratio)


def _method_json(row: CaseRow) -> dict[str, Any] | None:
    method = row.record.method
    return (
        None
        if method is None
        else {**asdict(method), "settings": dict(method.settings), "method_hash": method.method_hash}
    )


def _measurement_json(measurement: Measurement | None) -> dict[str, Any] | None:
    if measurement is None:
        return None
    energy, attribution = measurement.energy, measurement.attribution
    data = asdict(measurement)
    if energy is not None:
        data["energy"]["disagreement_ratio"] = energy.disagreement_ratio
    if attribution is not None:
        data["attribution"]["gap_s"] = attribution.gap_s
    return data
