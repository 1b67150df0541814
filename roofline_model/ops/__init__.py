"""Operators of a transformer: attention, projections, feed-forward, elementwise, cache and quantise kernels, each with its counted cost."""
