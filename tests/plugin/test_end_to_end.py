"""The whole pipeline in a fresh pytest, on the simulated device: from a test function to the database and the table."""

from __future__ import annotations

import json

import pytest

from results import open_store
from roofline_model.core.finding import has_code

SUITE = """
    import numpy as np
    import pytest
    from roofline_model import NumberFormat, OpCost, gemm, register_format

    A = np.ones((8, 64), np.float32)
    B = np.ones((64, 32), np.float32)

    def product(a, b):
        return a @ b

    def test_good(roofline):
        found = roofline.measure(
            product, make_args=lambda i: (A.copy(), B.copy()), work=gemm(8, 32, 64, a="FP32"), reference=A.astype(float) @ B
        )
        assert found.prediction.time_s > 0
        assert found.error_ratio == pytest.approx((found.prediction.time_s - found.median_s) / found.median_s)

    def test_wrong(roofline):
        roofline.measure(product, args=(A, B), work=gemm(8, 32, 64, a="FP32"), reference=np.ones((8, 32)))

    def test_not_a_number(roofline):
        roofline.measure(lambda: np.array([np.nan]), reference=np.array([1.0]), work=OpCost(read_bytes=8))

    def test_raises(roofline):
        def broken():
            raise RuntimeError("no kernel image\\nsecond line")
        roofline.measure(broken, work=OpCost(read_bytes=8))

    def test_out_of_memory(roofline):
        def hungry():
            raise MemoryError("wanted 1 TiB")
        roofline.measure(hungry, work=OpCost(read_bytes=8))

    def test_skips(roofline):
        roofline.declare(gemm(1, 8, 8, a="FP32").case("mine"), gemm(1, 8, 8, a="FP32"))
        pytest.skip("needs a newer library")

    def test_unsupported_format(roofline):
        wide = gemm(1, 8, 8, a=register_format(NumberFormat("FP24", "float", 24)))
        roofline.declare(wide.case("mine"), wide)

    def test_fails_after_measuring(roofline):
        found = roofline.measure(lambda: None, work=OpCost(read_bytes=1e6), name="late")
        assert found.median_s < 0
"""
SIMULATED = (
    "--hw",
    "b10",
    "--roofline-timer",
    "simulated:noise=0.01,efficiency=0.5",
    "--roofline-db",
    "r.db",
    "-p",
    "no:cacheprovider",
)


def records_of(pytester):
    with open_store(pytester.path / "r.db", read_only=True) as store:
        run = store.runs()[0]
        return run, {record.test_id.rpartition("::")[2]: record for record in store.records(run.run_id)}


@pytest.fixture
def suite(pytester):
    pytester.makepyfile(test_kernels=SUITE)
    return pytester


def test_every_outcome_is_stored_with_its_reason(suite):
    result = suite.runpytest_inprocess(*SIMULATED)
    assert result.ret == 1
    run, records = records_of(suite)
    assert (run.status, run.exit_code, run.hardware_key) == ("complete", 1, "b10")
    assert {name: record.status for name, record in records.items()} == {
        "test_good": "measured",
        "test_wrong": "failed",
        "test_not_a_number": "failed",
        "test_raises": "failed",
        "test_out_of_memory": "failed",
        "test_skips": "skipped",
        "test_unsupported_format": "skipped",
        "test_fails_after_measuring": "measured",
    }
    assert records["test_wrong"].reason.startswith("before timing: relative error 63")
    assert "NaN or Inf" in records["test_not_a_number"].reason
    assert records["test_raises"].reason == "RuntimeError: no kernel image"
    assert records["test_out_of_memory"].reason == "out of memory: wanted 1 TiB"
    assert records["test_skips"].reason == "needs a newer library"
    assert "b10 has no rate for FP24" in records["test_unsupported_format"].reason
    assert "assert" in records["test_fails_after_measuring"].extra["test_failure"]


