"""Operators: shape and formats in, counted work out. C(M×N) = A(M×K) · B(K×N); one MAC is 2 FLOPs.

A is the activation, B the weight, C the output; each has its own format, scales included in its bytes.

**How a weight lies in memory** where its format alone does not say. The catalog's INT4 and INT2 carry no scales, as the
original documents count them, and a product of two such operands is counted like that. A weight-only pair (`INT4.BF16`)
runs on a kernel that reads scales: one of 16 bits per 128 weights, 4.125 bits an element, as the kernels behind the
expected time store them and as `predict model` counts. A zero point is the kernel's own affair: a kernel that was
measured is predicted with its own layout (`KernelSpec.weight_format`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from roofline_model.core.cost import OpCost, total_cost
from roofline_model.core.errors import InvalidValueError
from roofline_model.core.finding import Finding, finding
from roofline_model.formats.catalog import NumberFormat, get_format
from roofline_model.operators.case import Case

MAX_DIMENSION = 10**9
"""Larger sizes are taken for a slip of the keyboard."""

GEMV_MAX_ROWS = 16
"""Up to this M a product is called gemv (decode); above it, gemm (prefill)."""

FormatLike = str | NumberFormat


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator call: its name, shape, formats and counted cost."""

    op: str
    shape: tuple[tuple[str, int], ...]
    formats: tuple[tuple[str, str], ...]
    cost: OpCost

    def case(self, kernel: str, *, cache: str = "cold", mode: str = "eager") -> Case:
        """Return the benchmark case that runs this operator with `kernel`."""
        return Case(self.op, self.shape, self.formats, kernel, cache, mode)


def gemm(
    M: int, N: int, K: int, *, a: FormatLike = "FP16", b: FormatLike | None = None, c: FormatLike | None = None
) -> Operator:
    """Return the product C(M×N) = A(M×K)·B(K×N).

    Counts: 2·M·N·K FLOPs; A and B read once, C written once, each at its own format with its scales.
    `b` defaults to `a`; `c` defaults to `a` when that is a 16-bit or wider float, else FP16 (the seeds' convention).
    """
    for name, size in (("M", M), ("N", N), ("K", K)):
        check_dimension(name, size)
    fa = get_format(a)
    fb = fa if b is None else get_format(b)
    fc = default_output_format(fa) if c is None else get_format(c)
    cost = OpCost(
        flops={compute_format(fa, fb): 2 * M * N * K},
        read_bytes={"A": M * K * fa.traffic_bytes_per_element, "B": K * N * fb.traffic_bytes_per_element},
        write_bytes={"C": M * N * fc.traffic_bytes_per_element},
    )
    return Operator(product_op(M), (("M", M), ("N", N), ("K", K)), (("a", fa.key), ("b", fb.key), ("c", fc.key)), cost)


def product_op(M: int) -> str:
    """Return what a product of M rows is called: `gemv` up to `GEMV_MAX_ROWS`, else `gemm`."""
    return "gemv" if M <= GEMV_MAX_ROWS else "gemm"


def gemv(
    N: int, K: int, *, M: int = 1, a: FormatLike = "FP16", b: FormatLike | None = None, c: FormatLike | None = None
) -> Operator:
    """Return the matrix-vector product of decode, y(M×N) = x(M×K)·W(K×N) with M from 1 to 16: `gemm` at small M."""
    if isinstance(M, int) and M > GEMV_MAX_ROWS:
        raise InvalidValueError(f"gemv takes M from 1 to {GEMV_MAX_ROWS}, got {M}; use gemm")
    return gemm(M, N, K, a=a, b=b, c=c)


def batched_gemm(
    batch: int,
    M: int,
    N: int,
    K: int,
    *,
    a: FormatLike = "FP16",
    b: FormatLike | None = None,
    c: FormatLike | None = None,
) -> Operator:
    """Return `batch` independent products of one shape, each with its own A, B and C."""
    check_dimension("batch", batch)
    product = gemm(M, N, K, a=a, b=b, c=c)
    return Operator("batched_gemm", (("batch", batch), *product.shape), product.formats, product.cost * batch)


