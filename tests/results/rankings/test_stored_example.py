"""The exported runs under examples/, through a real store: what they recommend is what the numbers say."""

from __future__ import annotations

from pathlib import Path

import pytest
from trained_run import as_trained

from reports.advice.run_phases import phase_rankings
from reports.present.words.evidence_text import basis_text, looked_at_text, missing_texts, note_texts
from reports.present.words.model_text import phase_verdict
from reports.present.words.ranking_text import excluded_texts
from reports.present.words.stored_text import summary_of
from results import open_store
from results.cases.case_result import case_results
from results.cases.losses import StoredLosses, pass_loss
from results.cases.model_results import model_results
from results.exchange.exported.load import import_file
from results.rankings import StoredQuestion, recommend_from_store
from results.records.model_figures import model_figures
from roofline_model.core.finding import finding, short_text
from roofline_model.recommend.loss import loss_doubt, loss_finding

RUNS = Path(__file__).parents[3] / "examples" / "runs" / "cpu-amd-epyc-2t"
CPU = "cpu-amd-epyc-2t"


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("example")
    with open_store(str(folder / "results.db")) as opened:
        import_file(opened, RUNS / "quick.json")
        import_file(opened, as_trained(RUNS / "model_quant.json", folder))
        yield opened


def test_the_examples_recommend_what_they_measured(store) -> None:
    recommendations = recommend_from_store(store)
    assert missing_texts(recommendations) == ()
    assert {ranking.question.hardware for ranking in recommendations.rankings} == {CPU}
    assert {ranking.question.name: ranking.first.label for ranking in recommendations.rankings} == {
        "seeded-llama-156m, decode, batch 1, 128 tokens": "INT4 (W4A16)",
        "seeded-llama-156m, prefill, batch 1, 128 tokens": "BF16",
        "gemm 64x1024x1024": "INT8 (W8A8) · int_mm",
        "gemm 128x4096x4096": "INT8 (W8A8) · int_mm",
        "gemv 1x1024x1024": "INT4 (W4A16) · int4pack",
        "gemv 1x4096x4096": "INT4 (W4A16) · int4pack",
        "gemv 1x11264x2048": "INT4 (W4A16) · int4pack",
        "gemv 8x4096x4096": "INT4 (W4A16) · int4pack",
    }
    decode = recommendations.rankings[0].first
    assert (decode.estimate.time_s, decode.trust.confidence, decode.loss.source) == (
        0.010614638000000001,
        "medium",
        "measured",
    )
    assert decode.loss.kl_nats_per_token == pytest.approx(0.0354, abs=5e-4)
    assert decode.memory.total_bytes == 130885888 + 1048576
    assert decode.evidence[0].label == "model_quant"
    assert summary_of(recommendations.rankings[0]).startswith("stay with BF16: measured 25.23 ms")  # INT4 loses 3.6 %


def test_the_store_gives_the_same_as_its_records(store) -> None:
    from results.rankings import recommend_from_runs

    runs = store.runs()
    records = [record for run in runs for record in store.records(run.run_id, with_samples=False)]
    profiles = {
        prediction.profile_hash: store.profile(prediction.profile_hash)
        for record in records
        for prediction in record.predictions
    }
    assert recommend_from_runs(runs, records, profiles).rankings == recommend_from_store(store).rankings


def test_a_loss_limit_and_a_chip_of_none(store) -> None:
    recommendations = recommend_from_store(
        store, StoredQuestion(max_loss_pct=1.0, phase="decode", model="seeded-llama-156m")
    )
    assert [row.label for row in recommendations.rankings[0].options] == ["BF16", "BF16 + INT8 KV", "INT8 (W8A16)"]
    assert excluded_texts(recommendations.rankings[0])[0][1] == "loses 3.6 %, the limit is 1 %"
    none = recommend_from_store(store, StoredQuestion(hardware_key="gb10"))
    assert none.rankings == ()
    assert missing_texts(none) == (f"no record on gb10 is stored; stored chips: {CPU}; `roofline runs` lists what is",)


def test_a_measured_loss_is_shown_by_the_names_of_its_metrics_with_what_it_hides(store) -> None:
    recommendations = recommend_from_store(
        store, StoredQuestion(phase="decode", model="seeded-llama-156m", max_loss_pct=5)
    )
    [ranking] = recommendations.rankings
    best = ranking.first.loss
    assert loss_finding(best).value("kind") == "over-tokens"
    assert (best.text, best.low_pct < best.pct < best.high_pct) == ("", True), "random tokens"
    assert "26.6 % of the tokens" in summary_of(ranking)
    assert "3.6 %" not in summary_of(ranking)
    gentle = next(row.loss for row in ranking.options if row.label == "INT8 (W8A16)")
    assert loss_doubt(gentle) is None
    assert gentle.top1_agreement_ratio == pytest.approx(0.9, abs=0.05)


