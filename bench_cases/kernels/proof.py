"""Did the kernel run that the case names, and how many does a call launch? torch's own record of one call says which
operators it dispatched.

The record shows which operator torch chose (this attention backend, this product, a graph that torch.compile made), not
which kernel the operator's library took: that is `--roofline-attribution cupti`. It is taken by the profiler of torch's
dispatcher, which needs no driver and no tracing interface, and never while a sample runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
import torch.autograd.profiler_legacy

from bench_cases.kernels.spec import COMPILED_PROOF

_PLUMBING = (
    "aten::empty",
    "aten::new_empty",
    "aten::_unsafe_view",
    "aten::detach_",
    "aten::resize_",
    "aten::set_",
    "aten::record_stream",
)
"""Beginnings of operators that move no data, beside those whose result is a view or a number."""


class OtherKernelError(AssertionError):
    """Another kernel ran than the case names: a failed test, never a timing."""


class KernelProof:
    """Looks once at what a call dispatches, when its first result is checked: after compilation, before any sample."""

    def __init__(self, name: str, proof: Sequence[str], call: Callable[[], Any]) -> None:
        """`proof`: beginnings of names one of which shows the kernel; none: the kernel is plain torch, nothing can fall
        back.
        """
        self._name, self._proof, self._call = name, tuple(proof), call
        self.facts: dict[str, Any] = {}
        """To be stored: `operator`, what showed the kernel, None where the record shows no operator at all;
        `seen_by`.
        """

    def checked(self, check: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return the check that looks before its first verdict; it then raises `OtherKernelError` for another
        kernel.
        """

        def look_and_check(output: Any) -> Any:
            __tracebackhide__ = True
            if self._proof and not self.facts:
                self.facts = {"operator": self._seen(), "seen_by": "torch-dispatcher"}
            return check(output)

        return look_and_check

    def _seen(self) -> str | None:
        __tracebackhide__ = True
        names = dispatched(self._call)
        seen = next((name for name in names if name.startswith(self._proof)), None)
        if seen is not None:
            return _without_key(seen)
        others = [name for name in names if name.startswith("aten::") and not _is_plumbing(name)]
        if not others:
            return None
        raise OtherKernelError(
            f"{self._name} did not run: none of {', '.join(self._proof)} was dispatched, but {', '.join(others[:6])}"
        )


def dispatched(call: Callable[[], Any]) -> tuple[str, ...]:
    """Return the names of all that torch dispatches in a call, each once, in order."""
    return tuple(dict.fromkeys(event.name for event in _recorded(call)))


def launch_count(call: Callable[[], Any]) -> int:
    """Return how many kernels a call launches on a GPU, by the operators and the Triton kernels that are recorded.

    An operator counts as what it calls; where that launches nothing, as one kernel, unless it moves no data. A library
    may run one operator as several kernels (split keys, sums in two steps), which nothing records here.
    """
    return sum(_launch_count(event) for event in _recorded(call) if event.cpu_parent is None)


def _recorded(call: Callable[[], Any]) -> Sequence[Any]:
    # Every other profiler of torch starts Kineto, which holds the GPU's tracing interface from then on: on an H200
    # CUPTI refused the next one who asked. torch calls this one deprecated. It does not tell Inductor's graphs that
    # somebody records.
    torch.autograd.profiler._run_on_profiler_start()
    try:
        with torch.autograd.profiler_legacy.profile() as record:
            call()
    finally:
        torch.autograd.profiler._run_on_profiler_stop()
    return record.function_events or ()


def _launch_count(event: Any) -> int:
    of_called = sum(_launch_count(called) for called in event.cpu_children)
    return of_called or int(_is_launch(event.name))


def _is_launch(name: str) -> bool:
    """Return whether a recorded name that calls no other launches a kernel; scopes of Dynamo launch none."""
    return name.startswith(COMPILED_PROOF) or ("::" in name and not _is_plumbing(name) and not _only_calls_others(name))


def compiled_alone(fn: Callable[..., Any], *, backend: Any = "inductor") -> Callable[..., Any]:
    """Return `fn` through torch.compile, for the shapes of one case.

    Dynamo counts recompilations per code object, over all cases of a process, and runs eager from the ninth on: what
    earlier cases compiled is forgotten here. A graph that breaks, and the limit, raise Dynamo's errors instead of
    falling back. `backend` as of `torch.compile`.
    """
    torch.compiler.reset()
    compiled: Callable[..., Any] = torch.compile(fn, dynamic=False, fullgraph=True, backend=backend)
    return compiled


@cache
def _is_plumbing(name: str) -> bool:
    """Return whether an operator by itself moves no data: an allocation, a view, or a number for the host."""
    if name.startswith(_PLUMBING):
        return True
    returned = [result for schema in torch._C._jit_get_schemas_for_operator(name)[:1] for result in schema.returns]
    is_view = any(result.alias_info is not None and not result.alias_info.is_write for result in returned)
    return is_view or (bool(returned) and not any("Tensor" in str(result.type) for result in returned))


def _only_calls_others(name: str) -> bool:
    """Return whether a name is no operator (a scope), or one that only calls others: without any it did nothing."""
    schemas = torch._C._jit_get_schemas_for_operator(name)
    names = [f"{name}.{schema.overload_name}" if schema.overload_name else name for schema in schemas]
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    return all(has_kernel(overload, "CompositeImplicitAutograd") for overload in names)


def _without_key(name: str) -> str:
    """Return the name of a compiled graph without the key of its source, which differs from case to case."""
    return " ".join(name.strip("# ").split()[:2]) if name.startswith("## Call") else name
