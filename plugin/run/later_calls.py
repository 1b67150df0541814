"""May a kernel be called again after its test, and does it find then what it found in it?

A suite of somebody else never said so, and a kernel that runs under other settings is another kernel: its time would be
wrong and nothing would show it. So a case is sampled later only where all of this is seen to hold:

- No fixture of its test cleans up when the test ends. Those of the session may: the last visit is before they end.
- `measure` does not stand inside a `with` or a `try … finally` of the test, which undo what the kernel may need.
- The state of the program that kernels depend on is at each visit what it was in the test, and there what it was when
  the test began (`program_state`): environment, CPUs, torch's settings, threads of the libraries, and what the kernel's
  own code takes from outside. So a loop that measures `lambda: f(x)` with another `x` each time is seen, and a model
  that the next test moves to another type.
"""

from __future__ import annotations

import ast
import inspect
import os
import sys
import textwrap
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from types import CellType, CodeType, FrameType, FunctionType, ModuleType
from typing import Any

from plugin.machine.cpu_state import allowed_cpus

State = dict[Hashable, Any]
"""What a kernel finds outside its arguments, by name."""
_OURS = ("roofline", "benchmark")
_MOST_HELD = 200
"""Entries of a container or an object that are looked at."""
_PLAIN = (bool, int, float, str, type(None))
_TORCH = (
    "get_num_threads",
    "get_default_dtype",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "get_float32_matmul_precision",
    "are_deterministic_algorithms_enabled",
)
_TORCH_BACKENDS = ("flash_sdp_enabled", "mem_efficient_sdp_enabled", "math_sdp_enabled", "cudnn_sdp_enabled")


def cleans_up(item: Any) -> bool:
    """Return whether a fixture of a test, other than ours and the session's, ends with the test, class or module."""
    info = getattr(item, "_fixtureinfo", None)
    return any(
        inspect.isgeneratorfunction(fixture.func)
        or inspect.isasyncgenfunction(fixture.func)
        # It may add a finalizer. Those of pytest that do are generators.
        or ("request" in fixture.argnames and not fixture.func.__module__.startswith("_pytest."))
        for name, fixtures in getattr(info, "name2fixturedefs", {}).items()
        if name not in _OURS
        for fixture in fixtures
        if fixture.scope != "session"
    )


def is_enclosed(frame: FrameType | None, test: Any) -> bool:
    """Return whether a call, whose frame is given, stands inside a `with` or a `try … finally`, in the test or in a
    function between; True where that cannot be read.
    """
    last = getattr(inspect.unwrap(test), "__code__", None)
    while frame is not None:
        lines = _undone_lines(frame.f_code)
        if lines is None or frame.f_lineno in lines:
            return True
        if frame.f_code is last:
            return False
        frame = frame.f_back
    return True


@lru_cache(maxsize=256)
def _undone_lines(code: CodeType) -> frozenset[int] | None:
    """Return the lines of a function that lie inside blocks that undo something; None where its text is not known."""
    try:
        lines, first = inspect.getsourcelines(code)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, SyntaxError, TypeError):
        return None
    undone: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.With | ast.AsyncWith) or (isinstance(node, ast.Try) and node.finalbody):
            undone.update(range(node.lineno + first - 1, (node.end_lineno or node.lineno) + first))
    return frozenset(undone)


def program_state(kernel: Any) -> State:
    """Return what a kernel depends on outside its arguments, by name; empty where that cannot be read."""
    try:
        return dict((*_settings(), *_named_by(kernel)))
    except Exception:  # another version of a library, a module that changes meanwhile: the suite is not ours to stop
        return {}


def is_same(state: State, other: State) -> bool:
    """Return whether two states agree in all that both know: a library that was loaded meanwhile is no change. What
    could not be read is like no other.
    """
    return bool(state and other) and all(state[name] == other[name] for name in state.keys() & other.keys())


def _settings() -> Iterator[tuple[Hashable, Any]]:
    yield "environment", sorted(entry for entry in os.environ.items() if entry[0] != "PYTEST_CURRENT_TEST")
    yield "folder", os.getcwd()
    yield "cpus", allowed_cpus()
    torch = sys.modules.get("torch")
    if torch is not None:
        yield "torch", [getattr(torch, name)() for name in _TORCH]
        yield "autocast", (torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"))
        yield "attention", [getattr(torch.backends.cuda, name)() for name in _TORCH_BACKENDS]
        yield "mkldnn", (torch.backends.mkldnn.enabled, torch.backends.mkldnn.deterministic)
    if (pools := sys.modules.get("threadpoolctl")) is not None:
        for pool in pools.threadpool_info():
            yield ("pool", pool["filepath"]), pool["num_threads"]
    if (numba := sys.modules.get("numba")) is not None:
        yield "numba", numba.get_num_threads()


def _named_by(kernel: Any) -> Iterator[tuple[Hashable, Any]]:
    """Yield what a kernel and its code take from outside, and plain values beside the functions and modules in it."""
    while isinstance(kernel, partial):
        yield (None, "partial"), _mark((kernel.args, kernel.keywords))
        kernel = kernel.func
    yield (None, "kernel"), _mark(getattr(kernel, "__self__", kernel))
    function = inspect.unwrap(getattr(kernel, "__func__", kernel))
    if not isinstance(function, FunctionType):
        return
    code, scope = function.__code__, function.__globals__
    cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
    taken = {name: cell.cell_contents for name, cell in cells if cell != CellType()}
    taken |= {name: scope[name] for name in code.co_names if name in scope}
    for name, value in taken.items():
        yield (None, name), _mark(value)
        if isinstance(value, FunctionType | ModuleType):
            beside = value.__globals__ if isinstance(value, FunctionType) else vars(value)
            where = beside.get("__name__", "")
            yield from [((where, name), repr(entry)) for name, entry in beside.items() if isinstance(entry, _PLAIN)]


@dataclass(frozen=True, slots=True, eq=False)
class _Held:
    """An object, the same as itself alone. It is held: a freed one could leave its place in memory to another."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Held) and self.value is other.value

    __hash__ = None  # type: ignore[assignment]


def _mark(value: Any, depth: int = 2) -> Any:
    """Return what shows that a value was replaced, or changed in a way that a time may depend on: which object it is,
    type, shape and place of arrays, tensors of a torch module, and the same of what a container or an object holds.
    """
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, FunctionType | ModuleType | type):
        return _Held(value)
    marks: list[Any] = [_Held(value)]
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        pointer = value.data_ptr() if hasattr(value, "data_ptr") else value.__array_interface__["data"][0]
        return [*marks, str(value.dtype), tuple(value.shape), pointer]
    if hasattr(value, "parameters") and hasattr(value, "buffers"):  # a module of torch
        return [*marks, value.training, [_mark(tensor, 0) for tensor in (*value.parameters(), *value.buffers())]]
    if depth:
        held = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
        held = [*held, *getattr(value, "__dict__", {}).values()]
        marks += [len(held), [_mark(entry, depth - 1) for entry in held[:_MOST_HELD]]]
    return marks
