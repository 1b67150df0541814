"""Quantise and dequantise kernels counted by hand: passes, scales, contradictions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline_model import FORMATS, InvalidValueError
from roofline_model.operators.quantize import dequantize, quantize

NARROW = sorted(key for key, fmt in FORMATS.items() if fmt.element_bits <= 8)


@pytest.mark.parametrize(
    ("target", "scale", "passes", "bytes_per_element", "scale_bytes", "flops_per_element"),
    [
        ("FP8", None, 1, 1, 4 * 64, 4),  # a scale per token, found and applied in one pass
        ("FP8", "row", 1, 1, 4 * 64, 4),
        ("FP8", "tensor", 2, 1, 4, 4),
        ("FP8", "static", 1, 1, None, 2),
        ("INT8", "tensor", 2, 1, 4, 4),
        ("MXFP8", None, 1, 8.25 / 8, None, 4),
        ("MXFP4", "static", 1, 4.25 / 8, None, 2),
        ("NVFP4", None, 2, 4.53125 / 8, None, 4),  # the scale of the tensor comes first
        ("NVFP4", "block", 2, 4.53125 / 8, None, 4),
        ("NVFP4", "static", 1, 4.53125 / 8, None, 2),
        ("NF4", None, 1, 4.25 / 8, None, 4),
    ],
)
def test_quantize_by_hand(
    target: str,
    scale: str | None,
    passes: int,
    bytes_per_element: float,
    scale_bytes: int | None,
    flops_per_element: int,
) -> None:
    cost = quantize(64, 128, "BF16", target, scale=scale).cost
    assert dict(cost.read_bytes) == {"X": passes * 64 * 128 * 2}
    expected = {"Y": 64 * 128 * bytes_per_element} | ({} if scale_bytes is None else {"scales": scale_bytes})
    assert dict(cost.write_bytes) == expected
    assert cost.flops == (("FP32", flops_per_element * 64 * 128),)


def test_dequantize_by_hand() -> None:
    work = dequantize(64, 128, "NVFP4", "BF16")
    assert work.cost.flops == (("FP32", 64 * 128),)
    assert dict(work.cost.read_bytes) == {"X": 64 * 128 * 4.53125 / 8}
    assert dict(work.cost.write_bytes) == {"Y": 64 * 128 * 2}
    assert work.formats == (("x", "NVFP4"), ("o", "BF16"))
    assert work.shape == (("rows", 64), ("width", 128))


@given(st.sampled_from(NARROW), st.integers(min_value=1, max_value=4096), st.integers(min_value=1, max_value=4096))
def test_there_and_back_moves_the_same_tensors(target: str, rows: int, width: int) -> None:
    there, back = (
        quantize(rows, width, "BF16", target, scale="static").cost,
        dequantize(rows, width, target, "BF16").cost,
    )
    assert there.total_write_bytes == back.total_read_bytes
    assert there.total_read_bytes == back.total_write_bytes == rows * width * 2


@given(st.sampled_from(NARROW))
def test_a_search_never_costs_less_than_a_known_scale(target: str) -> None:
    static = quantize(32, 256, "BF16", target, scale="static").cost
    dynamic = quantize(32, 256, "BF16", target).cost
    assert dynamic.total_flops > static.total_flops
    assert dynamic.total_bytes >= static.total_bytes


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"target": "BF16"}, "target=BF16 is not narrower than source=BF16"),
        ({"target": "FP32"}, "target=FP32 is not narrower"),
        ({"source": "FP8"}, "source=FP8_E4M3: quantize starts from a float"),
        ({"source": "NVFP4"}, "source=NVFP4"),
        ({"target": "MXFP8", "scale": "row"}, "scale=row contradicts target=MXFP8_E4M3"),
        ({"target": "NVFP4", "scale": "tensor"}, "scale=tensor contradicts target=NVFP4"),
        ({"target": "FP8", "scale": "block"}, "scale=block contradicts target=FP8_E4M3"),
        ({"scale": "token"}, "scale must be one of row, tensor, block, static"),
        ({"rows": 0}, "rows"),
        ({"width": -1}, "width"),
    ],
)
def test_contradictions_of_quantize(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidValueError, match=words):
        quantize(**{"rows": 4, "width": 64, **arguments})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"source": "BF16"}, "target=BF16 is not wider than source=BF16"),
        ({"source": "FP32"}, "target=BF16 is not wider"),
        ({"target": "FP8"}, "target=FP8_E4M3: dequantize ends in a float"),
        ({"target": "NF4"}, "target=NF4"),
        ({"rows": 1.5}, "rows"),
    ],
)
def test_contradictions_of_dequantize(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidValueError, match=words):
        dequantize(**{"rows": 4, "width": 64, **arguments})  # type: ignore[arg-type]


def test_a_grouped_integer_has_blocks() -> None:
    grouped = FORMATS["INT4"].grouped(128)
    work = quantize(4, 256, "BF16", grouped)
    assert dict(work.cost.write_bytes) == {"Y": 4 * 256 * (4 + 16 / 128) / 8}
