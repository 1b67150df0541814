"""Printing: every prefix once, the borders between prefixes, and a law: a printed number reads between 1 and 1000."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline_model.core import units


@pytest.mark.parametrize(
    ("time_s", "text"),
    [
        (1.5e-12, "1.5 ps"),
        (2.5e-9, "2.5 ns"),
        (3.357e-5, "33.57 µs"),
        (3.436e-4, "343.6 µs"),
        (4.5e-3, "4.5 ms"),
        (1.25, "1.25 s"),
        (0.9999995, "1 s"),  # not "1000 ms"
        (999e-9, "999 ns"),
        (0, "0 s"),
        (None, "–"),
        (7200.0, "7200 s"),
        (123456.0, "123500 s"),  # four digits, no exponent
    ],
)
def test_times_take_the_prefix_that_reads_best(time_s: float | None, text: str) -> None:
    assert units.format_time(time_s) == text


@pytest.mark.parametrize(
    ("rate", "text"),
    [(12.0, "12 B/s"), (1.5e3, "1.5 kB/s"), (2e6, "2 MB/s"), (273.06e9, "273.1 GB/s"), (4.8e12, "4.8 TB/s"), (2e15, "2 PB/s"), (None, "–")],
)  # fmt: skip
def test_bandwidths_are_decimal(rate: float | None, text: str) -> None:
    assert units.format_bandwidth(rate) == text


@pytest.mark.parametrize(
    ("rate", "text"),
    [(5e9, "5 GFLOP/s"), (989.4e12, "989.4 TFLOP/s"), (9e15, "9 PFLOP/s"), (3.0, "3 FLOP/s"), (4e3, "4 kFLOP/s"), (5e6, "5 MFLOP/s"), (None, "–")],
)  # fmt: skip
def test_compute_rates_are_decimal(rate: float | None, text: str) -> None:
    assert units.format_flops(rate) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (512, "512 B"),
        (1024, "1 KiB"),
        (99 * 1024, "99 KiB"),
        (25_165_824, "24 MiB"),
        (1024**3, "1 GiB"),
        (0, "0 B"),
        (None, "–"),
    ],
)
def test_capacities_are_binary(size: float | None, text: str) -> None:
    assert units.format_bytes(size) == text


@pytest.mark.parametrize(
    ("ratio", "signed", "text"),
    [(0.75, False, "75.0 %"), (-0.031, True, "-3.1 %"), (0.031, True, "+3.1 %"), (None, True, "–")],
)
def test_ratios_become_percent_only_in_print(ratio: float | None, signed: bool, text: str) -> None:
    assert units.format_percent(ratio, signed=signed) == text


@given(st.floats(min_value=1e-12, max_value=900.0), st.integers(min_value=2, max_value=6))
def test_a_printed_time_is_the_time_and_reads_between_1_and_1000(time_s: float, digits: int) -> None:
    text = units.format_time(time_s, digits)
    match = re.fullmatch(r"([0-9.]+) ([pnµm]?)s", text)
    assert match, text
    value = float(match[1])
    assert 1 - 0.5 * 10.0**-digits <= value < 1000
    assert value * units.DECIMAL_PREFIXES[match[2]] == pytest.approx(time_s, rel=10.0 ** (1 - digits))


def test_the_tables_agree_with_their_names() -> None:
    assert (units.KILO, units.MEGA, units.GIGA, units.TERA) == (1e3, 1e6, 1e9, 1e12)
    assert (units.KIB, units.MIB, units.GIB) == (2**10, 2**20, 2**30)
    assert list(units.DECIMAL_PREFIXES.values()) == sorted(units.DECIMAL_PREFIXES.values())


def test_the_achieved_rate_is_the_one_the_bound_is_about() -> None:
    assert units.format_achieved("memory", 24.04e9, 1e12) == "24.04 GB/s"
    assert units.format_achieved("compute", 24.04e9, 1.234e12) == "1.23 TFLOP/s"
    assert units.format_achieved("compute", 24.04e9, None) == "–"


@pytest.mark.parametrize(
    ("size", "text"),
    [(512, "512 B"), (1048576, "1.049 MB"), (311_462_144, "311.5 MB"), (128.5e9, "128.5 GB"), (2e12, "2 TB"), (0, "0 B"), (-3e6, "-3 MB"), (None, "–")],
)  # fmt: skip
def test_memory_is_printed_in_decimal_units(size, text):
    assert units.format_memory(size) == text
