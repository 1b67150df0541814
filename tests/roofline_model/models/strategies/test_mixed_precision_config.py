from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline_model.core.errors import InvalidValueError, RooflineError, UnknownNameError
from roofline_model.models.strategies.config import MixedPrecisionConfig
from roofline_model.models.strategies.layer_precisions import LayerPrecisions
from roofline_model.models.strategies.operator_type import LAYERED, PROJECTIONS, OperatorType, parse_operator
from roofline_model.models.strategies.strategies import (
    STRATEGIES,
    create_fp8_balanced,
    create_layerwise_gradient,
    create_w4a16_aggressive,
    get_strategy,
    list_strategies,
)


def test_there_are_thirteen_operators_and_seven_projections() -> None:
    assert len(OperatorType) == 13
    assert len(PROJECTIONS) == 7
    assert parse_operator(" Q_Proj ") is OperatorType.Q_PROJ
    with pytest.raises(UnknownNameError, match=r"'qproj'.*q_proj"):
        parse_operator("qproj")


def test_formats_are_spelled_as_in_the_catalog_and_keys_may_be_enums() -> None:
    config = MixedPrecisionConfig("mine", "", {OperatorType.Q_PROJ: "fp8", "FFN_UP": "int4.bf16"}, "half", "nvfp4_kv")
    assert dict(config.operator_precisions) == {"q_proj": "FP8_E4M3", "ffn_up": "INT4.BF16"}
    assert (config.default_activation_precision, config.kv_cache_precision) == ("FP16", "NVFP4")
    assert config.formats("ffn_up").label == "INT4.BF16"
    assert config.formats("q_proj").label == "FP8_E4M3.FP16"


def test_what_is_not_named_is_not_quantised() -> None:
    config = MixedPrecisionConfig("mine", operator_precisions={"ffn_up": "INT8"}, default_activation_precision="INT8")
    assert config.formats("ffn_up").label == "INT8.INT8"
    assert config.formats("ffn_down").label == "FP16"
    assert config.get_precision("kv_cache") == "FP16"
    assert MixedPrecisionConfig("b", operator_precisions={"rmsnorm": "BF16"}).get_precision("o_proj") == "BF16"


def test_a_weight_wider_than_the_default_activation_is_not_quantised() -> None:
    config = MixedPrecisionConfig("mine", operator_precisions={"o_proj": "BF16"}, default_activation_precision="FP8")
    assert config.formats("o_proj").label == "BF16"


