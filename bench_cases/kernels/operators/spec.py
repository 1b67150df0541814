"""A kernel of an elementwise operator or a feed-forward block, and what it asks of machine and shape. No torch here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bench_cases.kernels.rules import Sizes
from bench_cases.kernels.spec import SOURCE_BYTES_PER_ELEMENT, Kernel
from bench_cases.shapes.operators import OperatorShape
from roofline_model.core.cost import total_cost
from roofline_model.core.errors import InvalidValueError
from roofline_model.operators.case import Case
from roofline_model.operators.elementwise import residual_add, rmsnorm, rope, silu_mul, softmax
from roofline_model.operators.layers import ffn_parts
from roofline_model.operators.product import Operator
from roofline_model.operators.quantize import dequantize, quantize


@dataclass(frozen=True, slots=True)
class OperatorKernel(Kernel):
    """One way to compute an operator that is neither a product nor attention."""

    op: str
    x: str
    """Format key of the input; of ffn also of the weights."""
    o: str
    """Format key of the output."""
    scale: str | None = None
    """Of quantize: where the scale comes from, as in `roofline_model.operators.quantize.SCALES`."""
    is_compiled: bool = False
    """The same eager code through torch.compile: one fused kernel instead of several."""
    scratch_bytes_per_element: int = 16
    """Memory for each element of the input that intermediate results of the call take."""

    prepared_by: ClassVar[str] = "bench_cases.kernels.operators.prepare:prepare_operator"

    @property
    def chosen_format(self) -> str:
        """The narrow format of a quantise or dequantise kernel; of all others the input's."""
        return self.o if self.op == "quantize" else self.x

    @property
    def key(self) -> str:
        """Unique among the kernels of all devices."""
        return f"{self.device}-{self.op}-{self.x}.{self.o}-{self.name}"

    def takes(self, shape: OperatorShape) -> bool:
        """Return whether the shape is one of this operator's, and run in the kernel's format."""
        return self.op == shape.op and (shape.formats is None or self.chosen_format in shape.formats)

    def work(self, shape: OperatorShape) -> Operator:
        """Return the counted operator; that of a feed-forward block is the sum of its kernels."""
        sizes = dict(shape.sizes)
        if self.op == "ffn":
            return self._feed_forward(sizes)
        rows, width = sizes["rows"], sizes["width"]
        if self.op == "quantize":
            return quantize(rows, width, self.x, self.o, scale=self.scale)
        if self.op == "dequantize":
            return dequantize(rows, width, self.x, self.o)
        if self.op == "rmsnorm":
            return rmsnorm(rows, width, a=self.x, gain=self.x)
        same = {"softmax": softmax, "residual_add": residual_add, "rope": rope, "silu_mul": silu_mul}
        if self.op not in same:
            raise InvalidValueError(
                f"no kernel computes {self.op!r}; known: "
                f"{', '.join([*same, 'rmsnorm', 'quantize', 'dequantize', 'ffn'])}"
            )
        return same[self.op](rows, width, a=self.x)

    def preparing_bytes(self, case: Case) -> float:
        """Return the bytes of FP32 sources and of what the call holds between its steps."""
        sizes = dict(case.shape)
        if self.op == "ffn":
            weights = 3 * sizes["hidden"] * sizes["intermediate"]
            return (
                SOURCE_BYTES_PER_ELEMENT * weights
                + self.scratch_bytes_per_element * sizes["rows"] * sizes["intermediate"]
            )
        return (2 * SOURCE_BYTES_PER_ELEMENT + self.scratch_bytes_per_element) * sizes["rows"] * sizes["width"]

    def _feed_forward(self, sizes: Sizes) -> Operator:
        parts = ffn_parts(sizes["rows"], sizes["hidden"], sizes["intermediate"], a=self.x, c=self.o)
        formats = (("a", self.x), ("b", self.x), ("c", self.o))
        return Operator("ffn", tuple(sizes.items()), formats, total_cost(part.cost for part in parts.values()))
