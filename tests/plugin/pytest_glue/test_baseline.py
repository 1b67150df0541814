"""`--roofline-baseline` and `--roofline-fail-on` in a fresh pytest on the simulated device; thresholds by marker."""

from __future__ import annotations

import datetime

import pytest

from plugin.pytest_glue.fixtures import threshold_facts
from results import open_store
from roofline_model.core.errors import InvalidValueError

SUITE = """
    import pytest
    from roofline_model import OpCost

    def test_a(roofline):
        roofline.measure(lambda: None, work=OpCost(read_bytes={a}e6), name="a")

    @pytest.mark.roofline(threshold="20%")
    def test_b(roofline):
        roofline.measure(lambda: None, work=OpCost(read_bytes={b}e6), name="b")
"""
OPTIONS = (
    "--hw",
    "b10",
    "--roofline-timer",
    "simulated:noise=0.01,efficiency=0.5",
    "--roofline-db",
    "r.db",
    "-p",
    "no:cacheprovider",
    "--roofline-processes",
    "3",
)


def run(pytester, *options: str, a: float = 1.0, b: float = 1.0):
    pytester.makepyfile(test_kernels=SUITE.format(a=a, b=b))
    return pytester.runpytest_subprocess(*OPTIONS, *options)


def test_a_run_is_compared_with_its_baseline_and_fails_by_what_was_asked(pytester):
    first = run(pytester, "--roofline-baseline", "latest", "--roofline-fail-on", "slower")
    assert first.ret == 0
    first.stdout.fnmatch_lines(["*nothing to compare with yet; this run can be the first baseline*"])

    # a and b take a tenth longer; b's own threshold is a fifth
    second = run(pytester, "--roofline-baseline", "latest", "--roofline-fail-on", "slower:5%", a=1.1, b=1.1)
    assert second.ret == 1
    second.assert_outcomes(passed=6)
    second.stdout.fnmatch_lines(
        [
            "against *: 1 of 2 cases is slower: custom a-warm",
            "    +10.0 % (95 %: *)",
            "  SLOWER custom a-warm +10.0 %*",
            "1 slower, 1 same",
        ]
    )

    part = run(
        pytester, "--roofline-baseline", "latest~2", "--roofline-fail-on", "slower,gone", "-k", "test_a and not test_b"
    )
    assert part.ret == 0
    part.stdout.fnmatch_lines(["*1 not selected by -k 'test_a and not test_b'*"])
    part.stdout.no_fnmatch_line("*GONE*")

    with open_store(pytester.path / "r.db", read_only=True) as store:
        records = store.records(store.runs()[1].run_id)
    assert {record.case.kernel: record.extra.get("threshold_ratio") for record in records} == {"a": None, "b": 0.2}


def test_the_lists_of_the_diff_hold_for_the_gate_of_a_run_too(pytester):
    assert run(pytester).ret == 0
    gate = ("--roofline-baseline", "latest~2", "--roofline-fail-on", "slower")
    assert run(pytester, "--roofline-baseline", "latest", "--roofline-fail-on", "slower", a=1.2).ret == 1

    pytester.makefile(".toml", quarantine='[[case]]\nmatch = "custom a*"\nreason = "two code paths"')
    listed = run(pytester, *gate, "--roofline-quarantine", "quarantine.toml", a=1.2)
    assert listed.ret == 0
    listed.stdout.fnmatch_lines(["  SLOWER custom a-warm*", "*two code paths*"])

    today = datetime.datetime.now(datetime.UTC).date()
    pytester.makefile(".toml", notes=f'[[annotation]]\nmatch = "custom a*"\non = {today}\nreason = "more work"')
    expected = run(
        pytester, "--roofline-baseline", "latest~3", *gate[2:], "--roofline-annotations", "notes.toml", a=1.2
    )
    assert expected.ret == 0
    expected.stdout.fnmatch_lines(["  SLOWER custom a-warm*", "*more work*"])

    pytester.makefile(".toml", wrong="[[case]]\nmatch = 1")
    wrong = run(pytester, *gate, "--roofline-quarantine", "wrong.toml")
    assert wrong.ret == 2
    wrong.assert_outcomes()  # nothing was measured
    wrong.stderr.fnmatch_lines(["ERROR: *wrong.toml*"])


def test_an_unknown_baseline_is_said_before_anything_is_measured(pytester):
    result = run(pytester, "--roofline-baseline", "nobody")
    assert result.ret == 2
    result.stderr.fnmatch_lines(["ERROR: *unknown run 'nobody'*"])


@pytest.mark.parametrize(("value", "ratio"), [(0.05, 0.05), ("5%", 0.05), (" 12.5 % ", 0.125)])
def test_a_threshold_is_a_share_or_a_text_of_percent(value, ratio):
    assert threshold_facts({"threshold": value}) == {"threshold_ratio": pytest.approx(ratio)}
    assert threshold_facts({}) == {}


@pytest.mark.parametrize("value", [5, 0, 1.0, -0.1, True, "5", "0%", "105%", "five", float("nan"), [0.1]])
def test_a_threshold_that_is_none_is_refused(value):
    with pytest.raises(InvalidValueError, match=r"0\.05"):
        threshold_facts({"threshold": value})
