"""Settings and state of the CPUs: governor, frequency, boost, SMT, NUMA, pinning, quota, swap; and who else uses them.

The quota is that of the container or unit (cgroup version 2, else version 1), with how long it has stopped us.
Everything comes from the kernel's files; what a machine does not tell is None. `root` is the file system to read.

`LoadWatch` tells whether the machine was ours while we measured: CPU time of everybody else, from the kernel's own
counters. Everybody else is other processes, and threads of this one that go on working when the kernel does not. Two
threads that wait for each other at a barrier lose whole scheduler slices (8 ms on one machine) as soon as one other
process runs: the median is then tight, repeatable and wrong. No statistic of the samples can show that.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plugin.machine.kernel_files import ROOT, cpuinfo, read_file
from plugin.timers.clock import time

_CPUS = "sys/devices/system/cpu"
_HYPERVISOR_NAMES = {
    "kvm": "KVM", "qemu": "KVM", "vmware": "VMware", "virtualbox": "VirtualBox", "xen": "Xen", "microsoft": "Hyper-V",
    "amazon": "EC2", "google": "Google Compute Engine",
}  # fmt: skip


def allowed_cpus() -> list[int]:
    """Return the CPUs this process may run on, in order; empty where the system does not tell."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def cpu_facts(root: Path = ROOT, cpus: Iterable[int] | None = None) -> dict[str, Any]:
    """Return the CPU's part of the environment: settings that decide or explain a timing, None where not told.

    governor: one name, or several joined by + where CPUs differ. cpu_quota_ratio: CPUs' worth of time a container may
    use. allowed_cpus: as in `taskset`, e.g. 0-3,8. numa_node_count, hypervisor (name, or "unknown" where only the
    processor's flag shows one).
    """
    cpus = allowed_cpus() if cpus is None else list(cpus)
    quota = read_quota(root)
    return {
        "governor": _joined(root, cpus, "cpufreq/scaling_governor"),
        "cpu_driver": _joined(root, cpus, "cpufreq/scaling_driver"),
        "energy_preference": _joined(root, cpus, "cpufreq/energy_performance_preference"),
        "cpu_clock_hz": mean_clock_hz(cpus, root),
        "cpu_min_clock_hz": min(_kilohertz(root, cpus, "cpufreq/scaling_min_freq"), default=None),
        "cpu_max_clock_hz": max(_kilohertz(root, cpus, "cpufreq/scaling_max_freq"), default=None),
        "boost": boost(root),
        "smt": _smt(root),
        "numa_node_count": len(list((root / "sys/devices/system/node").glob("node[0-9]*"))) or None,
        "online_cpus": read_file(root / _CPUS / "online"),
        "allowed_cpus": ranges(cpus) or None,
        "isolated_cpus": read_file(root / _CPUS / "isolated") or None,
        "cpu_quota_ratio": quota.quota_ratio,
        "hypervisor": hypervisor(root),
        "swap_used_bytes": swap_used_bytes(root),
    }


def mean_clock_hz(cpus: Iterable[int] | None = None, root: Path = ROOT) -> float | None:
    """Return the mean frequency of some CPUs now: cpufreq's, else the one /proc/cpuinfo shows, else None."""
    chosen_cpus = set(allowed_cpus() if cpus is None else cpus)
    clocks = _kilohertz(root, sorted(chosen_cpus), "cpufreq/scaling_cur_freq")
    if not clocks:
        clocks = [clock_hz for cpu, clock_hz in _cpuinfo_clocks(root) if cpu in chosen_cpus]
    return sum(clocks) / len(clocks) if clocks else None


def boost(root: Path = ROOT) -> bool | None:
    """Return whether the CPU may exceed its base frequency (turbo, core performance boost), or None."""
    no_turbo = read_file(root / _CPUS / "intel_pstate/no_turbo")
    if no_turbo in ("0", "1"):
        return no_turbo == "0"
    text = read_file(root / _CPUS / "cpufreq/boost")
    return text == "1" if text in ("0", "1") else None


def hypervisor(root: Path = ROOT) -> str | None:
    """Return the virtual machine's maker, "unknown" where only the processor's flag says there is one, or None."""
    folder = root / "sys/class/dmi/id"
    board = f"{read_file(folder / 'sys_vendor') or ''} {read_file(folder / 'product_name') or ''}".lower()
    for part, title in _HYPERVISOR_NAMES.items():
        is_real = "metal" in board or (part == "microsoft" and "virtual" not in board)
        if part in board and not is_real:
            return title
    hypervisor_type = read_file(root / "sys/hypervisor/type")
    if hypervisor_type:
        return _HYPERVISOR_NAMES.get(hypervisor_type, hypervisor_type)
    is_guest = any(name == "flags" and "hypervisor" in value.split() for name, value in cpuinfo(root))
    return "unknown" if is_guest else None


