"""What the machine did during one case (`StateWatch`), and what about it should be mended first (`warnings`).

Readings before and after a case come from guarded sensors: a driver that blocks delays it by half a second once.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from plugin.machine.cpu_state import allowed_cpus, cpu_facts, mean_clock_hz, throttle_s
from plugin.machine.facts import Machine
from plugin.machine.load import CONTENDED_RATIO, STOLEN_RATIO, LoadWatch
from plugin.sensors.bounded_sensors import bounded
from plugin.sensors.protocol import Sensors
from plugin.sensors.throttle import ThrottleWatch, gained_s
from results.records.state_records import MachineState

LOOK_S = 0.2
"""How long the CPUs are watched for other load before a run."""
SWAP_BYTES = 256 * 2**20
"""A little swap is always in use; more than this means that memory ran out."""
_GB10 = re.compile(r"\bGB10\b|DGX Spark", re.IGNORECASE)
_GDDR = re.compile(r"\b(T4|A2|A10G?|A16|A40|L2|L4|L20|L40S?|RTX)\b", re.IGNORECASE)


class StateWatch:
    """Watches one case from `with` to its end: CPU load, throttle counters, other processes on the device, clocks.

    `device` is where the kernels run, cpu or cuda; None where times are simulated: then the sensors alone are read, which
    are the simulated device's own, and nothing of this machine. Sensors of None give what the CPU's files tell. `pause`
    waits by the device's clock (`Timer.idle`), for a throttle counter's late step; without it only a real device waits.
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
        """What held the device's clock down when the case ended, as far as its sensors tell."""
        return self._throttle.active

    def _throttled_s(self) -> Mapping[str, float] | None:
        """Return what held the device back: on a CPU that includes the container's quota, whatever sensors there are."""
        of_device = self._throttle.throttled_s
        of_host = gained_s(*self._quota) if self._device == "cpu" else None
        if of_device is None and of_host is None:
            return None
        return {**(of_host or {}), **(of_device or {})}

    def flags(self) -> tuple[str, ...]:
        """Return `contended` and `stolen` for kernels on the CPU, `shared-device` for a GPU others hold a context on."""
        if self._device == "cpu":
            return self._load.flags()
        return ("shared-device",) if max(self._process_counts, default=0) > 0 else ()


def warnings(sensors: Sensors | None, machine: Machine, device: str | None, load: LoadWatch | None = None) -> list[str]:
    """Return what makes this machine's times untrustworthy or unrepeatable, each with the command that mends it.

    For the start of a run, once. On a CPU `load` is a window that has ended; without one the CPUs are watched for 0.2 s.
    """
    if device is None:
        return []
    cpu = cpu_facts()
    found = []
    if device == "cuda" and sensors is not None:
        guarded = bounded(sensors)
        facts = guarded.ask(getattr(sensors, "facts", dict)) or {}
        name = machine.facts.name if machine.facts else ""
        found += gpu_warnings(facts, name, guarded.other_process_count())
        if guarded.is_frozen:
            found.append(
                "the GPU's sensors do not answer: state, power and energy stay empty; `nvidia-smi -q` shows whether it does"
            )
    if device == "cpu":
        found += cpu_warnings(cpu, machine.thread_count, len(allowed_cpus()) or machine.cpu_count)
        found += load_warnings(load if load is not None else _look())
    return found


