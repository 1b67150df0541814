"""Whole decoder models: their shapes, the operators of one step, time, memory, and what bounds them."""
