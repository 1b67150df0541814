"""Findings: what to know about an answer, as a code with values. Their words live in one catalog, `findings.toml`.

Domain code builds findings and compares codes; only a surface (terminal, page, Markdown, API) asks for words.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, Literal

from roofline_model.core.errors import RooflineError, UnsupportedError
from roofline_model.core.units import (
    format_bandwidth,
    format_clock,
    format_flops,
    format_memory,
    format_percent,
    format_rate,
    format_time,
)

Severity = Literal["info", "caution", "warning"]
"""info: context. caution: weakens the number it stands beside. warning: do not act on the number before this is
settled.
"""
SEVERITIES: tuple[Severity, ...] = ("warning", "caution", "info")
"""Most severe first."""
Value = str | int | float | bool | tuple[str, ...]


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


def finding(code: str, subject: str = "", **values: Value | None) -> Finding:
    """Return a finding with its values given by name; those that are None are not known and left out.

    >>> finding("kernel-gap", "NVFP4", hardware="h100-sxm").value("hardware")
    'h100-sxm'
    """
    return Finding(code, subject, tuple([(name, value) for name, value in values.items() if value is not None]))


def has_code(findings: Iterable[Finding], code: str, kind: str | None = None) -> bool:
    """Return whether one of the findings has the code, of the kind where one is named."""
    return any(item.code == code and kind in (None, item.value("kind")) for item in findings)


def unsupported(item: Finding) -> UnsupportedError:
    """Return the error of a finding that makes an answer impossible; its message is the finding's line."""
    return UnsupportedError(short_text(item), item)


def finding_of(error: RooflineError) -> Finding:
    """Return why something is not possible, as the error has it."""
    item = getattr(error, "finding", None)
    return item if isinstance(item, Finding) else finding("unsupported", reason=str(error))


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
    """What it means, why it matters, what to do: a paragraph for `roofline explain CODE` and
    docs/reference/findings.md."""
    fix: str = ""
    """The command or step that mends it, with values in braces as in `short`; empty where there is none."""
    kinds: Mapping[str, str] = field(default_factory=dict)
    """Value of `kind` → the words of that circumstance, as in `short`, where one code covers several."""


@cache
def catalog() -> Mapping[str, CatalogEntry]:
    """Return every code's entry, in the order of the file."""
    text = files("roofline_model.core").joinpath("findings.toml").read_text(encoding="utf-8")
    return {
        code: CatalogEntry(code, **entry | {"explanation": entry["explanation"].strip()})
        for code, entry in tomllib.loads(text).items()
    }


def catalog_entry(code: str) -> CatalogEntry:
    """Return the entry of a code; an unknown one (a newer version's, in an imported run) is shown by its code."""
    return catalog().get(code) or CatalogEntry(code, "info", code, "A code that this version does not know.")


_SEGMENT = re.compile(r"\[([^\[\]]*)\]")
_NAME = re.compile(r"\{(\w+)\}")


def value_names(short: str, *, is_optional: bool) -> frozenset[str]:
    """Return the values that a catalog line needs, or those of its segments in brackets, which may be missing."""
    lines = _SEGMENT.findall(short) if is_optional else [_SEGMENT.sub("", short)]
    return frozenset(name for line in lines for name in _NAME.findall(line))


@lru_cache(4096)  # what holds of a format or a chip is said in every answer about it
def short_text(item: Finding) -> str:
    """Return the finding in one line, its values printed by the unit that their names end in.

    A segment in brackets is left out where one of its values is not given.
    """
    return _filled(catalog_entry(item.code).short, _texts(item))


def code_text(code: str) -> str:
    """Return the line of a code whose values are not known; what is no code stays as it is."""
    return short_text(Finding(code)) if code in catalog() else code


def fix_text(item: Finding) -> str:
    """Return the command or step that mends it; empty where there is none."""
    return _filled(catalog_entry(item.code).fix, _texts(item))


def advice_text(item: Finding) -> str:
    """Return the finding in one line with what mends it."""
    return "; ".join(filter(None, (short_text(item), fix_text(item))))


def _texts(item: Finding) -> dict[str, str]:
    """Return name → printed value; a kind is printed by its words, which may name the other values."""
    texts = {"subject": item.subject, **{name: value_text(name, value) for name, value in item.values}}
    kind_words = catalog_entry(item.code).kinds.get(texts.get("kind", ""))
    return texts if kind_words is None else texts | {"kind": _filled(kind_words, texts)}


def _filled(line: str, texts: Mapping[str, str]) -> str:
    return "".join(
        texts.get(name, "–") if name else text
        for is_optional, parts in _parsed(line)
        if not is_optional or all(name in texts for name, _ in parts if name)
        for name, text in parts
    )


