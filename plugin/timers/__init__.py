"""Timers, operand sets and profiling of one case."""
