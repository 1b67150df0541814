"""`roofline db upgrade` and `push`: what is old becomes readable, what is finished is copied, the rest stays."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from results.records.records import RunInfo
from results.store.store import open_store
from roofline_cli.main import app

runner = CliRunner()


def roofline(*arguments):
    return runner.invoke(app, [*map(str, arguments)])


@pytest.mark.parametrize(
    "content", [None, b"", b"no database at all, but long enough for a header of one hundred bytes" * 3]
)
def test_what_is_no_old_database_stays_as_it_is(tmp_path, content):
    path = tmp_path / "x.db"
    if content is not None:
        path.write_bytes(content)
    result = roofline("db", "upgrade", "--db", path)
    assert result.exit_code == 2
    assert result.output.count("\n") == 1
    assert (path.read_bytes() if path.exists() else None) == content


def test_messages_name_the_option_of_the_command(tmp_path):
    path = tmp_path / "garbage.db"
    path.write_bytes(bytes(range(256)) * 20)
    text = " ".join(roofline("db", "upgrade", "--db", path).output.split())
    assert "name another file with --db or ROOFLINE_DB" in text
    assert "--roofline-db" not in text


@pytest.mark.parametrize("name", ["~nobodyx/r.db", "x" * 100_000, "a\0b"], ids=["home", "long", "nul"])
@pytest.mark.parametrize("command", [("db", "upgrade"), ("runs",), ("show", "latest")], ids=" ".join)
def test_a_name_that_no_file_can_have_is_one_short_line(command, name):
    result = roofline(*command, "--db", name)
    assert result.exit_code == 2
    assert result.output.count("\n") == 1
    assert len(result.output) < 500


# Runs on their way into another database --------------------------------------------------------------------------


@pytest.fixture
def two_runs(tmp_path):
    database = tmp_path / "r.db"
    with open_store(database) as store:
        for digit, status in (("a", "complete"), ("b", "running")):
            store.begin_run(RunInfo(digit * 32, "2026-03-01T10:00:00+00:00", status=status))
    return database


def test_finished_runs_are_pushed_and_others_by_name(two_runs, tmp_path):
    there = tmp_path / "there.db"
    done = json.loads(roofline("push", there, "--db", two_runs, "--json").stdout)
    assert [run["run_id"] for run in done["runs"]] == ["a" * 32]
    assert done["target"] == str(there)
    assert "1 run there, 0 new records" in roofline("push", there, "bbbb", "--db", two_runs).stdout
    with open_store(there, read_only=True) as store, open_store(two_runs, read_only=True) as source:
        assert store.runs() == source.runs()
    assert roofline("push", there, "cccc", "--db", two_runs).exit_code == 2
    assert roofline("push", two_runs, "--db", two_runs).exit_code == 2


def test_no_password_is_shown():
    url = "postgresql://me:s3cr3t@127.0.0.1:1/none"
    for command in (("db", "check"), ("db", "upgrade"), ("push", "postgresql://me:s3cr3t@127.0.0.1:2/x")):
        result = roofline(*command, "--db", url)
        assert result.exit_code == 2
        assert "s3cr3t" not in result.output
        assert "me:***@127.0.0.1" in result.output
