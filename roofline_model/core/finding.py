"""Findings: what to know about an answer, as a code with values. Their words live in one catalog, `findings.toml`.

Domain code builds findings and compares codes; only a surface (terminal, page, Markdown, API) asks for words.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

from roofline_model.units import (
    format_bandwidth,
    format_flops,
    format_memory,
    format_percent,
    format_time,
)

Severity = Literal["info", "caution", "warning"]
"""info: context. caution: weakens the number it stands beside. warning: do not act on the number before this is settled."""
SEVERITIES: tuple[Severity, ...] = ("warning", "caution", "info")
"""Most severe first."""
Value = str | int | float | bool | tuple[str, ...]

LEGACY_CODE = "legacy-note"
"""The code of a stored text that no code stands for."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to know about an estimate, an option, a ranking, a record or a run."""

    code: str
    """A key of the catalog: `kernel-gap`, `extrapolated`, …"""
    subject: str = ""
    """What it is about where that is not the answer that carries it: an option's label, a case id, a chip key."""
    values: tuple[tuple[str, Value], ...] = ()
    """Name → value, in the order given; names end in their unit, as fields do."""

    @property
    def severity(self) -> Severity:
        """How much it matters, from the catalog."""
        return catalog_entry(self.code).severity

    def value(self, name: str) -> Value | None:
        """Return the value of a name; None where the finding has none of that name."""
        return next((value for key, value in self.values if key == name), None)


def finding(code: str, subject: str = "", **values: Value) -> Finding:
    """Return a finding with its values given by name.

    >>> finding("kernel-gap", "NVFP4", hardware="h100-sxm").value("hardware")
    'h100-sxm'
    """
    return Finding(code, subject, tuple(values.items()))


def has_code(findings: Iterable[Finding], code: str) -> bool:
    """Return whether one of the findings has the code."""
    for item in findings:  # noqa: SIM110  # a generator takes twice as long, and rankings ask this of every option
        if item.code == code:
            return True
    return False


def by_severity(findings: Iterable[Finding]) -> list[Finding]:
    """Return each finding once, the most severe first, otherwise in the order given."""
    return sorted(dict.fromkeys(findings), key=lambda item: SEVERITIES.index(item.severity))


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """The words of one code."""

    code: str
    severity: Severity
    short: str
    """One line with the values in braces: `no kernel for {format} on {hardware}`."""
    explanation: str
    """What it means, why it matters, what to do: a paragraph for `roofline explain CODE` and docs/findings.md."""


@cache
def catalog() -> Mapping[str, CatalogEntry]:
    """Return every code's entry, in the order of the file."""
    text = files("roofline_model.core").joinpath("findings.toml").read_text(encoding="utf-8")
    return {
        code: CatalogEntry(code, entry["severity"], entry["short"], entry["explanation"].strip())
        for code, entry in tomllib.loads(text).items()
    }


def catalog_entry(code: str) -> CatalogEntry:
    """Return the entry of a code; an unknown one (a newer version's, in an imported run) is shown by its code."""
    return catalog().get(code) or CatalogEntry(code, "info", code, "A code that this version does not know.")


def short_text(item: Finding) -> str:
    """Return the finding in one line, its values printed by the unit that their names end in."""
    shown = {name: value_text(name, value) for name, value in item.values}
    return catalog_entry(item.code).short.format_map({"subject": item.subject, **shown})


def findings_text(items: Iterable[Finding]) -> str:
    """Return findings in one line, joined by semicolons."""
    return "; ".join(map(short_text, items))


def times_text(ratio: float) -> str:
    """Return a speed-up or slow-down as people say it.

    >>> times_text(3.52), times_text(1.003), times_text(120.3)
    ('3.5x', '1.00x', '120x')
    """
    return f"{ratio:.0f}x" if ratio >= 99.5 else f"{ratio:.2f}x" if 0.95 <= ratio < 1.05 else f"{ratio:.1f}x"


def _two_digits(ratio: float) -> str:
    return f"{ratio:.2f}x"


_FORMATS: Mapping[str, Callable[[float], str]] = {
    "speedup_ratio": times_text,
    "slowdown_ratio": _two_digits,
    "_bytes_per_s": format_bandwidth,
    "_flops_per_s": format_flops,
    "_bytes": format_memory,
    "_ratio": format_percent,
    "_s": format_time,
}


def value_text(name: str, value: Value) -> str:
    """Return a value as a surface prints it: `time_s` with its prefix, `_ratio` in percent, `_pct` as it is, lists joined.

    >>> value_text("time_s", 3.2e-5), value_text("loss_pct", 1.53), value_text("formats", ("INT4", "NVFP4"))
    ('32 µs', '1.53 %', 'INT4, NVFP4')
    """
    if isinstance(value, tuple):
        return ", ".join(value)
    if isinstance(value, bool | str):
        return str(value)
    if name.endswith("_pct"):
        return f"{value:.3g} %"
    for suffix, formatted in _FORMATS.items():
        if name.endswith(suffix):
            return formatted(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
