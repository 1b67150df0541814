"""Exit codes, conditions, quarantine, baselines and environments of a diff."""

from __future__ import annotations

import datetime
import math
from dataclasses import replace

import diff_runs as runs
import numpy as np
import pytest

from reports.present.answers.diff import DiffAnswer
from reports.present.encoder import answer_json
from reports.present.words.diff_text import (
    common_text,
    counts_text,
    exit_text,
    failure_text,
    headline,
    incomparable_texts,
    listed_headline,
    percent,
    probability,
    sensitivity_text,
    signed,
    time_text,
)
from results.diff.baseline import check_complete, choose_baseline
from results.diff.environments import Difference, method_difference
from results.diff.gate import FailRule, gate, needed_processes, parse_fail_on, parse_max_ambiguous, rules_for
from results.diff.rules import VERDICTS, DiffRules
from results.diff.suites import compare_suites
from results.records.records import EnvironmentInfo, Method
from results.watch.quarantine import Quarantine, QuarantineEntry, load_quarantine
from roofline_model.core.errors import DefinitionError, InvalidValueError, StoreError
from roofline_model.core.finding import finding

SLOWER = (FailRule("slower"),)
NOISE = runs.floors(np.full(8, 0.005))


def diff(steps, *, before=None, after=None, flags=None, clocks_hz=None, **more):
    """A diff of 8 quiet cases; `steps`: case → change, `flags`: case → flags of the newer side."""
    rng = np.random.default_rng(11)
    logs = [runs.noisy(rng, 8, 4, 0.002) for _ in range(2)]
    for number, step in steps.items():
        logs[1][number] += step
    sides = [runs.side(logs[0], run=before or runs.run_info("a")), runs.side(logs[1], run=after or runs.run_info("b"))]
    keyed = {runs.case(number): value for number, value in (flags or {}).items()}
    sides[1] = replace(
        sides[1],
        records=tuple(
            replace(record, measurement=replace(record.measurement, flags=keyed.get(record.case, ())))
            for record in sides[1].records
        ),
    )
    if clocks_hz is not None:
        sides = [
            replace(
                side,
                records=tuple(
                    replace(record, measurement=replace(record.measurement, sm_clock_hz=hz)) for record in side.records
                ),
            )
            for side, hz in zip(sides, clocks_hz, strict=True)
        ]
    return compare_suites(*sides, NOISE, DiffRules(), **more)


def code(suite_diff, fail_on=SLOWER, most=None):
    return gate(suite_diff, fail_on, most).exit_code


def test_exit_codes():
    assert code(diff({})) == 0
    assert code(diff({1: 0.1})) == 1
    assert code(diff({1: -0.1})) == 0
    assert code(diff({1: 0.1}, before=replace(runs.run_info(), hardware_key="h100"))) == 4
    assert code(diff({}, flags={0: ("quarantined",)})) == 5
    assert code(diff({}, flags={0: ("contended",)})) == 0
    assert code(diff({}, flags=dict.fromkeys(range(5), ("contended",)))) == 5
    assert code(diff({1: math.log(1.1)}, clocks_hz=(2.0e9, 2.0e9 / 1.1))) == 5


def test_all_that_stands_in_the_way_is_told_at_once_and_first_what_cannot_be_allowed():
    before = runs.side(np.zeros((2, 3)), run=runs.run_info("a"))
    after = runs.side(
        np.zeros((2, 3)), run=replace(runs.with_facts(runs.run_info("b"), torch="3.0"), hardware_key="h100")
    )
    both = compare_suites(before, after, NOISE, DiffRules())
    differ = finding("environment-differs", differences=("chip b10 → h100", "torch 2.13.0 → 3.0"))
    assert gate(both, SLOWER).reasons == (differ,)

    other = replace(after.records[0].method, version="3")
    after = replace(after, records=tuple(replace(record, method=other) for record in after.records))
    suite_diff = compare_suites(before, after, NOISE, DiffRules())
    methods = finding("method-differs", methods="version 2 → 3")
    assert gate(suite_diff, SLOWER).reasons == (methods, differ)
    # where a list of them follows, the sentence only counts them, and the version of the method is no second fact
    versions = (Difference("method_version", "2", "3", False), Difference("host", "a", "b", False))
    listed = replace(suite_diff, environment=(*suite_diff.environment, *versions))
    assert listed_headline(listed, gate(listed, SLOWER)) == (
        "not comparable: measured by different methods, 2 facts of machine or software differ"
    )
    assert incomparable_texts(listed) == [
        "the method (version 2 → 3), which no --allow permits",
        "chip b10 → h100",
        "torch 2.13.0 → 3.0",
    ]
    assert [difference.name for difference in listed.permitted] == ["host"]
    # what nothing allows is still there with everything else allowed; one case by the same method is enough
    allowed = compare_suites(before, after, NOISE, DiffRules(), allowed=("chip", "torch"))
    assert gate(allowed, SLOWER).reasons == (methods,)
    mixed = replace(after, records=(*before.records[:3], *after.records[3:]))
    assert not compare_suites(before, mixed, NOISE, DiffRules()).method_difference


