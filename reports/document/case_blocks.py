"""The cases of a chip in a report: its roofline, the errors of predictions, where the time went, all cases, samples,
energy, kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from dataclasses import replace

from reports.document.report import ChipPart, case_column
from reports.formats.figure_files import figure_suffix
from reports.present.blocks import (
    Block,
    Cards,
    Cell,
    Column,
    Definitions,
    FigureBlock,
    Folded,
    Heading,
    Live,
    Medium,
    Paragraph,
    Rich,
    Section,
    Span,
    TableBlock,
    flag_span,
    flags_cell,
    percent_cell,
    table,
    time_cell,
)
from reports.present.cases import (
    CASES,
    LABELS,
    case_columns,
    clocks_text,
    common_remarks,
    listed,
    name_of,
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
from reports.present.display_text import counted, prefixed, regime_words, shown
from reports.view.sample_series import MAX_SERIES, shape_flags
from results.cases.case_result import CaseResult
from results.cases.errors import ErrorSummary, expected_gap
from results.cases.state import CaseEnergy, CaseState
from results.records.state_records import KernelAttribution
from roofline_model.core.finding import code_text, short_text
from roofline_model.core.units import format_bandwidth, format_flops, format_percent, format_time
from roofline_model.expected.gap import Gap
from roofline_model.operators.case import is_model_case

SAMPLED_CASES = 500
"""Up to so many records are read with their samples, so that those of any case can be looked at."""
_LEAST_SHARE_RATIO = 0.0005
"""Parts of a time that are nowhere larger have no column."""


def roofline_blocks(part: ChipPart) -> Iterator[Block]:
    """Yield the dual roofline of a chip, and on demand how to read it."""
    roofline = part.chip.roofline
    if not (roofline.roofs or roofline.points):
        return
    points = f"{counted(len(roofline.points), 'case')}, {roofline.measured_count} of them measured"
    best = f" {'. '.join(roofline.highlight.lines)}." if roofline.highlight else ""
    figure = FigureBlock(
        f"roofline{figure_suffix(part.report.view, part.chip)}",
        f"Dual roofline plot of {part.chip.hardware_name}",
        f"{roofline.title}: {counted(len(roofline.roofs), 'roof')}, {points}.{best} The numbers are in the table of "
        "all cases.",
    )
    yield Heading(3, "Dual roofline", "plot-title")
    yield Live("roofline", part.index, (figure,))
    intro = (
        "Lines are what the chip allows, hollow points what the model predicts for each case, filled points what was "
        "measured: the segment between them is the gap."
    )
    if part.live:
        intro += " Dotted lines are the most that an expected time reaches." if roofline.expected_roofs else ""
        intro += " Point at a mark or a line for its numbers; press a filter to see only some cases; drag to zoom."
    yield Folded("How to read the roofline", (Paragraph(intro, "quiet"),), medium="page")


def errors_section(part: ChipPart) -> Section | None:
    """Return the errors of a chip's predictions, by operator, precision and regime."""
    errors = part.chip.errors
    if not errors:
        return None
    has_expected = any(error.expected_count for error in errors)
    intro = (
        "Error = (predicted − measured) / measured, of the ideal "
        f"time{' and of the expected one' if has_expected else ''}. "
        "Negative: the prediction was too fast, as an ideal time should be."
    )
    blocks = (
        Paragraph(intro, "quiet"),
        Live("errors", part.index),
        FigureBlock(f"errors{figure_suffix(part.report.view, part.chip)}", medium="text"),
        _error_table(part, errors, has_expected=has_expected),
    )
    return Section(part.title("How good the predictions were"), f"errors{part.suffix}", blocks)


