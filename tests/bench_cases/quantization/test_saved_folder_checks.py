"""A folder is written wholly or not at all; a damaged or foreign one is refused in one line, the caller's model
untouched.
"""

from __future__ import annotations

import errno
import json
import shutil

import pytest
import torch
from torch import nn

pytest.importorskip("torchao")
pytest.importorskip("transformers")

from bench_cases.models.sources import seeded_llama
from bench_cases.quantization import apply_quantization, load_quantized, save_quantized
from bench_cases.quantization.saved.save_load import REPORT_FILE
from bench_cases.quantization.saved.weights import CHECKSUM_KEY, WEIGHTS_FILE
from roofline_model.core.errors import DefinitionError, InvalidValueError, RooflineError, UnsupportedError

NORM = "model.norm.weight"
INT4_LAYER = "model.layers.0.mlp.up_proj.weight"


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """An untied INT4 Llama: the model, its result and its folder, which tests copy."""
    model = seeded_llama("seeded-llama-1m")
    result = apply_quantization(model, "INT4")
    return model, result, save_quantized(model, tmp_path_factory.mktemp("saved") / "m", result)


@pytest.fixture
def folder(saved, tmp_path):
    return shutil.copytree(saved[2], tmp_path / "copy")


def change_report(folder, **entries):
    path = folder / REPORT_FILE
    described = json.loads(path.read_text()) | entries
    path.write_text(json.dumps({name: value for name, value in described.items() if value is not ...}))


def change_weights(folder, change):
    """Write other tensors, as a folder without a checksum would hold them."""
    held = torch.load(folder / WEIGHTS_FILE, weights_only=True)
    change(held["state"])
    torch.save(held, folder / WEIGHTS_FILE)
    change_report(folder, **{CHECKSUM_KEY: ...})


def assert_refused(folder, kind, message, **options):
    """Loading fails in one line, and a model given to be filled keeps every tensor."""
    for model in (None, seeded_llama("seeded-llama-1m")):
        before = {} if model is None else dict(model.named_parameters()) | dict(model.named_buffers())
        with pytest.raises(kind, match=message) as caught:
            load_quantized(folder, model=model, **options)
        assert "\n" not in str(caught.value)
        if model is not None:
            now = dict(model.named_parameters()) | dict(model.named_buffers())
            assert list(now) == list(before)
            assert all(now[name] is value for name, value in before.items())


def test_an_untied_save_into_a_tied_model_keeps_its_own_head(saved, tied_llama, token_ids):
    loaded = load_quantized(saved[2], model=tied_llama)
    assert torch.equal(loaded(token_ids).logits, saved[0](token_ids).logits)
    assert type(loaded.lm_head.weight).__name__ == "Int4OpaqueTensor"
    loaded.tie_weights()
    assert torch.equal(loaded(token_ids).logits, saved[0](token_ids).logits)


def test_shared_layers_of_a_plain_module_are_shared_again(tmp_path):
    def build():
        layer = nn.Linear(64, 64)
        return nn.Sequential(layer, nn.ReLU(), nn.Linear(64, 64))

    model = build()
    model[2].weight = model[0].weight
    folder = save_quantized(model, tmp_path / "m", apply_quantization(model, "INT8"))
    loaded = load_quantized(folder, model=build())
    assert loaded[0].weight is loaded[2].weight


def test_flipped_bytes_are_found(folder):
    content = bytearray((folder / WEIGHTS_FILE).read_bytes())
    for index in range(len(content) // 4, len(content) // 4 + 64):
        content[index] ^= 0xFF
    (folder / WEIGHTS_FILE).write_bytes(content)
    assert_refused(folder, DefinitionError, "its checksum is not the one that was noted")


def test_a_folder_without_a_checksum_still_loads(saved, folder, token_ids):
    change_report(folder, **{CHECKSUM_KEY: ...})
    assert torch.equal(load_quantized(folder)(token_ids).logits, saved[0](token_ids).logits)


@pytest.mark.parametrize(
    ("name", "value", "kind", "message"),
    [
        (NORM, torch.full((128,), float("nan")).bfloat16(), DefinitionError, "norm.weight holds NaN or infinity"),
        (NORM, torch.zeros(128, dtype=torch.complex64), InvalidValueError, "norm.weight is complex64, the model has"),
        (NORM, torch.zeros(128, dtype=torch.int64), InvalidValueError, "norm.weight is int64, the model has"),
        (NORM, torch.zeros(128, device="meta"), DefinitionError, "has a shape but no values"),
        (INT4_LAYER, torch.zeros(256, 128).bfloat16(), DefinitionError, r"up_proj should be INT4, Int4OpaqueTensor"),
    ],
)
def test_tensors_that_are_not_what_was_saved(folder, name, value, kind, message):
    def change(state):
        assert state[name].shape[-1] == value.shape[-1]
        state[name] = value

    change_weights(folder, change)
    assert_refused(folder, kind, message)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"packed_for": ...}, "packed_for 'None'"),
        ({"packed_for": "martian"}, "packed_for 'martian'"),
        ({"packed_for": "any"}, "holds weights packed for cpu, its report says any"),
        ({"result": None}, "lists no layers"),
        ({"result": {"layers": [3]}}, "an entry that is not a layer"),
        ({"folder_version": True}, "folder_version True"),
    ],
)
def test_reports_that_say_nothing_known(folder, entries, message):
    change_report(folder, **entries)
    assert_refused(folder, DefinitionError, message)