def gpu_warnings(facts: Mapping[str, Any], name: str, other_processes: int | None) -> list[str]:
    """Return the warnings for a GPU from `NvmlDevice.facts`; what is None is not known and not warned of."""
    found = []
    if facts.get("clock_lock_hz") is None and facts.get("max_clock_hz") is not None:
        found.append(_unlocked(name, facts["max_clock_hz"]))
    if facts.get("persistence") is False:
        found.append(
            "persistence mode is off: the driver unloads between runs and clocks start cold; `sudo nvidia-smi -pm 1`"
        )
    if other_processes:
        found.append(
            f"{_count(other_processes, 'other process has', 'other processes have')} work on this GPU: times are too long; "
            "`nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv` names them, stop them or wait"
        )
    if facts.get("mig"):
        found.append(
            "MIG is on: this is a part of the chip, predictions are for the whole; `sudo nvidia-smi -mig 0` joins it again"
        )
    if facts.get("ecc") and _GDDR.search(name):
        found.append(
            "ECC is on: on GDDR memory it takes a share of the bandwidth that the datasheet does not know of; "
            "`sudo nvidia-smi -e 0` and a reboot switch it off, or keep it on in every run that is compared"
        )
    if None not in (facts.get("ecc"), facts.get("ecc_pending")) and facts["ecc"] != facts["ecc_pending"]:
        found.append(
            "a change of ECC waits for the next reboot (`nvidia-smi -q -d ECC`): runs before and after it do not compare"
        )
    limit_w, default_w = facts.get("power_limit_w"), facts.get("power_limit_default_w")
    if limit_w is not None and default_w is not None and limit_w < default_w:
        found.append(
            f"the power limit is {limit_w:.0f} W, the default {default_w:.0f} W; `sudo nvidia-smi -pl {default_w:.0f}` restores it"
        )
    return found


def _unlocked(name: str, max_hz: float) -> str:
    if _GB10.search(name):
        return (
            "no clock lock shows on this GB10: it heats up and slows down; `sudo nvidia-smi -lgc 0,2100` held 65 instead of 91 °C in one "
            "report. Its slow state shows in no clock, only in the canary kernel; unplugging the power supply clears it. "
            "NVML cannot see every lock: if -lgc is set, ignore this"
        )
    return (
        f"no clock lock shows: the SM clock moves with heat and power; `sudo nvidia-smi -lgc {max_hz / 1e6:.0f}` locks it "
        "(choose a clock it can hold; `sudo nvidia-smi -rgc` undoes it). NVML cannot see every lock: if -lgc is set, ignore this"
    )


def cpu_warnings(facts: Mapping[str, Any], thread_count: int, allowed_count: int) -> list[str]:
    """Return the warnings for a CPU from `cpu_state.cpu_facts`; what is None is not known and not warned of."""
    found = []
    governor, quota = facts.get("governor"), facts.get("cpu_quota_ratio")
    if governor is not None and governor != "performance":
        found.append(
            f"the CPU governor is {governor}: the clock follows the load; `sudo cpupower frequency-set -g performance`"
        )
    if quota is not None and quota < thread_count:
        found.append(
            f"this container may use {quota:.3g} CPUs, and {_count(thread_count, 'thread runs', 'threads run')}: they are stopped again "
            f"and again; `OMP_NUM_THREADS={max(1, int(quota))}` fits, or start the container with `--cpus={thread_count}`"
        )
    if thread_count > allowed_count:
        found.append(
            f"{thread_count} threads share {_count(allowed_count, 'CPU', 'CPUs')} (`taskset -pc $$` shows which): "
            f"they wait for each other; `OMP_NUM_THREADS={allowed_count}` fits"
        )
    swap_bytes = facts.get("swap_used_bytes")
    if swap_bytes is not None and swap_bytes > SWAP_BYTES:
        found.append(
            f"{swap_bytes / 2**20:.0f} MiB of swap are in use: operands may be read from disk; `sudo swapoff -a && sudo swapon -a` empties it"
        )
    return found


def load_warnings(load: LoadWatch) -> list[str]:
    """Return the warnings for work that is not ours, from a window that has ended."""
    found = []
    if load.others_ratio is not None and load.others_ratio > CONTENDED_RATIO:
        found.append(
            f"other processes use {load.others_ratio:.0%} of the CPUs: times are too long; `top -o %CPU` names them, stop them or wait"
        )
    if load.stolen_ratio is not None and load.stolen_ratio > STOLEN_RATIO:
        found.append(
            f"the hypervisor gives {load.stolen_ratio:.0%} of our CPUs to other machines (`vmstat 1`, column st): "
            "use a dedicated host or instance type, nothing inside this machine mends it"
        )
    return found


def _no_pause(seconds: float) -> None:
    """A simulated clock stands still while nobody works."""


def _look() -> LoadWatch:
    load = LoadWatch()
    with load:
        time.sleep(LOOK_S)
    return load


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
