"""Reading a measured-kernel table: typed columns, a reason for every bad row, one line for a bad file."""

from __future__ import annotations

import hashlib
import math

import pytest

from roofline_model.core.errors import InvalidValueError
from roofline_model.core.finding import finding, reason_text
from roofline_model.expected.fitting.table import formats_label, phase_of, read_kernel_table

HEADER = (
    "device,op,phase,m,n,k,batch,q_len,kv_len,heads,kv_heads,head_dim,causal,window,weight_format,activation_format,"
    "kv_format,output_format,dynamic_activation_quantization,time_s,source,site"
)
GEMM = "H100-SXM,gemm,prefill,512,4096,4096,,,,,,,,,FP8,FP8,,BF16,True,3.1e-05,me,rack 4"
ATTENTION = "b200,attention,decode,,,,8,1,4096,32,8,128,False,,,BF16,FP8,BF16,False,2e-05,me,rack 5"
COLUMNS = HEADER.split(",")


def row(base: str = GEMM, **changes: str) -> str:
    cells = dict(zip(COLUMNS, base.split(","), strict=True))
    assert set(changes) <= set(cells)
    return ",".join({**cells, **changes}.values())


@pytest.fixture
def read(tmp_path):
    def write(*rows: str, header: str = HEADER):
        path = tmp_path / "kernels.csv"
        path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
        return read_kernel_table(path)

    return write


def test_columns_are_typed_and_unknown_ones_kept(read, tmp_path):
    table = read(GEMM, ATTENTION)
    assert len(table) == 2
    assert table.reasons == (None, None)
    assert table.texts["device"] == ("h100-sxm", "b200")
    assert table.texts["weight_format"] == ("FP8_E4M3", "")
    assert table.numbers["m"][0] == 512
    assert math.isnan(table.numbers["m"][1])
    assert table.numbers["dynamic_activation_quantization"].tolist() == [1.0, 0.0]
    assert math.isnan(table.numbers["causal"][0])
    assert table.numbers["time_s"].tolist() == [3.1e-05, 2e-05]
    assert table.texts["site"] == ("rack 4", "rack 5")
    assert table.cells[0][COLUMNS.index("device")] == "H100-SXM"  # carried through as written
    assert table.sha256 == hashlib.sha256((tmp_path / "kernels.csv").read_bytes()).hexdigest()
    assert (phase_of(table, 0), formats_label(table, 0)) == ("prefill", "FP8_E4M3+cast")
    assert (phase_of(table, 1), formats_label(table, 1)) == ("decode", "BF16/FP8_E4M3")


def test_whole_numbers_as_pandas_writes_them(read):
    table = read(row(m="512.0", n="4096.0"))
    assert table.reasons == (None,)
    assert table.numbers["m"][0] == 512


def test_a_phase_left_empty_follows_from_the_sizes(read):
    table = read(
        row(phase="", m="16"), row(phase="", m="17"), row(ATTENTION, phase=""), row(ATTENTION, phase="", q_len="9")
    )
    assert [phase_of(table, i) for i in range(4)] == ["decode", "prefill", "decode", "prefill"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"m": "0"}, "m must be a whole number from 1 to 1,000,000,000, got '0'"),
        ({"m": "-4"}, "m must be a whole number"),
        ({"n": "12.5"}, "n must be a whole number"),
        ({"k": "many"}, "k must be a whole number"),
        ({"k": "inf"}, "k must be a whole number"),
        ({"k": "1e30"}, "k must be a whole number"),
        ({"k": "nan"}, "gemm needs k, empty here"),
        ({"m": "", "k": ""}, "gemm needs m, k, empty here"),
        ({"device": ""}, "device is empty"),
        ({"op": "conv"}, "op 'conv' is not one of gemm, attention, model, copy"),
        ({"phase": "training"}, "phase 'training' is not one of decode, prefill"),
        ({"weight_format": "FP9"}, "unknown format 'FP9'"),
        ({"dynamic_activation_quantization": "perhaps"}, "must be true or false"),
    ],
)
def test_a_bad_row_gets_a_reason_and_the_rest_go_on(read, changes, words):
    table = read(GEMM, row(**changes), GEMM)
    assert table.reasons[0] is table.reasons[2] is None
    assert words in reason_text(table.reasons[1])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kv_heads": "5"}, "heads 32 is not a multiple of kv_heads 5"),
        ({"q_len": "5000", "causal": "True", "phase": "prefill"}, "q_len 5,000 is more than kv_len 4,096"),
        ({"q_len": "100"}, "phase is decode but q_len is 100"),
        ({"window": "0"}, "window must be a whole number from 1"),
        ({"head_dim": ""}, "attention needs head_dim"),
        ({"kv_format": "INT3"}, "unknown format 'INT3'"),
    ],
)
def test_bad_attention_rows(read, changes, words):
    table = read(row(ATTENTION, **changes))
    assert words in reason_text(table.reasons[0])


