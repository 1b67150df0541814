"""A kernel of products. No torch here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from bench_cases.kernels.spec import FAST_SUFFIX, QUANTIZE_BYTES_PER_ELEMENT, SOURCE_BYTES_PER_ELEMENT, Kernel
from bench_cases.shapes.products import Shape
from roofline_model.core.cost import OpCost
from roofline_model.formats.catalog import NumberFormat, get_format
from roofline_model.operators.case import Case
from roofline_model.operators.product import Operator, gemm, product_op


@dataclass(frozen=True, slots=True)
class KernelSpec(Kernel):
    """One way to multiply."""

    weight: str
    activation: str
    output: str
    """Format keys of B, A and C."""
    op: str | None = None
    """gemv or gemm, where it is offered for one of them; None: for both."""
    group_size: int | None = None
    """Elements per scale, where the kernel reads group scales that the plain format of the catalog does not count."""
    scale_bits: int = 16
    zero_bits: int = 0

    prepared_by: ClassVar[str] = "bench_cases.kernels.products.prepare:prepare_product"

    @property
    def chosen_format(self) -> str:
        """The weight decides: BF16 means the BF16 product, not every weight-only kernel that widens to BF16."""
        return self.weight

    @property
    def has_fast_sums(self) -> bool:
        """Whether a tensor core's running sums are never promoted to FP32 (`use_fast_accum`)."""
        return self.name.endswith(FAST_SUFFIX)

    @property
    def key(self) -> str:
        """Unique among the kernels of all devices."""
        return f"{self.device}-{self.weight}.{self.activation}-{self.name}"

    @property
    def weight_format(self) -> NumberFormat:
        """The weight's format with the scales that this kernel reads."""
        plain = get_format(self.weight)
        if self.group_size is None:
            return plain
        return plain.grouped(self.group_size, scale_bits=self.scale_bits, zero_bits=self.zero_bits)

    def takes(self, shape: Shape) -> bool:
        """Return whether the kernel is offered for a product of this size."""
        return self.op in (None, product_op(shape.M))

    def work(self, shape: Shape) -> Operator:
        """Return the counted operator that this kernel performs on a shape.

        Counts: the product's compulsory traffic; for a kernel that decodes first, also writing and reading the decoded
        weight, because that path is the one that runs (a fused kernel would not).
        """
        product = gemm(*shape.size, a=self.activation, b=self.weight_format, c=self.output)
        if self.decoded is None:
            return product
        between = {"B decoded": shape.N * shape.K * get_format(self.decoded).traffic_bytes_per_element}
        return replace(product, cost=product.cost + OpCost(read_bytes=between, write_bytes=between))

    def preparing_bytes(self, case: Case) -> float:
        """Return the bytes that making both operands takes: FP32 sources, and what quantising them needs."""
        M, N, K = product_size(case)
        is_plain = self.weight_format.element_bits >= 16
        return (SOURCE_BYTES_PER_ELEMENT if is_plain else QUANTIZE_BYTES_PER_ELEMENT) * (N * K + M * K)


def product_size(case: Case) -> tuple[int, int, int]:
    """Return M, N, K of a product's case."""
    shape = dict(case.shape)
    return shape["M"], shape["N"], shape["K"]