def test_what_the_times_are_is_said_where_another_table_may_say_another_number():
    assert "geometric mean of the processes' medians" in time_text(diff({}))
    one_each = compare_suites(runs.side(np.zeros((8, 1))), runs.side(np.zeros((8, 1))), NOISE, DiffRules())
    assert time_text(one_each) == ""


def test_a_regression_outranks_the_machines_state_and_ambiguity():
    assert code(diff({1: 0.1}, flags={0: ("quarantined",)}), most=0) == 1


def test_too_many_ambiguous_cases_exit_3():
    rng = np.random.default_rng(2)
    before, after = (runs.side(runs.noisy(rng, 8, 1)) for _ in range(2))
    suite_diff = compare_suites(before, after, {}, DiffRules())
    assert len(suite_diff.of("AMBIGUOUS")) == 8
    assert [code(suite_diff, most=most) for most in (7, 8, None)] == [3, 0, 0]


def test_fail_on_has_sizes_and_a_threshold_of_the_case_goes_first():
    suite_diff = diff({1: math.log(1.06)})
    assert code(suite_diff, parse_fail_on(["slower:5%"])) == 1
    assert code(suite_diff, parse_fail_on(["slower:7%"])) == 0
    changed = replace(suite_diff, cases=tuple(replace(case, threshold_ratio=0.05) for case in suite_diff.cases))
    assert code(changed, parse_fail_on(["slower:7%"])) == 1


def test_a_gate_with_a_size_fails_only_for_what_is_surely_beyond_it():
    """Issue 18: +30.9 % with an interval of −1.4 % to +73.8 % failed `slower:5%`."""
    before = runs.side(np.log([[1.0, 1.05, 1.2]]), run=runs.run_info("a"))
    after = runs.side(np.log([[1.21, 1.6, 1.8]]), run=runs.run_info("b"))
    fails = parse_fail_on(["slower:5%"])
    suite_diff = compare_suites(before, after, {}, rules_for(fails, DiffRules()))
    case = suite_diff.cases[0]
    assert case.change_ratio is not None
    assert case.low_ratio is not None
    assert case.change_ratio > 0.3
    assert case.p_value is not None
    assert case.p_value < 0.05
    assert case.low_ratio < 0.05
    assert case.verdict == "AMBIGUOUS"
    assert gate(suite_diff, fails).exit_code == 0
    assert gate(suite_diff, fails, 0).exit_code == 3


def test_a_gate_that_sees_too_little_does_not_pass_and_says_what_would_see():
    before, after = (
        runs.side(runs.noisy(np.random.default_rng(seed), 8, 3, 0.1), run=runs.run_info(name))
        for seed, name in ((1, "a"), (2, "b"))
    )
    suite_diff = compare_suites(before, after, {}, DiffRules())
    ambiguous = sum(case.verdict == "AMBIGUOUS" for case in suite_diff.cases)
    assert ambiguous >= 6
    assert gate(suite_diff, SLOWER, *parse_max_ambiguous("")).exit_code == 0
    assert gate(suite_diff, SLOWER, *parse_max_ambiguous(str(ambiguous))).exit_code == 0
    assert gate(suite_diff, SLOWER, *parse_max_ambiguous("100%")).exit_code == 0
    result = gate(suite_diff, SLOWER, *parse_max_ambiguous("20%"))
    assert result.exit_code == 3
    (reason,) = result.reasons
    assert reason.code == "too-ambiguous"
    assert (reason.value("case_count"), reason.value("decided_count"), reason.value("limit_count")) == (ambiguous, 8, 1)
    count = reason.value("process_count")
    assert isinstance(count, int)
    assert 20 <= count <= 80  # 40 find it: (3.4 + 0.84) · 10 % · √(2/40) is ln 1.1; six processes know 10 % roughly


