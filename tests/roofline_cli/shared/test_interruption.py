"""Ctrl-C at any moment ends `roofline` with one calm line and exit code 130: during imports, in callbacks, at its
end.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from roofline_cli.shared import interruption

ROOT = Path(__file__).parents[3]
DURING_START = """
class Finder:
    def find_spec(name, *_):
        if name == "typer":
            interrupt()
sys.meta_path.insert(0, Finder)
"""
IN_A_COMMAND = """
import roofline_model.chips.hardware
def list_hardware():
    {body}
    return []
roofline_model.chips.hardware.list_hardware = list_hardware
"""
SWALLOWED = """
    try:
        interrupt()
    except BaseException:
        pass
"""
AS_ANOTHER_ERROR = """
    try:
        interrupt()
    except KeyboardInterrupt:
        raise ImportError("numpy is broken")
"""
IN_A_CALLBACK = """
    class Collected:
        def __del__(self):
            interrupt()
    Collected()
    time.sleep(20)
    raise ValueError("nothing interrupted this")
"""
IN_AN_IMPORT = """
    open("short_one.py", "w").write("import __main__\\n__main__.interrupt()\\nopen('is_whole', 'w').close()\\n")
    sys.path.insert(0, "")
    import short_one
    time.sleep(20)
    raise ValueError("nothing interrupted this")
"""
IN_A_LONG_IMPORT = """
    open("long_one.py", "w").write(
        "import __main__, time\\ntry:\\n    __main__.interrupt()\\n    time.sleep(20)\\nexcept BaseException:\\n    pass\\n")
    sys.path.insert(0, "")
    try:
        import long_one
    finally:
        print("unwound", file=sys.stderr)
"""
LOGGED = """
    import logging
    try:
        interrupt()
    finally:
        logging.getLogger("pool").error("cannot close")
"""
AT_THE_END = """
import threading
def linger():
    threading.main_thread().join()
    interrupt()
threading.Thread(target=linger).start()
"""


def ended(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run `roofline hardware list --json` in a process whose parts interrupt it as `code` says."""
    program = (
        "import os, signal, sys, time\n"
        "def interrupt():\n    os.kill(os.getpid(), signal.SIGINT)\n    time.sleep(0.01)\n"
        f"{code}\n"
        "sys.argv = ['roofline', 'hardware', 'list', '--json']\n"
        "from roofline_cli.entry import run\nrun()\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    "code",
    [
        DURING_START,
        AT_THE_END,
        *(
            IN_A_COMMAND.format(body=body.strip())
            for body in (SWALLOWED, AS_ANOTHER_ERROR, IN_A_CALLBACK, IN_AN_IMPORT, IN_A_LONG_IMPORT, LOGGED)
        ),
    ],
    ids=["imports", "end", "swallowed", "another-error", "callback", "import", "long-import", "logged"],
)
def test_it_is_one_line_and_130_wherever_it_comes(code, tmp_path):
    result = ended(code, tmp_path)
    assert (result.stderr, result.returncode) == ("interrupted\n", interruption.EXIT_INTERRUPTED)
    assert (tmp_path / "is_whole").exists() is (code == IN_A_COMMAND.format(body=IN_AN_IMPORT.strip()))


def test_what_a_script_starts_in_its_background_goes_on(tmp_path):
    result = ended("signal.signal(signal.SIGINT, signal.SIG_IGN)" + DURING_START, tmp_path)
    assert (result.stderr, result.returncode) == ("", 0)
    assert result.stdout.startswith("{")


def test_who_handles_it_already_keeps_it():
    before = signal.getsignal(signal.SIGINT)
    mine = signal.signal(signal.SIGINT, lambda *_: None) and signal.getsignal(signal.SIGINT)
    try:
        interruption.watch()
        with interruption.unwinding():
            assert signal.getsignal(signal.SIGINT) is mine
    finally:
        signal.signal(signal.SIGINT, before)
