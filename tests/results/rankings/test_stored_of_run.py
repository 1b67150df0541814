"""What all stored runs say of the questions of one run: when the section is there, what it asks, and how each form
shows it.
"""

from __future__ import annotations

import json
import re

import pytest
from typer.testing import CliRunner

from reports.document.advice_blocks import stored_section
from reports.document.report import Report
from reports.page.html import render_page
from reports.present.blocks import Bullets, Heading, TableBlock, plain_text, text_blocks
from reports.present.words.evidence_text import basis_text, looked_at_text, note_texts
from reports.view.views import report_view
from results.rankings import recommend_for_run, recommend_from_store
from results.rankings.from_store import MOST_SHAPES, question_of_run
from results.store.store import open_store
from roofline_cli.main import app
from roofline_model.recommend.loss import loss_text

BF16, INT4, FP8 = ("BF16", "BF16", "matmul"), ("INT4", "BF16", "tinygemm"), ("FP8_E4M3", "FP8_E4M3", "scaled_mm_row")


@pytest.fixture(scope="module")
def nights(stored_run):
    """Three nights; a driver makes INT4 slow on the last."""
    fast, slow = {BF16: 22e-6, INT4: 9e-6, FP8: 12e-6}, {BF16: 22e-6, INT4: 16e-6, FP8: 12e-6}
    return [stored_run(0, fast), stored_run(1, fast), stored_run(2, slow, driver="590.12")]


@pytest.fixture(scope="module")
def database(make, nights, stored_run, tmp_path_factory):
    path = tmp_path_factory.mktemp("stored") / "results.db"
    other = stored_run(3, {BF16: 1e-3}, shape=(64, 512, 512), driver="590.12")
    with open_store(path) as store:
        for run, records in (*nights, other):
            store.add_run(run, list(make.profiles(make.GPU).values()), records)
    return path


@pytest.fixture(scope="module")
def stored_answer(database, nights):
    with open_store(database, read_only=True) as store:
        return recommend_for_run(store, nights[-1][1])


def test_it_is_what_the_store_recommends_for_the_runs_questions(database, stored_answer):
    with open_store(database, read_only=True) as store:
        every = recommend_from_store(store)
    (mine,) = stored_answer.rankings
    assert mine in every.rankings
    assert len(every.rankings) == 2
    assert mine.first.label == "FP8 (W8A8) · scaled_mm_row"
    assert stored_answer.run_count == 3
    assert any(difference.after == "590.12" for change in mine.changes for difference in change.environment)


def test_it_is_there_where_another_run_is_about_the_same_or_when_asked(database, nights, stored_run):
    with open_store(database, read_only=True) as store:
        alone = stored_run(3, {BF16: 1e-3}, shape=(64, 512, 512))[1]
        assert recommend_for_run(store, alone) is None
        assert recommend_for_run(store, alone, is_wanted=True).run_count == 1
        assert recommend_for_run(store, nights[-1][1], is_wanted=False) is None
        assert recommend_for_run(store, []) is None


def test_an_answer_of_other_runs_alone_says_whose_and_why(make, stored_run, tmp_path):
    times = {BF16: 22e-6, INT4: 9e-6}
    quiet, busy, later = (
        stored_run(1, times),
        stored_run(2, times, flags=("contended",)),
        stored_run(3, {BF16: 12e-6, INT4: 9e-6}),
    )
    with open_store(tmp_path / "results.db") as store:
        for run, records in (quiet, busy):
            store.add_run(run, list(make.profiles(make.GPU).values()), records)
        assert note_texts(recommend_for_run(store, busy[1])) == (
            (
                "these answers come from run 00000001, not from the run reported here, 00000002, which is left out: other "
                "processes or threads used more than 10 % of the CPUs: times are too long (contended)"
            ),
        )
        assert note_texts(recommend_for_run(store, quiet[1]))[0].startswith("run 00000002 nightly is left out")
        store.add_run(later[0], list(make.profiles(make.GPU).values()), later[1])
        assert not any("not from the run" in note for note in note_texts(recommend_for_run(store, quiet[1])))


def test_long_runs_ask_of_their_first_shapes(make):
    records = [make.record((1, 64 * (at + 1), 64), *BF16, 1e-5, number=at) for at in range(MOST_SHAPES + 5)]
    question = question_of_run(records)
    assert len(question.subjects) == MOST_SHAPES
    assert question.is_about(records[0].case)
    assert not question.is_about(records[-1].case)


@pytest.fixture(scope="module")
def page(make, nights, stored_answer):
    run, records = nights[-1]
    return render_page(report_view(run, records, make.profiles(make.GPU)), stored=stored_answer)


def test_the_page_has_answers_changes_and_evidence(page, stored_answer, nights):
    section = re.search(r'<section aria-labelledby="stored">.*?</section>', page, re.DOTALL)[0]
    (ranking,) = stored_answer.rankings
    assert "What moved since the last run" in section
    assert section.count('id="stored-1"') == 1
    for value in re.findall(r'<tr class="best">.*?data-value="([^"]+)"', section, re.DOTALL):
        assert float(value) == ranking.first.estimate.time_s
    link = re.search(r'<a class="evidence measured" href="#(case-\d+)">', section)[1]
    assert f'id="{link}"' in page
    assert nights[1][0].run_id[:8] in section  # evidence of another run is named
    assert f">{loss_text(ranking.first.loss)}</span>" in section
    assert f"From {basis_text(stored_answer)}:" in section
    assert looked_at_text(stored_answer) in section


def test_blocks_say_answer_and_moves(stored_answer):
    blocks = list(text_blocks([stored_section(Report(None), stored_answer)]))
    assert blocks[0] == Heading(2, "What all stored runs recommend")
    (answers,) = [block for block in blocks if isinstance(block, TableBlock)]
    assert answers.rows[0].cells[1].content == "FP8 (W8A8) · scaled_mm_row"
    moves = [plain_text(item) for block in blocks if isinstance(block, Bullets) for item in block.items]
    assert any("INT4 (W4A16) · tinygemm" in move for move in moves)


@pytest.mark.parametrize(("option", "is_there"), [((), True), (("--no-history",), False), (("--history",), True)])
def test_the_option_adds_and_leaves_out(database, nights, tmp_path, option, is_there):
    run_id = nights[-1][0].run_id
    place = tmp_path / "report.json"
    result = CliRunner().invoke(
        app, ["report", "--db", str(database), "--run", run_id, "--format", "json", "-o", str(place), *option]
    )
    assert result.exit_code == 0, result.output
    stored = json.loads(place.read_text(encoding="utf-8"))["stored"]
    assert (stored is not None) == is_there
    if is_there:
        assert stored["rankings"][0]["rows"][0]["label"] == "FP8 (W8A8) · scaled_mm_row"
