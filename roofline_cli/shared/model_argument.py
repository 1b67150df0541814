"""Which model `--model` means where a shape is enough: a shipped or seeded name, a folder or config.json, a cached id."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from roofline_model.models.model_shapes import ModelShape


def find_model_shape(name: str) -> ModelShape:
    """Return the shape named by `--model`; raises a `RooflineError` that says what to type instead."""
    from bench_cases.models.seeded_llamas import SEEDED_LLAMAS
    from roofline_model.models.model_registry import get_model

    seeded = SEEDED_LLAMAS.get(name.strip())
    return get_model(name) if seeded is None else seeded.shape()