def swap_used_bytes(root: Path = ROOT) -> int | None:
    """Return the swap space in use, or None."""
    values = dict(re.findall(r"^(Swap\w+):\s*(\d+) kB", read_file(root / "proc/meminfo") or "", re.MULTILINE))
    if "SwapTotal" not in values or "SwapFree" not in values:
        return None
    return (int(values["SwapTotal"]) - int(values["SwapFree"])) * 1024


def heat_throttle_s(cpus: Iterable[int] | None = None, root: Path = ROOT) -> float | None:
    """Return the longest time any CPU's package has been held down by heat since boot (Intel tells), or None.

    thermal_throttle/package_throttle_total_time_ms, kernel 5.10 and later.
    """
    chosen_cpus = allowed_cpus() if cpus is None else cpus
    texts = [
        read_file(root / _CPUS / f"cpu{cpu}/thermal_throttle/package_throttle_total_time_ms") for cpu in chosen_cpus
    ]
    return max((int(text) / 1e3 for text in texts if text and text.isdecimal()), default=None)


def throttle_s(root: Path = ROOT, quota: CpuQuota | None = None) -> dict[str, float] | None:
    """Return the cumulative seconds per reason for which our CPUs were stopped or slowed, or None where nothing tells.

    "cgroup quota": the container used up its CPU limit, and its threads stood still. "package thermal": heat.
    """
    quota = read_quota(root) if quota is None else quota
    heat_s = heat_throttle_s(root=root)
    stopped_s = {"cgroup quota": quota.throttled_s, "package thermal": heat_s}
    return {reason: seconds for reason, seconds in stopped_s.items() if seconds is not None} or None


def ranges(cpus: Iterable[int]) -> str:
    """Return CPU numbers as the kernel writes them: 0-3,8."""
    groups: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if groups and cpu == groups[-1][1] + 1:
            groups[-1][1] = cpu
        else:
            groups.append([cpu, cpu])
    return ",".join(f"{first}" if first == last else f"{first}-{last}" for first, last in groups)


def _cpuinfo_clocks(root: Path) -> Iterator[tuple[int, float]]:
    """Yield (CPU, frequency) from /proc/cpuinfo, which Arm kernels leave out."""
    cpu = -1
    for name, value in cpuinfo(root):
        if name == "processor" and value.isdecimal():
            cpu = int(value)
        elif name == "cpu MHz" and re.fullmatch(r"\d+(\.\d+)?", value) and float(value) > 0:
            yield cpu, float(value) * 1e6


def _smt(root: Path) -> bool | None:
    text = read_file(root / _CPUS / "smt/active")
    return text == "1" if text in ("0", "1") else None


def _kilohertz(root: Path, cpus: Iterable[int], name: str) -> list[float]:
    texts = [read_file(root / _CPUS / f"cpu{cpu}" / name) for cpu in cpus]
    return [int(text) * 1e3 for text in texts if text and text.isdecimal() and int(text) > 0]


def _joined(root: Path, cpus: Iterable[int], name: str) -> str | None:
    texts = [read_file(root / _CPUS / f"cpu{cpu}" / name) for cpu in cpus]
    return "+".join(dict.fromkeys(text for text in texts if text)) or None


@dataclass(frozen=True, slots=True)
class CpuQuota:
    """The tightest limit over this process's groups, and the longest time any of them has stood still.

    None: not told.
    """

    quota_ratio: float | None = None
    """CPUs' worth of time that may be used; None without a limit."""
    throttled_s: float | None = None
    """Cumulative; it adds up over the group's CPUs."""


def read_quota(root: Path = ROOT) -> CpuQuota:
    """Return the limits of this process's control groups, from its own up to the root."""
    ratios, times = [], []
    for folder in _folders(root):
        ratio = _ratio(folder)
        if ratio is not None:
            ratios.append(ratio)
        statistics = dict(re.findall(r"^(\w+) (\d+)$", read_file(folder / "cpu.stat") or "", re.MULTILINE))
        if "throttled_usec" in statistics:  # version 2
            times.append(int(statistics["throttled_usec"]) / 1e6)
        elif "throttled_time" in statistics:  # version 1, nanoseconds
            times.append(int(statistics["throttled_time"]) / 1e9)
    return CpuQuota(min(ratios, default=None), max(times, default=None))


