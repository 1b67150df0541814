"""What `roofline` starts for measuring stops with it, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from roofline_cli.shared.measuring import run_workloads, workload_command
from roofline_model.core.errors import RooflineError

ROOT = Path(__file__).resolve().parents[3]
CHILD = """
import os, time
def test_that_takes_long():
    with open("child", "w") as file:
        file.write(str(os.getpid()))
    os.rename("child", "child_pid")
    time.sleep(120)
def test_after_it():
    open("went_on", "w").close()
"""
PARENT = """
import signal, sys
from roofline_cli.shared.measuring import run_workloads
signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in a command that a script starts in the background
command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "roofline_cli.shared.parent_watch", "test_child.py"]
run_workloads(command)
"""


def wait_for(condition, seconds: float = 60.0) -> bool:
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def is_running(process_id: int) -> bool:
    try:
        state = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="asks /proc whether a process lives")
def test_a_command_that_is_killed_takes_its_pytest_along(tmp_path):
    (tmp_path / "test_child.py").write_text(CHILD)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with (tmp_path / "stderr").open("w") as stderr:
        parent = subprocess.Popen([sys.executable, "-c", PARENT], cwd=tmp_path, env=environment, stderr=stderr)
    try:
        assert wait_for((tmp_path / "child_pid").exists), (tmp_path / "stderr").read_text()
        child = int((tmp_path / "child_pid").read_text())
        assert is_running(child)
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        assert wait_for(lambda: not is_running(child))
    finally:
        parent.kill()
        if (tmp_path / "child_pid").exists() and is_running(int((tmp_path / "child_pid").read_text())):
            os.kill(int((tmp_path / "child_pid").read_text()), signal.SIGKILL)
    assert "KeyboardInterrupt" in (tmp_path / "stderr").read_text()  # interrupted: pytest could store what it had
    assert not (tmp_path / "went_on").exists()


def test_what_does_not_end_in_time_is_stopped_and_said():
    with pytest.raises(RooflineError, match="--wait-until-quiet"):
        run_workloads([sys.executable, "-c", "import time; time.sleep(600)"], timeout_s=0.2)


def test_the_workloads_are_started_with_the_watch():
    command = workload_command()
    assert command[command.index("roofline_cli.shared.parent_watch") - 1] == "-p"