@pytest.mark.parametrize("time", ["-1e-5", "0", "nan", "inf", "fast"])
def test_a_bad_time_is_no_reason_against_predicting(read, time):
    table = read(GEMM, row(time_s=time))
    assert table.reasons == (None, None)
    assert table.time_problems[0] is None
    assert (table.time_problems[1].code, table.time_problems[1].value("column")) == ("row-refused", "time_s")
    assert math.isnan(table.numbers["time_s"][1])


def test_a_missing_time_is_no_problem_at_all(read):
    table = read(row(time_s=""))
    assert (table.reasons, table.time_problems) == ((None,), (None,))
    assert math.isnan(table.numbers["time_s"][0])


def test_aside_numbers_never_refuse_a_row(read):
    table = read(GEMM + ",n/a,2", header=HEADER + ",power_w,weight")
    assert table.reasons == (None,)
    assert math.isnan(table.numbers["power_w"][0])
    assert table.numbers["weight"][0] == 2


def test_a_row_of_another_width_gets_a_reason(read):
    table = read(GEMM, GEMM + ",extra", "h100-sxm,gemm")
    assert table.reasons[0] is None
    assert table.reasons[1] == finding("row-refused", kind="count", cell_count=23, header_count=22)
    assert table.reasons[2] == finding("row-refused", kind="count", cell_count=2, header_count=22)


def test_blank_lines_count_for_line_numbers_only(read):
    table = read(GEMM, "", row(m="x"))
    assert len(table) == 2
    assert table.reasons[1].value("column") == "m"
    assert table.line_numbers[1] == 4


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"device,op,time_s\n", "has a header but no row"),
        (b"device,m,n,k\na,1,2,3\n", "has no column op"),
        (b"m;n;k\n1;2;3\n", "has no column device"),
        (b"device,op,m,m\na,gemm,1,2\n", "names column m twice"),
        (b"device,op\n\xff\xfe,gemm\n", "is not UTF-8"),
        (b'device,op\n"h100,gemm\n', "line "),
    ],
)
def test_a_bad_file_is_one_line(tmp_path, content, words):
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    with pytest.raises(InvalidValueError) as caught:
        read_kernel_table(path)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_absent_file_says_what_to_give(tmp_path):
    with pytest.raises(InvalidValueError, match="cannot be read: No such file"):
        read_kernel_table(tmp_path / "none.csv")


def test_a_byte_order_mark_is_not_part_of_a_name(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("\ufeff" + HEADER + "\n" + GEMM + "\n", encoding="utf-8")
    assert read_kernel_table(path).header[0] == "device"


def test_parquet_reads_as_the_csv_does(tmp_path, read):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    smaller_table = read(GEMM, ATTENTION)
    path = tmp_path / "kernels.parquet"
    pandas.read_csv(tmp_path / "kernels.csv").to_parquet(path)
    table = read_kernel_table(path)
    assert table.reasons == smaller_table.reasons
    assert table.texts["weight_format"] == smaller_table.texts["weight_format"]
    for name in ("m", "batch", "time_s", "causal"):
        assert str(table.numbers[name].tolist()) == str(smaller_table.numbers[name].tolist())
    (tmp_path / "not.parquet").write_bytes(b"PAR1 nonsense")
    with pytest.raises(InvalidValueError, match="not a readable Parquet"):
        read_kernel_table(tmp_path / "not.parquet")