def _folders(root: Path) -> Iterator[Path]:
    """Yield the folders of this process's CPU groups; a path that lies outside the container's view is cut to its
    root.
    """
    mount = root / "sys/fs/cgroup"
    for line in (read_file(root / "proc/self/cgroup") or "").splitlines():
        _, _, cpu_list = line.partition(":")
        controllers, _, path = cpu_list.partition(":")
        if controllers == "":
            base = mount
        elif "cpu" in controllers.split(","):
            base = next((mount / name for name in (controllers, "cpu") if (mount / name).is_dir()), mount / "cpu")
        else:
            continue
        parts = [part for part in path.split("/") if part not in ("", "..")]
        for length in range(len(parts), -1, -1):
            folder = base.joinpath(*parts[:length])
            if (folder / "cpu.stat").is_file():
                yield folder


def _ratio(folder: Path) -> float | None:
    """Return the group's own limit as a number of CPUs, or None."""
    quota_and_period = (read_file(folder / "cpu.max") or "").split()
    if not quota_and_period:
        quota_and_period = [read_file(folder / "cpu.cfs_quota_us") or "", read_file(folder / "cpu.cfs_period_us") or ""]
    if (
        len(quota_and_period) != 2
        or not quota_and_period[0].isdecimal()
        or not quota_and_period[1].isdecimal()
        or int(quota_and_period[1]) == 0
    ):
        return None  # `max` and -1 are no limit
    return int(quota_and_period[0]) / int(quota_and_period[1])


CONTENDED_RATIO = 0.10
"""Share of this process's CPUs that others may use before a case is flagged."""
STOLEN_RATIO = 0.02
SHORTEST_WINDOW_S = 0.05
"""The counters step in hundredths of a second; a shorter window tells nothing."""

_STAT = Path("/proc/stat")


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """Counters since boot, in seconds, over the CPUs this process may use."""

    wall_s: float
    busy_s: float
    stolen_s: float
    own_s: float


class LoadWatch:
    """Watches the CPUs between `with` and its end; everything is None where the kernel does not tell.

    The thread that enters it is the one that measures.
    """

    def __init__(self) -> None:
        self._before: CpuTimes | None = None
        self._after: CpuTimes | None = None
        self._cpus = allowed_cpus()
        self._threads_before: dict[int, float] = {}
        self._stray_s = 0.0
        """CPU time of this process's threads that worked beside the kernel."""

    def __enter__(self) -> LoadWatch:
        self._threads_before = thread_times()
        self._before = self._read()
        return self

    def __exit__(self, *_: object) -> None:
        self._after = self._read()
        if self._before is not None and self._after is not None:
            least_s = CONTENDED_RATIO * (self._after.wall_s - self._before.wall_s)
            self._stray_s = stray_s(self._threads_before, max(least_s, 2 / os.sysconf("SC_CLK_TCK")))

    def _read(self) -> CpuTimes | None:
        try:
            busy_s, stolen_s = parse_stat(_STAT.read_text(), self._cpus)
        except (OSError, ValueError):
            return None
        process_times = os.times()
        return CpuTimes(time.perf_counter(), busy_s, stolen_s, process_times.user + process_times.system)

    @property
    def others_ratio(self) -> float | None:
        """Share of our CPUs' time that others used in the window, 0 to 1."""
        if self._window is None:
            return None
        # Counters step in hundredths of a second, so that a short window can add up to more than there is.
        return min(1.0, max(0.0, self._share(self._window.busy_s - self._window.own_s)) + self._share(self._stray_s))

    @property
    def stolen_ratio(self) -> float | None:
        """Share of our CPUs' time that the hypervisor gave to other machines."""
        return None if self._window is None else min(1.0, max(0.0, self._share(self._window.stolen_s)))

    def flags(self) -> tuple[str, ...]:
        """Return `contended` and `stolen` where the window was not ours."""
        load_flags = []
        # One thread beside the kernel is little on many CPUs, and yet takes turns with it at Python's lock.
        if self.others_ratio is not None and (self.others_ratio > CONTENDED_RATIO or self._stray_s > 0):
            load_flags.append("contended")
        if self.stolen_ratio is not None and self.stolen_ratio > STOLEN_RATIO:
            load_flags.append("stolen")
        return tuple(load_flags)

    @property
    def _window(self) -> CpuTimes | None:
        before, after = self._before, self._after
        if before is None or after is None or not self._cpus or after.wall_s - before.wall_s < SHORTEST_WINDOW_S:
            return None
        return CpuTimes(
            after.wall_s - before.wall_s,
            after.busy_s - before.busy_s,
            after.stolen_s - before.stolen_s,
            after.own_s - before.own_s,
        )

    def _share(self, seconds: float) -> float:
        assert self._window is not None
        return seconds / (self._window.wall_s * len(self._cpus))


