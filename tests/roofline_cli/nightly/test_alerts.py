"""Change points as alerts: each event once, in its metric's unit, with how to look further."""

from __future__ import annotations

import pytest

from roofline_cli.nightly.alerts import alerts_of


def change(alert_id="0123456789abcdef", status="open", **values):
    return {
        "kind": "step",
        "alert_id": alert_id,
        "status": status,
        "before_value": 1e-3,
        "after_value": 1.1e-3,
        "change_value": 0.1,
        "run_id": "ab" * 16,
        "started_at": "2026-11-20T01:17:00+00:00",
        "found_run_id": "cd" * 16,
        "found_at": "2026-11-21T01:17:00+00:00",
        "night_count": 2,
        "is_confirmed": False,
        "changed": ["driver 580 → 590"],
        "clock_ratio": None,
        "reason": "",
        "fixed_at": "",
        "is_open": status == "open",
        "hardware": "",
        "commit_before": None,
        "commit_after": None,
        **values,
    }


def history(*changes, name="gemv 1x4096x4096-matmul", metric="time"):
    return {"metric": {"key": metric}, "cases": [{"name": name, "case_key": f"key of {name}", "changes": changes}]}


def alert_of(*changes, **place):
    (alert,) = alerts_of([history(*changes, **place)])
    return alert


@pytest.mark.parametrize("status", ["fixed", "annotated", "quarantined", "superseded", "withdrawn", "drifting"])
def test_what_is_over_says_why(status):
    alert = alert_of(change(status=status, reason="expected: driver 590"))
    assert (alert.status, alert_of(change()).closing) == (status, "")
    assert alert.closing.endswith(". expected: driver 590")


def test_what_is_better_is_no_alert():
    assert list(alerts_of([history(change(status="better"))])) == []


def test_an_error_that_moved_because_the_time_did_is_no_second_alert():
    error = change("1" * 16, before_value=0.05, after_value=-0.05, change_value=-0.1)
    elsewhere = change("2" * 16, before_value=0.05, after_value=-0.05, change_value=-0.1, run_id="ef" * 16)
    documents = [history(error, elsewhere, metric="error"), history(change())]
    assert [alert.alert_id for alert in alerts_of(documents)] == ["0123456789abcdef", "2" * 16]
    assert [alert.alert_id for alert in alerts_of(documents[:1])] == ["1" * 16, "2" * 16]


def test_an_alert_says_where_by_how_much_and_how_to_look_further():
    place = {"hardware": "gb10", "commit_before": "a" * 40, "commit_after": "b" * 40}
    alert = alert_of(change(before_value=1.03e-4, after_value=1.133e-4, clock_ratio=0.9, **place))
    assert alert.title == "[roofline] time +10.0 %: gemv 1x4096x4096-matmul on gb10 since 2026-11-20"
    for line in (
        "**time** of `gemv 1x4096x4096-matmul` on gb10 changed: +10.0 %.",
        "- before 103 µs, after 113.3 µs",
        "- differs from the run before: driver 580 → 590",
        "- the clock moved too, to 0.90 of what it was: slower by as much is not the kernel",
        "- commits `aaaaaaaaaaaa..bbbbbbbbbbbb`",
        "    roofline history 'gemv 1x4096x4096-matmul' --metric time",
        "    roofline show abababab 1x4096x4096-matmul",
        "    git log --oneline aaaaaaaaaaaa..bbbbbbbbbbbb",
    ):
        assert line in alert.body.splitlines()


@pytest.mark.parametrize(
    ("commits", "message"),
    [
        ((None, None), "commit: none is known"),
        ((None, "b" * 40), "commit `bbbbbbbbbbbb`; that of the run before is unknown"),
        (("b" * 40, "b" * 40), "the same as the run before: not the code of that repository"),
    ],
)
def test_commits_that_tell_nothing_are_no_range(commits, message):
    body = alert_of(change(commit_before=commits[0], commit_after=commits[1])).body
    assert message in body
    assert "git log" not in body


@pytest.mark.parametrize(
    ("metric", "values", "shown", "title"),
    [
        ("error", (0.06, 0.12), ("+6.0 %", "+12.0 %"), "prediction error +6.0 points: gemv"),
        ("quality", (0.01, 0.07), ("0.01 nats/token", "0.07 nats/token"), "quality +0.06 nats/token: gemv"),
        ("memory", (1.5e9, 3e9), ("1.5 GB", "3 GB"), "memory +6.0 %: gemv"),
        ("energy", (0.25, 12.0), ("250 mJ", "12 J"), "energy +6.0 %: gemv"),
    ],
)
def test_every_metric_has_its_unit(metric, values, shown, title):
    alert = alert_of(change(before_value=values[0], after_value=values[1], change_value=0.06), metric=metric)
    assert f"before {shown[0]}, after {shown[1]}" in alert.body
    assert title in alert.title


def test_a_drift_and_a_step_of_one_case_can_be_told_apart():
    step, drift = alerts_of([history(change(), change("f" * 16, kind="drift"))])
    assert step.title.endswith("1x4096x4096-matmul since 2026-11-20")
    assert drift.title.endswith("drifting since 2026-11-20")


def test_case_names_cannot_leave_their_backticks():
    assert "of `gemv '</details>'` changed" in alert_of(change(), name="gemv `</details>`").body
