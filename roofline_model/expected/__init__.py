"""The expected time: what a good kernel reaches on a chip, with an interval and a provenance.

`predict.py` answers one call. `products/` and `attention/` hold the two models for whole arrays of shapes, with the
constants they find for a chip; `calibrated.py` answers by what a machine measured of itself; `fitting/` reads tables of
measured kernels and makes constants of them. The fitted constants lie in `constants/`.
"""

from __future__ import annotations
