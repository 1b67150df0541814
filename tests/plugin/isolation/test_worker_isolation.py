"""Who is measured in a worker, which errors cost a process its device, and how xdist shares the devices."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from plugin.isolation import device_share
from plugin.isolation.device_errors import lost_device_reason
from plugin.isolation.device_share import (
    claim_device,
    controller_worker_count,
    refuse_too_many,
    visible_devices,
    xdist_worker,
)
from plugin.isolation.isolation import decide
from plugin.run.options import BenchOptions
from plugin.run.target import Target
from plugin.sensors.nvml import number_like_nvml
from roofline_model.core.errors import InvalidValueError, UnsupportedError
from roofline_model.core.finding import finding

HERE = Target("cpu", lambda: None)
ELSEWHERE = Target("cuda", lambda: None, finding("other-machine", cpu="x", hardware="h100"))


@pytest.fixture
def untraced(monkeypatch):
    """Whatever runs these tests: no coverage, no debugger."""
    monkeypatch.setattr(sys, "gettrace", lambda: None)
    for name in ("pydevd", "debugpy"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def config(plugins=(), options=None, registered=(), under_xdist=False):
    return SimpleNamespace(
        **({"workerinput": {"workerid": "gw0"}} if under_xdist else {}),
        option=SimpleNamespace(**{"usepdb": False, "capture": "fd", **(options or {})}),
        invocation_params=SimpleNamespace(plugins=plugins, args=()),
        pluginmanager=SimpleNamespace(hasplugin=lambda name: name in registered),
    )


OPTIONS = BenchOptions()


@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize(
    ("options", "target", "configured", "kind"),
    [
        ({}, HERE, config(), "auto"),
        ({"isolate": "none"}, HERE, config(), "none"),
        ({"isolate": "case"}, HERE, config(), "case"),
        ({}, ELSEWHERE, config(), "none"),
        ({"predict_only": True, "isolate": "case"}, HERE, config(), "none"),
        ({"profiler": "ncu"}, HERE, config(), "none"),
        ({"timer": "simulated:noise=0.1"}, HERE, config(), "none"),
        ({"timer": "replay:run.json", "isolate": "case"}, HERE, config(), "case"),
        ({"timer": "simulated", "process_count": 3}, HERE, config(), "auto"),
        ({"process_count": 3, "isolate": "case"}, HERE, config(), "case"),
        ({"process_count": 3}, ELSEWHERE, config(), "none"),
        ({}, HERE, config(options={"usepdb": True}), "none"),
        ({"isolate": "case"}, HERE, config(options={"trace": True}), "none"),
        ({}, HERE, config(options={"setupshow": True}), "none"),
        ({}, HERE, config(plugins=["my_plugin"]), "auto"),
        ({}, HERE, config(plugins=[object()]), "none"),
        ({}, HERE, config(under_xdist=True), "none"),
        ({}, HERE, config(options={"cov_source": ["."]}, registered=("_cov",)), "none"),
        ({}, HERE, config(options={"cov_source": []}, registered=("_cov",)), "auto"),
        ({"isolate": "case"}, HERE, config(options={"cov_source": ["."]}, registered=("_cov",)), "case"),
    ],
)
def test_where_cases_are_measured(options, target, configured, kind):
    decision = decide(replace(OPTIONS, **options), target, configured)
    assert decision.kind == kind


@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize("obstacle", [{"isolate": "none"}, {"usepdb": True}])
def test_processes_need_workers(obstacle):
    options = replace(OPTIONS, process_count=2, **{k: v for k, v in obstacle.items() if k == "isolate"})
    with pytest.raises(InvalidValueError, match="--roofline-processes"):
        decide(options, HERE, config(options={k: v for k, v in obstacle.items() if k == "usepdb"}))


# Device errors --------------------------------------------------------------------------------------------------


class AcceleratorError(RuntimeError):
    """As torch names it."""


LOST = [
    RuntimeError("CUDA error: device-side assert triggered\nCUDA kernel errors might be …"),
    RuntimeError("CUDA error: an illegal memory access was encountered"),
    RuntimeError("CUDA error: unspecified launch failure"),
    RuntimeError("CUDA error: an illegal instruction was encountered"),
    RuntimeError("device lost"),
    RuntimeError("CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm`"),
    AcceleratorError("CUDA error: something new"),
]
ITEM_ERRORS = [
    RuntimeError("CUDA error: no kernel image is available for execution on the device"),
    RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB"),
    AcceleratorError("CUDA error: invalid argument"),
    RuntimeError("illegal memory access in my own words"),
    ValueError("CUDA error: device-side assert triggered"),
    AssertionError("relative error 63"),
]


@pytest.mark.parametrize("error", LOST, ids=str)
def test_errors_that_cost_the_device(error):
    assert lost_device_reason(error) == str(error).splitlines()[0]


@pytest.mark.parametrize("error", ITEM_ERRORS, ids=str)
def test_errors_that_leave_the_device_alive(error):
    assert lost_device_reason(error) is None


def test_the_cause_of_an_error_counts():
    outer = AssertionError("wrong result")
    outer.__cause__ = LOST[0]
    assert lost_device_reason(outer) == "CUDA error: device-side assert triggered"
    outer.__cause__ = outer  # a circle ends
    assert lost_device_reason(outer) is None


def test_an_error_without_words_is_no_device_error():
    class Mute(RuntimeError):
        def __str__(self):
            raise ValueError

    assert lost_device_reason(Mute()) is None


# Devices under xdist --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("visible", "count", "ordinals"),
    [
        (None, 3, ["0", "1", "2"]),
        ("1,3", 4, ["1", "3"]),
        ("2, 0", 4, ["2", "0"]),
        ("GPU-4f2a,GPU-77cc", 4, ["GPU-4f2a", "GPU-77cc"]),
        ("0,9,1", 4, ["0"]),  # the driver stops at the first that is not there
        ("0,-1,1", 4, ["0"]),
        ("", 4, []),
        ("-1", 4, []),
        ("0,0", 4, ["0"]),
        (None, 0, []),
    ],
)
def test_visible_devices_are_the_drivers(visible, count, ordinals):
    assert visible_devices({} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}, count) == ordinals


def worker_environment(number, workers=2, **more):
    return {"PYTEST_XDIST_WORKER": f"gw{number}", "PYTEST_XDIST_WORKER_COUNT": str(workers), **more}


@pytest.fixture
def no_cuda_yet(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch", raising=False)


@pytest.mark.usefixtures("no_cuda_yet")
@pytest.mark.parametrize(
    ("visible", "expected"),
    [(None, ["0", "1"]), ("3,1", ["3", "1"]), ("GPU-aa,GPU-bb,GPU-cc", ["GPU-aa", "GPU-bb"]), ("2", ["2", "2"])],
)
def test_each_worker_owns_one_device(visible, expected):
    devices = []
    for number in range(2):
        environ = worker_environment(number, **({} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}))
        assert claim_device(environ, count=4) == environ["CUDA_VISIBLE_DEVICES"]
        devices.append(environ["CUDA_VISIBLE_DEVICES"])
    assert devices == expected


@pytest.mark.usefixtures("no_cuda_yet")
def test_without_devices_or_outside_xdist_nothing_is_set():
    environ = worker_environment(0)
    assert claim_device(environ, count=0) is None
    assert "CUDA_VISIBLE_DEVICES" not in environ
    assert claim_device({}, count=4) is None


def test_a_device_in_use_is_not_exchanged(monkeypatch):
    started = SimpleNamespace(cuda=SimpleNamespace(is_initialized=lambda: True))
    monkeypatch.setitem(sys.modules, "torch", started)
    environ = worker_environment(1)
    assert claim_device(environ, count=4) == "0"  # what it measures on, for the lock
    assert "CUDA_VISIBLE_DEVICES" not in environ


def test_more_workers_than_devices_is_one_line():
    refuse_too_many(2, ["0", "1"])
    with pytest.raises(UnsupportedError, match=r"-n 3: 3.*2.*GPUs.*-n 2") as error:
        refuse_too_many(3, ["0", "1"])
    assert "\n" not in str(error.value)


def test_workers_are_counted_as_xdist_counts_them():
    assert controller_worker_count(SimpleNamespace(option=SimpleNamespace(tx=["popen"] * 3))) == 3
    assert controller_worker_count(SimpleNamespace(option=SimpleNamespace(tx=["4*popen", "popen"]))) == 5
    assert controller_worker_count(SimpleNamespace(option=SimpleNamespace())) == 0
    assert xdist_worker(worker_environment(3, 4)) == (3, 4)
    assert xdist_worker({"PYTEST_XDIST_WORKER": "master"}) is None


def test_devices_are_counted_without_cuda(monkeypatch, tmp_path):
    monkeypatch.setattr(device_share, "device_count", lambda: 5)
    assert device_share.installed_devices() == 5
    monkeypatch.setattr(device_share, "device_count", lambda: None)
    monkeypatch.setattr(device_share, "_PROC_GPUS", tmp_path)
    for name in ("0000:01:00.0", "0000:02:00.0"):
        (tmp_path / name).mkdir()
    assert device_share.installed_devices() == 2
    monkeypatch.setattr(device_share, "_PROC_GPUS", tmp_path / "absent")
    assert device_share.installed_devices() == 0


def test_those_who_share_a_device_take_turns(tmp_path):
    import fcntl

    with device_share.one_at_a_time(tmp_path, "GPU-aa/bb"):
        (lock,) = (tmp_path / ".roofline").iterdir()
        with lock.open("w") as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with device_share.one_at_a_time(tmp_path, "1"):  # another device is free
            assert len(list((tmp_path / ".roofline").iterdir())) == 2


@pytest.mark.usefixtures("no_cuda_yet")
@pytest.mark.parametrize(
    ("given", "order"), [({}, "PCI_BUS_ID"), ({"CUDA_DEVICE_ORDER": "FASTEST_FIRST"}, "FASTEST_FIRST")]
)
def test_cuda_counts_gpus_like_nvml_unless_the_user_chose(given, order):
    environ = dict(given)
    number_like_nvml(environ)
    assert environ == {"CUDA_DEVICE_ORDER": order}
