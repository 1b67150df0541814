"""Fitting of constants to measured kernels, and errors on rows that were not fitted."""

from __future__ import annotations
