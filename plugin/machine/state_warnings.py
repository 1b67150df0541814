"""State of the machine during one case (`StateWatch`), and warnings about its settings (`warnings`).

Readings before and after a case come from guarded sensors: a driver that blocks delays it by half a second once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from plugin.machine.cpu_state import (
    CONTENDED_RATIO,
    STOLEN_RATIO,
    LoadWatch,
    allowed_cpus,
    cpu_facts,
    load_over,
    mean_clock_hz,
    throttle_s,
)
from plugin.machine.facts import Machine
from plugin.sensors.bounded_sensors import bounded
from plugin.sensors.protocol import Sensors
from plugin.sensors.throttle import ThrottleWatch, gained_s
from plugin.timers.clock import time
from results.records.state_records import MachineState
from roofline_model.core.finding import Finding, finding

LOOK_S = 0.2
"""How long the CPUs are watched for other load before a run."""
SWAP_BYTES = 256 * 2**20
"""A little swap is always in use; more than this means that memory ran out."""
_GB10 = re.compile(r"\bGB10\b|DGX Spark", re.IGNORECASE)
_GDDR = re.compile(r"\b(T4|A2|A10G?|A16|A40|L2|L4|L20|L40S?|RTX)\b", re.IGNORECASE)


class StateWatch:
    """Watches one case from `with` to its end: CPU load, throttle counters, other processes on the device, clocks.

    `device` is where the kernels run, cpu or cuda; None where times are simulated: then the sensors alone are read,
    which are the simulated device's own, and nothing of this machine. Sensors of None give what the CPU's files tell.
    `pause` waits by the device's clock (`Timer.idle`), for a throttle counter's late step; without it only a real
    device waits.
    """

    def __init__(
        self, sensors: Sensors | None, device: str | None, pause: Callable[[float], Any] | None = None
    ) -> None:
        self._device = device
        self._sensors = None if sensors is None else bounded(sensors)
        self._load = LoadWatch()
        self._throttle = ThrottleWatch(self._sensors, pause or (time.sleep if device is not None else _no_pause))
        self._quota: tuple[Mapping[str, float] | None, Mapping[str, float] | None] = (None, None)
        self._process_counts: list[int] = []
        self._rated_hz: float | None = None
        self._cpu_hz: float | None = None

    def __enter__(self) -> StateWatch:
        self._count_processes()
        self._throttle.__enter__()
        if self._device is not None:
            self._quota = (throttle_s(), None)
            self._load.__enter__()
        return self

    def __exit__(self, *_: Any) -> None:
        if self._device is not None:
            self._load.__exit__()
            self._cpu_hz = mean_clock_hz()  # before the rest: it falls as soon as the work ends
            self._quota = (self._quota[0], throttle_s())
        self._throttle.__exit__()
        self._rated_hz = None if self._sensors is None else self._sensors.rated_clock_hz()
        self._count_processes()

    def _count_processes(self) -> None:
        count = None if self._sensors is None else self._sensors.other_process_count()
        if count is not None:
            self._process_counts.append(count)

    @property
    def state(self) -> MachineState:
        """What was seen. `retry_count` is the caller's to fill in."""
        return MachineState(
            throttled_s=self._throttled_s(),
            rated_clock_hz=self._rated_hz,
            others_ratio=self._load.others_ratio,
            stolen_ratio=self._load.stolen_ratio,
            device_process_count=max(self._process_counts, default=None),
            cpu_clock_hz=self._cpu_hz,
        )

    @property
    def active_reasons(self) -> tuple[str, ...]:
        """Throttle reasons active when the case ended, from the device's sensors."""
        return self._throttle.active

    def _throttled_s(self) -> Mapping[str, float] | None:
        """Return the throttled seconds by reason; on a CPU with the container's quota, with or without sensors."""
        of_device = self._throttle.throttled_s
        of_host = gained_s(*self._quota) if self._device == "cpu" else None
        if of_device is None and of_host is None:
            return None
        return {**(of_host or {}), **(of_device or {})}

    def flags(self) -> tuple[str, ...]:
        """Return `contended` and `stolen` for kernels on the CPU, `shared-device` for a GPU others hold a context
        on.
        """
        if self._device == "cpu":
            return self._load.flags()
        return ("shared-device",) if max(self._process_counts, default=0) > 0 else ()


