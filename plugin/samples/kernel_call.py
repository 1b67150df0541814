"""Arguments of `measure` or `compare` → one checked `KernelCall`. Mistakes raise before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from plugin.samples.correctness import Check
from plugin.samples.operand_data import copied, overwrite
from plugin.timers.rotation import Arguments, MakeArgs
from plugin.timers.timers import Kernel
from roofline_model.core.errors import InvalidValueError


@dataclass(frozen=True, slots=True)
class KernelCall:
    """A call to measure: the kernel, its operands and the check of its result."""

    kernel: Kernel
    make_args: MakeArgs
    can_rotate: bool
    """False when the user gave fixed arguments: the case can then not be cold."""
    reference: Any = None
    check: Check | None = None
    tolerance: float | None = None
    work: Any = None
    """What it does: an operator names the type of its output."""
    mutates: tuple[int, ...] = ()
    """Positions of arguments the kernel writes to; put back before and after each check, so that every check sees the
    same input.
    """
    label: str = ""
    """Names the kernel in errors, where several are measured together."""
    setup: Callable[[], Any] | None = None
    """Called before the first call and before the final check, outside every timed region."""

    def run_setup(self) -> None:
        """Call the user's set-up, if there is one."""
        if self.setup is not None:
            self.setup()

    def result(self, arguments: Arguments, output: Any) -> Any:
        """Return the value to check: the output, or the arguments written by a kernel that returns nothing."""
        if output is not None or not self.mutates:
            return output
        return [arguments[position] for position in self.mutates]

    def labelled(self, when: str) -> str:
        """Return when a check was made, naming the kernel where several are measured together."""
        return f"{self.label}: {when}" if self.label else when

    def saved(self, arguments: Arguments) -> list[Any]:
        """Return copies of the arguments that the kernel writes to."""
        copies = []
        for position in self.mutates:
            if not 0 <= position < len(arguments):
                raise InvalidValueError(f"mutates names argument {position}, but the kernel takes {len(arguments)}")
            copies.append(copied(arguments[position]))
        return copies

    def restore(self, arguments: Arguments, saved: Sequence[Any]) -> None:
        """Put the saved copies back into the arguments that the kernel writes to."""
        for position, copy in zip(self.mutates, saved, strict=True):
            overwrite(arguments[position], copy)


def make_kernel_call(
    fn: Callable[..., Any],
    *,
    args: Sequence[Any] | None,
    make_args: Callable[[int], Sequence[Any]] | None,
    reference: Any = None,
    check: Check | None = None,
    tolerance: float | None = None,
    work: Any = None,
    mutates: Sequence[int] = (),
    setup: Callable[[], Any] | None = None,
    label: str = "",
) -> KernelCall:
    """Return the call; raises `InvalidValueError` for arguments of the wrong kind or that contradict each other."""
    if not callable(fn):
        raise InvalidValueError(f"the kernel must be callable, got {type(fn).__name__}")
    if args is not None and make_args is not None:
        raise InvalidValueError("give either args= (one set, warm) or make_args= (rotated, cold), not both")
    if make_args is not None and not callable(make_args):
        raise InvalidValueError(
            f"make_args must be a function of the set's number, got {type(make_args).__name__}; use args= for one set"
        )
    if not isinstance(mutates, list | tuple) or not all(isinstance(position, int) for position in mutates):
        raise InvalidValueError(f"mutates must be positions of arguments such as (0,), got {mutates!r}")
    fixed = () if args is None else _tuple("args", args)
    if label:  # a contestant of compare: what it writes to its arguments is not another's fault
        fixed = tuple(map(copied, fixed))
    return KernelCall(
        kernel=fn,
        make_args=(lambda index: fixed) if make_args is None else (lambda index: _tuple("make_args", make_args(index))),
        can_rotate=make_args is not None,
        reference=reference,
        check=check,
        tolerance=tolerance,
        work=work,
        mutates=tuple(mutates),
        label=label,
        setup=setup,
    )


def _tuple(name: str, given: Any) -> tuple[Any, ...]:
    """Return the arguments as a tuple; a lone tensor is refused, because it would be taken apart into its rows."""
    if not isinstance(given, list | tuple):
        raise InvalidValueError(
            f"{name} must give a tuple of arguments, got {type(given).__name__}; for one argument write (x,)"
        )
    return tuple(given)