def _error_table(part: ChipPart, errors: tuple[ErrorSummary, ...], *, has_expected: bool) -> TableBlock:
    def worst(error: ErrorSummary) -> Span:
        place = part.report.case_places.get((error.worst_case_id, error.cache, error.mode), "")
        return Span(name_of(error.worst.case), "code", anchor=place)

    regimes = (
        [Column("Cache, mode", lambda error: regime_words(error.cache, error.mode), drop=4)]
        if len(part.report.view.regimes) > 1
        else []
    )
    columns = [
        Column("Operator", lambda error: error.op, "brief", is_head=True),
        Column("Precision", lambda error: error.precision),
        *regimes,
        Column("Cases", lambda error: Cell(str(error.case_count), error.case_count), "number", drop=3),
        Column(
            "Median |error|",
            lambda error: percent_cell(error.median_abs_error_ratio),
            "number",
            drop=2 if has_expected else 0,
        ),
        Column("Median error", lambda error: percent_cell(error.median_error_ratio, signed=True), "number", drop=6),
        Column("Worst error", lambda error: percent_cell(error.worst_error_ratio, signed=True), "number", drop=5),
        Column(
            (Span("Median ", medium="page"), "|error| of expected"),
            lambda error: percent_cell(error.median_abs_expected_ratio),
            "number",
        ),
        Column("Median of roof", lambda error: percent_cell(error.median_roof_share_ratio), "number", drop=1),
        Column("Best of roof", lambda error: percent_cell(error.best_roof_share_ratio), "number", medium="page"),
        Column("Worst case", worst, "prose", medium="page"),
    ]
    return table("Prediction errors by operator and precision", columns, errors)


def gaps_section(part: ChipPart) -> Section | None:
    """Return where the measured times of a chip went."""
    first_cases = part.chip.cases[: part.report.most_rows_count]
    splits = [(case, gap) for case in first_cases if (gap := expected_gap(case)) is not None]
    live = bool(part.live and part.live["gaps"])
    if not splits and not live:
        return None
    blocks: list[Block] = []
    if live:
        hint = (
            "From the left: the ideal time, then the parts that the expected time adds on this chip, then what the "
            "model does not explain. A part left of zero: the case was faster than the model by so much. The filters "
            "of the roofline apply here, too."
        )
        nothing = (
            "This run stores no parts of an expected time: a measured time splits into its ideal time and the rest. "
            "Both are in the table of all cases."
        )
        still = () if splits else (Paragraph(nothing, "quiet"),)
        blocks += [Paragraph(hint, "quiet", "page"), Live("gaps", part.index, still, medium="page")]
    if splits:
        blocks.append(FigureBlock(f"time{figure_suffix(part.report.view, part.chip)}", medium="text"))
        blocks += [Folded("The same as a table", tuple(_gap_blocks(splits)))] if live else _gap_blocks(splits)
    return Section(part.title("Where the time went"), f"gap{part.suffix}", tuple(blocks))


def _gap_blocks(splits: list[tuple[CaseResult, Gap]]) -> Iterator[Block]:
    """Yield the splits as a table: what explains least leaves a narrow screen first, the two ends of the split stay
    longest.
    """

    def share(gap: Gap, name: str) -> float:
        return dict(gap.parts).get(name, 0.0) / gap.measured_s

    sizes = {name: sum(abs(share(gap, name)) for _, gap in splits) for name in LABELS}
    names = [name for name in LABELS if any(abs(share(gap, name)) >= _LEAST_SHARE_RATIO for _, gap in splits)]
    by_size = sorted(names, key=lambda name: (name in ("ideal", "unexplained"), sizes[name]))

    def part_cell(name: str) -> Callable[[tuple[CaseResult, Gap]], Cell]:
        def cell(split: tuple[CaseResult, Gap]) -> Cell:
            time_s = dict(split[1].parts).get(name)
            return Cell("–") if time_s is None else Cell(format_percent(time_s / split[1].measured_s, 0), time_s)

        return cell

    columns = [
        case_column(lambda split: split[0].case),
        Column("Measured", lambda split: time_cell(split[1].measured_s), "number"),
        Column("Ideal", lambda split: time_cell(split[0].ideal_s), "number", medium="page"),
        Column("Expected", lambda split: time_cell(split[0].expected_s), "number", medium="page"),
        Column(
            "Error", lambda split: percent_cell(split[0].error_expected_ratio, signed=True), "number", medium="page"
        ),
        *(
            Column(
                name,
                part_cell(name),
                "number",
                LABELS[name],
                drop=len(names) - by_size.index(name),
            )
            for name in names
        ),
        Column("80\u00a0%", _expected_interval, "number", medium="page"),
        Column("Source", lambda split: shown(split[0].expected.provenance, 40), medium="page"),
    ]
    intro = (
        "The expected time is what a good kernel should take here, with its 80 % interval. Each part is "
        "a share of the measured time, and the parts add up to it. A negative part: the case was faster than the model."
    )
    yield Paragraph(intro, "quiet")
    yield table("Expected times and where the measured time went", columns, splits, look="parts")
    yield Definitions(tuple((name, LABELS[name]) for name in names))


