"""One comment per pull request and one issue per change point, against a stand-in for GitHub."""

from __future__ import annotations

import io
import json
import sys
import urllib.error
from urllib.parse import parse_qs, urlsplit

import pytest
from loaded_scripts import load_script

comments = load_script("pull_request_comment")
issues = load_script("nightly_issues")
api = sys.modules["github_api"]


class FakeGitHub:
    """Issues and comments of one repository, behind the function that opens URLs."""

    def __init__(self) -> None:
        self.issues: dict[int, dict] = {}
        self.comments: dict[int, dict] = {}
        self.sent: list[tuple[str, str]] = []
        self.refuses: int | None = None

    def client(self, **changes):
        return api.GitHub(**{"repository": "me/kernels", "token": "token-of-the-job", "opened": self.open, **changes})

    def open(self, request, timeout):
        assert timeout
        assert request.get_header("Authorization") == "Bearer token-of-the-job"
        if self.refuses:
            raise urllib.error.HTTPError(request.full_url, self.refuses, "no", {}, io.BytesIO(b"token-of-the-job"))
        url = urlsplit(request.full_url)
        path = url.path.removeprefix("/repos/me/kernels")
        values = json.loads(request.data) if request.data else None
        if request.method != "GET":
            self.sent.append((request.method, path))
        answer = self.answer(request.method, path, values)
        if isinstance(answer, list):
            query = parse_qs(url.query)
            size, page = int(query["per_page"][0]), int(query["page"][0])
            answer = answer[size * (page - 1) : size * page]
        return io.BytesIO(json.dumps(answer).encode())

    def answer(self, method, path, values):
        parts = path.strip("/").split("/")
        match (method, parts):
            case ("GET", ["issues"]):
                return list(self.issues.values())
            case ("GET", ["issues", _, "comments"]):
                return list(self.comments.values())
            case ("POST", ["issues"]):
                number = len(self.issues) + 1
                self.issues[number] = {"number": number, "state": "open", **values}
                return self.issues[number]
            case ("POST", ["issues", _, "comments"]):
                number = len(self.comments) + 1
                self.comments[number] = {"id": number, "user": {"login": "github-actions[bot]"}, **values}
                return self.comments[number]
            case ("PATCH", ["issues", "comments", number]):
                self.comments[int(number)].update(values)
                return self.comments[int(number)]
            case ("PATCH", ["issues", number]):
                self.issues[int(number)].update(values)
                return self.issues[int(number)]
        raise AssertionError((method, path))


@pytest.fixture
def github():
    return FakeGitHub()


def test_the_comment_is_updated_in_place(github):
    for ordinal in range(120):  # more than one page of others' comments, one with our mark in it
        github.comments[ordinal] = {"id": ordinal, "user": {"login": "somebody"}, "body": f"me too {comments.MARKER}"}
    client = github.client()
    assert "made" in comments.write_comment(client, 12, comments.body("first", "a" * 40))
    assert "updated" in comments.write_comment(client, 12, comments.body("second", "b" * 40))
    ours = [comment for comment in github.comments.values() if comment["user"]["login"] != "somebody"]
    assert len(ours) == 1
    assert "second" in ours[0]["body"]
    assert "bbbbbbbbbbbb" in ours[0]["body"]
    assert all("me too" in github.comments[ordinal]["body"] for ordinal in range(120))


def test_text_of_strangers_is_text():
    body = comments.body("@everyone look <!-- hidden --> \x1b[31m" + "x" * 100_000, "c" * 40)
    assert "@everyone" not in body
    assert body.count("<!--") == 1  # ours
    assert "\x1b" not in body
    assert len(body) < 65_536
    assert "cut here" in body
    assert api.harmless("median @ 2 GHz\n| a | b |") == "median @ 2 GHz\n| a | b |"


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
        **values,
    }


def history(*changes, name="gemv 1x4096x4096-matmul", metric="time"):
    return {
        "metric": {"key": metric, "unit": "s", "meaning": ""},
        "cases": [{"name": name, "case_key": f"key of {name}", "changes": list(changes)}],
    }


def brought(github, document):
    return list(issues.bring_up_to_date(github.client(), issues.alerts_of_all([document])))


