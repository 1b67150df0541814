"""The words for how a case was run: cache state and mode. Cases of two regimes answer two questions and are never compared."""

from __future__ import annotations

from collections.abc import Iterable

from reports.text.display_text import shown

Regime = tuple[str, str]
"""(cache, mode) as `Case` keeps them."""

_CACHE_WORDS = {"cold": "cold", "flushed": "flushed", "warm": "hot (warm)", "none": ""}
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
_CACHE_RANKS = ("cold", "flushed", "none", "warm")
_MODE_RANKS = ("eager", "graph", "sustained", "burst")


def regime_words(cache: str, mode: str) -> str:
    """Return `cold`, `hot (warm)`, `flushed, graph`, …; eager is not said, and `as it comes` when nothing was arranged."""
    words = [_CACHE_WORDS.get(cache, shown(cache, 30)), "" if mode == "eager" else shown(mode, 30)]
    return ", ".join(word for word in words if word) or "as it comes"


def regime_title(cache: str, mode: str) -> str:
    """Return what a title adds to its shape: nothing for the usual regime (cold or as it comes, eager), else the words."""
    return "" if mode == "eager" and cache in ("cold", "none") else regime_words(cache, mode)


def regime_rank(cache: str, mode: str) -> tuple[int, int]:
    """Return the place of a regime: the first judges a run, because a model's weights rarely stay in cache."""
    modes = _MODE_RANKS.index(mode) if mode in _MODE_RANKS else len(_MODE_RANKS)
    return modes, _CACHE_RANKS.index(cache) if cache in _CACHE_RANKS else len(_CACHE_RANKS)


def regime_meanings(regimes: Iterable[Regime]) -> tuple[tuple[str, str], ...]:
    """Return (word, meaning) of every cache state and mode that occurs, in the order of `regime_rank`."""
    meanings: dict[str, str] = {}
    for cache, mode in sorted(set(regimes), key=lambda one: regime_rank(*one)):
        if cache in _CACHE_MEANINGS:
            meanings.setdefault(_CACHE_WORDS[cache], _CACHE_MEANINGS[cache])
        if mode in _MODE_MEANINGS:
            meanings.setdefault(mode, _MODE_MEANINGS[mode])
    return tuple(meanings.items())
