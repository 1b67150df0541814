from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline_model.core.errors import DefinitionError, InvalidValueError, UnknownNameError
from roofline_model.models.strategies.config import MixedPrecisionConfig
from roofline_model.models.strategies.layer_precisions import LayerPrecisions
from roofline_model.models.strategies.operator_type import PROJECTIONS
from roofline_model.models.strategies.strategies import STRATEGIES, get_strategy
from roofline_model.models.strategies.strategy_file import (
    find_strategy,
    read_strategy,
    read_strategy_text,
    strategy_text,
    write_strategy,
)

GOOD = """schema = 1
name = "mine"
layer_count = 4

[operator_precisions]
q_proj = "FP8_E4M3"
ffn_gate = "NVFP4.FP8_E4M3"

[[layers]]
first = 0
last = 1
operator_precisions = { ffn_gate = "FP8_E4M3" }
"""


@pytest.mark.parametrize("kind", ["toml", "json"])
@pytest.mark.parametrize("name", list(STRATEGIES))
def test_every_strategy_survives_its_file(name: str, kind: str, tmp_path: Path) -> None:
    config = get_strategy(name)
    path = write_strategy(config, tmp_path / f"{name}.{kind}")
    read = read_strategy(path)
    assert read == config
    assert read.claims is None  # a file is not the document that claims
    assert find_strategy(str(path)) == config
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


precisions = st.sampled_from(["FP8_E4M3", "NVFP4", "INT4.BF16", "FP16", "NVFP4.FP8_E4M3"])
names = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=30)


@given(
    names,
    st.text(max_size=40),
    st.dictionaries(st.sampled_from([projection.value for projection in PROJECTIONS]), precisions, max_size=7),
    st.lists(precisions, max_size=4),
    st.sampled_from(["toml", "json"]),
)
def test_any_strategy_survives_its_text(name: str, description: str, weights: dict, ranges: list, kind: str) -> None:
    layers = tuple(LayerPrecisions(i, i, {"o_proj": precision}) for i, precision in enumerate(ranges))
    config = MixedPrecisionConfig(name, description, weights, layers=layers, layer_count=8 if layers else None)
    assert read_strategy_text(strategy_text(config, kind), kind) == config


def test_a_file_written_by_hand() -> None:
    config = read_strategy_text(GOOD)
    assert config.formats("ffn_gate", 1).label == "FP8_E4M3.FP16"
    assert config.formats("ffn_gate", 2).label == "NVFP4.FP8_E4M3"
    assert config.kv_cache_precision == "FP16"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("schema = 1", "schema = 2", "schema must be 1, got 2"),
        ("schema = 1", "schema = true", "schema is True, not a whole number"),
        ('name = "mine"', "", "name is missing"),
        ('name = "mine"', "name = 3", "name is 3, not text"),
        ('name = "mine"', 'name = "mine"\nkv = "FP8"', "has an unknown field 'kv'. Known: "),
        ("layer_count = 4", 'layer_count = "4"', "layer_count is '4', not a whole number"),
        ("layer_count = 4", "", "layer ranges need layer_count"),
        ("layer_count = 4", "layer_count = 1", "layers 0-1 are beyond layer_count 1"),
        ("q_proj =", "qproj =", "unknown operator 'qproj'. Did you mean q_proj"),
        ('q_proj = "FP8_E4M3"', "q_proj = 8", "operator_precisions.q_proj is 8, not text"),
        ('q_proj = "FP8_E4M3"', 'q_proj = "FP9"', "unknown format 'FP9'"),
        ('q_proj = "FP8_E4M3"', 'q_proj = "FP8"\nq_proj = "FP8"', "not valid TOML"),
        ("[operator_precisions]", "[precisions]", "unknown field 'precisions'"),
        ("first = 0", "", "layers[0].first is missing"),
        ("first = 0", "first = 2", "layers 2 to 1: the first must not be behind the last"),
        ("first = 0", "first = 0\nstep = 2", "layers[0] has an unknown field 'step'"),
        ("last = 1", "last = 1.5", "layers[0].last is 1.5, not a whole number"),
        ("{ ffn_gate", "{ rmsnorm", "norms and softmax need a plain float"),
        ('operator_precisions = { ffn_gate = "FP8_E4M3" }', "operator_precisions = 3", "layers[0].operator_precisions is 3, not a table"),
        ("[[layers]]", "[layers]", ", not a list of tables"),
    ],
)  # fmt: skip
def test_a_bad_file_is_refused_with_field_and_reason(old: str, new: str, words: str, tmp_path: Path) -> None:
    assert old in GOOD
    path = tmp_path / "mine.toml"
    path.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(DefinitionError) as caught:
        read_strategy(path)
    assert words in str(caught.value)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[1, 2]", "schema must be 1, got [1, 2]"),
        ('{"schema": 1, "schema": 1}', "'schema' is given twice"),
        ('{"schema": NaN}', "NaN is not a number of a strategy"),
        ("{", "not valid JSON"),
        ("[" * 100_000, "nested too deeply"),
        (
            '{"schema": 1, "name": "x", "operator_precisions": {}, "layers": {}}',
            ", not a list of tables",
        ),
    ],
)
def test_bad_json_is_refused(text: str, words: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        read_strategy_text(text, "json", "mine.json")
    assert words in str(caught.value)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="does not exist"):
        find_strategy("absent.toml")
    with pytest.raises(InvalidValueError, match=r"ends in \.toml or \.json"):
        read_strategy(tmp_path / "strategy.yaml")
    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(DefinitionError, match="is a folder"):
        read_strategy(tmp_path / "folder.toml")
    with pytest.raises(UnknownNameError, match=r"unknown strategy"):
        find_strategy("absent")
    with pytest.raises(DefinitionError, match="cannot be written"):
        write_strategy(get_strategy("fp8_balanced"), tmp_path / "absent" / "x.toml")


def test_a_failed_write_leaves_the_older_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_strategy(get_strategy("fp8_balanced"), tmp_path / "x.toml")
    before = path.read_text()

    def full(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(DefinitionError, match="No space left on device"):
        write_strategy(get_strategy("w4a16_aggressive"), path)
    assert path.read_text() == before
    assert [path.name for path in tmp_path.iterdir()] == ["x.toml"]


def test_find_strategy_passes_a_config_through_and_sets_the_depth() -> None:
    config = get_strategy("fp8_balanced")
    assert find_strategy(config) is config
    assert find_strategy("layerwise_gradient", num_layers=40).layer_count == 40
