"""All cases that the options select: products, attention, operators. No torch here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from bench_cases.kernels.attention.catalog import attention_cases
from bench_cases.kernels.operators.catalog import operator_cases
from bench_cases.kernels.products.catalog import cases_for
from bench_cases.kernels.spec import CaseSpec
from bench_cases.shapes.attention import attention_shapes
from bench_cases.shapes.operators import operator_shapes
from bench_cases.shapes.products import Device, is_product_list, resolve_shapes
from roofline_model.core.finding import Finding, finding

Family = Literal["products", "attention", "operators"]
FAMILIES: tuple[Family, ...] = ("products", "attention", "operators")


def family_of(op: str) -> Family:
    """Return the family whose kernels run an operator."""
    return "products" if op in ("gemv", "gemm") else "attention" if op.endswith("attention") else "operators"


def family_cases(
    family: Family, shapes: str, device: Device, formats: Sequence[str] | None, cache: str, modes: Sequence[str]
) -> Sequence[CaseSpec]:
    """Return the cases of every kernel of `device` in a family.

    Raises `UnknownNameError` and `InvalidValueError` as `resolve_shapes` and `cases_for` do, all of them for products:
    every format of the other kernels is a products' format, too, so that no format is refused which would have had
    cases.
    """
    if family == "products":
        return cases_for(device, resolve_shapes(shapes, device), formats, cache, modes)
    if family == "attention":
        return attention_cases(device, attention_shapes(shapes, device), formats, cache, modes)
    return operator_cases(device, operator_shapes(shapes, device), formats, cache, modes)


def selected_cases(
    shapes: str, device: Device, formats: Sequence[str] | None, cache: str, modes: Sequence[str]
) -> list[CaseSpec]:
    """Return the cases of every family, products first; raises as `family_cases`."""
    return [spec for family in FAMILIES for spec in family_cases(family, shapes, device, formats, cache, modes)]


def products_only(shapes: str) -> Finding | None:
    """Return the note on `--roofline-shapes TEXT` when it selects products only; None for a set of models."""
    if not is_product_list(shapes):
        return None
    shown = shapes if len(shapes) <= 60 else f"{shapes[:60]}…"
    return finding("shapes-of-products", shapes=shown)
