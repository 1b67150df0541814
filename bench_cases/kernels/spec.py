"""The value types of the catalog: what every kernel tells, the kernels of products, and a case made from one. No torch
here.

A shape rule gives the reason why a kernel cannot run M, N and K, or None. Some kernels do not check:
`torch._weight_int8pack_mm` on a CPU reads past its buffers when K is not a multiple of 16 (wrong numbers or a crash,
seen with torch 2.13). So a rule is evaluated before any tensor exists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Protocol

from roofline_model.core.cost import OpCost
from roofline_model.core.errors import InvalidValueError
from roofline_model.core.finding import Finding, finding
from roofline_model.formats.catalog import NumberFormat, get_format
from roofline_model.kernels.known_kernels import CapabilityRange, capabilities_text, capability_text, is_within
from roofline_model.operators.case import Case
from roofline_model.operators.product import Operator, gemm

CACHE_AXIS = {"cold": ("cold",), "warm": ("warm",), "flushed": ("flushed",), "both": ("cold", "warm")}
"""Value of --roofline-cache → the cache states that become cases."""

EMULATED_SUFFIX = "_emulated"
FAST_SUFFIX = "_fast"
"""Kernels without a unit of their own carry it in their name, so that every stored record says it."""

COMPILED_PROOF = ("## Call CompiledFxGraph", "triton_")
"""How torch's record of a call shows a graph of Inductor, and the Triton kernels in it; the eager code shows operators
instead.
"""

SOURCE_BYTES_PER_ELEMENT = 4
QUANTIZE_BYTES_PER_ELEMENT = 18
"""Most bytes per weight while it is quantised: FP32 source, scaled copy, its bits twice as int32, codes, scales; for a
matrix of one piece (`quantizers.PIECE_ELEMS`), larger ones take less. (The peak of every quantiser is tested against
it.)
"""

SEED = 20240
FILL = f"uniform [-1, 1), seed {SEED} + role and size"
"""What operands are filled with, stored as `extra["fill"]` of every record of bench_cases: data decide power, and
through the clock they decide time. An H100 loses 6 % of its rate on one matrix product between easy and hard mantissas
(CUTLASS issue 2004).
"""


class Kernel(Protocol):
    """Interface of a kernel of any operator, used by selection, guards and preparation."""

    @property
    def name(self) -> str:
        """Part of the case identity and the test id."""

    @property
    def device(self) -> str:
        """Where it runs: cpu or cuda."""

    @property
    def chosen_format(self) -> str:
        """The format key that --roofline-formats selects by."""

    @property
    def needs(self) -> tuple[str, ...]:
        """What must be installed: functions of torch (`torch.…`) or modules."""

    @property
    def min_capability(self) -> tuple[int, int] | None:
        """Lowest CUDA compute capability; None: any."""

    @property
    def max_capability(self) -> tuple[int, int] | None:
        """Highest CUDA compute capability; None: any."""

    @property
    def prepared_by(self) -> str:
        """`module:function` that takes (CaseSpec, device) and returns a `prepare.PreparedKernel`."""

    @property
    def proof(self) -> tuple[str, ...]:
        """Beginnings of names in torch's record of a call, one of which shows that this kernel ran
        (`proof.KernelProof`).
        """

    def reason_against(self, case: Case) -> Finding | None:
        """Return why the kernel cannot run the case's shape, or None."""

    def preparing_bytes(self, case: Case) -> float:
        """Return the bytes that making the operands takes, and calling, beside two sets of operands and outputs."""


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
    """Functions that torch must have, and packages that must be installed."""
    proof: tuple[str, ...] = ()
    """Beginnings of names in torch's record of a call, one of which shows that this kernel ran; empty: nothing can take
    its place.
    """
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

    prepared_by: ClassVar[str] = "bench_cases.kernels.products.prepare:prepare_product"

    @property
    def chosen_format(self) -> str:
        """The weight decides: BF16 means the BF16 product, not every weight-only kernel that widens to BF16."""
        return self.weight

    @property
    def is_emulated(self) -> bool:
        """Whether the arithmetic runs on another format's unit (decoded first, or in software)."""
        return self.name.endswith(EMULATED_SUFFIX)

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

    def shape_reason(self, M: int, N: int, K: int) -> Finding | None:
        """Return why the kernel cannot run this shape, or None."""
        return first_refusal(self.name, (rule(M, N, K) for rule in self.shape_rules))

    def reason_against(self, case: Case) -> Finding | None:
        """Return why the kernel cannot run the case's shape, or None."""
        return self.shape_reason(*product_size(case))

    def preparing_bytes(self, case: Case) -> float:
        """Return the bytes that making both operands takes: FP32 sources, and what quantising them needs."""
        M, N, K = product_size(case)
        is_plain = self.weight_format.element_bits >= 16
        return (SOURCE_BYTES_PER_ELEMENT if is_plain else QUANTIZE_BYTES_PER_ELEMENT) * (N * K + M * K)


