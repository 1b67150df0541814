"""The sizes that `roofline calibrate` times every kernel at, to predict it at others. No torch here.

None of them is a size of the sets that are benchmarked: a kernel is never predicted by its own measurement. Two or more
sizes of a regime tell how its time grows (`roofline_model.chips.curve`).
"""

from __future__ import annotations

ORIGIN = "calibration"

SMALL, MEDIUM, LARGE = (640, 1280), (1664, 2432), (4224, 4480)
"""N and K. MEDIUM is the largest that the emulated kernels take; LARGE is beyond any cache."""

PRODUCT_SIZES = (
    *((rows, *size) for rows in (1, 8) for size in (SMALL, MEDIUM, LARGE)),
    *((rows, *size) for rows in (32, 128) for size in (SMALL, MEDIUM)),
)
"""M, N, K."""

DECODE_SIZES = ((1, 24, 8, 1, 768, 128), (1, 24, 8, 1, 3072, 128))
"""B, Hq, Hkv, Sq, Skv, D of decode steps."""

PREFILL_SIZES = (
    (1, 24, 4, 96, 96, 64, True, None),
    (1, 24, 4, 224, 224, 64, True, None),
    (1, 24, 4, 160, 160, 64, False, None),
    (1, 24, 8, 192, 192, 64, True, 96),
)
"""B, Hq, Hkv, Sq, Skv, D, causal, window."""

ROW_SIZES = {
    "softmax": ((384, 3072), (1536, 3072)),
    "rmsnorm": ((192, 3072), (768, 3072)),
    "residual_add": ((192, 3072), (768, 3072)),
    "rope": ((192, 3840), (768, 3840)),
    "silu_mul": ((192, 4608), (768, 4608)),
    "quantize": ((192, 3072), (768, 3072)),
    "dequantize": ((192, 3072), (768, 3072)),
}
"""Operator → rows and width."""

BLOCK_SIZES = ((1, 1536, 3072), (1, 2560, 6912), (8, 1536, 3072))
"""Rows, hidden and intermediate of the feed-forward block."""