def load_over(seconds: float) -> LoadWatch:
    """Watch the CPUs for so long, at rest, and return the window."""
    with LoadWatch() as load:
        time.sleep(seconds)
    return load


_QUIET_LOOK_S = 0.03
"""One look at threads while nothing is measured: three steps of their counters."""
_SETTLE_S = 0.3
"""A library's threads wait for more work in a loop: 0.2 s in Intel's OpenMP, a few ms in GNU's."""
_pool_threads: set[int] = set()
"""Threads that were seen at rest while no kernel ran, and are not Python's: they belong to kernels."""


def thread_times(folder: Path = Path("/proc/self/task")) -> dict[int, float]:
    """Return the CPU seconds of each thread of this process by its id; empty where the system does not tell."""
    return {key: used_s for key, (_, used_s) in process_times(folder).items()}


def busiest_process(before: Mapping[int, tuple[str, float]], after: Mapping[int, tuple[str, float]]) -> str:
    """Return the name of the other process that used most CPU time between two `process_times`; empty for none."""
    used = {
        pid: seconds - before[pid][1] for pid, (_, seconds) in after.items() if pid in before and pid != os.getpid()
    }
    pid = max(used, key=lambda each: used[each], default=0)
    return after[pid][0] if used.get(pid, 0.0) > 0 else ""


def process_times(folder: Path = Path("/proc")) -> dict[int, tuple[str, float]]:
    """Return name and CPU seconds of each process, or thread, by its id; empty where the system does not tell."""
    times = {}
    for path in folder.glob("[0-9]*/stat"):
        head, _, tail = (read_file(path) or "").rpartition(")")
        fields = tail.split()
        if len(fields) > 12:
            seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            times[int(path.parent.name)] = (head.partition("(")[2], seconds)
    return times


def stray_s(before: dict[int, float], least_s: float) -> float:
    """Return the CPU seconds since `before` of threads that worked beside the measured kernel and are no part of it.

    A thread of `least_s` or more is looked at while nothing is measured: a kernel's threads come to rest then, what a
    suite has left running does not. Takes no time where no such thread is new.
    """
    gained = _gained(before, thread_times())
    python_threads = {thread.native_id for thread in threading.enumerate()}
    suspects = {
        thread
        for thread, seconds in gained.items()
        if seconds >= least_s and thread != threading.get_native_id() and thread not in _pool_threads
    }
    until_s = time.perf_counter() + _SETTLE_S
    while suspects and time.perf_counter() < until_s:
        at_rest = thread_times()
        time.sleep(_QUIET_LOOK_S)
        working = {thread for thread, seconds in _gained(at_rest, thread_times()).items() if seconds > 0}
        _pool_threads.update(suspects - working - python_threads)
        suspects &= working
    return sum(gained[thread] for thread in suspects)


def _gained(before: dict[int, float], after: dict[int, float]) -> dict[int, float]:
    return {thread: seconds - before.get(thread, 0.0) for thread, seconds in after.items()}


def parse_stat(text: str, cpus: list[int]) -> tuple[float, float]:
    """Return (busy, stolen) seconds summed over `cpus` from the text of /proc/stat; raises `ValueError` if one is
    missing.

    Columns (man 5 proc): user nice system idle iowait irq softirq steal guest guest_nice, in clock ticks.
    Guest time is inside user time already; stolen time is nobody's work here and counted apart.
    """
    tick_s = 1 / os.sysconf("SC_CLK_TCK")
    cpu_names = {f"cpu{cpu}" for cpu in cpus}
    busy = stolen = 0
    for line in text.splitlines():
        name, *fields = line.split()
        if name in cpu_names:
            user, nice, system, _idle, _iowait, irq, softirq, steal = (int(value) for value in fields[:8])
            busy += user + nice + system + irq + softirq
            stolen += steal
            cpu_names.discard(name)
    if cpu_names:
        raise ValueError(f"no counters for {sorted(cpu_names)}")
    return busy * tick_s, stolen * tick_s