@cache
def _parsed(line: str) -> tuple[tuple[bool, tuple[tuple[str, str], ...]], ...]:
    """Return a catalog line as segments (in brackets or not), each of (name of a value, text between the names)."""
    segments = []
    for place, segment in enumerate(_SEGMENT.split(line)):
        parts = ((part, "") if is_name % 2 else ("", part) for is_name, part in enumerate(_NAME.split(segment)))
        segments.append((bool(place % 2), tuple(part for part in parts if any(part))))
    return tuple(segments)


def subject_text(item: Finding) -> str:
    """Return the same with its subject before it, where the line does not name it: for a list of several subjects'."""
    entry = catalog_entry(item.code)
    line = entry.short + entry.kinds.get(str(item.value("kind")), "")
    is_named = not item.subject or "{subject}" in line
    return short_text(item) if is_named else f"{item.subject}: {short_text(item)}"


def reason_text(item: Finding | None) -> str:
    """Return why there is no answer, with its subject; empty where there is one."""
    return "" if item is None else subject_text(item)


def optional_text(item: Finding | None) -> str | None:
    """Return the finding in one line; None where there is none."""
    return None if item is None else short_text(item)


def first_with(findings: Iterable[Finding], code: str) -> Finding | None:
    """Return the first finding of a code; None where there is none."""
    for item in findings:
        if item.code == code:
            return item
    return None


def stored_form(item: Finding) -> dict[str, Any]:
    """Return the finding as databases and exports keep it: code, subject and values; severity and words are the
    catalog's.
    """
    values = {name: list(value) if isinstance(value, tuple) else value for name, value in item.values}
    return {"code": item.code, "subject": item.subject, "values": values}


def from_stored(form: Mapping[str, Any]) -> Finding:
    """Return the finding of a `stored_form`. Raises `KeyError` or `TypeError` for what is none."""
    values = (
        (str(name), tuple(map(str, value)) if isinstance(value, list) else value)
        for name, value in form["values"].items()
    )
    return Finding(str(form["code"]), str(form["subject"]), tuple(values))


def finding_json(item: Finding) -> dict[str, Any]:
    """Return the finding as answers in JSON have it: `stored_form` with its severity and its line of words."""
    form = stored_form(item)
    return {"code": form.pop("code"), "severity": item.severity, **form, "text": short_text(item)}


def findings_json(items: Iterable[Finding | None]) -> list[dict[str, Any]]:
    """Return findings as answers in JSON have them, each once; those that are None are left out."""
    return [finding_json(item) for item in dict.fromkeys(items) if item is not None]


def findings_text(items: Iterable[Finding]) -> str:
    """Return findings in one line, joined by semicolons."""
    return "; ".join(map(short_text, items))


def times_text(ratio: float) -> str:
    """Return a speed-up or slow-down as people say it.

    >>> times_text(3.52), times_text(1.003), times_text(120.3)
    ('3.5×', '1.00×', '120×')
    """
    return f"{ratio:.0f}×" if ratio >= 99.5 else f"{ratio:.2f}×" if 0.95 <= ratio < 1.05 else f"{ratio:.1f}×"


def _two_digits(ratio: float) -> str:
    return f"{ratio:.2f}×"


_FORMATS: Mapping[str, Callable[[float], str]] = {
    "seeds_speedup_ratio": lambda ratio: f"{ratio:.1f}x",  # as the original documents print it
    "speedup_ratio": times_text,
    "slowdown_ratio": _two_digits,
    "change_ratio": lambda ratio: format_percent(ratio, signed=True),
    "tokens_per_s": format_rate,
    "_bytes_per_s": format_bandwidth,
    "_flops_per_s": format_flops,
    "_bytes": format_memory,
    "_hz": format_clock,
    "_pct": lambda percent: f"{percent:.3g} %",
    "_ratio": format_percent,
    "_factor": lambda value: f"{value:.2g}",
    "_s": format_time,
}


def value_text(name: str, value: Value) -> str:
    """Return a value as a surface prints it: `time_s` with its prefix, `_ratio` in percent, `_pct` as it is, lists
    joined.

    >>> value_text("time_s", 3.2e-5), value_text("loss_pct", 1.53), value_text("formats", ("INT4", "NVFP4"))
    ('32 µs', '1.53 %', 'INT4, NVFP4')
    """
    if isinstance(value, tuple):
        return ", ".join(value)
    if isinstance(value, bool | str):
        return str(value)
    formatted = _formatter(name)
    if formatted is not None:
        return formatted(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


@cache
def _formatter(name: str) -> Callable[[float], str] | None:
    """Return how a value of a name is printed; None for one without a unit in it."""
    return next((formatted for suffix, formatted in _FORMATS.items() if name.endswith(suffix)), None)