def test_needed_processes_are_those_of_the_smallest_step():
    case = replace(diff({}).cases[0], smallest_step_ratio=0.21, before_process_count=3, after_process_count=3)
    assert needed_processes(case, 0.1) == 12  # half the step in logarithms: four times the processes
    assert needed_processes(replace(case, before_process_count=15), 0.1) == 20
    assert math.isinf(needed_processes(replace(case, smallest_step_ratio=None), 0.1))


@pytest.mark.parametrize(
    ("text", "limit"), [("", (None, None)), ("12", (12, None)), ("20%", (None, 0.2)), ("2.5 %", (None, 0.025))]
)
def test_most_ambiguous_cases_are_a_count_or_a_share(text, limit):
    assert parse_max_ambiguous(text) == limit


@pytest.mark.parametrize("text", ["-1", "x", "0.2", "101%", "%", "1,2"])
def test_a_limit_that_is_neither_is_refused(text):
    with pytest.raises(InvalidValueError, match="--max-ambiguous takes a number of cases"):
        parse_max_ambiguous(text)


@pytest.mark.parametrize(
    ("step", "verdict", "reason", "exit_code"),
    [
        (0.03, "SAME", "below-limit", 0),
        (0.05, "AMBIGUOUS", "limit-unproven", 0),
        (0.08, "SLOWER", "significant", 1),
        (-0.08, "FASTER", "significant", 0),
    ],
)
def test_a_size_is_the_limit_that_slower_is_asked_about(step, verdict, reason, exit_code):
    fails = parse_fail_on(["slower:5%"])
    rng = np.random.default_rng(11)
    logs = [runs.noisy(rng, 8, 4, 0.002) for _ in range(2)]
    logs[1][1] += math.log1p(step)
    sides = [runs.side(side, run=runs.run_info(name)) for side, name in zip(logs, "ab", strict=True)]
    suite_diff = compare_suites(*sides, NOISE, rules_for(fails, DiffRules()))
    case = next(case for case in suite_diff.cases if case.case == runs.case(1))
    assert (case.verdict, case.reason) == (verdict, reason)
    assert gate(suite_diff, fails).exit_code == exit_code


def test_the_rules_of_a_gate():
    assert rules_for(parse_fail_on(["slower"]), DiffRules()) == DiffRules()
    sized = rules_for(parse_fail_on(["slower:7%,slower:3%"]), DiffRules(0.02))
    assert (sized.limit_ratio, sized.asked_ratio, sized.min_effect_ratio) == (0.03, 0.03, 0.02)
    assert rules_for(parse_fail_on(["slower:7%,slower"]), DiffRules()).asked_ratio == 0.0  # any slow-down fails


def test_gone_fails_only_where_asked_and_only_for_a_complete_run():
    suite_diff = diff({})
    lacking = replace(
        suite_diff,
        cases=(replace(suite_diff.cases[0], verdict="GONE", reason="failed", detail="wrong"), *suite_diff.cases[1:]),
    )
    assert code(lacking) == 0
    result = gate(lacking, parse_fail_on(["slower,gone"]))
    assert (result.exit_code, failure_text(result.failures[0])) == (1, "failed (wrong)")
    cut = replace(lacking, after=tuple(replace(run, status="interrupted") for run in lacking.after))
    assert code(cut, parse_fail_on(["gone"])) == 0


@pytest.mark.parametrize(
    "text", ["faster", "slower:", "slower:5", "slower:-5%", "slower:5%%", "gone:5%", "", "slower,,gone", "slower:٥%"]
)
def test_fail_on_that_means_nothing_is_refused(text):
    with pytest.raises(InvalidValueError, match="--fail-on takes"):
        parse_fail_on([text])


def test_fail_on_reads_back():
    rules = parse_fail_on(["Slower:5%,gone", "energy:2.5 %"])
    assert [rule.text for rule in rules] == ["slower:5%", "gone", "energy:2.5%"]


@pytest.mark.parametrize("size", ["0.00001", "0.000001", "12.345678", "100", "999.999999"])
def test_the_text_of_a_condition_is_read_back_as_the_same_condition(size):
    (rule,) = parse_fail_on([f"slower:{size}%"])
    assert rule.text == f"slower:{size}%"
    assert parse_fail_on([rule.text]) == (rule,)


def test_a_size_of_a_whole_time_and_more_is_judged():
    fails = parse_fail_on(["slower:100%"])
    for step, exit_code in ((0.8, 0), (1.5, 1)):
        before, after = runs.pair({1: math.log1p(step)})
        suite_diff = compare_suites(before, after, {}, rules_for(fails, DiffRules()))
        assert gate(suite_diff, fails).exit_code == exit_code
    assert rules_for(parse_fail_on(["slower:999.999999%"]), DiffRules()).limit_ratio == pytest.approx(9.99999999)


