"""Colours of the parts of a measured time, on white and on a dark page; hues after Okabe and Ito, as in `plot_style`."""

from __future__ import annotations

PART_INKS: dict[str, tuple[str, str]] = {
    "ideal": ("#c9d1da", "#4a5663"),
    "memory": ("#0060a8", "#58a6e8"),
    "tiles": ("#3fa2dd", "#8fd0f7"),
    "exp": ("#6a8f1f", "#b5d96a"),
    "launch": ("#d99a00", "#f5c64a"),
    "widening": ("#cc5500", "#ff9a56"),
    "host": ("#8a5a2b", "#d3a06b"),
    "supply": ("#8d4a9e", "#cf9be0"),
    "kernel": ("#00664b", "#3cc79c"),
    "clock": ("#8c2f39", "#e38a93"),
    "unexplained": ("#98a1ac", "#818c99"),
}
"""Part of `roofline_model.gap.LABELS` → (light, dark)."""

HATCHED = ("unexplained",)
"""Drawn with stripes: what the model does not know is no part like the others."""
