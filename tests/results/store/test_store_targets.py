"""Where a store may be: every bad place is one line that names the fix, and is left as it was."""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

import results
from results.records.records import Record, RunInfo
from results.store.schema import SCHEMA_VERSION
from results.store.store import open_store
from results.store.target import mask_passwords, parse_target
from roofline_cli.main import app
from roofline_model.core.errors import StoreError

ROOT = Path(results.__file__).parents[1]


def snapshot(folder: Path) -> dict[str, tuple[int, str]]:
    """Time of change and content of every file below a folder."""
    return {
        str(item.relative_to(folder)): (item.stat().st_mtime_ns, hashlib.sha256(item.read_bytes()).hexdigest())
        for item in sorted(folder.rglob("*"))
        if item.is_file()
    }


def refused(target: object, match: str, **options: bool) -> str:
    with pytest.raises(StoreError, match=match) as caught:
        open_store(target, **options)  # type: ignore[arg-type]
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 600
    return text


def test_no_target_means_the_variable_then_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROOFLINE_DB", raising=False)
    open_store().close()
    assert (tmp_path / ".roofline" / "results.db").is_file()
    assert (tmp_path / ".roofline" / ".gitignore").read_text() == "*\n"
    monkeypatch.setenv("ROOFLINE_DB", str(tmp_path / "deep" / "er" / "mine.db"))
    open_store().close()
    assert sorted(item.name for item in (tmp_path / "deep" / "er").iterdir()) == ["mine.db"]


@pytest.mark.parametrize("form", ["{}", "sqlite:///{}", "sqlite+pysqlite:///{}"])
def test_paths_and_sqlite_urls_name_the_same_file(tmp_path: Path, form: str) -> None:
    path = tmp_path / "my results.db"
    open_store(path).close()
    with open_store(form.format(path), create=False) as store:
        assert store.schema_version() == SCHEMA_VERSION
        assert store.name == str(path)


def test_a_relative_sqlite_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    open_store("sqlite:///here.db").close()
    assert (tmp_path / "here.db").is_file()


def test_the_home_folder_of_nobody_is_one_line() -> None:
    refused("~nobodyx/r.db", "'~nobodyx/r.db' begins with a home folder that is not known here: write the whole path")


