"""SI base units inside, prefixes only when printing: the one table of prefixes and the formatters that use it."""

from __future__ import annotations

from collections.abc import Sequence

KILO = 1e3
MEGA = 1e6
GIGA = 1e9
TERA = 1e12

KIB = 1024
MIB = 1024**2
GIB = 1024**3

DECIMAL_PREFIXES: dict[str, float] = {
    "p": 1e-12, "n": 1e-9, "µ": 1e-6, "m": 1e-3,
    "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15,
}  # fmt: skip


def sentence(text: str) -> str:
    """Return a text as a sentence: a capital first, a full stop last."""
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '!', '?')) else '.'}"


def counted(count: int, noun: str, plural: str = "") -> str:
    """Return `1 case`, `2 cases`, `12,000 rows`; an irregular plural is given."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


_LONGEST = 1e15
"""From here on a number keeps its exponent: nothing real is that long, and 300 digits break any table."""


def _scaled(value: float, unit: str, digits: int, smallest: str, largest: str) -> str:
    names = list(DECIMAL_PREFIXES)
    names = names[names.index(smallest) : names.index(largest) + 1]
    magnitude = abs(value)
    chosen = names[0]
    for name in names:
        # The half-unit-in-the-last-place keeps 999.96 µs from printing as "1000 µs".
        if magnitude >= DECIMAL_PREFIXES[name] * (1 - 0.5 * 10.0**-digits):
            chosen = name
    text = f"{value / DECIMAL_PREFIXES[chosen]:.{digits}g}"
    if "e" in text and float(text) < _LONGEST:
        text = f"{float(text):.0f}"
    return f"{text} {chosen}{unit}"


def format_time(time_s: float | None, digits: int = 4) -> str:
    """Print seconds with the prefix that reads best: `3.357e-05` → `33.57 µs`; missing → `–`.

    Examples: 0.9999995 → "1 s", 999e-9 → "999 ns", 0 → "0 s".
    """
    if time_s is None:
        return "–"
    return "0 s" if time_s == 0 else _scaled(time_s, "s", digits, "p", "")


def format_bytes(size_bytes: float | None, digits: int = 3) -> str:
    """Print a capacity in binary units (KiB, MiB, GiB), as systems and cache datasheets have it; missing → `–`."""
    if size_bytes is None:
        return "–"
    for unit, scale in (("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if abs(size_bytes) >= scale:
            return f"{float(f'{size_bytes / scale:.{digits}g}'):g} {unit}"
    return f"{size_bytes:g} B"


def format_memory(size_bytes: float | None, digits: int = 4) -> str:
    """Print what a model or a file takes in decimal units (kB, MB, GB), as limits and datasheets have it; missing →
    `–`.
    """
    if size_bytes is None:
        return "–"
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if abs(size_bytes) >= scale:
            return f"{float(f'{size_bytes / scale:.{digits}g}'):g} {unit}"
    return f"{size_bytes:g} B"


def format_bandwidth(bandwidth_bytes_per_s: float | None, digits: int = 4) -> str:
    """Print a rate in decimal GB/s or TB/s (1 GB/s = 1e9 bytes/s); missing → `–`."""
    if bandwidth_bytes_per_s is None:
        return "–"
    return _scaled(bandwidth_bytes_per_s, "B/s", digits, "", "P")


def format_flops(rate_flops_per_s: float | None, digits: int = 4) -> str:
    """Print a rate in decimal GFLOP/s or TFLOP/s; missing → `–`."""
    if rate_flops_per_s is None:
        return "–"
    return _scaled(rate_flops_per_s, "FLOP/s", digits, "", "P")


def format_clock(clock_hz: float | None) -> str:
    """Print a clock in MHz, as datasheets have it; missing → `–`."""
    return "–" if clock_hz is None else f"{clock_hz / 1e6:.0f} MHz"


def format_quantity(value: float, unit: str) -> str:
    """Print a value in SI with the decimal prefix that reads best: 1.2e15 B/s → "1.2 PB/s"; counts have no unit."""
    if not unit:
        return f"{value:g}"
    if not 1e-3 <= abs(value) < 1e18:  # beyond the prefixes that anybody reads
        return f"{value:.3g} {unit}"
    return _scaled(value, unit, 4, "m", "P")


def format_achieved(bound: str, bandwidth_bytes_per_s: float | None, rate_flops_per_s: float | None) -> str:
    """Print the rate that a bound is about: bandwidth when memory limits, FLOP/s when arithmetic does; missing →
    `–`.
    """
    return format_bandwidth(bandwidth_bytes_per_s) if bound == "memory" else format_flops(rate_flops_per_s, 3)


def format_percent(ratio: float | None, digits: int = 1, signed: bool = False) -> str:
    """Print a stored ratio as percent; missing → `–`."""
    if ratio is None:
        return "–"
    return f"{ratio * 100:{'+' if signed else ''}z.{digits}f} %"  # z: a zero has no minus


LARGEST_SHARED = 999.995
"""From here on two decimals print as `1000.00`: a table never says 3054.17 µs in one column and 3.222 ms in the
next.
"""
SMALLEST_SHARED = 0.0995
"""Below, a time is printed in its own unit: two decimals would leave one digit."""
LARGEST_STRETCHED = 9999.95
"""Up to here a time is printed in the unit of the smallest, where no larger one prints that: 1200.0 ms, not 1.20 s
above 93.84 ms.
"""


def shared_prefix(*columns_s: Sequence[float | None]) -> str | None:
    """Return the prefix in which times are printed that share a column or a row (ideal, expected, interval); None: no
    time at all.

    That of the smallest time, unless the largest would take four digits before the point: [8.4e-6], [0.19e-3] → µ;
    [0.17e-3, 1.07e-3] → m; but [93.8e-3, 1.2] → m, as 93.8 ms are no time in seconds.
    """
    present = [time for column in columns_s for time in column if time]
    if not present:
        return None
    least, most = min(present), max(present)
    units = list(DECIMAL_PREFIXES)
    units = units[units.index(own_prefix(least)) : units.index("") + 1]
    unit = next((unit for unit in units if most < LARGEST_SHARED * DECIMAL_PREFIXES[unit]), "")
    is_lost = least < SMALLEST_SHARED * DECIMAL_PREFIXES[unit]
    return units[0] if is_lost and most < LARGEST_STRETCHED * DECIMAL_PREFIXES[units[0]] else unit


def in_prefix(time_s: float | None, prefix: str | None, *, is_sum: bool = False) -> str:
    """Print a time in a given unit, `0.58 ms`, `309.7 ms`; in its own below a tenth of it (`41.2 µs`) and from five
    digits before the point on.

    `is_sum`: of a column that adds up, so a small time stays in its unit, with two digits.
    """
    if not time_s or prefix is None:
        return format_time(time_s)
    value = time_s / DECIMAL_PREFIXES[prefix]
    if is_sum and 0.00095 <= value < 0.0995:
        return f"{value:.2g} {prefix}s"
    if not SMALLEST_SHARED <= value < LARGEST_STRETCHED:
        return format_time(time_s)
    return f"{value:.2f} {prefix}s" if value < 99.995 else f"{value:.1f} {prefix}s"


def column_times(times_s: Sequence[float | None]) -> list[str]:
    """Print the times of a column in one unit: [93.84e-3, 1.2] → ["93.84 ms", "1200.0 ms"]; missing → `–`.

    Too far apart for one, each in its own: [12.35e-9, 38e-3] → ["12.35 ns", "38 ms"].
    """
    prefix, present = shared_prefix(times_s), [time for time in times_s if time]
    if prefix is not None and min(present) < SMALLEST_SHARED * DECIMAL_PREFIXES[prefix]:
        prefix = None
    return [in_prefix(time_s, prefix) for time_s in times_s]


def interval_in_prefix(low_s: float, high_s: float, prefix: str | None, beside: str) -> str:
    """Print an interval, `55.10–70.20`, without the unit where the time `beside` it has the same."""
    low, high = in_prefix(low_s, prefix), in_prefix(high_s, prefix)
    is_shared = len({text.split()[-1] for text in (low, high, beside)}) == 1
    return f"{low.split()[0]}–{high.split()[0]}" if is_shared else f"{low}–{high}"


def format_speedup(ratio: float | None) -> str:
    """Print a speed-up as people say it: `4.0×`, `0.97×`, `0.08×`, `120×`; a slowdown of half a percent is never
    `1.0×`. Missing → `–`.
    """
    if ratio is None:
        return "–"
    return f"{ratio:.0f}×" if ratio >= 99.5 else f"{ratio:.1f}×" if ratio >= 0.995 else f"{ratio:.2g}×"


def own_prefix(time_s: float) -> str:
    """Return the prefix that prints a time with one to three digits before the point."""
    chosen = "p"
    for name in ("p", "n", "µ", "m", ""):
        # The margin keeps 999.999 ns from printing as "1000.00 ns".
        if time_s >= DECIMAL_PREFIXES[name] * 0.99995:
            chosen = name
    return chosen


def format_rate(tokens_per_s: float) -> str:
    """Print tokens per second with one decimal below a thousand, two below ten."""
    if tokens_per_s >= 999.95:
        return f"{tokens_per_s:,.0f}"
    return f"{tokens_per_s:.1f}" if tokens_per_s >= 9.995 else f"{tokens_per_s:.2f}"
