"""Help and usage errors at any width: no sentence of a command is cut, a question keeps its mark, tables stay
inside.
"""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from roofline_cli.main import app

runner = CliRunner()


@pytest.mark.parametrize("path", [(), ("predict",), ("hardware",), ("runs",), ("db",), ("compare",)])
def test_no_sentence_of_a_command_is_cut_on_a_narrow_screen(path):
    wide = runner.invoke(app, [*path, "--help"], terminal_width=80).stdout
    narrow = runner.invoke(app, [*path, "--help"], terminal_width=60).stdout
    assert "..." not in narrow.partition("--help")[2]
    assert narrow.split() == wide.split()
    assert max(len(line) for line in narrow.splitlines()) <= 60


def test_a_mistyped_command_gets_its_neighbour_and_the_way_to_help():
    done = runner.invoke(app, ["predict", "gmv"], prog_name="roofline")
    assert done.exit_code == 2
    assert done.stderr == "error: No such command 'gmv'. Did you mean 'gemv'? See `roofline predict --help`\n"


def test_a_table_of_batches_stays_inside_a_narrow_screen():
    arguments = ["predict", "model", "--model", "llama-3.2-1b", "--hw", "h100", "--batch", "1,8"]
    done = runner.invoke(app, arguments, env={"COLUMNS": "60"})
    assert max(len(line) for line in done.stdout.splitlines()) <= 60
    header = next(line for line in done.stdout.splitlines() if line.startswith("Format"))
    for heading in ("Batch", "Expected", "Tokens/s", "Fits"):
        assert heading in header