def test_what_is_said_first():
    suite_diff = diff({1: 0.1, 2: -0.1})
    text = headline(suite_diff, gate(suite_diff, SLOWER))
    assert text.startswith("1 of 8 cases is slower: gemv 1x1025x64 BF16 · matmul +10.")
    assert text.endswith("; 1 faster")
    assert headline(diff({}), gate(diff({}), SLOWER)) == "nothing changed by more than noise in 8 cases"
    assert counts_text(suite_diff) == "1 slower, 1 faster, 6 same"
    assert "four of five such diffs would find a case that got" in sensitivity_text(suite_diff)
    assert common_text(suite_diff) == ""
    moved = diff(dict.fromkeys(range(8), 0.1))
    assert common_text(moved).startswith("the whole suite moved together: +10.")


def test_no_sentence_claims_what_was_not_judged():
    invalid = diff({}, flags=dict.fromkeys(range(8), ("contended",)))
    assert headline(invalid, gate(invalid, SLOWER)).startswith(
        "nothing could be judged; 8 of 8 cases are invalid: e.g. gemv "
    )
    assert not invalid.is_judged
    assert sensitivity_text(invalid) == ""
    rng = np.random.default_rng(2)
    unknown = compare_suites(*(runs.side(runs.noisy(rng, 8, 1)) for _ in range(2)), {}, DiffRules())
    assert headline(unknown, gate(unknown, SLOWER)).startswith(
        "nothing could be judged; 8 of 8 cases are ambiguous: the most gemv "
    )
    partly = diff({}, flags={3: ("contended",)})
    assert headline(partly, gate(partly, SLOWER)).startswith(
        "nothing is slower; 1 of 8 cases is invalid: gemv 1x1027x64 BF16 · matmul"
    )


def test_a_machine_that_was_busy_is_told_which_run_to_measure_again():
    after = replace(runs.run_info("b"), command="pytest bench_cases -k gemv")
    suite_diff = diff({}, after=after, flags=dict.fromkeys(range(8), ("contended",)))
    (reason,) = gate(suite_diff, SLOWER).reasons
    assert (reason.value("sides"), reason.value("commands")) == (("after",), (after.command,))
    assert after.command in exit_text(gate(suite_diff, SLOWER))
    imported = diff({}, after=replace(after, command="import of a table"), flags=dict.fromkeys(range(8), ("stolen",)))
    assert gate(imported, SLOWER).reasons[0].value("commands") is None


@pytest.mark.parametrize("option", ["--roofline-run=nightly-2026-11-27", "--roofline-run monday"])
def test_no_command_that_would_store_a_second_run_of_the_same_name_is_given(option):
    labelled = replace(runs.run_info("b"), command=f"pytest perf {option} --roofline-json=out/run.json")
    busy = diff({}, after=labelled, flags=dict.fromkeys(range(8), ("contended",)))
    text = exit_text(gate(busy, SLOWER))
    assert "run again when `roofline doctor` calls the machine quiet" in text
    assert "pytest" not in text


def test_numbers_as_text():
    assert [signed(ratio) for ratio in (0.031, -0.5, 1.5, 99.0, -0.9999)] == [
        "+3.1 %",
        "-50.0 %",
        "+150 %",
        ">+999 %",
        "-100 %",
    ]
    assert [percent(ratio) for ratio in (0.031, 0.12, 12.0)] == ["3.1 %", "12 %", ">999 %"]
    assert [probability(p_value) for p_value in (0.0312, 1e-12, None)] == ["0.031", "<1e-9", "–"]


def test_the_document_holds_what_the_diff_says():
    suite_diff = diff({1: 0.1})
    document = answer_json(DiffAnswer(suite_diff, gate(suite_diff, SLOWER), SLOWER))
    assert document["exit_code"] == 1
    assert document["counts"] == {**dict.fromkeys(VERDICTS, 0), "SLOWER": 1, "SAME": 7}
    (failure,) = document["failures"]
    slow = next(
        case_document for case_document in document["cases"] if case_document["case_key"] == failure["case_key"]
    )
    assert slow["verdict"] == "SLOWER"
    assert slow["case"]["shape"] == {"M": 1, "N": 1025, "K": 64}
    assert slow["change_ratio"] == pytest.approx(suite_diff.of("SLOWER")[0].change_ratio)


