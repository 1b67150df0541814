"""What a gate starts: a limit that lets a benchmark store what it has, and one benchmark at a time."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from roofline_cli.shared.children import machine_lock, run_child
from roofline_model.core.errors import InvalidValueError, RooflineError


@pytest.mark.parametrize(
    "handler", [signal.default_int_handler, signal.SIG_IGN], ids=["foreground", "nohup in the background"]
)
def test_a_benchmark_that_does_not_end_is_interrupted(tmp_path, monkeypatch, capsys, handler):
    monkeypatch.chdir(tmp_path)
    # A shell is there within milliseconds.
    ends = "trap 'kill $!; echo what there was > stored; exit' INT; sleep 60 & wait"
    before = signal.signal(signal.SIGINT, handler)
    try:
        began = time.monotonic()
        assert run_child(["sh", "-c", ends], limit_s=1.0) == 130
        assert time.monotonic() - began < 30
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert Path("stored").read_text(encoding="utf-8") == "what there was\n"
    assert "stopped after" in capsys.readouterr().err


def test_what_a_command_prints_goes_to_a_file(tmp_path, capfd):
    out = tmp_path / "out"
    assert run_child(["sh", "-c", "echo found; echo why >&2; exit 3"], output=out) == 3
    assert out.read_text(encoding="utf-8") == "found\n"
    assert run_child(["sh", "-c", "echo seen"]) == 0
    streams = capfd.readouterr()
    assert streams.out == ""  # stdout stays for the verdict
    assert "why\n" in streams.err
    assert "seen\n" in streams.err


def test_a_program_that_is_not_there():
    with pytest.raises(InvalidValueError, match="no-such-program-of-ours does not start"):
        run_child(["no-such-program-of-ours"])


def test_one_benchmark_at_a_time(tmp_path, monkeypatch, capsys):
    place = tmp_path / "machine.lock"
    monkeypatch.setenv("ROOFLINE_MACHINE_LOCK", str(place))
    with machine_lock(0):
        assert capsys.readouterr().err == ""  # nobody waited
        with pytest.raises(RooflineError, match="another benchmark held the machine"), machine_lock(0):
            pass
        assert str(place) in capsys.readouterr().err
    with machine_lock(0):
        assert place.stat().st_mode & 0o666 == 0o666  # whatever the umask says: the next user must be able to open it
    place.unlink()
    (tmp_path / "elsewhere").write_text("", encoding="utf-8")
    place.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError), machine_lock(0):
        pass  # never through a link that somebody laid in a shared folder
