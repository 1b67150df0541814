"""The dual roofline: the figure as data, and what either drawer makes of it."""

from __future__ import annotations

import itertools
import subprocess
import sys
from dataclasses import replace

import pytest

from reports.figures.drawing.label_places import spread
from reports.figures.drawing.matplotlib_drawer import draw_figure, figure_png, figure_svg
from reports.figures.drawing.palette import ACCENT, INK, SURFACE, all_colours, format_colours, operator_shapes
from reports.figures.drawing.plotly_drawer import plotly_json
from reports.figures.drawing.spec import Axis, Figure, Label, Line, Marks
from reports.figures.roofline import MANY_POINTS, roofline_figure
from reports.view.roofline_view import CacheRoof
from reports.view.views import report_view


def figure_of(make, records, device=None):
    view = report_view(make.run(), records, make.profiles(device or make.CPU)).chips[0].roofline
    return view, draw_figure(roofline_figure(view))


@pytest.fixture(scope="module")
def cpu_drawing(make):
    """The view and the drawing of the ordinary run on a CPU: drawn once, it takes a second."""
    return figure_of(make, make.cpu_records())


@pytest.fixture(scope="module")
def gpu_drawing(make):
    return figure_of(make, make.gpu_records(), make.GPU)


def lines_named(figure, start):
    """The marks of a name, in the drawing."""
    return [line for line in figure.axes[0].lines if str(line.get_label()).startswith(start)]


def pieces_named(figure, start):
    """The corners of the lines of a name, in the drawing."""
    collections = [
        collection for collection in figure.axes[0].collections if str(collection.get_label()).startswith(start)
    ]
    return [[tuple(corner) for corner in piece] for collection in collections for piece in collection.get_segments()]