# Environment -------------------------------------------------------------------------------------------------------


def test_class_facts_block_and_others_are_told():
    newer = runs.with_facts(runs.run_info(), driver="590", torch="2.14.0", python="3.12.1", load_1min=7.0)
    older = runs.with_facts(runs.run_info(git_commit="f" * 40), driver="580")
    suite_diff = diff({}, before=older, after=newer)
    assert {difference.text for difference in suite_diff.blocking} == {"torch 2.13.0 → 2.14.0", "driver 580 → 590"}
    assert {difference.text for difference in suite_diff.environment if not difference.is_blocking} == {
        "python 3.11.4 → 3.12.1",
        "commit fffffffff → 0123abcd4",
    }
    assert suite_diff.cases == ()
    assert gate(suite_diff, SLOWER).reasons[0].code == "environment-differs"
    allowed = diff({1: 0.1}, before=older, after=newer, allowed=["driver", "torch"])
    assert code(allowed) == 1
    assert "driver 580 → 590" in {difference.text for difference in allowed.environment}


def test_a_fact_that_a_process_could_not_know_is_no_difference():
    # The CPU libraries of torch are None where nothing had loaded it yet.
    before = runs.with_facts(runs.run_info(), blas=None, host="a")
    after = runs.with_facts(runs.run_info(), blas="BLAS mkl", host="b")
    for first, second in ((before, after), (after, before)):
        assert [difference.name for difference in diff({}, before=first, after=second).environment] == ["host"]


def test_a_fact_that_is_a_table_differs_by_its_entries_and_a_fact_that_is_new_is_unknown_before():
    before = runs.with_facts(runs.run_info(), speed={"A": 1, "B": 2})
    after = runs.with_facts(runs.run_info(), speed={"A": 1, "B": 3}, kernel="6.1")
    assert {difference.text for difference in diff({}, before=before, after=after).environment} == {
        "speed.B 2 → 3",
        "kernel unknown → 6.1",
    }


def test_a_forced_run_is_not_compared_with_one_that_is_not():
    suite_diff = diff({}, after=replace(runs.run_info(), is_forced=True))
    assert [difference.text for difference in suite_diff.blocking] == ["forced false → true"]


# Quarantine --------------------------------------------------------------------------------------------------------

TODAY = datetime.date(2026, 11, 21)


def test_a_quarantined_case_is_judged_and_fails_nothing():
    listed = Quarantine((QuarantineEntry("gemv 1x1025x64*", "issue 41"), QuarantineEntry("gemm *", "none")))
    suite_diff = diff({1: 0.1}, quarantine=listed)
    (slow,) = suite_diff.of("SLOWER")
    assert slow.quarantine_reason == "issue 41"
    assert code(suite_diff) == 0
    assert suite_diff.unused_quarantine == (finding("entry-unused", "quarantine gemm *", kind="unmatched"),)


def test_a_list_is_read_and_expires(tmp_path):
    path = tmp_path / "quarantine.toml"
    key = runs.case(0).case_key
    path.write_text(
        f'[[case]]\nmatch = "{key}"\nreason = "two states"\nuntil = 2026-11-21\n\n[[case]]\nmatch = "gemv *"\nreason = '
        '"old"\nuntil = 2026-11-20\n'
    )
    listed = load_quarantine(path, TODAY)
    assert listed.reason_of("anything", key) == "two states"
    assert listed.reason_of("gemv 1x1", "other") == ""
    assert listed.unused([("gemv 1x1", "other")]) == (
        finding("entry-unused", f"quarantine {key}", kind="unmatched"),
        finding("entry-unused", "quarantine gemv *", kind="expired", until="2026-11-20"),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[case]]\nmatch = 'x'", "has no reason"),
        ("[[case]]\nreason = 'x'", "has no match"),
        ("[[case]]\nmatch = 'x'\nreason = 'y'\nuntil = 'tomorrow'", "until must be a date"),
        ("[[case]]\nmatch = 'x'\nreason = 'y'\nuntil = 2026-01-01T10:00:00", "until must be a date"),
        ("[[case]]\nmatch = 'x'\nreason = '  '", "case 1 has no reason"),
        ("[[case]]\nmatch = 'x'\nreason = 'y'\nutil = 2026-01-01", "has a field 'util'"),
        ("[[cases]]\nmatch = 'x'", "a quarantine list holds [[case]] tables"),
        ("case = 3", "holds [[case]] tables"),
        ("[[case", "is not TOML"),
        ("x" * 2**21, "longer than 1 MiB"),
    ],
)
def test_a_list_that_is_wrong_is_refused(tmp_path, text, message):
    path = tmp_path / "q.toml"
    path.write_text(text)
    with pytest.raises(DefinitionError, match=message.replace("[", r"\[")):
        load_quarantine(path, TODAY)


