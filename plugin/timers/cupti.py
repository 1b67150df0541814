"""Which kernels a call runs on the device, and when: CUPTI's activity records through cupti-python (13 or later).

Every call is made under an external correlation id of its own, so that a kernel belongs to the call that launched it
and nothing is guessed from timestamps; each call is waited for before the next. A call must launch its own work: ids
are per thread. The times are not those of the event timer (the host's gaps between kernels are inside `latency_s`) and
never stand in for them. Written against cupti-python 13.0–13.4; 13.0 ran on an H200 (examples/runs/h200-sxm).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from plugin.timers.timers import Kernel, Schedule
from results.records.state_records import KernelAttribution
from roofline_model.core.errors import UnsupportedError
from roofline_model.core.units import counted

INSTALL = "pip install 'cupti-python==13.0.*'"
"""The version of torch's CUDA: a newer one asks for a newer libcupti than torch pins and loads."""
_BUFFER_BYTES = 256 * 1024
"""Small on purpose: TileOPs saw 8 MB buffers stall 23 of 60 calls past 200 µs, and 256 KB none."""
_BUFFER_GROWTH = 4
_ATTEMPTS = 3
_PROBE_BUFFER_BYTES = 8
"""Holds no record at all: what a working drop counter must notice.

cupti_activity.h (13.5) sets no least size: a buffer that is not "of sufficient size" drops records and counts them.
It packs records at multiples of 8 bytes, and the smallest one that is enabled here (external correlation) has 24.
"""
_FLUSH_FORCED = 1
_PREPARE_ID = 1 << 32
"""External id of work between the calls (a cache flush): no call has such a number."""


@dataclass(frozen=True, slots=True)
class KernelInterval:
    """One kernel on the device."""

    name: str
    start_ns: int
    end_ns: int
    correlation_code: int
    """CUPTI's correlation id of the launch."""


@dataclass(frozen=True, slots=True)
class Trace:
    """Output of one tracing session."""

    kernels: tuple[KernelInterval, ...]
    call_of: dict[int, int]
    """Correlation id of a launch → number of the call it was made in."""
    dropped_count: int | None
    """Records lost for want of buffer space; None where the counter cannot be trusted."""


class _LostRecordsError(Exception):
    """Records were dropped; a larger buffer may keep them."""


def busy_s(kernels: Iterable[KernelInterval]) -> float:
    """Return the time in which at least one of the kernels ran: the union of their intervals, overlaps once."""
    total_ns, reached_ns = 0, 0
    for start_ns, end_ns in sorted((kernel.start_ns, kernel.end_ns) for kernel in kernels):
        total_ns += max(0, end_ns - max(start_ns, reached_ns))
        reached_ns = max(reached_ns, end_ns)
    return total_ns * 1e-9


def latency_s(kernels: Sequence[KernelInterval]) -> float:
    """Return the time from the first start to the last end."""
    return (max(kernel.end_ns for kernel in kernels) - min(kernel.start_ns for kernel in kernels)) * 1e-9


def attribute_trace(trace: Trace, call_count: int) -> KernelAttribution:
    """Return the medians over the calls; raises `UnsupportedError` for a call without kernels, which is never 0."""
    by_call: dict[int, list[KernelInterval]] = {call: [] for call in range(call_count)}
    strays: list[KernelInterval] = []
    for kernel in trace.kernels:
        call = trace.call_of.get(kernel.correlation_code)
        if call == _PREPARE_ID:
            continue
        by_call.get(-1 if call is None else call, strays).append(kernel)
    empty = [call for call, kernels in by_call.items() if not kernels]
    if trace.dropped_count:
        raise _LostRecordsError(f"CUPTI dropped {counted(trace.dropped_count, 'record')}")
    if strays:
        raise UnsupportedError(
            f"CUPTI: {len(strays)} of {len(trace.kernels)} kernels ({strays[0].name}) were launched outside the call's "
            "own thread: they cannot be attributed"
        )
    if empty:
        doubt = "" if trace.dropped_count == 0 else " (whether records were lost is unknown)"
        raise UnsupportedError(
            f"CUPTI saw no kernel in {len(empty)} of {call_count} calls{doubt}: a call of copies only, or of nothing, "
            "has no kernels to attribute"
        )
    names = dict.fromkeys(kernel.name for kernels in by_call.values() for kernel in sorted(kernels, key=_start))
    return KernelAttribution(
        source="cupti",
        kernel_count=float(median(len(kernels) for kernels in by_call.values())),
        busy_s=median(busy_s(kernels) for kernels in by_call.values()),
        latency_s=median(latency_s(kernels) for kernels in by_call.values()),
        kernel_names=tuple(names),
    )


