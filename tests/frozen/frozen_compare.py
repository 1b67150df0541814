"""Compares an answer with the frozen one: everything identical, numbers to 1e-12 relative, ties of a ranking as sets.

A part of a time may be the difference of two longer times: it agrees to 1e-12 of all parts together.

A ranking is a list under the name `options`, each with a `key`: neighbours that are equal in all of `TIE_FIELDS` may
change places among themselves, nothing else may.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

RELATIVE_TOLERANCE = 1e-12
TIE_FIELDS = ("time_s", "low_s", "high_s", "loss_pct", "memory_bytes")


def differences(frozen: Any, answer: Any, path: str = "") -> list[str]:
    """Return every difference of `answer` from `frozen` as `path: old -> new`; empty where they agree."""
    return list(_differences(frozen, answer, path))


def are_equal_numbers(first: float, second: float, whole: float = 0.0) -> bool:
    """Return whether two numbers agree to `RELATIVE_TOLERANCE` of the larger one, or of the `whole` that they are parts
    of.
    """
    return first == second or abs(first - second) <= RELATIVE_TOLERANCE * max(abs(first), abs(second), whole)


def _differences(frozen: Any, answer: Any, path: str, whole: float = 0.0) -> Iterator[str]:
    if _is_number(frozen) and _is_number(answer):
        if not are_equal_numbers(frozen, answer, whole):
            yield f"{path}: {frozen!r} -> {answer!r}{_relative(frozen, answer)}"
    elif isinstance(frozen, Mapping) and isinstance(answer, Mapping):
        parts = [abs(part) for part in frozen.values() if _is_number(part)] if path.endswith(("parts", "terms")) else []
        for name in [*frozen, *(name for name in answer if name not in frozen)]:
            inner = f"{path}.{name}" if path else name
            if name not in answer:
                yield f"{inner}: {_short(frozen[name])} -> nothing"
            elif name not in frozen:
                yield f"{inner}: nothing -> {_short(answer[name])}"
            else:
                yield from _differences(frozen[name], answer[name], inner, sum(parts))
    elif isinstance(frozen, Sequence) and isinstance(answer, Sequence) and not isinstance(frozen, str):
        yield from _of_lists(frozen, answer, path)
    elif type(frozen) is not type(answer) or frozen != answer:
        yield f"{path}: {_short(frozen)} -> {_short(answer)}"


def _of_lists(frozen: Sequence[Any], answer: Sequence[Any], path: str) -> Iterator[str]:
    if path.rpartition(".")[2] == "options" and _is_ranking(frozen) and _is_ranking(answer):
        yield from _of_rankings(frozen, answer, path)
        return
    if len(frozen) != len(answer):
        yield f"{path}: {len(frozen)} entries -> {len(answer)}: {_short(frozen)} -> {_short(answer)}"
        return
    for place, (first, second) in enumerate(zip(frozen, answer, strict=True)):
        yield from _differences(first, second, f"{path}[{place}]")


def _of_rankings(frozen: Sequence[Any], answer: Sequence[Any], path: str) -> Iterator[str]:
    old, new = [option["key"] for option in frozen], [option["key"] for option in answer]
    by_key = {option["key"]: option for option in answer}
    place = 0
    for tied in _tied(frozen):
        if set(old[place : place + tied]) != set(new[place : place + tied]):
            yield f"{path}: order {', '.join(old)} -> {', '.join(new)}"
            break
        place += tied
    else:
        if len(new) > len(old):
            yield f"{path}: order {', '.join(old)} -> {', '.join(new)}"
    for option in frozen:
        if option["key"] in by_key:
            yield from _differences(option, by_key[option["key"]], f"{path}[{option['key']}]")


def _is_ranking(options: Sequence[Any]) -> bool:
    keys = [option.get("key") if isinstance(option, Mapping) else None for option in options]
    return None not in keys and len(set(keys)) == len(keys)


def _tied(options: Sequence[Any]) -> list[int]:
    """Return the lengths of the runs of neighbours that are equal in all of `TIE_FIELDS`."""
    lengths: list[int] = []
    for place, option in enumerate(options):
        before = options[place - 1] if place else None
        is_level = before is not None and all(
            not differences(before.get(name), option.get(name)) for name in TIE_FIELDS
        )
        if is_level:
            lengths[-1] += 1
        else:
            lengths.append(1)
    return lengths


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _relative(first: float, second: float) -> str:
    return f" ({second / first - 1:+.2g})" if first else ""


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 160 else f"{text[:157]}..."
