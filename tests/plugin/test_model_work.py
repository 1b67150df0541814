"""A pass of a whole model through the fixture: declared, refined with what was found, stored with its facts."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path

import pytest
import warm_start

from results import open_store
from results.records.model_figures import model_figures
from roofline_model.core.finding import finding

SUITE = """
    from dataclasses import replace

    import pytest
    from roofline_model.models.decoder_step import Workload
    from roofline_model.models.format_plan import plan_from_text
    from roofline_model.models.model_pass import LinearPath, ModelPass
    from roofline_model.models.model_registry import get_model

    shape = get_model("llama-3-8b")
    work = ModelPass(shape, Workload.of("decode", 2, 512), plan_from_text("INT4.BF16", shape))

    def test_measured(roofline):
        ideal = roofline.declare(work.case("decode:llama", "torchao"), work, extra={"model": {"precision": "INT4", "phase": "decode"}, "tokens_per_call": 2})
        assert ideal.time_s > 0
        roofline.keep({"memory": {"held_bytes": 10, "cache_bytes": 5}}, quality={"source": "none", "reason": "nobody looked"})
        roofline.keep(memory={"held_bytes": 20, "cache_bytes": 5})
        roofline.refine(replace(work, paths=(LinearPath("INT4", "BF16", "BF16", source="a library that decodes"),)))
        roofline.measure(lambda: 1)

    def test_keep_before_declare(roofline):
        roofline.keep(a=1)

    def test_keep_what_json_cannot_hold(roofline):
        roofline.declare(work.case("decode:llama", "other"), work)
        roofline.keep(a=float("nan"))

    def test_refine_without_a_case(roofline):
        roofline.refine(work)
"""


@pytest.fixture(scope="module")
def stored(tmp_path_factory, request):
    """Run the suite once on a simulated H100; return what pytest printed, and the records by test."""
    folder = tmp_path_factory.mktemp("model_work")
    (folder / "test_model.py").write_text(textwrap.dedent(SUITE))
    options = "-p no:cacheprovider --roofline-db r.db --hw h100-sxm --roofline-timer simulated --roofline-no-canary -q"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = warm_start.run("pytest", *options.split(), "test_model.py", cwd=folder, env=environment)
    with open_store(folder / "r.db", read_only=True) as store:
        records = store.records(store.runs()[0].run_id)
    return done.stdout, {record.test_id.rpartition("::")[2]: record for record in records}


def test_the_refined_prediction_is_the_one_that_is_stored(stored):
    record = stored[1]["test_measured"]
    assert record.status == "measured"
    assert record.expected is not None
    assert dict(record.expected.terms_s)["dequantize"] > 0
    assert finding("library-path", source="a library that decodes") in record.expected.findings
    assert record.expected.model_version.endswith("+pass-3")
    assert record.ideal is not None
    assert record.ideal.time_s < 1e-2


def test_facts_are_kept_and_later_ones_win(stored):
    figures = model_figures(stored[1]["test_measured"])
    assert figures is not None
    assert (figures.held_bytes, figures.cache_bytes, figures.resident_bytes) == (20, 5, 25)
    assert (figures.quality_source, figures.quality_reason) == ("none", "nobody looked")
    assert figures.tokens_per_s == pytest.approx(2 / stored[1]["test_measured"].measurement.median_s)
    assert (figures.batch_count, figures.context_count, figures.kv_format) == (2, 512, "BF16")


def test_slips_are_one_line(stored):
    text = stored[0]
    assert "keep: nothing is declared yet; call declare(case, work) first" in text
    assert "keep must hold JSON values only" in text
    assert "refine: no declared case waits to be measured" in text
