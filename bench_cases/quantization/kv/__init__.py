"""Narrow key-value caches."""
