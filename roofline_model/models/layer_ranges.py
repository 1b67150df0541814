"""Exceptions of a format plan, layer by layer, as ranges of layers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from roofline_model.models.format_plan import FormatException


def joined_layers(exceptions: Iterable[FormatException]) -> Iterator[FormatException]:
    """Yield the exceptions with neighbouring layers of equal formats joined."""
    by_part: dict[str, list[FormatException]] = {}
    for one in exceptions:
        by_part.setdefault(one.name, []).append(one)
    for found in by_part.values():
        found.sort(key=lambda one: one.first_layer_index or 0)
        last = found[0]
        for one in found[1:]:
            if (
                last.last_layer_index is not None
                and one.first_layer_index == last.last_layer_index + 1
                and one.formats == last.formats
            ):
                last = replace(last, last_layer_index=one.last_layer_index)
                continue
            yield last
            last = one
        yield last