def test_one_issue_from_the_first_night_to_the_fix(github):
    assert brought(github, history(change()))[0].startswith("made: [roofline] time +10.0 %: gemv 1x4096x4096")
    assert "driver 580 → 590" in github.issues[1]["body"]
    assert github.issues[1]["labels"] == [issues.LABEL]
    assert brought(github, history(change())) == []  # the next night, unchanged
    assert brought(github, history(change(is_confirmed=True, night_count=6)))[0].startswith("updated #1")
    closed = brought(github, history(change(status="fixed", fixed_at="2026-11-28T01:17:00+00:00")))
    assert closed == ["closed #1: A later level is back where it was."]
    assert github.issues[1]["state"] == "closed"
    assert brought(github, history(change())) == []  # whoever closed it: it stays closed
    assert len(github.issues) == 1


def test_an_annotation_ends_it_with_its_reason(github):
    brought(github, history(change()))
    closed = brought(github, history(change(status="annotated", reason="expected: driver 590")))
    assert closed == ["closed #1: Annotated as expected. expected: driver 590"]


@pytest.mark.parametrize(
    "status", ["better", "fixed", "annotated", "quarantined", "superseded", "withdrawn", "drifting"]
)
def test_what_is_over_or_better_gets_no_issue(github, status):
    assert brought(github, history(change(status=status))) == []
    assert github.sent == []


def test_an_error_that_moved_because_the_time_did_is_no_second_issue(github):
    error = change("1" * 16, before_value=0.05, after_value=-0.05, change_value=-0.1)
    elsewhere = change("2" * 16, before_value=0.05, after_value=-0.05, change_value=-0.1, run_id="ef" * 16)
    documents = [history(change()), history(error, elsewhere, metric="error")]
    assert [alert.alert_id for alert in issues.alerts_of_all(documents)] == ["0123456789abcdef", "2" * 16]
    assert [alert.alert_id for alert in issues.alerts_of_all(documents[1:])] == ["1" * 16, "2" * 16]


def test_many_at_once_do_not_flood_the_repository(github):
    document = history(*(change(alert_id=f"{number:016x}") for number in range(40)))
    lines = brought(github, document)
    assert len(github.issues) == issues.MOST_NEW
    assert "30 more change points" in lines[-1]


def test_issues_of_people_and_of_other_databases_are_left_alone(github):
    github.issues[1] = {"number": 1, "state": "open", "title": "slow?", "body": "I think gemv is slow"}
    github.issues[2] = {"number": 2, "state": "open", "title": "other", "body": issues.MARK.format("f" * 16)}
    brought(github, history(change()))
    assert github.sent == [("POST", "/issues")]


def test_case_names_cannot_leave_their_backticks(github):
    brought(github, history(change(), name="gemv `</details>` @team <!--"))
    body = github.issues[1]["body"]
    assert "of `gemv '</details>' @\u200bteam &lt;!--` changed" in body
    assert body.count("<!--") == 1


def arguments_of(tmp_path, *documents):
    for name, document in zip(issues.HISTORIES.values(), documents, strict=False):
        (tmp_path / name).write_text(json.dumps(document), encoding="utf-8")
    return ["--night", str(tmp_path), "--repository", "me/kernels"]


def test_a_dry_run_needs_no_token_and_sends_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("GITHUB_TOKEN", raising=False)
    words = arguments_of(tmp_path, history(change()), history(change("f" * 16), metric="energy"))
    assert issues.main([*words, "--dry-run"]) == 0
    assert capsys.readouterr().out.count("dry run: POST me/kernels/issues") == 2
    assert issues.main(words) == 2
    assert "GITHUB_TOKEN is not set" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("code", "if_permitted", "exit_code"), [(403, True, 0), (410, True, 0), (403, False, 2), (500, True, 2)]
)
def test_a_refusal_is_one_line_without_the_token(tmp_path, monkeypatch, capsys, github, code, if_permitted, exit_code):
    monkeypatch.setenv("GITHUB_TOKEN", "token-of-the-job")
    github.refuses = code
    monkeypatch.setattr(issues.GitHub, "from_environment", lambda repository, dry_run: github.client())
    assert (
        issues.main([*arguments_of(tmp_path, history(change())), *(["--if-permitted"] if if_permitted else [])])
        == exit_code
    )
    error_text = capsys.readouterr().err
    assert str(code) in error_text
    assert "token-of-the-job" not in error_text
    assert len(error_text.splitlines()) == 1


