"""Kernels of matrix products, one per weight format, activation format and device."""
