"""A pipeline from the model to the saved winner, with fake clocks: steps, resuming, refusals, nothing half-written."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

pytest.importorskip("torchao")
pytest.importorskip("transformers")

from pipeline_runs import FakeMeasure, cpu_chip, measured

from bench_cases.models.sources import load_model, seeded_llama
from bench_cases.pipeline.measure import MeasuredPair
from bench_cases.pipeline.run import PipelineSeams
from bench_cases.quantization import run_pipeline
from roofline_model.core.errors import DefinitionError, InvalidValueError, RooflineError, UnsupportedError

MODEL = "seeded-llama-1m"


def seams(measure, chip=None) -> PipelineSeams:
    return PipelineSeams(measure, lambda hw, case: chip or cpu_chip())


@pytest.fixture(autouse=True)
def _no_twins(monkeypatch):
    """The framework's own time is measured elsewhere; here it would cost seconds per test."""
    monkeypatch.setattr("bench_cases.pipeline.load.host_time", lambda *given: None)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A pipeline that ended: its result, its events, and what measured."""
    folder = tmp_path_factory.mktemp("pipeline") / "out"
    measure, events = FakeMeasure({"INT4": 2.0, "INT8": 0.7}), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bench_cases.pipeline.load.host_time", lambda *given: None)
        result = run_pipeline(
            MODEL, folder, formats=["INT8", "W4A16"], processes=2, progress=events.append, seams=seams(measure)
        )
    return result, events, measure


def test_the_winner_is_saved_and_computes_what_the_quantised_model_computes(finished):
    result, _, _ = finished
    assert (result.verdict.outcome, result.verdict.winner.key) == ("faster", "INT4")
    saved = load_model(str(result.folder / "model"))
    assert type(saved.model.lm_head.weight).__name__ == "Int4OpaqueTensor"
    assert result.saved.is_equal_after_reload
    assert result.saved.is_as_measured is False  # the fake's bytes are invented, and that is noticed
    assert ("vLLM", "no") in [engine[:2] for engine in result.saved.engines]
    assert not list(result.folder.glob(".*partial*"))


def test_what_was_measured_is_what_was_asked(finished):
    _, _, measure = finished
    assert {request.case.precision for request in measure.asked} == {"INT4", "INT8"}
    first = measure.asked[0]
    assert first.baseline.id == "decode-1x1x128-w16a16-BF16.BF16-transformers-warm"
    assert (first.processes_count, first.parameters_count, first.device) == (2, 524928, "cpu")
    assert first.label.startswith("pipeline-")


def test_reports_hold_the_figures_and_the_sentence(finished):
    result, _, _ = finished
    document = json.loads((result.folder / "report.json").read_text())
    assert (document["outcome"], document["recommendation"]) == ("faster", "INT4")
    (int4, int8) = document["candidates"]
    assert int4["measured_speedup"]["value"] == pytest.approx(2.0)
    assert int8["measured_speedup"]["value"] == pytest.approx(0.7)
    assert int4["quality"]["kl_nats_per_token"] == {"value": 0.02, "low": 0.018, "high": 0.022}
    page = (result.folder / "report.md").read_text()
    assert result.sentence[1:].partition(" [")[0] in page
    assert "| INT8 (W8A16) |" in page
    assert "slower" in page
    assert "vLLM" in page
    assert dict(result.run_ids)["INT4"][:8] in page


def test_progress_counts_steps_and_tells_the_time_left(finished):
    _, events, _ = finished
    assert [(event.kind, event.step_index) for event in events] == [
        (kind, index) for index in (1, 2, 3, 3, 4) for kind in ("begin", "end")
    ]
    assert ["(1 of 2)" in event.text for event in events[4:9:2]] == [True, False, False]
    assert "(2 of 2)" in events[6].text
    assert events[4].remaining_s > events[-2].remaining_s > 0 == events[-1].remaining_s


def test_the_same_command_measures_and_saves_nothing_again(finished):
    result, _, _ = finished
    before = (result.folder / "model" / "weights.pt").stat()
    measure, events = FakeMeasure({}), []
    again = run_pipeline(
        MODEL, result.folder, formats=["INT8", "W4A16"], processes=2, progress=events.append, seams=seams(measure)
    )
    assert not measure.asked
    assert {event.kind for event in events} == {"reused"}
    assert again.sentences == result.sentences
    assert (result.folder / "model" / "weights.pt").stat() == before


def test_other_settings_are_refused_by_name_and_change_nothing(finished):
    result, _, _ = finished
    before = (result.folder / "pipeline.json").read_bytes()
    with pytest.raises(InvalidValueError, match=r"other settings \(batch_count, latency_s\).*--fresh"):
        run_pipeline(MODEL, result.folder, formats=["INT8", "INT4"], processes=2, batch=4, max_latency_ms=3)
    assert (result.folder / "pipeline.json").read_bytes() == before


def test_a_slip_in_the_first_command_leaves_the_folder_free(tmp_path):
    with pytest.raises(UnsupportedError, match="no such folder"):
        run_pipeline("/no/such/model", tmp_path / "o")
    result = run_pipeline(MODEL, tmp_path / "o", formats=["INT8"], seams=seams(FakeMeasure({"INT8": 0.7})))
    assert result.verdict.outcome == "nothing-helps"


def test_an_interrupted_pipeline_goes_on_and_measures_only_the_rest(tmp_path):
    measure = FakeMeasure({"INT4": 0.8, "INT8": 0.7})

    def killed_at_the_second(request):
        if len(measure.asked) == 1:
            raise KeyboardInterrupt
        return measure(request)

    folder = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        run_pipeline(MODEL, folder, formats=["INT4", "INT8"], seams=seams(killed_at_the_second))
    (folder / ".model-partial").mkdir()  # what a kill inside the last step leaves
    (folder / ".pipeline.json-x1").write_text("{")  # and one inside a write
    rest = FakeMeasure({"INT4": 0.8, "INT8": 0.7})
    result = run_pipeline(MODEL, folder, formats=["INT4", "INT8"], seams=seams(rest))
    assert len(measure.asked) == len(rest.asked) == 1
    assert measure.asked[0].case.precision != rest.asked[0].case.precision
    assert (result.verdict.outcome, result.saved) == ("nothing-helps", None)
    assert "keep BF16" in result.sentence
    assert not (folder / "model").exists()
    assert not (folder / ".model-partial").exists()


def test_a_candidate_that_failed_is_tried_again_and_the_rest_is_not(tmp_path):
    fails_for_int8 = FakeMeasure({"INT4": 0.8, "INT8": 0.7}, failing=("INT8",))
    first = run_pipeline(MODEL, tmp_path / "o", formats=["INT4", "INT8"], seams=seams(fails_for_int8))
    assert [option.status for option in first.verdict.judged] == ["measured", "failed"]
    again = FakeMeasure({"INT8": 0.7})
    second = run_pipeline(MODEL, tmp_path / "o", formats=["INT4", "INT8"], seams=seams(again))
    assert [request.case.precision for request in again.asked] == ["INT8"]
    assert all(option.speedup is not None for option in second.verdict.judged)


def test_a_measurement_whose_file_is_gone_is_made_again(tmp_path):
    run_pipeline(MODEL, tmp_path / "o", formats=["INT8"], seams=seams(FakeMeasure({"INT8": 0.7})))
    (tmp_path / "o" / "runs" / "INT8.json").write_text("{")
    again = FakeMeasure({"INT8": 0.7})
    run_pipeline(MODEL, tmp_path / "o", formats=["INT8"], seams=seams(again))
    assert len(again.asked) == 1


def test_fresh_forgets_what_the_folder_held_and_nothing_else(tmp_path):
    folder = tmp_path / "out"
    run_pipeline(MODEL, folder, formats=["INT8"], seams=seams(FakeMeasure({"INT8": 0.7})))
    (folder / "notes.txt").write_text("mine")
    measure = FakeMeasure({"INT4": 0.9})
    run_pipeline(MODEL, folder, formats=["INT4"], fresh=True, seams=seams(measure))
    assert len(measure.asked) == 1
    assert (folder / "notes.txt").read_text() == "mine"


def test_nothing_is_measured_where_no_candidate_can_fit(tmp_path):
    measure = FakeMeasure({})
    result = run_pipeline(MODEL, tmp_path / "o", memory_limit_gb=1e-4, formats=["INT4", "INT8"], seams=seams(measure))
    assert (measure.asked, result.verdict.outcome, result.is_within_limits) == ([], "nothing-fits", False)
    assert "nearest: INT4 (W4A16) needs" in result.sentence
    assert "more than the limit of 100 kB" in result.sentence


def test_a_baseline_that_cannot_be_measured_ends_the_pipeline_with_its_reason(tmp_path):
    def skipped(request):
        base = measured("BF16", status="skipped", reason="it keeps no key-value cache")
        return MeasuredPair(base, measured("INT4", status="skipped"))

    with pytest.raises(UnsupportedError, match=r"BF16.*seeded-llama-1m.*key-value"):
        run_pipeline(MODEL, tmp_path / "o", formats=["INT4"], seams=seams(skipped))
    assert not any(
        name.startswith("measure") for name in json.loads((tmp_path / "o/pipeline.json").read_text())["steps"]
    )


def test_a_chip_that_is_not_this_machine_is_refused(tmp_path):
    gpu = replace(cpu_chip(), kind="gpu", key="some-gpu")
    with pytest.raises(UnsupportedError, match="some-gpu"):
        run_pipeline(MODEL, tmp_path / "o", hw="some-gpu", seams=seams(FakeMeasure({}), gpu))


# --- models that cannot be used


def saved_llama(folder, change):
    model = seeded_llama(MODEL)
    change(model)
    model.save_pretrained(folder)
    return str(folder)


def poison(model):
    with torch.no_grad():
        model.model.layers[1].mlp.up_proj.weight[3, 5] = float("nan")


def test_nan_weights_are_named_before_anything_is_measured(tmp_path):
    model = saved_llama(tmp_path / "model", poison)
    measure = FakeMeasure({})
    with pytest.raises(InvalidValueError, match=r"model\.layers\.1\.mlp\.up_proj holds NaN"):
        run_pipeline(model, tmp_path / "out", seams=seams(measure))
    assert not measure.asked
    assert json.loads((tmp_path / "out/pipeline.json").read_text())["steps"] == {}


def test_a_changed_model_folder_is_other_settings(tmp_path):
    model = saved_llama(tmp_path / "model", lambda model: None)
    run_pipeline(model, tmp_path / "out", formats=["INT8"], seams=seams(FakeMeasure({"INT8": 0.7})))
    saved_llama(tmp_path / "model", poison)
    with pytest.raises(InvalidValueError, match="model_files"):
        run_pipeline(model, tmp_path / "out", formats=["INT8"])


def test_a_quantised_model_is_no_start(tmp_path, finished):
    result, _, _ = finished
    with pytest.raises(UnsupportedError, match=r"Linear.*Int4OpaqueTensor.*16-bit"):
        run_pipeline(result.folder / "model", tmp_path / "out", seams=seams(FakeMeasure({})))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"model": "/no/such/folder"}, "no such folder"),
        ({"model": "seeded-llama-1mm"}, "Did you mean seeded-llama-1m"),
        ({"formats": ["INT5"]}, "unknown format"),
        ({"formats": ["BF16"]}, "it is the baseline in any case"),
        ({"formats": ["NF4"]}, "no Linear recipe for NF4"),
        ({"formats": ["FP8"]}, "cpu runs none of the formats asked for: FP8: torchao has no cpu kernel"),
        ({"formats": []}, "formats is empty"),
        ({"method": "GPTQ"}, "unknown method 'GPTQ'"),
        ({"candidates": 0}, "candidates must be a whole number from 1"),
        ({"processes": 1.5}, "processes must be a whole number"),
        ({"phase": "both"}, "phase must be prefill or decode"),
        ({"context": 4096}, "512"),
        ({"max_latency_ms": -1}, "latency limit must be a positive number"),
        ({"memory_limit_gb": float("nan")}, "memory limit must be a positive number"),
        ({"max_quality_loss": float("inf")}, "must be a percentage"),
        ({"text": "/no/such/text"}, "is not a file"),
    ],
)
def test_wrong_input_is_one_line(tmp_path, monkeypatch, given, message):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("bench_cases.models.sources._hub_answers", lambda: False)
    wanted = {"model": MODEL, "output": tmp_path / "out", "seams": seams(FakeMeasure({})), **given}
    with pytest.raises(RooflineError, match=message) as caught:
        run_pipeline(**wanted)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 900


# --- the folder


def test_a_folder_of_something_else_is_never_written_to(tmp_path):
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(InvalidValueError, match=r"holds thesis\.tex and no pipeline\.json"):
        run_pipeline(MODEL, tmp_path, fresh=True)
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(InvalidValueError, match="is a file"):
        run_pipeline(MODEL, tmp_path / "thesis.tex")


def test_a_damaged_state_is_said_and_kept(tmp_path):
    (tmp_path / "pipeline.json").write_text('{"version": 1, "settings"')
    with pytest.raises(DefinitionError, match=r"is damaged .*--fresh"):
        run_pipeline(MODEL, tmp_path)
    (tmp_path / "pipeline.json").write_text('{"version": 99, "settings": {}, "steps": {}}')
    with pytest.raises(DefinitionError, match="another release"):
        run_pipeline(MODEL, tmp_path)


def test_a_step_of_another_form_is_a_line_not_a_traceback(tmp_path):
    run_pipeline(MODEL, tmp_path / "o", formats=["INT8"], seams=seams(FakeMeasure({"INT8": 0.7})))
    state = json.loads((tmp_path / "o/pipeline.json").read_text())
    del state["steps"]["recommend"]["answer"]["baseline"]["key"]
    (tmp_path / "o/pipeline.json").write_text(json.dumps(state))
    with pytest.raises(DefinitionError, match="a step of another form"):
        run_pipeline(MODEL, tmp_path / "o", formats=["INT8"], seams=seams(FakeMeasure({})))


def test_two_pipelines_do_not_share_a_folder(tmp_path):
    fcntl = pytest.importorskip("fcntl")
    (tmp_path / "o").mkdir()
    with (tmp_path / "o/.pipeline.lock").open("a") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(InvalidValueError, match="another pipeline works in"):
            run_pipeline(MODEL, tmp_path / "o")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_one_line(tmp_path):
    (tmp_path / "locked").mkdir(mode=0o500)
    with pytest.raises(InvalidValueError, match="Permission"):
        run_pipeline(MODEL, tmp_path / "locked" / "out")


def test_a_full_disk_keeps_what_was_measured_and_no_half_model(tmp_path, monkeypatch):
    folder = tmp_path / "out"

    def full(state, place, **options):
        place.write_bytes(b"half of it")
        raise RuntimeError("[enforce fail at inline_container.cc:868] . PytorchStreamWriter failed writing file data/0")

    with monkeypatch.context() as patch:
        patch.setattr(torch, "save", full)
        with pytest.raises(InvalidValueError, match=r"the model cannot be written to .*free space"):
            run_pipeline(MODEL, folder, formats=["INT4"], seams=seams(FakeMeasure({"INT4": 2.0})))
    assert not (folder / "model").exists()
    assert not (folder / ".model-partial").exists()
    with monkeypatch.context() as patch:
        patch.setattr("shutil.disk_usage", lambda place: SimpleNamespace(free=1000))
        with pytest.raises(InvalidValueError, match="GB free, the model takes"):
            run_pipeline(MODEL, folder, formats=["INT4"], seams=seams(FakeMeasure({})))
    result = run_pipeline(MODEL, folder, formats=["INT4"], seams=seams(FakeMeasure({})))
    assert result.saved.is_equal_after_reload


def test_a_state_that_cannot_be_written_is_one_line_and_the_old_one_stays(tmp_path, monkeypatch):
    folder = tmp_path / "out"
    run_pipeline(MODEL, folder, formats=["INT8"], seams=seams(FakeMeasure({"INT8": 0.7})))
    before = (folder / "pipeline.json").read_bytes()

    def no_space(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", no_space)
    with pytest.raises(InvalidValueError, match="cannot be written: No space left on device; free space"):
        run_pipeline(MODEL, folder, formats=["INT8"], seams=seams(FakeMeasure({})))
    assert (folder / "pipeline.json").read_bytes() == before
    assert not list(folder.glob(".pipeline.json-*"))
