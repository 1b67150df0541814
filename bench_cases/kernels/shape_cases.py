"""Cases of kernels that take their shapes as values: attention, operators. No torch here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from bench_cases.kernels.products.catalog import chosen_kernels
from bench_cases.kernels.spec import CaseSpec, Kernel, specs_of
from roofline_model.operators.product import Operator


class OriginShape(Protocol):
    """A shape that says where it comes from."""

    @property
    def origin(self) -> str:
        """Model and phase."""


AnyShape = TypeVar("AnyShape", bound=OriginShape)
Taken = TypeVar("Taken", contravariant=True)


class ShapeKernel(Kernel, Protocol[Taken]):
    """A kernel that chooses its shapes and counts its work on one."""

    def takes(self, shape: Taken) -> bool:
        """Return whether the kernel is offered for a shape."""

    def work(self, shape: Taken) -> Operator:
        """Return the counted operator of a shape."""


def shape_cases(
    table: Iterable[ShapeKernel[AnyShape]],
    device: str,
    shapes: Iterable[AnyShape],
    formats: Sequence[str] | None = None,
    cache: str = "cold",
    modes: Sequence[str] = ("eager",),
) -> list[CaseSpec]:
    """Return the cases of every shape with every kernel of `device` that takes it, in the order of the shapes.

    `formats`: those that kernels are chosen by (None: all); other arguments as in `catalog.cases_for`.
    """
    chosen = chosen_kernels(table, device, formats)
    return [
        spec
        for shape in shapes
        for kernel in chosen
        if kernel.takes(shape)
        for spec in specs_of(kernel.work(shape), kernel, shape.origin, cache, modes)
    ]
