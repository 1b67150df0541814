"""A child that we start can be interrupted, wherever we were started from, and is killed when it does not listen."""

from __future__ import annotations

import signal
import subprocess
import threading

import pytest

from bench_cases import child_process

STORES = "trap 'kill $!; echo stored; exit 7' INT; echo ready; sleep 60 & wait"
DEAF = "trap '' INT; echo ready; sleep 60 & wait"


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    monkeypatch.setattr(child_process, "_TERMINAL_WAIT_S", 0.05)


def started(script):
    process = child_process.start_interruptible(["sh", "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize(
    "handler", [signal.default_int_handler, signal.SIG_IGN], ids=["foreground", "nohup in the background"]
)
def test_an_interrupted_child_stores_what_it_has(handler):
    before = signal.signal(signal.SIGINT, handler)
    try:
        process = started(STORES)
        child_process.stop_child(process, 20.0)
        assert signal.getsignal(signal.SIGINT) is handler  # ours is as it was
    finally:
        signal.signal(signal.SIGINT, before)
    assert process.returncode == 7
    assert process.communicate()[0] == "stored\n"


def test_a_child_that_does_not_listen_is_killed():
    process = started(DEAF)
    child_process.stop_child(process, 0.1)
    assert process.returncode == -signal.SIGKILL
    process.stdout.close()


def test_a_child_that_ended_by_itself_is_left_alone():
    process = child_process.start_interruptible(["sh", "-c", "exit 3"])
    process.wait()
    child_process.stop_child(process, 0.1)
    assert process.returncode == 3


def test_a_thread_may_start_one():
    codes = []
    thread = threading.Thread(target=lambda: codes.append(child_process.start_interruptible(["true"]).wait()))
    thread.start()
    thread.join()
    assert codes == [0]
