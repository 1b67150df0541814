"""Where labels go, so that none covers another, a line or a point. Pure geometry in pixels; what is placed is a convex polygon.

A `Field` holds what is drawn. Every label tries its places in the order it would like them and takes the first free one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

Position = tuple[float, float]
Polygon = tuple[Position, ...]
"""Corners of a convex shape in order; two corners are a line."""

_CELL = 48.0


class Field:
    """What labels must keep clear of, by kind, found again by place: thousands of points cost a search no more than dozens."""

    def __init__(self, width: float, height: float) -> None:
        self.width, self.height = width, height
        self._cells: dict[tuple[int, int], list[tuple[Polygon, str]]] = {}
        self._known: set[tuple[Polygon, str]] = set()

    def add(self, polygon: Polygon, kind: str) -> None:
        """Keep a place taken; the same place (to three pixels) is kept once."""
        rounded = tuple((round(x / 3), round(y / 3)) for x, y in polygon)
        if (rounded, kind) not in self._known:
            self._known.add((rounded, kind))
            for cell in self._cells_of(polygon):
                self._cells.setdefault(cell, []).append((polygon, kind))

    def hits(self, polygon: Polygon) -> Counter[str]:
        """Count what a polygon would cover, by kind."""
        met = {id(one[0]): one for cell in self._cells_of(polygon) for one in self._cells.get(cell, ())}
        return Counter(kind for other, kind in met.values() if overlap(polygon, other))

    def is_free(self, polygon: Polygon) -> bool:
        """Return whether a polygon lies inside the field and covers nothing."""
        if not self.holds(polygon):
            return False
        seen: set[int] = set()
        for cell in self._cells_of(polygon):
            for other, _ in self._cells.get(cell, ()):
                if id(other) not in seen:
                    seen.add(id(other))
                    if overlap(polygon, other):  # the first is enough: a crowded place is refused at once
                        return False
        return True

    def holds(self, polygon: Polygon) -> bool:
        """Return whether a polygon lies inside the field."""
        return all(0 <= x <= self.width and 0 <= y <= self.height for x, y in polygon)

    def _cells_of(self, polygon: Polygon) -> Iterable[tuple[int, int]]:
        xs, ys = [x for x, _ in polygon], [y for _, y in polygon]
        # What sticks out of the field is cut off: a line may end far outside.
        columns = (int(min(max(x, 0.0), self.width) // _CELL) for x in (min(xs), max(xs)))
        rows = (int(min(max(y, 0.0), self.height) // _CELL) for y in (min(ys), max(ys)))
        first, last = columns
        low, high = rows
        return ((i, j) for i in range(first, last + 1) for j in range(low, high + 1))


def rectangle(center: Position, size: Position, angle: float = 0.0) -> Polygon:
    """Return a rectangle of `size` around `center`, turned by `angle` (radians)."""
    (x, y), (width, height) = center, size
    along, across = (math.cos(angle), math.sin(angle)), (-math.sin(angle), math.cos(angle))
    corners = ((-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5))
    return tuple(
        (x + a * width * along[0] + b * height * across[0], y + a * width * along[1] + b * height * across[1])
        for a, b in corners
    )


def overlap(one: Polygon, other: Polygon) -> bool:
    """Return whether two convex polygons share more than an edge or a corner (separating axes)."""
    for polygon in (one, other):
        for (x0, y0), (x1, y1) in zip(polygon, (*polygon[1:], polygon[0]), strict=True):
            normal = y0 - y1, x1 - x0
            if normal == (0.0, 0.0):
                continue
            mine = [x * normal[0] + y * normal[1] for x, y in one]
            theirs = [x * normal[0] + y * normal[1] for x, y in other]
            if max(mine) <= min(theirs) or max(theirs) <= min(mine):
                return False
    return True


def first_free(field: Field, candidates: Iterable[Polygon]) -> int | None:
    """Return the number of the first candidate that is free, or None."""
    return next((index for index, one in enumerate(candidates) if field.is_free(one)), None)


def callout_place(field: Field, size: Position, target: Position, *, clear: float, steps: int = 28) -> Position | None:
    """Return the centre of a free box of `size` whose straight arrow to `target` crosses least; None when nothing is free.

    The arrow ends `clear` pixels before the target. Crossing a point or a label costs far more than crossing a line, and
    a line costs more than a longer way.
    """
    width, height = size
    best: tuple[float, Position] | None = None
    for column in range(steps + 1):
        for row in range(steps + 1):
            x = width / 2 + (field.width - width) * column / steps
            y = height / 2 + (field.height - height) * row / steps
            away = math.dist((x, y), target)
            if away < clear or (best is not None and away >= best[0]) or not field.is_free(rectangle((x, y), size)):
                continue
            end = target[0] + (x - target[0]) * clear / away, target[1] + (y - target[1]) * clear / away
            crossed = field.hits(((x, y), end))
            lines = crossed.pop("line", 0)
            cost = away + 40.0 * lines + 400.0 * sum(crossed.values())
            if best is None or cost < best[0]:
                best = cost, (x, y)
    return best[1] if best is not None else None


def spread(wanted: Sequence[float], gap: float, low: float = 0.0, high: float = 1.0) -> list[float]:
    """Return one position per wanted one, in the same order, at least `gap` apart and inside [low, high] if they fit.

    Neighbours that would touch move apart evenly around their common mean; labels that are far apart stay put.
    """
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    if len(order) > 1:
        gap = min(gap, (high - low) / (len(order) - 1))
    # Each cluster is [sum of wanted starts, size]; a cluster that touches the one before it joins it.
    clusters: list[tuple[float, list[int]]] = []
    for index in order:
        start, members = wanted[index], [index]
        start = min(max(start, low), high)
        while clusters and start < clusters[-1][0] + gap * len(clusters[-1][1]):
            _, before = clusters.pop()
            members = before + members
            mean = sum(wanted[i] for i in members) / len(members)
            start = min(max(mean - gap * (len(members) - 1) / 2, low), high - gap * (len(members) - 1))
        clusters.append((start, members))
    placed = [0.0] * len(wanted)
    for start, members in clusters:
        start = max(low, min(start, high - gap * (len(members) - 1)))
        for rank, index in enumerate(members):
            placed[index] = start + rank * gap
    return placed
