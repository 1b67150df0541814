"""`roofline validate`: errors per group, every row predicted or given a reason, unknown columns carried through."""

from __future__ import annotations

import csv
import json

import pytest
from synthetic_kernels import write_rows
from typer.testing import CliRunner

from roofline_cli.main import app
from roofline_cli.model_fit.validate import ADDED_COLUMNS
from roofline_model import gemm, get_hardware, predict
from roofline_model.expected.fitting.table import read_kernel_table
from roofline_model.expected.predict import predict_expected
from roofline_model.operators.attention import attention
from roofline_model.validation.table_prediction import predict_table

runner = CliRunner()
HEADER = [
    "device",
    "op",
    "phase",
    "m",
    "n",
    "k",
    "batch",
    "q_len",
    "kv_len",
    "heads",
    "kv_heads",
    "head_dim",
    "causal",
    "window",
    "weight_format",
    "activation_format",
    "kv_format",
    "output_format",
    "dynamic_activation_quantization",
    "time_s",
    "bytes",
    "model",
    "context",
    "n_tokens",
    "n_devices",
    "weight_bytes",
    "rack",
]


def row(**cells):
    assert set(cells) <= set(HEADER), set(cells) - set(HEADER)
    return dict.fromkeys(HEADER, "") | {name: str(value) for name, value in cells.items()}


def product(m, n, k, device="h100-sxm", time_s=2e-5, weight="BF16", activation="BF16", **more):
    return row(
        device=device,
        op="gemm",
        m=m,
        n=n,
        k=k,
        weight_format=weight,
        activation_format=activation,
        time_s=time_s,
        **more,
    )


def decode(device="h100-sxm", **more):
    cells = {"batch": 8, "q_len": 1, "kv_len": 4096, "heads": 32, "kv_heads": 8, "head_dim": 128, "causal": False, "time_s": 7e-5}  # fmt: skip
    cells |= {"activation_format": "BF16", "kv_format": "BF16"} | more
    return row(device=device, op="attention", phase="decode", **cells)


GOOD = [
    product(8, 4096, 4096, time_s=1.6e-5, rack="r1"),
    product(512, 7168, 4096, time_s=5e-5, rack="r2"),
    product(512, 7168, 4096, "b200", 3e-5),
    product(16, 4096, 4096, "l40s", 3e-5, weight="INT4"),
    product(64, 4096, 4096, "gb10", 2e-4),
    decode(),
    decode("b200", kv_format="FP8"),
]


@pytest.fixture
def write(tmp_path):
    def table(*rows, name="t.csv"):
        path = tmp_path / name
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, HEADER)
            writer.writeheader()
            writer.writerows(rows)
        return path

    return table


def invoke(*arguments, columns=None):
    return runner.invoke(
        app, [str(argument) for argument in arguments], env={"COLUMNS": str(columns) if columns else ""}
    )


