"""Attention constants from a synthetic table: known ones come back, what no row tells is borrowed, chips lend to
relatives.
"""

from __future__ import annotations

import csv
import math
from dataclasses import replace

import numpy as np
import pytest

from roofline_model import get_hardware
from roofline_model.core.errors import UnsupportedError
from roofline_model.expected.attention.chip import AttentionChip
from roofline_model.expected.attention.fitted.constants import MIXES, REGIMES, FittedAttention, constant_ranges
from roofline_model.expected.attention.fitted.fit import (
    attention_fit_set,
    attention_start,
    fitted_attention,
)
from roofline_model.expected.attention.fitted.library import attention_text, find_attention, read_attention
from roofline_model.expected.attention.fitted.rows import JoinedRows, attention_row_groups
from roofline_model.expected.attention.model import expected_attention
from roofline_model.expected.constants_file import Evidence
from roofline_model.expected.fitting.cross_validation import cross_validate
from roofline_model.expected.fitting.fit import FitPlan, planned_sets
from roofline_model.expected.fitting.fit_set import fit_rows
from roofline_model.expected.fitting.table import read_kernel_table

HEADER = (
    "device,op,phase,batch,q_len,kv_len,heads,kv_heads,head_dim,causal,window,activation_format,kv_format,time_s,source"
)
TRUE = {
    "prefill": {"launch_us_16bit": 9.0, "efficiency_128_16bit": 0.55, "dram_ratio": 0.8},
    "decode": {
        "launch_us_16bit": 6.5,
        "cta_us_16bit": 4.0,
        "token_ns_16bit": 12.0,
        "dram_ratio": 0.75,
        "head_token_ns_16bit": 16.0,
    },
}


def synthetic(path, phase, count, *, device="l40s", noise=0.03, dims=(64, 128, 256), widths=("16bit", "8bit"), seed=4):
    """Write rows of a machine whose constants are `TRUE`, the rest plausible ones; returns the table."""
    rng = np.random.default_rng(seed)
    chip = AttentionChip.of(get_hardware(device))
    values = {name: bounds.start_value for name, bounds in constant_ranges(phase).items()} | TRUE[phase]
    attention = FittedAttention(chip, phase, values, dict.fromkeys(REGIMES, (0.9, 1.1)), Evidence("synthetic", 0, ""))
    kv_heads = 2 ** rng.integers(0, 4, count)
    heads = kv_heads * 2 ** rng.integers(0, 5, count)
    dim = rng.choice(dims, count)
    batch = np.round(2 ** rng.uniform(0, 7, count)).astype(int)
    length = np.round(2 ** rng.uniform(4, 13 if phase == "decode" else 11, count)).astype(int)
    query = np.ones(count, dtype=int) if phase == "decode" else length
    is_narrow = rng.random(count) < 0.5 if len(widths) > 1 else np.full(count, widths[0] == "8bit")
    times = np.empty(count)
    for narrow in {bool(flag) for flag in is_narrow}:
        at = np.flatnonzero(is_narrow == narrow)
        kv = "FP8" if narrow else "BF16"
        batch_at = expected_attention(
            chip,
            batch[at],
            heads[at],
            kv_heads[at],
            query[at],
            length[at],
            dim[at],
            causal=phase == "prefill",
            activation_format=kv if phase == "prefill" else "BF16",
            kv_format=kv,
            phase=phase,
            constants=attention,
        )
        times[at] = batch_at.time_s
    times *= np.exp(rng.normal(0, noise, count))
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(HEADER.split(","))
        for i in range(count):
            kv = "FP8" if is_narrow[i] else "BF16"
            maths = kv if phase == "prefill" else "BF16"
            sizes = [batch[i], query[i], length[i], heads[i], kv_heads[i], dim[i]]
            writer.writerow(
                [device, "attention", phase, *sizes, phase == "prefill", "", maths, kv, repr(float(times[i])), "lab"]
            )
    return read_kernel_table(path)


def start_of(table, *, is_generic=True):
    problems: dict[int, str] = {}
    groups = attention_row_groups(table, problems)
    assert not problems
    return attention_start(table, groups, None, is_generic=is_generic)


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_known_constants_come_back_within_their_spread(tmp_path, phase):
    start = start_of(synthetic(tmp_path / "t.csv", phase, 500))
    fitted = fit_rows(start.rows).constants
    assert fitted.mape_ratio == pytest.approx(0.024, abs=0.005)
    for name, true in TRUE[phase].items():
        away = abs(math.log(fitted.values[name] / true))
        assert away < 4 * fitted.spreads[name] + 0.02, f"{name}: {fitted.values[name]} for {true}"


def test_what_no_row_tells_is_borrowed_from_its_nearest_relative(tmp_path):
    table = synthetic(tmp_path / "t.csv", "prefill", 120, dims=(128,), widths=("16bit",))
    joined = JoinedRows(attention_row_groups(table, {}))
    fit_set = attention_fit_set(joined, table.numbers["time_s"], None, None)
    names = {constant.name for constant in fit_set.free}
    assert "efficiency_128_16bit" in names
    assert not any(name.endswith("8bit") or "_64_" in name or "_256_" in name for name in names)
    start = start_of(table)
    made = fitted_attention(start, fit_rows(start.rows), None, Evidence("x", 120, "2026-11-21"))
    assert made.widths == ("16bit",)
    for stem in ("efficiency", "cta_us"):
        assert len({made.values[f"{stem}_{size}_16bit"] for size in (64, 128, 256)}) == 1


