"""`roofline export` of questions and `roofline import` of other programs' files, as a user types them."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
from pathlib import Path

import pytest
from foreign_files import LATENCY, MARKDOWN, PP, PYTEST_BENCHMARK, SERVE, TABLE, TG
from typer.testing import CliRunner

from results import load_frame, open_store
from roofline_cli.main import app
from roofline_model.core.errors import InvalidValueError

runner = CliRunner()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("transfer")
    for name, content in (
        ("llama.json", [PP, TG]),
        ("serve.json", SERVE),
        ("latency.json", LATENCY),
        ("bench.json", PYTEST_BENCHMARK),
    ):
        (folder / name).write_text(json.dumps(content))
    (folder / "pasted.md").write_text(MARKDOWN)
    (folder / "kernels.csv").write_text(TABLE)
    open_store(folder / "none.db").close()
    return folder


@pytest.fixture(scope="module")
def filled(folder):
    """A database with a file of each program."""
    target = str(folder / "filled.db")
    files = [str(folder / name) for name in ("llama.json", "serve.json", "bench.json", "kernels.csv")]
    result = runner.invoke(app, ["import", *files, "--hw", "h100", "--db", target, "--json"])
    assert result.exit_code == 0, result.output
    return target, json.loads(result.stdout)


@pytest.fixture(autouse=True)
def plain_screen(monkeypatch, folder):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("ROOFLINE_DB", raising=False)
    monkeypatch.chdir(folder)


def invoke(*arguments: str) -> str:
    result = runner.invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*arguments: str) -> str:
    result = runner.invoke(app, list(arguments))
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    return result.stderr


def pasted(test: str, rate: float, model: str = "llama 8B F16", size: str = "14.96 GiB", count: str = "8.03 B") -> str:
    return (
        "| model | size | params | backend | ngl | test | t/s |\n"
        "| --- | ---: | ---: | --- | --: | ---: | ---: |\n"
        f"| {model} | {size} | {count} | CUDA | 99 | {test} | {rate:.2f} ± 0.10 |\n"
    )


@pytest.mark.parametrize(
    ("hardware", "table", "is_impossible"),
    [
        ("gb10", pasted("tg128", 51.2), True),  # what an RTX 3090 does
        ("rtx-4090", pasted("tg128", 51.2), False),
        ("gb10", pasted("tg128", 18.3), False),  # above the ideal of the rated bandwidth, within what documents round
        ("gb10", pasted("pp512", 17000), True),
        # Weights of 4 bits may be multiplied in INT8, at twice the rate of the product that formats ask for.
        ("gb10", pasted("pp512", 17000, "llama 8B Q4_0", "4.33 GiB"), False),
        # Tokens that agree share experts: only the fewest are sure to be read.
        ("gb10", pasted("pp16", 900, "gpt-oss 20B MXFP4 MoE", "11.27 GiB", "20.91 B"), False),
    ],
)
def test_an_imported_rate_that_no_kernel_reaches_is_kept_and_marked(tmp_path, hardware, table, is_impossible):
    file, target = tmp_path / "table.md", str(tmp_path / "r.db")
    file.write_text(table)
    model = "gpt-oss-20b" if "gpt-oss" in table else "llama-3.1-8b"
    command = ("import", str(file), "--hw", hardware, "--model", model, "--db", target)
    answer = json.loads(invoke(*command, "--json"))
    (record,) = [record for each in answer["imported"] for record in each["records"]]
    assert (record["ideal_s"] > record["measured_s"]) is (hardware == "gb10")
    assert ("above-roof" in record["flags"]) is is_impossible
    text = invoke(*command)
    assert (" ! " in text) is is_impossible
    (case,) = json.loads(invoke("show", "latest", "--db", target, "--json"))["cases"]
    assert case["status"] == "measured"
    assert ("above-roof" in case["doubts"]) is is_impossible
    shown, report = invoke("show", "latest", "--db", target), invoke("report", "--format", "md", "--db", target)
    for surface in (text, shown, report):
        assert ("more than the chip allows" in surface) is is_impossible
    assert (" ! " in shown) is is_impossible
    assert "ran above its rated clock" not in (report if is_impossible else "")


def test_an_impossible_row_of_a_kernel_table_is_marked(tmp_path):
    file = tmp_path / "kernels.csv"
    file.write_text(
        "device,op,m,n,k,weight_format,time_s\nh100-sxm,gemm,1,16384,16384,BF16,4e-5\n"
        "h100-sxm,gemm,1,16384,16384,BF16,2e-4\n"
    )
    answer = json.loads(invoke("import", str(file), "--db", str(tmp_path / "r.db"), "--json"))
    flags = [record["flags"] for each in answer["imported"] for record in each["records"]]
    assert ["above-roof" in each for each in flags] == [True, False]


def test_tokens_per_second_stand_beside_the_prediction(tmp_path):
    lines = invoke("import", "llama.json", "--db", str(tmp_path / "r.db")).splitlines()
    assert lines[0].startswith("llama.json (llama-bench): run ")
    assert lines[0].endswith(": 2 records added, 0 already there")
    assert any("on h100-sxm: NVIDIA H100" in line for line in lines)
    step = next(line.split() for line in lines if " tg128 " in line)
    # 128 steps in 0.8 s; 64 tokens in the cache on average
    assert step[:7] == ["llama-3.1-8b", "tg128", "1", "64", "INT4", "(W4A16)", "160"]
    ideal, expected, error = float(step[7]), float(step[8]), step[9]
    assert ideal > expected > 160
    assert error == f"{(160 / expected - 1) * 100:+.1f}"
    again = invoke("import", "llama.json", "--db", str(tmp_path / "r.db"))
    assert "0 records added, 2 already there" in again
    assert "nothing was added: the same measurements are stored already" in again


def test_the_example_of_the_page_is_what_is_printed(tmp_path, monkeypatch):
    monkeypatch.delenv("COLUMNS")
    page = (Path(__file__).parents[3] / "docs" / "reference" / "exchange.md").read_text(encoding="utf-8")
    printed = invoke("import", "llama.json", "--db", str(tmp_path / "r.db")).splitlines()
    assert len(printed) > 5
    assert [line for line in printed if line and not line.startswith("Error =") and f"    {line}\n" not in page] == []


def test_json_holds_every_comparison(filled):
    _, document = filled
    llama, serve, bench, table = document["imported"]
    assert [entry["kind"] for entry in document["imported"]] == [
        "llama-bench",
        "vllm-serve",
        "pytest-benchmark",
        "kernel-table",
    ]
    assert [entry["added_count"] for entry in document["imported"]] == [2, 2, 2, 4]
    step = llama["records"][1]
    assert step["measured_tokens_per_s"] == pytest.approx(160)
    assert step["expected_tokens_per_s"] * step["expected_s"] == pytest.approx(1)
    assert step["error_expected_ratio"] == pytest.approx(step["expected_s"] / step["measured_s"] - 1)
    assert serve["records"][0]["measured_tokens_per_s"] == pytest.approx(16 / 0.0089)
    assert serve["hardware"] == "h100-sxm"
    assert bench["records"][0]["ideal_s"] is None
    assert "your own" in bench["records"][0]["reason"]
    assert all(record["expected_s"] for record in table["records"])


def test_what_is_not_matched_is_said(tmp_path):
    text = invoke("import", "latency.json", "pasted.md", "bench.json", "--db", str(tmp_path / "r.db"))
    assert "not predicted (1): the file does not say how many tokens; give --batch, --input-len, --output-len" in text
    assert "not predicted (3): the file does not name the chip; give --hw" in text
    assert "2 measurements (pytest-benchmark)" in text
    options = ["--model", "llama-3.1-8b", "--batch", "8", "--input-len", "1024", "--output-len", "128", "--hw", "h100"]
    row = next(
        line
        for line in invoke("import", "latency.json", *options, "--db", str(tmp_path / "r.db")).splitlines()
        if "generate" in line
    )
    assert row.split()[:6] == ["llama-3.1-8b", "generate", "8", "1152", "BF16", "853.3"]  # 8 × 128 tokens in 1.2 s


def test_imported_runs_are_shown_like_our_own(filled):
    target, document = filled
    run = document["imported"][0]["run_ids"][0]
    text = invoke("show", run, "--all", "--db", target)
    assert "llama-3.1-8b" in text
    assert "160" in text
    detail = invoke("show", run, "tg128", "--db", target)
    assert "imported" in detail
    for imported in document["imported"][1:]:
        invoke("show", imported["run_ids"][0], "--db", target)
    assert "llama-bench: llama.json" in invoke("runs", "--db", target)


@pytest.mark.parametrize("columns", ["60", "200"])
def test_show_sets_an_imported_rate_beside_its_prediction(filled, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    target, document = filled
    step = document["imported"][0]["records"][1]
    lines = invoke("show", document["imported"][0]["run_ids"][0], "--all", "--db", target).splitlines()
    decode = next(i for i, line in enumerate(lines) if line.startswith("Decode: "))
    header, row = lines[decode + 1], lines[decode + 3]
    assert "Error" in header
    assert row.startswith("INT4 (W4A16)")
    shown = [f"{step['expected_tokens_per_s']:.3g}", f"{step['error_expected_ratio'] * 100:+.1f} %"]
    shown += [] if columns == "60" else ["160", f"{step['ideal_tokens_per_s']:.3g}"]
    assert all(f" {text}" in row for text in shown)
    assert max(map(len, lines)) <= int(columns)


def test_show_of_an_imported_table_has_the_expected_time_and_its_error(filled):
    target, document = filled
    table = document["imported"][3]
    text = invoke("show", table["run_ids"][0], "--all", "--db", target)
    with_time = [
        record for record in table["records"] if record["expected_s"] is not None and record["op"] in ("gemm", "gemv")
    ]
    assert with_time
    assert "Exp. error" in text
    assert all(f"{record['error_expected_ratio'] * 100:+.1f} %" in text for record in with_time)


def test_show_says_why_an_imported_rate_has_no_prediction(tmp_path):
    target = str(tmp_path / "r.db")
    invoke("import", "latency.json", "--db", target)
    assert "not predicted (1): " in invoke("show", "latest", "--db", target)


def test_one_bad_file_among_good_ones_stores_nothing(tmp_path, folder):
    (folder / "bad.json").write_text(json.dumps([{**TG, "avg_ns": -1, "samples_ns": None}]))
    target = tmp_path / "r.db"
    message = refused("import", "llama.json", "bad.json", "--db", str(target))
    assert "bad.json: [0].avg_ns is -1e-09 s" in message
    assert not target.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["import", "llama.json", "--hw", "h20"], "unknown hardware 'h20'"),
        (["import", "latency.json", "--model", "llama-9"], "unknown model 'llama-9'"),
        (["import", "latency.json", "--batch", "few"], "--batch must be a whole number"),
        (
            ["import", "latency.json", "--tensor-parallel", "2", "--link-gb-s", "-3"],
            "--link-gb-s must be a positive number",
        ),
        (["import", "latency.json", "--kv", "FP5"], "unknown format 'FP5'"),
        (["export"], "name a run"),
        (["export", "--case", " "], "--case is empty"),
        (["export", "--case", "no such words", "--db", "filled.db"], "no record in"),
        (["export", "--since", "someday"], "--since is 'someday'"),
        (["export", "latest", "--format", "parquet", "--db", "filled.db"], "give -o FILE.parquet"),
    ],
)
def test_bad_input_is_one_line(filled, arguments, words):
    assert words in refused(*arguments)


def test_a_question_over_all_runs_in_every_format(filled, tmp_path):
    target, _ = filled
    rows = list(
        csv.DictReader(io.StringIO(invoke("export", "--case", "decode llama", "--format", "csv", "--db", target)))
    )
    assert {row["timer"] for row in rows} == {"imported:llama-bench", "imported:vllm-serve", "imported:kernel-table"}
    assert all(float(row["expected_s"]) > 0 for row in rows)
    places = {ending: tmp_path / f"x.{ending}" for ending in ("csv", "json", "parquet")}
    for place in places.values():
        text = invoke("export", "--case", "DECODE LLAMA", "--since", "2020-01-01", "-o", str(place), "--db", target)
        assert text.startswith("3 records of 3 runs written to ")
    assert len(list(csv.DictReader(places["csv"].open()))) == 3
    assert json.loads(places["json"].read_text())["format"] == "roofline-bench runs"
    parquet = pytest.importorskip("pyarrow.parquet")
    assert parquet.read_table(places["parquet"]).num_rows == 3
    report = json.loads(invoke("import", str(places["json"]), "--db", str(tmp_path / "there.db"), "--json"))
    assert report["imported"][0]["added_count"] == 3
    frame = load_frame(tmp_path / "there.db", run=None, columns="all")
    assert sorted(frame["measured_s"]) == sorted(float(row["measured_s"]) for row in rows)


def test_a_database_is_never_the_output(filled):
    target, _ = filled
    assert "is the results database" in refused("export", "--case", "gemv", "--db", target, "-o", target)


def test_several_runs_are_joined_by_commas(filled, tmp_path):
    target, document = filled
    names = [entry["run_ids"][0] for entry in document["imported"]]
    both = json.loads(invoke("export", f"{names[1][:12]}, {names[0]},{names[1]}", "--db", target))
    starts = [run["run"]["started_at"] for run in both["runs"]]
    assert {run["run"]["run_id"] for run in both["runs"]} == set(names[:2])
    assert starts == sorted(starts)
    assert "4 records of 2 runs" in invoke(
        "export", ",".join(names[:2]), "-o", str(tmp_path / "o.json"), "--db", target
    )
    assert "unknown run 'none'" in refused("export", f"{names[0]},none", "--db", target)


def test_an_ending_that_says_no_format_is_not_json(filled, tmp_path):
    target, document = filled
    run = document["imported"][0]["run_ids"][0]
    message = refused("export", run, "-o", str(tmp_path / "r.txt"), "--db", target)
    assert "the ending .txt of -o says no format: name a file .json, .csv or .parquet, or give --format" in message
    assert not (tmp_path / "r.txt").exists()
    invoke("export", run, "-o", str(tmp_path / "r.txt"), "--format", "csv", "--db", target)
    assert (tmp_path / "r.txt").read_text().startswith("run_id,")
    invoke("export", run, "-o", str(tmp_path / "plain"), "--db", target)
    assert json.loads((tmp_path / "plain").read_text())["run"]["run_id"] == run


def test_a_changed_copy_is_told_from_a_duplicate(filled, tmp_path):
    target, document = filled
    run, other = document["imported"][0]["run_ids"][0], str(tmp_path / "r.db")
    path = tmp_path / "run.json"
    path.write_text(invoke("export", run, "--db", target))
    assert "2 records added, 0 already there" in invoke("import", str(path), "--db", other)
    assert "other contents" not in invoke("import", str(path), "--db", other)
    changed = json.loads(path.read_text())
    changed["records"][0]["test_id"] = "another"
    changed["run"]["label"] = "another"
    path.write_text(json.dumps(changed))
    text = invoke("import", str(path), "--db", other)
    assert "0 records added, 2 already there" in text
    assert "1 of these are stored with other contents" in text
    assert f"run {run[:8]}: stored with another label, start, commit or machine" in text
    (entry,) = json.loads(invoke("import", str(path), "--db", other, "--json"))["imported"]
    assert (entry["differing_count"], entry["differing_run_ids"]) == (1, [run])


def test_a_question_to_a_frame_is_one_to_all_runs(filled):
    target, _ = filled
    everything = load_frame(target, run=None, columns="all")
    assert len(load_frame(target, since="2020-01-01", columns="all")) == len(everything)
    assert set(load_frame(target, case="decode", columns="all").run_id) == set(
        everything[everything.op.str.startswith("decode")].run_id
    )
    assert 0 < len(load_frame(target, columns="all")) < len(everything)
    assert len(load_frame(target, run="latest", since="2020-01-01", columns="all")) == len(
        load_frame(target, columns="all")
    )
    with pytest.raises(InvalidValueError, match=r"^since is '10x', not a date"):
        load_frame(target, since="10x", columns="all")


ONE_TEST = [*MARKDOWN.splitlines()[1:3], "| llama 8B F16 | 14.96 GiB | 8.03 B | CUDA | 99 | 1 | tg128 | 51.20 ± 0.10 |"]


@pytest.mark.parametrize(
    ("first", "stored_chip"), [(("--hw", "l40s"), "l40s"), ((), None)], ids=["another chip", "no chip"]
)
def test_what_a_repeated_import_shows_is_what_is_stored(tmp_path, monkeypatch, first, stored_chip):
    """Another chip or link is another prediction of the same measurement: it is said which one stays, and shown."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.md").write_text("\n".join(ONE_TEST))
    json.loads(invoke("import", "t.md", *first, "--json"))
    (again,) = json.loads(invoke("import", "t.md", "--hw", "rtx-4090", "--json"))["imported"]
    assert (again["added_count"], again["duplicate_count"], again["differing_count"]) == (0, 1, 1)
    assert [record["hardware"] for record in again["records"]] == [stored_chip]
    run = again["run_ids"][0]
    text = invoke("import", "t.md", "--hw", "rtx-4090")
    assert f"`roofline runs delete {run[:8]} --yes`" in text
    assert "on rtx-4090" not in text
    invoke("runs", "delete", run[:8], "--yes")
    (fresh,) = json.loads(invoke("import", "t.md", "--hw", "rtx-4090", "--json"))["imported"]
    assert [record["hardware"] for record in fresh["records"]] == ["rtx-4090"]
    (same,) = json.loads(invoke("import", "t.md", "--hw", "rtx-4090", "--json"))["imported"]
    assert (same["differing_count"], same["hardware"]) == (0, "rtx-4090")


