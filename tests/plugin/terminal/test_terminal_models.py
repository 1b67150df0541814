"""Whole models in the terminal: one block per model, batch and context, at 80 and 120 columns, and nothing twice."""

from __future__ import annotations

import pytest
from model_records import model_record, model_run_records

from plugin.run.pending import expected_record
from plugin.terminal.models import model_lines
from plugin.terminal.summary import summary_lines
from results.records.records import PredictionRecord, Record
from roofline_model import gemm, get_hardware, predict
from roofline_model.expected.predict import predict_expected


@pytest.fixture(scope="module")
def records():
    return model_run_records()


def lines(records, width=120):
    return [line.text for line in summary_lines(records, width=width)]


def header(shown, title):
    """The columns of the table under a title."""
    return shown[next(at for at, line in enumerate(shown) if line.startswith(f"  {title}")) + 1]


def test_a_model_has_one_block_and_no_raw_names(records):
    shown = lines(records)
    assert shown[0] == "seeded-llama-156m, batch 1, 128 tokens"
    assert "decode:" not in "\n".join(line for line in shown if "→" not in line)
    assert header(shown, "Decode").split() == [
        "Precision",
        "Measured",
        "Gain",
        "Tokens/s",
        "±",
        "Expected",
        "Ideal",
        "Exp.",
        "gain",
        "Ideal",
        "gain",
        "J/1k",
        "tokens",
    ]
    assert "KL, nats/token" in header(shown, "Quality")
    assert sum("→ decode:" in line for line in shown) == sum("→ prefill:" in line for line in shown) == 1


@pytest.mark.parametrize("width", [60, 70, 80, 100, 120, 160, 200])
def test_no_line_is_wider_than_the_screen_and_speedups_never_leave(records, width):
    shown = lines(records, width)
    assert max(map(len, shown)) <= width
    assert {"Measured", "Gain", "Expected"} <= set(header(shown, "Decode").split())
    assert width < 80 or "Perplexity" in header(shown, "Quality")
    assert 80 <= width <= 120 or ("left out at this width" in "\n".join(shown)) == (width < 160)


def test_what_80_columns_have_no_room_for_is_named_and_gone_from_every_table(records):
    shown = lines(records, 80)
    footnote = " ".join(shown).partition(" left out at this width")[0]
    assert "Exp. gain" in footnote.split(", ")
    assert "Exp. gain" not in header(shown, "Decode")
    assert "Exp. gain" not in header(shown, "Prefill")
    assert not any("left out" in line for line in lines(records, 160))


def test_rows_are_aligned_and_marked(records):
    shown = lines(records)
    start = header(shown, "Decode").index("Tokens/s") + len("Tokens/s")
    assert shown[shown.index(header(shown, "Decode")) + 3][:start].endswith("192")
    assert sum(line.startswith("  INT8 (W8A16) ~") for line in shown) == 4  # decode, prefill, memory, quality
    assert any(line.startswith("~ emulated (INT8 (W8A16))") for line in shown)
    doubtful = lines([model_record("BF16", median_s=1e-2, flags=("contended",)), model_record("INT4", median_s=5e-3)])
    assert any(line.startswith("  BF16 !") for line in doubtful)


def test_models_stand_behind_kernels_and_count_among_the_predictions(records):
    work = gemm(8, 4096, 4096, a="BF16")
    ideal, expected = predict(work, "gb10"), predict_expected(work, get_hardware("gb10"))
    stored = (PredictionRecord.from_prediction(ideal, "h", None), expected_record(expected, ideal, "h", None))
    kernel = Record(record_id="1", run_id="r", case=work.case("matmul"), status="predicted", predictions=stored)
    shown = lines([*records, kernel])
    assert shown[0].startswith("gemv 8x4096x4096")
    assert shown.index("seeded-llama-156m, batch 1, 128 tokens") > 0
    assert any("of the expected time" in line and "(7 cases)" in line for line in shown)


def test_without_a_model_nothing_is_printed():
    assert model_lines([], 80) == []


def test_a_skipped_precision_is_no_row_and_its_reason_is_said_once():
    lost = model_record("INT8", status="skipped", reason="torchao is too old")
    shown = lines([model_record("BF16", median_s=1e-2), model_record("INT4", median_s=5e-3), lost])
    assert not any(line.startswith("  INT8") for line in shown)
    (footnote,) = [line for line in shown if "torchao is too old" in line]
    assert footnote.startswith("skipped: 1 case: torchao is too old (seeded-llama-156m decode ")


def test_a_pass_is_bound_by_what_its_ideal_time_is_bound_by(records):
    for record in records:
        assert record.expected.bound == record.ideal.bound
