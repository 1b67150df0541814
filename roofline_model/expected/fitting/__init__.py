"""Tables of measured kernels, fitting of constants to them, and errors on rows that were not fitted."""

from __future__ import annotations
