"""A report as a sequence of blocks."""
