"""Text from outside (labels, reasons, device names) made safe to show, and stored facts in words.

HTML escaping is the template's task; this is about what no escaping mends: control and bidirectional characters
that break SVG or turn a sentence round, and labels of a hundred kilobytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from roofline_model.core.units import DECIMAL_PREFIXES, counted, format_memory, format_percent
from roofline_model.operators.case import regime_title, regime_words

__all__ = ["SHOWN_CHARACTERS", "counted", "prefixed", "regime_title", "regime_words", "shown", "stored_text"]

SHOWN_CHARACTERS = 240
"""Longer texts are cut here; the store keeps them whole."""
NO_BREAK = "\u00a0"
"""A space at which no line ends."""
_HARMLESS = f"{NO_BREAK}\t\n\r"
"""Spaces that `isprintable` does not count among what can be printed."""
WORD_CHARACTERS = 400
"""No kernel, path or label that people give is longer without a blank."""
TEXT_CHARACTERS = 4_000
"""No sentence or cell of ours is longer: the label of a run, at most."""
_LONG_WORD = re.compile(rf"\S{{{WORD_CHARACTERS + 1},}}")
STORED_CHARACTERS = 1_000
"""The same for the API's answers."""


def shown(text: object, limit: int = SHOWN_CHARACTERS) -> str:
    """Return `text` as one printable line of at most `limit` characters; what cannot be printed becomes `�`."""
    raw = str(text)
    if len(raw) <= limit and raw.isprintable() and "  " not in raw and raw == raw.strip(" "):
        return raw  # nearly all of them: one line already
    cut = re.sub(r"\s+", " ", raw[: limit * 4]).strip()
    printable = "".join(ch if ch.isprintable() else "�" for ch in cut)
    return printable if len(printable) <= limit and len(raw) <= limit * 4 else printable[: limit - 1] + "…"


def bounded(text: str) -> str:
    """Return a text that may hold names from outside, fit to be read: a word of more than `WORD_CHARACTERS` is cut, and
    the whole behind `TEXT_CHARACTERS`. Blocks are printed so; nobody who makes one has to think of it.
    """
    if len(text) <= WORD_CHARACTERS:
        return text
    return _LONG_WORD.sub(lambda word: f"{word[0][: WORD_CHARACTERS - 1]}…", text[:TEXT_CHARACTERS])


def printable(text: str) -> str:
    """Return `bounded` text whose control characters are `�`."""
    return without_controls(bounded(text))


def without_controls(text: str) -> str:
    """Return a text whose control characters, those that turn its direction among them, are `�`."""
    if text.isprintable():
        return text
    return "".join(ch if ch.isprintable() or ch in _HARMLESS else "�" for ch in text)


def stored_text(text: str) -> str:
    """Return a stored text for an answer over HTTP: cleaned, at most a thousand characters."""
    is_clean = len(text) <= STORED_CHARACTERS and text.isprintable() and "  " not in text and text == text.strip(" ")
    return text if is_clean else shown(text, STORED_CHARACTERS)  # nearly all are: an answer has thousands of them


def prefixed(value: float | None, unit: str, digits: int = 3) -> str:
    """Print a value in SI with the prefix that reads best, from pico to peta: 2.5e-5 J → `25 µJ`; missing → `–`."""
    if value is None:
        return "–"
    rounded = float(f"{value:.{digits}g}")
    if rounded == 0 or rounded - rounded != 0:  # zero, infinite, not a number
        return f"{rounded:g} {unit}"
    fitting = [name for name, scale in DECIMAL_PREFIXES.items() if abs(rounded) >= scale * (1 - 1e-12)]
    chosen = fitting[-1] if fitting else "p"
    text = f"{rounded / DECIMAL_PREFIXES[chosen]:.{digits}g}"
    return f"{float(text):g} {chosen}{unit}" if "e" in text else f"{text} {chosen}{unit}"


_CACHE_MEANINGS = {
    "cold": "every call finds operands of its own in memory",
    "flushed": "the caches are overwritten before each call",
    "warm": "calls follow each other on the same operands, which stay in cache where they fit",
}
_MODE_MEANINGS = {
    "graph": "replay of a captured CUDA graph: no launch by the host between the calls",
    "burst": "short, after the chip has recovered: the first milliseconds, at full boost",
    "sustained": "after power and clock have become flat: what the chip holds for long",
}


