"""Kernels of fused attention."""
