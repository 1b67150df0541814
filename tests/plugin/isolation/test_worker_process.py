"""A worker as pytest's own process sees it: how it starts and ends, and what a test may put into its messages."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from plugin.isolation import worker_process
from plugin.isolation.worker import plain
from plugin.isolation.worker_process import WorkerProcess, main_thread

SUITE = """
    from roofline_model import OpCost

    def test_before(roofline):
        roofline.measure(lambda: None, work=OpCost(read_bytes=1e6), name="before")

    {test}

    def test_after(roofline):
        roofline.measure(lambda: None, work=OpCost(read_bytes=1e6), name="after")
    """
OPTIONS = ("--hw", "b10", "--roofline-timer", "simulated", "--roofline-processes", "1", "-p", "no:hypothesispytest")


def started(arguments, folder):
    return WorkerProcess.start(["-p", "no:benchmark", *arguments], folder, None, passes_output=False)


def test_a_value_that_cannot_be_shown_is_sent_as_what_it_is():
    class Mute:
        def __repr__(self):
            raise ValueError

    given = {"values": [Mute(), {1, 2}, None, True, 1.5, "ü"], ("a", 1): (Mute(),)}
    shown = "<Mute that cannot be shown>"
    assert plain(given) == {"values": [shown, "{1, 2}", None, True, 1.5, "ü"], ("a", 1): (shown,)}


def test_what_a_test_writes_into_the_pipe_costs_its_case_only(pytester):
    writes = """
    def test_writes(roofline):
        import os, stat
        for number in range(3, 100):
            try:
                is_pipe = stat.S_ISSOCK(os.fstat(number).st_mode)
            except OSError:
                continue
            if is_pipe:
                os.write(number, b"\\x00\\x00\\x00\\x05hello")
    """
    pytester.makepyfile(SUITE.format(test=writes))
    result = pytester.runpytest_subprocess(*OPTIONS)
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*something else was written into the worker's pipe"])


def test_a_warning_of_a_class_that_only_the_worker_knows_is_shown(pytester):
    warns = """
    def test_warns(roofline):
        import warnings

        class OwnWarning(UserWarning):
            def __init__(self, text, needed):
                super().__init__(text, needed)

        warnings.warn(OwnWarning("careful", 1))
        warnings.warn("old", DeprecationWarning)
    """
    pytester.makepyfile(SUITE.format(test=warns))
    result = pytester.runpytest_subprocess(*OPTIONS)
    result.assert_outcomes(passed=3, warnings=2)
    result.stdout.fnmatch_lines(["*UserWarning: ('careful', 1)", "*DeprecationWarning: old"])


def test_a_program_that_calls_pytest_without_a_guard_is_not_run_by_its_workers(pytester):
    pytester.makepyfile(test_suite=SUITE.format(test=""))
    pytester.makepyfile(runner=f"import sys, pytest\nprint('program')\nsys.exit(pytest.main({list(OPTIONS)}))")
    done = subprocess.run([sys.executable, "runner.py"], cwd=pytester.path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines().count("program") == 1
    assert "2 passed" in done.stdout


def test_a_module_beside_the_tests_with_a_name_of_the_standard_library_is_no_workers(pytester):
    pytester.makepyfile(test_suite=SUITE.format(test=""), socket="raise RuntimeError('not this one')")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    options = (*OPTIONS, "--import-mode", "importlib")
    command = [
        sys.executable,
        "-c",
        "import sys; sys.path.remove(''); import pytest; sys.exit(pytest.main())",
        *options,
    ]
    done = subprocess.run(command, cwd=pytester.path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_main_thread_is_the_last_one_that_faulthandler_writes():
    dump = (
        "Fatal Python error: Aborted\n\nThread 0x00007f01 (most recent call first):\n"
        '  File "threading.py", line 324 in wait\n\nCurrent thread 0x00007f02 (most recent call first):\n'
        '  File "test_k.py", line 12 in test_abort\n  File "/x/_pytest/python.py", line 187 in call\n\n'
        "Extension modules: numpy.core (total: 1)\n"
    )
    assert main_thread(dump) == [
        'File "test_k.py", line 12 in test_abort',
        'File "/x/_pytest/python.py", line 187 in call',
    ]
    assert main_thread("") == []


@pytest.mark.parametrize(
    ("kills_before", "kills_after", "cause"),
    [
        (3, 4, "killed by SIGKILL: out of memory"),
        (3, 3, "killed by SIGKILL from outside (memory did not run out)"),
        (None, None, "killed by SIGKILL: out of memory?"),
    ],
)
def test_a_kill_for_memory_is_told_from_another_one(monkeypatch, tmp_path, kills_before, kills_after, cause):
    monkeypatch.setattr(worker_process, "oom_kill_count", lambda: kills_before)
    worker = started(["--version"], tmp_path)
    os.kill(worker.process.pid, signal.SIGKILL)
    monkeypatch.setattr(worker_process, "oom_kill_count", lambda: kills_after)
    worker.process.join()
    assert worker.end() == cause
    worker.kill()
    worker.kill()  # a second time does no harm


def test_a_program_that_is_no_worker_is_noticed_and_its_last_words_kept(tmp_path):
    worker = started(["--no-such-option"], tmp_path)
    with pytest.raises(worker_process.WorkerDiedError, match=r"ended itself \(exit code 4\)"):
        worker.wait(time.monotonic() + 60)
    assert "--no-such-option" in worker.output_tail()
    worker.kill()
