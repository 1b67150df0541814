"""Measurement: the pytest glue and the instruments. Entered through `roofline_pytest` only."""

__roofline_bench__ = True  # tells our package from another one of this common name

__version__ = "0.1.0"
METHOD_VERSION = "2"
"""Changes whenever the same kernel on the same machine would be timed differently; part of every history key."""
