"""`bench_cases.quantization.layer_role`: which part of a decoder a Linear is. The names are read in one place, by the
model.
"""

from __future__ import annotations

from roofline_model.models.strategies.module_names import ROLES, layer_role

__all__ = ["ROLES", "layer_role"]
