"""`roofline db upgrade` and `db deliver`: what is old becomes readable, what waited is sent, nothing else is
touched.
"""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from results.records.records import RunInfo
from results.store.delivery.spool import Change, Spool
from results.store.store import open_store
from results.store.target import parse_target
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


# Results that waited for their server -----------------------------------------------------------------------------


@pytest.fixture
def waiting(tmp_path):
    """A database and a folder with one file for it, one for another database, and one that is damaged."""
    database, folder = tmp_path / "r.db", tmp_path / "spool"
    open_store(database).close()
    for digit, place in (("a", parse_target(database).place), ("b", "postgresql://elsewhere:5432/x")):
        spool = Spool(folder, place)
        run = RunInfo(digit * 32, "2026-03-01T10:00:00+00:00")
        spool.add(Change(run.run_id, run))
        spool.close()
    (folder / "cccccccc-00000000.spool.jsonl").write_text("{}\n")
    return database, folder


def test_what_waits_is_delivered_and_the_rest_is_left_alone(waiting):
    database, folder = waiting
    done = roofline("db", "deliver", "--db", database, "--spool", folder, "--json")
    assert done.exit_code == 1  # one could not be sent
    files = json.loads(done.stdout)["files"]
    assert sorted(file["outcome"] for file in files) == ["delivered", "failed", "other-database"]
    assert len(list(folder.glob("*.jsonl"))) == 2
    with open_store(database, read_only=True) as store:
        assert [run.run_id for run in store.runs()] == ["a" * 32]
    (other,) = folder.glob("bbbbbbbb-*")
    named = roofline("db", "deliver", other, "--db", database)
    assert named.exit_code == 0
    assert f"{other}: 0 records delivered, 0 already there" in named.stdout
    assert not other.exists()
    with open_store(database, read_only=True) as store:
        assert len(store.runs()) == 2


def test_nothing_waits(tmp_path):
    open_store(tmp_path / "r.db").close()
    done = roofline("db", "deliver", "--db", tmp_path / "r.db", "--spool", tmp_path / "nowhere")
    assert done.exit_code == 0
    assert "nothing waits in" in done.stdout
    assert roofline("db", "deliver", "--db", tmp_path / "absent.db").exit_code == 2


def test_no_password_is_shown_by_any_command_of_db():
    url = "postgresql://me:s3cr3t@127.0.0.1:1/none"
    for command in (
        ("check",),
        ("stats",),
        ("upgrade",),
        ("deliver",),
        ("copy", "postgresql://me:s3cr3t@127.0.0.1:2/x"),
    ):
        result = roofline("db", *command, "--db", url)
        assert result.exit_code == 2
        assert "s3cr3t" not in result.output
        assert "me:***@127.0.0.1" in result.output