def predictions(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_every_row_has_a_prediction_or_a_reason(write, tmp_path):
    bad = [
        product(8, 4096, 4096, "nochip"),
        product(0, 4096, 4096),
        product(8, 4096, 4096, weight="FP9"),
        product(8, 4096, 4096, weight=""),
        decode(kv_heads=5),
        row(device="h100-sxm", op="conv"),
    ]
    out = tmp_path / "out.csv"
    done = invoke("validate", write(*GOOD, *bad), "--predictions", out, "--no-local-calibration")
    assert done.exit_code == 0, done.output
    rows = predictions(out)
    assert list(rows[0]) == [*HEADER, *ADDED_COLUMNS]
    assert [row["rack"] for row in rows[:2]] == ["r1", "r2"]
    for given_row in rows[: len(GOOD)]:
        assert given_row["reason"] == ""
        low, expected, high = (float(given_row[name]) for name in ("expected_low_s", "expected_s", "expected_high_s"))
        assert 0 < low <= expected <= high
        assert float(given_row["ideal_s"]) <= expected
        assert given_row["provenance"].startswith(("fitted", "transferred"))
    words = [
        "unknown hardware 'nochip'",
        "m must be a whole number",
        "unknown format 'FP9'",
        "weight_format is empty",
        "heads 32 is not a multiple of kv_heads 5",
        "op 'conv' is not one of",
    ]
    for number, (given_row, word) in enumerate(zip(rows[len(GOOD) :], words, strict=True), len(GOOD) + 2):
        assert given_row["expected_s"] == given_row["expected_low_s"] == given_row["provenance"] == ""
        assert given_row["reason"].startswith(f"row {number}: ")
        assert word in given_row["reason"]
    assert f"{len(GOOD)} of {len(rows)} rows scored" in done.stdout


def test_the_columns_hold_the_model(write, tmp_path):
    out = tmp_path / "out.csv"
    assert invoke("validate", write(*GOOD), "--predictions", out).exit_code == 0
    first = predictions(out)[0]
    work = gemm(8, 4096, 4096, a="BF16", c="BF16")
    assert float(first["ideal_s"]) == pytest.approx(predict(work, "h100-sxm").time_s)
    cold = predict_expected(work, "h100-sxm").time_s
    assert float(first["expected_s"]) == pytest.approx(cold, rel=0.02)  # three copies of 34 MB do not fit into 50 MB
    assert float(first["expected_s"]) == pytest.approx(15.2e-6, rel=0.03)  # the study's check value


def test_weight_copies_choose_hot_or_cold(tmp_path):
    path = tmp_path / "t.csv"
    head = "device,op,m,n,k,weight_format,time_s,weight_copies\n"
    path.write_text(head + "".join(f"rtx-pro-6000,gemm,1,8192,8192,BF16,1e-4,{copies}\n" for copies in ("", 1, 1000)))
    expected_s = predict_table(read_kernel_table(path)).expected_s
    assert expected_s[0] == pytest.approx(expected_s[1], rel=0.05)  # one 134 MB matrix covers the L2: no second copy
    assert expected_s[2] > 1.8 * expected_s[1]


def test_bad_times_are_predicted_but_not_scored(write):
    path = write(
        product(8, 4096, 4096, time_s="nan"),
        product(8, 4096, 4096, time_s=-1),
        product(8, 4096, 4096, time_s=""),
        GOOD[0],
    )
    document = json.loads(invoke("validate", path, "--json").stdout)
    assert document["total"]["row_count"] == 4
    assert document["total"]["expected"]["row_count"] == 1
    reasons = [entry["reason"] for entry in document["reasons"]]
    assert any("time_s must be a positive number, got 'nan'; predicted, not scored" in reason for reason in reasons)


def test_json_has_each_group_with_both_errors(write):
    document = json.loads(invoke("validate", write(*GOOD), "--json").stdout)
    groups = {(group["device"], group["op"], group["phase"], group["formats"]): group for group in document["groups"]}
    assert ("l40s", "gemm", "decode", "INT4.BF16") in groups
    assert ("b200", "attention", "decode", "BF16/FP8_E4M3") in groups
    group = groups["h100-sxm", "gemm", "decode", "BF16"]
    assert group["expected"]["mape_ratio"] == pytest.approx(abs(group["expected"]["bias_ratio"]))
    assert group["ideal"]["bias_ratio"] < 0
    assert len(document["sha256"]) == 64


@pytest.mark.parametrize("columns", [None, 80, 120])
def test_the_tables_fit_the_screen(write, columns):
    done = invoke("validate", write(*GOOD, product(1, 1, 1, "nochip")), "--all", columns=columns)
    assert done.exit_code == 0, done.output
    for word in ("gemm decode", "attention decode", "MAPE", "Median", "Bias", "Ideal", "rows scored"):
        assert word in done.stdout
    assert "  Rows  " in done.stdout  # how many rows a mean is of outlasts every other figure on a narrow screen
    if columns:
        assert max(len(line) for line in done.stdout.splitlines()) <= columns
    if columns == 120:
        assert "left out" not in done.stdout


def test_a_chip_is_one_group_however_it_is_named(write, tmp_path):
    chip_file = tmp_path / "MyChip.toml"
    assert invoke("hardware", "show", "h100-sxm", "--toml").exit_code == 0
    chip_file.write_text(invoke("hardware", "show", "h100-sxm", "--toml").stdout, encoding="utf-8")
    rows = [product(8, 4096, 4096, name) for name in ("h100", "H100-SXM", str(chip_file))]
    document = json.loads(invoke("validate", write(*rows, row(**GOOD[0] | {"op": "gemv"})), "--json").stdout)
    (group,) = document["groups"]
    assert (group["device"], group["op"], group["expected"]["row_count"]) == ("h100-sxm", "gemm", 4)


def test_same_reasons_are_told_once(write):
    done = invoke("validate", write(*[product(1, 64, 64, "nochip")] * 5, GOOD[0]))
    assert done.stdout.count("unknown hardware") == 1
    assert "(5 rows like it)" in done.stdout


def test_copies_move_their_bytes(write, tmp_path):
    out = tmp_path / "out.csv"
    path = write(
        *(row(device="gb10", op="copy", bytes=size, time_s=5e-3) for size in (2**30, 2**20)),
        row(device="gb10", op="copy"),
    )
    assert invoke("validate", path, "--predictions", out).exit_code == 0
    large, small, empty = predictions(out)
    chip = get_hardware("gb10")
    assert float(large["ideal_s"]) == pytest.approx(2**30 / chip.bandwidth.value)
    assert float(large["ideal_s"]) < float(large["expected_s"]) < 1.5 * float(large["ideal_s"])
    assert float(small["expected_s"]) < 2e-5
    assert "copy needs bytes" in empty["reason"]


def test_a_row_and_a_single_prediction_agree(write, tmp_path):
    calls = [(1, 8192, 128, 0), (8192, 8192, 128, 0), (8192, 8192, 128, 1), (100, 13, None, 0), (64, 4096, None, 1)]
    rows = [
        decode(batch=4, q_len=q_len, kv_len=kv_len, causal=causal, window=window or "", output_format="BF16")
        | {"phase": ""}
        for q_len, kv_len, window, causal in calls
    ]
    out = tmp_path / "out.csv"
    assert invoke("validate", write(*rows), "--predictions", out, "--no-local-calibration").exit_code == 0
    for (q_len, kv_len, window, causal), row in zip(calls, predictions(out), strict=True):
        work = attention(4, 32, 8, q_len, kv_len, 128, causal=bool(causal), window=window)
        assert float(row["ideal_s"]) == pytest.approx(predict(work, "h100-sxm").time_s, rel=1e-8)
        assert bool(row["expected_s"]) == (predict_expected(work, get_hardware("h100-sxm")) is not None)


def test_a_row_that_nobody_measured_the_like_of_stops_no_other(write, tmp_path):
    out = tmp_path / "out.csv"
    odd = [
        decode(q_len=40, kv_len=13),
        decode(head_dim=576),
        decode(q_len=40, kv_len=13, causal="") | {"phase": "prefill"},
    ]
    path = write(decode(), *odd, decode(kv_len=512), *[decode(kv_len=size * 100) for size in range(1, 40)])
    assert invoke("validate", path, "--predictions", out, "--no-local-calibration").exit_code == 0
    first, cross, wide, impossible, *rest = predictions(out)
    assert all(row["expected_s"] and not row["reason"] for row in (first, *rest))
    assert "row 3: no expected attention for 40 new tokens over 13" in cross["reason"]
    assert "row 4: no expected attention with D 576" in wide["reason"]
    assert float(cross["ideal_s"]) > 0
    assert "prefill is causal where the column is empty" in impossible["reason"]
    done = invoke("fit", "--from", path, "--no-folds", "--json")
    assert [fit["row_count"] for fit in json.loads(done.stdout)["fits"]] == [41]
    single = ("predict", "attention", "--q-len", 100, "--kv-len", 13, "--heads", 8, "--kv-heads", 8, "--head-dim", 64)
    assert invoke(*single, "--hw", "gb10").exit_code == 0


@pytest.mark.parametrize("cells", [product(1, 8192, 8192), decode()])
def test_a_chip_of_ones_own_under_a_known_name_keeps_its_numbers(write, tmp_path, cells):
    text = invoke("hardware", "show", "h100-sxm", "--toml").stdout
    slow = tmp_path / "slow.toml"
    lines = [line for line in text.splitlines() if not line.startswith("bandwidth_achieved")]
    slow.write_text("\n".join(lines).replace("bandwidth = {value = 3352,", "bandwidth = {value = 400,"))
    assert get_hardware(slow).bandwidth.value == 0.4e12
    path = write(cells, cells | {"device": str(slow)})
    out = tmp_path / "out.csv"
    assert invoke("validate", path, "--predictions", out, "--no-local-calibration").exit_code == 0
    shipped, local = predictions(out)
    assert float(local["expected_s"]) > float(local["ideal_s"]) > 8 * float(shipped["ideal_s"])


def test_numbers_are_those_that_every_reader_takes(write, tmp_path):
    out = tmp_path / "out.csv"
    bad = [product("٣", 64, 64), product("1_000", 64, 64), product(8, 64, 64, time_s="1e-320")]
    assert invoke("validate", write(GOOD[0], *bad), "--predictions", out).exit_code == 0
    reasons = [prediction["reason"] for prediction in predictions(out)]
    assert reasons[0] == ""
    assert "m must be a whole number, got '٣'" in reasons[1]
    assert "m must be a whole number, got '1_000'" in reasons[2]
    assert "time_s must be seconds from 1e-12 to 1e+09" in reasons[3]


def test_an_absent_text_column_is_not_built_for_every_row(write):
    table = read_kernel_table(write(*GOOD))
    assert table.text("no such column") == ("",) * len(GOOD)
    # Quadratic in the rows otherwise: labels ask for it once per row.
    assert table.text("no such column") is table.text("another")


def test_a_cross_validated_table_scores_no_row_that_was_fitted(tmp_path):
    path, out = write_rows(tmp_path / "t.csv", 200), tmp_path / "out.csv"
    done = invoke("validate", path, "--cross-validate", "--predictions", out, "--json")
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document["is_cross_validated"] is True
    assert document["total"]["expected"]["mape_ratio"] == pytest.approx(0.018, abs=0.008)
    assert {prediction["provenance"] for prediction in predictions(out)} == {"cross-validated"}
    few = write_rows(tmp_path / "few.csv", 20)
    document = json.loads(invoke("validate", few, "--cross-validate", "--json").stdout)
    assert document["total"]["expected"]["row_count"] == 0
    assert "too few rows or sites" in document["reasons"][0]["reason"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["absent.csv"], "cannot be read"),
        ([], "Missing argument 'FILE'"),
        (["{t}", "--predictions", "{t}"], "is the table itself"),
        (["{t}", "--cross-validate", "--constants", "x.toml"], "leave out --constants"),
        (["{t}", "--constants", "x.toml"], "x.toml"),
    ],
)
def test_bad_use_is_one_line(write, arguments, words):
    path = write(GOOD[0])
    done = invoke("validate", *(argument.format(t=path) for argument in arguments))
    assert done.exit_code == 2, done.output
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert words in done.stderr
