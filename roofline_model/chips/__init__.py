"""Chips: one file of numbers each, how a machine is matched to one, and what a machine measured of itself."""
