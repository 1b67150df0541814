"""Write a report: one self-contained HTML page and, beside it, the dual roofline as PNG and SVG.

The page needs no network. Its own policy forbids everything but the two scripts inside it, or every script in a static
page. Whatever a run holds is text: the template escapes it, the plot draws it as text, and the scripts get it as JSON.
Equal input gives equal files. Without script, and on paper, the static figures and tables are there.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from reports.document.case_blocks import SAMPLED_CASES
from reports.document.report import Report, origin_text
from reports.document.report_blocks import report_blocks
from reports.figures.drawing.matplotlib_drawer import draw_figure, figure_png, figure_svg
from reports.figures.drawing.palette import PAGE_COLOURS, all_colours, theme_css
from reports.figures.roofline import roofline_figure
from reports.formats.figure_files import figure_suffix, report_figures
from reports.page.page_data import page_data, script_json
from reports.present.blocks import (
    Block,
    Bullets,
    Cell,
    Column,
    FigureBlock,
    Heading,
    Paragraph,
    Rich,
    Row,
    Span,
    TableBlock,
    plain_text,
    text_blocks,
)
from reports.present.display_text import NO_BREAK, printable, shown, without_controls
from reports.view.sample_series import SHAPE_FLAGS
from reports.view.views import ReportView, report_view
from results.cases.run import stored_profiles
from results.records.records import RunInfo
from roofline_model.core.errors import RooflineError

if TYPE_CHECKING:
    from jinja2 import Template
    from markupsafe import Markup
    from matplotlib.figure import Figure as Drawing

    from reports.view.comparison import Comparison
    from results.rankings import StoredRecommendations
    from results.store.store import ResultStore


@dataclass(frozen=True, slots=True)
class ReportFiles:
    """The files of one report."""

    html: Path
    png: Path
    svg: Path


STATIC_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
ROW_LIMIT, ADVICE_LIMIT, SHAPE_LIMIT = 200, 40, 24
"""Of an interactive page: rows of its static tables (the scripts show all cases), shapes that are ranked, verdicts not
folded away.
"""


def write_report(
    store: ResultStore,
    run: RunInfo,
    output: Path,
    *,
    is_static: bool = False,
    comparison: Comparison | None = None,
    stored: StoredRecommendations | None = None,
    is_gap_ignored: bool = False,
) -> ReportFiles:
    """Write the report of a run to `output` (a folder gets `report.html`) and the plot beside it.

    `report.html` brings `roofline.png` and `roofline.svg`, any other `NAME.html` brings `NAME-roofline.png` and `.svg`.
    `is_static`: a page without scripts, a tenth of the size. `comparison`: what changed against a baseline, to be told;
    `stored`: what all stored runs recommend; `is_gap_ignored`: disturbed times make results, too.
    Raises `RooflineError` when the place cannot be written.
    """
    page = output / "report.html" if output.is_dir() else output
    stem = "roofline" if page.stem == "report" else f"{page.stem}-roofline"
    files = ReportFiles(page, page.with_name(f"{stem}.png"), page.with_name(f"{stem}.svg"))
    most_ranked = None if is_static else ADVICE_LIMIT
    view = read_view(store, run, has_all_samples=not is_static, most_ranked=most_ranked, is_gap_ignored=is_gap_ignored)
    first = draw_figure(roofline_figure(view.chips[0].roofline))
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
        picture = figure_png(first)
        files.png.write_bytes(picture)
        files.svg.write_text(figure_svg(first), encoding="utf-8")
        page_text = render_page(
            view, (first, picture), is_interactive=not is_static, comparison=comparison, stored=stored
        )
        files.html.write_text(page_text, encoding="utf-8")
    except OSError as error:
        raise RooflineError(
            f"the report cannot be written to {page}: {error.strerror or error}; choose another place with -o"
        ) from None
    return files


def read_view(
    store: ResultStore,
    run: RunInfo,
    *,
    has_all_samples: bool = True,
    most_ranked: int | None = ADVICE_LIMIT,
    is_gap_ignored: bool = False,
) -> ReportView:
    """Return the view of a stored run; samples are read where some are flagged, and of small runs with
    `has_all_samples`.
    """
    records = store.records(run.run_id, with_samples=False)
    is_flagged = any(record.measurement and set(SHAPE_FLAGS) & set(record.measurement.flags) for record in records)
    if is_flagged or (len(records) <= SAMPLED_CASES and has_all_samples):
        records = store.records(run.run_id)  # their samples are drawn
    return report_view(
        run,
        records,
        stored_profiles(store, records),
        canaries=store.canaries(run.run_id),
        floors=store.noise_floors(run.environment.class_hash),
        most_ranked=most_ranked,
        is_gap_ignored=is_gap_ignored,
    )


def render_page(
    view: ReportView,
    first: tuple[Drawing, bytes] | None = None,
    *,
    is_interactive: bool = False,
    comparison: Comparison | None = None,
    stored: StoredRecommendations | None = None,
) -> str:
    """Return the whole page of a view; `first` is the drawing of its first chip's roofline and its PNG, if they are
    made already.

    A static page holds no script at all. An interactive one holds the static figures and tables, too, of long ones the
    beginning, for who has no scripts and for paper.
    """
    from markupsafe import Markup

    data = page_data(view, () if comparison is None else comparison.histories, stored) if is_interactive else None
    limits = (ROW_LIMIT, SHAPE_LIMIT) if is_interactive else (None, None)
    report = Report(view, comparison, stored, data, *limits).with_places()
    drawn = {} if first is None else {f"roofline{figure_suffix(view, view.chips[0])}": first}
    return _template("report.html.j2").render(
        view=view,
        origin=origin_text(view),
        content=tuple(report_blocks(report)),
        figures=_figures(view, drawn),
        css=Markup(tight_css(_css()) + (interactive_css() if is_interactive else "")),
        policy=script_policy() if is_interactive else STATIC_POLICY,
        data=None if data is None else Markup(without_controls(script_json(data))),
        scripts=[Markup(text) for text in scripts()] if is_interactive else [],
        row_limit=ROW_LIMIT,
    )


def print_page(
    view: ReportView, comparison: Comparison | None = None, stored: StoredRecommendations | None = None
) -> str:
    """Return the report for paper: one HTML file without script, light, with page breaks that split no row and no
    figure.

    A browser's "Save as PDF" makes the PDF. Figures are SVG with letters as paths, embedded as images, so that they
    print the same everywhere. Equal views give equal pages.
    """
    from markupsafe import Markup

    figures = {figure.name: figure for figure in report_figures(view)}
    drawings = {name: drawing for name, figure in figures.items() if (drawing := figure.draw()) is not None}

    def markup(block: FigureBlock) -> tuple[Markup, str]:
        data = base64.b64encode(figure_svg(drawings[block.name]).encode()).decode("ascii")
        alternative = figures[block.name].alternative
        return Markup('<img alt="{}" src="data:image/svg+xml;base64,{}">').format(alternative, data), alternative

    return _template("print.html.j2").render(
        view=view,
        content=tuple(_on_paper(report_blocks(Report(view, comparison, stored)), drawings)),
        figures=markup,
        css=Markup(_read("page", "templates", "print.css")),
        policy=STATIC_POLICY,
    )


def _on_paper(blocks: Iterable[Block], drawings: Container[str]) -> Iterator[Block]:
    """Yield the blocks of texts without what only a screen has; a heading waits for what stands below it, and goes
    where nothing does.
    """
    waiting: list[Heading] = []
    for block in text_blocks(blocks):
        if isinstance(block, Heading):
            waiting = [heading for heading in waiting if heading.rank < block.rank]
            waiting.append(Heading(block.rank, plain_text(block.text)))
            continue
        if isinstance(block, FigureBlock) and block.name not in drawings:
            continue
        if isinstance(block, Bullets) and not block.items:
            continue
        yield from waiting
        waiting = []
        if isinstance(block, Paragraph):
            yield Paragraph(plain_text(block.text), block.tone)
        elif isinstance(block, Bullets):
            yield Bullets(tuple(map(plain_text, block.items)), block.tone)
        elif isinstance(block, TableBlock):
            yield _paper_table(block)
            if block.text_note:
                yield Paragraph(block.text_note, "quiet")
        else:
            yield replace(block, medium="any")


LONGEST_WORD = 18
"""Characters of a word that a column of a table on paper takes whole."""


def _paper_table(block: TableBlock) -> TableBlock:
    """Return a table whose names break behind `_`, `.` and `-`, and anywhere in a word that no column is wide enough
    for.
    """

    def cell(column: Column, text: str) -> Cell:
        words = [word for piece in _PIECES.split(text) for word in piece.split()]
        look = "long" if any(len(word) > LONGEST_WORD for word in words) else ""
        return Cell(Span(text, "breaks") if column.kind == "name" else text, look=look)

    return TableBlock(
        block.label,
        tuple(Column(plain_text(column.header), column.cell, column.kind) for column in block.columns),
        tuple(
            Row(
                tuple(
                    cell(column, plain_text(content.content))
                    for column, content in zip(block.columns, row.cells, strict=True)
                )
            )
            for row in block.rows
        ),
        plain_text(block.title),
    )


def _figures(view: ReportView, drawn: dict[str, tuple[Drawing, bytes]]) -> Callable[[FigureBlock], tuple[Markup, str]]:
    """Return what gives the markup of a figure and what it shows; those in `drawn` are drawn already, with their
    PNG.
    """
    from markupsafe import Markup

    figures = {figure.name: figure for figure in report_figures(view)}

    def markup(block: FigureBlock) -> tuple[Markup, str]:
        figure = figures[block.name]
        drawing, png = drawn.get(block.name) or (figure.draw(), None)
        if drawing is None:
            return Markup(""), figure.alternative
        if not figure.is_dense:
            return Markup(inline_svg(figure_svg(drawing, text_as_paths=False), f"{block.name}-")), figure.alternative
        picture = base64.b64encode(png or figure_png(drawing)).decode("ascii")
        return Markup(f'<img alt="" src="data:image/png;base64,{picture}">'), figure.alternative

    return markup


@cache
def _template(name: str) -> Template:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    loader = FunctionLoader(lambda template: _read("page", "templates", template))
    environment = Environment(autoescape=True, undefined=StrictUndefined, loader=loader)
    environment.filters.update(
        shown=shown,
        rich=rich,
        plain=plain_text,
        kind=lambda block: type(block).__name__,
        classes=lambda block: f"{block.look} {_CLASSES.get((type(block), block.tone), block.tone)}".strip(),
        page_columns=lambda columns: [pair for pair in enumerate(columns) if pair[1].medium != "text"],
    )
    environment.globals["cell_classes"] = {"name": "", "number": "n", "brief": "some", "prose": "wide"}
    return environment.get_template(name)


_CLASSES = {
    (Paragraph, "plain"): "",
    (Bullets, "plain"): "",
    (Paragraph, "verdict"): "headline",
    (Bullets, "verdict"): "",
    (Bullets, "warning"): "warnings",
}
"""Block and tone → its class, where that is not the tone."""


def _css() -> str:
    """Return the style sheet, with the colours of plots and page as variables."""
    sheets = (_read("page", "templates", name) for name in ("report.css", "advice.css"))
    return "".join((theme_css((*all_colours(), *PAGE_COLOURS)), *sheets))


_TAG = re.compile(r"<[^>]*>")
_ATTRIBUTE = re.compile(r'\s([\w:-]+)="([^"]*)"')
_REFERENCE = re.compile(r'(?<=href="#)[^"]+|(?<=url\(#)[^)]+')
_TWO_DECIMALS = re.compile(r"(\d\.\d\d)\d+")
_NAMED_COLOUR = re.compile(r"((?:fill|stroke):)(#[0-9a-f]{6})")
_LEAST_REPEATS = 3
"""A style that occurs so often becomes a class of its own."""


def inline_svg(svg: str, prefix: str) -> str:
    """Return the `<svg>` element of a file of matplotlib's for a page: no prolog, no namespaces, nothing that has no
    effect.

    `prefix` makes its ids and classes its own: several plots share one page. The style that matplotlib gives to every
    element and its font are the page's (`.plot svg` in report.css).
    """
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>|<style\b.*?</style>", "", body, flags=re.DOTALL)
    body = re.sub(r">\s+<", "><", body).replace("<defs></defs>", "")
    targets = dict.fromkeys(name for tag in _TAG.findall(body) for name in _REFERENCE.findall(tag))
    names = {name: f"{prefix}{number}" for number, name in enumerate(targets)}
    tags = (_tag(tag, names) for tag in _TAG.findall(body))
    pieces = _unwrapped([piece for pair in zip(_TAG.split(body), [*tags, ""], strict=True) for piece in pair if piece])
    return _classed(pieces, prefix)


def _tag(tag: str, names: Mapping[str, str]) -> str:
    """Return a tag with what it needs: an id only where something refers to it, numbers as fine as a screen shows
    them.
    """
    attributes = []
    for name, value in _ATTRIBUTE.findall(tag):
        if name.startswith("xmlns") or name == "version" or (tag.startswith("<svg") and name in ("width", "height")):
            continue
        if name == "id":
            if value not in names:
                continue
            value = names[value]
        elif name == "xlink:href" or name == "clip-path":
            value = re.sub(r"#([^)]+)", lambda match: f"#{names.get(match[1], match[1])}", value)
        elif name == "style":
            value = _style(value)
        elif name == "transform":
            if value.startswith("rotate(-0 "):
                continue
            value = _TWO_DECIMALS.sub(r"\1", value)
        elif name in ("d", "x", "y", "points", "width", "height"):
            # A hundredth of a point is finer than any screen.
            value = re.sub(r"\s*([A-Za-z])\s*", r"\1", _TWO_DECIMALS.sub(r"\1", value)).strip()
        attributes.append(f' {name.removeprefix("xlink:")}="{value}"')
    end = "/>" if tag.endswith("/>") else ">"
    start = re.match(r"</?[\w:]+", tag)
    return tag if start is None else f"{start[0]}{''.join(attributes)}{end}"


@lru_cache(maxsize=1024)
def _style(text: str) -> str:
    """Return a style without the font family, which is the page's, and with the plots' colours as variables."""
    variables = {ink.light: f"var({ink.variable})" for ink in all_colours()}
    parts = [re.sub(r"\s*:\s*", ":", part.strip(), count=1) for part in text.split(";") if part.strip()]
    style = ";".join(part for part in parts if not part.startswith("font-family:"))
    return _NAMED_COLOUR.sub(lambda match: match[1] + variables.get(match[2], match[2]), style)


def _unwrapped(pieces: list[str]) -> list[str]:
    """Return the pieces without the groups that have no attribute: they change nothing."""
    needed: list[str] = []
    open_groups: list[bool] = []
    for piece in pieces:
        if piece.startswith("<g") and not piece.endswith("/>"):
            open_groups.append(piece != "<g>")
            if piece == "<g>":
                continue
        elif piece == "</g>" and not open_groups.pop():
            continue
        needed.append(piece)
    return needed


def _classed(pieces: list[str], prefix: str) -> str:
    """Return the text of the pieces, with a class in the place of each style that is repeated."""
    pattern = re.compile(r' style="([^"]*)"')
    counts = Counter(match[1] for piece in pieces if piece.startswith("<") and (match := pattern.search(piece)))
    repeated = [style for style, count in counts.items() if count >= _LEAST_REPEATS and style]
    classes = {style: f"{prefix}s{number}" for number, style in enumerate(repeated)}

    def replaced(match: re.Match[str]) -> str:
        return f' class="{classes[match[1]]}"' if match[1] in classes else match[0]

    text = "".join(pattern.sub(replaced, piece) if piece.startswith("<") else piece for piece in pieces)
    if not classes:
        return text
    rules = "".join(f".plot .{name}{{{style}}}" for style, name in classes.items())
    return re.sub(r"^<svg[^>]*>", lambda opening: f"{opening[0]}<style>{rules}</style>", text, count=1)


_COMMAND = re.compile(r"`([^`\n]+)`")
_PIECES = re.compile(r"(?<=[_.\-])")
"""What follows these signs of a name may stand on the next line."""
_UNITS = re.compile(r" (?=(?:%|µs|ms)(?:\W|$))")


def prose(text: str) -> Markup:
    """Return a sentence as markup: what stands in backticks is a `<code>`, and no line breaks between a number and its
    unit.

    The text is escaped first: whatever a label or a note holds stays text, in a command as outside of one. A backtick
    without a second one stays as it is.
    """
    from markupsafe import Markup, escape

    safe = _UNITS.sub(NO_BREAK, str(escape(printable(text))))
    return Markup(_COMMAND.sub(r"<code>\1</code>", safe))


def rich(text: Rich, *, is_prose: bool = True) -> Markup:
    """Return a text of a block as markup, each span in the element that its look asks for; `is_prose`: the rest as
    `prose`.
    """
    from markupsafe import Markup, escape

    plain = prose if is_prose else lambda each: escape(printable(each))
    if isinstance(text, str):
        return plain(text)
    spans = text if isinstance(text, tuple) else (text,)
    return Markup("").join(plain(span) if isinstance(span, str) else _span(span) for span in spans)


def _span(span: Span) -> Markup:
    from markupsafe import Markup, escape

    if span.medium == "text":
        return Markup("")
    looks = span.look.split()
    element = next((_ELEMENTS[look] for look in looks if look in _ELEMENTS), "span")
    element = "a" if span.anchor else element
    classes = " ".join(look for look in looks if look not in ("code", "bold", "breaks"))
    pairs = (("class", classes), ("href", f"#{span.anchor}" if span.anchor else ""), ("title", printable(span.title)))
    attributes = Markup("").join(Markup(' {}="{}"').format(name, value) for name, value in pairs if value)
    text = printable(span.text)
    content = Markup("<code>{}</code>").format(text) if element == "a" and "code" in looks else escape(text)
    if "breaks" in looks:
        content = Markup("<wbr>").join(map(escape, _PIECES.split(text)))
    if element == "span" and not attributes:
        return content
    return Markup("<{0}{1}>{2}</{0}>").format(Markup(element), attributes, content)


_ELEMENTS = {"code": "code", "bold": "b", "flag": "abbr", "mark": "abbr", "level-of": "abbr"}
"""Look of a span → its element."""


OWN = (
    "words.js",
    "core.js",
    "numbers.js",
    "theme.js",
    "filters.js",
    "tooltip.js",
    "figures.js",
    "roofline.js",
    "rows.js",
    "timeline.js",
    "pareto.js",
    "table.js",
    "page.js",
)
"""Our scripts in the order they build on each other; one function each, joined into one script."""
FIGURE = "figure.js"
"""The script that page and explorer share; here it is no module."""
BUNDLE = "plotly-report.min.js"


@cache
def scripts() -> tuple[str, ...]:
    """Return the texts of the page's script elements: the vendored bundle, then our own."""
    shared = _read("figures", "static", FIGURE).replace("export function", "function")
    own_scripts = "".join(map(_without_comments, (shared, *(_read("page", "static", name) for name in OWN))))
    return _read("page", "vendor", BUNDLE), f'(() => {{\n"use strict";\n{own_scripts}}})();'


