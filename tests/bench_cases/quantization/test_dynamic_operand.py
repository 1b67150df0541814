from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from bench_cases.quantization.dynamic.operand import (  # noqa: E402
    DYNAMIC_FORMATS,
    WIDE_DTYPES,
    check_format,
    checked_matrix,
    choose_thresholds,
    formats_of,
    quantized,
    quantized_weight,
    rank_percentile,
    stats_of_values,
)
from roofline_model.core.errors import InvalidValueError, RooflineError, UnsupportedError  # noqa: E402
from roofline_model.formats.codecs import outlier_ratio  # noqa: E402
from roofline_model.models.strategies.dynamic_config import DynamicQuantConfig  # noqa: E402

NARROW = [key for key in DYNAMIC_FORMATS if key not in WIDE_DTYPES]
SHAPES = {"per_token": (6, 1), "per_tensor": (1, 1), "per_channel": (1, 2048)}


@pytest.fixture(scope="module")
def values() -> torch.Tensor:
    outlying = torch.randn(6, 2048, generator=torch.Generator().manual_seed(3))
    outlying[2, 100] = 40.0  # one outlier
    return outlying


def matrix(rows: int, columns: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))


def round_trip(key: str):
    return lambda values, thresholds: quantized(values, key, thresholds)[0]


def thresholds(values, mode: str, granularity: str = "per_token", key: str = "INT8", **more):
    config = DynamicQuantConfig(key, granularity, mode, **more)
    return choose_thresholds(values, config, round_trip(key))


def test_statistics_are_numpys(values: torch.Tensor) -> None:
    stats = stats_of_values(values.reshape(6, 2048), (2, 3, 2048))
    array = values.double().numpy()
    magnitudes = np.abs(array)
    assert stats.shape == (2, 3, 2048)
    assert stats.absmax == 40.0
    assert stats.mean == pytest.approx(array.mean(), rel=1e-6)
    assert stats.std == pytest.approx(array.std(), rel=1e-6)
    assert stats.percentile_99 == pytest.approx(np.quantile(magnitudes, 0.99, method="inverted_cdf"), rel=1e-6)
    assert stats.percentile_999 == pytest.approx(np.quantile(magnitudes, 0.999, method="inverted_cdf"), rel=1e-6)
    assert stats.outlier_ratio == stats.absmax / stats.percentile_999 > 10


def test_the_percentile_of_the_codecs_outlier_ratio_is_another_one() -> None:
    values = torch.ones(500)
    values[7] = 11.0
    assert stats_of_values(values, (500,)).outlier_ratio == 1.0  # by rank the 99.9th of 500 is the maximum
    # Interpolated it lies between the last two: position 0.999 · 499 = 498.501.
    assert outlier_ratio(values) == pytest.approx(11.0 / (1.0 + 0.501 * 10.0), rel=1e-6)


@pytest.mark.parametrize("count", [1, 2, 999, 1000, 1001, 5000])
@pytest.mark.parametrize("percent", [50, 99, 99.9, 100])
def test_percentiles_are_by_rank(count: int, percent: float) -> None:
    numbers = torch.arange(1, count + 1).float().flip(0)
    # Of the numbers 1…n the percentile by rank is its own rank.
    assert int(rank_percentile(numbers, percent)) == max(1, math.ceil(round(count * percent / 100, 6)))


def test_a_constant_tensor_has_no_outliers() -> None:
    stats = stats_of_values(torch.full((5, 300), -0.1), (5, 300))
    assert stats.outlier_ratio == 1.0
    assert stats.std == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("granularity", list(SHAPES))
@pytest.mark.parametrize("mode", ["absmax", "percentile", "mse_optimal"])
def test_every_mode_gives_one_threshold_for_each_group(values: torch.Tensor, mode: str, granularity: str) -> None:
    limits = thresholds(values, mode, granularity)
    assert limits.shape == SHAPES[granularity]
    assert (limits > 0).all()
    largest = {
        "per_token": values.abs().amax(1, keepdim=True),
        "per_tensor": values.abs().max().view(1, 1),
        "per_channel": values.abs().amax(0, keepdim=True),
    }
    assert (limits <= largest[granularity]).all()
    if mode == "absmax":
        assert torch.equal(limits, largest[granularity])


def test_a_percentile_clips_its_share(values: torch.Tensor) -> None:
    limit = thresholds(values, "percentile", "per_tensor", percentile_pct=99.0)
    clipped = (values.abs() > limit).double().mean()
    assert 0.009 < float(clipped) <= 0.01
    assert float(limit) < 3.0  # the outlier of 40 does not stretch the scale
    rows = thresholds(values, "percentile", percentile_pct=99.9)
    assert ((values.abs() > rows).sum(1) == 2).all()  # 2048 · 0.1 % are two elements of each row


@pytest.mark.parametrize("key", ["INT8", "INT4", "FP8_E4M3", "NVFP4"])
@pytest.mark.parametrize("granularity", ["per_token", "per_tensor"])
def test_the_least_squared_error_is_no_worse_than_the_other_modes(
    values: torch.Tensor, key: str, granularity: str
) -> None:
    def error(mode: str) -> torch.Tensor:
        decoded = quantized(values, key, thresholds(values, mode, granularity, key))[0]
        squared = (decoded - values).double().square()
        return squared.sum(1) if granularity == "per_token" else squared.sum()

    best = error("mse_optimal")
    assert (best <= error("absmax")).all()
    assert (best <= error("percentile")).all()