def _expected_interval(split: tuple[CaseResult, Gap]) -> str:
    expected = split[0].lead.expected
    return "–" if expected is None else f"{format_time(expected.low_s)} to {format_time(expected.high_s)}"


def cases_section(part: ChipPart) -> Section | None:
    """Return all cases of a chip, a row each, and what their flags and regimes mean."""
    report, cases = part.report, part.chip.cases
    if not cases:
        return None
    listed = cases[: report.most_rows_count]
    still: list[Block] = []
    if len(cases) > len(listed):
        text = (
            f"The first {len(listed)} of {len(cases)} cases: the page's script lists all, and so does `roofline "
            "export`."
        )
        still.append(Paragraph(text, "quiet"))
    still.append(_case_table(part, listed))
    intro = (
        "One row per case. ",
        Span("± within", "bold"),
        (
            " is the 95 % interval of the median inside one process, the widest of several. It says nothing about the "
            "next process. "
        ),
        Span("± total", "bold"),
        (
            " adds how far fresh processes differ: by the case's own processes, this machine's stored noise floor, or "
            "the run's other cases. Without any of these it is not known, and the table says “one process”."
        ),
    )
    blocks: list[Block] = [Paragraph(intro, "quiet", "page")]
    blocks += [
        Paragraph(f"{count} of {counted(len(cases), 'case')}: {remark}.", "quiet", "page")
        for remark, count in common_remarks(cases).items()
    ]
    blocks.append(Live("cases", part.index, tuple(still)))
    view = report.view
    regimes = view.regimes if len(view.regimes) > 1 else ()
    meanings: tuple[tuple[Rich, Rich], ...] = (*((flag_span(flag), code_text(flag)) for flag in view.flags), *regimes)
    if meanings:
        blocks.append(Definitions(meanings))
    if regimes:
        apart = (
            "Different cache states and modes are different cases. One table lists them; they are never compared with "
            "each other."
        )
        blocks.append(Paragraph(apart, "quiet"))
    replicated = [case for case in cases if len(case.by_record) > 1][: report.most_rows_count]
    if replicated:
        blocks.append(_process_table(replicated))
    return Section(part.title("All cases"), f"cases{part.suffix}", tuple(blocks))


def _case_table(part: ChipPart, cases: tuple[CaseResult, ...]) -> TableBlock:
    """Return the cases as a table; texts have one ± and the flags in words, a page the details."""
    numbers = {id(case): number for number, case in enumerate(cases, part.first_ordinal)}
    common = common_remarks(part.chip.cases)
    columns = (
        Column("Case", lambda result: title_of(result.case), "brief", medium="text", is_head=True),
        replace(case_column(lambda result: result.case), medium="page"),
        *(its_own for column in CASES for its_own in _INSTEAD.get(str(column.header), (column,))),
        Column("Path", _path, medium="page"),
        Column("Remarks", lambda result: _remarks(result, common), "prose", medium="page"),
    )
    return table(
        "All cases",
        columns,
        cases,
        anchor=lambda case: f"case-{numbers[id(case)]}",
        look="cases",
        text_note=_interval_note(cases),
    )