def test_layers_override_and_without_a_layer_the_format_outside_them_holds() -> None:
    config = MixedPrecisionConfig(
        "mine",
        "",
        {"ffn_up": "INT8"},
        layers=(LayerPrecisions(2, 3, {"ffn_up": "INT4", "kv_cache": "FP8"}),),
        layer_count=6,
    )
    assert [config.get_precision("ffn_up", layer) for layer in range(6)] == ["INT8"] * 2 + ["INT4"] * 2 + ["INT8"] * 2
    assert config.get_precision("ffn_up") == "INT8"
    assert [config.get_precision("kv_cache", layer) for layer in (1, 2)] == ["FP16", "FP8_E4M3"]
    spans = [(first, last, formats.weights) for first, last, formats in config.spans("ffn_up")]
    assert spans == [(0, 1, "INT8"), (2, 3, "INT4"), (4, 5, "INT8")]
    assert config.spans("q_proj") == [(None, None, config.formats("q_proj"))]
    with pytest.raises(InvalidValueError, match="mine has layers 0 to 5, got 6"):
        config.get_precision("ffn_up", 6)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"operator_precisions": {"ffn": "FP8"}}, "unknown operator 'ffn'. Did you mean ffn_"),
        ({"operator_precisions": {"ffn_up": "FP9"}}, "unknown format 'FP9'"),
        ({"operator_precisions": {"ffn_up": "INT4.BF17"}}, "unknown format 'BF17'"),
        ({"operator_precisions": {"ffn_up": 8}}, "a precision is text"),
        ({"operator_precisions": ["ffn_up"]}, "must be a table of operator = format, got a list"),
        ({"operator_precisions": {"ffn_up": "INT8", "FFN_UP": "INT4"}}, "ffn_up is given twice"),
        ({"operator_precisions": {"softmax": "FP8"}}, "norms and softmax need a plain float"),
        ({"operator_precisions": {"kv_cache": "INT8.FP16"}}, "WEIGHT.ACTIVATION is for projections"),
        ({"operator_precisions": {"ffn_up": "BF16.FP8"}}, "weights BF16 are wider than activations FP8_E4M3"),
        ({"operator_precisions": {"ffn_up": "INT8.FP8"}}, "contradict each other"),
        ({"operator_precisions": {"ffn_up": "INT8"}, "default_activation_precision": "FP8"}, "contradict each other"),
        ({"operator_precisions": {"qk_matmul": "NF4"}}, "a code table is a format of weights or caches"),
        ({"operator_precisions": {"qk_matmul": "FP8"}}, "kv_cache=FP16 is wider than qk_matmul=FP8_E4M3"),
        ({"default_activation_precision": "NF4"}, "a code table is a format of weights or caches"),
        (
            {"operator_precisions": {"kv_cache": "FP8"}, "kv_cache_precision": "INT8"},
            "the cache's format is given twice",
        ),
        ({"kv_cache_precision": "INT8.FP16"}, "kv_cache_precision is one format"),
        ({"layers": (LayerPrecisions(0, 1, {"q_proj": "FP8"}),)}, "layer ranges need layer_count"),
        (
            {"layers": (LayerPrecisions(0, 9, {"q_proj": "FP8"}),), "layer_count": 8},
            "layers 0-9 are beyond layer_count 8",
        ),
        (
            {
                "layers": (LayerPrecisions(0, 3, {"q_proj": "FP8"}), LayerPrecisions(3, 4, {"q_proj": "INT8"})),
                "layer_count": 8,
            },
            "q_proj is given twice for the same layers, in 0-3 and in 3-4",
        ),
        (
            {
                "layers": (LayerPrecisions(0, 3, {"q_proj": "INT8"}),),
                "layer_count": 8,
                "default_activation_precision": "FP8",
            },
            "contradict",
        ),
        ({"layers": ({"q_proj": "FP8"},), "layer_count": 8}, "layers holds LayerPrecisions, got a dict"),
        ({"layers": None}, "layers holds LayerPrecisions, got a NoneType"),
        (
            {"operator_precisions": dict.fromkeys(("qk_matmul", "sv_matmul"), "FP8"), "kv_cache_precision": "INT8"},
            "contradict each other",
        ),
        ({"layer_count": 0}, "layer_count must be a whole number from 1"),
        ({"layer_count": True}, "layer_count must be a whole number from 1"),
        ({"name": " "}, "a strategy's name is printable text"),
        ({"name": "a\x1b[2J"}, "a strategy's name is printable text"),
        ({"description": None}, "description must be text"),
    ],
)
def test_contradictions_are_refused_in_one_line(arguments: dict, words: str) -> None:
    with pytest.raises(RooflineError) as caught:
        MixedPrecisionConfig(**{"name": "mine", **arguments})
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((3, 2, {"q_proj": "FP8"}), "the first must not be behind the last"),
        ((-1, 2, {"q_proj": "FP8"}), "two whole numbers from 0"),
        ((0, 2.0, {"q_proj": "FP8"}), "two whole numbers from 0"),
        ((True, 2, {"q_proj": "FP8"}), "two whole numbers from 0"),
        ((0, 2, {}), "no operator is named"),
        ((0, 2, {"rmsnorm": "FP32"}), "rmsnorm has one format in the whole model"),
    ],
)
def test_layer_ranges_are_checked(arguments: tuple, words: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        LayerPrecisions(*arguments)
    assert words in str(caught.value)


def test_the_six_strategies_by_name() -> None:
    assert [config.name for config in list_strategies()] == list(STRATEGIES)
    assert len(STRATEGIES) == 6
    for name in STRATEGIES:
        config = get_strategy(name)
        assert set(config.operator_precisions) == {operator.value for operator in OperatorType} - {"kv_cache"}
        assert config.claims is not None
        assert config.description.endswith(".")
    assert get_strategy("NVFP4 Blackwell") == get_strategy("nvfp4-blackwell")
    with pytest.raises(UnknownNameError, match=r"'nvfp4'.*nvfp4_blackwell"):
        get_strategy("nvfp4")


def test_what_the_strategies_say() -> None:
    fp8 = create_fp8_balanced()
    assert fp8.formats("q_proj").label == "FP8_E4M3"
    assert (fp8.get_precision("kv_cache"), fp8.get_precision("rmsnorm")) == ("FP8_E4M3", "FP16")
    assert create_w4a16_aggressive().formats("ffn_down").label == "INT4.FP16"
    hybrid = get_strategy("hybrid_long_context")
    assert {hybrid.get_precision(operator) for operator in ("q_proj", "o_proj")} == {"FP8_E4M3"}
    assert {hybrid.get_precision(operator) for operator in ("ffn_gate", "ffn_down", "kv_cache")} == {"NVFP4"}


@given(st.integers(1, 200), st.integers(1, 6))
def test_a_gradient_covers_every_layer_in_order(layers: int, parts: int) -> None:
    formats = ["FP32", "FP16", "FP8_E4M3", "MXFP6_E3M2", "NVFP4", "MXFP4"][:parts]
    config = create_layerwise_gradient(layers, formats)
    precisions = [config.get_precision("q_proj", layer) for layer in range(layers)]
    order = [formats.index(precision) for precision in precisions]
    assert order == sorted(order)  # never wider again
    assert order[0] == 0
    sizes = [precisions.count(key) for key in formats]
    assert max(sizes) - min(sizes) <= 1  # equal parts
    assert all(config.get_precision(projection, layers - 1) == precisions[-1] for projection in PROJECTIONS)
    assert config.get_precision("kv_cache", layers - 1) == "FP16"


def test_a_gradient_of_another_depth_and_bad_ones() -> None:
    assert get_strategy("layerwise_gradient", num_layers=80).layer_count == 80
    assert get_strategy("fp8_balanced", num_layers=80).layer_count is None
    assert create_layerwise_gradient(4, ["FP16", "INT8"]).claims is None
    for bad in (0, -1, True, 2.0, 10**6):
        with pytest.raises(InvalidValueError, match="num_layers"):
            create_layerwise_gradient(bad)  # type: ignore[arg-type]
    with pytest.raises(InvalidValueError, match="precisions is empty"):
        create_layerwise_gradient(4, [])


def test_a_config_is_a_value() -> None:
    config = get_strategy("layerwise_gradient")
    assert pickle.loads(pickle.dumps(config)) == config
    assert copy.deepcopy(config) == config
    renamed = config.with_name("mine")
    assert (renamed.name, renamed.claims, renamed.layers) == ("mine", None, config.layers)
    with pytest.raises(AttributeError):
        config.name = "other"  # type: ignore[misc]
    assert set(LAYERED) == {*PROJECTIONS, OperatorType.KV_CACHE}
