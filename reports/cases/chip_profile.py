"""The chip of a stored run: a report uses the numbers of that day, not today's file."""

from __future__ import annotations

from roofline_model.chips.hardware import device_from_profile

__all__ = ["device_from_profile"]
