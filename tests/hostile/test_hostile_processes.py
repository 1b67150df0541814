"""Cases that kill, hang or confuse their process: the run ends, says what happened, and everything finished is
stored.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
import warm_start

from results import open_store

OPTIONS = (
    "--hw",
    "b10",
    "--roofline-force-measure",
    "--roofline-no-canary",
    "--roofline-max-seconds",
    "0.02",
    "--roofline-db",
    "r.db",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:benchmark",
    "-p",
    "no:hypothesispytest",  # quicker starts
)
HEAD = """
import ctypes, os, resource, signal, subprocess, sys, time
from pathlib import Path
import pytest
from roofline_model import OpCost, gemm

WORK = gemm(1, 8, 8, a="FP32")

def quick():
    return None

def measure(roofline, name):
    roofline.measure(quick, work=OpCost(read_bytes=1e6), name=name)
"""
HOSTILE = (
    HEAD
    + """
def test_first(roofline):
    measure(roofline, "first")

def test_abort(roofline):
    roofline.declare(WORK.case("doomed"), WORK)
    os.abort()

def test_exit(roofline):
    roofline.declare(WORK.case("quitter"), WORK)
    os._exit(0)

def test_segfault(roofline):
    roofline.declare(WORK.case("wild"), WORK)
    ctypes.string_at(0)

def test_killed_from_outside(roofline):
    roofline.declare(WORK.case("victim"), WORK)
    subprocess.Popen(["sh", "-c", f"sleep 0.2; kill -9 {os.getpid()}"])
    time.sleep(60)

def test_system_exit(roofline):
    roofline.declare(WORK.case("leaver"), WORK)
    raise SystemExit(3)

def test_garbage(roofline):
    for number in (1, 2):
        os.write(number, b"\\x00\\xffgarbage" * 5000)
    measure(roofline, "loud")

def test_closes_its_output(roofline):
    os.close(1)
    os.close(2)
    measure(roofline, "mute")

def test_closes_everything(roofline):
    roofline.declare(WORK.case("closer"), WORK)
    os.closerange(3, 1000)
    measure(roofline, "closed")

def test_leaves_a_child(roofline):
    roofline.declare(WORK.case("parent"), WORK)
    if os.fork() == 0:
        time.sleep(120)
        os._exit(0)
    os.abort()

def test_out_of_memory(roofline):
    roofline.declare(WORK.case("hungry"), WORK)
    resource.setrlimit(resource.RLIMIT_AS, (2**31, resource.RLIM_INFINITY))
    try:
        roofline.measure(lambda: bytearray(2**32), work=WORK)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

def test_lost_device(roofline):
    def kernel():
        raise RuntimeError("CUDA error: device-side assert triggered")
    Path("lost").write_text(str(os.getpid()))
    roofline.measure(kernel, work=WORK, name="lost")

def test_after_the_lost_device(roofline):
    assert Path("lost").read_text() != str(os.getpid())
    measure(roofline, "fresh")

def test_unprintable(roofline):
    class Mute(Exception):
        def __str__(self):
            raise ValueError
        __repr__ = __str__
    def kernel():
        raise Mute
    roofline.measure(kernel, work=WORK, name="mute_error")

def test_dies_of_the_second_kernel(roofline):
    measure(roofline, "kept")
    roofline.declare(WORK.case("lost_one"), WORK)
    os.abort()

def test_sleeps(roofline):
    roofline.declare(WORK.case("sleeper"), WORK)
    time.sleep(600)

def test_last(roofline):
    measure(roofline, "last")
