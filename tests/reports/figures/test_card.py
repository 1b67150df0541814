"""The one picture to share: its size, what it says, and that it is the same every time."""

from __future__ import annotations

import io

import pytest

from reports.document.card import card_png, card_sheet
from reports.figures.drawing.matplotlib_drawer import draw_sheet
from reports.view.views import report_view


@pytest.fixture(scope="module")
def view(make):
    return report_view(make.run(), make.cpu_records(), make.profiles(make.CPU))


def test_the_picture_has_the_size_that_chats_show_and_is_the_same_every_time(view):
    from PIL import Image

    picture = card_png(view)
    with Image.open(io.BytesIO(picture)) as image:
        assert image.size == (1200, 630)
    assert card_png(view) == picture


def test_the_picture_has_chip_date_answer_and_roofline_and_no_words_outside(view):
    sheet = card_sheet(view)
    assert sheet.title == view.chips[0].hardware_name
    assert view.date in sheet.subtitle
    choices = [phase.choice for phase in view.chips[0].answers]
    for table, choice in zip(sheet.tables, choices, strict=True):
        assert choice.precision in table.rows[0][0]
    drawing = draw_sheet(sheet)
    renderer = drawing.canvas.get_renderer()
    left = drawing.axes[0].get_tightbbox(renderer).x0
    assert len(drawing.axes[0].lines) > 0
    for text in drawing.texts:
        box = text.get_window_extent(renderer)
        assert box.x0 >= 0
        assert box.x1 <= drawing.bbox.x1
        is_beside = box.y0 < drawing.axes[0].get_window_extent(renderer).y1 and box.x0 < left
        assert not is_beside or box.x1 <= left, text.get_text()


@pytest.mark.parametrize("kind", ["empty", "predicted", "hostile"])
def test_poor_runs_give_a_picture_too(make, kind):
    records = {
        "empty": [],
        "predicted": [make.record((1, 4096, 4096), "BF16", "BF16", "k")],
        "hostile": make.cpu_records(),
    }[kind]
    label = "x" * 5000 if kind == "hostile" else "nightly"
    view = report_view(make.run(label=label), records, make.profiles(make.CPU))
    assert card_png(view).startswith(b"\x89PNG")
    assert ("nothing was measured" in card_sheet(view).subtitle) == (kind != "hostile")


def test_simulated_times_are_never_called_measured(make):
    flagged = make.record((1, 4096, 4096), "BF16", "BF16", "k", 1e-3, flags=("simulated",))
    subtitle = card_sheet(report_view(make.run(), [flagged], make.profiles(make.CPU))).subtitle
    assert "simulated" in subtitle
    assert "measured" not in subtitle
