"""Whole models: measured times, held memory and measured loss; the loss of a losses file or a claim where no run
measured one.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from reports.present.words.ranking_text import excluded_texts
from roofline_model.operators.case import Case, PassName
from roofline_model.recommend.search.losses_file import MeasuredLosses

NAME = "tiny"
KL = {"value": 0.02, "low": 0.018, "high": 0.022}
WIDE, INT4, INT8 = ("BF16", "BF16"), ("INT4", "BF16"), ("INT8", "BF16")


@pytest.fixture
def passes(make, stored_run):
    """A run of a night with passes of a model: {(weight, activation): seconds}, some with a measured quality."""

    def of(day: int, times_s, *, phase: str = "decode", quality=(), held=None):
        run, _ = stored_run(day, {})
        sizes = (("B", 1), ("Sq", 1 if phase == "decode" else 128), ("Skv", 128))
        records = []
        for number, ((weight, activation), time_s) in enumerate(times_s.items()):
            formats = (("a", activation), ("b", weight), ("kv", "BF16"))
            case = Case(f"{phase}:{NAME}", sizes, formats, "transformers", "warm")
            record = make.record(
                (1, 64, 64),
                weight,
                activation,
                "k",
                time_s,
                device=make.GPU,
                number=day * 100 + number + (50 if phase == "prefill" else 0),
                run_id=run.run_id,
            )
            is_wide = weight == "BF16"
            quality_facts = {"source": "reference"} if is_wide else {"source": "none", "reason": "nobody looked"}
            if (weight, activation) in quality:
                quality_facts = {
                    "source": "measured",
                    "kl_nats_per_token": KL,
                    "perplexity_ratio": {"value": 1.01},
                    "top1_agreement_ratio": {"value": 0.9},
                    "tokens_count": 504,
                    "text": "a text",
                    "is_language": True,
                }
            extra = {
                "model": {
                    "name": NAME,
                    "precision": weight,
                    "phase": phase,
                    "method": "" if is_wide else "round-to-nearest",
                },
                "tokens_per_call": 1,
                "quality": quality_facts,
                "memory": {"original_bytes": 200, "held_bytes": (held or {}).get(weight, 200), "cache_bytes": 10},
            }
            records.append(replace(record, case=case, extra=extra))
        return run, records

    return of


def test_a_model_is_ranked_by_phase_with_held_memory_and_measured_loss(passes, recommend) -> None:
    assert PassName(NAME, "decode", 1, 1, 128).title == "tiny, decode, batch 1, 128 tokens"
    run, decode = passes(1, {WIDE: 20e-3, INT4: 8e-3}, quality=(INT4,), held={"INT4": 60})
    prefill = passes(1, {WIDE: 30e-3, INT4: 60e-3}, phase="prefill", held={"INT4": 60})[1]
    advice = recommend([(run, decode + prefill)])
    assert [
        (ranking.question.subject, ranking.question.phase, ranking.question.name) for ranking in advice.rankings
    ] == [
        ("model", "decode", "tiny, decode, batch 1, 128 tokens"),
        ("model", "prefill", "tiny, prefill, batch 1, 128 tokens"),
    ]
    best = advice.rankings[0].first
    assert (best.label, best.memory.total_bytes, best.memory.is_measured, best.memory.saved_ratio) == (
        "INT4 (W4A16)",
        70,
        True,
        pytest.approx(0.7),
    )
    assert best.loss.source == "measured"
    assert (best.loss.pct, best.loss.kl_nats_per_token, best.loss.top1_agreement_ratio) == (
        pytest.approx(1.0),
        0.02,
        0.9,
    )
    assert best.loss.run_id == run.run_id
    assert best.tokens_per_s == pytest.approx(125)
    # Quality is the model's: measured in decode, it is known of prefill.
    assert advice.rankings[1].options[1].loss.source == "measured"
    assert [
        ranking.question.phase
        for ranking in recommend([(run, decode + prefill)], phase="prefill", model="TINY").rankings
    ] == ["prefill"]
    assert recommend([(run, decode + prefill)], phase="prefill").rankings[0].options[1].loss.source == "measured"


def test_a_loss_is_taken_from_a_file_else_claimed_and_a_limit_holds_against_it(passes, recommend) -> None:
    nights = [passes(1, {WIDE: 20e-3, INT4: 8e-3, INT8: 12e-3})]
    values = {
        (f"layers.{layer}.{part}", "INT4.FP16"): 0.001
        for layer in range(2)
        for part in ("qkv_proj", "o_proj", "gate_up_proj", "down_proj")
    }
    values |= {("lm_head", "INT4.FP16"): 5.0, ("layers.0.kv", "INT8"): 5.0}
    losses = MeasuredLosses(values, NAME, "kl", text="a text", tokens_count=2048)
    rows = {row.label: row for row in recommend(nights, losses=(losses,)).rankings[0].options}
    assert rows["INT4 (W4A16)"].loss.source == "measured"
    assert rows["INT4 (W4A16)"].loss.kl_nats_per_token == pytest.approx(0.008), "head and cache stay wide"
    assert rows["INT8 (W8A16)"].loss.source == "claimed"
    [ranking] = recommend(nights, losses=(losses,), max_loss_pct=1).rankings
    assert [row.label for row in ranking.options] == ["INT4 (W4A16)", "INT8 (W8A16)", "BF16"]
    [strict] = recommend(nights, losses=(losses,), max_loss_pct=0.1).rankings
    assert "loses 0.2 %, the limit is 0.1 %" in [reason for _, reason in excluded_texts(strict)]
    others = MeasuredLosses(values, "another", "kl", text="a text", tokens_count=2048)
    assert recommend(nights, losses=(others,)).rankings[0].first.loss.source == "claimed"


def test_the_newest_measured_loss_counts(passes, recommend, make) -> None:
    first, second = (
        passes(1, {WIDE: 20e-3, INT4: 8e-3}, quality=(INT4,)),
        passes(2, {WIDE: 20e-3, INT4: 8e-3}, quality=(INT4,)),
    )
    [newer] = [record for record in second[1] if record.case.formats[1] == ("b", "INT4")]
    better = {**newer.extra["quality"], "kl_nats_per_token": {"value": 0.01}, "perplexity_ratio": {"value": 1.002}}
    changed = [
        replace(record, extra={**record.extra, "quality": better}) if record is newer else record
        for record in second[1]
    ]
    best = recommend([first, (second[0], changed)]).rankings[0].first
    assert (best.loss.kl_nats_per_token, best.loss.run_id) == (0.01, second[0].run_id)
