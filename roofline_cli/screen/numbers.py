"""How the tables print numbers: fixed decimals and one unit per column, so that a column can be compared at a glance."""

from __future__ import annotations

from collections.abc import Sequence

from roofline_model.core.units import DECIMAL_PREFIXES, format_memory, format_time

MISSING = "–"
_LARGEST = 999.995
"""From here on two decimals print as `1000.00`: a table never says 3054.17 µs in one column and 3.222 ms in the next."""


def common_time(times_s: Sequence[float | None]) -> list[str]:
    """Print times with two decimals in the unit of the smallest one; missing → `–`.

    [33.57e-6, 8.3988e-6] → ["33.57 µs", "8.40 µs"]; where that takes four digits before the point, each in its own unit.
    """
    return paired_times(times_s, [])[0] if any(times_s) else [MISSING if time is None else "0 s" for time in times_s]


def paired_times(first_s: Sequence[float | None], second_s: Sequence[float | None]) -> tuple[list[str], list[str]]:
    """Print two columns of times that are read against each other (predicted, measured), without losing digits.

    In the unit of the smallest, with two decimals; where that takes four digits before the point, each time in its own unit
    and with four digits. ([7.1e-6, 1e-6], [16.09e-6, None]) → (["7.10 µs", "1.00 µs"], ["16.09 µs", "–"]).
    """
    known = [time for time in (*first_s, *second_s) if time]
    prefix = _prefix(min(known)) if known else ""
    is_shared = not known or max(known) < DECIMAL_PREFIXES[prefix] * _LARGEST

    def shown(time_s: float | None) -> str:
        if time_s is None or not is_shared:
            return format_time(time_s)
        return f"{time_s / DECIMAL_PREFIXES[prefix]:.2f} {prefix}s"

    return [shown(time) for time in first_s], [shown(time) for time in second_s]


def shared_prefix(*columns_s: Sequence[float | None]) -> str | None:
    """Return the prefix in which columns that share a row (ideal, expected, interval) are printed; None: no time at all.

    That of the smallest time, unless the largest would take four digits before the point: [8.4e-6], [0.19e-3] → µ;
    [9.7e-6], [1.07e-3] → m.
    """
    known = [time for column in columns_s for time in column if time]
    if not known:
        return None
    units = list(DECIMAL_PREFIXES)
    units = units[units.index(_prefix(min(known))) : units.index("") + 1]
    return next((one for one in units if max(known) < _LARGEST * DECIMAL_PREFIXES[one]), "")


def in_prefix(time_s: float | None, prefix: str | None, *, is_sum: bool = False) -> str:
    """Print a time in a given unit, `0.58 ms`; in its own below a tenth of it (`41.2 µs`) and from four digits on.

    `is_sum`: of a column that adds up, so a small time stays in its unit, with two digits.
    """
    if not time_s or prefix is None:
        return format_time(time_s)
    value = time_s / DECIMAL_PREFIXES[prefix]
    if is_sum and 0.00095 <= value < 0.0995:
        return f"{value:.2g} {prefix}s"
    return f"{value:.2f} {prefix}s" if 0.0995 <= value < _LARGEST else format_time(time_s)


def intensity(flop_per_byte: float | None) -> str:
    """Print an arithmetic intensity: two decimals below 100, none above; missing → `–`."""
    if flop_per_byte is None:
        return MISSING
    return f"{flop_per_byte:.2f}" if flop_per_byte < 99.995 else f"{flop_per_byte:.0f}"


def speedup(ratio: float | None) -> str:
    """Print a speed-up as the seeds do, `4.0x`; below 1, two decimals; missing → `–`."""
    if ratio is None:
        return MISSING
    return f"{ratio:.1f}x" if ratio >= 0.995 else f"{ratio:.2g}x"


def plus_minus(half_width_ratio: float | None) -> str:
    """Print half an interval's width as `±1.2 %`, `±>999 %` where it has no useful limit; missing → `–`."""
    from results.statistics.replication import width_text

    return MISSING if half_width_ratio is None else f"±{width_text(half_width_ratio)}"


def decimal_bytes(size_bytes: float | None) -> str:
    """Print a memory's size in decimal units, as datasheets sell it: 128 GB; missing → `–`."""
    return format_memory(size_bytes)


def _prefix(time_s: float) -> str:
    """Return the prefix that prints a time with one to three digits before the point."""
    chosen = "p"
    for name in ("p", "n", "µ", "m", ""):
        # The margin keeps 999.999 ns from printing as "1000.00 ns".
        if time_s >= DECIMAL_PREFIXES[name] * 0.99995:
            chosen = name
    return chosen
