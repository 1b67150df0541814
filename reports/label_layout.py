"""Where labels go, so that none covers another or a point. Pure geometry on fractions of the axes (0…1)."""

from __future__ import annotations

from collections.abc import Sequence

Position = tuple[float, float]


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


def free_corner(
    size: Position, obstacles: Sequence[Position], anchor: Position, *, padding: float = 0.015, steps: int = 24
) -> Position:
    """Return the lower left corner for a box of `size` that covers the fewest obstacles, nearest to `anchor` among those."""
    width, height = size
    spans = max(1 - width - 2 * padding, 0.0), max(1 - height - 2 * padding, 0.0)
    best: tuple[int, float, Position] | None = None
    for column in range(steps + 1):
        for row in range(steps + 1):
            x, y = padding + spans[0] * column / steps, padding + spans[1] * row / steps
            covered = sum(
                x - padding <= px <= x + width + padding and y - padding <= py <= y + height + padding
                for px, py in obstacles
            )
            distance = (x + width / 2 - anchor[0]) ** 2 + (y + height / 2 - anchor[1]) ** 2
            if best is None or (covered, distance) < best[:2]:
                best = (covered, distance, (x, y))
    return best[2] if best is not None else (padding, padding)