def test_a_folder(tmp_path: Path) -> None:
    assert str(tmp_path / "results.db") in refused(tmp_path, "is a folder: name a file in it")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("target", "match"),
    [
        ("mysql://bob:secret@host/db", "'mysql' is not supported.*postgresql"),
        ("http://example.org/results.db", "'http' is not supported"),
        ("duckdb:///x", "'duckdb' is not supported"),
        ("sqlite://", "names no file"),
        ("sqlite:///", "in memory"),
        ("sqlite:///:memory:", "in memory"),
        (":memory:", "give the path of a file"),
        ("", "give the path of a file"),
        ("  ", "give the path of a file"),
        ("a\x00b", "give the path of a file"),
        ("sqlite:///x.db?mode=ro", "no options"),
        ("/dev/null", "is not a file"),
        ("/proc/nobody-can-write-here/results.db", "choose another place"),
        ("x" * 5000, "choose another place"),
        ("postgresql://bob:secret@host:port/db", "not a database URL"),
    ],
)
def test_what_cannot_be_a_target(target: str, match: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = refused(target, match)
    assert "secret" not in text
    assert list(tmp_path.iterdir()) == []


def test_a_file_as_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    refused(tmp_path / "file" / "results.db", "choose another place")


@pytest.mark.parametrize(
    "content", [b"hello", b"a,b\n1,2\n" * 500, b"\x00" * 5000, b"SQLite format 3\x00" + b"\xff" * 200]
)
def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "data.csv"
    path.write_bytes(content)
    before = snapshot(tmp_path)
    for options in ({}, {"read_only": True}, {"create": False}):
        refused(path, "not a SQLite database|is damaged|database of something else", **options)
        assert snapshot(tmp_path) == before


@pytest.mark.parametrize(
    "statements",
    [
        ["CREATE TABLE bookmarks (url)"],
        ["CREATE TABLE alembic_version (version_num)", "INSERT INTO alembic_version VALUES ('ae1027a6acf')"],
        ["CREATE TABLE alembic_version (version_num)", "INSERT INTO alembic_version VALUES ('0001')"],
        ["CREATE TABLE run (run_id)", "CREATE TABLE record (x)"],
    ],
)
def test_somebody_elses_database_is_left_alone(tmp_path: Path, statements: list[str]) -> None:
    path = tmp_path / "places.sqlite"
    with closing(sqlite3.connect(path)) as raw:
        for statement in statements:
            raw.execute(statement)
        raw.commit()
    before = snapshot(tmp_path)
    refused(path, "database of something else: nothing was changed")
    assert snapshot(tmp_path) == before


def test_somebody_elses_postgres_tables_are_left_alone(postgres_server: Callable[[], str]) -> None:
    import psycopg

    url = postgres_server()
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute("CREATE TABLE run (mine int)")
        refused(url, "database of something else")
        connection.execute("DROP TABLE run")
        connection.execute("CREATE TABLE unrelated (mine int)")
        open_store(url).close()  # beside tables of other names there is room for ours


def test_a_truncated_database_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "results.db"
    open_store(path).close()
    path.write_bytes(path.read_bytes()[:6000])
    before = snapshot(tmp_path)
    refused(path, "is damaged", read_only=True)
    assert snapshot(tmp_path) == before


def test_a_link_that_leads_nowhere_names_where(tmp_path: Path, make_run: Callable[..., RunInfo]) -> None:
    link = tmp_path / "r.db"
    link.symlink_to(tmp_path / "nowhere" / "real.db")
    for options in ({}, {"read_only": True}):
        refused(link, f"is a link to {tmp_path / 'nowhere' / 'real.db'}, which is not there", **options)
    assert link.is_symlink()
    (tmp_path / "nowhere").mkdir()
    with open_store(link) as store:  # only the file was missing: it is made there
        store.begin_run(make_run())
    assert (tmp_path / "nowhere" / "real.db").stat().st_size > 0
    assert link.is_symlink()


def test_a_missing_database_is_not_made_by_a_reader(tmp_path: Path) -> None:
    for options in ({"create": False}, {"read_only": True}):
        text = refused(tmp_path / "sub" / "none.db", "there is no results database at", **options)
        assert "pytest bench_cases -k gemv" in text
    assert list(tmp_path.iterdir()) == []


def test_an_empty_file_is_filled_by_a_writer_and_refused_by_a_reader(tmp_path: Path) -> None:
    path = tmp_path / "empty.db"
    path.touch()
    refused(path, "is empty", read_only=True)
    refused(path, "is empty", create=False)
    assert path.stat().st_size == 0
    open_store(path).close()
    assert path.stat().st_size > 0


def test_reading_creates_and_changes_nothing(
    tmp_path: Path, make_run: Callable[..., RunInfo], make_record: Callable[..., Record]
) -> None:
    path = tmp_path / "results.db"
    run = make_run(status="complete")
    with open_store(path) as store:
        store.begin_run(run)
        store.add_record(make_record(run.run_id))
    before = snapshot(tmp_path)
    with open_store(path, read_only=True) as reader:
        assert len(reader.records(reader.resolve_run("latest").run_id)) == 1
        for write in (
            lambda: reader.begin_run(make_run()),
            lambda: reader.add_record(make_record(run.run_id)),
            lambda: reader.finish_run(run.run_id, status="complete", exit_code=0, finished_at=None),
        ):
            with pytest.raises(StoreError, match="read-only"):
                write()
    assert snapshot(tmp_path) == before


def test_a_reader_sees_what_a_writer_commits_meanwhile(
    target: str | Path, make_run: Callable[..., RunInfo], make_record: Callable[..., Record]
) -> None:
    run = make_run()
    open_store(target).close()
    with open_store(target, read_only=True) as reader:
        assert reader.runs() == []
        with open_store(target) as writer:
            writer.begin_run(run)
            for count in range(3):
                assert len(reader.records(run.run_id)) == count
                writer.add_record(make_record(run.run_id))
        assert len(reader.records(run.run_id)) == 3


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder every user may reach (pytest's own belongs to one user)."""
    folder = Path(tempfile.mkdtemp(prefix="roofline-"))
    yield folder
    folder.chmod(stat.S_IRWXU)
    shutil.rmtree(folder)


OPEN = """
import os, sys, tempfile
from results import open_store
from roofline_cli.main import app
from roofline_model.core.errors import StoreError

def outcome(path, read_only):
    try:
        with open_store(path, read_only=read_only) as store:
            return f"runs {len(store.runs())}"
    except StoreError as error:
        return str(error)

# Everything is imported before the rights go: the interpreter itself may belong to root.
with tempfile.TemporaryDirectory() as folder:
    outcome(os.path.join(folder, "warm.db"), False)
    outcome(os.path.join(folder, "warm.db"), True)
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
print(outcome(sys.argv[1], sys.argv[2] == "ro"))
"""


def as_ordinary_user(path: Path, mode: str) -> str:
    """Open a database as a user whom permissions bind (root ignores them) and return what came of it."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", OPEN, str(path), mode]
    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    return process.stdout.rstrip("\n")


def test_a_read_only_place(open_folder: Path, make_run: Callable[..., RunInfo]) -> None:
    path = open_folder / "results.db"
    with open_store(path) as store:
        store.begin_run(make_run())
    path.chmod(0o444)
    open_folder.chmod(0o555)
    before = snapshot(open_folder)
    assert "is read-only: choose another place with --roofline-db" in as_ordinary_user(path, "rw")
    assert as_ordinary_user(path, "ro") == "runs 1"
    assert "cannot be written: choose another place" in as_ordinary_user(open_folder / "new.db", "rw")
    assert snapshot(open_folder) == before


def test_a_locked_database_says_so(
    tmp_path: Path, make_run: Callable[..., RunInfo], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "results.db"
    open_store(path).close()
    monkeypatch.setattr("results.store.connection.BUSY_TIMEOUT_S", 0.05)
    with closing(sqlite3.connect(path, isolation_level=None)) as other, open_store(path) as store:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="locked by another process"):
            store.begin_run(make_run())
        other.execute("COMMIT")
        store.begin_run(make_run())
        assert len(store.runs()) == 1


# PostgreSQL ----------------------------------------------------------------------------------------------------

NOWHERE = "127.0.0.1:1"


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql+psycopg://bob:s3cr3t-pw@{NOWHERE}/bench",
        f"postgresql://bob:s3cr3t-pw@{NOWHERE}/bench",
        f"postgres://bob:s3cr3t%2Dpw@{NOWHERE}/bench",
        f"postgresql://bob@{NOWHERE}/bench?password=s3cr3t-pw",
        f"postgresql://bob:s3cr3t-pw@@{NOWHERE}/bench",
        "postgresql://bob:s3cr3t-pw@[::1/bench",
        "postgresql://bob:s3cr3t-pw@host:x/bench",
    ],
)
def test_a_password_is_never_shown(url: str) -> None:
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    text = refused(url, "does not answer|cannot|not a database URL|failed|host name")
    assert "s3cr3t" not in text
    target = parse_target(url) if "[" not in url and ":x" not in url else None
    assert "s3cr3t" not in repr(target)
    assert target is None or "s3cr3t" not in target.name


@pytest.mark.parametrize(
    ("given", "masked"),
    [
        ("--roofline-db=postgresql://me:p4ss@db:5432/x", "--roofline-db=postgresql://me:***@db:5432/x"),
        ("postgresql://me:p4 ss@db/x", "postgresql://me:***@db/x"),
        ("postgresql://me:p@4ss@db/x", "postgresql://me:***@db/x"),
        (
            "postgresql://db/x?user=me&password=p4ss&sslmode=require",
            "postgresql://db/x?user=me&password=***&sslmode=require",
        ),
        ("postgresql://db/x?sslpassword=p%34ss", "postgresql://db/x?sslpassword=***"),
        ("a:b@c", "a:b@c"),
        ("bench_cases/test_gemv.py::test_gemv[x]", "bench_cases/test_gemv.py::test_gemv[x]"),
    ],
)
def test_a_password_in_an_argument_is_masked(given: str, masked: str) -> None:
    assert mask_passwords(given) == masked


def test_the_place_of_a_database_names_nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PGPORT", "5440")
    assert parse_target("postgresql://bob:pw@db.example:5433/bench").place == "postgresql://db.example:5433/bench"
    assert parse_target("postgres://bob@/bench?host=/run/pg&password=pw").place == "postgresql:///run/pg:5440/bench"
    assert parse_target(tmp_path / "r.db").place == str(tmp_path / "r.db")


def test_an_unreachable_postgres_names_the_fix() -> None:
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    refused(f"postgresql+psycopg://bob@{NOWHERE}/bench", "does not answer.*start PostgreSQL or correct host and port")


def test_a_missing_postgres_database_names_the_fix(postgres_server: Callable[[], str]) -> None:
    place, _, options = postgres_server().partition("?")
    refused(f"{place}_missing?{options}", "create it .createdb NAME.")


def test_a_missing_driver_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    refused("postgresql://bob@host/bench", r"needs psycopg: pip install -e '\.\[postgres\]'")


@pytest.mark.parametrize(
    "text",
    [
        "host=127.0.0.1 port=1 password=SECRET9",
        "password=SECRET9",
        "dbname = 'x y' password = SECRET9",
        "user=u password=SECRET9 host=/var/run/postgresql dbname=x",
        "/home/me/host=127.0.0.1 password=SECRET9",
        "host=/var/run password=SECRET9",
    ],
)
def test_keywords_of_libpq_are_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.chdir(tmp_path)
    refusal = refused(text, r"write postgresql\+psycopg://USER@HOST:PORT/NAME")
    assert "SECRET9" not in refusal
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name", ["user=anna/results.db", "k=v.db", "my host=1.db", "runs/port=1/host=b/x.db", "hostile.db"]
)
def test_an_equals_sign_in_a_name_is_no_keyword(name: str) -> None:
    assert parse_target(name).path == Path(name)


SECRET_SHAPES = [
    "sqlite://u:SECRET9@h/x.db",
    "SQLite:///u:SECRET9@h/x.db",
    "sqlite:////u:SECRET9@h/x.db",
    "sqlite://u%3ASECRET9@h/x.db",
    "sqlite:///x.db?password=SECRET9",
    "sqlite:x.db?key=SECRET9",
    "sqlite:u:SECRET9@h/x.db",
    "sqlite+pysqlcipher://:SECRET9@/x.db",
    "file:x.db?password=SECRET9",
    "mysql+pymysql://u:SECRET9@h/db",
    "jdbc:postgresql://u:SECRET9@h/db",
    "postgresql:/u:SECRET9@h/db",
    "postgresql//u:SECRET9@h/db",
    "postgresql:\\\\u:SECRET9@h/db",
    "//u:SECRET9@h/db",
    "u:SECRET9@h/db",
    " postgresql://u:SECRET9@h/db",
    "post gres://u:SECRET9@h/db",
    "postgresql://u:SECRET9@[::1/db",
    "postgresql://u:SECRET9%40h/db",
    "postgresql://u:SECRET9",
    "postgresql://u:SECRET9@h1:1,h2:2/db",
    "POSTGRESQL+PSYCOPG://u:SECRET9@127.0.0.1:1/db",
    "postgresql://u%3ASECRET9@127.0.0.1:1/db",
    "postgresql://u:a@SECRET9@127.0.0.1:1/db",
    "postgresql://u:a:SECRET9@127.0.0.1:1/db",
    "postgresql://u:SECRET9/x@127.0.0.1:1/db",
    "postgresql://u:SECRET9?x@127.0.0.1:1/db",
    "postgresql://u:SECRET9#x@127.0.0.1:1/db",
    "postgresql://127.0.0.1:1/db?PASSWORD=SECRET9",
    "postgresql://127.0.0.1:1/db?pass%77ord=SECRET9",
    "postgresql://127.0.0.1:1/db?sslmode=require;password=SECRET9",
]
"""Every one is a mistyped URL of a database, or one that nobody answers at."""


@pytest.mark.parametrize("door", [["runs"], ["doctor", "--json"], ["recommend", "--stored"]], ids=lambda door: door[0])
@pytest.mark.parametrize("way", ["option", "environment"])
def test_no_shape_of_a_url_shows_its_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, door: list[str], way: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for url in SECRET_SHAPES:
        if way == "option":
            result = CliRunner().invoke(app, [*door, "--db", url])
        else:
            result = CliRunner().invoke(app, door, env={"ROOFLINE_DB": url})
        assert "SECRET9" not in result.output + repr(result.exception), url
    assert list(tmp_path.iterdir()) == []


def test_pytest_shows_no_password_of_a_mistyped_url(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(roofline): pass")
    result = pytester.runpytest_subprocess("--roofline-db=u:SECRET9@h/x.db")
    assert result.ret != 0
    assert "SECRET9" not in result.stdout.str() + result.stderr.str()


@pytest.mark.parametrize("name", ["./a:b@c.db", "/data/a:b@c/x.db", "results:v2.db", "token.db", "keys/x.db"])
def test_a_path_that_cannot_be_a_url_is_a_path(name: str) -> None:
    assert parse_target(name).path == Path(name)


def test_what_options_of_a_url_set_is_not_shown() -> None:
    url = "postgresql+psycopg://u@h/x?options=-c%20foo%3DSECRET9"
    assert "SECRET9" not in parse_target(url).name
    assert "SECRET9" not in mask_passwords(f"--roofline-db={url}")
    assert "SECRET9" not in parse_target(url).redact("cannot set '-c foo=SECRET9'")
