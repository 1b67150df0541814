"""Profiler support: NVTX ranges, the names to show and filter by, and the Nsight Compute command of a case.

`pytest … --roofline-profile ncu` prints a command per selected case and measures nothing. The command runs that one
test again under ncu with `ROOFLINE_PROFILED=1` set: the harness then times nothing (a profiler replays every kernel
several times, so that no time would be true) and makes one call inside the NVTX range that ncu is told to look at.
Flags as in the Nsight Compute CLI manual; printed on an H200, not run there.

Ranges cost nothing measurable when no profiler is attached. torch is never imported here: a range is pushed only where
a CUDA build of it is loaded already.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofline_model.operators.case import Case

if TYPE_CHECKING:
    import pytest

CALL_RANGE = "roofline-call"
"""The range around the one call that a profiler is to look at."""
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_MAX_CHARACTERS = 200
PROFILED_VARIABLE = "ROOFLINE_PROFILED"
_KEPT_OPTIONS = ("hw", "device", "formats", "shapes", "cache", "mode")
"""Options that decide which cases exist: without them the node id would not be found again."""
_PYTEST_OPTIONS = (
    "-q",
    "-p",
    "no:cacheprovider",
    "--roofline-isolate",
    "none",
    "--roofline-no-canary",
    "--roofline-no-power",
)


def range_name(text: str) -> str:
    r"""Return a name for `text` that Nsight Compute's filter takes literally.

    The filter gives @ , [ ] / * + and \ a meaning (Nsight Compute CLI manual, "NVTX Filtering") and NVTX takes ASCII.
    """
    return "roofline-" + (_UNSAFE.sub("_", text)[:_MAX_CHARACTERS].strip("_") or "case")


@contextmanager
def nvtx_range(name: str) -> Iterator[None]:
    """Push an NVTX range for the length of the `with`; does nothing where torch has no CUDA loaded."""
    nvtx = _nvtx()
    if nvtx is None:
        yield
        return
    nvtx.range_push(name)
    try:
        yield
    finally:
        nvtx.range_pop()


def _nvtx() -> Any:
    """Return torch.cuda.nvtx where it works: a torch without CUDA has only stubs that raise."""
    torch = sys.modules.get("torch")
    if torch is None or getattr(getattr(torch, "version", None), "cuda", None) is None:
        return None
    return getattr(torch.cuda, "nvtx", None)


def ncu_command(node_id: str, case: Case | None, options: Sequence[str] = ()) -> str:
    """Return the shell command that profiles one call of a case with Nsight Compute's roofline set.

    `node_id` is the test as pytest would be given it; `options` are further pytest options. A push/pop range is named
    with a slash behind it. The clock is left as the benchmark has it (ncu would lock it to base), and the caches are
    flushed before each replay unless the case is a warm one. The report is named after the case, in the current folder.
    """
    is_warm = case is not None and case.cache == "warm"
    command = [
        *("ncu", "--target-processes", "all"),
        *("--nvtx", "--nvtx-include", f"{CALL_RANGE}/"),
        *("--set", "roofline", "--clock-control", "none", "--cache-control", "none" if is_warm else "all"),
        *("--force-overwrite", "--export", _report_name(node_id, case)),
        *("python", "-m", "pytest", node_id, *_PYTEST_OPTIONS, *options),
    ]
    return f"{PROFILED_VARIABLE}=1 {shlex.join(command)}"


def ncu_commands(items: Iterable[pytest.Item]) -> list[str]:
    """Return the command of each item, in order.

    Paths are relative to the folder pytest was called from, where the commands are meant to be run.
    """
    return [ncu_command(_node_path(item), case_of(item), _kept_options(vars(item.config.option))) for item in items]


def case_of(item: pytest.Item) -> Case | None:
    """Return the case an item was parametrised with, or None: a test of one's own names its case when it runs."""
    parameters: Mapping[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    for value in parameters.values():
        case = value if isinstance(value, Case) else getattr(value, "case", None)
        if isinstance(case, Case):
            return case
    return None


def is_profiled() -> bool:
    """Return whether this process was started by such a command: nothing is timed then, and nothing stored."""
    return os.environ.get(PROFILED_VARIABLE, "") not in ("", "0")


def profile_one_call(call: Callable[[], Any], synchronize: Callable[[], None]) -> None:
    """Make the one call that the profiler looks at; the call before it has compiled and loaded everything."""
    call()
    synchronize()
    with nvtx_range(CALL_RANGE):
        call()
        synchronize()


def _report_name(node_id: str, case: Case | None) -> str:
    name = f"{case.op}-{case.id}" if case is not None else node_id.rpartition("::")[2]
    return re.sub(r"[^A-Za-z0-9._-]+", "_", name).strip("_-.")[:150] or "roofline"


def _node_path(item: pytest.Item) -> str:
    """Return the node id with its path as seen from the folder pytest was called from; ids are relative to the root."""
    path, separator, test_name = item.nodeid.partition("::")
    root, invocation = Path(str(item.config.rootpath)), Path(str(item.config.invocation_params.dir))
    return os.path.relpath(root / path, invocation) + separator + test_name


def _kept_options(given: Mapping[str, Any]) -> list[str]:
    values = ((name, given.get(f"roofline_bench_{name}")) for name in _KEPT_OPTIONS)
    kept_options = [f"--roofline-{name}={value}" for name, value in values if value is not None]
    return [*kept_options, *(["--roofline-force-measure"] if given.get("roofline_bench_force_measure") else [])]
