"""The example suite as a kernel author gets it: copied out of the checkout, run by a pytest of its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import warm_start

from results import open_store

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "your_own_kernel"
SIMULATED = ("--hw", "b10", "--roofline-timer", "simulated")


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"} | {"COLUMNS": "110"}
    options = ("-p", "roofline_pytest", "-p", "no:cacheprovider", "-ra", *arguments)
    return warm_start.run("pytest", *options, cwd=folder, env=environment | {"PYTHONPATH": str(ROOT)})


def records_in(database: Path):
    with open_store(database, read_only=True) as store:
        return store.records(store.resolve_run("latest").run_id)


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    """A copy that sees neither our pyproject.toml nor our conftest.py."""
    folder = tmp_path_factory.mktemp("their_project") / "tests"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns(".roofline", "__pycache__", ".pytest_cache"))
    return folder


def test_torch_examples_pass_and_are_stored_with_their_work(suite, tmp_path):
    done = run_pytest(suite, "test_torch_kernel.py", *SIMULATED, "--roofline-db", str(tmp_path / "r.db"))
    assert done.returncode == 0, done.stdout[-3000:]
    assert "7 passed" in done.stdout
    records_by_case = {
        (r.case.op, r.case.shape_label, r.case.kernel, r.case.cache): r for r in records_in(tmp_path / "r.db")
    }
    assert set(records_by_case) == {
        ("gemv", "1x4096x4096", "linear", "cold"),
        ("gemv", "1x1024x1024", "linear", "warm"),
        ("rms_norm", "1x4096", "mine", "warm"),
        ("rms_norm", "1x4096", "torch", "warm"),
        ("rms_norm", "512x4096", "mine", "warm"),
        ("rms_norm", "512x4096", "torch", "warm"),
        ("batched_gemm", "8x16x512x512", "bmm", "cold"),
        ("grouped_gemm", "4x128x1024x512", "one_by_one", "cold"),
        ("custom", "", "residual_in_place", "cold"),
    }
    for record in records_by_case.values():
        assert record.status == "measured"
        assert record.ideal.time_s > 0
        assert 0 <= record.measurement.max_error <= record.measurement.tolerance  # each has a reference
        assert "simulated" in record.measurement.flags
    # By hand: 2·512·4096 elements of 2 bytes and the gain; the expert without tokens reads no weight.
    assert records_by_case["rms_norm", "512x4096", "mine", "warm"].ideal.total_bytes == 2 * 512 * 4096 * 2 + 4096 * 2
    experts = records_by_case["grouped_gemm", "4x128x1024x512", "one_by_one", "cold"].ideal
    assert experts.total_bytes == 2 * (128 * 512 + 3 * 512 * 1024 + 128 * 1024)
    assert experts.flops == 2 * 128 * 1024 * 512


def test_triton_example_says_why_it_skips_and_keeps_the_case(suite, tmp_path):
    done = run_pytest(suite, "test_triton_kernel.py", *SIMULATED, "--roofline-db", str(tmp_path / "r.db"))
    assert done.returncode == 0, done.stdout[-3000:]
    stored = records_in(tmp_path / "r.db")
    assert {(r.case.shape_label, r.case.kernel) for r in stored} == {
        (shape, kernel) for shape in ("8x4096", "4096x4096") for kernel in ("triton", "torch")
    }
    for record in stored:
        assert record.ideal is not None
        if record.status == "skipped":
            assert record.reason.startswith(("triton is not installed", "a Triton kernel needs a GPU"))
            assert record.reason in done.stdout
        else:  # a machine that has both
            assert record.status == "measured"


def test_another_chip_is_predicted_by_every_example(suite, tmp_path):
    done = run_pytest(suite, "--hw", "orin", "--roofline-db", str(tmp_path / "r.db"))
    assert done.returncode == 0, done.stdout[-3000:]
    assert "10 skipped" in done.stdout
    assert {record.status for record in records_in(tmp_path / "r.db")} == {"predicted"}


def test_triton_kernel_is_right_where_triton_is_installed(suite, tmp_path, monkeypatch):
    pytest.importorskip("triton", reason="triton is not installed: its interpreter checks the kernel without a GPU")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "roofline_pytest",
            "-p",
            "no:cacheprovider",
            "test_triton_kernel.py",
            "--hw",
            "b10",
            "--roofline-device",
            "cpu",
            "--roofline-timer",
            "simulated",
            "--roofline-db",
            str(tmp_path / "r.db"),
        ],
        cwd=suite,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    (record,) = records_in(tmp_path / "r.db")
    assert (record.case.kernel, record.status) == ("triton_interpreted", "measured")
    assert record.measurement.max_error < 1e-2


def test_the_readmes_ten_lines_work(tmp_path):
    text = (EXAMPLE / "README.md").read_text(encoding="utf-8")
    first, own_work = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    use = "    roofline.measure(lambda: None, work=work)\n"
    (tmp_path / "test_readme_lines.py").write_text(f"{first}\n{own_work}\ndef test_own_work(roofline):\n{use}")
    done = run_pytest(tmp_path, *SIMULATED, "--roofline-db", "r.db")
    assert done.returncode == 0, done.stdout[-3000:]
    assert [(r.case.id, r.status) for r in records_in(tmp_path / "r.db")] == [
        ("1x4096x4096-w16a16-BF16.BF16-test_my_linear-cold", "measured"),
        ("512x4096-BF16-test_own_work-warm", "measured"),
    ]
    (header,) = (line for line in text.splitlines() if line.split()[:2] == ["Format", "Kernel"])
    assert header.split() in [line.split() for line in done.stdout.splitlines()]


def test_the_readme_names_every_argument_of_the_fixture():
    import inspect

    from plugin.pytest_glue.fixtures import RooflineFixture

    text = (EXAMPLE / "README.md").read_text(encoding="utf-8")
    arguments = set(inspect.signature(RooflineFixture.measure).parameters) - {"self", "fn"}
    missing = {name for name in arguments if not re.search(rf"`\**{name}\b|\*\*`{name}\b|`{name}", text)}
    assert not missing
