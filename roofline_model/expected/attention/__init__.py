"""Expected time of fused attention by the kernel that runs it.

`predict.py` asks the model of the kernel: this folder's own, fitted to TensorRT-LLM's attention modules per chip, or
the analytical one of FlashAttention 1 to 4 (`flash/`). Which kernel runs where is `kernels/attention_kernels.py`; work
and bytes of all of them are the operator's (`attention_ops`).
"""

from __future__ import annotations