def texts_of(figure):
    texts = [text.get_text() for text in figure.texts]
    for axes in figure.axes:
        texts += [text.get_text() for text in axes.texts]
    return texts + [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def test_every_roof_is_a_line_with_its_name_and_ridge(gpu_drawing):
    view, figure = gpu_drawing
    assert len(pieces_named(figure, "roof ")) == len(view.roofs) == 7
    for roof, corners in zip(view.roofs, pieces_named(figure, "roof "), strict=True):
        x, y = corners[-2]
        assert x == pytest.approx(roof.peak_flops_per_s / 4.8e12)
        assert y * view.unit_flops_per_s == pytest.approx(roof.peak_flops_per_s)
    texts = texts_of(figure)
    assert {"ridge 412", "ridge 206", "ridge 103", "ridge 14"} <= set(texts)
    assert "BF16  989.4 TFLOP/s" in texts
    assert "INT4 (W4A16) on BF16  989.4 TFLOP/s" in texts
    assert figure.axes[0].get_ylabel() == "Performance (TFLOP/s)"


def test_the_axis_reaches_every_ridge_however_far_from_the_points(make):
    view, _ = spec_of(make, make.gpu_records()[:1], make.GPU)
    far = replace(view, roofs=(replace(view.roofs[0], peak_flops_per_s=1e19), *view.roofs[1:]))
    figure = roofline_figure(far)
    ridge = far.roofs[0].critical_intensity_flop_per_byte
    assert figure.x.high_value > ridge
    assert ridge in {label.x for label in figure.labels if label.lines[0].startswith("ridge")}


def test_every_point_is_drawn_hollow_and_filled_with_a_segment_between(cpu_drawing):
    view, figure = cpu_drawing
    texts = texts_of(figure)
    assert "Dual roofline of AMD EPYC 9554 (2 of 64 cores)" in texts
    assert "nightly · 2026-11-21 09:08 UTC" in texts
    assert figure.axes[0].get_ylabel() == "Performance (GFLOP/s)"
    predicted = sum(len(line.get_xdata()) for line in lines_named(figure, "predicted "))
    measured = sum(len(line.get_xdata()) for line in lines_named(figure, "measured "))
    assert predicted == measured == len(pieces_named(figure, "gap")) == len(view.points) == 27
    assert {line.get_markerfacecolor() for line in lines_named(figure, "predicted ")} == {"#fffffe"}


def test_operators_differ_by_shape_and_warm_is_half_filled(cpu_drawing):
    _, figure = cpu_drawing
    assert {line.get_marker() for line in lines_named(figure, "measured gemv")} == {"o"}
    assert {line.get_marker() for line in lines_named(figure, "measured gemm")} == {"s"}
    assert {
        line.get_fillstyle() for line in lines_named(figure, "measured ") if str(line.get_label()).endswith("warm")
    } == {"left"}
    assert len(pieces_named(figure, "memory L3")) == 1


def test_the_best_configuration_is_annotated_once(cpu_drawing):
    _, figure = cpu_drawing
    assert sum(text.startswith("Fastest: INT8 (W8A16) · int8pack") for text in texts_of(figure)) == 1
    (ring,) = lines_named(figure, "best configuration")
    assert ring.get_markeredgecolor() == ACCENT.light


def test_the_legend_calls_nothing_best_that_others_are_level_with(make):
    shape = (1, 4096, 4096)
    clear = [make.record(shape, "BF16", "BF16", "matmul", 2e-3), make.record(shape, "INT8", "BF16", "int8pack", 1e-3)]
    level = [
        make.record((1, 8192, 8192), *row)
        for row in (("BF16", "BF16", "matmul", 4e-3), ("FP16", "FP16", "matmul", 4e-3))
    ]
    names = ("fastest of its shape", "fastest, others tied with it")
    for records, wanted in ((clear, [True, False]), (level, [False, True]), (clear + level, [True, True])):
        _, figure = figure_of(make, records)
        legend = [text.get_text() for text in figure.legends[0].get_texts()]
        assert [name in legend for name in names] == wanted


def label_boxes(figure):
    """Every label inside the axes as a rectangle in pixels of the drawing, turned by its own angle."""
    from matplotlib.path import Path
    from matplotlib.transforms import Affine2D

    axes, renderer = figure.axes[0], figure.canvas.get_renderer()
    frame, boxes = axes.get_window_extent(), {}
    for text in axes.texts:
        angle = text.get_rotation()
        text.set_rotation(0)
        box = text.get_window_extent(renderer)
        text.set_rotation(angle)
        x, y = (box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2
        if frame.contains(x, y):
            boxes[text.get_text()] = (
                Affine2D()
                .rotate_deg_around(x, y, angle)
                .transform_path(
                    Path.unit_rectangle().transformed(Affine2D().scale(box.width, box.height).translate(box.x0, box.y0))
                )
            )
    return boxes


def drawn_things(figure):
    """Markers (as squares of 7 pixels), gaps, roofs and slopes, in pixels of the drawing."""
    from matplotlib.path import Path
    from matplotlib.transforms import Affine2D

    axes = figure.axes[0]
    for line in axes.lines:
        if str(line.get_label()).startswith(("predicted ", "measured ")):
            for x, y in axes.transData.transform(line.get_xydata()):
                yield Path.unit_rectangle().transformed(Affine2D().scale(7).translate(x - 3.5, y - 3.5))
    for name in ("roof ", "memory ", "gap"):
        for corners in pieces_named(figure, name):
            yield from (Path(piece) for piece in itertools.pairwise(axes.transData.transform(corners)))


@pytest.mark.parametrize(
    "kind", ["gpu", "predicted", *(pytest.param(kind, marks=pytest.mark.full) for kind in ("cpu", "decode", "prefill"))]
)
def test_no_label_covers_another_nor_a_line_nor_a_point(make, kind):
    from dataclasses import replace

    gpu = make.gpu_records()
    records, device = {
        "cpu": (make.cpu_records(), make.CPU),
        "gpu": (gpu, make.GPU),
        "decode": ([r for r in gpu if r.case.op == "gemv"], make.GPU),
        "prefill": ([r for r in gpu if r.case.op == "gemm"], make.GPU),
        "predicted": ([replace(r, status="predicted", measurement=None) for r in gpu if r.measurement], make.GPU),
    }[kind]
    view, figure = figure_of(make, records, device)
    boxes = label_boxes(figure)
    ridges = {roof.critical_intensity_flop_per_byte for roof in view.roofs}
    low, high = figure.axes[0].get_xlim()
    points = [point.intensity_flop_per_byte for point in view.points]
    assert low < min(points) <= max(points) < high
    assert sum(text.startswith("ridge ") for text in boxes) == sum(ridge < high for ridge in ridges)
    assert not [
        text for text in figure.axes[0].texts if getattr(text, "arrow_patch", None)
    ]  # no leader across the plot
    assert any(text.startswith("DRAM ") for text in boxes)
    for (left, a), (other, b) in itertools.combinations(boxes.items(), 2):
        assert not a.intersects_path(b), (left, other)
    for thing_drawn in drawn_things(figure):
        assert not [text for text, box in boxes.items() if box.intersects_path(thing_drawn)]
    renderer = figure.canvas.get_renderer()
    for text in figure.axes[0].texts:  # the roofs' names in the margin among them
        assert text.get_window_extent(renderer).x1 <= figure.bbox.x1, text.get_text()


def test_predictions_only_one_case_and_nothing(make):
    from dataclasses import replace

    hollow = [replace(r, status="predicted", measurement=None) for r in make.gpu_records() if r.status == "measured"]
    _, figure = figure_of(make, hollow, make.GPU)
    assert lines_named(figure, "predicted ")
    assert not lines_named(figure, "measured ")
    assert any("nothing was measured" in text for text in texts_of(figure))
    _, single = figure_of(make, make.cpu_records()[3:4])
    assert len(pieces_named(single, "roof ")) == 1
    _, empty = figure_of(make, [])
    assert not empty.axes
    assert "Nothing to draw" in texts_of(empty)


def test_measured_without_any_prediction_still_draws_a_figure(make):
    _, figure = figure_of(make, [make.record((1, 64, 64), "BF16", "BF16", "k", 1e-3, device=None)])
    assert any("no prediction was stored" in text for text in texts_of(figure))


def test_png_is_sharp_and_files_are_deterministic(make, cpu_drawing):
    _, first = cpu_drawing
    _, again = figure_of(make, make.cpu_records())
    png = figure_png(first)
    assert png == figure_png(again)
    assert figure_svg(first) == figure_svg(again)
    assert int.from_bytes(png[16:20], "big") >= 150 * 11  # pixels across of an 11-inch page


def test_formulas_and_control_characters_in_labels_are_text(make):
    from dataclasses import replace

    run = make.run(label="$\\frac{1 & <b> \x00\u202e\ud800")
    record = make.record((1, 64, 64), "BF16", "BF16", "k", 1e-3)
    record = replace(record, case=replace(record.case, kernel="$x^{", op="<svg>"))
    figure = draw_figure(roofline_figure(report_view(run, [record], make.profiles(make.CPU)).chips[0].roofline))
    svg = figure_svg(figure, text_as_paths=False)
    assert figure_png(figure).startswith(b"\x89PNG")
    assert "$\\frac{1 &amp; &lt;b&gt;" in svg
    assert "<b>" not in svg
    import xml.etree.ElementTree as ET

    ET.fromstring(svg.encode())


def test_drawing_leaves_pyplot_alone():
    code = (
        "import sys, reports.figures.drawing.matplotlib_drawer as m, reports.figures.drawing.plotly_drawer, reports.page.html; "
        "heavy = [name for name in ('matplotlib', 'numpy', 'sqlalchemy', 'torch', 'jinja2') if name in sys.modules]; "
        "from reports.figures.drawing.spec import Axis, Figure; m.draw_figure(Figure('t', Axis(''), Axis(''), ())); "
        "print(heavy, 'matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] False"


def spec_of(make, records, device, first_number=1):
    view = report_view(make.run(), records, make.profiles(device)).chips[0].roofline
    return view, roofline_figure(view, first_number)


def test_the_figure_is_data_in_the_units_of_its_axes(make):
    records = make.gpu_records()
    view, figure = spec_of(make, records, make.GPU)
    assert (figure.x.is_log, figure.y.is_log) == (True, True)
    marks = {series.name: series for series in figure.series if isinstance(series, Marks)}
    series = marks["measured gemv BF16 cold"]
    first = records[series.keys[0] - 1]
    rate = first.ideal.flops / first.measurement.median_s
    assert series.x[0] == first.ideal.flops / first.ideal.total_bytes
    assert series.y[0] == pytest.approx(rate / view.unit_flops_per_s)
    assert figure.x.low_value < min(x for mark in marks.values() for x in mark.x)
    assert figure.y.high_value > max(y for mark in marks.values() for y in mark.y)
    assert {label.place for label in figure.labels} == {"beside", "along", "margin", "around"}


def test_points_are_keyed_by_the_number_of_their_case_and_lines_by_a_card(make):
    records = make.gpu_records()
    _, figure = spec_of(make, records, make.GPU, first_number=101)
    numbers = {key for series in figure.series for key in series.keys if isinstance(key, int)}
    plotted = [at for at, record in enumerate(records) if record.status in ("measured", "predicted")]
    assert numbers == {101 + at for at in plotted}
    lines = {key for series in figure.series for key in series.keys if isinstance(key, str)}
    assert lines == set(figure.cards)
    assert dict(figure.cards["level:0"].facts) == {"Bandwidth": "4.8 TB/s"}


def test_every_format_is_in_the_legend_in_its_own_colour_and_equal_peaks_share_their_line(make):
    from dataclasses import replace

    view, _ = spec_of(make, make.gpu_records(), make.GPU)
    roof = view.roofs[0]
    near = replace(roof, precision="FP16", peak_flops_per_s=roof.peak_flops_per_s * 0.9995)
    figure = roofline_figure(replace(view, roofs=(roof, near), precisions=(*view.precisions, "FP16")))
    swatches = [entry for entry in figure.legend if entry.kind == "swatch"]
    assert {entry.text.rpartition(" ")[0] for entry in swatches} >= {roof.precision, "FP16"}
    assert len({entry.colour for entry in swatches}) == len(swatches)
    dashes = [line.dash for line in figure.series if isinstance(line, Line) and line.name.startswith("roof ")]
    assert sorted(dashes) == [(0.0, 9.0, 9.0, 0.0), (9.0, 9.0)]


def test_a_page_shows_the_formats_that_are_fastest_of_a_shape_and_the_rest_on_demand(make):
    view = report_view(make.run(), make.cpu_records(), make.profiles(make.CPU)).chips[0].roofline
    fastest = {point.precision for point in view.points if point.standing}
    swatches = [entry for entry in roofline_figure(view).legend if entry.kind == "swatch"]
    assert 0 < len(fastest) < len(swatches)
    first = {entry.text.rpartition(" ")[0] for entry in swatches if not entry.is_on_demand}
    assert first == fastest
    nobody = replace(view, points=tuple(replace(point, standing="") for point in view.points))
    assert not any(entry.is_on_demand for entry in roofline_figure(nobody).legend)


def test_the_legend_of_simulated_times_does_not_call_them_measured(make):
    view = report_view(make.run(), make.cpu_records(), make.profiles(make.CPU)).chips[0].roofline
    texts = {entry.text for entry in roofline_figure(replace(view, is_simulated=True)).legend}
    assert "simulated" in texts
    assert "measured" not in texts


def test_the_json_has_every_point_as_the_figure_and_colours_of_both_themes(make):
    view, figure = spec_of(make, make.cpu_records(), make.CPU)
    drawn = plotly_json(figure)
    traces = {trace["name"]: trace for trace in drawn["data"]}
    for series in figure.of("live"):
        if isinstance(series, Marks):
            assert traces[series.name]["x"] == pytest.approx(series.x, rel=1e-6)
            assert traces[series.name]["y"] == pytest.approx(series.y, rel=1e-6)
            assert traces[series.name]["customdata"] == list(series.keys)
    assert [SURFACE.light, SURFACE.dark] in drawn["palette"]
    colours = {trace["line"]["color"] for trace in drawn["data"] if trace["mode"] == "lines"}
    assert all(colour.startswith("$") for colour in colours)
    assert drawn["layout"]["xaxis"]["type"] == "log"
    assert len(drawn["labels"]) == len([label for label in figure.labels if label.medium != "still"])
    assert len(view.points) > 20


def test_many_points_are_small_of_one_shape_and_drawn_by_webgl(make, monkeypatch):
    from reports.figures import roofline as module

    monkeypatch.setattr(module, "MANY_POINTS", 10)
    _, figure = spec_of(make, make.cpu_records(), make.CPU)
    points = [
        series
        for series in figure.series
        if isinstance(series, Marks) and series.name.startswith(("measured", "predicted"))
    ]
    assert {point.shape for point in points} == {"circle"}
    assert max(point.size_points for point in points) < 5
    kinds = {trace["type"] for trace in plotly_json(figure, most_svg_points=3)["data"] if trace["mode"] == "markers"}
    assert kinds == {"scatter", "scattergl"}


@pytest.mark.parametrize("wanted", [[0.5, 0.5, 0.5], [0.1, 0.9], [0.99, 0.98, 0.97, 0.2], [0.0, 0.0], []])
def test_spread_keeps_gap_order_and_range(wanted):
    placed = spread(wanted, 0.05)
    ordered = sorted(placed)
    assert all(b - a >= 0.05 - 1e-9 for a, b in itertools.pairwise(ordered))
    assert all(-1e-9 <= y <= 1 + 1e-9 for y in placed)
    assert sorted(range(len(wanted)), key=lambda i: (wanted[i], placed[i])) == sorted(
        range(len(wanted)), key=lambda i: placed[i]
    )


def test_spread_leaves_distant_labels_where_they_belong():
    assert spread([0.1, 0.9, 0.5], 0.05) == [0.1, 0.9, 0.5]


def test_spread_squeezes_what_cannot_fit():
    placed = spread([0.5] * 101, 0.05)
    assert min(placed) == pytest.approx(0.0)
    assert max(placed) == pytest.approx(1.0)


def test_colours_are_fixed_per_format_and_distinct():
    colours = format_colours(["BF16", "INT8 (W8A16)", "INT8", "MXFP8_E4M3", "FP8_E4M3", "Q4_K×BF16", "Q5_K×BF16"])
    assert len({colour.light for colour in colours.values()}) == 7
    assert colours["BF16"] == format_colours(["FP16", "BF16"])["BF16"]
    assert len({colour.light for colour in all_colours()}) == len(all_colours())
    # A format's own colour is that of its weights, whichever a figure meets first.
    caches = format_colours(["FP8 KV", "FP8 Q+KV", "FP8 (W8A8)"])
    assert caches["FP8 (W8A8)"] == format_colours(["FP8 (W8A8)", "FP8 KV"])["FP8 (W8A8)"] != caches["FP8 KV"]


def test_every_operator_of_a_run_has_a_shape_of_its_own():
    operators = ["attention", "unfused_attention", "gemm", "gemv", "softmax", "rmsnorm", "residual_add", "rope"]
    shapes = operator_shapes([*operators, "silu_mul", "ffn", "quantize", "dequantize"])
    assert len(set(shapes.values())) == 12
    assert (shapes["attention"], shapes["gemm"], shapes["gemv"]) == ("diamond", "square", "circle")
    assert operator_shapes(["mine", "batched_gemm"])["mine"] != "plus"


def test_a_file_names_every_memory_level_in_its_legend(make):
    view = report_view(make.run(), make.gpu_records(), make.profiles(make.GPU)).chips[0].roofline
    entries = [entry for entry in roofline_figure(view).legend if entry.kind == "line" and entry.medium == "still"]
    assert [entry.text.split()[0] for entry in entries] == ["DRAM", "L2"]
    assert [bool(entry.dash) for entry in entries] == [False, True]
    without = replace(view, cache_roofs=())
    assert not [e for e in roofline_figure(without).legend if e.kind == "line" and e.medium == "still"]


def test_the_only_label_of_a_crowded_mark_goes_farther_off_with_a_line_to_it():
    axis = Axis("x", 0.0, 100.0)
    spots = [(x, y) for x in range(30, 71, 2) for y in range(30, 71, 2)]
    crowd = Marks("crowd", *map(tuple, zip(*spots, strict=True)), INK, size_points=12.0)
    label = Label(("Fastest: FP8",), 50.0, 50.0, ACCENT, "around")
    drawn = draw_figure(Figure("t", axis, axis, (crowd,), (label,)))
    assert "Fastest: FP8" in texts_of(drawn)
    (leader,) = [line for line in drawn.axes[0].lines if line.get_color() == ACCENT.light]
    assert len(leader.get_xdata()) == 2
    # Several would be taken for each other's.
    several = draw_figure(Figure("t", axis, axis, (crowd,), (label, replace(label, lines=("Second",)))))
    assert not {"Fastest: FP8", "Second"} & set(texts_of(several))


def test_a_slope_that_the_highest_roof_cuts_off_left_of_the_figure_is_not_drawn(make):
    view = report_view(make.run(), make.cpu_records(), make.profiles(make.CPU)).chips[0].roofline
    beyond = replace(view, cache_roofs=(CacheRoof("L1", 1e18),))
    slopes = [line.name for line in roofline_figure(beyond).series if line.name.startswith("memory ")]
    assert slopes == ["memory DRAM"]
    assert not [label for label in roofline_figure(beyond).labels if label.lines[0].startswith("L1")]


def test_of_many_cases_no_segments_between_predicted_and_measured_are_drawn(make):
    view = report_view(make.run(), make.cpu_records(), make.profiles(make.CPU)).chips[0].roofline
    many = replace(view, points=view.points * (MANY_POINTS // len(view.points) + 1))
    assert [line for line in roofline_figure(view).series if line.name == "gap"]
    assert not [line for line in roofline_figure(many).series if line.name == "gap"]
