"""The pytest files themselves: collection, bad options, and the path of one case through a fixture that records."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import warm_start

import bench_cases
from bench_cases.kernels.products.catalog import cases_for
from bench_cases.kernels.spec import FILL
from bench_cases.shapes.products import Shape, resolve_shapes
from roofline_model import get_hardware

ROOT = Path(bench_cases.__file__).parents[1]


COLLECTED_MODULES = """
import sys, pytest
status = pytest.main(sys.argv[1:])
print("HEAVY", sorted({"torch", "torchao", "numpy", "pandas"} & set(sys.modules)))
sys.exit(int(status))
"""


def options_and_environment(tmp_path: Path, args: tuple[str, ...]) -> tuple[list[str], dict[str, str]]:
    options = [str(ROOT / "bench_cases"), "-q", "-p", "no:cacheprovider", "--rootdir", str(ROOT), *args]
    return options, {**os.environ, "PYTHONPATH": str(ROOT), "ROOFLINE_DB": str(tmp_path / "results.db")}


def run_pytest(tmp_path: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """Run pytest on bench_cases in a process of its own."""
    options, environment = options_and_environment(tmp_path, args)
    return warm_start.run("pytest", *options, cwd=tmp_path, env=environment)


def run_fresh_pytest(tmp_path: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """Run pytest on bench_cases in a fresh Python, which prints the heavy modules that it imported."""
    options, environment = options_and_environment(tmp_path, args)
    command = [sys.executable, "-c", COLLECTED_MODULES, *options]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=120)


def test_collecting_the_full_set_gives_thousands_of_cases_without_torch(tmp_path):
    done = run_fresh_pytest(tmp_path, "--collect-only", "--roofline-shapes", "full", "--roofline-device", "cpu")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    ids = [line for line in done.stdout.splitlines() if "::test_ge" in line]
    assert len(ids) == len(set(ids)) > 4000
    assert "HEAVY []" in done.stdout


def test_operators_without_cases_leave_no_placeholder(tmp_path):
    done = run_pytest(
        tmp_path,
        "--collect-only",
        "--roofline-shapes",
        "512x64x128",
        "--roofline-formats",
        "bf16",
        "--roofline-device",
        "cpu",
    )
    ids = [line.rpartition("::")[2] for line in done.stdout.splitlines() if "::test_" in line]
    assert ids == ["test_gemm[512x64x128-w16a16-BF16.BF16-matmul-cold]"]


def collected(tmp_path, *args):
    done = run_pytest(tmp_path, "--collect-only", "--roofline-device", "cpu", *args)
    return [line.rpartition("::")[2] for line in done.stdout.splitlines() if "::test_" in line]


def test_attention_and_operators_are_chosen_by_name(tmp_path):
    attention = collected(tmp_path, "-k", "attention")
    assert "test_attention[1x32x8x1x2048x128x0x0-BF16-sdpa_flash-cold]" in attention
    assert "test_unfused_attention[1x32x4x128x128x64x1x0-BF16-unfused-cold]" in attention
    assert {item.partition("[")[0] for item in attention} == {"test_attention", "test_unfused_attention"}
    assert collected(tmp_path, "-k", "softmax") == ["test_softmax[1024x4096-BF16-fused-cold]"]
    both = collected(tmp_path, "-k", "softmax", "--roofline-cache", "both", "--roofline-mode", "eager,sustained")
    assert len(both) == 4


def test_gemv_selects_what_it_always_did(tmp_path):
    test_ids = collected(tmp_path, "-k", "gemv")
    assert test_ids == [
        f"test_gemv[{spec.case.id}]" for spec in cases_for("cpu", resolve_shapes("quick")) if spec.case.op == "gemv"
    ]
    assert test_ids[0] == "test_gemv[1x4096x4096-w32a32-FP32.FP32-matmul-cold]"
    assert len(test_ids) == 28


def test_sizes_of_products_select_products_alone_and_pytest_says_so(tmp_path):
    assert {item.partition("[")[0] for item in collected(tmp_path, "--roofline-shapes", "1x64x128")} == {"test_gemv"}
    process = run_pytest(tmp_path, "--collect-only", "-v", "--roofline-device", "cpu", "--roofline-shapes", "1x64x128")
    assert "--roofline-shapes 1x64x128: sizes M×N×K are those of products" in process.stdout
    listed = ["--collect-only", "-v", "--roofline-device", "cpu"]
    assert "sizes M×N×K" not in run_pytest(tmp_path, *listed).stdout
    assert "sizes M×N×K" not in run_pytest(tmp_path, *listed, "-k", "gemv", "--roofline-shapes", "1x64x128").stdout
    nothing = run_pytest(tmp_path, *listed, "-k", "softmax", "--roofline-shapes", "1x64x128")
    assert "sizes M×N×K" in nothing.stdout
    assert nothing.returncode == 5  # pytest's own: no test is left


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--roofline-shapes", "quik"], "unknown shape set 'quik'. Did you mean quick?"),
        (["--roofline-shapes", "1x0x1"], "N must be a whole number"),
        (["--roofline-formats", "NF4"], "no cpu kernel has NF4 weights"),
        (["--roofline-formats", "FP9"], "unknown format 'FP9'"),
    ],
)
def test_bad_options_are_one_line_with_exit_code_2(tmp_path, args, message):
    done = run_pytest(tmp_path, "--roofline-device", "cpu", *args)
    assert done.returncode == 2
    errors = [line for line in (done.stdout + done.stderr).splitlines() if message in line]
    assert len(errors) == 1
    assert "Traceback" not in done.stdout + done.stderr


class RecordingFixture:
    """Stands in for the `roofline` fixture: checks the order of calls and runs the kernel as a runner would."""

    torch_device = "cpu"
    hardware = get_hardware("b10")

    def __init__(self, may_measure: bool = True):
        self.may_measure, self.declared, self.errors, self.facts = may_measure, [], [], {}

    def declare(self, case, work, *, unavailable=None, extra=None):
        self.declared.append((case, work, extra))
        if not self.may_measure:
            pytest.skip("this machine is another chip")

    def measure(self, fn, *, make_args, check, again):
        assert self.declared, "a case is declared before it is measured"
        self.errors = [check(fn(*make_args(index))) for index in (0, 1)]
        assert all(deviation.is_right for deviation in self.errors)

    def keep(self, **facts):
        assert self.errors, "facts about a call are known after it"
        self.facts |= facts


def spec_of(size, name):
    [spec] = [spec for spec in cases_for("cpu", [Shape(*size, origin="test")]) if spec.kernel.name == name]
    return spec


@pytest.mark.parametrize("name", ["int_mm", "int8pack", "int4pack", "scaled_mm_emulated"])
def test_a_case_is_declared_prepared_and_measured(name):
    pytest.importorskip("torch")
    from bench_cases.kernels.measured_case import measure_case

    fixture, spec = RecordingFixture(), spec_of((4, 64, 128), name)
    measure_case(fixture, spec)
    assert fixture.declared == [(spec.case, spec.work, {"fill": FILL, "origin": "test"})]
    assert len(fixture.errors) == 2
    operators = {"int_mm": "_int_mm", "int8pack": "_weight_int8pack_mm", "int4pack": "_weight_int4pack_mm_for_cpu"}
    ran = fixture.facts["ran"]
    assert ran["operator"].startswith(f"aten::{operators.get(name, '_scaled_mm')}")
    assert ran["seen_by"] == "torch-dispatcher"


def test_a_case_that_cannot_run_is_declared_and_skipped_with_the_reason():
    pytest.importorskip("torch")
    from bench_cases.kernels.measured_case import measure_case

    fixture = RecordingFixture()
    with pytest.raises(pytest.skip.Exception, match="small shapes only"):
        measure_case(fixture, spec_of((1, 4096, 4096), "scaled_mm_emulated"))
    assert len(fixture.declared) == 1
    assert fixture.errors == []


def test_a_prediction_needs_no_torch(tmp_path):
    """`declare` skips on a machine that must not measure, before anything of torch is imported."""
    code = textwrap.dedent("""
        import sys
        import pytest
        from bench_cases.kernels.products.catalog import cases_for
        from bench_cases.kernels.measured_case import measure_case
        from bench_cases.shapes.products import Shape
        from roofline_model import get_hardware

        class Fixture:
            hardware = get_hardware("gb10")

            def declare(self, case, work, *, unavailable=None, extra=None):
                pytest.skip("another chip")

        try:
            measure_case(Fixture(), cases_for("cuda", [Shape(1, 4096, 4096, "")])[0])
        except pytest.skip.Exception:
            print("skipped", sorted({"torch", "numpy"} & set(sys.modules)))
    """)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert done.stdout.strip() == "skipped []", done.stderr


def test_the_installed_package_can_be_run_from_anywhere(tmp_path):
    def collect(*args):
        command = ["-p", "roofline_pytest", "--pyargs", "bench_cases", "--collect-only", "-q"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        options = ["-p", "no:cacheprovider", "--roofline-device", "cpu", *args]
        return warm_start.run("pytest", *command, *options, env=environment, cwd=tmp_path)

    assert "::test_gemv[1x4096x4096-w32a32-FP32.FP32-matmul-cold]" in collect().stdout
    wrong = collect("--roofline-shapes", "quik")
    assert wrong.returncode == 2
    assert "unknown shape set 'quik'. Did you mean quick?" in wrong.stdout
    assert "Traceback" not in wrong.stdout
    assert "conftest.py:" not in wrong.stdout
