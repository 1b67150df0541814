"""The expected time: what a good kernel reaches on a chip, with an interval and a provenance.

`predict.py` answers one call. `gemm/` and `attention/` hold the two models for whole arrays of shapes, with the constants
they find for a chip; `fitting/` makes such constants from measured kernels; `tables/` reads tables of measured kernels and
predicts their rows. The fitted constants lie in `constants/`.
"""

from __future__ import annotations