def _measured(result: CaseResult) -> Cell:
    if result.measured_s is None:
        return Cell(Span(result.status, f"status {result.status}"))
    return time_cell(result.measured_s)


def _total(result: CaseResult) -> Cell:
    width = f"{width_cell(result.total_ratio).content} " if result.total_ratio is not None else ""
    return Cell((width, Span(total_basis(result) or "–", "quiet basis")), result.total_ratio)


def _rate(value: float | None, text: Callable[[float | None], str]) -> Cell:
    return Cell(text(value), value)


FORMAT, KERNEL, DOUBT, PLUS_MINUS = case_columns("Format", "Kernel", "!", "±")
_INSTEAD = {
    "Format": (replace(FORMAT, medium="text", is_head=False),),
    "Kernel": (replace(KERNEL, medium="text", drop=2, kind="prose"),),
    "Measured": (Column("Measured", _measured, "number"),),
    "!": (replace(DOUBT, medium="text"),),
    "±": (
        replace(PLUS_MINUS, medium="text"),
        Column("±\u00a0within", lambda result: width_cell(result.within_ratio), "number", medium="page"),
        Column("±\u00a0total", _total, "number", medium="page"),
        Column("Flags", lambda result: flags_cell(shown_flags(result)), "brief", drop=10),
        Column("Cache, mode", lambda result: regime_of(result.case), drop=6),
    ),
    "Rate": (
        Column("Bandwidth", lambda result: _rate(result.achieved_bytes_per_s, format_bandwidth), "number", medium="page"),
        Column("FLOP rate", lambda result: _rate(result.achieved_flops_per_s, format_flops), "number", medium="page"),
    ),
}  # fmt: skip
"""Column of the cases → what the report has in its place; it has all others as they are, new ones too."""


def _path(result: CaseResult) -> str:
    if result.ideal is None or not result.ideal.path:
        return "–"
    path, compute_format = shown(result.ideal.path, 30), shown(result.ideal.compute_format, 60)
    return path if path == "native" else f"{path} ({compute_format})"


def _remarks(result: CaseResult, common: Container[str]) -> str:
    remarks = (remark for remark in remarks_of(result) if remark not in common)
    notes = (shown(short_text(finding)) for finding in result.findings)
    return "; ".join((*remarks, *notes)) or "–"


def _interval_note(cases: tuple[CaseResult, ...]) -> str:
    words = ["error = (predicted − measured) / measured"]
    if any(case.total_ratio is not None for case in cases):
        words.append("± knows how far fresh processes differ")
    if any(case.total_ratio is None and case.within_ratio is not None for case in cases):
        words.append("* ± within one process only")
    if any(case.doubts for case in cases):
        words.append("! a flag puts the time in doubt")
    return f"{'; '.join(words)}."


def _process_table(cases: list[CaseResult]) -> Folded:
    """Return each process of the cases that ran in several."""
    first_rows = {id(each): len(case.records) for case in cases for each in case.by_record[:1]}
    processes = [each for case in cases for each in case.by_record]
    states = {id(each): each.state for each in processes}
    is_gpu = any(state and (state.clock_hz is not None or state.throttled_s) for state in states.values())

    def name(process: CaseResult) -> Cell:
        look = "named" if is_model_case(process.case) else ""
        return Cell(Span(name_of(process.case), "code"), look=look, row_span_count=first_rows.get(id(process), 0))

    def state_text(process: CaseResult, text: Callable[[CaseState], str]) -> str:
        state = states[id(process)]
        return text(state) if state is not None and is_gpu else "–"

    columns = (
        Column("Case", name, is_head=True),
        Column("Process", lambda item: str(item.lead.process.ordinal), "number"),
        Column("Median", lambda item: time_cell(item.measured_s), "number"),
        Column("±\u00a0within", lambda item: width_cell(item.within_ratio), "number"),
        Column("Samples", _sampled, "number"),
        Column("Stopped by", lambda item: listed(measured.stop_reason for measured in item.measurements)),
        Column("SM clock", lambda item: state_text(item, clocks_text), "number"),
        Column("Throttled", lambda item: state_text(item, throttled_text), "brief"),
        Column("Flags", lambda item: flags_cell(shown_flags(item)), "brief"),
        Column("Remarks", _process_remark, "prose"),
    )
    title = f"Each process of {counted(len(cases), 'case')} that ran in several"
    return Folded(title, (table("Each process", columns, processes, look="processes"),), medium="page")


