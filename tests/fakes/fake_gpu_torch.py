"""A torch of which only the calls of `plugin.calibrate.cuda_ceilings` exist: each launches a kernel as long as a model
GPU needs.
"""

from __future__ import annotations

import contextlib
import math
from types import SimpleNamespace

BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "float8_e4m3fn": 1, "int8": 1}


class Tensor:
    def __init__(self, torch, shape, dtype):
        self.torch, self.shape, self.dtype = torch, tuple(shape), dtype
        torch.shapes.append(self.shape)

    @property
    def count(self):
        return math.prod(self.shape)

    @property
    def nbytes(self):
        return self.count * BYTES[self.dtype]

    def view(self, *shape):
        return Tensor(self.torch, shape, self.dtype)

    def t(self):
        return Tensor(self.torch, self.shape[::-1], self.dtype)

    def uniform_(self, low, high):
        return self

    def __rmul__(self, factor):
        return self

    def to(self, dtype):
        return Tensor(self.torch, self.shape, dtype)

    def fill_(self, value):
        self.torch.move(self.nbytes, self.nbytes)

    def copy_(self, source):
        name = f"{source.dtype}>{self.dtype}"
        if name in self.torch.missing:
            raise NotImplementedError(f'"copy_kernel" not implemented for {name!r}')
        self.torch.move(self.nbytes + source.nbytes, self.nbytes + source.nbytes)


class FakeGpuTorch:
    """Kernels move bytes at the DRAM's or the L2's rate and multiply at a rate per format."""

    float32, bfloat16, float16, float8_e4m3fn, int8 = BYTES

    def __init__(self, cuda, *, missing=(), has_green_contexts=True):
        self.cuda = cuda
        self.missing = set(missing)
        self.dram_bytes_per_s, self.l2_bytes_per_s = 3.0e12, 9.0e12
        self.flops_per_s = {
            "float32": 50e12,
            "tf32": 400e12,
            "bfloat16": 800e12,
            "float16": 790e12,
            "float8_e4m3fn": 1500e12,
            "float8_exact_sums": 1100e12,
            "int8": 1400e12,
        }
        self.precision = "highest"
        self.shapes = []
        self.contexts = []
        self.nn = SimpleNamespace(
            functional=SimpleNamespace(ScalingType=SimpleNamespace(TensorWise=0), scaled_mm=self._scaled_mm)
        )
        if has_green_contexts:
            cuda.green_contexts = SimpleNamespace(GreenContext=SimpleNamespace(create=self._green_context))

    def inference_mode(self):
        return contextlib.nullcontext()

    def move(self, nbytes, working_set):
        rate = self.dram_bytes_per_s if working_set > self.cuda.l2_bytes else self.l2_bytes_per_s
        sms = self.cuda.active_sm_count or self.cuda.sm_count
        self.cuda.launch(nbytes / (rate * min(1.0, 2 * sms / self.cuda.sm_count)), "move")

    def multiply(self, a, b, kind):
        assert a.shape[1] == b.shape[0]
        if kind in self.missing:
            raise RuntimeError(f"{kind} product: CUBLAS_STATUS_NOT_SUPPORTED when calling cublasLtMatmul\nmore lines")
        flops = 2 * a.shape[0] * a.shape[1] * b.shape[1]
        # Small products do not fill the chip.
        self.cuda.launch(flops / self.flops_per_s[kind] * (1 + 0.3 * (a.shape[0] < 4000)), "mm")

    # The calls -----------------------------------------------------------------------------------------------

    def ones(self, *shape, dtype="float32", device=None):
        assert device == "cuda"
        return Tensor(self, shape, dtype)

    zeros = empty = ones

    def empty_like(self, other):
        return Tensor(self, other.shape, other.dtype)

    def sum(self, tensor, dim, out):
        self.move(tensor.nbytes, tensor.nbytes)

    def add(self, a, b, alpha=1.0, out=None):
        moved = a.nbytes + out.nbytes + (b.nbytes if isinstance(b, Tensor) else 0)
        self.move(moved, moved)

    def mm(self, a, b):
        kind = "tf32" if a.dtype == "float32" and self.precision == "high" else a.dtype
        self.multiply(a, b, kind)

    def _int_mm(self, a, b):
        assert a.dtype == b.dtype == "int8"
        self.multiply(a, b, "int8")

    def _scaled_mm(self, a, b, scale_a, recipe_a, scale_b, recipe_b, output_dtype, use_fast_accum=False):
        assert output_dtype == "bfloat16"
        self.multiply(a, b, "float8_e4m3fn" if use_fast_accum else "float8_exact_sums")

    def get_float32_matmul_precision(self):
        return self.precision

    def set_float32_matmul_precision(self, value):
        self.precision = value

    def _green_context(self, num_sms, device_id):
        assert num_sms % 8 == 0
        self.contexts.append(num_sms)

        def set_context():
            self.cuda.active_sm_count, self.cuda.device = num_sms, device_id + 100  # events of its own, as there

        def pop_context():
            self.cuda.active_sm_count, self.cuda.device = None, device_id

        return SimpleNamespace(set_context=set_context, pop_context=pop_context)