def test_clipping_pays_for_int4_with_gaussian_data() -> None:
    """The best threshold of 4-bit integers lies well inside the maximum (for Gaussians near 2.6 sigma of more than
    4).
    """
    values = torch.randn(1, 20000, generator=torch.Generator().manual_seed(0))
    limit = float(thresholds(values, "mse_optimal", "per_tensor", "INT4"))
    assert 2.2 < limit < 3.0 < float(values.abs().max())


def test_rows_of_zeros_and_sparse_rows_have_a_threshold() -> None:
    values = torch.zeros(2, 4000)
    values[1, 7] = 5.0  # 99.9 % of the row is zero
    for mode in ("absmax", "percentile", "mse_optimal"):
        assert thresholds(values, mode).flatten().tolist() == [1.0, 5.0]


@pytest.mark.parametrize(
    ("tensor", "words"),
    [
        (torch.tensor([[1.0, float("nan")]]), "NaN or infinity \\(1 of 2 elements\\)"),
        (torch.tensor([[1.0, float("inf")]]), "NaN or infinity"),
        (torch.tensor([[-float("inf"), 0.0]]), "NaN or infinity"),
        (torch.zeros(3, 4), "all zero"),
        (torch.empty(0, 4), "is empty"),
        (torch.empty(4, 0), "is empty"),
        (torch.tensor(3.0), "is empty"),
        (torch.ones(2, 2, dtype=torch.int32), "floating-point tensor, got torch.int32"),
        ([[1.0]], "floating-point tensor, got list"),
        (torch.full((2, 2), 1e300, dtype=torch.float64), "NaN or infinity"),  # FP32 cannot hold it
    ],
)
def test_what_cannot_be_quantised_is_refused(tensor: object, words: str) -> None:
    with pytest.raises(InvalidValueError, match=words):
        checked_matrix("x", tensor)  # type: ignore[arg-type]


# --- what a format leaves


# Signal to quantisation noise of Gaussian data in dB, by format: a bit is about 6 dB, a narrow row maximum costs some.
LEAST_SQNR_DB = {
    "INT8": 36, "FP8_E4M3": 29, "FP8_E5M2": 23, "MXFP8_E4M3": 29, "MXFP6_E2M3": 28, "MXFP6_E3M2": 23, "NVFP4": 18, "MXFP4": 16,
    "NF4": 18, "INT4": 13, "INT2": 0.5,
}  # fmt: skip


@pytest.mark.parametrize("key", NARROW)
def test_every_format_keeps_the_signal_its_bits_allow(key: str) -> None:
    values = matrix(32, 256)
    decoded = quantized_weight(values, key)
    noise = (decoded - values).square().mean()
    assert 10 * torch.log10(values.square().mean() / noise) > LEAST_SQNR_DB[key]


@pytest.mark.parametrize("key", NARROW)
def test_values_beyond_the_threshold_are_clipped_to_it(key: str) -> None:
    values = matrix(8, 64)
    decoded = quantized(values, key, torch.full((8, 1), 0.5))[0]
    # NF4's and NVFP4's block scales are rounded (FP16, E4M3); MX scales are powers of two and E2M1 may round 5 up to 6.
    assert float(decoded.abs().max()) <= 0.5 * (1.2 if key in ("NVFP4", "MXFP4", "MXFP6_E3M2") else 1.07)
    assert torch.equal(decoded.sign() * (decoded != 0), values.sign() * (decoded != 0))


@pytest.mark.parametrize("scale", [1e-38, 1e-30, 1e30])
@pytest.mark.parametrize("key", NARROW)
def test_tiny_and_huge_values_never_become_nan(key: str, scale: float) -> None:
    values = matrix(4, 64) * scale
    values[1] = 0
    if key == "NF4" and scale > 1:
        with pytest.raises(RooflineError, match=r"NF4.*FP16.*65504"):
            quantized_weight(values, key)
        return
    decoded = quantized_weight(values, key)
    assert torch.isfinite(decoded).all()
    assert not decoded[1].any()


@pytest.mark.parametrize(
    ("key", "inner", "words"),
    [
        ("FP64", 64, "dynamic quantisation knows no FP64. Known: INT8"),
        ("NVFP4", 100, "NVFP4 has blocks of 16 elements, and K = 100 is not a multiple of 16"),
        ("MXFP4", 48, "blocks of 32 elements, and K = 48"),
        ("FP9", 64, "unknown format 'FP9'"),
    ],
)
def test_formats_that_cannot_be_are_refused(key: str, inner: int, words: str) -> None:
    with pytest.raises(RooflineError) as caught:
        check_format(key, inner)
    assert words in str(caught.value)


def test_a_precision_is_one_format_or_two() -> None:
    assert formats_of("int8").label == "INT8.INT8"
    assert formats_of("NVFP4.FP8").label == "NVFP4.FP8_E4M3"
    with pytest.raises(RooflineError, match="wider than activations"):
        formats_of("FP8.INT4")
    with pytest.raises(UnsupportedError):
        check_format("TF32", 64)
