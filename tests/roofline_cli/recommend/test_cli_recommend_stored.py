"""`roofline recommend --stored`: readable at every width, the same figures in JSON, filters, exit codes, one form or
the other.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from trained_run import as_trained
from typer.testing import CliRunner

import bench_cases
from reports.present.stored import BENCH_OPERATORS
from results import open_store
from results.exchange.exported.load import import_file
from roofline_cli.main import app

runner = CliRunner()
RUNS = Path(__file__).parents[3] / "examples" / "runs" / "cpu-amd-epyc-2t"


@pytest.fixture(scope="module")
def database(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("stored")
    path = folder / "results.db"
    with open_store(str(path)) as store:
        import_file(store, RUNS / "quick.json")
        import_file(store, as_trained(RUNS / "model_quant.json", folder))
    return str(path)


def run(*arguments: str, columns: int | None = None):
    return runner.invoke(app, ["recommend", *arguments], env={"COLUMNS": str(columns) if columns else ""})


@pytest.mark.parametrize("columns", [80, 120, None])
def test_an_overview_of_everything_that_is_stored(columns: int | None, database: str) -> None:
    result = run("--stored", "--all", "--db", database, columns=columns)
    assert result.exit_code == 0, result.output
    if columns:
        assert max(len(line) for line in result.stdout.splitlines()) <= columns
    text = " ".join(result.stdout.split())
    for words in (
        "Recommended on AMD EPYC, 2 threads",
        "gemv 8x4096x4096 BF16 · matmul",
        "From 45 records of 2 runs",
        "narrow the question: --model",
        "Confidence",
        "gemv 1x1024x1024: measured 1.2× FP16 (ideal 2.7×)",
    ):
        assert words in text
    assert "First " not in text  # all stand in one table, those that gain first
    rows = [line.split() for line in result.stdout.splitlines() if " · " in line and "measured" in line]
    gains = [float(word.rstrip("×")) for row in rows for word in row if word.endswith("×")]
    pays = [gain > 1 for gain in gains]
    assert pays == sorted(pays, reverse=True)


def test_a_time_that_other_work_spoiled_is_said_without_all(tmp_path) -> None:
    """In `recommend --stored` (whose answer `demo` prints, too) and in `show`."""
    document = json.loads((RUNS / "demo.json").read_text())
    for record in document["records"]:
        if record["measurement"] is not None and "INT4" in json.dumps(record["case"]):
            record["measurement"]["flags"] = ["contended"]
    (tmp_path / "busy.json").write_text(json.dumps(document))
    with open_store(str(tmp_path / "busy.db")) as store:
        import_file(store, tmp_path / "busy.json")
    for arguments in (["recommend", "--stored"], ["show", "latest"]):
        result = runner.invoke(app, [*arguments, "--db", str(tmp_path / "busy.db")])
        assert result.exit_code == 0, result.output
        text = " ".join(result.stdout.split())
        assert "INT4" in text
        assert "contended" in text
        assert "measure again on a quiet machine" in text


def test_a_kernel_of_your_own_is_measured_again_in_its_own_suite(tmp_path) -> None:
    document = json.loads((RUNS / "calibrated.json").read_text())
    for record in document["records"]:
        record["case"]["op"] = "my_norm" if record["case"]["op"] == "gemm" else "my_softmax"
        if record["measurement"] is not None:
            record["measurement"]["flags"] = ["contended"]
    (tmp_path / "own.json").write_text(json.dumps(document))
    with open_store(str(tmp_path / "own.db")) as store:
        import_file(store, tmp_path / "own.json")
    result = runner.invoke(app, ["recommend", "--stored", "--db", str(tmp_path / "own.db")])
    text = " ".join(result.stdout.split())
    assert "Next: pytest # measures it again, in the suite that has my_" in text


def test_a_whole_model_that_other_work_spoiled_is_measured_again_as_a_model(tmp_path) -> None:
    document = json.loads((RUNS / "demo.json").read_text())
    for record in document["records"]:
        if record["measurement"] is not None:
            record["measurement"]["flags"] = ["contended"]
    (tmp_path / "busy.json").write_text(json.dumps(document))
    with open_store(str(tmp_path / "busy.db")) as store:
        import_file(store, tmp_path / "busy.json")
    result = runner.invoke(app, ["recommend", "--stored", "--db", str(tmp_path / "busy.db")])
    text = " ".join(result.stdout.split())
    assert "Next: pytest bench_cases -k model_quant --roofline-model FOLDER # measures it again" in text


def test_the_operators_of_bench_cases_are_those_that_its_tests_are_called_by() -> None:
    source = "".join(path.read_text() for path in Path(bench_cases.__file__).parent.glob("test_*.py"))
    assert {*BENCH_OPERATORS, "model_quant"} == set(re.findall(r"^def test_(\w+)", source, re.M))


@pytest.fixture(scope="module")
def modes(tmp_path_factory) -> str:
    """A database of a GPU: operators without a narrower format, and modes in which one format alone was measured."""
    path = tmp_path_factory.mktemp("modes") / "results.db"
    with open_store(str(path)) as store:
        for name in ("quick", "modes"):
            import_file(store, RUNS.parent / "h200-sxm" / f"{name}.json")
    return str(path)


def test_the_count_is_of_cases_in_which_a_narrower_format_competed(modes: str) -> None:
    rankings = json.loads(run("--stored", "--db", modes, "--json").stdout)["rankings"]
    rows = [
        [row for row in each["rows"] if row["kernel"] is not None and row["loss"]["source"] != "reference"]
        for each in rankings
        if each["baseline"]
    ]
    compared_count = sum(map(bool, rows))
    assert 0 < compared_count < len(rankings)
    paying_count = sum(row["role"] == "take" for each in rows for row in each)
    first = run("--stored", "--db", modes).stdout.splitlines()[0]
    counts = f"{paying_count} of {compared_count} stored cases with one to compare"
    assert first == f"A narrower format pays in {counts}, each by itself."
    alone = run("--stored", "--db", modes, "--op", "softmax,unfused_attention").stdout
    assert "A narrower format pays" not in alone


def test_where_one_case_alone_was_measured_there_is_nothing_to_take(modes: str) -> None:
    rankings = json.loads(run("--stored", "--db", modes, "--json").stdout)["rankings"]
    alone = {
        each["title"]: row["label"]
        for each in rankings
        for row in each["rows"][:1]
        if sum(row["kernel"] is not None for row in each["rows"]) == 1 and row["loss"]["pct"] is not None
    }
    lines = run("--stored", "--all", "--db", modes).stdout.splitlines()
    table = [line for line in lines if " measured " in f"{line} " and " · " in line and not line.startswith("  ")]
    rows = {line[: line.index("  ")]: line for line in table}
    assert "gemm 512x4096x4096, cold, graph" in alone
    for title, label in alone.items():
        assert f"  nothing to choose yet, {label} alone  " in rows[title]
    assert {title for title, line in rows.items() if "nothing to choose yet" in line} == set(alone)
    assert [title in alone for title in rows] == sorted(title in alone for title in rows)  # they stand last


@pytest.mark.parametrize("columns", [80, 100, 120, 200])
def test_one_ranking_shows_its_evidence(columns: int, database: str) -> None:
    result = run("--stored", "--all", "--db", database, "-M", "8", "-N", "4096", "-K", "4096", columns=columns)
    assert result.exit_code == 0, result.output
    assert max(len(line) for line in result.stdout.splitlines()) <= columns
    text = " ".join(result.stdout.split())
    for words in (
        "gemv 8x4096x4096 on AMD EPYC, 2 threads",
        "published",
        "medium: 1 process only (1, 2, 3, 4, 5, 6)",
        "low: ideal time only, which is no kernel's (7, 8, 9)",
        "not ranked: FP8 (W8A8) · scaled_mm_emulated: skipped",
        "Stay with BF16 · matmul: measured 1.83 ms; confidence medium",
        "riskier INT4 (W4A16) · int4pack",
    ):
        assert words in text
    assert ("26e23293" in text) == (columns >= 100)


def test_json_has_the_same_and_the_records(database: str) -> None:
    result = run("--stored", "--db", database, "--model", "seeded-llama-156m", "--phase", "decode", "--json")
    assert result.exit_code == 0
    [ranking] = json.loads(result.stdout)["rankings"]
    best = ranking["rows"][0]
    assert (best["label"], best["time_source"], best["loss"]["source"], best["confidence"]) == (
        "INT4 (W4A16)",
        "measured",
        "measured",
        "medium",
    )
    assert best["evidence"][0]["run_id"].startswith("549860b1")
    assert best["evidence"][0]["record_ids"]
    assert ranking["phase"] == "decode"


def test_what_is_not_stored_is_said_and_exits_with_1(database: str) -> None:
    result = run("--stored", "--db", database, "--op", "attention")
    assert result.exit_code == 1
    assert (
        result.stdout
        == "missing: no record of attention is stored; stored chips: cpu-amd-epyc-2t; `roofline runs` lists what is\n"
    )
    nothing = run("--stored", "--db", database, "--memory-limit-gb", "1e-6", "-M", "8", "-N", "4096", "-K", "4096")
    assert nothing.exit_code == 1
    assert nothing.stdout.startswith("Nothing is left to recommend")


def test_an_empty_database(tmp_path) -> None:
    path = str(tmp_path / "empty.db")
    with open_store(path):
        pass
    result = run("--stored", "--db", path)
    assert result.exit_code == 1
    assert result.stdout.startswith("missing: nothing is stored: measure first")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--stored", "--batch", "4"), "--batch does not go with --stored"),
        (("--stored", "--formats-file", "x.toml"), "--formats-file does not go with --stored"),
        (("--stored", "-M", "8"), "a shape is -M, -N and -K together"),
        (("--stored", "-M", "1", "-N", "2", "-K", "3", "--model", "x"), "give one of the two"),
        (("--stored", "--hw", "gb10"), "no run of gb10 is stored, so there is nothing to recommend from; stored chips: cpu-amd-epyc-2t."),
        (("--stored", "--hw", "gb1O"), "unknown hardware 'gb1O'. Did you mean gb10"),
        (("--stored", "--hw", "gb1O"), "Stored chips: cpu-amd-epyc-2t."),
        (("--stored", "--phase", "train"), "--phase must be decode or prefill"),
        (("--op", "gemm"), "--op is about stored runs: add --stored"),
        (("--db", "x.db", "--model", "llama-3-8b"), "--db is about stored runs: add --stored"),
    ],
)  # fmt: skip
def test_options_that_do_not_go_together_are_refused(arguments, words: str, database: str) -> None:
    more = () if "--stored" not in arguments else ("--db", database)
    result = run(*arguments, *more)
    assert result.exit_code == 2
    assert words in str(result.exception or "") + result.output


def test_a_chip_may_be_named_by_its_key(database: str) -> None:
    assert run("--stored", "--db", database, "--hw", "CPU-AMD-EPYC-2T", "--op", "gemm").exit_code == 0
