"""The canary alone: what it says of a reading, and that it does not call healthy what it cannot judge."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from results.records.state_records import CanaryReading
from roofline_cli.machine import canary
from roofline_cli.main import app


def reading(time_s, reference_s, *, is_slow=False, power_w=None):
    return CanaryReading(
        ordinal=0,
        process_ordinal=0,
        created_at="2026-11-22T01:00:00+00:00",
        kernel="gemv",
        time_s=time_s,
        reference_s=reference_s,
        is_slow=is_slow,
        power_w=power_w,
        sm_clock_hz=None,
    )


@pytest.mark.parametrize(
    ("earlier", "message"),
    [
        (0, "canary gemv: 7.699 ms, not judged: no earlier reading on this machine and software, 3 make a reference"),
        (1, "canary gemv: 7.699 ms, not judged: 1 earlier reading on this machine and software, 3 make a reference"),
        (2, "canary gemv: 7.699 ms, not judged: 2 earlier readings on this machine and software, 3 make a reference"),
    ],
)
def test_too_few_earlier_readings_judge_nothing(earlier, message):
    assert canary.sentence([reading(7.699e-3, 7.699e-3)], earlier) == message


def test_a_healthy_reading_says_how_far_from_usual_it_is():
    sentence = canary.sentence([reading(3.53e-3, 3.22e-3, power_w=41.7)], 3)
    assert sentence == "canary gemv: 3.530 ms, 42 W, 1.10× its usual 3.220 ms: healthy"


@pytest.mark.parametrize(
    ("is_slow", "code", "message"),
    [(False, 0, "healthy"), (True, 5, "3.0× its usual 3.000 ms, in 3 readings: this machine is in a slow state")],
)
def test_the_exit_code_is_the_state(monkeypatch, is_slow, code, message):
    readings = [reading(9e-3, 3e-3, is_slow=is_slow)] * 3
    monkeypatch.setattr(canary, "look", lambda db: (readings, [3e-3] * 5))
    result = CliRunner().invoke(app, ["doctor", "--canary"])
    assert result.exit_code == code
    assert message in result.stdout
    result = CliRunner().invoke(app, ["doctor", "--canary", "--json"])
    document = json.loads(result.stdout)
    assert (result.exit_code, document["is_slow"], document["earlier_count"]) == (code, is_slow, 5)
    assert document["readings"][-1]["time_s"] == 9e-3


def test_a_first_look_judges_nothing(tmp_path):
    pytest.importorskip("torch", reason="torch is not installed")
    result = CliRunner().invoke(app, ["doctor", "--canary", "--db", str(tmp_path / "none.db")])
    assert result.exit_code == 0
    assert "not judged: no earlier reading" in result.stdout
    assert not (tmp_path / "none.db").exists()