def test_weights_that_stumble_torchs_readers(folder):
    (folder / WEIGHTS_FILE).write_bytes(b"junk")
    change_report(folder, **{CHECKSUM_KEY: ...})
    assert_refused(folder, DefinitionError, "is damaged or holds more than tensors")
    (folder / REPORT_FILE).write_text("[" * 200_000)
    assert_refused(folder, DefinitionError, "is damaged")


def test_configurations_that_transformers_stumbles_over(folder):
    original = json.loads((folder / "config.json").read_text())
    for entries in (
        {"num_attention_heads": 0},
        {"vocab_size": "x"},
        {"intermediate_size": 10**12},
        {"hidden_act": "zzz"},
        {"rope_parameters": {"rope_type": "zz"}},
    ):
        (folder / "config.json").write_text(json.dumps(original | entries))
        with pytest.raises(DefinitionError, match=r"config\.json.*LlamaForCausalLM") as caught:
            load_quantized(folder)
        assert "\n" not in str(caught.value)
    for text in ("null", "[" * 200_000):
        (folder / "config.json").write_text(text)
        with pytest.raises(DefinitionError, match=r"config\.json cannot be used"):
            load_quantized(folder)
    (folder / "config.json").write_text(json.dumps(original))
    change_report(folder, model_class="BertModel")
    with pytest.raises(DefinitionError, match="BertModel: AttributeError"):
        load_quantized(folder)


def test_devices_that_are_not_here(folder, monkeypatch):
    for device in ("zz", "meta", "cuda:99"):
        assert_refused(folder, UnsupportedError, f"device '{device}' cannot be used here", device=device)


def test_models_and_folders_of_the_wrong_kind(folder):
    with pytest.raises(InvalidValueError, match="got str"):
        load_quantized(folder, model="x")
    with pytest.raises(InvalidValueError, match="NoneType"):
        load_quantized(None)


class FullDisk:
    def save_pretrained(self, folder):
        (folder / "tokenizer.json").write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("is_there", [False, True])
def test_a_save_that_fails_leaves_nothing(saved, tmp_path, monkeypatch, is_there):
    model, result, _ = saved
    target = tmp_path / "one" / "two"
    if is_there:
        target.mkdir(parents=True)
    with pytest.raises(InvalidValueError, match="cannot be written: No space left on device; nothing was left"):
        save_quantized(model, target, result, tokenizer=FullDisk())
    assert (list(target.iterdir()) == []) if is_there else (list(tmp_path.iterdir()) == [])

    def full(held, path, **options):
        path.write_bytes(b"half a file")
        raise RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 64 vs 0\nframe #0: …")

    with monkeypatch.context() as patched:
        patched.setattr(torch, "save", full)
        with pytest.raises(InvalidValueError, match="inline_container") as caught:
            save_quantized(model, target, result)
    assert "\n" not in str(caught.value)
    assert save_quantized(model, target, result) == target
    names = sorted(path.name for path in target.iterdir())
    assert names[-2:] == [REPORT_FILE, WEIGHTS_FILE]
    assert "config.json" in names
    assert not [name for name in names if name.startswith(".")]


def test_an_interrupted_save_leaves_nothing(saved, tmp_path, monkeypatch):
    def interrupted(held, path, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(torch, "save", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save_quantized(saved[0], tmp_path / "m", saved[1])
    assert list(tmp_path.iterdir()) == []


def test_places_that_cannot_be_written(saved, tmp_path):
    (tmp_path / "file").write_text("x")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere" / "x")
    (tmp_path / "loop").symlink_to("loop")
    before = sorted(tmp_path.iterdir())
    for place in (
        tmp_path / "dangling",
        tmp_path / "loop",
        tmp_path / "file" / "x",
        tmp_path / ("n" * 256),
        "a\0b",
        None,
    ):
        with pytest.raises(InvalidValueError) as caught:
            save_quantized(saved[0], place, saved[1])
        assert "\n" not in str(caught.value)
    assert sorted(tmp_path.iterdir()) == before


def test_a_result_or_model_that_cannot_be_saved(saved, tmp_path):
    with pytest.raises(InvalidValueError, match=r"apply_quantization.*'False'"):
        save_quantized(saved[0], tmp_path / "m", False)
    model = nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64))
    result = apply_quantization(model, "INT8")
    nn.init.constant_(model[1].weight, float("nan"))
    with pytest.raises(RooflineError, match=r"1\.weight holds NaN or infinity"):
        save_quantized(model, tmp_path / "m", result)
    assert list(tmp_path.iterdir()) == []
