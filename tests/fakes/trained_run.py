"""The stored run of a seeded model as if its weights were trained: what rankings do with losses over random tokens."""

from __future__ import annotations

from pathlib import Path


def as_trained(run: Path, folder: Path) -> Path:
    """Write a copy of an exported run whose models came from a folder, and return its place."""
    copy = folder / run.name
    copy.write_text(
        run.read_text(encoding="utf-8").replace('"source": "seeded"', '"source": "folder"'), encoding="utf-8"
    )
    return copy