@dataclass(frozen=True, slots=True)
class CaseSpec:
    """A case to run: its identity, its counted work and the kernel behind it."""

    case: Case
    work: Operator
    kernel: Kernel
    origin: str
    """The layer the shape comes from."""


def product_size(case: Case) -> tuple[int, int, int]:
    """Return M, N, K of a product's case."""
    shape = dict(case.shape)
    return shape["M"], shape["N"], shape["K"]


def specs_of(work: Operator, kernel: Kernel, origin: str, cache: str, modes: Sequence[str]) -> Iterator[CaseSpec]:
    """Yield one case for each cache state of --roofline-cache and each mode.

    Raises `InvalidValueError` for a cache option nobody knows.
    """
    if cache not in CACHE_AXIS:
        raise InvalidValueError(f"cache must be one of {', '.join(CACHE_AXIS)}, got {cache!r}")
    for state in CACHE_AXIS[cache]:
        for mode in modes:
            yield CaseSpec(work.case(kernel.name, cache=state, mode=mode), work, kernel, origin)


def capability_gap(
    name: str, needed: CapabilityRange, here: tuple[int, int], hardware: str | None = None
) -> Finding | None:
    """Return why a compute capability, of a chip or else of this device, is outside a range; None where it is not.

    >>> capability_gap("fa3_fp8", ((9, 0), (9, 9)), (12, 1), "gb10").code
    'kernel-not-here'
    """
    if is_within(here, needed):
        return None
    lowest, highest = needed
    own = {"device_capability" if hardware is None else "hardware_capability": capability_text(here)}
    if here < lowest:
        return finding(
            "kernel-not-here", name, kind="capability", capability=capability_text(lowest), hardware=hardware, **own
        )
    capabilities = capabilities_text(lowest, highest)
    return finding("kernel-not-here", name, kind="capabilities", capabilities=capabilities, hardware=hardware, **own)


ShapeRule = Callable[[int, int, int], Finding | None]

EMULATED_MAX_WEIGHTS = 2048 * 2048
EMULATED_MAX_ROWS = 256


def multiple_of(letter: str, divisor: int) -> ShapeRule:
    """Return the rule that dimension `letter` (M, N or K) is a multiple of `divisor`."""
    index = "MNK".index(letter)
    return lambda M, N, K: not_multiple(letter, (M, N, K)[index], divisor)


def at_least(letter: str, least: int) -> ShapeRule:
    """Return the rule that dimension `letter` (M, N or K) is `least` or more."""
    index = "MNK".index(letter)

    def rule(M: int, N: int, K: int) -> Finding | None:
        size = (M, N, K)[index]
        return (
            None
            if size >= least
            else finding("shape-not-taken", kind="below", dimension=letter, least_count=least, size_count=size)
        )

    return rule


def not_multiple(dimension: str, size: int, divisor: int) -> Finding | None:
    """Return that a size is no multiple of `divisor`; None where it is."""
    if size % divisor == 0:
        return None
    return finding("shape-not-taken", kind="multiple", dimension=dimension, multiple_count=divisor, size_count=size)


def above(kind: str, dimension: str, size: int, most: int) -> Finding | None:
    """Return that a size is above a limit, and by `kind` of which rule; None where it is not."""
    if size <= most:
        return None
    return finding("shape-not-taken", kind=kind, dimension=dimension, most_count=most, size_count=size)


def emulated_small(M: int, N: int, K: int) -> Finding | None:
    """Keep an emulated kernel (about 100 times slower than BF16) to shapes that end in reasonable time."""
    return above("emulated", "N·K", N * K, EMULATED_MAX_WEIGHTS) or above("emulated", "M", M, EMULATED_MAX_ROWS)


ONE_THREAD_MAX_PRODUCTS = 2**36
"""Most M·N·K of a kernel whose threads walk K alone, each with a load of its own per product.

A load unit serves one such thread per clock and SM: 48 SMs at 2.4 GHz make some 10¹¹ products a second, and a call
takes 0.6 s at most. A case is some twenty calls and is ended after a minute.
"""
INT32_INDICES = 2**31
"""A kernel that computes its indices in 32 bits reads elsewhere beyond so many elements."""


def one_thread_per_output(M: int, N: int, K: int) -> Finding | None:
    """Keep a kernel of one thread per output and 32-bit indices to shapes that are right and end in time."""
    if (refusal := above("serial", "M·N·K", M * N * K, ONE_THREAD_MAX_PRODUCTS)) is not None:
        return refusal
    largest = max(M * K, N * K, M * N)
    if largest < INT32_INDICES:
        return None
    return finding("shape-not-taken", kind="indices", limit_count=INT32_INDICES, size_count=largest)


def first_refusal(kernel: str, refusals: Iterable[Finding | None]) -> Finding | None:
    """Return the first refusal of a kernel's rules, with the kernel as its subject; None when all rules accept."""
    refusal = next((refusal for refusal in refusals if refusal is not None), None)
    return None if refusal is None else replace(refusal, subject=kernel)
