"""Dual rooflines drawn in characters."""
