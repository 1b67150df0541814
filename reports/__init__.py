"""Answers for readers: records and rankings in, frozen views out, as words, plots, pages and JSON. Nothing measures."""

__roofline_bench__ = True  # tells our package from another one of this common name