def test_the_printed_way_to_import_again_works_as_printed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.md").write_text("\n".join(ONE_TEST))
    to = ("--db", "my f22.db")
    invoke("import", "t.md", "--hw", "l40s", *to)
    (command,) = re.findall(r"`roofline (runs delete [^`]+)`", invoke("import", "t.md", "--hw", "rtx-4090", *to))
    invoke(*shlex.split(command))
    (fresh,) = json.loads(invoke("import", "t.md", "--hw", "rtx-4090", *to, "--json"))["imported"]
    assert [record["hardware"] for record in fresh["records"]] == ["rtx-4090"]


def test_a_table_that_was_quoted_or_is_bold_is_the_same_test(tmp_path):
    rate = "51.20 ± 0.10"
    forms = {
        "plain.md": ONE_TEST,
        "quoted.md": [f"> {line.replace(rate, f'**{rate}**')}" for line in ONE_TEST],
        "answered.md": [f">> {line}" for line in ONE_TEST],
        "bold.md": [line.replace("| llama 8B F16 |", "| **llama 8B F16** |") for line in ONE_TEST],
    }
    for name, lines in forms.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    files = [str(tmp_path / name) for name in forms]
    target = str(tmp_path / "q.db")
    first, *others = json.loads(invoke("import", *files, "--hw", "h100", "--db", target, "--json"))["imported"]
    assert first["added_count"] == 1
    assert [(each["added_count"], each["duplicate_count"]) for each in others] == [(0, 1)] * 3


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("none.json", {**SERVE, "completed": 0, "failed": 200}),
        ("header.md", "\n".join(ONE_TEST[:2])),
        ("rate.md", "\n".join(ONE_TEST).replace("51.20", "fast")),
        ("row.csv", TABLE.splitlines()[0] + "\n" + TABLE.splitlines()[1].replace("gemm", "gemn")),
    ],
)
def test_a_reason_is_not_followed_by_a_guess_at_damage(tmp_path, name, content):
    path = tmp_path / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    message = refused("import", str(path), "--hw", "h100", "--db", str(tmp_path / "r.db"))
    assert "damaged" not in message
    assert "write it again" not in message


