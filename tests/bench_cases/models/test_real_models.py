"""Models to quantise: built from a seed, from a folder, or refused in one line."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path

import pytest
import torch

pytest.importorskip("transformers")

import transformers

from bench_cases.models.sources import SEEDED_LLAMAS, load_model, seeded_llama
from roofline_model.core.errors import RooflineError, UnsupportedError


def test_a_seed_is_a_model():
    state = torch.random.get_rng_state()
    first, second = seeded_llama("seeded-llama-1m", seed=4), seeded_llama("seeded-llama-1m", seed=4)
    other = seeded_llama("seeded-llama-1m", seed=5)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    assert not torch.equal(first.lm_head.weight, other.lm_head.weight)
    assert not first.training
    assert first.lm_head.weight.dtype is torch.bfloat16


def test_the_default_models_layers_suit_every_kernel():
    for spec in SEEDED_LLAMAS.values():
        assert spec.hidden_size % 128 == spec.intermediate_size % 128 == 0
        assert spec.hidden_size // spec.heads_count % 16 == 0


def test_loading_by_name_and_from_a_folder(tmp_path):
    loaded = load_model("seeded-llama-1m-tied")
    assert (loaded.source, loaded.tokenizer, loaded.is_seeded) == ("seeded", None, True)
    loaded.model.save_pretrained(tmp_path / "saved")
    again = load_model(str(tmp_path / "saved"))
    assert (again.source, again.is_seeded) == ("folder", False)
    assert again.parameters_count == loaded.parameters_count
    ids = torch.arange(9).reshape(1, 9)
    assert torch.equal(again.model(ids).logits, loaded.model(ids).logits)


def test_a_folder_of_a_quantised_model(tmp_path):
    pytest.importorskip("torchao")
    from bench_cases.quantization import apply_quantization, save_quantized

    model = seeded_llama("seeded-llama-1m")
    folder = save_quantized(model, tmp_path / "m", apply_quantization(model, "INT4"))
    loaded = load_model(str(folder))
    assert type(loaded.model.lm_head.weight).__name__ == "Int4OpaqueTensor"
    ids = torch.arange(9).reshape(1, 9)
    assert torch.equal(loaded.model(ids).logits, model(ids).logits)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nobody/no-such-model-here", "cannot load model 'nobody/no-such-model-here' as a hub id"),
        ("/no/such/folder", "no such folder: /no/such/folder"),
        ("seeded-llama-1mm", "Did you mean seeded-llama-1m"),
    ],
)
def test_models_that_cannot_be_loaded_offline(name, message):
    with pytest.raises(UnsupportedError, match=message) as caught:
        load_model(name, is_offline=True)
    assert "\n" not in str(caught.value)
    assert "seeded-llama-156m" in str(caught.value)


def test_a_hub_that_does_not_answer_is_not_waited_for(monkeypatch):
    """Its client would try for half a minute; the local cache is all that is left to look at."""
    connections = []

    def refuse(address, timeout):
        connections.append((address, timeout))
        raise OSError("no route")

    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_ENDPOINT", "https://mirror.example")
    monkeypatch.setattr("socket.create_connection", refuse)
    with pytest.raises(UnsupportedError, match="neither in the local cache nor reachable"):
        load_model("nobody/no-such-model-here")
    assert connections == [(("mirror.example", 443), 3.0)]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    seeded_llama("seeded-llama-1m").save_pretrained(folder)
    return folder


@pytest.fixture
def damaged(saved, tmp_path):
    """A copy of a saved model whose config.json and weights the test changes."""

    def copy(config=(), weights=None):
        shutil.copytree(saved, tmp_path, dirs_exist_ok=True)
        document = json.loads((tmp_path / "config.json").read_text())
        (tmp_path / "config.json").write_text(json.dumps(document | dict(config)))
        if weights is not None:
            (tmp_path / "model.safetensors").write_bytes(weights((tmp_path / "model.safetensors").read_bytes()))
        return str(tmp_path)

    return copy


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"num_hidden_layers": 5}, r"27 weights are missing, such as model\.layers\.2\.input_layernorm\.weight"),
        (
            {"intermediate_size": 256},
            r"6 weights are of another shape, such as model\.layers\.0\.mlp\.down_proj\.weight",
        ),
        ({"architectures": ["BertModel"], "model_type": "bert"}, "weights are missing"),
    ],
)
def test_no_weight_is_ever_drawn_at_random(damaged, config, message):
    with pytest.raises(UnsupportedError, match=message) as caught:
        load_model(damaged(config))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("config", "weights"),
    [
        ({}, lambda held: held[:-1000]),
        ({}, lambda held: b""),
        ({"num_attention_heads": 0}, None),
        ({"vocab_size": "x"}, None),
        ({"hidden_act": "zzz"}, None),
    ],
)
def test_damaged_folders_are_one_line(damaged, config, weights):
    folder = damaged(config, weights)
    with pytest.raises(UnsupportedError, match=r"cannot load model .* as a folder") as caught:
        load_model(folder)
    assert "\n" not in str(caught.value)


def test_a_damaged_quantised_folder_is_one_line(damaged):
    folder = Path(damaged())
    (folder / "quantization.json").write_text("{}")
    (folder / "weights.pt").write_bytes(b"junk")
    with pytest.raises(RooflineError) as caught:
        load_model(str(folder))
    assert "\n" not in str(caught.value)


def test_a_reader_that_stumbles_is_one_line(damaged, monkeypatch):
    def stumble(*args, **options):
        raise struct.error("unpack requires a buffer of 4 bytes")

    folder = Path(damaged())
    (folder / "quantization.json").write_text("{}")
    monkeypatch.setattr("bench_cases.models.sources.load_quantized", stumble)
    with pytest.raises(UnsupportedError, match="unpack requires"):
        load_model(str(folder))


def test_an_encoder_without_a_pooler_is_whole(tmp_path):
    config = transformers.BertConfig(
        hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64, vocab_size=64
    )
    torch.manual_seed(0)
    bare = transformers.BertModel(config, add_pooling_layer=False).eval()
    bare.save_pretrained(tmp_path)
    loaded = load_model(str(tmp_path), dtype=torch.float32)
    ids = torch.arange(9).reshape(1, 9)
    assert loaded.model.pooler is None
    assert torch.equal(loaded.model(ids).last_hidden_state, bare(ids).last_hidden_state)


def test_folders_that_hold_no_model(tmp_path):
    with pytest.raises(UnsupportedError, match=r"has no config\.json"):
        load_model(str(tmp_path))
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(UnsupportedError, match="as a folder") as caught:
        load_model(str(tmp_path))
    assert "\n" not in str(caught.value)
