"""Chips, formats, models and this machine's sensors."""