def test_a_wrong_result_is_one_line_and_a_foreign_error_keeps_its_traceback(suite):
    lines = suite.runpytest_inprocess(*SIMULATED, "-k", "wrong or raises").outlines
    titles = [at for at, line in enumerate(lines) if line.startswith("___")]
    wrong, raises = (next(at for at in titles if name in lines[at]) for name in ("test_wrong", "test_raises"))
    assert lines[wrong + 1].startswith("before timing: relative error 63")
    assert wrong + 2 in titles
    assert any("RuntimeError: no kernel image" in line for line in lines[raises + 2 :])
    assert any(line.startswith(">") for line in lines[raises:])  # the source line
    # Who asks for tracebacks gets them.
    lines = suite.runpytest_inprocess(*SIMULATED, "-k", "wrong", "--tb", "short").outlines
    assert any("in test_wrong" in line for line in lines)


def test_measured_row_has_prediction_error_bound_and_null_for_the_rest(suite):
    suite.runpytest_inprocess(*SIMULATED, "-k", "test_good")
    _, records = records_of(suite)
    record = records["test_good"]
    ideal, measured = record.ideal, record.measurement
    assert record.case.id == "8x32x64-w32a32-FP32.FP32-test_good-cold"
    assert ideal.bound == "memory"
    assert ideal.error_ratio == pytest.approx(-0.5, abs=0.02)  # efficiency 0.5: the ideal is half the measured time
    assert measured.median_s == pytest.approx(2 * ideal.time_s, rel=0.02)
    assert (measured.power_w, measured.energy_j, measured.sm_clock_hz) == (None, None, None)
    assert "simulated" in measured.flags
    assert measured.max_error < 1e-6
    assert record.method.timer == "simulated"


def test_table_verdict_and_counts_are_printed_within_100_columns(suite):
    result = suite.runpytest_inprocess(*SIMULATED, "-k", "good or wrong")
    result.stdout.fnmatch_lines(
        [
            "roofline: b10 (*) * run * r.db",
            "gemv 8x32x64 · cold*",
            "  FP32 *test_good*memory*",
            "failed: 1 case: before timing: *",
            "simulated: 1 case: *",
            "1 measured, 1 failed · run * r.db",
        ]
    )
    assert "PytestBenchmarkWarning" not in result.stdout.str()
    section = result.stdout.str().partition("= roofline =")[2].partition("short test summary")[0]
    assert max(len(line) for line in section.splitlines()[1:]) <= 100


def test_other_chip_is_predicted_skipped_and_green(suite):
    result = suite.runpytest_inprocess("--hw", "h200", "--roofline-db", "r.db", "-k", "good")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["roofline: predictions only: this machine is *, not h200-sxm"])
    _, records = records_of(suite)
    record = records["test_good"]
    assert (record.status, record.measurement) == ("predicted", None)
    assert record.ideal.hardware_key == "h200-sxm"
    assert record.ideal.error_ratio is None


def test_required_measurements_fail_a_green_night(suite):
    result = suite.runpytest_inprocess(
        "--hw", "h200", "--roofline-db", "r.db", "-k", "good", "--roofline-require-measured"
    )
    assert result.ret == 1
    result.stdout.fnmatch_lines(["ERROR: --roofline-require-measured=1: only 0 measured"])
    assert suite.runpytest_inprocess(*SIMULATED, "-k", "good", "--roofline-require-measured=1").ret == 0
    assert suite.runpytest_inprocess(*SIMULATED, "-k", "good", "--roofline-require-measured=2").ret == 1


def test_forced_measuring_is_marked_in_run_and_record(suite):
    result = suite.runpytest_inprocess(
        "--hw",
        "h200",
        "--roofline-force-measure",
        "--roofline-db",
        "r.db",
        "-k",
        "good",
        "--roofline-cache",
        "warm",  # cold needs a rotation of twice the last cache, which is 260 MB on some CPUs
        "--roofline-max-seconds",
        "0.1",
    )
    assert result.ret == 0
    run, records = records_of(suite)
    assert run.is_forced
    assert "forced" in records["test_good"].measurement.flags