"""
)


@dataclass
class Finished:
    folder: Path
    code: int
    text: str
    run: object
    records: dict
    ends: list


def stored(folder):
    with open_store(folder / "r.db", read_only=True) as store:
        run = store.runs()[0]
        records = store.records(run.run_id)
    return run, records


def leftovers(folder):
    """Return the processes that still run in a folder."""
    names = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if Path(os.readlink(entry / "cwd")) == folder and int(entry.name) != os.getpid():
                names.append(entry.name)
        except OSError:
            continue
    return names


def run_suite(folder, text, *options):
    (folder / "test_hostile.py").write_text(text)
    done = warm_start.run("pytest", *OPTIONS, *options, cwd=folder)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    code, text = run_suite(folder, HOSTILE, "--roofline-timeout", "4")
    run, records = stored(folder)
    return Finished(
        folder,
        code,
        text,
        run,
        {record.case.kernel: record for record in records},
        [record.process for record in records],
    )


def test_the_run_ends_complete_with_an_exit_code_that_says_failed(hostile):
    assert hostile.code == 1, hostile.text
    assert (hostile.run.status, hostile.run.exit_code) == ("complete", 1)
    assert "INTERNALERROR" not in hostile.text


@pytest.mark.parametrize("kernel", ["first", "loud", "mute", "fresh", "kept", "last"])
def test_what_was_finished_is_stored(hostile, kernel):
    assert hostile.records[kernel].status == "measured"


DEATHS = {
    "doomed": "the worker was killed by SIGABRT",
    "quitter": "the worker ended itself (exit code 0)",
    "wild": "the worker was killed by SIGSEGV",
    "victim": "the worker was killed by SIGKILL",
    "parent": "the worker was killed by SIGABRT",
    "lost_one": "the worker was killed by SIGABRT",
    "sleeper": "timeout after 4 s: raise it with --roofline-timeout SECONDS",
    "closer": "the worker ended itself (exit code 1)",
}


@pytest.mark.parametrize("kernel", DEATHS)
def test_a_death_costs_its_case_and_keeps_its_prediction(hostile, kernel):
    record = hostile.records[kernel]
    assert record.status == "failed"
    assert record.reason.startswith(DEATHS[kernel])
    assert record.ideal.time_s > 0
    assert DEATHS[kernel] in hostile.text


def test_errors_that_kill_nobody_fail_their_test_as_ever(hostile):
    assert hostile.records["leaver"].reason == "SystemExit: 3"
    assert hostile.records["mute_error"].reason == "Mute: (unprintable message)"
    assert hostile.records["hungry"].reason.startswith("out of memory")
    assert "device-side assert" in hostile.records["lost"].reason


def test_the_place_of_a_crash_and_of_a_hang_is_shown(hostile):
    assert "in test_abort" in hostile.text
    assert "in test_sleeps" in hostile.text


def test_workers_are_counted_as_processes_and_their_ends_are_said(hostile):
    ends = {process.ordinal: process for process in hostile.ends}
    assert {process.role for process in ends.values()} == {"worker"}
    assert ends[hostile.records["doomed"].process.ordinal].end_reason == "killed by SIGABRT"
    assert ends[hostile.records["sleeper"].process.ordinal].end_reason == "timeout after 4 s"
    assert hostile.records["last"].process.end_reason == ""
    text = " ".join(hostile.text.split())
    assert "9 workers were replaced by fresh ones (killed by SIGABRT (3 times)" in text
    assert "lost its device: CUDA error: device-side assert triggered" in text


def test_no_process_is_left(hostile):
    deadline = time.monotonic() + 20
    while leftovers(hostile.folder) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not leftovers(hostile.folder)


def test_ctrl_c_inside_a_case_interrupts_the_run(tmp_path):
    text = (
        HEAD
        + "\ndef test_done(roofline):\n    measure(roofline, 'done')\n"
        + "\ndef test_interrupt(roofline):\n    raise KeyboardInterrupt\n"
        + "\ndef test_never(roofline):\n    measure(roofline, 'never')\n"
    )
    code, output = run_suite(tmp_path, text)
    run, records = stored(tmp_path)
    assert code == 2, output
    assert run.status == "interrupted"
    assert [record.case.kernel for record in records] == ["done"]
    assert not leftovers(tmp_path)


def test_a_worker_that_cannot_start_ends_the_run_with_one_line(tmp_path):
    (tmp_path / "conftest.py").write_text(
        "import multiprocessing\nif multiprocessing.parent_process() is not None:\n    raise RuntimeError('only here')\n"
    )
    code, output = run_suite(tmp_path, HEAD + "\ndef test_one(roofline):\n    measure(roofline, 'one')\n")
    assert code == 2, output
    lines = [line for line in output.splitlines() if "workers in a row were never ready" in line]
    assert len(lines) == 1
    assert "3 workers in a row" in lines[0]
    assert "RuntimeError: only here" in lines[0]
    run, records = stored(tmp_path)
    assert (run.status, records) == ("interrupted", [])


def in_the_middle(tmp_path, text):
    """Start a run and return it with its worker's id once a case has begun to hang."""
    (tmp_path / "test_hostile.py").write_text(text)
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *OPTIONS], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    deadline = time.monotonic() + 120
    while not (tmp_path / "reached").exists() and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.05)
    return process, int((tmp_path / "reached").read_text())


