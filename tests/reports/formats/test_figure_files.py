"""The figures of a report as files: which there are, what they show, and that they are the same every time."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from trained_run import as_trained

from reports.figures.drawing.matplotlib_drawer import draw_figure, draw_rows, figure_png, figure_svg
from reports.figures.errors import errors_figure
from reports.figures.gaps import gaps_figure
from reports.figures.pareto import pareto_figure, pareto_points
from reports.figures.samples import spreads_figure
from reports.formats.figure_files import report_figures, write_figures
from reports.present.cases import LABELS
from reports.view.views import report_view
from results.cases.case_result import case_results
from results.cases.model_results import model_results
from results.exchange.exported.load import import_file
from results.records.model_figures import Interval
from results.store.store import open_store
from roofline_model.operators.case import op_title


def texts(figure) -> list[str]:
    return re.findall(r"<text[^>]*>(.*?)</text>", figure_svg(figure, text_as_paths=False), re.DOTALL)


@pytest.fixture(scope="module")
def rich(make):
    return report_view(
        make.run(hardware_key="h200-sxm"), make.rich_records(), make.profiles(make.GPU), canaries=make.canaries()
    )


@pytest.fixture(scope="module")
def models(pytestconfig, tmp_path_factory):
    """The records of the model run under examples/."""
    folder = tmp_path_factory.mktemp("models")
    run_file = pytestconfig.rootpath / "examples/runs/cpu-amd-epyc-2t/model_quant.json"
    with open_store(folder / "results.db") as store:
        import_file(store, as_trained(run_file, folder))
        return store.records(store.resolve_run("latest").run_id)


def test_a_run_has_the_figures_it_has_data_for(rich):
    names = [figure.name for figure in report_figures(rich)]
    assert names == [
        "roofline",
        "errors",
        "time",
        "samples",
        *(f"samples-{i:02d}" for i in range(1, 6)),
        "timeline",
        "canary",
    ]
    assert all(figure.alternative and figure.title for figure in report_figures(rich))


def test_files_are_written_once_per_figure_and_equal_input_gives_equal_files(make, tmp_path):
    view = report_view(make.run(), make.cpu_records()[:2], make.profiles(make.CPU))
    first = write_figures(view, tmp_path)
    assert [path.name for path in first] == [
        f"{name}.{ending}" for name in ("roofline", "errors", "time", "samples") for ending in ("png", "svg")
    ]
    assert all(path.read_bytes()[:4] == (b"\x89PNG" if path.suffix == ".png" else b"<?xm") for path in first)
    again = next(figure for figure in report_figures(view) if figure.name == "errors").draw()
    assert (figure_png(again), figure_svg(again)) == (first[2].read_bytes(), first[3].read_text(encoding="utf-8"))
    assert "<text" not in first[1].read_text(encoding="utf-8")  # letters are paths


def test_several_chips_have_figures_of_their_own(make):
    records = [
        *make.cpu_records()[:2],
        *(replace(record, record_id=f"{900 + i:032x}") for i, record in enumerate(make.gpu_records()[:2])),
    ]
    view = report_view(make.run(), records, make.profiles(make.CPU, make.GPU))
    names = [figure.name for figure in report_figures(view) if figure.name.startswith("roofline")]
    assert {re.sub(r"-\d-", "-", name) for name in names} == {"roofline-h200-sxm", "roofline-this-cpu"}
    assert len({figure.name for figure in report_figures(view)}) == len(list(report_figures(view)))


def test_errors_name_every_operator_and_precision_once(rich):
    rows = rich.cases
    labels = texts(draw_rows(errors_figure(rows, title="Errors", subtitle="sub")))
    names = [label for label in labels if re.search(r", \d+ cases?$", label)]
    cases = [row.case for row in rows if row.error_ideal_ratio is not None]
    expected = {(op_title(case), case.precision_label, case.cache, case.mode) for case in cases}
    assert len(names) == len(set(names)) == len(expected)
    assert "gemv, hot (warm) INT4 (W4A16), 1 case" in names
    assert errors_figure([]) is None


def test_where_the_time_went_names_cases_and_the_parts_that_occur(rich, models):
    labels = texts(draw_rows(gaps_figure(rich.cases, title="Time", subtitle="sub")))
    assert "gemv 1x28672x8192 BF16 · matmul" in labels
    assert {"ideal roof", "unexplained"} <= set(labels)
    view = report_view(rich.run, models, {})
    parts = set(texts(draw_rows(gaps_figure(view.cases, title="Time", subtitle="sub")))) & {
        text.split(":")[0] for text in LABELS.values()
    }
    assert {"ideal roof", "the framework on the host, between the kernels", "unexplained"} <= parts
    assert gaps_figure([]) is None


def test_samples_are_drawn_for_cases_that_still_have_them(rich):
    labels = texts(draw_rows(spreads_figure(rich.cases, title="Samples", subtitle="sub")))
    assert "gemv 1x28672x8192 INT4 (W4A16) · tinygemm, cold, process 2 [bimodal]" in labels
    assert "flagged: the time is in doubt" in labels
    pruned = [replace(case, records=tuple(map(_without_samples, case.records))) for case in rich.cases]
    assert spreads_figure(pruned) is None


def _without_samples(record):
    measurement = record.measurement
    return record if measurement is None else replace(record, measurement=replace(measurement, samples_s=()))


def test_pareto_points_are_the_measured_precisions_and_the_front_is_not_beaten(models):
    (model,) = model_results(case_results(models))
    for phase in model.phases:
        points = {point.label: point for point in pareto_points(phase)}
        assert points["BF16"].is_reference
        assert points["BF16"].loss == Interval(0.0, None, None)
        for point in points.values():
            beaten = [
                other.label
                for other in points.values()
                if other is not point
                and other.tokens_per_s >= point.tokens_per_s
                and other.loss.value <= point.loss.value
                and (other.held_bytes or 0) <= (point.held_bytes or 0)
            ]
            assert point.is_on_front == (not beaten)
        assert sum(point.is_chosen for point in points.values()) == 1
    decode = next(phase for phase in model.phases if phase.phase == "decode")
    assert {point.label: point.is_chosen for point in pareto_points(decode)}["INT4 (W4A16)"]
    labels = texts(draw_figure(pareto_figure(decode, title="Pareto", subtitle="sub")))
    assert "INT4 (W4A16) · 94.2/s · 131 MB" in labels


def test_without_measured_quality_there_is_no_pareto_figure(models):
    stripped = [replace(record, extra={**record.extra, "quality": {}}) for record in models]
    (model,) = model_results(case_results(stripped))
    assert all(pareto_figure(phase, title="", subtitle="") is None for phase in model.phases)


def test_hostile_names_draw_as_text_and_name_no_path(make):
    nasty = "$x^{2$ <b> ../../etc \u202e\x1b" + "y" * 500
    record = make.record((1, 64, 64), "BF16", "BF16", "k", 1e-3, number=1)
    record = replace(record, case=replace(record.case, kernel=nasty, op=nasty))
    view = report_view(make.run(label=nasty), [record], make.profiles(make.CPU))
    for drawn in report_figures(view):
        assert re.fullmatch(r"[a-z0-9-]+", drawn.name)
        figure = drawn.draw()
        if figure is not None:
            svg = figure_svg(figure, text_as_paths=False)
            assert "<b>" not in svg
            assert not set("\x1b\u202e") & set(svg)