def test_a_run_that_stopped_early_is_not_complete(suite):
    assert suite.runpytest_inprocess(*SIMULATED, "-x").ret == 1
    run, records = records_of(suite)
    assert run.status == "interrupted"
    assert list(records) == ["test_good", "test_wrong"]


def test_predict_only_measures_nothing_even_here(suite):
    result = suite.runpytest_inprocess("--hw", "b10", "--roofline-predict-only", "--roofline-db", "r.db", "-k", "good")
    assert result.ret == 0
    assert records_of(suite)[1]["test_good"].reason == "--roofline-predict-only"


def test_nothing_selected_names_the_nearest(suite):
    result = suite.runpytest_inprocess(*SIMULATED, "-k", "goood")
    assert result.ret == 5
    result.stdout.fnmatch_lines(["-k 'goood' selects none of 8 cases; nearest: test_good*"])


def test_json_of_a_run_replays_to_the_same_numbers(suite):
    suite.runpytest_inprocess(*SIMULATED, "-k", "good", "--roofline-json", "out/run.json")
    first = records_of(suite)[1]["test_good"]
    document = json.loads((suite.path / "out" / "run.json").read_text())
    assert document["schema_version"] >= 1
    result = suite.runpytest_inprocess(
        "--hw", "b10", "--roofline-timer", "replay:out/run.json", "--roofline-db", "r.db", "-k", "good"
    )
    assert result.ret == 0
    again = records_of(suite)[1]["test_good"]
    assert again.measurement.samples_s == first.measurement.samples_s[: len(again.measurement.samples_s)]
    assert again.method.method_hash != first.method.method_hash


def test_pytest_benchmark_shows_our_samples_and_its_options_work(suite):
    result = suite.runpytest_inprocess(*SIMULATED, "-k", "good", "--benchmark-json", "b.json")
    document = json.loads((suite.path / "b.json").read_text())
    (entry,) = document["benchmarks"]
    measured = records_of(suite)[1]["test_good"].measurement
    assert entry["stats"]["data"] == pytest.approx(list(measured.samples_s), rel=1e-12)
    assert entry["stats"]["rounds"] == measured.sample_count
    result.stdout.fnmatch_lines(["Name (time in *) * Min * Median * Max * Rounds*"])
    skipped = suite.runpytest_inprocess(*SIMULATED, "-k", "good", "--benchmark-skip")
    skipped.assert_outcomes(skipped=1)
    only = suite.runpytest_inprocess(*SIMULATED, "-k", "good", "--benchmark-only")
    only.assert_outcomes(passed=1)


@pytest.mark.parametrize("switch", [("--benchmark-disable",), ("-p", "no:benchmark"), ("-n", "1")])
def test_without_pytest_benchmark_we_measure_all_the_same(suite, switch):
    result = suite.runpytest_inprocess(*SIMULATED, "-k", "good", *switch)
    result.assert_outcomes(passed=1)
    assert records_of(suite)[1]["test_good"].measurement is not None


def test_compare_stores_each_kernel_as_a_case(pytester):
    pytester.makepyfile(
        """
        import numpy as np
        from roofline_model import gemm

        def test_mine(roofline):
            x = np.ones((4, 4), np.float32)
            found = roofline.compare(
                {"mine": lambda a: a @ a, "other": lambda a: np.dot(a, a)}, args=(x,), work=gemm(4, 4, 4, a="FP32"), reference=x @ x
            )
            assert set(found) == {"mine", "other"}
        """
    )
    result = pytester.runpytest_inprocess(*SIMULATED)
    result.assert_outcomes(passed=1)
    with open_store(pytester.path / "r.db", read_only=True) as store:
        kernels = [record.case.kernel for record in store.records(store.runs()[0].run_id)]
    assert kernels == ["mine", "other"]