HANGING = (
    HEAD
    + """
def test_done(roofline):
    measure(roofline, "done")

def test_hangs(roofline):
    roofline.declare(WORK.case("hanging"), WORK)
    Path("part").write_text(str(os.getpid()))
    Path("part").rename("reached")
    while True:
        pass
"""
)


def gone(pid):
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


def test_killing_pytest_leaves_no_worker_and_loses_no_record(tmp_path):
    process, worker = in_the_middle(tmp_path, HANGING)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert gone(worker)
    run, records = stored(tmp_path)
    assert run.status == "running"
    assert [(record.case.kernel, record.status) for record in records] == [("done", "measured")]


def test_terminating_pytest_ends_the_run_as_interrupted(tmp_path):
    process, worker = in_the_middle(tmp_path, HANGING)
    process.send_signal(signal.SIGTERM)
    output = process.communicate(timeout=120)[0].decode()
    assert process.returncode == 143, output
    assert "SIGTERM" in output
    assert gone(worker)
    run, records = stored(tmp_path)
    assert (run.status, run.exit_code) == ("interrupted", 143)
    assert [record.case.kernel for record in records] == ["done"]


def test_terminating_pytest_without_workers_ends_the_run_too(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --roofline-isolate none\n")
    process, _ = in_the_middle(tmp_path, HANGING)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=120)
    assert process.returncode == 143
    assert stored(tmp_path)[0].status == "interrupted"


def test_without_workers_the_watchdog_reaches_python_code(tmp_path):
    text = (
        HEAD + "\ndef test_sleeps(roofline):\n    roofline.declare(WORK.case('sleeper'), WORK)\n    time.sleep(600)\n"
    )
    text += "\ndef test_next(roofline):\n    measure(roofline, 'next')\n"
    code, output = run_suite(tmp_path, text, "--roofline-isolate", "none", "--roofline-timeout", "1")
    assert code == 1, output
    run, records = stored(tmp_path)
    assert run.status == "complete"
    assert {record.case.kernel: record.status for record in records} == {"sleeper": "failed", "next": "measured"}
    assert (
        "timeout after 1 s: raise it with --roofline-timeout SECONDS"
        in {record.case.kernel: record for record in records}["sleeper"].reason
    )


def test_a_worker_that_dies_between_two_cases_costs_neither(tmp_path):
    text = (
        HEAD
        + """
import threading

def test_leaves_a_bomb(roofline):
    measure(roofline, "before")
    threading.Timer(0.5, os.abort).start()

def test_ordinary():
    time.sleep(1.5)

def test_next(roofline):
    measure(roofline, "after")
"""
    )
    code, output = run_suite(tmp_path, text)
    assert code == 0, output
    records = {record.case.kernel: record for record in stored(tmp_path)[1]}
    assert {name: record.status for name, record in records.items()} == {"before": "measured", "after": "measured"}
    assert records["before"].process.end_reason == "killed by SIGABRT between two cases"
    assert records["after"].process.ordinal == 2


def test_somebody_elses_watchdog_costs_its_case_only(tmp_path):
    pytest.importorskip("pytest_timeout")
    text = (
        HEAD + "\ndef test_sleeps(roofline):\n    roofline.declare(WORK.case('sleeper'), WORK)\n    time.sleep(600)\n"
    )
    text += "\ndef test_next(roofline):\n    measure(roofline, 'next')\n"
    code, output = run_suite(tmp_path, text, "--timeout", "10", "--timeout-method", "signal")
    assert code == 1, output
    records = {record.case.kernel: record for record in stored(tmp_path)[1]}
    assert {name: record.status for name, record in records.items()} == {"sleeper": "failed", "next": "measured"}
    assert "Timeout" in records["sleeper"].reason
    assert not leftovers(tmp_path)
