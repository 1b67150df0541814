"""What `fit`, `validate`, `sweep` and `tiling` write: never over what they read, and found out before the work."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest
from synthetic_kernels import HEADER, write_rows
from typer.testing import CliRunner

from roofline_cli.main import app
from roofline_cli.screen.output_file import write_text, written_file
from roofline_model.core.errors import InvalidValueError

runner = CliRunner()
SWEEP = ("sweep", "-M", "1", "-N", "64", "-K", "64", "--hw", "gb10")
TILING = ("tiling", "-M", "64", "-N", "64", "-K", "64", "--hw", "gb10")


def invoke(*arguments):
    return runner.invoke(app, [str(argument) for argument in arguments])


def refused(*arguments):
    done = invoke(*arguments)
    assert done.exit_code == 2, done.output
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    return done.stderr


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A table of products, and a folder with the constants fitted to it."""
    folder = tmp_path_factory.mktemp("fitted")
    table = write_rows(folder / "t.csv", 30)
    assert invoke("fit", "--from", table, "--no-folds", "-o", folder / "c.toml").exit_code == 0
    return table, folder / "c.toml"


@pytest.mark.parametrize("way", ["name", "symlink", "hardlink"])
def test_a_fit_never_replaces_its_own_table(fitted, tmp_path, way):
    table = tmp_path / "t.csv"
    table.write_bytes(fitted[0].read_bytes())
    out = table if way == "name" else tmp_path / "link.csv"
    if way != "name":
        (out.symlink_to if way == "symlink" else out.hardlink_to)(table)
    assert "is the table that is fitted" in refused("fit", "--from", table, "--no-folds", "-o", out)
    assert table.read_bytes() == fitted[0].read_bytes()


def test_predictions_never_replace_the_constants(fitted, tmp_path):
    table, constants = fitted
    before = constants.read_bytes()
    message = refused("validate", table, "--constants", constants, "--predictions", constants)
    assert "is the file of constants" in message
    assert message.endswith("name another file with --predictions\n")
    assert constants.read_bytes() == before
    assert "is a folder; name a file with --predictions" in refused("validate", table, "--predictions", tmp_path)
    assert "there is not a folder" in refused("validate", table, "--predictions", tmp_path / "no" / "p.csv")


def test_a_file_beside_the_constants_is_replaced_only_by_its_like(fitted, tmp_path):
    table, out, beside = fitted[0], tmp_path / "x.toml", tmp_path / "attention-x.toml"
    beside.write_text("my notes\n")
    assert "attention-x.toml (for the attention of" in refused("fit", "--from", table, "--no-folds", "-o", out)
    assert beside.read_text() == "my notes\n"
    assert not out.exists()
    assert "that name is for the attention" in refused("fit", "--from", table, "--no-folds", "-o", beside)


def test_constants_of_an_earlier_fit_that_stay_are_told(fitted, tmp_path):
    from roofline_model.expected.attention.fitted.library import attention_text, shipped_attention

    older = tmp_path / "attention-x.toml"
    older.write_text(
        attention_text([attention for attention in shipped_attention() if attention.chip.key == "h100-sxm"])
    )
    done = invoke("fit", "--from", fitted[0], "--no-folds", "-o", tmp_path / "x.toml")
    assert done.exit_code == 0, done.output
    assert "attention-x.toml is of an earlier fit and stays" in done.stdout.replace("\n", " ")


def test_constants_do_not_go_into_a_device(fitted):
    assert "is not a regular file" in refused("fit", "--from", fitted[0], "--no-folds", "-o", "/dev/null")


@pytest.mark.parametrize(("command", "name"), [(SWEEP, "s.csv"), (TILING, "t.svg")])
def test_a_pipe_stays_a_pipe(tmp_path, command, name):
    pipe, got = tmp_path / name, []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()), daemon=True)
    reader.start()
    done = invoke(*command, "-o", pipe)
    assert done.exit_code == 0, done.output
    reader.join(10)
    assert pipe.is_fifo()
    assert len(got[0]) > 50


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="needs a second file system")
def test_a_link_to_another_file_system_is_followed(tmp_path):
    other = Path("/dev/shm") / f"roofline-test-{os.getpid()}.csv"
    if other.parent.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("the same file system")
    (tmp_path / "s.csv").symlink_to(other)
    try:
        done = invoke(*SWEEP, "-o", tmp_path / "s.csv")
        assert done.exit_code == 0, done.output
        assert other.read_text().startswith("hardware,")
    finally:
        other.unlink(missing_ok=True)
    assert (tmp_path / "s.csv").is_symlink()


