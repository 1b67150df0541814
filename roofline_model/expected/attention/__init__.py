"""Expected time of fused attention, prefill and decode: the work, the time, the constants of each chip."""

from __future__ import annotations