def warnings(
    sensors: Sensors | None, machine: Machine, device: str | None, load: LoadWatch | None = None
) -> list[Finding]:
    """Return the warnings about settings that make this machine's times unreliable or unrepeatable.

    For the start of a run, once. On a CPU `load` is a window that has ended; without one the CPUs are watched for 0.2
    s.
    """
    if device == "cuda" and sensors is not None:
        guarded = bounded(sensors)
        facts = guarded.ask(getattr(sensors, "facts", dict)) or {}
        name = machine.facts.name if machine.facts else ""
        findings = gpu_warnings(facts, name, guarded.other_process_count())
        return [*findings, finding("sensors-frozen")] if guarded.is_frozen else findings
    if device == "cpu":
        allowed_count = len(allowed_cpus()) or machine.cpu_count
        findings = cpu_warnings(cpu_facts(), machine.thread_count, allowed_count)
        return findings + load_warnings(load if load is not None else load_over(LOOK_S))
    return []


def gpu_warnings(facts: Mapping[str, Any], name: str, other_processes: int | None) -> list[Finding]:
    """Return the warnings for a GPU from `NvmlDevice.facts`; what is None is not known and not warned of."""
    findings = []
    if facts.get("clock_lock_hz") is None and facts.get("max_clock_hz") is not None:
        is_gb10 = _GB10.search(name) is not None
        clock_mhz = "0,2100" if is_gb10 else f"{facts['max_clock_hz'] / 1e6:.0f}"
        findings.append(finding("clock-unlocked", kind="gb10" if is_gb10 else "gpu", clock_mhz=clock_mhz))
    if facts.get("persistence") is False:
        findings.append(finding("persistence-off"))
    if other_processes:
        findings.append(finding("shared-device", process_count=other_processes))
    if facts.get("mig"):
        findings.append(finding("mig-on"))
    if facts.get("ecc") and _GDDR.search(name):
        findings.append(finding("ecc-on"))
    if None not in (facts.get("ecc"), facts.get("ecc_pending")) and facts["ecc"] != facts["ecc_pending"]:
        findings.append(finding("ecc-changes"))
    limit_w, default_w = facts.get("power_limit_w"), facts.get("power_limit_default_w")
    if limit_w is not None and default_w is not None and limit_w < default_w:
        findings.append(finding("power-limited", limit_w=f"{limit_w:.0f}", default_w=f"{default_w:.0f}"))
    return findings


def cpu_warnings(facts: Mapping[str, Any], thread_count: int, allowed_count: int) -> list[Finding]:
    """Return the warnings for a CPU from `cpu_state.cpu_facts`; what is None is not known and not warned of."""
    findings = []
    governor, quota = facts.get("governor"), facts.get("cpu_quota_ratio")
    if governor is not None and governor != "performance":
        findings.append(finding("governor-unsteady", governor=governor))
    if quota is not None and quota < thread_count:
        fitting_count = max(1, int(quota))
        findings.append(finding("cpu-quota", quota_cpus=quota, thread_count=thread_count, fitting_count=fitting_count))
    if thread_count > allowed_count:
        findings.append(finding("threads-exceed-cpus", thread_count=thread_count, allowed_count=allowed_count))
    swap_bytes = facts.get("swap_used_bytes")
    if swap_bytes is not None and swap_bytes > SWAP_BYTES:
        findings.append(finding("swap-used", used_bytes=swap_bytes))
    return findings


def load_warnings(load: LoadWatch) -> list[Finding]:
    """Return the warnings for work that is not ours, from a window that has ended."""
    findings = []
    if load.others_ratio is not None and load.others_ratio > CONTENDED_RATIO:
        findings.append(finding("contended", others_ratio=load.others_ratio))
    if load.stolen_ratio is not None and load.stolen_ratio > STOLEN_RATIO:
        findings.append(finding("stolen", stolen_ratio=load.stolen_ratio))
    return findings


def _no_pause(seconds: float) -> None:
    """A simulated clock stands still while nobody works."""