def test_every_printed_name_of_a_test_selects_its_case(tmp_path, filled):
    target, document = filled
    (bench,) = [each for each in document["imported"] if each["kind"] == "pytest-benchmark"]
    run = bench["run_ids"][0]
    for record in bench["records"]:
        assert "::" in record["test"]
        for door in (["history", record["test"]], ["show", run, record["test"]]):
            assert record["case_id"] in invoke(*door, "--db", target, "--json")
        invoke("export", "--case", record["test"], "--db", target, "-o", str(tmp_path / "e.json"))
        assert record["record_id"] in (tmp_path / "e.json").read_text()


def test_the_headline_of_another_programs_run_is_its_rate_and_its_share(filled, tmp_path):
    target, document = filled
    (llama,) = [each for each in document["imported"] if each["kind"] == "llama-bench"]
    run = llama["run_ids"][0]
    decode = next(record for record in llama["records"] if record["op"].startswith("decode"))
    share = decode["expected_s"] / decode["measured_s"]
    lines = [line for line in invoke("show", run, "--db", target).splitlines() if line.startswith("decode: ")]
    invoke("report", "--run", run, "--db", target, "--format", "md", "-o", str(tmp_path / "r.md"))
    report = (tmp_path / "r.md").read_text()
    answers = [line for line in report.splitlines() if line.startswith("**") and ": decode: " in line]
    for line in (*lines, *answers):
        assert f"{decode['measured_tokens_per_s']:.3g} tokens/s" in line
        assert f"{share * 100:.0f} %" in line
    assert len(lines) == len(answers) == 1
    assert not re.search(r"\b[0-9a-f]{16}\b", report)


@pytest.mark.parametrize(
    ("name", "size", "loss"), [("gpt-oss 20B MXFP4 MoE", 11.27, "0"), ("gpt-oss 20B Q4_0", 10.95, "≤ 6.5 %")]
)
def test_the_format_of_a_models_own_checkpoint_loses_nothing(tmp_path, name, size, loss):
    rows = [
        "| model | size | params | backend | ngl | test | t/s |",
        "| --- | ---: | ---: | --- | --: | ---: | ---: |",
        f"| {name} | {size} GiB | 20.91 B | CUDA | 99 | tg32 | 79.74 ± 0.43 |",
    ]
    (tmp_path / "bench.md").write_text("\n".join(rows))
    target = str(tmp_path / "own.db")
    invoke("import", str(tmp_path / "bench.md"), "--hw", "gb10", "--db", target)
    table = [line for line in invoke("show", "latest", "--db", target).splitlines() if "W4A16" in line]
    assert table[-1].endswith(f"  {loss}")
