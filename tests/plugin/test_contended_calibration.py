"""On a machine whose ceilings were measured beside other work kernels are measured, and nothing is predicted."""

from __future__ import annotations

from plugin.calibrate.cpu_calibration import cache_file, cpu_fingerprint, write_cache
from plugin.machine.facts import find_machine
from results import open_store
from results.records.plain_form import read_findings
from roofline_model.chips.machine_constants import Calibration, Constant

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


def test_a_suite_is_measured_and_the_run_says_why_nothing_is_predicted(pytester, monkeypatch, tmp_path):
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
    pytester.makepyfile(test_kernels=SUITE)
    options = ("-p", "no:cacheprovider", "--roofline-db", "r.db", "--roofline-device", "cpu", "--roofline-no-canary")
    options += ("--roofline-cache", "warm")  # whatever the size of this machine's cache
    result = pytester.runpytest_inprocess(*options, "--roofline-max-seconds", "0.02", "--roofline-isolate", "none")
    result.assert_outcomes(passed=1)
    with open_store(pytester.path / "r.db", read_only=True) as store:
        [run] = store.runs()
        [record] = store.records(run.run_id)
    assert (record.status, record.predictions) == ("measured", ())
    codes = [item.code for item in read_findings(run.environment.facts["warnings"])]
    assert codes.count("ceilings-contended") == 1