def _sampled(process: CaseResult) -> Cell:
    measured = next(iter(process.measurements), None)
    if measured is None:
        return Cell("–")
    worth = measured.effective_sample_count
    more = () if worth is None else (" ", Span(f"worth {worth:.0f}", "quiet"))
    return Cell((str(measured.sample_count), *more))


def _process_remark(process: CaseResult) -> str:
    if process.measured_s is None:
        return f"{process.status}: {shown(process.reason)}" if process.reason else process.status
    ended = process.lead.process.end_reason
    return f"the process ended later: {shown(ended)}" if ended else "–"


def samples_section(part: ChipPart) -> Section | None:
    """Return the samples of the cases whose shape was flagged; with scripts, of any case."""
    report, chip, suffix = part.report, part.chip, figure_suffix(part.report.view, part.chip)
    room = MAX_SERIES - sum(len(other.series) for other in report.view.chips[: part.index])
    drawn = chip.series[: max(room, 0)]
    if not chip.roofline.measured_count and not drawn:
        return None
    how = (
        "Left: the samples in the order they were taken (a slope is drift, two bands are two states); right: the share "
        "of samples "
        "below a time. The line is the median, the band its 95\u00a0% interval within the process."
    )
    blocks: list[Block] = []
    if part.live and part.live["samples"]:
        blocks += [Paragraph(how, "quiet", "page"), Live("samples", part.index, medium="page")]
    elif part.live:
        nothing = (
            "No samples are in this page: the run was stored without them, they were pruned, or it has more than "
            f"{SAMPLED_CASES} cases. The table of all cases has their medians and intervals; `roofline show RUN CASE` "
            "shows what the "
            "database holds of any case."
        )
        blocks.append(Paragraph(nothing, "quiet", "page"))
    blocks.append(FigureBlock(f"samples{suffix}", medium="text"))
    if drawn:
        flagged = "Every case flagged for the shape of its samples."
        text = flagged if part.live and part.live["samples"] else f"{flagged} {how}"
        blocks.append(Paragraph(text, "quiet", "page", "by-still"))
        blocks.append(Cards(tuple(_sample_card(part, at) for at in range(len(drawn))), medium="page"))
    left_count = len(chip.series) - len(drawn)
    if left_count > 0:
        text = f"{left_count} more flagged series are not drawn: `roofline show RUN CASE` shows any case."
        blocks.append(Paragraph(text, "quiet", "page", "by-still"))
    which = () if part.live else (Span(" that a median does not describe", medium="page"),)
    medium: Medium = "any" if part.live or drawn else "text"
    return Section(part.title("Samples", *which), f"samples{part.suffix}", tuple(blocks), medium=medium)


