"""Rows of whole models and of copies in a kernel table: sums of kernels, scaled to the stored weights."""

from __future__ import annotations

import pytest

from roofline_model import get_hardware
from roofline_model.core.finding import reason_text
from roofline_model.expected.fitting.table import read_kernel_table
from roofline_model.models.llm import predict_model
from roofline_model.models.step_expected import expected_step
from roofline_model.models.tensor_parallel import ALL_REDUCE_LATENCY_S
from roofline_model.validation.model_rows import read_model_row
from roofline_model.validation.table_prediction import predict_table

HEADER = (
    "device,op,phase,model,context,n_tokens,batch,n_devices,weight_bytes,weight_format,activation_format,bytes,time_s"
)


def read(tmp_path, *rows):
    path = tmp_path / "t.csv"
    path.write_text("\n".join([HEADER, *rows]) + "\n", encoding="utf-8")
    return read_kernel_table(path)


def test_published_decode_rates_of_gb10_lie_in_the_interval(tmp_path):
    """llama.cpp benches/dgx-spark.md: Qwen2.5-7B Q8_0 29.3 tok/s; DandinPower/llama.cpp_bench: Qwen3-32B Q4_K_M, 18.40
    GiB, 10.72 tok/s.
    """
    prediction = predict_table(
        read(
            tmp_path,
            f"gb10,model,decode,qwen2.5-7b,512,1,1,1,8098525888,,,,{1 / 29.3}",
            f"gb10,model,decode,qwen3-32b,512,1,1,1,{18.40 * 2**30:.0f},,,,{1 / 10.72}",
        )
    )
    assert prediction.reasons == [None, None]
    for i in range(2):
        assert prediction.ideal_s[i] <= prediction.low_s[i] < prediction.measured_s[i] < prediction.high_s[i]
        assert prediction.expected_s[i] == pytest.approx(prediction.measured_s[i], rel=0.15)
        assert prediction.provenance[i].endswith("(sum of kernels)")


def test_the_ideal_is_the_models_own(tmp_path):
    prediction = predict_table(read(tmp_path, "h100-sxm,model,decode,llama-3.1-8b,4096,1,8,1,,BF16,BF16,,0.01"))
    assert prediction.ideal_s[0] == pytest.approx(
        predict_model("h100-sxm", "llama-3.1-8b", batch=8, context=4096, formats="BF16").time_s
    )
    assert prediction.ideal_s[0] < prediction.expected_s[0] < 2 * prediction.ideal_s[0]


@pytest.mark.parametrize(
    ("model", "phase", "batch", "formats"),
    [
        ("llama-3.1-8b", "decode", 1, "BF16"),
        ("mixtral-8x7b", "decode", 4, "FP8_E4M3"),
        ("llama-3.1-8b", "prefill", 2, "BF16"),
    ],
)
def test_a_row_has_the_time_that_predict_model_says(tmp_path, model, phase, batch, formats):
    predictions = predict_table(
        read(tmp_path, f"h100-sxm,model,{phase},{model},2048,,{batch},1,,{formats},{formats},,0.01")
    )
    prediction = predict_model("h100-sxm", model, phase, batch=batch, context=2048, formats=formats)
    assert predictions.expected_s[0] == expected_step(prediction, "h100-sxm").time_s
    assert predictions.ideal_s[0] == prediction.time_s


def test_steps_multiply_and_tokens_of_a_batch_are_one_step(tmp_path):
    table = read(
        tmp_path,
        "h100-sxm,model,decode,llama-3.1-8b,4096,1,1,1,,BF16,BF16,,0.01",
        "h100-sxm,model,decode,llama-3.1-8b,4032,128,1,1,,BF16,BF16,,1",
        "h100-sxm,model,decode,llama-3.1-8b,4096,16,16,1,,BF16,BF16,,0.01",
        "h100-sxm,model,prefill,llama-3.1-8b,0,512,1,1,,BF16,BF16,,0.01",
    )
    single, many, batch, prompt = (read_model_row(table, i) for i in range(4))
    assert (single.steps_count, many.steps_count, batch.steps_count) == (1, 128, 1)
    assert many.context_count == 4032 + 64
    assert (prompt.new_count, prompt.context_count, prompt.steps_count) == (512, 512, 1)
    expected_s = predict_table(table).expected_s
    assert expected_s[1] == pytest.approx(128 * expected_s[0], rel=1e-6)
    assert expected_s[0] < expected_s[2] < 2 * expected_s[0]


def test_the_stored_size_chooses_the_format_and_is_what_is_read(tmp_path):
    table = read(
        tmp_path,
        *(f"gb10,model,decode,llama-3.1-8b,512,1,1,1,{size},,,,0.03" for size in (16.1e9, 8.5e9, 4.9e9)),
    )
    assert [read_model_row(table, i).formats for i in range(3)] == ["BF16", "INT8.BF16", "INT4.BF16"]
    prediction = predict_table(table)
    bandwidth = get_hardware("gb10").bandwidth.value
    for i, size in enumerate((16.1e9, 8.5e9, 4.9e9)):
        assert 0.85 < prediction.ideal_s[i] * bandwidth / size < 1.05  # all but the embedding table, and the cache
        assert prediction.expected_s[i] > size * 0.9 / (0.85 * bandwidth)


def test_what_no_model_can_be_is_a_reason(tmp_path):
    prediction = predict_table(
        read(
            tmp_path,
            "gb10,model,decode,no-such-model,512,1,1,1,,BF16,BF16,,0.03",
            "h100-sxm,model,decode,llama-3.1-8b,512,1,1,7,,BF16,BF16,,0.03",
            "b10,model,decode,llama-3.1-8b,512,1,1,1,,BF16,BF16,,0.03",
        )
    )
    assert "unknown model 'no-such-model'" in reason_text(prediction.reasons[0])
    assert "cannot be divided among 7 devices" in reason_text(prediction.reasons[1])
    assert prediction.reasons[2].subject == "qkv_proj"
    assert prediction.ideal_s[2] > 0  # the roofline stands
    assert not (prediction.expected_s > 0).any()


def test_devices_that_share_a_pass_wait_for_each_other(tmp_path, monkeypatch):
    """Two all-reduces in each of 32 layers: as `predict model` counts them, latency included."""
    row = "h100-sxm,model,decode,llama-3.1-8b,2048,,1,2,,BF16,BF16,,0.01"
    prediction = predict_table(read(tmp_path, row))
    monkeypatch.setattr(
        "roofline_model.models.llm.ModelPrediction.expected_all_reduce_s",
        property(lambda pass_prediction: pass_prediction.all_reduce_s),
    )
    without = predict_table(read(tmp_path, row))
    assert prediction.expected_s[0] - without.expected_s[0] == pytest.approx(64 * ALL_REDUCE_LATENCY_S)
    assert prediction.ideal_s[0] == without.ideal_s[0]
