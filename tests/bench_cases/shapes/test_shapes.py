from __future__ import annotations

from pathlib import Path

import pytest

from bench_cases.shapes.products import (
    FULL_ROWS,
    MAX_CSV_SHAPES,
    SHAPE_SETS,
    STANDARD_ROWS,
    linear_layers,
    models,
    resolve_shapes,
)
from roofline_model.core.errors import InvalidValueError, UnknownNameError


def test_layers_of_llama_3_8b_by_hand():
    layers = {layer.name: (layer.out_features, layer.in_features) for layer in linear_layers(models()["llama-3-8b"])}
    assert layers == {
        "qkv_proj": (6144, 4096),  # 32·128 + 2·8·128
        "o_proj": (4096, 4096),
        "q_proj": (4096, 4096),
        "k_proj": (1024, 4096),
        "gate_up_proj": (28672, 4096),
        "gate_proj": (14336, 4096),
        "down_proj": (4096, 14336),
        "lm_head": (128256, 4096),
    }


def test_layers_where_heads_times_head_dim_is_not_the_hidden_size():
    layers = {layer.name: (layer.out_features, layer.in_features) for layer in linear_layers(models()["qwen3-32b"])}
    assert layers["o_proj"] == (5120, 8192)  # 64 heads of 128 into 5120
    assert layers["qkv_proj"] == (10240, 5120)


def test_a_plain_mlp_has_no_gate():
    names = [layer.name for layer in linear_layers(models()["phi-2"])]
    assert "up_proj" in names
    assert not any("gate" in name for name in names)


# Weights of all blocks and the head, from the published dimensions, must give the published parameter count.
@pytest.mark.parametrize(
    ("name", "blocks", "billions", "tied_embedding"),
    [("llama-3-8b", 32, 8.03, False), ("llama-3-70b", 80, 70.55, False), ("qwen3-8b", 36, 8.19, False), ("qwen3-32b", 64, 32.76, False),
     ("mistral-7b", 32, 7.25, False), ("phi-4", 40, 14.66, False), ("phi-2", 32, 2.78, False), ("tinyllama", 22, 1.10, False)],
)  # fmt: skip
def test_dimensions_give_the_published_parameter_count(name, blocks, billions, tied_embedding):
    model = models()[name]
    weights = {layer.name: layer.out_features * layer.in_features for layer in linear_layers(model)}
    block = sum(weights[layer.name] for layer in linear_layers(model) if layer.is_fused)
    total = blocks * block + 2 * weights["lm_head"]  # embedding table and head
    assert total / 1e9 == pytest.approx(billions, rel=0.005)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("name", SHAPE_SETS)
def test_sets_hold_each_size_once_with_an_origin(name, device):
    shapes = resolve_shapes(name, device)
    assert len({shape.size for shape in shapes}) == len(shapes) > 0
    assert all(shape.origin for shape in shapes)
    assert {shape.M <= 16 for shape in shapes} == {True, False}  # decode and prefill


def test_quick_is_small_standard_has_every_model_full_has_every_row_count():
    assert len(resolve_shapes("quick")) <= 8
    standard = resolve_shapes("STANDARD")
    assert {shape.M for shape in standard} == set(STANDARD_ROWS)
    origins = {shape.origin.split()[0] for shape in standard}
    assert {"llama-3-8b", "llama-3-70b", "qwen3-8b", "qwen3-32b", "phi-4", "phi-2", "tinyllama"} <= origins
    full = resolve_shapes("full")
    assert {shape.M for shape in full} == set(FULL_ROWS)
    assert {shape.size for shape in standard} <= {shape.size for shape in full}


@pytest.mark.parametrize("name", ["phi-2", "PHI-2", "phi_2", "microsoft/phi-2"])
def test_llm_takes_a_name_or_a_checkpoint(name):
    shapes = resolve_shapes(f"llm:{name}")
    assert {shape.origin.split()[0] for shape in shapes} == {"phi-2"}
    assert (1, 51200, 2560) in {shape.size for shape in shapes}


def test_a_list_keeps_its_order_and_drops_repeats():
    assert [shape.size for shape in resolve_shapes("512x64x32, 1x2x3,512x64x32")] == [(512, 64, 32), (1, 2, 3)]


@pytest.mark.parametrize(
    ("text", "message"),
    [("0x16x16", "M must be"), ("1x-4x16", "not MxNxK"), ("1x4096", "not MxNxK"), ("-1x4x4", "not MxNxK"),
     ("1x4096x99999999999999", "K must be"), ("1x2x3;4x5x6", "not MxNxK")],
)  # fmt: skip
def test_bad_lists_name_what_is_wrong(text, message):
    with pytest.raises(InvalidValueError, match=message):
        resolve_shapes(text)