@pytest.fixture(scope="module")
def all_runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("all")
    with open_store(str(folder / "results.db")) as opened:
        for file in (RUNS / "quick.json", as_trained(RUNS / "model_quant.json", folder), RUNS / "calibrated.json"):
            import_file(opened, file)
        yield opened


def test_no_advice_rests_on_an_untrained_model(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "results.db")) as opened:
        import_file(opened, RUNS / "model_quant.json")
        alone = recommend_from_store(opened)
        assert (alone.rankings, len(missing_texts(alone))) == ((), 1)
        run = opened.resolve_run("model_quant")
        records = opened.records(run.run_id, with_samples=False)
        import_file(opened, RUNS / "quick.json")
        beside = recommend_from_store(opened)
    assert {ranking.question.subject for ranking in beside.rankings} == {"shape"}
    assert [note for note in note_texts(beside) if "seeded-llama-156m" in note]
    figures = [figures for record in records if (figures := model_figures(record)) is not None]
    assert {(figure.is_untrained, figure.quality_source, figure.loss_pct) for figure in figures} == {
        (True, "reference", None),
        (True, "none", None),
    }
    [model] = model_results(case_results(records))
    assert {phase_verdict(model, phase) for phase in model.phases} == {short_text(finding("untrained"))}
    assert model.is_untrained
    assert phase_rankings((), [model], CPU) == ()
    # What was published of its formats is of trained weights.
    losses = {each.label: pass_loss(each, StoredLosses((), {}), ()).pct for each in model.passes}
    assert losses.pop("BF16") == 0
    assert losses
    assert set(losses.values()) == {None}


def test_no_filter_changes_what_is_said_of_a_ranking(all_runs) -> None:
    every = {ranking.question: ranking for ranking in recommend_from_store(all_runs).rankings}
    for question, count in (
        (StoredQuestion(shape=(128, 4096, 4096)), 1),
        (StoredQuestion(model="seeded-llama-156m", phase="decode"), 1),
        (StoredQuestion(op="decode:seeded-llama-156m"), 1),
    ):
        rankings = recommend_from_store(all_runs, question).rankings
        assert len(rankings) == count
        assert [every[ranking.question] for ranking in rankings] == list(rankings)


def test_a_report_and_its_stored_section_give_a_case_one_interval_and_one_place(all_runs) -> None:
    from reports.view.views import report_view
    from results.rankings import recommend_for_run

    run = all_runs.resolve_run("calibrated")
    records = all_runs.records(run.run_id, with_samples=False)
    profiles = {
        profile_hash: all_runs.profile(profile_hash)
        for profile_hash in {p.profile_hash for record in records for p in record.predictions}
    }
    (chip,) = report_view(run, records, profiles).chips
    recommendations = recommend_for_run(all_runs, records)
    places = {
        (recommendation.question.op, recommendation.question.shape_label): [row.label for row in recommendation.options]
        for recommendation in chip.recommendations
    }
    assert {
        (ranking.question.op, ranking.question.shape_label): [row.label for row in ranking.options]
        for ranking in recommendations.rankings
    } == places
    shown = {case.case_key: case.plus_minus_ratio for case in chip.cases}
    stored = {
        row.key: row.estimate.half_width_ratio
        for ranking in recommendations.rankings
        for row in ranking.options
        if row.is_measured
    }
    ranked = {
        row.key: row.estimate.half_width_ratio
        for recommendation in chip.recommendations
        for row in recommendation.options
        if row.record_ids
    }
    assert stored == {key: shown[key] for key in stored}
    assert stored == {key: ranked[key] for key in stored}
    assert (basis_text(recommendations), looked_at_text(recommendations)) == (
        "114 records of 1 run",
        "168 records of 2 runs",
    )


def test_places_that_only_noise_exchanged_are_no_news(all_runs) -> None:
    recommendations = recommend_from_store(all_runs, StoredQuestion(op="gemv"))
    assert all(ranking.compared for ranking in recommendations.rankings)
    noise = [change for change in recommendations.changes if change.causes[0].code == "level-exchanged"]
    assert all(1 in (change.before_rank, change.after_rank) for change in noise)


def test_a_faster_mean_whose_interval_overlaps_is_told_and_not_taken(all_runs) -> None:
    recommendations = recommend_from_store(all_runs, StoredQuestion(op="gemv"))
    summaries = {
        ranking.question.name: summary_of(ranking)
        for ranking in recommendations.rankings
        if "may be faster" in summary_of(ranking)
    }
    assert list(summaries) == ["gemv 8x4096x4096"]
    assert summaries["gemv 8x4096x4096"].startswith("stay with BF16 · matmul: measured 1.988 ms")
    assert (
        "; INT4 (W4A16) · int4pack may be faster, about 1.2× BF16 · matmul (1.0× to 1.3×), but their intervals "
        "overlap: measure both again" in (summaries["gemv 8x4096x4096"])
    )
