"""Base against head: who is measured when, what the code under test never sees, and the exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from nightly_files import written_run
from typer.testing import CliRunner

from roofline_cli.main import app
from roofline_cli.pr import comparison

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROOFLINE_MACHINE_LOCK", str(tmp_path / "lock"))
    for side in comparison.SIDES:
        (tmp_path / side).mkdir()


def pr(*words):
    return CliRunner().invoke(app, ["pr", "base", "head", "-o", "out", *words])


def answering(monkeypatch, answer=lambda side, command: 0, run=lambda side, ordinal: written_run()):
    """Let every command answer with a code; return (side, command, environment) of each."""
    calls = []

    def run_child(command, *, folder, environment, **options):
        side = folder.name
        calls.append((side, command, environment))
        if "diff" in command:
            path = Path(command[command.index("-o") + 1])
            is_json = path.suffix == ".json"
            path.write_text('{"schema_version": 3, "verdict": "v"}' if is_json else "the diff\n", encoding="utf-8")
        if "pytest" in command and (text := run(side, ordinal_of(command))):
            Path(value_of(command, "--roofline-json")).write_text(text, encoding="utf-8")
        return answer(side, command)

    monkeypatch.setattr(comparison, "run_child", run_child)
    return calls


def value_of(command, option):
    return next(word.partition("=")[2] for word in command if word.startswith(f"{option}="))


def ordinal_of(command):
    return int(value_of(command, "--roofline-run").partition("-")[2])


def rounds_of(calls):
    return "".join(side[0].upper() for side, command, _ in calls if "pytest" in command)


@pytest.mark.parametrize("rounds", [2, 4, 8, 9])
def test_the_order_is_fair_to_both(monkeypatch, rounds):
    calls = answering(monkeypatch)
    assert pr("--rounds", str(rounds)).exit_code == 0
    order = rounds_of(calls)
    assert order.startswith("BHHBHBBH"[: 2 * rounds])
    assert order.count("B") == order.count("H") == rounds
    if rounds % 4 == 0:  # a steady drift cancels: both sides have the same mean position
        places = {side: [i for i, side_run in enumerate(order) if side_run == side] for side in "BH"}
        assert sum(places["B"]) == sum(places["H"])


def test_each_side_has_its_database_and_the_diff_pools_the_rounds(monkeypatch):
    calls = answering(monkeypatch)
    assert pr("--rounds", "2", "--fail-on", "slower:3%").exit_code == 0
    used = {(side, Path(value_of(command, "--roofline-db")).name) for side, command, _ in calls if "pytest" in command}
    assert used == {("base", "base.db"), ("head", "rounds.db")}
    compared = next(command for _, command, _ in calls if "diff" in command)
    assert compared[5:11] == ["base-0,base-1", "head-0,head-1", "--fail-on", "slower:3%", "--max-ambiguous", "20%"]
    carried = [Path(command[5]).name for _, command, _ in calls if "import" in command]
    assert carried == ["base-0.json", "base-1.json"]
    assert sorted(path.name for path in Path("out").iterdir()) == ["diff.json", "diff.md", "diff.txt", "result.json"]


def test_every_value_stands_behind_its_option(monkeypatch):
    """A word of its own that is an existing path makes pytest look for its rootdir there."""
    calls = answering(monkeypatch)
    assert pr("--rounds", "2", "--pytest", "bench_cases -k gemv").exit_code == 0
    command = next(command for _, command, _ in calls if "pytest" in command)
    start = command.index("-k")
    assert command[start - 1 : start + 2] == [str(ROOT / "bench_cases"), "-k", "gemv"]
    assert all("=" in word for word in command if word.startswith("--roofline"))


@pytest.mark.parametrize("text", [None, written_run(0, ["softmax"])], ids=["no run at all", "every case failed"])
def test_a_round_that_measures_nothing_ends_the_comparison(monkeypatch, text):
    calls = answering(
        monkeypatch,
        lambda side, command: int("pytest" in command),
        lambda side, ordinal: text if (side, ordinal) == ("head", 1) else written_run(),
    )
    result = pr("--rounds", "4")
    assert result.exit_code == 2
    assert "nothing was measured in head, round 2 of 4" in result.stderr
    assert ("softmax: wrong result" in result.stderr) == (text is not None)
    assert not [command for _, command, _ in calls if "diff" in command]
    assert rounds_of(calls) == "BHH"


def test_a_case_that_fails_in_the_head_alone_is_named_and_fails_the_comparison(monkeypatch):
    answering(
        monkeypatch,
        lambda side, command: int("pytest" in command),
        lambda side, ordinal: written_run(
            1 + (ordinal == 0), ["old", *(["new|case"] if (side, ordinal) == ("head", 1) else [])]
        ),
    )
    done = pr("--rounds", "2")
    assert done.exit_code == 1
    text, page = (Path("out", name).read_text(encoding="utf-8") for name in ("diff.txt", "diff.md"))
    assert text.startswith("1 case fails in the head and not in the base: t.py::new|case\n")
    assert page.startswith("### ❌ 1 case fails in the head and not in the base: t.py::new")
    assert "head, round 2: 1 measured, 2 failed; t.py::old: wrong result; t.py::new|case: wrong result" in text
    assert "- base, round 1: 2 measured, 1 failed" in page
    assert "new\\|case" in page
    result = json.loads(Path("out/result.json").read_text(encoding="utf-8"))
    assert (result["exit_code"], result["fails_in_head_only"]) == (1, ["t.py::new|case"])
    assert [(measured["side"], measured["ordinal"]) for measured in result["measured"]] == [
        ("base", 0),
        ("head", 0),
        ("head", 1),
        ("base", 1),
    ]
    assert "order: base head head base" in done.stderr
    assert "something failed in 4 of 4 rounds" in done.stdout


def test_a_round_that_measured_less_than_the_others_is_named(monkeypatch):
    answering(monkeypatch, run=lambda side, ordinal: written_run(3 - (side == "base" and ordinal == 1)))
    assert pr("--rounds", "2").exit_code == 0
    text = Path("out/diff.txt").read_text(encoding="utf-8")
    assert text == "the diff\n\nRounds that were not whole:\nbase, round 2: 2 measured\n"


def test_json_is_the_result(monkeypatch):
    answering(monkeypatch)
    document = json.loads(pr("--rounds", "2", "--json").stdout)
    assert document == json.loads(Path("out/result.json").read_text(encoding="utf-8"))
    assert next(iter(document)) == "schema_version"


def test_no_secret_reaches_the_code_under_test(monkeypatch, tmp_path):
    for name in comparison.PRIVATE:
        monkeypatch.setenv(name, "secret")
    (tmp_path / "head" / "src").mkdir()
    calls = answering(monkeypatch)
    pr("--rounds", "2")
    assert all("secret" not in environment.values() for _, _, environment in calls)
    (paths,) = {
        environment["PYTHONPATH"] for side, command, environment in calls if side == "head" and "pytest" in command
    }
    assert paths.split(":")[:2] == [str(tmp_path / "head"), str(tmp_path / "head" / "src")]


@pytest.mark.parametrize("is_tool_itself", [False, True])
def test_the_tool_is_not_taken_from_a_repository_that_has_none(monkeypatch, tmp_path, is_tool_itself):
    if is_tool_itself:
        (tmp_path / "head" / "roofline_cli").mkdir()
    calls = answering(monkeypatch)
    pr("--rounds", "2")
    ours = {environment["PYTHONPATH"].split(":")[0] for _, command, environment in calls if "roofline_cli" in command}
    assert ours == {str(tmp_path / "head" if is_tool_itself else ROOT)}


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (lambda side, command: 1 if "diff" in command else 0, 1),
        (lambda side, command: 3 if "diff" in command else 0, 3),
        (lambda side, command: 4 if "diff" in command else 0, 4),
        (lambda side, command: 1 if "pytest" in command and side == "head" else 0, 1),
        (lambda side, command: 1 if "pytest" in command else 0, 0),  # it failed before, too: the diff decides
        (lambda side, command: 2 if "pytest" in command and side == "base" else 0, 2),
        (lambda side, command: 2 if "diff" in command else 0, 2),
        (lambda side, command: 2 if "import" in command else 0, 2),
        (lambda side, command: 5 if "--canary" in command else 0, 5),
        (lambda side, command: 1 if command[0] == "prepare-it" else 0, 2),
    ],
)
def test_exit_codes(monkeypatch, answer, code):
    calls = answering(monkeypatch, answer)
    result = pr("--rounds", "2", "--prepare", "prepare-it --all")
    assert result.exit_code == code
    if code == 5:
        assert rounds_of(calls) == ""
    if code == 2:
        assert result.stderr.splitlines()[-1].startswith("error: ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--rounds", "1"], "--rounds"),
        (["-o", "full"], "is not empty"),
        (["--pytest", "-k 'x"], "cannot be read as a shell would"),
        (["--prepare", "make 'x"], "--prepare cannot be read as a shell would"),
        (["--pytest", "--roofline-db=x.db"], "rounds are kept in the folder of -o"),
        (["--fail-on", "slow"], "--fail-on takes slower"),
    ],
)
def test_what_cannot_be_meant(monkeypatch, words, message):
    calls = answering(monkeypatch)
    Path("full").mkdir()
    Path("full/file").write_text("", encoding="utf-8")
    result = pr(*words)
    assert (result.exit_code, calls) == (2, [])
    assert message in result.stderr


def test_a_side_that_is_not_there(monkeypatch):
    result = CliRunner().invoke(app, ["pr", "nowhere", "head"])
    assert result.exit_code == 2
    assert "nowhere is not a folder" in result.stderr