def regime_meanings(regimes: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return (word, meaning) of every cache state and mode of some regimes (cache, mode), in their order."""
    meanings: dict[str, str] = {}
    for cache, mode in regimes:
        if cache in _CACHE_MEANINGS:
            meanings.setdefault(regime_words(cache, "eager"), _CACHE_MEANINGS[cache])
        if mode in _MODE_MEANINGS:
            meanings.setdefault(mode, _MODE_MEANINGS[mode])
    return tuple(meanings.items())


_WORDS = {
    "cpu": "CPU", "cpu_count": "CPUs", "cpu_cache_bytes": "CPU cache", "memory_bytes": "memory", "os": "operating system", "load_1min": "load before the run (1 minute)",
    "machine": "architecture", "python": "Python", "method_version": "version of the method", "threads": "threads used", "torch": "PyTorch", "torch_build": "PyTorch build",
    "torch_commit": "PyTorch commit", "torch_cuda": "CUDA of PyTorch", "numpy": "NumPy", "triton": "Triton", "governor": "CPU governor", "smt": "SMT (two threads per core)",
    "ecc": "ECC", "ecc_pending": "ECC after the next reset", "mig": "MIG", "vbios": "VBIOS", "cuda_runtime": "CUDA runtime", "cublas": "cuBLAS", "cudnn": "cuDNN",
    "cusparselt": "cuSPARSELt", "blas": "BLAS", "numa_node_count": "NUMA nodes", "online_cpus": "CPUs online", "allowed_cpus": "CPUs allowed", "isolated_cpus": "CPUs isolated",
    "cpu_quota_ratio": "CPU quota", "git": "git",
}  # fmt: skip
"""Facts whose words are more than their key without underscores."""
_UNITS = {"bytes": None, "hz": "Hz", "w": "W", "s": "s", "c": "°C", "ratio": None, "count": None}
"""Unit at the end of a key → unit that is printed; None: printed in another way, or without one."""


def saved_share(saved_ratio: float | None) -> str:
    """Return what is saved of the 16-bit bytes: `75 %`; `2× bytes` where they grow; `–` where it is not known."""
    if saved_ratio is not None and saved_ratio < 0:
        return f"{1 - saved_ratio:.2g}× bytes"
    return format_percent(saved_ratio, 0)


def environment_words(facts: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return (key, text) pairs as (words, text for people); what is not understood stays as it is."""
    return [(fact_words(key), fact_text(key, text)) for key, text in facts]


def fact_words(key: str) -> str:
    """Return a key in plain words, without its unit: `cpu_cache_bytes` → `CPU cache`; parts of a nested key are joined
    by commas.
    """
    parts = []
    for part in key.split("."):
        stem, _, unit = part.rpartition("_")
        words = _WORDS.get(part) or (stem if unit in _UNITS and stem else part).replace("_", " ")
        parts.append("CPU" + words[3:] if words.startswith("cpu ") else words)
    return shown(", ".join(parts), 120)


def change_words(key: str, before: str, after: str) -> str:
    """Return what a fact became, for people: `NUMA nodes unknown → 1`."""
    return f"{fact_words(key)} {fact_text(key, before)} → {fact_text(key, after)}"


def fact_text(key: str, text: str) -> str:
    """Return a value for people: 33554432 bytes → `33.55 MB`, a load → two digits, True → `yes`; text stays text."""
    if text in ("True", "False"):
        return "yes" if text == "True" else "no"
    value = _number(text)
    if value is None:
        return text
    unit = key.rpartition("_")[2]
    if unit == "bytes":
        return format_memory(value)
    if unit == "ratio":
        return format_percent(value, 0)
    if key.rpartition(".")[2].startswith("load_"):
        return f"{value:.2f}"
    printed = _UNITS.get(unit)
    if printed in ("Hz", "s"):
        return prefixed(value, printed, 4)
    return f"{value:g} {printed}" if printed else text


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if value - value == 0 else None  # neither infinite nor not a number


def utc_minutes(timestamp: str | None) -> str:
    """Print a stored UTC time to the minute: `2026-11-21 09:08 UTC`; what is no ISO time is shown as it is."""
    from datetime import UTC, datetime

    if not timestamp:
        return "–"
    try:
        moment = datetime.fromisoformat(timestamp)
    except ValueError:
        return shown(timestamp, 40)
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return f"{moment:%Y-%m-%d %H:%M} UTC"