def _sample_card(part: ChipPart, at: int) -> tuple[Block, ...]:
    label, process = part.chip.series[at]
    name, flags, measured = name_of(process.case), shape_flags(process), process.measurements[0]
    pieces = (" ", Span(label, "quiet")) if label else ()
    marks = (piece for flag in flags for piece in (" ", flag_span(flag)))
    alternative = (
        f"{len(measured.samples_s)} samples of {name} in order and as a distribution, median "
        f"{format_time(measured.median_s)}; flagged {', '.join(flags)}"
    )
    figure = f"samples{figure_suffix(part.report.view, part.chip)}-{at + 1:02d}"
    return (
        Paragraph((Span(name, "code"), *pieces, *marks)),
        FigureBlock(figure, f"Samples of {name}", alternative, "small"),
    )


def energy_section(part: ChipPart) -> Section | None:
    """Return energy and power of each case that has them."""
    first_cases = part.chip.cases[: part.report.most_rows_count]
    items = [(case, energy) for case in first_cases if (energy := case.energy) is not None]
    if not items:
        return None

    def joules(value: float | None, digits: int = 3, unit: str = "J") -> Cell:
        return Cell(prefixed(value, unit, digits), value)

    def check(energy: CaseEnergy) -> Cell:
        apart = " apart" if energy.is_disputed else ""
        text = f"{format_percent(energy.disagreement_ratio, signed=True)}{apart}"
        return Cell(text, energy.disagreement_ratio, look="bad" if energy.is_disputed else "")

    columns = (
        case_column(lambda item: item[0].case),
        Column("Gross per call", lambda item: joules(item[1].energy_j), "number"),
        Column("sd", lambda item: joules(item[1].std_j, 2), "number"),
        Column("Net per call", lambda item: joules(item[1].net_energy_j), "number"),
        Column("Power", lambda item: joules(item[1].power_w, 4, "W"), "number"),
        Column("Idle", lambda item: joules(item[1].idle_power_w, 4, "W"), "number"),
        Column("Per FLOP, per joule", lambda item: per_flop_text(item[1])),
        Column("Windows", lambda item: windows_text(item[1]) or "–"),
        Column("Scope", lambda item: listed(item[1].scopes)),
        Column("Source", lambda item: listed(item[1].sources)),
        Column("Cross-check", lambda item: check(item[1]), "number"),
    )
    intro = (
        "Gross is all that the sensor's scope used, net leaves out what it draws at rest. Per FLOP and FLOP per joule "
        "are gross. "
        "The cross-check is how far a second source is from the first."
    )
    blocks = (Paragraph(intro, "quiet"), table("Energy and power", columns, items))
    return Section(part.title("Energy and power"), f"energy{part.suffix}", blocks, medium="page")


def kernels_section(part: ChipPart) -> Section | None:
    """Return the kernels that ran per call, where they were traced."""
    first_cases = part.chip.cases[: part.report.most_rows_count]
    items = [(case, traced) for case in first_cases if (traced := _attribution(case)) is not None]
    if not items:
        return None

    def names(traced: KernelAttribution) -> Cell:
        spans = [piece for name in traced.kernel_names for piece in (Span(shown(name, 120), "code"), ", ")][:-1]
        return Cell(tuple(spans) or "–")

    columns = (
        case_column(lambda item: item[0].case),
        Column("Kernels", lambda item: Cell(f"{item[1].kernel_count:g}", item[1].kernel_count), "number"),
        Column("Busy", lambda item: time_cell(item[1].busy_s), "number"),
        Column("Gap", lambda item: time_cell(item[1].gap_s), "number"),
        Column("First to last", lambda item: time_cell(item[1].latency_s), "number"),
        Column("Source", lambda item: shown(item[1].source, 40)),
        Column("Names", lambda item: names(item[1]), "prose"),
    )
    intro = (
        "Per call, from the tracing interface: how many kernels, how long at least one of them ran, and the gap in "
        "which none did."
    )
    blocks = (Paragraph(intro, "quiet"), table("Kernels per call", columns, items))
    return Section(part.title("What ran on the device"), f"attribution{part.suffix}", blocks, medium="page")


def _attribution(case: CaseResult) -> KernelAttribution | None:
    return next((measured.attribution for measured in case.measurements if measured.attribution), None)
