"""Whole models side by side: labels, pooled figures, which wins a phase, and what is said about its loss."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from model_records import HELD, TIMES_S, model_record, model_run, model_run_records
from run_makers import csv_rows

from reports.present.words.model_text import (
    kl_text,
    loss_text,
    model_notes,
    nats_text,
    parts_text,
    verdict_lines,
)
from reports.present.words.verdict_text import tokens_text
from results.cases import shape_verdict
from results.cases.case_result import case_results
from results.cases.model_results import model_results, slow_issue
from results.cases.phase_ranking import model_ranking
from results.cases.shape_verdict import is_narrow
from results.records.model_figures import model_figures
from results.records.records import ProcessInfo
from results.store.store import open_store
from roofline_model.core.finding import finding, short_text, stored_form
from roofline_model.operators.case import Case, case_title, is_model_case, op_title, pass_name


def judge(records, **more):
    """Return the verdict over the cases of the records."""
    return shape_verdict.judge(case_results(records), **more)


@pytest.fixture(scope="module")
def records():
    return model_run_records()


@pytest.fixture(scope="module")
def model(records):
    (model_result,) = model_results(case_results(records))
    return model_result


def of(model, label, phase="decode"):
    return next(
        model_pass for model_pass in model.passes if (model_pass.label, model_pass.figures.phase) == (label, phase)
    )


def test_cases_of_models_have_names_that_people_read(records):
    case = records[2].case
    assert is_model_case(case)
    assert op_title(case) == "seeded-llama-156m decode"
    assert case_title(case.op, case.shape) == "seeded-llama-156m, decode, batch 1, 128 tokens"
    assert (
        pass_name("prefill:m", (("B", 2), ("Sq", 8), ("Skv", 32))).title
        == "m, prefill, batch 2, 32 tokens, 8 of them new"
    )


def test_other_cases_keep_theirs():
    product = (("M", 1), ("N", 64), ("K", 32))
    assert case_title("gemv", product) == "gemv 1x64x32"
    assert case_title("softmax", ()) == "softmax"
    for op, shape in (("decode:m", product), ("decode:", (("B", 1), ("Sq", 1), ("Skv", 1))), ("decode", ())):
        assert pass_name(op, shape) is None


def test_precisions_stand_side_by_side_decode_first(model):
    assert model.title == "seeded-llama-156m, batch 1, 128 tokens"
    assert [phase.phase for phase in model.phases] == ["decode", "prefill"]
    assert list(model.by_label()) == ["BF16", "INT8 (W8A16)", "INT4 (W4A16)", "BF16 + INT8 KV"]
    assert [len(members) for members in model.by_label().values()] == [2, 2, 2, 1]


def test_rates_and_speedups_by_hand(model):
    int4, prefill = of(model, "INT4 (W4A16)"), of(model, "BF16", "prefill")
    assert int4.tokens_per_s == pytest.approx(1 / 5.2e-3)
    assert prefill.tokens_per_s == pytest.approx(128 / 84e-3)
    assert int4.measured_speedup == pytest.approx(12.9 / 5.2)
    base = of(model, "BF16")
    assert base.is_baseline
    assert int4.expected_speedup == pytest.approx(base.option.times.expected_s / int4.option.times.expected_s)
    assert int4.ideal_speedup == pytest.approx(base.option.times.ideal_s / int4.option.times.ideal_s)
    assert int4.figures.energy_j_per_token == pytest.approx(41 * 5.2e-3)
    assert prefill.figures.energy_j_per_token == pytest.approx(41 * 84e-3 / 128)


def test_a_narrow_cache_is_neither_16_bit_nor_the_baseline(records):
    # Faster than the 16-bit model itself by less than 5 %: it must not become what the others are compared with.
    judged = judge([records[0], model_record("BF16", "decode", 12.5e-3, kv="INT8")])
    assert judged.baseline.kernel == "transformers"
    assert judged.best.precision == "BF16 + INT8 KV"
    assert is_narrow(judged.best)
    assert judged.is_win


def ranking_of(model, phase="decode"):
    return model_ranking(model, next(each for each in model.phases if each.phase == phase), "cpu").ranking


def test_the_limit_of_loss_decides_and_a_faster_one_beyond_it_is_named(model):
    # INT4 is 2.5 times as fast, and its published loss reaches beyond the limit; INT8 is slower than BF16 here.
    ranking = ranking_of(model)
    assert ranking.choice.key == ranking.baseline.key
    (riskier,) = ranking.alternatives
    assert (riskier.role, riskier.option.label) == ("riskier", "INT4 (W4A16)")
    decode, prefill = verdict_lines(model)
    assert decode.startswith("decode: stay with BF16, ")
    assert "Faster, riskier: INT4 (W4A16), 2.5×, loss ≤ " in decode
    assert "perplexity" not in decode  # of random tokens it would be read as language
    assert prefill.startswith("prefill: stay with BF16, ")
    assert ranking_of(model, "prefill").alternatives == ()


def test_on_text_the_perplexity_is_said_and_a_missing_loss_too():
    measured = model_record(quality={"is_language": True, "text": "wiki.txt"}, median_s=5e-3)
    assert loss_text(model_figures(measured)).endswith("nats/token, perplexity 1.010× over 504 tokens of wiki.txt")
    unknown = model_record(quality={"source": "none", "reason": "no logits"}, median_s=5e-3)
    assert loss_text(model_figures(unknown)) == "its loss was not measured"
    notes = model_notes(model_results(case_results([unknown])))
    assert "no quality for INT4 (W4A16): no logits" in notes


def test_a_faster_one_within_the_limit_is_taken_beside_the_fastest(records):
    quick = model_record("INT8", "decode", 8e-3)
    (model,) = model_results(case_results([records[0], quick, records[2]]))
    ranking = ranking_of(model)
    assert ranking.choice.label == "INT8 (W8A16)"
    assert [(each.role, each.option.label) for each in ranking.alternatives][:1] == [("riskier", "INT4 (W4A16)")]
    assert verdict_lines(model)[0].startswith("decode: take INT8 (W8A16), measured 1.6× BF16 with this model, loss ")


def test_a_tie_is_no_win_and_doubts_are_said():
    model_records = [
        model_record("BF16", "decode", 10e-3, half_width_ratio=0.2),
        model_record("INT8", "decode", 9e-3, half_width_ratio=0.2, flags=("noisy",)),
    ]
    (model,) = model_results(case_results(model_records))
    assert ranking_of(model).choice.label == "BF16"
    assert model_results(case_results(model_records))[0].phases[0].judged.doubts == ("noisy",)


def test_what_ties_with_the_winner_and_loses_less_is_chosen():
    model_records = [
        model_record("BF16", median_s=13e-3),
        model_record("INT8", median_s=5.21e-3),
        model_record("INT4", median_s=5.2e-3),
    ]
    (model,) = model_results(case_results(model_records))
    (phase,) = model.phases
    assert phase.of(phase.judged.best).label == "INT8 (W8A16)"  # tied, and it loses less
    assert ranking_of(model).choice.label == "INT8 (W8A16)"


def test_unmeasured_precisions_are_ranked_by_expected_times_not_by_the_ideal_ones():
    model_records = [model_record(precision, "decode") for precision in ("BF16", "INT8", "INT4")]
    (model,) = model_results(case_results(model_records))
    int8, base = of(model, "INT8 (W8A16)"), of(model, "BF16")
    # An emulated INT8 is faster by its ideal time alone.
    assert int8.option.times.ideal_s < base.option.times.ideal_s
    assert int8.option.times.expected_s > base.option.times.expected_s
    ranked = [option.precision for option in model.phases[0].judged.options]
    assert ranked.index("INT8 (W8A16)") > ranked.index("BF16")
    assert int8.tokens_per_s is None
    assert int8.expected_tokens_per_s == pytest.approx(1 / int8.option.times.expected_s)


def test_one_without_an_expected_time_stands_behind_those_with_one():
    judged = judge([model_record("BF16"), model_record("INT8", has_expected=False)])
    assert [option.precision for option in judged.options] == ["BF16", "INT8 (W8A16)"]
    assert [option.estimate.source for option in judged.options] == ["expected", "ideal"]


def test_expected_parts_add_up_to_the_expected_time(model):
    for model_pass in model.passes:
        assert sum(time_s for _, time_s in model_pass.parts_s) == pytest.approx(model_pass.option.times.expected_s), (
            model_pass.label
        )
    assert dict(of(model, "INT8 (W8A16)").parts_s)["dequantize_weights"] > 0
    assert "host" not in dict(of(model, "INT4 (W4A16)").parts_s)  # of a GPU the device's time alone
    assert parts_text(of(model, "INT8 (W8A16)"), at_most=2).count(" (") == 2


def test_what_the_host_takes_longer_to_issue_is_found_per_phase(model):
    decode, prefill = model.phases
    assert decode.is_of_device
    assert slow_issue(decode.passes) == finding("issue-bound", call="decode step", issue_s=7.5e-3, label="INT4 (W4A16)")
    assert slow_issue(prefill.passes) is None
    faster = [
        model_record(precision, "decode", 1e-3, issue_s=issue_s)
        for precision, issue_s in (("BF16", 5e-3), ("INT8", 9e-3), ("INT4", 4e-3))
    ]
    (phase,) = model_results(case_results(faster))[0].phases
    assert slow_issue(phase.passes) == finding(
        "issue-bound", call="decode step", issue_s=4e-3, label="INT4 (W4A16)", most_s=9e-3, most_label="INT8 (W8A16)"
    )
    (alone,) = model_results(case_results(faster[:1]))[0].passes
    assert slow_issue([alone]) == finding("issue-bound", call="decode step", issue_s=5e-3)


def test_a_time_that_holds_the_host_is_not_called_the_gpu_s():
    (model,) = model_results(case_results([model_record("BF16", "decode", 1e-3), model_record("INT4", "decode", 1e-3)]))
    assert not model.phases[0].is_of_device
    assert slow_issue(model.passes) is None
    predicted = model_record("BF16", "decode", issue_s=5e-3)
    assert not model_results(case_results([predicted]))[0].phases[0].is_of_device


def test_emulated_fallbacks_and_random_tokens_are_explained_once(records):
    reason = finding("layer-stays-wide", "mlp.0", kind="format", format="BF16")
    fallen = model_record(
        "INT4", "decode", 5e-3, model={"fallbacks": [stored_form(reason)], "layers": {"INT4": 55, "BF16": 2}}
    )
    notes = model_notes(model_results(case_results([*records[:2], fallen])))
    assert sum("nothing about language" in note for note in notes) == 1
    assert any(note.startswith("~ emulated (INT8 (W8A16))") and "66.72 MB" in note for note in notes)
    assert f"INT4 (W4A16): not every layer took it (55 INT4, 2 BF16): {short_text(reason)}" in notes


def test_processes_are_pooled_and_a_failed_one_is_not_a_chip_of_its_own(records):
    second = replace(records[0], process=ProcessInfo(1), measurement=replace(records[0].measurement, median_s=13.1e-3))
    lost = replace(
        model_record("INT8", "decode", status="failed", reason="wrong logits"), predictions=(), measurement=None
    )
    (model,) = model_results(case_results([records[0], second, lost]))
    assert of(model, "BF16").measured_s == pytest.approx(math.sqrt(12.9e-3 * 13.1e-3))
    assert of(model, "INT8 (W8A16)").reason == "failed: wrong logits"
    assert of(model, "INT8 (W8A16)").option is None


def test_models_batches_and_contexts_are_kept_apart(records):
    other = model_record("BF16", "decode", 14e-3, batch=8)
    longer = model_record("BF16", "decode", 16e-3, context=512)
    assert [result.title for result in model_results(case_results([*records, other, longer]))] == [
        f"seeded-llama-156m, {sizes}" for sizes in ("batch 1, 128 tokens", "batch 8, 128 tokens", "batch 1, 512 tokens")
    ]


def test_other_records_are_passed_over(records):
    foreign = replace(records[0], case=Case("gemv", (("M", 1), ("N", 2), ("K", 3)), (("a", "BF16"),), "k"))
    bare = replace(records[0], extra={})
    assert model_results(case_results([foreign, bare])) == ()


def test_numbers_are_short():
    assert [nats_text(nats) for nats in (0.035, 2.8e-4, 6e-5, 0.0, 12.3)] == ["0.035", "2.8e-4", "6.0e-5", "0", "12"]
    assert [nats_text(nats, 1e-3) for nats in (9.1e-4, 1e-3)] == ["0.00091", "0.0010"]
    assert [tokens_text(rate) for rate in (4.333, 77.52, 1523.0, None)] == ["4.33", "77.5", "1,520", "–"]
    assert kl_text(model_figures(model_record("BF16", median_s=1e-2))) == "–"


def test_a_plan_and_a_method_are_named(records):
    plan = replace(records[2], case=replace(records[2].case, kernel="torchao.hqq.plan_mine"))
    plan = replace(plan, extra={**plan.extra, "model": {**plan.extra["model"], "precision": "plan", "method": "HQQ"}})
    (model,) = model_results(case_results([plan]))
    assert model.passes[0].label == "plan mine, HQQ"


def test_csv_and_frames_have_the_figures_in_columns_of_their_own(records, tmp_path):
    with open_store(tmp_path / "r.db") as store:
        store.begin_run(model_run())
        for number, record in enumerate(records):
            store.add_record(replace(record, record_id=f"{number:032x}"))
        rows = csv_rows(store, model_run().run_id)
    assert [float(row["tokens_per_s"]) for row in rows[:3]] == [
        pytest.approx(1 / TIMES_S["decode", name]) for name in ("BF16", "INT8", "INT4")
    ]
    assert [int(row["held_bytes"]) for row in rows[:3]] == list(HELD.values())
    assert [row["kl_nats_per_token"] for row in rows[:3]] == ["", "0.00028", "0.035"]
    assert rows[1]["is_emulated"] == "true"
    assert rows[1]["quality_is_language"] == "false"
    assert rows[0]["quality_is_language"] == ""
    assert float(rows[2]["kl_nats_per_token_high"]) == pytest.approx(0.03675)
