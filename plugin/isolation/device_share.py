"""pytest-xdist: which GPU each xdist worker measures on, and why a CPU is never measured by two at a time.

Two kernels on one device are both timed wrong. So each worker sees one GPU of its own, the controller refuses more
workers than GPUs, and where it could not know (a suite that gives none of our options) workers that share a GPU take
turns. The assignment is tested with fakes; several GPUs are unproven on hardware.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any

from plugin.sensors.nvml import device_count
from roofline_model.core.errors import UnsupportedError

VARIABLE = "CUDA_VISIBLE_DEVICES"
_PROC_GPUS = Path("/proc/driver/nvidia/gpus")


def xdist_worker(environ: Mapping[str, str]) -> tuple[int, int] | None:
    """Return (position, number of workers) of this xdist worker, or None outside xdist."""
    match = re.fullmatch(r"gw(\d+)", environ.get("PYTEST_XDIST_WORKER", ""))
    if match is None:
        return None
    count = environ.get("PYTEST_XDIST_WORKER_COUNT", "")
    return int(match[1]), int(count) if count.isdecimal() else 1


def visible_devices(environ: Mapping[str, str], count: int) -> list[str]:
    """Return the devices that CUDA would show, as they are written in CUDA_VISIBLE_DEVICES: indices or UUIDs.

    Like the driver: the list ends at the first entry that names no device (-1, nothing, an index too high).
    """
    text = environ.get(VARIABLE)
    if text is None:
        return [str(index) for index in range(count)]
    devices: list[str] = []
    for part in (piece.strip() for piece in text.split(",")):
        is_index = part.isdecimal() and int(part) < count
        if not (is_index or part.startswith(("GPU-", "MIG-"))) or part in devices:
            break
        devices.append(part)
    return devices


def installed_devices() -> int:
    """Return how many NVIDIA GPUs this machine has, without starting CUDA."""
    count = device_count()
    return len(list(_PROC_GPUS.glob("*"))) if count is None else count


def claim_device(environ: MutableMapping[str, str], count: int | None = None) -> str | None:
    """Give this xdist worker its GPU by setting CUDA_VISIBLE_DEVICES; return it, or None where there is none to give.

    Must run before CUDA starts. Where a test module has started it already, nothing is changed: the worker measures on
    what it has and takes turns with the others.
    """
    worker = xdist_worker(environ)
    devices = visible_devices(environ, installed_devices() if count is None else count)
    if worker is None or not devices:
        return None
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        environ[VARIABLE] = devices[worker[0] % len(devices)]
    return environ.get(VARIABLE, devices[0])


def refuse_too_many(worker_count: int, devices: Sequence[str]) -> None:
    """Raise `UnsupportedError` when xdist would start more workers than there are GPUs to measure on."""
    if worker_count > len(devices):
        shown = f"{len(devices)} visible GPU{'s' if len(devices) != 1 else ''}"
        raise UnsupportedError(
            f"-n {worker_count}: {worker_count} xdist workers would share {shown}, and kernels beside each other are "
            "timed wrong; "
            f"use -n {max(1, len(devices))}, or leave out -n"
        )


def controller_worker_count(config: Any) -> int:
    """Return how many workers this xdist controller starts: `--tx 3*popen` counts three."""
    given = (re.match(r"(\d+)\*", str(text)) for text in getattr(config.option, "tx", None) or ())
    return sum(1 if several is None else int(several[1]) for several in given)


@contextlib.contextmanager
def one_at_a_time(folder: Path, device: str) -> Iterator[None]:
    """Hold a lock shared by the processes of this folder that measure on `device`."""
    import fcntl

    name = re.sub(r"[^A-Za-z0-9-]+", "_", device)
    (folder / ".roofline").mkdir(exist_ok=True)
    with (folder / ".roofline" / f"measure-{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
