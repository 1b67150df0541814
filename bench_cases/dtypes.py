"""torch's dtypes of the plain floats, by format key."""

from __future__ import annotations

import torch

DTYPES = {"FP64": torch.float64, "FP32": torch.float32, "BF16": torch.bfloat16, "FP16": torch.float16}
