"""How long a simulated GPU takes for one operator of torch: its own bytes and multiplications at the chip's rates.

The rates are the registry's ideal ones times a share that good kernels reach. The L2 is a list of the memory used last,
so that a rotation that does not defeat it, or a flush that leaves operands in it, shows in the times.
"""

from __future__ import annotations

import math
from collections import OrderedDict

import torch

from roofline_model.chips.hardware import get_hardware

MEMORY_SHARE, COMPUTE_SHARE, L2_FACTOR = 0.88, 0.7, 3.0
FIXED_S = 1.2e-6
PRODUCTS = {"mm", "matmul", "__matmul__", "bmm", "baddbmm", "addmm", "linear", "_int_mm", "_scaled_mm", "_scaled_mm_v2"}
PRODUCTS |= {"_weight_int4pack_mm", "_weight_int8pack_mm"}
FORMATS = {
    torch.float64: "FP64",
    torch.float32: "FP32",
    torch.bfloat16: "BF16",
    torch.float16: "FP16",
    torch.float8_e4m3fn: "FP8_E4M3",
    torch.float4_e2m1fn_x2: "NVFP4",
    torch.int8: "INT8",
}


class GpuModel:
    """The rates of one chip and what lies in its L2."""

    def __init__(self, key, l2_bytes, sm_count, clock_hz):
        self.chip, self.l2_bytes, self.sm_count, self.clock_hz = get_hardware(key), l2_bytes, sm_count, clock_hz
        self.resident = OrderedDict()
        self.resident_bytes = 0

    def seconds(self, name, tensors, outputs):
        """Return the device seconds of an operator: the slower of memory and arithmetic, and a fixed part. `tensors`:
        what it reads.
        """
        memory_s = sum(self._moved_s(tensor) for tensor in (*tensors, *outputs))
        return FIXED_S + max(memory_s, self._compute_s(name, tensors, outputs))

    def _moved_s(self, tensor):
        size, memory = tensor.numel() * tensor.element_size(), tensor.untyped_storage().data_ptr()
        rate = self.chip.bandwidth.value * MEMORY_SHARE
        is_near = memory in self.resident
        self.resident_bytes -= self.resident.pop(memory, 0)
        if size <= self.l2_bytes:
            self.resident[memory] = size
            self.resident_bytes += size
        else:
            self.resident.clear()
            self.resident_bytes = 0
        while self.resident_bytes > self.l2_bytes:
            self.resident_bytes -= self.resident.popitem(last=False)[1]
        return size / (rate * (L2_FACTOR if is_near else 1.0))

    def _compute_s(self, name, tensors, outputs):
        if name == "scaled_dot_product_attention":
            q, k = tensors[0], tensors[1]
            return 4 * math.prod(q.shape) * k.shape[-2] / self._flops_per_s(q.dtype)
        if name not in PRODUCTS or not outputs:
            return 0.0
        inner = tensors[0].shape[-1] * (2 if tensors[0].dtype == torch.float4_e2m1fn_x2 else 1)
        multiplications = outputs[0].numel() * inner
        if name == "_weight_int8pack_mm":  # one thread per output, a load per product: one product per clock and SM
            return multiplications / (self.sm_count * self.clock_hz)
        return 2 * multiplications / self._flops_per_s(tensors[0].dtype)

    def _flops_per_s(self, dtype):
        precision = FORMATS.get(dtype, "BF16")
        if precision == "FP32" and torch.backends.cuda.matmul.allow_tf32:
            precision = "TF32"
        return COMPUTE_SHARE * self.chip.path(precision).dense.value