@pytest.mark.parametrize("command", [SWEEP, TILING])
def test_a_missing_folder_is_told_before_the_work(tmp_path, monkeypatch, command):
    def work(*arguments, **options):
        raise AssertionError("the work was begun")

    monkeypatch.setattr("roofline_model.sweep.sweep_gemm", work)
    monkeypatch.setattr("roofline_model.tiling.waves.gemm_tiling", work)
    out = tmp_path / "no" / ("s.csv" if command is SWEEP else "t.svg")
    assert "there is not a folder" in refused(*command, "-o", out)


def interrupted_write(folder, number):
    with written_file(folder / "out.csv"):
        assert list(folder.iterdir()), "nothing temporary: the test would prove nothing"
        os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_program_asked_to_end_leaves_nothing_behind(tmp_path, number):
    before = signal.signal(number, signal.SIG_DFL)
    try:
        with pytest.raises(SystemExit) as stopped:
            interrupted_write(tmp_path, number)
        assert stopped.value.code == 128 + number
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, before)
    assert list(tmp_path.iterdir()) == []


def test_a_failure_names_the_option_it_came_with(tmp_path):
    with pytest.raises(InvalidValueError, match="--predictions"):
        write_text(tmp_path / ("n" * 300), "x", "--predictions")


@pytest.mark.parametrize("command", [("validate",), ("fit", "--from")])
def test_a_table_is_a_regular_file(tmp_path, command):
    os.mkfifo(tmp_path / "pipe.csv")
    for name, words in (
        ("/dev/zero", "is not a regular file"),
        (tmp_path / "pipe.csv", "is not a regular file"),
        (tmp_path, "is a folder"),
    ):
        assert words in refused(*command, name)


def test_a_table_whose_name_is_no_text_can_be_fitted(fitted, tmp_path):
    path = os.path.join(os.fsencode(tmp_path), b"t\xff.csv")
    with open(path, "wb") as file:
        file.write(fitted[0].read_bytes())
    done = invoke("fit", "--from", os.fsdecode(path), "--no-folds", "-o", tmp_path / "c.toml")
    assert done.exit_code == 0, done.output
    assert "t?.csv" in (tmp_path / "c.toml").read_text(encoding="utf-8")


def scaled(table, path, factor=1.0, **more):
    """Write the table again with other times and more columns."""
    first, *rows = table.read_text().splitlines()
    where = HEADER.index("time_s")
    lines = [",".join([first, *more])]
    for row in rows:
        cells = row.split(",")
        cells[where] = repr(float(cells[where]) * factor)
        lines.append(",".join([*cells, *map(str, more.values())]))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    ("factor", "more", "words"),
    [
        (1e6, {}, "the best constants give"),
        (1e-5, {}, "the best constants give"),
        (1e300, {}, "rows without a usable time_s: 30"),
        (1e-290, {}, "rows without a usable time_s: 30"),
        (1.0, {"weight": 0}, "rows of weight 0: 30"),
        (1.0, {"weight": 1e308}, "weight 1e+308 is more than 1e+06"),
        (1.0, {"weight_copies": 1e300}, "weight_copies must be a positive number of at most 1e+18"),
    ],
)
def test_constants_that_mean_nothing_are_not_written(fitted, tmp_path, recwarn, factor, more, words):
    path = scaled(fitted[0], tmp_path / "t.csv", factor, **more)
    assert words in refused("fit", "--from", path, "--no-folds", "-o", tmp_path / "c.toml")
    assert not (tmp_path / "c.toml").exists()
    assert [str(warning.message) for warning in recwarn if issubclass(warning.category, RuntimeWarning)] == []


def test_a_single_shape_is_doubted(tmp_path):
    rows = [f"h100-sxm,gemm,{m},4096,4096,BF16,BF16,{1.6e-5 + m * 2e-8},x" for m in range(1, 60)]
    (tmp_path / "t.csv").write_text("\n".join([",".join(HEADER), *rows]) + "\n")
    done = invoke("fit", "--from", tmp_path / "t.csv", "--no-folds")
    assert done.exit_code == 0, done.output
    assert "all 59 rows have one N and K" in done.stdout
