"""`roofline fit`: from a table to a constants file that `roofline validate` uses, with errors of unseen rows."""

from __future__ import annotations

import json

import pytest
from synthetic_kernels import HEADER, TRUE, write_rows
from typer.testing import CliRunner

from roofline_cli.main import app
from roofline_model.expected.products.fitted.constants import read_constants

runner = CliRunner()


def invoke(*arguments, columns=None):
    return runner.invoke(
        app, [str(argument) for argument in arguments], env={"COLUMNS": str(columns) if columns else ""}
    )


def test_a_fit_is_written_read_back_and_better_than_what_was_shipped(tmp_path):
    table, out = write_rows(tmp_path / "t.csv", 300), tmp_path / "mine.toml"
    done = invoke("fit", "--from", table, "-o", out)
    assert done.exit_code == 0, done.output
    (fitted,) = read_constants(out.read_text(encoding="utf-8"), "mine.toml")
    assert (fitted.chip.key, fitted.family, fitted.evidence.row_count) == ("h100-sxm", "BF16", 300)
    for name, true in TRUE.items():
        assert getattr(fitted.constants, name) == pytest.approx(true, rel=0.25), name
    assert fitted.evidence.cv_mape_ratio == pytest.approx(0.017, abs=0.006)
    assert fitted.evidence.coverage_ratio == pytest.approx(0.8, abs=0.08)
    assert "t.csv" in fitted.evidence.source
    assert "lab" in fitted.evidence.source
    fresh = write_rows(tmp_path / "fresh.csv", 200, seed=12)
    shipped = json.loads(invoke("validate", fresh, "--json").stdout)["total"]["expected"]
    errors = json.loads(invoke("validate", fresh, "--json", "--constants", out).stdout)["total"]["expected"]
    assert errors["mape_ratio"] < 0.03 < shipped["mape_ratio"]
    assert errors["coverage_ratio"] == pytest.approx(0.8, abs=0.1)


def test_json_holds_constants_spreads_and_both_errors(tmp_path):
    done = invoke("fit", "--from", write_rows(tmp_path / "t.csv", 120), "--json")
    document = json.loads(done.stdout)
    assert document["written"] == []
    (fit,) = document["fits"]
    assert (fit["device"], fit["op"], fit["part"], fit["row_count"]) == ("h100-sxm", "gemm", "BF16", 120)
    assert set(fit["relative_spreads"]) <= set(fit["constants"])
    assert fit["in_sample"]["mape_ratio"] <= fit["cross_validated"]["mape_ratio"] * 1.05
    assert fit["cross_validated"]["row_count"] == 120


def test_few_rows_begin_at_what_the_chip_already_has(tmp_path):
    table = write_rows(tmp_path / "t.csv", 20)
    (fit,) = json.loads(invoke("fit", "--from", table, "--json").stdout)["fits"]
    assert fit["started_from"] == "fitted"
    assert fit["cross_validated"] is None
    assert fit["in_sample"]["mape_ratio"] < 0.05


def test_several_chips_need_a_choice_or_a_folder(tmp_path):
    table = write_rows(tmp_path / "t.csv", 60, devices=("h100-sxm", "l40s"))
    refused = invoke("fit", "--from", table, "-o", tmp_path / "one.toml")
    assert refused.exit_code == 2
    assert "the table has 2 chips (h100-sxm, l40s): choose one with --chip, or give -o a folder" in refused.stderr
    done = invoke("fit", "--from", table, "-o", tmp_path, "--no-folds")
    assert done.exit_code == 0, done.output
    assert {path.name for path in tmp_path.glob("*.toml")} == {"h100-sxm.toml", "l40s.toml"}
    chosen = json.loads(invoke("fit", "--from", table, "--chip", "H100", "--no-folds", "--json").stdout)
    assert [fit["device"] for fit in chosen["fits"]] == ["h100-sxm"]


@pytest.mark.parametrize("columns", [None, 80, 120])
def test_the_table_fits_the_screen(tmp_path, columns):
    done = invoke("fit", "--from", write_rows(tmp_path / "t.csv", 60), columns=columns)
    assert done.exit_code == 0, done.output
    assert "h100-sxm" in done.stdout
    assert "Unseen" in done.stdout
    if columns:
        assert max(len(line) for line in done.stdout.splitlines()) <= columns


@pytest.mark.parametrize(
    ("rows", "arguments", "words"),
    [
        (["h100-sxm,gemm,1,64,64,BF16,BF16,1e-6,x"], (), "no row can be fitted"),
        (["h100-sxm,gemm,1,64,64,BF16,BF16,1e-6,x"], ("--chip", "b200"), "has no row of it"),
        (["h100-sxm,gemm,1,64,64,BF16,BF16,1e-6,x"], ("--chip", "h101"), "Did you mean h100"),
        (["nochip,gemm,1,64,64,BF16,BF16,1e-6,x"] * 4, (), "no row can be fitted"),
        (["h100-sxm,gemm,1,64,64,BF16,BF16,,x"] * 4, (), "no row can be fitted"),
    ],
)
def test_what_cannot_be_fitted_is_one_line(tmp_path, rows, arguments, words):
    path = tmp_path / "t.csv"
    path.write_text("\n".join([",".join(HEADER), *rows]) + "\n", encoding="utf-8")
    done = invoke("fit", "--from", path, *arguments)
    assert done.exit_code == 2, done.output
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert words in done.stderr


def test_rows_that_cannot_be_fitted_are_told(tmp_path):
    path = write_rows(tmp_path / "t.csv", 40)
    with open(path, "a", encoding="utf-8") as file:
        file.write("nochip,gemm,1,64,64,BF16,BF16,1e-6,x\nh100-sxm,gemm,1,64,64,BF16,BF16,-1,x\n")
    done = invoke("fit", "--from", path, "--no-folds")
    assert done.exit_code == 0, done.output
    assert "row 42: unknown hardware 'nochip'" in done.stdout
    assert "left out: rows without a usable time_s: 1" in done.stdout


def test_one_row_is_no_plural(tmp_path):
    table = write_rows(tmp_path / "t.csv", 1)
    assert "1 rows" not in (text := invoke("fit", "--from", table).output)
    assert "rows: 1, at least 3 are needed" in text
    checked = invoke("validate", table).stdout
    assert "t.csv: 1 row, " in checked
    assert "1 of 1 row scored" in checked


def test_a_missing_folder_is_told_before_the_work(tmp_path):
    done = invoke("fit", "--from", write_rows(tmp_path / "t.csv", 40), "-o", tmp_path / "no" / "where.toml")
    assert done.exit_code == 2
    assert "there is not a folder" in done.stderr
