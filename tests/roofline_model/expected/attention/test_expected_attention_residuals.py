"""Fitting attention: which constants rows can tell."""

from __future__ import annotations

import numpy as np
import pytest

from roofline_model.chips.hardware import get_hardware
from roofline_model.core.errors import InvalidValueError
from roofline_model.expected.attention.chip import AttentionChip
from roofline_model.expected.attention.decode import decode_work
from roofline_model.expected.attention.fitted.constants import constant_ranges
from roofline_model.expected.attention.fitted.fit import told_constants
from roofline_model.expected.attention.shape import AttentionShapes


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_constants_begin_between_their_bounds(phase):
    for bounds in constant_ranges(phase).values():
        assert 0 < bounds.low_value < bounds.start_value < bounds.high_value
        assert 0 < bounds.prior_scale <= 1


def test_datacentre_blackwell_shares_its_per_head_kernel_between_widths():
    chip, query = AttentionChip.of(get_hardware("b200")), np.ones(2, dtype=int)
    shapes = AttentionShapes.of([1, 64], [48, 32], [1, 8], query, [512, 8192], 128, causal=True, window=0)
    works = [
        decode_work(chip, shapes, cache_bytes=1 if is_8bit else 2, is_8bit=is_8bit, is_cold=False)
        for is_8bit in (False, True)
    ]
    names, stand_ins = told_constants(works)
    assert "head_cta_us_16bit" in names
    assert stand_ins["head_cta_us_8bit"] == "head_cta_us_16bit"


def test_without_rows_there_is_nothing_to_fit():
    with pytest.raises(InvalidValueError, match="at least one"):
        told_constants([])
