"""Base against head: who is measured when, what the code under test never sees, and the exit code."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from loaded_scripts import load_script
from nightly_files import written_run

ROOT = Path(__file__).resolve().parents[2]
bench = load_script("pull_request_bench")


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROOFLINE_MACHINE_LOCK", str(tmp_path / "lock"))
    for side in bench.SIDES:
        (tmp_path / side).mkdir()


WORDS = ["--base", "base", "--head", "head", "--out", "out"]


def answering(monkeypatch, answer, run=lambda side, ordinal: written_run()):
    commands = []

    def call(command, contest, side, *, limit_s=None, is_tool=False):
        commands.append((side, command))
        if "diff" in command:
            Path(command[command.index("-o") + 1]).write_text("the diff\n", encoding="utf-8")
        if "pytest" in command and (text := run(side, ordinal_of(command))):
            Path(value_of(command, "--roofline-json")).write_text(text, encoding="utf-8")
        return answer(side, command)

    monkeypatch.setattr(bench, "_call", call)
    return commands


def value_of(command, option):
    return next(word.partition("=")[2] for word in command if word.startswith(f"{option}="))


def ordinal_of(command):
    return int(value_of(command, "--roofline-run").partition("-")[2])


def rounds_of(commands):
    return "".join(side[0].upper() for side, command in commands if "pytest" in command)


@pytest.mark.parametrize("rounds", [2, 4, 8, 9])
def test_the_order_is_fair_to_both(monkeypatch, rounds):
    commands = answering(monkeypatch, lambda side, command: 0)
    assert bench.main([*WORDS, "--rounds", str(rounds)]) == 0
    order = rounds_of(commands)
    assert order.startswith("BHHBHBBH"[: 2 * rounds])
    assert order.count("B") == order.count("H") == rounds
    if rounds % 4 == 0:  # a steady drift cancels: both sides have the same mean position
        places = {side: [i for i, side_run in enumerate(order) if side_run == side] for side in "BH"}
        assert sum(places["B"]) == sum(places["H"])


def test_each_side_has_its_database_and_the_diff_pools_the_rounds(monkeypatch):
    commands = answering(monkeypatch, lambda side, command: 0)
    assert bench.main([*WORDS, "--rounds", "2", "--fail-on", "slower:3%"]) == 0
    used = {
        side: {
            value_of(command, "--roofline-db")
            for side_run, command in commands
            if side_run == side and "pytest" in command
        }
        for side in bench.SIDES
    }
    assert {side: {Path(path).name for path in paths} for side, paths in used.items()} == {
        "base": {"base.db"},
        "head": {"rounds.db"},
    }
    compared = next(command for _, command in commands if "diff" in command)
    assert compared[5:7] == ["base-0,base-1", "head-0,head-1"]
    assert compared[7:9] == ["--fail-on", "slower:3%"]
    carried = [Path(command[5]).name for _, command in commands if "import" in command]
    assert carried == ["base-0.json", "base-1.json"]
    assert sorted(path.name for path in Path("out").iterdir()) == ["diff.json", "diff.md", "diff.txt", "result.json"]


def test_every_value_stands_behind_its_option(monkeypatch):
    """A word of its own that is an existing path makes pytest look for its rootdir there."""
    commands = answering(monkeypatch, lambda side, command: 0)
    assert (
        bench.main([*WORDS, "--rounds", "2", "--shapes", "shapes.csv", "--hw", "chip.toml", "--formats", "INT4"]) == 0
    )
    command = next(command for _, command in commands if "pytest" in command)
    ours = [word for word in command if word.startswith("--roofline")]
    assert len(ours) == 7
    assert all("=" in word for word in ours)


@pytest.mark.parametrize("text", [None, written_run(0, ["softmax"])], ids=["no run at all", "every case failed"])
def test_a_round_that_measures_nothing_ends_the_comparison(monkeypatch, text, capsys):
    commands = answering(
        monkeypatch,
        lambda side, command: 1 if "pytest" in command else 0,
        lambda side, ordinal: text if (side, ordinal) == ("head", 1) else written_run(),
    )
    assert bench.main([*WORDS, "--rounds", "4"]) == 2
    error_text = capsys.readouterr().err
    assert "nothing was measured in head, round 2 of 4" in error_text
    assert ("softmax: wrong result" in error_text) == (text is not None)
    assert not [command for _, command in commands if "diff" in command]
    assert rounds_of(commands) == "BHH"


def test_a_case_that_fails_in_the_head_alone_is_named_and_fails_the_comparison(monkeypatch, capsys):
    answering(
        monkeypatch,
        lambda side, command: int("pytest" in command),
        lambda side, ordinal: written_run(
            1 + (ordinal == 0), ["old", *(["new|case"] if (side, ordinal) == ("head", 1) else [])]
        ),
    )
    assert bench.main([*WORDS, "--rounds", "2"]) == 1
    text, page = (Path("out", name).read_text(encoding="utf-8") for name in ("diff.txt", "diff.md"))
    assert text.startswith("1 case fails in the head and not in the base: t.py::new|case\n")
    assert page.startswith("### ❌ 1 case fails in the head and not in the base: t.py::new")
    assert "head, round 2: 1 measured, 2 failed; t.py::old: wrong result; t.py::new|case: wrong result" in text
    assert "- base, round 1: 2 measured, 1 failed" in page
    assert "new\\|case" in page
    result = json.loads(Path("out/result.json").read_text(encoding="utf-8"))
    assert (result["exit_code"], result["fails_in_head_only"]) == (1, ["t.py::new|case"])
    assert [(measurement["side"], measurement["round"]) for measurement in result["measured"]] == [
        ("base", 1),
        ("head", 1),
        ("head", 2),
        ("base", 2),
    ]
    output = capsys.readouterr().out
    assert "order: base head head base" in output
    assert "something failed in 4 of 4 rounds" in output
    assert str(Path("out/diff.md").resolve()) in output


def test_a_round_that_measured_less_than_the_others_is_named(monkeypatch):
    answering(
        monkeypatch, lambda side, command: 0, lambda side, ordinal: written_run(3 - (side == "base" and ordinal == 1))
    )
    assert bench.main([*WORDS, "--rounds", "2"]) == 0
    text = Path("out/diff.txt").read_text(encoding="utf-8")
    assert text.endswith("Rounds that were not whole:\nbase, round 2: 2 measured\n")


def test_no_secret_reaches_the_code_under_test(monkeypatch, tmp_path):
    for name in bench.PRIVATE:
        monkeypatch.setenv(name, "secret")
    (tmp_path / "head" / "src").mkdir()
    contest = bench._contest(parsed())
    for side in bench.SIDES:
        assert "secret" not in contest.environment(side).values()
    assert contest.environment("head")["PYTHONPATH"].split(":")[:2] == [
        str(tmp_path / "head"),
        str(tmp_path / "head" / "src"),
    ]


def test_the_tool_is_not_taken_from_a_repository_that_has_none(tmp_path):
    contest = bench._contest(parsed())
    assert contest.environment("base", is_tool=True)["PYTHONPATH"].split(":")[0] == str(ROOT)
    (tmp_path / "head" / "roofline_cli").mkdir()
    assert contest.environment("head", is_tool=True)["PYTHONPATH"].split(":")[0] == str(tmp_path / "head")


def parsed():
    import argparse

    return argparse.Namespace(
        base=Path("base"),
        head=Path("head"),
        out=Path("out"),
        rounds=2,
        tests="perf",
        keyword="",
        hw="",
        shapes="",
        formats="",
        pytest_options="",
        prepare="",
        python=sys.executable,
        round_minutes=1.0,
        fail_on="",
        max_ambiguous="",
    )


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (lambda side, command: 1 if "diff" in command else 0, 1),
        (lambda side, command: 4 if "diff" in command else 0, 4),
        (lambda side, command: 1 if "pytest" in command and side == "head" else 0, 1),
        (lambda side, command: 1 if "pytest" in command else 0, 0),  # it failed before, too: the diff decides
        (lambda side, command: 2 if "pytest" in command and side == "base" else 0, 2),
        (lambda side, command: 2 if "diff" in command else 0, 2),
        (lambda side, command: 5 if "nightly_canary" in " ".join(command) else 0, 5),
        (lambda side, command: 1 if command[0] == "prepare-it" else 0, 2),
    ],
)
def test_exit_codes(monkeypatch, answer, code, capsys):
    commands = answering(monkeypatch, answer)
    assert bench.main([*WORDS, "--rounds", "2", "--prepare", "prepare-it --all"]) == code
    if code == 5:
        assert rounds_of(commands) == ""
    if code == 2:
        assert capsys.readouterr().err.startswith("error: ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--rounds", "1"], "2 or more"),
        (["--base", "nowhere"], "is not a folder"),
        (["--out", "head"], "is not empty"),
        (["--pytest-options=-k 'x"], "close the quotation"),
        (["--pytest-options=--roofline-db=x.db"], "rounds are kept in --out"),
        (["--fail-on", "slow"], "--fail-on takes slower"),
    ],
)
def test_what_cannot_be_meant(words, message, capsys, tmp_path):
    (tmp_path / "head" / "file").write_text("", encoding="utf-8")
    assert bench.main([*WORDS, *words]) == 2
    assert message in capsys.readouterr().err