def attribute(
    kernel: Kernel,
    schedule: Schedule,
    synchronize: Callable[[], None],
    prepare: Callable[[], None] | None = None,
) -> KernelAttribution:
    """Trace one call per entry of the schedule; `prepare` (a flush) runs before each and is not counted.

    Raises `UnsupportedError` where cupti-python is absent, another profiler holds CUPTI, or a call has no kernels.
    Errors of the kernel itself come through as they are.
    """
    collector = _collector()
    with collector.subscribed():
        collector.prove_drop_counter(lambda: kernel(*schedule[0]), synchronize)
        buffer_bytes = _BUFFER_BYTES
        for attempt in range(1, _ATTEMPTS + 1):
            trace = collector.trace(kernel, schedule, synchronize, prepare, buffer_bytes)
            try:
                return attribute_trace(trace, len(schedule))
            except _LostRecordsError as error:
                buffer_bytes *= _BUFFER_GROWTH
                if attempt == _ATTEMPTS:
                    raise UnsupportedError(
                        f"{error} in each of {_ATTEMPTS} attempts: trace fewer calls or kernels"
                    ) from None
    raise AssertionError("the loop returns or raises")


@dataclass(slots=True)
class _Collector:
    """CUPTI takes one pair of buffer callbacks per process: they deliver into this object."""

    cupti: Any
    buffer_bytes: int = _BUFFER_BYTES
    kernels: list[KernelInterval] = field(default_factory=list)
    call_of: dict[int, int] = field(default_factory=dict)
    is_registered: bool = False
    can_count_drops: bool | None = None
    """Whether the drop counter was seen to count; None: not tried yet."""

    @contextmanager
    def subscribed(self) -> Iterator[None]:
        """Hold CUPTI for the length of the `with`; raises `UnsupportedError` while another profiler holds it."""
        try:
            subscriber = self.cupti.subscribe(_ignore, None)
        except Exception as error:
            raise _start_error(self.cupti, error) from None
        try:
            yield
        finally:
            self.cupti.unsubscribe(subscriber)

    def trace(
        self,
        kernel: Kernel,
        schedule: Schedule,
        synchronize: Callable[[], None],
        prepare: Callable[[], None] | None,
        buffer_bytes: int,
    ) -> Trace:
        """Make the calls one by one under their ids and return what CUPTI recorded."""
        with self._recording(buffer_bytes):
            for number, args in enumerate(schedule):
                if prepare is not None:
                    with self._labelled(_PREPARE_ID):
                        prepare()
                    synchronize()
                with self._labelled(number):
                    kernel(*args)
                synchronize()
            self.cupti.activity_flush_all(_FLUSH_FORCED)
            dropped = self._read_dropped() if self.can_count_drops else None
            return Trace(tuple(self.kernels), dict(self.call_of), dropped)

    def prove_drop_counter(self, launch: Callable[[], Any], synchronize: Callable[[], None]) -> None:
        """Lose a record on purpose, once per process: a counter that stays at zero then is not believed later."""
        if self.can_count_drops is not None:
            return
        with self._recording(_PROBE_BUFFER_BYTES):
            launch()
            synchronize()
            try:
                self.cupti.activity_flush_all(_FLUSH_FORCED)
            except Exception:  # a driver that refuses such a buffer has not shown that it counts
                self.can_count_drops = False
            else:
                self.can_count_drops = bool(self._read_dropped())

    @contextmanager
    def _recording(self, buffer_bytes: int) -> Iterator[None]:
        cupti = self.cupti
        activity_kinds = [
            cupti.ActivityKind.CONCURRENT_KERNEL,
            cupti.ActivityKind.EXTERNAL_CORRELATION,
            cupti.ActivityKind.RUNTIME,
            cupti.ActivityKind.DRIVER,
        ]
        enabled = []
        self.buffer_bytes = buffer_bytes
        self.kernels.clear()
        self.call_of.clear()
        try:
            try:
                if not self.is_registered:
                    cupti.activity_register_callbacks(self._buffer_wanted, self._buffer_filled)
                    self.is_registered = True
                self._read_dropped()  # the counter starts anew when it is read
                for kind in activity_kinds:
                    cupti.activity_enable(kind)
                    enabled.append(kind)
                self._record_launches_only()
            except Exception as error:
                raise _start_error(cupti, error) from None
            yield
        finally:
            for kind in reversed(enabled):
                cupti.activity_disable(kind)

    def _record_launches_only(self) -> None:
        """Leave out API records but those of launches: they carry the ids, the rest only fills the buffer.

        The enumerations are named differently in 13.0 and later versions; where neither is found, all calls are
        recorded.
        """
        for toggle, names in (
            (self.cupti.activity_enable_runtime_api, ("RuntimeApiTraceCbid", "runtime_api_trace_cbid")),
            (self.cupti.activity_enable_driver_api, ("DriverApiTraceCbid", "driver_api_trace_cbid")),
        ):
            calls = next((getattr(self.cupti, name) for name in names if hasattr(self.cupti, name)), ())
            for call in calls:
                try:
                    toggle(int(call), int("Launch" in call.name))
                except Exception:  # the enumeration's own marks (INVALID, SIZE) are no API calls
                    continue

    @contextmanager
    def _labelled(self, number: int) -> Iterator[None]:
        kind = self.cupti.ExternalCorrelationKind.CUSTOM0
        self.cupti.activity_push_external_correlation_id(kind, number)
        try:
            yield
        finally:
            self.cupti.activity_pop_external_correlation_id(kind)

    def _read_dropped(self) -> int | None:
        """Return the records dropped since the last look (context 0: the global queue), or None where refused."""
        count = ctypes.c_size_t(0)
        try:
            self.cupti.activity_get_num_dropped_records(0, 0, ctypes.addressof(count))
        except Exception:
            return None
        return count.value

    def _buffer_wanted(self) -> tuple[int, int]:
        return self.buffer_bytes, 0  # 0: as many records as fit

    def _buffer_filled(self, records: Iterable[Any]) -> None:
        activity = self.cupti.ActivityKind
        for record in records:  # copied at once: the record's memory is CUPTI's
            if record.kind == activity.CONCURRENT_KERNEL:
                self.kernels.append(
                    KernelInterval(str(record.name), int(record.start), int(record.end), int(record.correlation_id))
                )
            elif record.kind == activity.EXTERNAL_CORRELATION:
                self.call_of[int(record.correlation_id)] = int(record.external_id)