@cache
def script_policy() -> str:
    """Return the Content-Security-Policy of the page: its own scripts by their hash, inline style, pictures made in the
    page.
    """
    hashes = " ".join(f"'sha256-{_digest(text)}'" for text in scripts())
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


@cache
def interactive_css() -> str:
    """Return the style sheet of the interactive part."""
    return tight_css(_read("page", "static", "interactive.css"))


def tight_css(text: str) -> str:
    """Return a style sheet without comments, line ends and spaces that mean nothing; what stands in quotes is left as
    it is.
    """
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    pieces = re.split(r'("[^"]*")', text)
    for at, piece in enumerate(pieces[::2]):
        pieces[2 * at] = re.sub(r"(?<=[;,{}]) | (?=[{}])|(?<=[\w-]:) ", "", re.sub(r"\s+", " ", piece))
    return "".join(pieces).replace(";}", "}").strip()


def _without_comments(text: str) -> str:
    """Return a script without indentation and lines that are a comment: a tenth of it. No text of ours goes over
    several lines.
    """
    lines = (line.strip() for line in text.splitlines())
    return "".join(f"{line}\n" for line in lines if line and not line.startswith("//"))


def _digest(text: str) -> str:
    # A browser hashes the text after it has made every line end a line feed; ours have no others.
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def _read(*path: str) -> str:
    return resources.files("reports").joinpath(*path).read_text(encoding="utf-8")
