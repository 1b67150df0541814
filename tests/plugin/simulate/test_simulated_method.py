"""What a simulated device is like is not a part of the method: runs of two devices may be compared, a replayed one with
its like only.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from plugin.run.instruments import Instruments
from plugin.run.options import BenchOptions
from plugin.samples.plan import MeasurePlan
from plugin.timers.replay import ReplayTimer

TARGET = SimpleNamespace(device="cpu", can_measure=True)


def method_of(tmp_path, **options):
    instruments = Instruments(BenchOptions(**options), tmp_path, TARGET)
    return instruments.method(instruments.make_timer(), MeasurePlan())


@pytest.mark.parametrize(
    "text", ["seed=1", "efficiency=0.5", "noise=0.02,process_noise=0.01", "slow=gemv*:1.05", "drift=0.1"]
)
def test_the_truth_of_the_device_is_what_one_wants_to_find_out(tmp_path, text):
    usual = method_of(tmp_path, timer="simulated")
    method = method_of(tmp_path, timer=f"simulated:{text}")
    assert method.method_hash == usual.method_hash
    assert method.settings["timer"] == "simulated"


def test_how_it_is_sampled_stays_part_of_the_method(tmp_path):
    usual = method_of(tmp_path, timer="simulated")
    assert method_of(tmp_path, timer="simulated", max_seconds=0.1).method_hash != usual.method_hash
    assert method_of(tmp_path).method_hash != usual.method_hash


def test_what_is_replayed_is_the_method(tmp_path, monkeypatch):
    monkeypatch.setattr(ReplayTimer, "from_file", lambda path: ReplayTimer({}))
    first, second = (method_of(tmp_path, timer=f"replay:{name}.json") for name in "ab")
    assert first.method_hash != second.method_hash