def test_a_width_without_rows_keeps_what_the_library_has(tmp_path):
    table = synthetic(tmp_path / "t.csv", "decode", 60, widths=("16bit",))
    start = start_of(table, is_generic=False)
    assert start.provenance == "fitted"
    made = fitted_attention(start, fit_rows(start.rows), None, Evidence("x", 60, "2026-11-21"))
    shipped = find_attention(start.joined.chip, "decode")
    assert made.widths == shipped.widths
    assert made.correction == shipped.correction  # too few rows for a surface of their own
    assert made.values["token_ns_8bit"] == pytest.approx(shipped.values["token_ns_8bit"], rel=1e-4)
    assert made.intervals == dict(shipped.intervals)


def test_a_fit_goes_to_a_file_and_back_with_intervals_of_its_folds(tmp_path):
    start = start_of(synthetic(tmp_path / "t.csv", "decode", 400))
    folds = cross_validate(start.rows)
    fitted = fit_rows(start.rows)
    made = fitted_attention(start, fitted, folds, Evidence("synthetic", 400, "2026-11-21"))
    assert set(REGIMES) <= set(made.intervals)
    assert any(name.endswith(MIXES[1]) for name in made.intervals)  # enough rows of an 8-bit cache
    assert set(made.correction.log_ratio) == {"16bit", "8bit"}
    (back,) = read_attention(attention_text([made]), "t.toml")
    assert back.correction == made.correction
    assert back.values == made.values
    assert back.intervals == made.intervals
    assert (folds.predicted_s / start.rows.measured_s).mean() == pytest.approx(1, abs=0.02)


def test_sites_are_heads_and_sizes(tmp_path):
    table = synthetic(tmp_path / "t.csv", "decode", 50)
    joined = JoinedRows(attention_row_groups(table, {}))
    numbers = table.numbers
    expected = [
        f"{int(numbers['heads'][i])}x{int(numbers['kv_heads'][i])}x{int(numbers['head_dim'][i])}" for i in joined.rows
    ]
    assert list(joined.sites) == expected
    assert joined.rows.tolist() == list(range(50))


def test_groups_predict_as_the_model_does_in_any_order(tmp_path):
    """Joined groups give the same times as the model called row by row."""
    table = synthetic(tmp_path / "t.csv", "decode", 40)
    joined = JoinedRows(attention_row_groups(table, {}))
    uncorrected = replace(find_attention(joined.chip, "decode"), correction=None)  # a set adds its surface itself
    positions = np.array([31, 4, 17, 0])
    times_s = joined.times(uncorrected.values, positions)
    n = table.numbers
    for time, i in zip(times_s, joined.rows[positions], strict=True):
        alone = expected_attention(
            joined.chip,
            *(int(n[name][i]) for name in ("batch", "heads", "kv_heads", "q_len", "kv_len", "head_dim")),
            causal=False,
            activation_format="BF16",
            kv_format=table.texts["kv_format"][i],
            phase="decode",
            constants=uncorrected,
        )
        assert time == pytest.approx(float(alone.time_s[0]), rel=1e-12)


def test_shared_pages_of_one_old_collector_read_half_the_cache(tmp_path):
    path = tmp_path / "t.csv"
    rows = [
        f"a100-sxm-80gb,attention,decode,64,1,8192,32,8,128,False,,BF16,BF16,1e-3,{source}"
        for source in ("aiconfigurator trtllm 1.0.0", "lab")
    ]
    path.write_text("\n".join([HEADER, *rows]) + "\n", encoding="utf-8")
    (group,) = attention_row_groups(read_kernel_table(path), {})
    assert group.cache_read.tolist() == [0.5, 1.0]
    times = group.expected().time_s
    assert 1.6 < times[1] / times[0] < 2.05  # bound by DRAM


def test_formats_without_measured_kernels_say_so(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(HEADER + "\nl40s,attention,decode,64,1,8192,32,8,128,False,,BF16,FP32,1e-3,lab\n", encoding="utf-8")
    (group,) = attention_row_groups(read_kernel_table(path), {})
    with pytest.raises(UnsupportedError, match="FP32 cache"):
        group.expected()


def test_a_cache_narrower_than_8_bit_is_predicted_but_fits_nothing(tmp_path):
    path = tmp_path / "t.csv"
    row = "l40s,attention,decode,64,1,8192,32,8,128,False,,BF16,INT4,1e-3,lab"
    path.write_text("\n".join([HEADER, *[row] * 40]) + "\n", encoding="utf-8")
    table = read_kernel_table(path)
    (group,) = attention_row_groups(table, {})
    assert group.expected().provenance == "transferred-format"
    sets, left_out = planned_sets(table, FitPlan("2026-11-21", "lab"))
    assert not sets
    assert [item.code for item in left_out] == ["rows-left-out"]


def test_many_rows_teach_a_surface_what_the_formulas_cannot_say(tmp_path):
    """A library that picks slow kernels around 64 × 512 tokens: found at sites that were not fitted."""
    table = synthetic(tmp_path / "t.csv", "decode", 500, widths=("16bit",))
    units, keys = table.numbers["batch"] * table.numbers["kv_heads"], table.numbers["kv_len"]
    far = (np.log2(units) - 6) ** 2 + (np.log2(keys) - 9) ** 2
    table.numbers["time_s"][:] *= np.exp(0.5 * np.exp(-far / 8))
    start = start_of(table)
    with_surface = cross_validate(start.rows)
    plain = cross_validate(replace(start.rows, surface=None))
    errors = [np.mean(np.abs(fit.predicted_s / start.rows.measured_s - 1)) for fit in (with_surface, plain)]
    assert errors[0] < 0.8 * errors[1]
    few = attention_fit_set(start.joined, table.numbers["time_s"], None, find_attention(start.joined.chip, "decode"))
    assert few.surface is not None  # 500 rows learn their own, whatever they begin at
