"""The value types of the catalog: a kernel, and a case made from it. No torch here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from bench_cases.kernels.shape_rules import ShapeRule, first_reason
from roofline_model.case import Case
from roofline_model.cost import OpCost
from roofline_model.formats import NumberFormat, get_format
from roofline_model.operators import Operator, gemm

EMULATED_SUFFIX = "_emulated"
"""Kernels without a unit of their own carry it in their name, so that every stored record says it."""


@dataclass(frozen=True, slots=True)
class KernelSpec:
    """One way to multiply, and what it asks of machine and shape."""

    name: str
    """Part of the case identity and the test id."""
    device: Literal["cpu", "cuda"]
    weight: str
    activation: str
    output: str
    """Format keys of B, A and C."""
    implementation: str
    """`module:function`, imported when the case is prepared; see `prepare.Build` for its contract."""
    needs: tuple[str, ...] = ()
    """Functions that torch must have; `a|b` means either."""
    ops: tuple[str, ...] = ("gemv", "gemm")
    min_capability: tuple[int, int] | None = None
    max_capability: tuple[int, int] | None = None
    shape_rules: tuple[ShapeRule, ...] = ()
    group_size: int | None = None
    """Elements per scale, where the kernel reads group scales that the plain format of the catalog does not count."""
    scale_bits: int = 16
    zero_bits: int = 0
    decoded: str | None = None
    """Format in which the whole weight is written and read again between two steps of the call; None: one step."""
    note: str = ""
    """What a reader of the result should know."""

    @property
    def is_emulated(self) -> bool:
        """Whether the arithmetic runs on another format's unit (decoded first, or in software)."""
        return self.name.endswith(EMULATED_SUFFIX)

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

    def work(self, M: int, N: int, K: int) -> Operator:
        """Return the counted operator that this kernel performs on a shape.

        Counts: the product's compulsory traffic; for a kernel that decodes first, also writing and reading the decoded
        weight, because that path is the one that runs (a fused kernel would not).
        """
        product = gemm(M, N, K, a=self.activation, b=self.weight_format, c=self.output)
        if self.decoded is None:
            return product
        between = {"B decoded": N * K * get_format(self.decoded).traffic_bytes_per_element}
        return replace(product, cost=product.cost + OpCost(read_bytes=between, write_bytes=between))

    def shape_reason(self, M: int, N: int, K: int) -> str | None:
        """Return why the kernel cannot run this shape, or None."""
        reason = first_reason(self.shape_rules, M, N, K)
        return None if reason is None else f"{self.name}: {reason}"


@dataclass(frozen=True, slots=True)
class CaseSpec:
    """A case to run: its identity, its counted work and the kernel behind it."""

    case: Case
    work: Operator
    kernel: KernelSpec
    origin: str
    """The layer the shape comes from."""

    @property
    def size(self) -> tuple[int, int, int]:
        """M, N, K."""
        shape = dict(self.case.shape)
        return shape["M"], shape["N"], shape["K"]
