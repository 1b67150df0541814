"""Expected time of one kernel from what this very machine measured of it: curves, their fit, and what they predict."""

from __future__ import annotations