_collectors: dict[int, _Collector] = {}


def _collector() -> _Collector:
    try:
        from cupti import cupti  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        missing = "" if error.name == "cupti" else f", which cannot be imported here ({error})"
        raise UnsupportedError(
            f"--roofline-attribution cupti needs cupti-python of torch's CUDA version{missing}: {INSTALL}, or leave "
            "the option out"
        ) from None
    return _collectors.setdefault(id(cupti), _Collector(cupti))


def _start_error(cupti: Any, error: Exception) -> UnsupportedError:
    """Return why CUPTI cannot be used, from its result code where it gives one."""
    status = getattr(error, "status", None)
    code = None if status is None else int(status)
    if code == int(cupti.Result.ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED):
        return UnsupportedError(
            "CUPTI is held by another profiler (torch.profiler, Nsight Systems or Compute): run without it, or without "
            "--roofline-attribution"
        )
    if code == int(cupti.Result.ERROR_INSUFFICIENT_PRIVILEGES):
        return UnsupportedError(
            "CUPTI needs more rights (ERR_NVGPUCTRPERM): allow profiling for all users in the NVIDIA driver, or leave "
            "--roofline-attribution out"
        )
    detail = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return UnsupportedError(
        f"CUPTI cannot start ({detail}): driver and cupti-python must fit together; leave --roofline-attribution out"
    )


def _start(kernel: KernelInterval) -> int:
    return kernel.start_ns


def _ignore(*_: Any) -> None:
    """A subscriber has to have a callback; no domain is enabled, so that it is never called."""
