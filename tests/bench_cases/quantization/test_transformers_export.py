"""What `save_pretrained` would write: loaded again by transformers itself, with equal logits."""

from __future__ import annotations

import pytest
import torch
from torch import nn

pytest.importorskip("torchao")

from bench_cases.quantization import apply_plan, apply_quantization, export_transformers
from roofline_model.core.errors import InvalidValueError, UnsupportedError


@pytest.mark.parametrize("precision", ["INT8", "INT8.INT8", "FP8.BF16", "MXFP8", "NVFP4.BF16"])
def test_transformers_loads_the_export(small_llama, token_ids, tmp_path, precision):
    from transformers import AutoModelForCausalLM

    result = apply_quantization(small_llama, precision, exclude=["lm_head"])
    expected = small_llama(token_ids).logits
    folder = export_transformers(small_llama, tmp_path / "m", result)
    assert not hasattr(small_llama.config, "quantization_config")
    assert getattr(small_llama, "hf_quantizer", None) is None
    loaded = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True)
    weight = small_llama.model.layers[1].mlp.up_proj.weight
    assert type(loaded.model.layers[1].mlp.up_proj.weight.data) is type(weight.data)
    assert torch.equal(loaded(token_ids).logits, expected)


def test_a_plan_keeps_its_layers(small_llama, token_ids, tmp_path):
    from transformers import AutoModelForCausalLM

    result = apply_plan(small_llama, {"ffn": "INT8", "o_proj": "FP8.BF16"})
    expected = small_llama(token_ids).logits
    loaded = AutoModelForCausalLM.from_pretrained(
        export_transformers(small_llama, tmp_path / "m", result), local_files_only=True
    )
    assert type(loaded.model.layers[0].self_attn.o_proj.weight.data).__name__ == "Float8Tensor"
    assert type(loaded.model.layers[0].self_attn.q_proj.weight) is nn.Parameter
    assert torch.equal(loaded(token_ids).logits, expected)


def test_packed_cpu_weights_have_no_such_form(small_llama, tmp_path):
    result = apply_quantization(small_llama, "INT4")
    with pytest.raises(UnsupportedError, match="Int4OpaqueTensor"):
        export_transformers(small_llama, tmp_path / "m", result)
    assert not (tmp_path / "m").exists()


def test_what_cannot_be_exported(small_llama, tmp_path):
    model = nn.Sequential(nn.Linear(128, 64))
    result = apply_quantization(model, "INT8")
    with pytest.raises(UnsupportedError, match=r"Sequential.*transformers"):
        export_transformers(model, tmp_path / "m", result)
    (tmp_path / "mine").write_text("notes")
    with pytest.raises(InvalidValueError, match="is not an empty folder"):
        export_transformers(small_llama, tmp_path, apply_quantization(small_llama, "INT8"))
