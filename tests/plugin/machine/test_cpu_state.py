"""Who uses the CPUs beside us."""

from __future__ import annotations

import os

from plugin.machine.cpu_state import busiest_process, process_times


def test_the_other_process_that_used_most_is_named(tmp_path):
    def write(pid, name, ticks):
        (tmp_path / str(pid)).mkdir(exist_ok=True)
        fields = " ".join(["S", *["0"] * 10, str(ticks), "0", *["0"] * 5])
        (tmp_path / str(pid) / "stat").write_text(f"{pid} ({name}) {fields}")

    write(1, "init", 500)
    write(2, "cc1plus (a)", 10)
    write(os.getpid(), "python", 0)
    before = process_times(tmp_path)
    write(2, "cc1plus (a)", 90)
    write(3, "new", 10_000)  # its earlier time is not known
    write(os.getpid(), "python", 9_000)
    assert before[2][0] == "cc1plus (a)"
    assert busiest_process(before, process_times(tmp_path)) == "cc1plus (a)"
    assert busiest_process(before, before) == ""
