from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline_model.core.errors import InvalidValueError, RooflineError, UnknownNameError
from roofline_model.core.finding import finding
from roofline_model.models.strategies.activation_stats import ActivationStats
from roofline_model.models.strategies.dynamic_config import DynamicQuantConfig
from roofline_model.models.strategies.precision_selector import AdaptivePrecisionSelector, AdaptiveQuantConfig

CANDIDATES = ("NVFP4", "FP8_E4M3", "FP16")
DECODE = {"phase": "decode", "seq_len": 4096, "is_kv_cache": False}


def stats_with(ratio: float) -> ActivationStats:
    return ActivationStats(ratio, 0.0, 1.0, 1.0, 1.0, (4, 4096))


def test_outlier_ratio_and_range() -> None:
    stats = ActivationStats(10.0, 0.0, 2.0, 8.0, 9.5, (1024, 4096))
    assert stats.outlier_ratio == 10.0 / 9.5
    assert stats.dynamic_range == 9.5
    assert stats.element_count == 1024 * 4096
    assert ActivationStats(5.0, 0.0, 0.1, 0.0, 0.0, (4000,)).outlier_ratio == math.inf
    assert ActivationStats(0.0, 0.0, 0.0, 0.0, 0.0, (4,)).outlier_ratio == 1.0


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("absmax", math.nan, "absmax must be a finite number"),
        ("absmax", math.inf, "absmax must be a finite number"),
        ("absmax", 9.0, "percentile_999 must be from 0 to absmax"),
        ("percentile_99", 9.6, "percentile_99 must be from 0 to percentile_999"),
        ("percentile_99", -1.0, "percentile_99 must be from 0"),
        ("std", -1.0, "std must not be negative"),
        ("mean", 11.0, "not above absmax"),
        ("mean", True, "mean must be a finite number"),
        ("shape", (), "shape must hold whole numbers"),
        ("shape", (0, 4), "shape must hold whole numbers"),
    ],
)
def test_impossible_statistics_are_refused(field: str, value: object, words: str) -> None:
    good = {"absmax": 10.0, "mean": 0.0, "std": 2.0, "percentile_99": 8.0, "percentile_999": 9.5, "shape": (4, 4)}
    with pytest.raises(InvalidValueError, match=words):
        ActivationStats(**{**good, field: value})


@pytest.mark.parametrize(
    ("ratio", "context", "chosen"),
    [
        (2.01, DECODE, "FP16"),
        (2.0, DECODE, "FP8_E4M3"),
        (1.51, DECODE, "FP8_E4M3"),
        (1.5, DECODE, "NVFP4"),
        (1.01, DECODE, "NVFP4"),
        (1.5, {"phase": "prefill"}, "FP8_E4M3"),
        (1.0, {"phase": "prefill"}, "NVFP4"),
        (1.2, None, "FP8_E4M3"),
        (1.2, {"is_kv_cache": True, "seq_len": 8192}, "NVFP4"),
        (1.2, {"is_kv_cache": True, "seq_len": 8191, "phase": "decode"}, "FP8_E4M3"),
        (1.2, {"is_kv_cache": True}, "FP8_E4M3"),
        (3.0, {"is_kv_cache": True, "seq_len": 100_000}, "FP16"),
        (math.inf, DECODE, "FP16"),
    ],
)
def test_thresholds_and_context(ratio: float, context: dict | None, chosen: str) -> None:
    stats = stats_with(ratio) if math.isfinite(ratio) else ActivationStats(1.0, 0.0, 0.1, 0.0, 0.0, (4096,))
    assert AdaptivePrecisionSelector().select_precision("q_proj", stats, context) == chosen


@given(
    st.floats(1, 10),
    st.floats(1, 10),
    st.sampled_from([None, DECODE, {"phase": "prefill"}, {"is_kv_cache": True, "seq_len": 9000}]),
)
def test_more_outliers_never_get_a_narrower_format(a: float, b: float, context: dict | None) -> None:
    selector = AdaptivePrecisionSelector()
    low, high = (selector.select_precision("x", stats_with(ratio), context) for ratio in sorted((a, b)))
    assert CANDIDATES.index(low) <= CANDIDATES.index(high)


def test_two_candidates_one_candidate_and_others() -> None:
    two = AdaptivePrecisionSelector(AdaptiveQuantConfig(precision_candidates=["INT4", "BF16"]))
    assert [two.select_precision("x", stats_with(ratio), DECODE) for ratio in (1.2, 1.7, 3.0)] == [
        "INT4",
        "BF16",
        "BF16",
    ]
    selector = AdaptivePrecisionSelector(AdaptiveQuantConfig(precision_candidates=["fp8"]))
    assert {selector.select_precision("x", stats_with(ratio), DECODE) for ratio in (1.2, 1.7, 3.0)} == {"FP8_E4M3"}


