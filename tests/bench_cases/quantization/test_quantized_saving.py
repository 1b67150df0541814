"""A saved model computes what it computed; a folder that does not fit is refused before anything changes."""

from __future__ import annotations

import io
import json
import os
import pickle
import subprocess
import sys
from enum import Enum

import pytest
import torch
from torch import nn

from bench_cases.quantization.saved.weights import _PlainEnums

pytest.importorskip("torchao")

from bench_cases.quantization import apply_plan, apply_quantization, load_quantized, save_quantized, serving_engines
from bench_cases.quantization.saved.save_load import REPORT_FILE, WEIGHTS_FILE, read_report
from roofline_model.core.errors import DefinitionError, InvalidValueError, UnsupportedError
from roofline_model.core.finding import catalog


@pytest.mark.parametrize(
    "precision", ["INT4", "INT8", "INT8.INT8", "INT4.INT8", "FP8.BF16", "NVFP4.BF16", "MXFP8", "MXFP4"]
)
def test_equal_logits_after_reload(small_llama, token_ids, tmp_path, precision):
    result = apply_quantization(small_llama, precision)
    expected = small_llama(token_ids).logits
    folder = save_quantized(small_llama, tmp_path / "model", result)
    loaded = load_quantized(folder)
    assert torch.equal(loaded(token_ids).logits, expected)
    assert not loaded.training
    for name, parameter in small_llama.named_parameters():
        assert type(dict(loaded.named_parameters())[name].data) is type(parameter.data), name


def test_a_mixed_plan_with_awq_and_an_untied_head(tied_llama, token_ids, tmp_path):
    result = apply_plan(
        tied_llama,
        {"ffn": "INT4", "lm_head": "INT8", "qkv_proj": "MXFP8"},
        method="AWQ",
        calibration=[token_ids],
        untie=True,
    )
    expected = tied_llama(token_ids).logits
    loaded = load_quantized(save_quantized(tied_llama, tmp_path / "m", result))
    assert torch.equal(loaded(token_ids).logits, expected)
    assert type(loaded.lm_head.weight).__name__ == "Int8Tensor"


def test_buffers_that_a_state_dict_leaves_out_are_kept(small_llama, token_ids, tmp_path):
    small_llama.to(torch.bfloat16)  # casts the rotary frequencies, too, which a fresh model would have in FP32
    result = apply_quantization(small_llama, "INT8")
    loaded = load_quantized(save_quantized(small_llama, tmp_path / "m", result))
    assert loaded.model.rotary_emb.inv_freq.dtype is torch.bfloat16
    assert torch.equal(loaded(token_ids).logits, small_llama(token_ids).logits)


def test_tied_weights_are_tied_again(tied_llama, token_ids, tmp_path):
    result = apply_quantization(tied_llama, "INT4")
    loaded = load_quantized(save_quantized(tied_llama, tmp_path / "m", result))
    assert loaded.lm_head.weight is loaded.model.embed_tokens.weight
    assert torch.equal(loaded(token_ids).logits, tied_llama(token_ids).logits)


def test_a_plain_module_is_filled(tmp_path):
    def build():
        torch.manual_seed(1)
        return nn.Sequential(nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 32)).bfloat16()

    model = build()
    folder = save_quantized(model, tmp_path / "m", apply_quantization(model, "INT4", group_size=32))
    x = torch.randn(4, 128).bfloat16()
    with pytest.raises(InvalidValueError, match=r"Sequential.*transformers.*model="):
        load_quantized(folder)
    fresh = build()
    assert torch.equal(load_quantized(folder, model=fresh)(x), model(x))
    other = nn.Sequential(nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 48)).bfloat16()
    weight = other[0].weight
    with pytest.raises(InvalidValueError, match=r"2\.weight.*\(32, 64\).*\(48, 64\)"):
        load_quantized(folder, model=other)
    with pytest.raises(InvalidValueError, match="1 tensors missing"):
        load_quantized(folder, model=nn.Sequential(nn.Linear(128, 64), nn.LayerNorm(64, bias=False), nn.Linear(64, 32)))
    assert other[0].weight is weight


def test_the_report_says_what_is_inside(small_llama, tmp_path):
    result = apply_quantization(small_llama, "INT4")
    described = read_report(save_quantized(small_llama, tmp_path / "m", result))
    assert described["packed_for"] == f"cpu {torch.backends.cpu.get_cpu_capability()}"
    assert described["result"]["layers"][0]["became"] == "INT4"
    assert described["result"]["after_bytes"] == result.after_bytes


def test_weights_packed_for_another_processor(small_llama, tmp_path, monkeypatch):
    folder = save_quantized(small_llama, tmp_path / "m", apply_quantization(small_llama, "INT4"))
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "SVE256")
    with pytest.raises(UnsupportedError, match=r"cpu.*cpu SVE256"):
        load_quantized(folder)
    described = json.loads((folder / REPORT_FILE).read_text())
    described["packed_for"] = "cuda"
    (folder / REPORT_FILE).write_text(json.dumps(described))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UnsupportedError, match="packed for CUDA"):
        load_quantized(folder)