def grouped_gemm(
    groups: Sequence[tuple[int, int, int]],
    *,
    a: FormatLike = "FP16",
    b: FormatLike | None = None,
    c: FormatLike | None = None,
) -> Operator:
    """Return independent products of different (M, N, K) in one call, as the experts of a mixture use them.

    A group with M = 0 (an expert without tokens) reads no weight and costs nothing.
    """
    if not groups:
        raise InvalidValueError("grouped_gemm needs at least one (M, N, K)")
    busy = [gemm(*group, a=a, b=b, c=c) for group in groups if group[0] != 0]
    if not busy:
        raise InvalidValueError("grouped_gemm: every group has M = 0, there is nothing to compute")
    shape = (
        ("groups", len(groups)),
        ("M", sum(g[0] for g in groups)),
        ("N", max(g[1] for g in groups)),
        ("K", max(g[2] for g in groups)),
    )
    return Operator("grouped_gemm", shape, busy[0].formats, total_cost(product.cost for product in busy))


def compute_format(a: NumberFormat, b: NumberFormat) -> str:
    """Return the format a product is computed in: the wider operand's, because a narrow weight is widened first.

    W4A16 computes in 16 bit, W4A8 in 8 bit, W8A8 in 8 bit; at equal width A decides (E4M3 × E5M2 run on one unit).
    """
    return b.key if b.element_bits > a.element_bits else a.key


def default_output_format(a: NumberFormat) -> NumberFormat:
    """Return the output format a product has when none is given."""
    if a.kind == "float" and not a.scales and a.element_bits >= 16:
        return get_format("FP32") if a.key == "TF32" else a
    return get_format("FP16")


def check_dimension(name: str, size: int) -> None:
    """Raise `InvalidValueError` unless `size` is a whole number from 1 to `MAX_DIMENSION`."""
    if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= MAX_DIMENSION:
        raise InvalidValueError(f"{name} must be a whole number from 1 to {MAX_DIMENSION:,}, got {size!r}")


def parse_shape(text: str) -> tuple[int, int, int]:
    """Parse `MxNxK`, e.g. `1x4096x4096`; raises `InvalidValueError` naming the form."""
    parts: Iterable[str] = text.strip().lower().split("x")
    numbers = [part.strip() for part in parts]
    if len(numbers) != 3 or not all(part.isdecimal() and part.isascii() and len(part) < 20 for part in numbers):
        raise InvalidValueError(f"shape {text[:60]!r} is not MxNxK with whole numbers, e.g. 1x4096x4096")
    m, n, k = (int(part) for part in numbers)
    for name, size in (("M", m), ("N", n), ("K", k)):
        check_dimension(name, size)
    return m, n, k


WEIGHT_GROUP_ELEMS, WEIGHT_SCALE_BITS = 128, 16
"""Weights that share a scale, and its bits: the layout of the measured W4A16 kernels (TensorRT-LLM, groups of 128)."""


def with_group_scales(fmt: NumberFormat) -> NumberFormat:
    """Return INT4 and INT2 with the group scales that weight-only kernels read; other formats unchanged."""
    if fmt.kind != "int" or not fmt.is_sub_byte or fmt.scales:
        return fmt
    return fmt.grouped(WEIGHT_GROUP_ELEMS, scale_bits=WEIGHT_SCALE_BITS)


def stored_weight(weight: NumberFormat, activation: NumberFormat) -> NumberFormat:
    """Return the weight of a pair as it lies in memory: with group scales where it is widened to a wider activation."""
    return with_group_scales(weight) if activation.element_bits > weight.element_bits else weight


def product_of_pair(M: int, N: int, K: int, *, weight: FormatLike, activation: FormatLike) -> Operator:
    """Return C(M×N) = A(M×K)·B(K×N) of a weight and an activation format, the weight as `stored_weight` has it."""
    fa = get_format(activation)
    return gemm(M, N, K, a=fa, b=stored_weight(get_format(weight), fa))


def weight_counting(weight: NumberFormat, activation: NumberFormat) -> Finding | None:
    """Return how the weight of a pair is counted; None where its format says it all."""
    grouped = with_group_scales(weight)
    if grouped == weight:
        return None
    if stored_weight(weight, activation) == weight:
        return finding("scales-counted", kind="none", format=weight.key)
    return finding(
        "scales-counted",
        kind="groups",
        format=weight.key,
        scale_bits=WEIGHT_SCALE_BITS,
        group_count=WEIGHT_GROUP_ELEMS,
        bits=grouped.nominal_bits,
    )
