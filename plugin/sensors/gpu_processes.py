"""Other processes on the GPU: the driver's list without this process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

_INITIAL_PID_NAMESPACE = "pid:[4026531836]"
"""PROC_PID_INIT_INO, the number of the machine's own process namespace (include/linux/proc_ns.h)."""


def count_others(
    pids: Iterable[int], own_pid: int, exists: Callable[[int], bool], in_container: bool, has_context: bool
) -> int:
    """Return how many of the driver's `pids` are other live processes.

    The driver reports the machine's numbers, which a container cannot see: there an invisible process lives (it belongs
    to somebody outside), but one of them is ourselves if we hold a context and our own number is not in the list. On
    the machine itself an invisible process is a stale entry and not counted.
    """
    listed = set(pids)
    visible = {pid for pid in listed if pid != own_pid and exists(pid)}
    if not in_container:
        return len(visible)
    invisible = len(listed - visible - {own_pid})
    return len(visible) + max(0, invisible - (has_context and own_pid not in listed))


def other_processes(pids: Iterable[int]) -> int:
    """Return `count_others` for this process on this machine."""
    return count_others(pids, os.getpid(), _exists, _in_container(), _has_context())


def _exists(pid: int) -> bool:
    if pid <= 0:  # kill() would address a whole group
        return False
    try:
        os.kill(pid, 0)
    except PermissionError:  # somebody else's, but there
        return True
    except (OSError, OverflowError, ValueError):
        return False
    return True


def _in_container() -> bool:
    try:
        return os.readlink("/proc/self/ns/pid") != _INITIAL_PID_NAMESPACE
    except OSError:
        return False


def _has_context() -> bool:
    """Return whether CUDA runs in this process: it alone opens the unified-memory device, which NVML does not."""
    try:
        links = [os.readlink(entry) for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink()]
    except OSError:
        return False
    return any(link.startswith("/dev/nvidia-uvm") for link in links)
