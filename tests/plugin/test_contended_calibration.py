"""On a machine whose ceilings were measured beside other work kernels are measured, and nothing is predicted."""

from __future__ import annotations

import pytest

from bench_cases.models.model_cases import model_cases
from bench_cases.models.reference import find_model
from bench_cases.pipeline.pytest_run import find_chip
from plugin.calibrate.cpu_calibration import cache_file, cpu_fingerprint, write_cache
from plugin.machine.facts import find_machine
from results import open_store
from results.records.plain_form import read_findings
from roofline_model.chips.machine_constants import Calibration, Constant
from roofline_model.core.errors import UnsupportedError

SUITE = """
    import numpy as np
    from roofline_model import gemm

    a, b = np.ones((8, 64), np.float32), np.ones((64, 32), np.float32)

    def test_product(roofline):
        result = roofline.measure(
            np.matmul, make_args=lambda i: (a.copy(), b.copy()), work=gemm(8, 32, 64, a="FP32"), reference=a @ b
        )
        assert result.median_s > 0
        assert (result.prediction, result.expected) == (None, None)
"""


MODEL = """
    from roofline_model.models.decoder_step import Workload
    from roofline_model.models.format_plan import plan_from_text
    from roofline_model.models.model_pass import ModelPass
    from roofline_model.models.model_registry import get_model

    shape = get_model("llama-3-8b")
    work = ModelPass(shape, Workload.of("decode", 1, 128), plan_from_text("BF16", shape))

    def test_model(roofline):
        assert roofline.declare(work.case("decode:llama", "eager"), work) is None
        roofline.refine(work)
        roofline.measure(lambda: 1, check=lambda output: 0.0)
"""


@pytest.fixture(autouse=True)
def contended_machine(monkeypatch, tmp_path):
    """This machine, with ceilings that were measured beside other work."""
    monkeypatch.setenv("ROOFLINE_CACHE", str(tmp_path / "cache"))
    machine = find_machine()
    fingerprint = cpu_fingerprint(machine)
    contended = Calibration(
        measured_at="2026-11-27T08:00:00+00:00",
        subject=machine.cpu_name,
        kind="cpu",
        dram={"read": Constant("B/s", 1e6, 1e6, 1e6, 0.5, 3)},
        peaks={"FP32": Constant("FLOP/s", 1e6, 1e6, 1e6, 0.5, 3)},
        disturbed_by=("contended",),
        fingerprint=fingerprint,
    )
    write_cache(cache_file("cpu", fingerprint), contended, print)


def measured(pytester, *options):
    """Run pytest here; return the run and its only record."""
    options += ("-p", "no:cacheprovider", "--roofline-db", "r.db", "--roofline-device", "cpu", "--roofline-no-canary")
    result = pytester.runpytest_inprocess(*options, "--roofline-max-seconds", "0.02", "--roofline-isolate", "none")
    result.assert_outcomes(passed=1)
    with open_store(pytester.path / "r.db", read_only=True) as store:
        [run] = store.runs()
        [record] = store.records(run.run_id)
    return run, record


def test_a_suite_is_measured_and_the_run_says_why_nothing_is_predicted(pytester):
    pytester.makepyfile(test_kernels=SUITE)
    run, record = measured(pytester, "--roofline-cache", "warm")  # whatever the size of this machine's cache
    assert (record.status, record.predictions) == ("measured", ())
    codes = [item.code for item in read_findings(run.environment.facts["warnings"])]
    assert codes.count("ceilings-contended") == 1


def test_a_whole_model_is_measured_without_a_prediction(pytester):
    pytester.makepyfile(test_model=MODEL)
    _, record = measured(pytester)
    assert (record.status, record.predictions) == ("measured", ())


def test_a_pipeline_says_in_one_line_why_it_cannot_rank():
    case = model_cases(find_model("seeded-llama-1m"), "cpu", "quick", formats=("BF16",))[0]
    with pytest.raises(UnsupportedError, match=r"^nothing is predicted .*other work ran meanwhile.*roofline calibrate"):
        find_chip("auto", case)