def test_the_address_is_the_servers_own(monkeypatch):
    monkeypatch.delenv("GITHUB_API_URL", raising=False)
    assert api.GitHub.from_environment("me/kernels", dry_run=True).url == "https://api.github.com"
    monkeypatch.setenv("GITHUB_API_URL", "https://github.example.com/api/v3")
    assert api.GitHub.from_environment("me/kernels", dry_run=True).url == "https://github.example.com/api/v3"
    with pytest.raises(api.GitHubError, match="no owner/name"):
        api.GitHub.from_environment("../../me", dry_run=True)


def test_a_night_without_history_changes_nothing(tmp_path):
    assert issues.main(["--night", str(tmp_path), "--repository", "me/kernels"]) == 0


def test_unreachable(github):
    def away(request, timeout):
        raise TimeoutError("timed out")

    with pytest.raises(api.GitHubError, match="could not be asked"):
        github.client(opened=away).send("POST", "/issues", {})


def test_the_summary_lists_what_is_open(tmp_path):
    arguments_of(tmp_path, history(change(), change("f" * 16, "fixed")), history(change("e" * 16), metric="energy"))
    lines = sys.modules["nightly_summary"].open_changes(tmp_path)
    assert lines[1] == "**Open change points** (2)"
    assert lines[3:] == [f"- `gemv 1x4096x4096-matmul`: {name} +10.0 % since 2026-11-20" for name in ("time", "energy")]


def test_an_issue_says_where_by_how_much_and_how_to_look_further(github):
    place = {"hardware": "gb10", "commit_before": "a" * 40, "commit_after": "b" * 40}
    brought(github, history(change(before_value=1.03e-4, after_value=1.133e-4, **place)))
    body = github.issues[1]["body"]
    assert github.issues[1]["title"] == "[roofline] time +10.0 %: gemv 1x4096x4096-matmul on gb10 since 2026-11-20"
    assert "- before 103 µs, after 113.3 µs" in body
    assert "- commits `aaaaaaaaaaaa..bbbbbbbbbbbb`" in body
    assert "    roofline history 'gemv 1x4096x4096-matmul' --metric time" in body
    assert "    roofline show abababab 1x4096x4096-matmul" in body
    assert "    git log --oneline aaaaaaaaaaaa..bbbbbbbbbbbb" in body


@pytest.mark.parametrize(
    ("commits", "message"),
    [
        ((None, None), "commit: none is known"),
        ((None, "b" * 40), "commit `bbbbbbbbbbbb`; that of the run before is unknown"),
        (("b" * 40, "b" * 40), "the same as the run before: not the code of that repository"),
    ],
)
def test_commits_that_tell_nothing_are_no_range(github, commits, message):
    brought(github, history(change(commit_before=commits[0], commit_after=commits[1])))
    assert message in github.issues[1]["body"]
    assert "git log" not in github.issues[1]["body"]


@pytest.mark.parametrize(
    ("metric", "unit", "values", "shown", "title"),
    [
        ("error", "", (0.06, 0.12), ("+6.0 %", "+12.0 %"), "prediction error +6.0 percentage points: gemv"),
        (
            "quality",
            "nats/token",
            (0.01, 0.07),
            ("0.01 nats/token", "0.07 nats/token"),
            "quality +0.06 nats/token: gemv",
        ),
        ("memory", "B", (1.5e9, 3e9), ("1.5 GB", "3 GB"), "memory +6.0 %: gemv"),
        ("energy", "J", (0.25, 12.0), ("250 mJ", "12 J"), "energy +6.0 %: gemv"),
    ],
)
def test_every_metric_has_its_unit(github, metric, unit, values, shown, title):
    document = history(change(before_value=values[0], after_value=values[1], change_value=0.06), metric=metric)
    document["metric"]["unit"] = unit
    brought(github, document)
    assert f"before {shown[0]}, after {shown[1]}" in github.issues[1]["body"]
    assert title in github.issues[1]["title"]


def test_a_drift_and_a_step_of_one_case_can_be_told_apart(github):
    brought(github, history(change(), change("f" * 16, kind="drift")))
    assert github.issues[1]["title"].endswith("since 2026-11-20")
    assert github.issues[2]["title"].endswith("drifting since 2026-11-20")
