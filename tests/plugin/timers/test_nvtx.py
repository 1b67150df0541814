"""NVTX ranges: pushed and popped where CUDA is loaded, nothing otherwise, and names that a filter takes literally."""

from __future__ import annotations

import re
import subprocess
import sys
from types import SimpleNamespace

import pytest

from plugin.timers.profiler import CALL_RANGE, nvtx_range, range_name


@pytest.fixture
def pushed(monkeypatch):
    """A CUDA build of torch whose NVTX writes down what it is given."""
    log = []
    nvtx = SimpleNamespace(range_push=log.append, range_pop=lambda: log.append("pop"))
    torch = SimpleNamespace(version=SimpleNamespace(cuda="13.0"), cuda=SimpleNamespace(nvtx=nvtx))
    monkeypatch.setitem(sys.modules, "torch", torch)
    return log


def test_a_case_is_a_range(pushed):
    with nvtx_range(range_name("1x4096x4096-w4a16-INT4.BF16-tinygemm-cold")), nvtx_range(CALL_RANGE):
        pushed.append("work")
    assert pushed == ["roofline-1x4096x4096-w4a16-INT4.BF16-tinygemm-cold", CALL_RANGE, "work", "pop", "pop"]


def test_a_range_ends_with_an_error(pushed):
    with pytest.raises(ValueError, match="kernel"), nvtx_range(range_name("x")):
        raise ValueError("kernel")
    assert pushed == ["roofline-x", "pop"]


def test_a_torch_without_cuda_is_left_alone(monkeypatch):
    called = []

    def fail(*_):
        called.append("nvtx")
        raise RuntimeError("NVTX functions not installed. Are you sure you have a CUDA build?")

    cuda = SimpleNamespace(nvtx=SimpleNamespace(range_push=fail, range_pop=fail))
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(version=SimpleNamespace(cuda=None), cuda=cuda))
    with nvtx_range(range_name("x")):
        ran = True
    assert ran
    assert called == []


def test_torch_is_never_imported():
    code = (
        "import sys; from plugin.timers.profiler import nvtx_range\nwith nvtx_range('x'): pass\nprint('torch' in "
        "sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("text", ["a/b[c]*+,@d\\e", "Grüße: 4096×4096", "  ", "x" * 900, "quote\"'$(rm)"])
def test_names_hold_nothing_that_a_filter_or_a_shell_reads(text):
    name = range_name(text)
    assert re.fullmatch(r"roofline-[A-Za-z0-9._-]+", name)
    assert len(name) < 256
