"""What `roofline history` prints: one case with its chart and its changes, or a line per case that has one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from reports.present.blocks import Column, Span, table
from reports.present.display_text import prefixed
from reports.present.sample_drawing import sparkline
from reports.present.screen import PIPED_WIDTH, has_unicode, screen_width, show, show_json, show_line, show_next
from results.records.flags import doubts_text
from roofline_cli.diff.history_plot import Point, chart
from roofline_cli.shared.group import typed
from roofline_model.core.finding import short_text, subject_text
from roofline_model.core.units import counted, format_memory, format_percent, format_time
from roofline_model.operators.case import case_title

if TYPE_CHECKING:
    from results.history.alerts import Change
    from results.history.case_history import CaseHistory, HistoryOptions
    from results.history.points import HistoryPoint
    from results.history.segments import Segment
    from results.records.metrics import Metric
    from roofline_model.operators.case import Case

_WIDEST = 140
_SPARK = 30
_LOOKS = {"open": "failed", "better": "good", "fixed": "good", "drifting": ""}
_STYLES = {"open": "bold red", "better": "green", "fixed": "green", "drifting": "dim"}
_MOST_CHANGED = 8
_KEY_DIGITS = 8
_MOST_PENDING = 5


def show_cases(cases: Sequence[Case]) -> None:
    """Print the key of each of several cases, which selects it."""
    from reports.present.words.diff_text import short

    columns = (
        Column("Key", lambda case: case.case_key[:_KEY_DIGITS], is_head=True),
        Column("Case", lambda case: short(case_title(case.op, case.shape), 80), "prose", least=14),
        Column("Format", lambda case: short(case.precision_label or "–", 40)),
        Column("Kernel", lambda case: short(case.kernel or "–", 80), "prose", least=10),
        Column("Cache", lambda case: case.cache or "–", drop=1),
        Column("Mode", lambda case: short(case.mode or "–", 20), drop=2),
    )
    show(table("Cases", columns, cases))


def show_case(history: CaseHistory, *, as_json: bool) -> None:
    """Print one case."""
    if as_json:
        from reports.present.answers.history import HistoryAnswer
        from reports.present.encoder import command_json

        show_json(command_json(history, form=HistoryAnswer))
        return
    _show_summary(history)
    show_line(f"{history.name}  (case {history.case.case_key[:12]})")
    show_line(f"{history.metric.key}: {history.metric.meaning}", "dim")
    if history.quarantine_reason:
        show_line(f"quarantined, raises no alert: {history.quarantine_reason}", "yellow")
    number = 0
    if history.since is not None:
        show_line(f"runs from {history.since[:10]} on; all are searched", "dim")
    for place, segment in enumerate(history.segments):
        standing = (change for change in history.changes if change.status != "withdrawn")
        changes = [change for change in standing if change.segment_index == place]
        nights = history.shown_points(segment)
        if not nights and not changes:
            continue
        show_line()
        _show_segment(segment, nights, history.metric)
        _show_chart(nights, changes, history.metric, number)
        for change in changes:
            number += 1
            _show_change(number, change, history.metric)
        if segment.pending is not None:
            show_line(short_text(segment.pending), "yellow")
        elif not changes and not segment.is_too_short:
            show_line("no step and no drift")


def show_all(histories: Sequence[CaseHistory], options: HistoryOptions, *, as_json: bool) -> None:
    """Print every case that has a change standing, those with open alerts first, and how many there are in all."""
    from results.history.case_history import unused_entries

    metric, unused = options.metric, [subject_text(item) for item in unused_entries(histories, options)]
    if as_json:
        from reports.present.answers.history import HistoryOverview
        from reports.present.encoder import command_json

        show_json(command_json(HistoryOverview(histories, metric, tuple(unused))))
        return
    changed = [history for history in histories if _standing(history)]
    changed.sort(key=lambda case_history: (not case_history.alerts, case_history.name))
    pending = [history for history in histories if history.pending is not None]
    alerts = sum(len(history.alerts) for history in histories)
    short = sum(history.is_too_short for history in histories)
    show_line(
        f"{counted(len(histories), 'case')} with {metric.key}: {counted(len(changed), 'case')} changed, "
        f"{counted(alerts, 'alert')} open" + (f"; {short} too short to tell" if short else ""),
        "bold red" if alerts else "",
    )
    for history in pending[:_MOST_PENDING]:
        show_line(f"{history.name}: {short_text(history.pending)}" if history.pending else "", "yellow")
    if len(pending) > _MOST_PENDING:
        show_line(f"and {counted(len(pending) - _MOST_PENDING, 'more case')} whose newest runs differ", "yellow")
    if changed:
        show(table("Changes", _CHANGED, changed))
    if changed:
        key = changed[0].case.case_key[:_KEY_DIGITS]
        show_next(f"roofline history {key}{typed('--db')}", "shows what changed beside it")
    for text in unused:
        show_line(text, "yellow")


def _standing(history: CaseHistory) -> list[Change]:
    return [change for change in history.changes if change.status != "withdrawn"]


def _leading(history: CaseHistory) -> Change:
    """Return the change that a row tells: the newest open alert, else the newest one standing."""
    standing = _standing(history)
    return next((alert for alert in reversed(standing) if alert.is_open), standing[-1])


def _change(history: CaseHistory) -> str:
    alert = _leading(history)
    return f"{change_text(alert.change_value, history.metric)}{' drift' if alert.kind == 'drift' else ''}"


def _status(history: CaseHistory) -> Span:
    alert, others = _leading(history), len(_standing(history)) - 1
    return Span(f"{alert.status}{f' (+{others})' if others else ''}", _LOOKS.get(alert.status, "warning"))


_CHANGED = (
    Column("Key", lambda history: history.case.case_key[:_KEY_DIGITS], is_head=True),
    Column("Case", lambda history: case_title(history.case.op, history.case.shape)[:80], "prose", least=14),
    Column("Format", lambda history: (history.case.precision_label or "–")[:60], "prose", least=8, drop=1),
    Column("Kernel", lambda history: f"{history.case.kernel[:60]} {history.case.cache}", "prose", least=10, drop=2),
    Column("Runs", lambda history: str(len(history.points)), "number", drop=5),
    Column("Trend", lambda history: _trend(history), drop=6),
    Column("Change", _change, "number"),
    Column("Since", lambda history: _leading(history).started_at[:10], drop=3),
    Column("Status", _status),
)


def _show_segment(segment: Segment, nights: Sequence[HistoryPoint], metric: Metric) -> None:
    shown = nights or segment.nights
    first, last = shown[0].started_at[:10], shown[-1].started_at[:10]
    hollow = sum(not point.is_used for point in shown)
    of = f" (of {len(segment.nights)})" if len(shown) < len(segment.nights) else ""
    chip = segment.hardware_key or "chip not recorded"
    method = f", method {segment.method_version}" if segment.method_version else ""
    doubtful = f", {hollow} of them doubtful (hollow)" if hollow else ""
    show_line(f"{chip}{method}: {counted(len(shown), 'run')} from {first} to {last}{of}{doubtful}")
    if segment.split:
        change = (
            ""
            if segment.split_change_value is None
            else f"; level {change_text(segment.split_change_value, metric)}, not judged"
        )
        show_line(f"not compared with the runs before: {'; '.join(segment.split)}{change}", "yellow")
    reasons = sorted({doubts_text(point.doubts) for point in shown if point.doubts})
    if reasons:
        show_line(f"hollow: {'; '.join(reasons)}", "dim")
    if segment.is_too_short:
        from results.history.change_points import LEAST_NIGHTS

        show_line(
            f"too short: {len(segment.used)} of the {LEAST_NIGHTS} runs that it takes to look for a step", "yellow"
        )


def _trend(history: CaseHistory) -> str:
    values = [point.value for point in history.points if point.is_used]
    return sparkline(values, _SPARK, is_ascii=not has_unicode())


def _show_chart(nights: Sequence[HistoryPoint], changes: Sequence[Change], metric: Metric, number: int) -> None:
    if not nights:
        return
    marks: dict[str, str] = {}
    for place, change in enumerate(changes, number + 1):
        marks.setdefault(change.run_id, str(place) if place < 10 else "*")
    points = [Point(point.value, point.is_used, marks.get(point.run_id, "")) for point in nights]
    values = [point.value for point in nights]
    labels = (value_text(min(values), metric), value_text(max(values), metric))
    for line in chart(points, labels, min(screen_width() or PIPED_WIDTH, _WIDEST)):
        show_line(line)


def _show_change(number: int, change: Change, metric: Metric) -> None:
    arrow = f"{value_text(change.before_value, metric)} → {value_text(change.after_value, metric)}"
    what = f"[{number}] {change.started_at[:10]}  {change_text(change.change_value, metric)}"
    if change.kind == "drift":
        what += f" drift over {counted(change.night_count, 'run')}"
    status = change.status + (f" on {change.fixed_at[:10]}" if change.fixed_at else "")
    sure = "" if change.is_confirmed or change.status == "withdrawn" else ", not yet confirmed"
    found_on = f"; found {change.found_at[:10]}{sure}" if change.kind == "step" else ""
    show_line(f"{what}  {arrow}  {status}{found_on}", _STYLES.get(change.status, "yellow"))
    if change.reason:
        show_line(f"    {'on the quarantine list' if change.status == 'quarantined' else 'annotated'}: {change.reason}")
    if change.kind == "step":
        shown = list(change.changed[:_MOST_CHANGED])
        more = len(change.changed) - len(shown)
        text = "; ".join(shown) if shown else "nothing that is recorded: not the driver, the software, nor the commit"
        show_line(f"    changed in that run: {text}{f'; and {more} more' if more > 0 else ''}")
    if change.clock_ratio is not None:
        show_line(
            f"    SM clock {change_text(change.clock_ratio - 1, metric, is_ratio=True)}{_by_the_clock(change, metric)}"
        )


def _by_the_clock(change: Change, metric: Metric) -> str:
    """Say so where the time moved as the clock did: within a quarter of the change, the cycles are the same."""
    if metric.key != "time" or change.clock_ratio is None:
        return ""
    cycles = (1 + change.change_value) * change.clock_ratio - 1
    return ": the same cycles, a lower clock" if abs(cycles) <= abs(change.change_value) / 4 else ""


def _show_summary(history: CaseHistory) -> None:
    alerts, branch = history.alerts, f", branch {history.branch}" if history.branch else ""
    nights = f"{counted(len(history.points), 'run')}{branch}"
    standing = [change for change in history.changes if change.status != "withdrawn"]
    changed = "; too few to look for a step" if history.is_too_short else ", no step and no drift"
    if standing:
        last = standing[-1]
        changed = f"; last change {change_text(last.change_value, history.metric)} on {last.started_at[:10]}"
    if history.pending is not None:
        changed = f"{changed if standing else ''}; {short_text(history.pending)}"
    show_line(f"{nights}: {counted(len(alerts), 'alert')} open{changed}.", "bold red" if alerts else "bold")


def value_text(value: float, metric: Metric) -> str:
    """Print a value in the unit of its metric."""

    if metric.key == "time":
        return format_time(value)
    if metric.key == "memory":
        return format_memory(value)
    if metric.key == "error":
        return format_percent(value, signed=True)
    return prefixed(value, "J") if metric.key == "energy" else f"{value:.4g} {metric.unit}"


def change_text(change_value: float, metric: Metric, *, is_ratio: bool = False) -> str:
    """Print a change: `+6.3 %`; of an error in percentage points, of quality in its unit."""

    if metric.key == "quality" and not is_ratio:
        return f"{change_value:+.4g} {metric.unit}"
    shown = format_percent(change_value, signed=True)
    return shown.replace("%", "points") if metric.key == "error" and not is_ratio else shown
