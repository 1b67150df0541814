"""The whole-model answer is one that somebody who serves models would give: kernels that exist, certain times, stated losses."""

from __future__ import annotations

import pytest

from roofline_model.recommend.model import recommend_model
from roofline_model.units import format_time

CHIPS = ("gb10", "h100", "h200", "b200", "a100", "orin")


@pytest.fixture(scope="module")
def answers():
    return {
        (chip, phase): recommend_model(chip, "llama-3.1-8b", phase=phase)
        for chip in CHIPS
        for phase in ("decode", "prefill")
    }


@pytest.mark.parametrize(
    ("chip", "decode", "prefill"),
    [
        ("h100", {"FP8_E4M3", "fp8_balanced"}, {"FP8_E4M3", "fp8_balanced"}),
        ("h200", {"FP8_E4M3", "fp8_balanced"}, {"FP8_E4M3", "fp8_balanced"}),
        ("b200", {"FP8_E4M3", "fp8_balanced"}, {"NVFP4"}),
        ("gb10", {"NVFP4", "INT4.BF16"}, {"NVFP4"}),
        ("a100", {"INT4.BF16"}, {"INT8.INT8"}),
        ("orin", {"INT4.BF16"}, {"INT8.INT8"}),
    ],
)
def test_what_an_expert_would_take(answers, chip, decode, prefill):
    assert answers[chip, "decode"].chosen.label in decode
    assert answers[chip, "prefill"].chosen.label in prefill


def test_no_ranked_plan_lacks_a_kernel_and_each_narrow_one_names_its_own(answers):
    for (chip, _), found in answers.items():
        for one in found.candidates:
            assert one.kernel_gap == "", (chip, one.label)
            assert bool(one.kernels) == (one.kind != "baseline"), (chip, one.label)
    refused = {one.label: one.reason for one in answers["h100", "decode"].excluded}
    assert refused["nvfp4_blackwell"].startswith("no released attention kernel reads a NVFP4 cache")
    assert answers["b200", "decode"].candidate("nvfp4_blackwell").kernels.endswith("NVFP4 KV attention (trtllm-gen)")


def test_a_slower_plan_is_never_taken_without_a_reason(answers):
    for found in answers.values():
        faster = [
            one for one in found.candidates if one.time_s < found.chosen.time_s and one.quality.loss_pct is not None
        ]
        for one in faster:
            assert one.prudent_s > found.chosen.prudent_s or one.quality.loss_pct >= found.chosen.quality.loss_pct
        if faster:
            assert any(f"expected faster than {found.chosen.label} (" in note for note in found.notes)
            assert any("and not taken: " in note and faster[0].label in note for note in found.notes)


def test_a_claimed_loss_is_stated_with_what_loses_less(answers):
    notes = answers["a100", "decode"].notes
    said = next(note for note in notes if note.startswith("the loss of INT4.BF16 is claimed: 5.8 % (AWQ)"))
    assert "measure it on yours" in said
    assert answers["a100", "decode"].gentler.candidate.label == "INT8.INT8"
    strict = recommend_model("a100", "llama-3.1-8b", max_loss_pct=1)
    assert strict.chosen.label == "INT8.BF16"
    big = recommend_model("orin", "llama-3.1-70b")
    assert (big.chosen.label, big.chosen.quality.text) == (
        "INT4.BF16",
        "claimed: 12.3-14.6 % (AWQ); tasks 0.6-2.6 % (GPTQ)",
    )


def test_a_plan_that_is_named_is_weighed_last_without_a_kernel():
    found = recommend_model("h100", "llama-3.1-8b", formats=["NVFP4.BF16.NVFP4", "INT8.BF16"], strategies=[])
    assert found.candidates[-1].label == "NVFP4.BF16.NVFP4"
    assert "reads a NVFP4 cache" in found.candidates[-1].kernel_gap
    assert any(note.startswith("warning: NVFP4.BF16.NVFP4 stands last: no released") for note in found.notes)
    only = recommend_model("h100", "llama-3.1-8b", formats=["NVFP4.BF16.NVFP4"], strategies=[], max_latency_s=5e-3)
    assert only.chosen is None  # all that runs is too slow
    would = f"NVFP4.BF16.NVFP4 would take {format_time(only.candidates[0].time_s)}, if a serving kernel existed: no released"
    assert str(only).startswith(f"nothing runs within the limits; {would}")


def test_a_slowdown_is_called_one():
    found = recommend_model("h100", "llama-3.1-8b", phase="prefill", memory_limit_bytes=7.5e9)
    assert found.chosen.speedup < 1
    assert "x speedup" not in str(found)
    assert "the speed of BF16, needed because BF16 misses the limits" in str(found)


def test_a_published_checkpoint_stays_unless_clearly_slower_and_its_own_format_has_no_loss():
    found = recommend_model("gb10", "gpt-oss-20b")
    assert found.chosen.label == "checkpoint"
    assert any("checkpoint is published as it is, without a loss" in note for note in found.notes)
    narrower = found.candidate("MXFP4.BF16")  # its experts are as published, its attention is not
    assert narrower.quality.text == "claimed: at most 13.7 % (MXFP4.BF16, but for parts published so)"


def test_an_interval_that_ends_with_another_goes_by_the_expected_time():
    found = recommend_model("h100", "llama-3.1-70b")
    int4, fp8 = found.candidate("INT4.BF16"), found.candidate("FP8_E4M3")
    assert int4.prudent_s < fp8.prudent_s
    assert found.candidates.index(int4) < found.candidates.index(fp8)


def test_a_checkpoint_that_was_published_narrow_is_taken_where_nothing_is_faster():
    found = recommend_model("h100", "gpt-oss-20b")
    assert (found.chosen.label, found.chosen.quality.loss_pct) == ("checkpoint", 0.0)
    assert found.chosen.kernels == "Marlin FP4 W4A16"
    assert found.chosen.time_s <= 1.05 * min(one.time_s for one in found.candidates)
