"""What the user gave `measure` or `compare` → one checked `KernelCall`. Slips are named before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from plugin.correctness import Check
from plugin.runner import KernelCall
from roofline_model.errors import InvalidValueError


def make_kernel_call(
    fn: Callable[..., Any],
    *,
    args: Sequence[Any] | None,
    make_args: Callable[[int], Sequence[Any]] | None,
    reference: Any = None,
    check: Check | None = None,
    tolerance: float | None = None,
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
        fixed = tuple(_copied(value) for value in fixed)
    return KernelCall(
        kernel=fn,
        make_args=(lambda index: fixed) if make_args is None else (lambda index: _tuple("make_args", make_args(index))),
        can_rotate=make_args is not None,
        reference=reference,
        check=check,
        tolerance=tolerance,
        mutates=tuple(mutates),
        label=label,
        setup=setup,
    )


def _copied(value: Any) -> Any:
    """Return an array or tensor of equal data in memory of its own; anything else as it is."""
    if hasattr(value, "detach") and hasattr(value, "clone"):
        return value.detach().clone()
    return value.copy() if hasattr(value, "__array_interface__") else value


def _tuple(name: str, given: Any) -> tuple[Any, ...]:
    """Return the arguments as a tuple; a lone tensor is refused, because it would be taken apart into its rows."""
    if not isinstance(given, list | tuple):
        raise InvalidValueError(
            f"{name} must give a tuple of arguments, got {type(given).__name__}; for one argument write (x,)"
        )
    return tuple(given)
