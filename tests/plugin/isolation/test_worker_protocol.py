"""Messages between a worker and its parent: whole, in order, and safe from what a test may put into them."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings

import pytest

from plugin.isolation import worker_process
from plugin.isolation.worker_process import WorkerProcess, main_thread
from plugin.isolation.worker_protocol import (
    MessageBuffer,
    ProtocolError,
    encode,
    receive,
    report_from,
    send,
    warning_from,
    warning_to_plain,
)


def test_messages_survive_any_division_into_pieces():
    messages = [{"kind": "note", "text": "ü" * 10}, {"kind": "record", "record": {"samples_s": [1e-9, 0.1 + 0.2]}}]
    data = b"".join(map(encode, messages))
    for size in (1, 3, 7, len(data)):
        buffer, received = MessageBuffer(), []
        for start in range(0, len(data), size):
            received += buffer.feed(data[start : start + size])
        assert received == messages


def test_a_pipe_carries_more_than_it_holds():
    read_from, write_to = os.pipe()
    message = {"kind": "record", "text": "x" * 500_000}
    writer = threading.Thread(target=send, args=(write_to, message))
    writer.start()
    assert receive(read_from) == message
    writer.join()
    os.close(write_to)
    assert receive(read_from) is None
    os.close(read_from)


@pytest.mark.parametrize(
    "garbage", [b"hello, this is a print", b"\x00\x00\x00\x02{]", b"\x00\x00\x00\x02[]", b"\x00\x00\x00\x02{}"]
)
def test_garbage_in_the_pipe_is_recognised(garbage):
    with pytest.raises(ProtocolError, match="something else was written"):
        MessageBuffer().feed(garbage)


def test_a_value_that_cannot_be_shown_is_sent_as_what_it_is():
    class Mute:
        def __repr__(self):
            raise ValueError

    (message,) = MessageBuffer().feed(encode({"kind": "report", "values": [Mute(), {1, 2}]}))
    assert message["values"] == ["<Mute that cannot be shown>", "{1, 2}"]


def test_reports_keep_their_tuples(pytestconfig):
    report = pytest.TestReport(
        "t.py::t",
        ("t.py", 3, "t"),
        {"t": 1},
        "skipped",
        ("t.py", 4, "Skipped: no"),
        "setup",
        [("Captured stdout call", "x")],
    )
    report.user_properties = [("name", 1.5)]
    plain = pytestconfig.hook.pytest_report_to_serializable(config=pytestconfig, report=report)
    (message,) = MessageBuffer().feed(encode({"kind": "report", "report": plain}))
    again = report_from(pytestconfig, message["report"])
    assert again.longrepr == ("t.py", 4, "Skipped: no")
    assert (again.location, again.sections, again.user_properties) == (
        report.location,
        report.sections,
        report.user_properties,
    )


class OwnWarning(UserWarning):
    def __init__(self, text, needed):
        super().__init__(text, needed)


@pytest.mark.parametrize(
    ("category", "comes_back_as"), [(DeprecationWarning, DeprecationWarning), (OwnWarning, UserWarning)]
)
def test_warnings_keep_text_and_place(category, comes_back_as):
    sent = warnings.WarningMessage(UserWarning("careful"), category, "t.py", 7)
    message = warning_from(warning_to_plain(sent))
    assert (str(message.message), message.category, message.filename, message.lineno) == (
        "careful",
        comes_back_as,
        "t.py",
        7,
    )


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
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    worker = WorkerProcess.start(["--version"], tmp_path, 1, False, environment)
    worker.process.send_signal(signal.SIGKILL)
    monkeypatch.setattr(worker_process, "oom_kill_count", lambda: kills_after)
    worker.process.wait()
    assert worker.end() == cause
    worker.kill()
    worker.kill()  # a second time does no harm


def test_a_program_that_is_no_worker_is_noticed_and_its_last_words_kept(tmp_path):
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    worker = WorkerProcess.start(["--no-such-option"], tmp_path, 1, False, environment)
    with pytest.raises(worker_process.WorkerDiedError, match=r"ended itself \(exit code 4\)"):
        worker.wait(time.monotonic() + 60)
    assert "--no-such-option" in worker.output_tail()
    worker.kill()
