"""What every kernel of the catalog tells, and the cases made from a table of them. No torch here."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, TypeVar

from bench_cases.kernels.rules import Rule, first_refusal
from roofline_model.core.errors import InvalidValueError
from roofline_model.core.finding import Finding, finding
from roofline_model.formats.catalog import get_format
from roofline_model.kernels.known_kernels import CapabilityRange, capabilities_text, capability_text, is_within
from roofline_model.operators.case import Case
from roofline_model.operators.product import Operator

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


@dataclass(frozen=True, slots=True)
class Kernel(ABC):
    """One way to compute an operator, and what it asks of machine and shape."""

    name: str
    """Part of the case identity and the test id."""
    device: Literal["cpu", "cuda"]
    _: KW_ONLY
    implementation: str
    """`module:function`, imported when the case is prepared; see `Build` beside the family's `prepare` for its
    contract.
    """
    needs: tuple[str, ...] = ()
    """What must be installed: functions of torch (`torch.…`) or modules."""
    proof: tuple[str, ...] = ()
    """Beginnings of names in torch's record of a call, one of which shows that this kernel ran (`proof.KernelProof`);
    empty: nothing can take its place.
    """
    min_capability: tuple[int, int] | None = None
    """Lowest CUDA compute capability; None: any."""
    max_capability: tuple[int, int] | None = None
    rules: tuple[Rule, ...] = ()
    decoded: str | None = None
    """Format in which a whole operand is written and read again between two steps of the call; None: one step."""

    prepared_by: ClassVar[str]
    """`module:function` that takes (CaseSpec, device) and returns a `prepare.PreparedKernel`."""

    @property
    @abstractmethod
    def chosen_format(self) -> str:
        """The format key that --roofline-formats selects by."""

    @property
    @abstractmethod
    def key(self) -> str:
        """Unique among the kernels of all devices."""

    @property
    def is_emulated(self) -> bool:
        """Whether the arithmetic runs on another format's unit (decoded first, or in software)."""
        return self.name.endswith(EMULATED_SUFFIX)

    @abstractmethod
    def takes(self, shape: Any) -> bool:
        """Return whether the kernel is offered for a shape."""

    @abstractmethod
    def work(self, shape: Any) -> Operator:
        """Return the counted operator of a shape."""

    @abstractmethod
    def preparing_bytes(self, case: Case) -> float:
        """Return the bytes that making the operands takes, and calling, beside two sets of operands and outputs."""

    def reason_against(self, case: Case) -> Finding | None:
        """Return why the kernel cannot run the case's shape, or None."""
        sizes = dict(case.shape)
        return first_refusal(self.name, (rule(sizes) for rule in self.rules))


AnyKernel = TypeVar("AnyKernel", bound=Kernel)


@dataclass(frozen=True, slots=True)
class CaseSpec:
    """A case to run: its identity, its counted work and the kernel behind it."""

    case: Case
    work: Operator
    kernel: Kernel
    origin: str
    """The layer the shape comes from."""


def chosen_kernels(
    table: Iterable[AnyKernel], device: str, formats: Sequence[str] | None = None
) -> tuple[AnyKernel, ...]:
    """Return the kernels of a device whose `chosen_format` is among `formats` (None: all); it may be none.

    Raises `UnknownNameError` for a format nobody knows.
    """
    wanted = None if formats is None else {get_format(name).key for name in formats}
    return tuple(
        kernel for kernel in table if kernel.device == device and (wanted is None or kernel.chosen_format in wanted)
    )


def kernel_cases(
    table: Iterable[Kernel],
    device: str,
    shapes: Iterable[Any],
    formats: Sequence[str] | None = None,
    cache: str = "cold",
    modes: Sequence[str] = ("eager",),
) -> list[CaseSpec]:
    """Return the cases of every shape with every kernel of `device` that takes it, in the order of the shapes.

    `formats`: those that kernels are chosen by (None: all). `cache`: cold, warm, flushed or both; `modes`: some of
    `roofline_model.operators.case.MODES`. Each state and mode is a case of its own.
    """
    chosen = chosen_kernels(table, device, formats)
    return [
        spec
        for shape in shapes
        for kernel in chosen
        if kernel.takes(shape)
        for spec in specs_of(kernel.work(shape), kernel, shape.origin, cache, modes)
    ]


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
