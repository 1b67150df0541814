"""The first schema: where the scripts of later ones begin. `results/store/schema.py` makes its tables."""

from __future__ import annotations

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None