def test_a_list_that_is_not_there_or_not_text_is_refused(tmp_path):
    (tmp_path / "q.toml").write_bytes(b"\xff\xfe")
    for path, message in (
        (tmp_path / "none", "is not a file"),
        (tmp_path, "is not a file"),
        (tmp_path / "q.toml", "not UTF-8"),
    ):
        with pytest.raises(DefinitionError, match=message):
            load_quarantine(path, TODAY)


# Baseline ----------------------------------------------------------------------------------------------------------


def at(day: int, label: str = "", **changes):
    return runs.run_info(label, started_at=f"2026-03-{day:02d}T10:00:00.000000+00:00", **changes)


AFTER = at(20, "tonight")
OTHER_CLASS = EnvironmentInfo({**runs.FACTS, "cpu": "old", "host": "else"}, {"cpu": "old"})
NEWEST_FIRST = [
    at(25, "tomorrow"),
    AFTER,
    at(19, "cut", status="interrupted"),
    at(18, "going", status="running"),
    at(17, "elsewhere", environment=OTHER_CLASS),
    at(16, "branch", git_branch="wip"),
    at(15, "forced", is_forced=True),
    at(14, "b10"),
    at(13, "old"),
    at(12, "old"),
    at(11),
    at(10),
    at(9),
]


def chosen(against, after=AFTER, all_runs=NEWEST_FIRST):
    wanted = choose_baseline(against, (after,), all_runs)
    return wanted if wanted is None else [run.started_at[8:10] for run in wanted.chosen]


@pytest.mark.parametrize(
    ("against", "days"),
    [
        ("latest", ["14"]), ("latest~1", ["14"]), ("latest~2", ["13"]), ("baseline", ["14", "13", "12", "11", "10"]), ("BASELINE:2", ["14", "13"]),
        ("branch:wip", ["16"]), ("old", ["13"]), ("elsewhere", ["17"]), ("cut", None), ("nobody", None), ("branch:none", []), ("latest~9", []),
    ],
)  # fmt: skip
def test_a_baseline_is_complete_older_and_alike(against, days):
    assert chosen(against) == days


def test_the_first_run_has_no_baseline():
    assert chosen("latest", NEWEST_FIRST[-1]) == []
    assert chosen("baseline", NEWEST_FIRST[-1]) == []


def test_after_an_update_the_last_run_of_the_host_is_given_so_that_the_diff_can_say_what_changed():
    updated = runs.with_facts(AFTER, torch="2.14.0")
    assert chosen("latest", updated) == ["15"]  # the newest complete one of this host and branch
    assert chosen("BASELINE", updated) == ["15"]
    stranger = runs.with_facts(AFTER, host="new machine", torch="2.14.0")
    assert chosen("latest", stranger) == []


@pytest.mark.parametrize("against", ["baseline:0", "baseline:101", "branch:", "branch: "])
def test_a_baseline_that_means_nothing_is_refused(against):
    with pytest.raises(InvalidValueError):
        choose_baseline(against, (AFTER,), NEWEST_FIRST)


@pytest.mark.parametrize(("status", "message"), [("running", "has not ended"), ("interrupted", "was cut short")])
def test_an_incomplete_run_is_never_a_baseline(status, message):
    with pytest.raises(StoreError, match=message):
        check_complete(replace(AFTER, status=status))
    check_complete(AFTER)


def test_a_setting_that_one_method_does_not_have_is_none_and_not_unknown():
    visited = Method("monotonic", "2", {"max_seconds": 0.7, "visits": 12})
    assert method_difference(visited, Method("monotonic", "2", {"max_seconds": 0.7})) == ["visits 12 → none"]


def test_a_table_of_facts_is_printed_as_settings():
    before, after = runs.run_info("a"), runs.run_info("b")
    facts = {"speed_variables": {"OPENBLAS_CORETYPE": "Haswell", "MKL_CBWR": "AUTO"}}
    after = replace(after, environment=replace(after.environment, class_facts=after.environment.class_facts | facts))
    (difference,) = diff({}, before=before, after=after).blocking
    assert difference.after == "MKL_CBWR=AUTO, OPENBLAS_CORETYPE=Haswell"
