"""One comment per pull request and one issue per change point, against a stand-in for `gh`."""

from __future__ import annotations

import json

import pytest
from loaded_scripts import load_script

github = load_script("github")
SHA = "a" * 40


class FakeGitHub:
    """Issues and comments of one repository, in the place of the program `gh`."""

    def __init__(self) -> None:
        self.issues: dict[int, dict] = {}
        self.comments: dict[int, dict] = {}
        self.sent: list[tuple[str, str]] = []
        self.refusal = ""

    def call(self, path, *words, values=None):
        if self.refusal:
            raise github.GitHubError(self.refusal)
        assert path.startswith("repos/me/kernels/")
        method = words[words.index("--method") + 1]
        parts = path.partition("?")[0].split("/")[3:]
        if method == "GET":
            assert "--paginate" in words
            entries = self.issues if len(parts) == 1 else self.comments
            return "".join(f"{json.dumps(entry)}\n" for entry in entries.values())
        self.sent.append((method, "/".join(parts)))
        match (method, parts):
            case ("POST", ["issues"]):
                number = len(self.issues) + 1
                self.issues[number] = {"number": number, "state": "open", **values}
            case ("POST", ["issues", _, "comments"]):
                number = len(self.comments) + 1000
                self.comments[number] = {"id": number, "user": {"login": github.AUTHOR}, **values}
            case ("PATCH", ["issues", "comments", number]):
                self.comments[int(number)].update(values)
            case ("PATCH", ["issues", number]):
                self.issues[int(number)].update(values)
            case _:
                raise AssertionError((method, parts))
        return "{}"


@pytest.fixture
def fake(monkeypatch):
    fake = FakeGitHub()
    monkeypatch.setattr(github, "_gh", fake.call)
    monkeypatch.setenv("GITHUB_REPOSITORY", "me/kernels")
    return fake


def run(tmp_path, capsys, *words, content):
    """Run the script on a file with this content; return exit code, stdout lines and stderr."""
    path = tmp_path / "file"
    path.write_text(content, encoding="utf-8")
    code = github.main([str(path) if word == "FILE" else word for word in words])
    streams = capsys.readouterr()
    return code, streams.out.splitlines(), streams.err


@pytest.fixture
def comment(tmp_path, capsys, fake):
    return lambda content, head=SHA: run(tmp_path, capsys, "comment", "12", "FILE", "--head", head, content=content)


@pytest.fixture
def alerts(tmp_path, capsys, fake):
    def write(*entries, words=("alerts", "FILE")):
        return run(tmp_path, capsys, *words, content=json.dumps({"alerts": entries}))

    return write


def alert(alert_id="0123456789abcdef", status="open", **values):
    closing = "" if status == "open" else "A later level is back where it was."
    return {
        "alert_id": alert_id,
        "status": status,
        "title": "time +10 %",
        "body": "of gemv",
        "closing": closing,
        **values,
    }


def test_the_comment_is_updated_in_place(fake, comment):
    for ordinal in range(120):  # of others, one with our mark in it
        fake.comments[ordinal] = {"id": ordinal, "user": {"login": "somebody"}, "body": f"me too {github.COMMENT_MARK}"}
    assert "made" in comment("first")[1][0]
    assert "updated" in comment("second", "b" * 40)[1][0]
    ours = [entry for entry in fake.comments.values() if entry["user"]["login"] != "somebody"]
    assert len(ours) == 1
    assert "second" in ours[0]["body"]
    assert "bbbbbbbbbbbb" in ours[0]["body"]
    assert all(fake.comments[ordinal]["body"].startswith("me too") for ordinal in range(120))


def test_text_of_strangers_is_text(fake, comment):
    comment("@everyone look <!-- hidden --> \x1b[31m" + "x" * 100_000)
    body = fake.comments[1000]["body"]
    assert "@everyone" not in body
    assert body.count("<!--") == 1  # ours
    assert "\x1b" not in body
    assert len(body) < 65_536
    assert "cut here" in body
    assert github.harmless("median @ 2 GHz\n| a | b |") == "median @ 2 GHz\n| a | b |"


def test_one_issue_from_the_first_night_to_the_fix(fake, alerts):
    assert alerts(alert(body="of gemv @team <!--"))[1] == ["made: time +10 %"]
    assert fake.issues[1]["labels"] == [github.LABEL]
    assert fake.issues[1]["body"] == f"{github.ALERT_MARK.format('0123456789abcdef')}\nof gemv @\u200bteam &lt;!--"
    assert alerts(alert(body="of gemv @team <!--"))[1] == []  # the next night, unchanged
    assert alerts(alert(body="confirmed"))[1] == ["updated #1: time +10 %"]
    assert alerts(alert(status="fixed"))[1] == ["closed #1: A later level is back where it was."]
    assert (fake.issues[1]["state"], fake.issues[1]["state_reason"]) == ("closed", "completed")
    assert fake.comments[1000]["body"] == "A later level is back where it was."
    assert alerts(alert())[1] == []  # whoever closed it: it stays closed
    assert len(fake.issues) == 1


def test_what_is_over_gets_no_issue(fake, alerts):
    assert alerts(alert(status="withdrawn")) == (0, [], "")
    assert fake.sent == []


def test_many_at_once_do_not_flood_the_repository(fake, alerts):
    lines = alerts(*(alert(f"{number:016x}") for number in range(40)))[1]
    assert len(fake.issues) == github.MAX_NEW
    assert "30 more change points" in lines[-1]


def test_issues_of_people_and_of_other_databases_are_left_alone(fake, alerts):
    fake.issues[1] = {"number": 1, "state": "open", "title": "slow?", "body": None}
    fake.issues[2] = {"number": 2, "state": "open", "title": "other", "body": github.ALERT_MARK.format("f" * 16)}
    alerts(alert())
    assert fake.sent == [("POST", "issues")]


def test_a_dry_run_sends_nothing(fake, alerts):
    code, lines, _ = alerts(alert(), alert("f" * 16), words=("--dry-run", "alerts", "FILE"))
    assert (code, fake.sent) == (0, [])
    assert lines.count("POST /issues") == 2


@pytest.mark.parametrize(("status", "exit_code"), [(401, 0), (403, 0), (404, 0), (410, 0), (500, 2)])
def test_a_refusal_is_one_line(fake, alerts, comment, status, exit_code):
    fake.refusal = f"gh: Resource not accessible by integration (HTTP {status})"
    code, _, error = alerts(alert())
    assert code == exit_code
    assert str(status) in error
    assert len(error.splitlines()) == 1
    assert comment("text")[0] == 2


def test_the_program_itself_is_called(tmp_path, monkeypatch, capsys):
    """`gh` prints one JSON text a line for `--jq '.[]'`, and reads values from its stdin."""
    program = tmp_path / "gh"
    program.write_text('#!/bin/sh\ncase "$*" in *GET*) ;; *) cat >"$0.sent";; esac\n', encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("GITHUB_REPOSITORY", "me/kernels")
    assert run(tmp_path, capsys, "comment", "12", "FILE", content="text")[:2] == (
        0,
        ["comment on pull request 12 made"],
    )
    assert "text" in json.loads((tmp_path / "gh.sent").read_text(encoding="utf-8"))["body"]
    program.write_text("#!/bin/sh\necho 'gh: no token' >&2\nexit 4\n", encoding="utf-8")
    assert run(tmp_path, capsys, "comment", "12", "FILE", content="text") == (2, [], "error: gh: no token\n")
