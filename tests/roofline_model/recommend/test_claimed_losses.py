"""The table of published losses: every number has a source, methods differ, and every ranking reads this one table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reports.present.predicted.advice import model_answer
from reports.present.predicted.words import loss_texts
from roofline_model.chips.hardware import get_hardware
from roofline_model.core.finding import first_with, has_code
from roofline_model.formats.catalog import FORMATS
from roofline_model.recommend.loss import (
    CACHE_LOSSES,
    CACHE_METHOD,
    CLAIMED_LOSSES,
    LOSSES_BESIDE,
    PERPLEXITY,
    TASKS,
    ClaimedLoss,
    claimed_cache_loss,
    claimed_loss_of,
    formats_loss,
    loss_beside,
)
from roofline_model.recommend.model import recommend_model
from roofline_model.recommend.ranking import MAX_LOSS_PCT
from roofline_model.recommend.shape import recommend_quantization


def test_every_row_has_a_source_a_range_and_a_known_format():
    for loss in (*CLAIMED_LOSSES, *CACHE_LOSSES, *LOSSES_BESIDE):
        assert loss.weights in FORMATS
        assert 0 <= loss.low_pct <= loss.high_pct
        assert len(loss.source) > 30, loss
        assert any(
            sign in loss.source
            for sign in ("arXiv", "pytorch/ao", "RaZeR", "vllm-project", "auto-round", "NVIDIA", "model card")
        ), loss
    for table in (CLAIMED_LOSSES, LOSSES_BESIDE):
        rows = [(row.weights, row.is_both, row.method, row.models) for row in table]
        assert len(set(rows)) == len(rows)


@pytest.mark.parametrize(
    ("low", "high", "pairs"),
    [
        ("INT4", "AWQ", [(5.60, 5.47), (4.97, 4.88), (3.41, 3.32), (6.54, 6.14), (6.60, 6.24), (4.67, 4.60)]),
        ("INT4", "GPTQ", [(5.63, 5.47), (3.43, 3.32), (6.56, 6.14), (4.68, 4.60)]),
        ("NVFP4", "RTN", [(7.56, 7.21), (11.73, 11.05), (9.12, 8.56), (7.73, 7.46), (6.05, 5.69)]),
        ("MXFP4", "RTN", [(8.14, 7.21), (12.31, 11.05), (9.44, 8.56), (8.48, 7.46), (6.41, 5.69)]),
        ("INT8", "RTN", [(7.34, 7.33), (9.28, 9.26)]),
        ("FP8_E4M3", "RTN", [(7.37, 7.33), (9.31, 9.26)]),
    ],
)
def test_ranges_are_those_of_the_perplexities_in_the_sources(low, high, pairs):
    loss = claimed_loss_of(low, is_both=False, method=high)
    rises = [100 * (narrow / wide - 1) for narrow, wide in pairs]
    assert (loss.low_pct, loss.high_pct) == (round(min(rises), 1), round(max(rises), 1))


def test_a_figure_of_the_model_itself_goes_before_the_range_over_several():
    qserve = {"llama-3-8b": (6.14, 6.54), "llama-3.1-8b": (6.24, 6.60)}
    for model, (wide, narrow) in qserve.items():
        loss = claimed_loss_of("INT4", is_both=False, model=model)
        assert loss.low_pct == loss.high_pct == round(100 * (narrow / wide - 1), 1)
    for general in CLAIMED_LOSSES:
        rises = [
            round(100 * (float(narrow) / float(wide) - 1), 1)
            for wide, narrow in re.findall(r"(\d+\.\d\d) to (\d+\.\d\d)", general.source)
        ]
        for model, low_pct, high_pct in general.pct_by_model:
            assert general.low_pct <= low_pct <= high_pct <= general.high_pct
            if general.metric == "perplexity" and rises:
                assert low_pct in rises, (model, general)
            of_model = claimed_loss_of(
                general.weights, is_both=general.is_both, method=general.method, model=model.upper()
            )
            assert (of_model.low_pct, of_model.high_pct, of_model.models) == (low_pct, high_pct, model)
    assert claimed_loss_of("INT4", is_both=False, model="mistral-7b") == claimed_loss_of("INT4", is_both=False)


def test_the_notes_say_of_which_model_the_claims_are():
    def whose(model):
        findings = recommend_model("h100", model, max_loss_pct=16.0).findings
        return {item.value("kind"): item.value("options") for item in findings if item.code == "losses-published"}

    assert whose("llama-3.1-8b")["others"] == ("fp8_balanced",)
    assert whose("llama-3.1-70b")["model"] == ("INT4.BF16", "INT8.INT8")
    assert set(whose("mistral-7b")) == {"others"}
    ranking = recommend_model("h100", "llama-3.1-8b", max_loss_pct=16.0)
    assert ranking.option("INT8.INT8").loss.is_of_model
    assert not ranking.option("fp8_balanced").loss.is_of_model  # the claim of its cache is of other models


def test_a_sum_over_two_metrics_says_so():
    ranking = recommend_model("gb10", "llama-3.1-8b", batch=16, context=32768)
    option = ranking.option("fp8_balanced")
    added = dict(first_with(option.findings, "loss-adds-metrics").values)
    assert (added["metric"], added["cache_metric"]) == (PERPLEXITY, TASKS)
    assert option.loss.pct == added["formats_pct"] + added["cache_pct"]
    # Formats and cache of one metric, or no narrow cache: nothing to say.
    assert not has_code(ranking.option("MXFP8_E4M3").findings, "loss-adds-metrics")
    cache_alone = recommend_model("gb10", "llama-3.1-8b", formats=["BF16.BF16.FP8_E4M3"], strategies=[])
    assert not has_code(cache_alone.option("BF16.BF16.FP8_E4M3").findings, "loss-adds-metrics")
    beside = dict(first_with(option.findings, "loss-in-other-metric").values)
    assert beside["metric"] == TASKS
    perplexity, tasks, *_ = loss_texts(option)  # each metric has its own column, and the answer's sentence says both
    assert perplexity.rstrip("*") == f"≤ {added['formats_pct']:.3g} %"
    assert tasks == f"≤ {beside['high_pct'] + added['cache_pct']:.3g} %"
    sentence = model_answer(ranking, get_hardware("gb10")).sentence
    assert f"{added['formats_pct']:.3g} % and task accuracy falls by" in sentence


def test_methods_schemes_and_models_are_told_apart():
    awq = claimed_loss_of("INT4", is_both=False)
    assert (awq.low_pct, awq.high_pct, awq.method) == (1.5, 6.5, "AWQ")
    assert (
        claimed_loss_of("INT4", is_both=False, method="RTN").low_pct > claimed_loss_of("INT4", is_both=False).high_pct
    )
    assert claimed_loss_of("INT8", is_both=True).method == "PTQ"
    assert claimed_loss_of("INT8", is_both=True, method="SmoothQuant").high_pct == 3.2
    assert claimed_loss_of("INT8", is_both=False).high_pct < claimed_loss_of("INT8", is_both=True).low_pct
    of_llama = claimed_loss_of("INT4", is_both=False, model="Llama-3.1-70B")
    assert (of_llama.low_pct, of_llama.high_pct, of_llama.method) == (12.3, 14.6, "AWQ")
    assert claimed_loss_of("INT4", is_both=False, model="llama-2-70b").high_pct == 6.5
    assert claimed_loss_of("NF4", is_both=False) is None
    # 7.5472 to 8.44, and to 7.60 and 7.61, of word perplexity.
    nvfp4, mxfp8 = (claimed_loss_of(key, is_both=True) for key in ("NVFP4", "MXFP8_E4M3"))
    assert nvfp4.method == mxfp8.method == "RTN"
    assert nvfp4.high_pct == pytest.approx(100 * (8.44 / 7.5472 - 1), abs=0.05)
    ends = [100 * (perplexity / 7.5472 - 1) for perplexity in (7.60, 7.61)]
    assert [mxfp8.low_pct, mxfp8.high_pct] == pytest.approx(ends, abs=0.05)


@pytest.mark.parametrize("model", ["llama-3-70b", "llama-3.1-70b", "llama-3.1-8b", "llama-3.2-3b", "qwen2.5-7b"])
def test_a_figure_of_the_very_model_goes_first_whatever_its_method(model):
    for key, is_both in {(claimed_loss.weights, claimed_loss.is_both) for claimed_loss in CLAIMED_LOSSES}:
        rows = [
            claimed_loss
            for claimed_loss in CLAIMED_LOSSES
            if (claimed_loss.weights, claimed_loss.is_both) == (key, is_both)
        ]
        of_model = {
            row.method for row in rows if model in (*row.models.split(), *(name for name, *_ in row.pct_by_model))
        }
        claim = claimed_loss_of(key, is_both=is_both, model=model)
        assert claim is None or bool(claim.models) == bool(of_model), (key, is_both)
        assert not of_model or claim.method in of_model
    loss = recommend_model("h100", "llama-3.1-70b", max_loss_pct=16.0).option("INT8.INT8").loss
    assert (loss.low_pct, loss.pct, loss.method) == (10.2, 14.9, "SmoothQuant")


def test_a_claim_is_of_perplexity_wherever_one_was_published():
    """One number ranks and is held against the limit: it has one meaning as far as the sources go."""
    of_tasks = {
        (claimed_loss.weights, claimed_loss.is_both) for claimed_loss in CLAIMED_LOSSES if claimed_loss.metric == TASKS
    }
    weights_with_loss = {
        (loss.weights, loss.is_both) for loss in (*CLAIMED_LOSSES, *LOSSES_BESIDE) if loss.metric == PERPLEXITY
    }
    assert not of_tasks & weights_with_loss
    ranking = recommend_model("gb10", "llama-3.1-70b", max_loss_pct=8)
    missed = {exclusion.key: exclusion for exclusion in ranking.excluded}["NVFP4"]
    assert (missed.finding.value("value_pct"), missed.finding.value("limit_pct")) == (11.8, 8.0)
    assert missed.option.loss.metric == PERPLEXITY
    assert ranking.choice.key == "NVFP4.BF16"
    cached = recommend_model("h100", "llama-3.1-8b", formats=["BF16.BF16.FP8_E4M3"], strategies=[], max_loss_pct=0.5)
    missed = {exclusion.key: exclusion for exclusion in cached.excluded}["BF16.BF16.FP8_E4M3"]
    assert (missed.finding.code, missed.option.loss.metric) == ("misses-loss-limit", TASKS)


def test_what_stands_beside_a_claim_is_of_the_other_metric_and_ranks_nothing():
    for loss in LOSSES_BESIDE:
        assert loss.metric != claimed_loss_of(loss.weights, is_both=loss.is_both, model=loss.models).metric
    # 99.4 and 97.4 % of OpenLLM v1 and v2 recovered.
    published = (
        loss_beside("INT4", is_both=False, model="Llama-3.1-70B"),
        loss_beside("INT8", is_both=True, model="llama-3.1-8b"),
        loss_beside("NVFP4", is_both=True),
    )
    ranges = [(loss.metric, loss.low_pct, loss.high_pct, loss.method) for loss in published]
    assert ranges == [(TASKS, 0.6, 2.6, "GPTQ"), (TASKS, 0, 0, "GPTQ"), (TASKS, 1.1, 6.2, "PTQ")]
    assert loss_beside("INT4", is_both=False, model="mistral-7b") is None
    ranking = recommend_model("h100", "llama-3.1-70b", max_loss_pct=16.0)
    assert ranking.option("INT4.BF16").loss.pct == 14.6
    beside = next(item for item in ranking.option("INT4.BF16").findings if item.code == "loss-in-other-metric")
    assert (beside.value("metric"), beside.value("low_pct"), beside.value("high_pct")) == (TASKS, 0.6, 2.6)
    assert "99.4 and 97.4 %" in beside.value("citation")
    assert not has_code(ranking.option("INT8.BF16").findings, "loss-in-other-metric")


def range_text(loss: ClaimedLoss) -> str:
    """Return a range as the document has it; one whose ends agree is one number."""
    of = "" if loss.metric == PERPLEXITY else f" of {loss.metric}"
    if loss.high_pct == 0:
        return f"no loss{of}"
    if loss.low_pct == 0:
        # Of a cache a bound was published; of others the scores, the best of which lost nothing.
        return f"{'under' if loss.method == CACHE_METHOD else 'up to'} {loss.high_pct:g} %{of}"
    return f"{loss.high_pct:g} %{of}" if loss.low_pct == loss.high_pct else f"{loss.low_pct:g}-{loss.high_pct:g} %{of}"


def test_the_document_has_every_row():
    text = (Path(__file__).parents[3] / "docs" / "theory" / "quality.md").read_text(encoding="utf-8")
    legend = dict(re.findall(r"^- \*\*(\[[A-Z]\])\*\* (.+)$", text, re.MULTILINE))
    for mark, source in legend.items():  # a source of several rows is written once
        text = text.replace(mark, source)
    for loss in (*CLAIMED_LOSSES, *CACHE_LOSSES, *LOSSES_BESIDE):
        assert f"{range_text(loss)} |" in text, loss
        assert loss.source in text, loss
        for model, _, _ in loss.pct_by_model if loss in CLAIMED_LOSSES else ():
            percent = range_text(claimed_loss_of(loss.weights, is_both=loss.is_both, method=loss.method, model=model))
            assert re.search(
                rf"^\| {re.escape(model)} \|.*[| ]{re.escape(percent.removesuffix(' of task accuracy'))}", text, re.M
            )


def test_eight_bit_schemes_keep_the_default_limit_and_four_bit_ones_of_a_70b_do_not():
    for key, is_both in (("FP8_E4M3", True), ("FP8_E4M3", False), ("INT8", True), ("INT8", False)):
        weights = claimed_loss_of(key, is_both=is_both).high_pct
        assert weights + claimed_cache_loss("FP8_E4M3").high_pct <= MAX_LOSS_PCT, key
    for key, is_both in (("INT4", False), ("NVFP4", True)):
        assert claimed_loss_of(key, is_both=is_both, model="llama-3.1-70b").low_pct > MAX_LOSS_PCT


def test_operators_without_weights_lose_nothing_in_sixteen_bits_and_an_unknown_amount_below():
    attention = {"q": "BF16", "kv": "BF16", "o": "BF16"}
    assert formats_loss(attention.items()).source == "reference"
    assert formats_loss((attention | {"kv": "FP8_E4M3"}).items()).pct is None
    assert formats_loss([("x", "BF16"), ("o", "INT8")]).pct is None
    # The output of a product adds nothing; nothing is known of a format that nobody loaded, nor without formats.
    assert formats_loss([("a", "BF16"), ("b", "BF16"), ("c", "FP8_E4M3")]).pct == 0
    assert [formats_loss(formats).pct for formats in ([("b", "MINE")], [])] == [None, None]


@pytest.mark.parametrize("chip", ["a100", "h100"])
def test_shape_model_and_stored_rankings_say_the_same_of_a_format(chip):
    shape = {
        (dict(option.formats)["b"], dict(option.formats)["a"]): option.loss
        for option in recommend_quantization(chip, 1, 4096, 4096, formats=["BF16", "INT8", "INT4"]).options
    }
    model = {option.key: option.loss for option in recommend_model(chip, "mistral-7b", max_loss_pct=16.0).options}
    for weight, activation, label in (("INT8", "INT8", "INT8.INT8"), ("INT4", "BF16", "INT4.BF16")):
        expected = claimed_loss_of(weight, is_both=weight == activation)
        assert (shape[weight, activation].low_pct, shape[weight, activation].pct) == (
            expected.low_pct,
            expected.high_pct,
        )
        assert model[label].pct == formats_loss([("a", activation), ("b", weight)]).pct == expected.high_pct
        assert (model[label].low_pct, model[label].method) == (expected.low_pct, expected.method)
