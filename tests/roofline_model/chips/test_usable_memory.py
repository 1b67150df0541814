"""Memory that a model can have: one function behind every `fits`, with a source for each part that is taken off."""

from __future__ import annotations

import pytest

import roofline_model as rm
from reports.present.predicted.advice import model_answer
from roofline_model.chips.hardware import list_hardware
from roofline_model.chips.usable_memory import memory_shares, usable_bytes
from roofline_model.predictions.batches import batch_curves

GB10 = rm.get_hardware("gb10")


@pytest.mark.parametrize("chip", [chip for chip in list_hardware() if chip.kind == "gpu" and chip.capacity], ids=str)
def test_every_gpu_keeps_a_share_for_others_with_its_source(chip) -> None:
    shares = memory_shares(chip)
    is_shared = any("unified" in note for note in (chip.capacity.note,))
    assert [share.name for share in shares] == (["system", "reserve", "engine"] if is_shared else ["driver", "engine"])
    assert all(share.size_bytes > 0 and share.source for share in shares)
    assert usable_bytes(chip) == chip.capacity.value - sum(share.size_bytes for share in shares)


def test_a_plan_that_leaves_the_system_nothing_does_not_fit_at_any_door() -> None:
    assert usable_bytes(GB10) < 0.9 * GB10.capacity.value < 123.9e9
    tight = rm.predict_model("gb10", "llama-3.1-70b", formats="FP8", batch=36)
    assert usable_bytes(GB10) < tight.memory.total_bytes < GB10.capacity.value
    assert tight.memory.fits is False
    ranking = rm.recommend_model("gb10", "llama-3.1-70b", formats=["FP8"], batch=36)
    assert "misses-memory-limit" in {
        item.code for each in ranking.excluded if each.key == "FP8_E4M3" for item in each.findings
    }
    points = [point for curve in batch_curves(GB10, rm.get_model("llama-3.1-70b")).curves for point in curve.points]
    assert max(point.memory_bytes for point in points) <= usable_bytes(GB10)


def test_a_headroom_counts_where_it_is_more_than_what_is_taken_anyway() -> None:
    whole = GB10.capacity.value
    assert usable_bytes(GB10, 0.05) == usable_bytes(GB10)
    assert usable_bytes(GB10, 0.5) == whole / 2


def test_an_engine_is_told_no_more_than_is_usable() -> None:
    ranking = rm.recommend_model("gb10", "gpt-oss-120b")
    command = model_answer(ranking, GB10).next_command
    share = float(command.split("--gpu-memory-utilization ")[1].split()[0])
    assert 0.85 < share <= (usable_bytes(GB10) + 1e9) / GB10.capacity.value