@pytest.mark.parametrize(
    ("text", "nearest"),
    [("quik", "quick"), ("standart", "standard"), ("lm:phi-2", "llm:phi-2"), ("llm:phi-3", "phi-2")],
)
def test_unknown_names_give_the_nearest(text, nearest):
    with pytest.raises(UnknownNameError, match=f"Did you mean.*{nearest}"):
        resolve_shapes(text)


def write(tmp_path: Path, text: str) -> str:
    path = tmp_path / "my.csv"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_csv_columns_in_any_case_and_order_with_a_byte_order_mark(tmp_path):
    shapes = resolve_shapes(write(tmp_path, "\ufeffK, N ,m,layer\n4096,1024,1,head\n\n 64,32,16,\n"))
    assert [(shape.size, shape.origin) for shape in shapes] == [
        ((1, 1024, 4096), "head"),
        ((16, 32, 64), "my.csv line 4"),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("m,n\n1,2\n", "line 1: column k is missing; found m, n"),
        ("", "is empty"),
        ("m,n,k\n", "no shape"),
        ("m,n,k\n1,2,3\n1,2\n", "line 3: K must be a whole number, got ''"),
        ("m,n,k\n1,two,3\n", "line 2: N must be a whole number, got 'two'"),
        ("m,n,k\n0,2,3\n", "line 2: M must be"),
        ("m,n,k\n1,2,-3\n", "line 2: K must be"),
        ("m,n,k\n1,2," + "9" * 5000 + "\n", "line 2: K must be"),
        ("m,n,k\n1,2.5,3\n", "line 2: N must be"),
    ],
)
def test_csv_errors_name_file_line_and_field(tmp_path, text, message):
    with pytest.raises(InvalidValueError, match=message) as caught:
        resolve_shapes(write(tmp_path, text))
    assert "my.csv" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_csv_that_cannot_be_read(tmp_path):
    with pytest.raises(InvalidValueError, match="cannot be read"):
        resolve_shapes(str(tmp_path / "none.csv"))
    folder = tmp_path / "folder.csv"
    folder.mkdir()
    with pytest.raises(InvalidValueError, match="is a folder"):
        resolve_shapes(str(folder))
    binary = tmp_path / "binary.csv"
    binary.write_bytes(b"\xff\xfe\x00m")
    with pytest.raises(InvalidValueError, match="is not UTF-8 text"):
        resolve_shapes(str(binary))


def test_layers_of_a_mixture_are_one_experts_and_of_latent_attention_its_own():
    mixture = {layer.name: (layer.out_features, layer.in_features) for layer in linear_layers(models()["mixtral-8x7b"])}
    assert mixture["expert_gate_up_proj"] == (28672, 4096)
    assert mixture["expert_down_proj"] == (4096, 14336)
    assert mixture["router"] == (8, 4096)
    assert "down_proj" not in mixture
    latent = {layer.name: (layer.out_features, layer.in_features) for layer in linear_layers(models()["deepseek-v3"])}
    assert latent["kv_a_proj"] == (576, 7168)
    assert latent["shared_gate_up_proj"] == (4096, 7168)
    assert latent["gate_up_proj"] == (36864, 7168)


@pytest.mark.parametrize("name", sorted(models()))
def test_every_shipped_model_is_a_shape_set(name):
    assert {shape.M for shape in resolve_shapes(f"llm:{name}")} == set(STANDARD_ROWS)


def test_a_csv_file_of_more_shapes_than_a_night_can_measure_is_refused(tmp_path):
    path = tmp_path / "my.csv"
    lines = "\n".join(f"1,{n},8" for n in range(1, MAX_CSV_SHAPES + 1))
    path.write_text(f"m,n,k\n{lines}\n")
    assert len(resolve_shapes(str(path))) == MAX_CSV_SHAPES
    path.write_text(f"m,n,k\n{lines}\n2,2,2\n")
    with pytest.raises(InvalidValueError, match=r"20002.*20,000"):
        resolve_shapes(str(path))


def test_a_csv_path_of_nobody_and_one_that_is_too_long_are_one_short_line():
    with pytest.raises(InvalidValueError, match=r"'~nobodyx/s\.csv'"):
        resolve_shapes("~nobodyx/s.csv")
    with pytest.raises(InvalidValueError) as caught:
        resolve_shapes("s" * 100_000 + ".csv")
    assert len(str(caught.value)) < 500