def test_two_measurements_need_two_names(pytester):
    pytester.makepyfile(
        """
        def test_twice(roofline):
            roofline.measure(lambda: None, name="a")
            roofline.measure(lambda: None, name="b")
            roofline.measure(lambda: None, name="a")
        """
    )
    result = pytester.runpytest_inprocess(
        "--roofline-max-seconds", "0.05", "--hw", "b10", "--roofline-force-measure", "--roofline-db", "r.db"
    )
    result.stdout.fnmatch_lines(["*'a' was measured in this test already; give each measurement its own name=*"])
    with open_store(pytester.path / "r.db", read_only=True) as store:
        assert [record.case.kernel for record in store.records(store.runs()[0].run_id)] == ["a", "b"]


def test_marker_gives_defaults_and_refuses_unknown_words(pytester):
    pytester.makepyfile(
        """
        import pytest
        from roofline_model import OpCost

        @pytest.mark.roofline(work=OpCost(read_bytes=1e6), name="copy")
        def test_marked(roofline):
            assert roofline.measure(lambda: None).prediction.read_bytes == 1e6

        @pytest.mark.roofline(wrok=1)
        def test_misspelt(roofline):
            pass
        """
    )
    result = pytester.runpytest_inprocess(*SIMULATED)
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*the roofline marker has no argument 'wrok'; known: work, name, tolerance*"])


def test_options_of_one_process_are_refused_under_xdist(suite):
    for option in ("--roofline-require-measured=1", "--roofline-json=o.json"):
        result = suite.runpytest_inprocess(*SIMULATED, "-n", "1", option)
        assert result.ret == 2
        result.stderr.fnmatch_lines(["ERROR: *need one process: under xdist*"])


def test_json_may_not_overwrite_a_database(suite):
    assert suite.runpytest_inprocess(*SIMULATED, "-k", "good").ret == 0
    result = suite.runpytest_inprocess(*SIMULATED, "-k", "good", "--roofline-json", "r.db")
    assert result.ret == 2
    result.stderr.fnmatch_lines(["ERROR: --roofline-json 'r.db' is a results database*"])
    assert records_of(suite)[1]["test_good"].status == "measured"


def test_json_may_not_overwrite_what_is_no_export(suite):
    source = suite.path / "src.py"
    source.write_text("precious = 1\n")
    result = suite.runpytest_inprocess(*SIMULATED, "-k", "good", "--roofline-json", "src.py")
    assert result.ret == 2
    result.stderr.fnmatch_lines(["ERROR: --roofline-json 'src.py' is there already and no export*remove it, or*"])
    assert source.read_text() == "precious = 1\n"
    (suite.path / "run.json").touch()  # empty: mktemp made it
    for _ in range(2):
        assert suite.runpytest_inprocess(*SIMULATED, "-k", "good", "--roofline-json", "run.json").ret == 0
    assert (suite.path / "run.json").stat().st_size > 200


def test_without_the_warnings_plugin_it_works_too(suite):
    suite.runpytest_inprocess(*SIMULATED, "-k", "good", "-p", "no:warnings").assert_outcomes(passed=1)


def test_a_record_says_that_no_constants_describe_its_gpu_kernel(pytester):
    pytester.makepyfile(
        test_kernels="""
        import pytest
        from roofline_model import gemm

        @pytest.mark.parametrize("kernel", ["matmul", "dequant_emulated", "mine"])
        def test_it(roofline, kernel):
            work = gemm(1, 64, 64, a="BF16")
            roofline.declare(work.case(kernel), work)
            roofline.measure(lambda: None)
        """
    )
    pytester.runpytest_inprocess(
        "--hw", "h200", "--roofline-predict-only", "--roofline-db", "r.db", "-p", "no:cacheprovider"
    )
    stored = records_of(pytester)[1]
    missing = stored["test_it[dequant_emulated]"]
    assert missing.expected is None
    assert ("no-expected-time", "dequant_emulated") in {(item.code, item.subject) for item in missing.ideal.findings}
    for name in ("test_it[matmul]", "test_it[mine]"):
        assert stored[name].expected is not None
        assert not has_code(stored[name].ideal.findings, "no-expected-time")