def test_the_last_decision_of_each_operator_is_kept_with_its_reason() -> None:
    selector = AdaptivePrecisionSelector()
    selector.select_precision("a", stats_with(3.0), DECODE)
    selector.select_precision("a", stats_with(1.2), DECODE)
    selector.select_precision("b", stats_with(1.6))
    decisions = selector.decisions
    assert (decisions["a"].precision, decisions["a"].outlier_ratio) == ("NVFP4", 1.2)
    assert decisions["a"].finding == finding(
        "outliers-decide", kind="decode", outliers=1.2, formats=("NVFP4", "FP8_E4M3")
    )
    assert decisions["b"].finding == finding("outliers-decide", kind="many", outliers=1.6, threshold=1.5)
    assert decisions["b"].reason == "outlier ratio 1.6 is above 1.5: the middle format"
    assert selector.choose("c", stats_with(1.2)).finding.value("kind") == "phase-unknown"
    assert set(selector.decisions) == {"a", "b"}  # choosing alone remembers nothing
    selector.reset()
    assert not selector.decisions


@pytest.mark.parametrize(
    ("context", "words"),
    [
        ({"phase": "train"}, "phase must be decode or prefill, got 'train'"),
        ({"seq_len": 0}, "seq_len must be a whole number"),
        ({"seq_len": 1.5}, "seq_len must be a whole number"),
        ({"is_kv_cache": "no"}, "is_kv_cache must be True or False"),
        ({"length": 3}, "context has an unknown field 'length'"),
    ],
)
def test_a_bad_context_is_refused_and_changes_nothing(context: dict, words: str) -> None:
    selector = AdaptivePrecisionSelector()
    with pytest.raises(InvalidValueError, match=words):
        selector.select_precision("x", stats_with(1.2), context)
    assert not selector.decisions


def test_bad_arguments_are_refused() -> None:
    selector = AdaptivePrecisionSelector()
    with pytest.raises(InvalidValueError, match="operator_name must be text"):
        selector.select_precision("", stats_with(1.2))
    with pytest.raises(InvalidValueError, match="ActivationStats"):
        selector.select_precision("x", 1.2)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"precision_candidates": []}, "precision_candidates is empty"),
        ({"precision_candidates": ["FP16", "FP8"]}, "must be narrowest first, got FP16 before FP8_E4M3"),
        ({"precision_candidates": ["FP8", "FP8_E4M3"]}, "must be narrowest first"),
        ({"precision_candidates": ["FP9"]}, "unknown format 'FP9'"),
        ({"low_outlier_threshold": 1.6}, "low_outlier_threshold 1.6 must not be above medium_outlier_threshold 1.5"),
        ({"high_outlier_threshold": 1.2}, "medium_outlier_threshold 1.5 must not be above high_outlier_threshold 1.2"),
        ({"high_outlier_threshold": math.nan}, "high_outlier_threshold must be a number"),
        ({"low_outlier_threshold": 0.5}, "low_outlier_threshold must be a number from 1"),
        ({"long_context_count": 0}, "long_context_count must be a whole number"),
    ],
)
def test_a_bad_selector_config_is_refused(arguments: dict, words: str) -> None:
    with pytest.raises(RooflineError) as caught:
        AdaptiveQuantConfig(**arguments)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"precision": "FP9"}, "unknown format 'FP9'"),
        ({"precision": "INT8.FP8"}, "contradict each other"),
        ({"granularity": "per_row"}, "granularity must be per_token, per_tensor or per_channel, got 'per_row'"),
        ({"calibration_mode": "entropy"}, "calibration_mode must be absmax, percentile or mse_optimal"),
        ({"fallback_to_fp16": 1}, "fallback_to_fp16 must be True or False"),
        ({"percentile_pct": 101}, "percentile_pct must be a number from 50 to 100"),
        ({"percentile_pct": math.nan}, "percentile_pct must be a number"),
        ({"outlier_threshold_ratio": 0.5}, "outlier_threshold_ratio must be a number from 1"),
        ({"smoothing_factor": 1.0, "granularity": "per_tensor"}, "smoothing_factor must be a number from 0 to 0.9999"),
        ({"smoothing_factor": 0.5}, "smoothing_factor with per_token"),
    ],
)
def test_a_bad_dynamic_config_is_refused(arguments: dict, words: str) -> None:
    with pytest.raises(RooflineError) as caught:
        DynamicQuantConfig(**arguments)
    assert words in str(caught.value)


def test_the_documents_defaults() -> None:
    config = DynamicQuantConfig()
    assert (config.precision, config.granularity, config.calibration_mode) == ("FP8_E4M3", "per_token", "percentile")
    assert config.fallback_to_fp16
    assert (config.percentile_pct, config.outlier_threshold_ratio) == (99.9, 2.0)
    assert DynamicQuantConfig("fp8").precision == "FP8_E4M3"
    with pytest.raises(UnknownNameError):
        DynamicQuantConfig("nothing")
