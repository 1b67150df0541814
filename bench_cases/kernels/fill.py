"""What operands are filled with. Data decide power, and through the clock they decide time: it is stored with each case.

An H100 loses 6 % of its rate on one matrix product between easy and hard mantissas (CUTLASS issue 2004).
"""

from __future__ import annotations

SEED = 20240

FILL = f"uniform [-1, 1), seed {SEED} + role and size"
"""Stored as `extra["fill"]` of every record of bench_cases."""
