"""What a model case cannot do is a skip with its reason; only a wrong result fails."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from bench_cases.models import measure_model as measuring
from bench_cases.models.measure_model import HEADROOM_RATIO, _has_room_for_both, measure_model, pass_bytes_of
from bench_cases.models.model_cases import model_cases
from bench_cases.models.reference import find_model
from plugin.samples.correctness import WrongResultError
from roofline_model.core.errors import DefinitionError, InvalidValueError, UnsupportedError
from roofline_model.core.finding import reason_text

SMALL = find_model("seeded-llama-1m")


class Roofline:
    """The part of the fixture that a case meets before it measures."""

    hardware = SimpleNamespace(kind="cpu", key="this-chip")
    torch_device = "cpu"

    def __init__(self, free_bytes=None):
        self.free_bytes = free_bytes
        self.declared = SimpleNamespace()

    def declare(self, case, work, *, unavailable=None, extra=None):
        self.declared = SimpleNamespace(case=case, work=work, unavailable=unavailable)
        if unavailable:
            pytest.skip(reason_text(unavailable))


def cases(batch, context):
    return {
        case.phase: case
        for case in model_cases(SMALL, "cpu", "quick", formats=("BF16",), batches=(batch,), contexts=(context,))
    }


@pytest.mark.parametrize(
    ("batch", "context", "phase", "message"),
    [
        (1, 513, "decode", "context 513 is more than seeded-llama-1m declares"),
        (1, 513, "prefill", "context 513 is more than"),
        (999_999_999, 512, "prefill", "from 1 to 1,000,000,000"),
    ],
)
def test_sizes_that_the_model_or_a_kernel_has_not_are_declared_with_the_reason(batch, context, phase, message):
    roofline = Roofline()
    with pytest.raises(pytest.skip.Exception, match=message):
        measure_model(roofline, cases(batch, context)[phase])
    assert roofline.declared.work is None


def test_a_pass_takes_ids_logits_and_the_cache():
    ids, logits, cache = 128 * 8, 128 * 512 * 2, 2 * 2 * 128 * 2 * 32 * 2  # 2 layers, keys and values, 2 heads of 32
    assert pass_bytes_of(cases(2, 64)["decode"]) == ids + logits + cache
    unknown = model_cases(find_model("nobody/none"), "cpu", "quick", batches=(3,), contexts=(64,))[0]
    assert pass_bytes_of(unknown) == 3 * 64 * 8


def test_a_pass_without_room_is_refused_with_both_figures():
    case = cases(1_000_000, 512)["decode"]
    needed = pass_bytes_of(case)
    assert _has_room_for_both(case, needed * 1.01 / HEADROOM_RATIO, 0, needed)
    with pytest.raises(UnsupportedError, match=r"1,000,000 × 512.*791 GB.*9 GB"):
        _has_room_for_both(case, 1e10, 0, needed)


def test_a_batch_without_room_is_a_skip_before_anything_is_loaded(monkeypatch):
    monkeypatch.setattr("bench_cases.models.held_models.load_model", lambda *a, **k: pytest.fail("loaded"))
    with pytest.raises(pytest.skip.Exception, match="take a smaller batch or context"):
        measure_model(Roofline(1e10), cases(1_000_000, 512)["decode"])


@pytest.mark.parametrize(
    ("error", "becomes"),
    [
        (DefinitionError("a.json: odd"), pytest.skip.Exception),
        (InvalidValueError("a NaN"), pytest.skip.Exception),
        (UnsupportedError("no"), pytest.skip.Exception),
        (WrongResultError("relative error 1 exceeds"), WrongResultError),
    ],
)
def test_every_reason_of_ours_is_a_skip_and_a_wrong_result_stays_a_failure(monkeypatch, error, becomes):
    def fail(*_):
        raise error

    monkeypatch.setattr(measuring, "_measure", fail)
    with pytest.raises(becomes, match=str(error)):
        measure_model(Roofline(), cases(1, 64)["decode"])
