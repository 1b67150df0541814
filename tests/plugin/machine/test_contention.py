from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from plugin.machine.cpu_state import CpuTimes, LoadWatch, parse_stat

TICK = os.sysconf("SC_CLK_TCK")
STAT = """cpu  400 0 200 900 10 2 4 6 0 0
cpu0 100 10 50 700 5 1 2 3 50 0
cpu1 300 0 150 200 5 1 2 3 0 0
intr 12345
"""


def test_busy_counts_everything_but_idle_waiting_and_stolen():
    # cpu0: 100 + 10 + 50 + 1 + 2 = 163 (guest time is inside user time already); cpu1: 300 + 150 + 1 + 2 = 453
    assert parse_stat(STAT, [0]) == pytest.approx((163 / TICK, 3 / TICK))
    assert parse_stat(STAT, [0, 1]) == pytest.approx(((163 + 453) / TICK, 6 / TICK))
    with pytest.raises(ValueError, match="cpu7"):
        parse_stat(STAT, [0, 7])


def watch(wall_s, busy_s, stolen_s, own_s, cpus=2):
    load = LoadWatch()
    load._cpus = list(range(cpus))
    load._before = CpuTimes(0.0, 0.0, 0.0, 0.0)
    load._after = CpuTimes(wall_s, busy_s, stolen_s, own_s)
    return load


def test_shares_by_hand():
    load = watch(wall_s=1.0, busy_s=1.7, stolen_s=0.1, own_s=1.2)
    assert load.others_ratio == pytest.approx(0.25)  # 0.5 s of 2 CPU-seconds
    assert load.stolen_ratio == pytest.approx(0.05)
    assert load.flags() == ("contended", "stolen")


def test_our_own_work_is_no_contention():
    assert watch(1.0, 2.0, 0.0, 2.0).flags() == ()
    assert watch(1.0, 1.0, 0.0, 1.1).others_ratio == 0.0  # the counters are coarse


def test_too_short_a_window_says_nothing():
    assert watch(0.01, 0.02, 0.02, 0.0).others_ratio is None
    assert LoadWatch().flags() == ()


@pytest.mark.skipif(not os.path.exists("/proc/stat"), reason="no /proc/stat on this system")
def test_a_real_neighbour_is_seen():
    burn = "import time\nend = time.monotonic() + 20\nwhile time.monotonic() < end: pass"
    neighbours = [subprocess.Popen([sys.executable, "-c", burn]) for _ in os.sched_getaffinity(0)]
    try:
        time.sleep(0.3)
        with LoadWatch() as load:
            time.sleep(0.5)
    finally:
        for neighbour in neighbours:
            neighbour.kill()
            neighbour.wait()
    assert "contended" in load.flags()
