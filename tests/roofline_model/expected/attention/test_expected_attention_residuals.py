"""Fitting attention: which constants rows can tell, and known constants found again from synthetic times."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import least_squares

from roofline_model.chips.hardware import get_hardware
from roofline_model.core.errors import InvalidValueError
from roofline_model.expected.attention.chip import AttentionChip
from roofline_model.expected.attention.decode import decode_work
from roofline_model.expected.attention.fitted.constants import constant_ranges
from roofline_model.expected.attention.fitted.fit import AttentionProblem, work_time_us
from roofline_model.expected.attention.fitted.library import find_attention
from roofline_model.expected.attention.prefill import prefill_work
from roofline_model.expected.attention.shape import AttentionShapes


def works_of(key, phase, *, count=160, widths=(False, True), seed=0):
    rng = np.random.default_rng(seed)
    chip = AttentionChip.of(get_hardware(key))
    works = []
    for is_8bit in widths:
        kv_heads = rng.choice([1, 2, 8, 32], count)
        heads = kv_heads * rng.choice([1, 4, 8, 48], count)
        keys = 2 ** rng.integers(1, 15, count)
        query = keys if phase == "prefill" else np.ones(count, dtype=int)
        batch = np.minimum(2 ** rng.integers(0, 10, count), np.maximum(1, 2**18 // keys))
        dims = rng.choice([64, 128, 256], count)
        shapes = AttentionShapes.of(batch, heads, kv_heads, query, keys, dims, causal=True, window=0)
        count_work = prefill_work if phase == "prefill" else decode_work
        works.append(count_work(chip, shapes, cache_bytes=1 if is_8bit else 2, is_8bit=is_8bit, is_cold=False))
    return works


def fitted(problem, measured_s):
    start, low, high = (
        np.log([getattr(bounds, name) for bounds in problem.ranges])
        for name in ("start_value", "low_value", "high_value")
    )

    def residuals(logs):
        return np.log(problem.predict_s(np.exp(logs)) / measured_s) / 0.05

    return np.exp(least_squares(residuals, start, bounds=(low, high), loss="soft_l1", max_nfev=60).x)


@pytest.mark.parametrize(("key", "phase"), [("h100", "decode"), ("h100", "prefill"), ("l40s", "decode")])
def test_known_constants_are_found_again(key, phase):
    works = works_of(key, phase)
    problem = AttentionProblem.of(works)
    true = find_attention(works[0].chip, phase).values
    truth = np.array([true[name] for name in problem.names])
    exact = problem.predict_s(truth)
    noise = np.exp(np.random.default_rng(1).normal(0, 0.03, len(exact)))
    constants = fitted(problem, exact * noise)
    error = np.abs(problem.predict_s(constants) / exact - 1)
    assert error.mean() < 0.015, "the noise is 3 %; times without it are found within half of it"
    strong = (
        "dram_ratio",
        "launch_us_16bit",
        "efficiency_128_16bit",
        "efficiency_128_8bit",
        "head_cta_us_16bit",
        "token_ns_16bit",
    )
    for name in set(strong) & set(problem.names):
        if not (phase == "prefill" and name == "dram_ratio"):
            place = problem.names.index(name)
            assert constants[place] == pytest.approx(truth[place], rel=0.12), name


def test_vectors_predict_what_the_terms_say():
    works = works_of("gb10", "decode", count=20)
    problem = AttentionProblem.of(works)
    values = find_attention(works[0].chip, "decode").values
    seconds = problem.predict_s([values[name] for name in problem.names])
    assert seconds == pytest.approx(np.concatenate([work_time_us(work, values) for work in works]) * 1e-6)


def test_bounds_and_priors_hold_every_name():
    problem = AttentionProblem.of(works_of("h100", "decode"))
    assert set(problem.names) <= set(constant_ranges("decode"))
    for bounds in problem.ranges:
        assert 0 < bounds.low_value < bounds.start_value < bounds.high_value
        assert 0 < bounds.prior_scale <= 1


def test_what_no_row_tells_takes_its_nearest_relative():
    chip = AttentionChip.of(get_hardware("a100"))
    shapes = AttentionShapes.of([1, 2], 32, 8, 1024, 1024, 128, causal=True, window=0)
    work = prefill_work(chip, shapes, is_8bit=False, cache_bytes=2, is_cold=False)
    problem = AttentionProblem.of([work])
    assert "efficiency_256_16bit" not in problem.names
    values = problem.values([bounds.start_value for bounds in problem.ranges])
    assert values["efficiency_256_16bit"] == values["efficiency_128_16bit"]
    assert not any(name.endswith("8bit") for name in values)


def test_datacentre_blackwell_shares_its_per_head_kernel_between_widths():
    problem = AttentionProblem.of(works_of("b200", "decode"))
    assert "head_cta_us_16bit" in problem.names
    assert problem.stand_ins["head_cta_us_8bit"] == "head_cta_us_16bit"


def test_without_rows_there_is_nothing_to_fit():
    with pytest.raises(InvalidValueError, match="at least one"):
        AttentionProblem.of([])
