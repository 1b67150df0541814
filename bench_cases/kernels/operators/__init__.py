"""Kernels of elementwise operators and feed-forward blocks."""
