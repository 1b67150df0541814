"""The expected time: what a good kernel reaches on a chip, with an interval and a provenance.

`predict.py` answers one call; `gemm_model.py` and `attention_model.py` whole arrays; `library.py` finds the constants.
"""

from __future__ import annotations
