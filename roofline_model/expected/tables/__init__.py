"""Tables of measured kernels: reading them, and predicting their rows."""

from __future__ import annotations