@pytest.mark.full
def test_packing_really_depends_on_the_processor():
    """Why loading elsewhere is refused: torch packs the same codes differently for another vector unit."""
    code = (
        "import torch, hashlib\n"
        "codes = torch.arange(128 * 256, dtype=torch.int32).reshape(128, 256) * 7 % 16\n"
        "packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(codes, 1)\n"
        "print(torch.backends.cpu.get_cpu_capability(), hashlib.sha256(packed.numpy().tobytes()).hexdigest())"
    )
    if not torch.backends.cpu.get_cpu_capability().lower().startswith("avx512"):
        pytest.skip("without AVX-512 torch packs like a processor without vectors")
    digests = {}
    for capability in ("default", torch.backends.cpu.get_cpu_capability().lower()):
        environment = {**os.environ, "ATEN_CPU_CAPABILITY": capability}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        name, digest = done.stdout.split()
        digests[name] = digest
    assert len(set(digests.values())) == len(digests)


def test_folders_that_hold_something_are_not_written_to(small_llama, tmp_path):
    result = apply_quantization(small_llama, "INT8")
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InvalidValueError, match="is not an empty folder"):
        save_quantized(small_llama, tmp_path, result)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


class Evil:
    def __reduce__(self):
        return (print, ("ran",))


def test_damaged_folders(tmp_path, capsys):
    model = nn.Sequential(nn.Linear(128, 64)).bfloat16()
    folder = save_quantized(model, tmp_path / "m", apply_quantization(model, "INT8"))
    whole = (folder / WEIGHTS_FILE).read_bytes()
    (folder / WEIGHTS_FILE).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DefinitionError, match="cannot be read or is damaged"):
        load_quantized(folder, model=model)
    described = json.loads((folder / REPORT_FILE).read_text())
    del described["weights_sha256"]  # as an old folder, or one whose checksum was written for the damaged file
    (folder / REPORT_FILE).write_text(json.dumps(described))
    with pytest.raises(DefinitionError, match="is damaged"):
        load_quantized(folder, model=model)
    torch.save({"state": {"0.weight": 3}, "buffers": {}}, folder / WEIGHTS_FILE)
    with pytest.raises(DefinitionError, match="is not a tensor"):
        load_quantized(folder, model=model)
    torch.save({"0.weight": torch.ones(1)}, folder / WEIGHTS_FILE)
    with pytest.raises(DefinitionError, match="holds no saved model"):
        load_quantized(folder, model=model)
    (folder / WEIGHTS_FILE).write_bytes(pickle.dumps({"0.weight": Evil()}, protocol=2))
    with pytest.raises(DefinitionError, match="is damaged or holds more than tensors"):
        load_quantized(folder, model=model)
    assert capsys.readouterr().out == ""
    (folder / WEIGHTS_FILE).unlink()
    with pytest.raises(DefinitionError, match="cannot be read"):
        load_quantized(folder, model=model)
    (folder / REPORT_FILE).write_text("{")
    with pytest.raises(DefinitionError, match="is damaged"):
        load_quantized(folder, model=model)
    (folder / REPORT_FILE).write_text('{"folder_version": 99}')
    with pytest.raises(DefinitionError, match="folder_version 99, this version reads 1"):
        load_quantized(folder, model=model)
    with pytest.raises(DefinitionError, match="is not a saved quantised model"):
        load_quantized(tmp_path / "nowhere")


def test_which_engines_read_it(small_llama):
    int4 = {engine.engine: engine for engine in serving_engines(apply_quantization(small_llama, "INT4"))}
    assert int4["vLLM"].answer == "no"
    assert "3499" in int4["vLLM"].source
    assert int4["transformers"].answer == "no"
    assert all(engine.source and engine.reason.code in catalog() for engine in int4.values())


def test_engines_that_read_plain_torchao_tensors(small_llama):
    int8 = {engine.engine: engine for engine in serving_engines(apply_quantization(small_llama, "INT8"))}
    assert int8["vLLM"].answer == "unverified"
    loading = [engine.engine for engine in int8.values() if engine.answer == "yes"]
    assert loading == ["roofline-bench (load_quantized)", "transformers"]


def test_members_of_enums_are_written_as_every_python_reads_them(monkeypatch):
    class Mode(Enum):
        FAST = "fast"

    # As Python 3.11.0 to 3.11.3 write them (Debian 12): torch refuses to load a call of getattr.
    monkeypatch.setattr(Enum, "__reduce_ex__", lambda self, protocol: (getattr, (type(self), self._name_)))
    monkeypatch.setitem(globals(), "Mode", Mode)
    Mode.__qualname__ = "Mode"
    stream = io.BytesIO()
    _PlainEnums(stream).dump({"mode": Mode.FAST, "other": (1, "x")})
    assert b"getattr" not in stream.getvalue()
    assert b"getattr" in pickle.dumps(Mode.FAST)
    assert pickle.loads(stream.getvalue()) == {"mode": Mode.FAST, "other": (1, "x")}
