"""A `cupti.cupti` that behaves as cupti-python 13 does: enumerations, result codes, buffers that fill and drop
records.
"""

from __future__ import annotations

import ctypes
import enum
from types import SimpleNamespace

RECORD_BYTES = 200
ALIGNMENT_BYTES = 8
SMALLEST_RECORD_BYTES = 24
"""Of an external correlation (cupti_activity.h 13.5): records lie at multiples of 8 bytes."""


class ActivityKind(enum.IntEnum):
    DRIVER = 4
    RUNTIME = 5
    CONCURRENT_KERNEL = 10
    EXTERNAL_CORRELATION = 39


class ExternalCorrelationKind(enum.IntEnum):
    CUSTOM0 = 3


class Result(enum.IntEnum):
    ERROR_NOT_INITIALIZED = 15
    ERROR_INSUFFICIENT_PRIVILEGES = 35
    ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED = 39


class runtime_api_trace_cbid(enum.IntEnum):
    INVALID = 0
    cudaMalloc_v3020 = 20
    cudaLaunchKernel_v7000 = 211
    SIZE = 999


class driver_api_trace_cbid(enum.IntEnum):
    INVALID = 0
    cuMemAlloc = 6
    cuLaunchKernel = 307
    cuGraphLaunch = 514


class cuptiError(Exception):
    def __init__(self, status):
        self.status = status
        super().__init__(f"{Result(status).name} ({status})")


class FakeCupti:
    """The module; `launch` is what a kernel under test calls, on a device clock of its own."""

    ActivityKind = ActivityKind
    ExternalCorrelationKind = ExternalCorrelationKind
    Result = Result
    runtime_api_trace_cbid = runtime_api_trace_cbid
    driver_api_trace_cbid = driver_api_trace_cbid
    cuptiError = cuptiError

    def __init__(self, **settings):
        self.subscriber_error = None
        self.enable_error = None
        self.can_count_drops = True
        self.refuses_small_buffers = False
        self.loses_sessions = 0
        """So many sessions after the counter's proof lose a record each."""
        self.subscribers = 0
        self.enabled = set()
        self.stack = []
        self.apis = {}
        self.callbacks = None
        self.registrations = 0
        self.waiting = []
        self.dropped = 0
        self.correlation = 100
        self.time_ns = 1_000_000
        self.sizes = []
        vars(self).update(settings)

    def subscribe(self, callback, userdata):
        assert callable(callback)
        if self.subscriber_error is not None:
            raise cuptiError(self.subscriber_error)
        self.subscribers += 1
        return 7

    def unsubscribe(self, subscriber):
        assert subscriber == 7
        self.subscribers -= 1

    def activity_register_callbacks(self, requested, completed):
        self.registrations += 1
        self.callbacks = (requested, completed)

    def activity_enable(self, kind):
        if self.enable_error is not None:
            raise cuptiError(self.enable_error)
        self.enabled.add(ActivityKind(kind))
        self.apis.clear()  # enabling resets the per-API filter

    def activity_disable(self, kind):
        self.enabled.remove(ActivityKind(kind))

    def _toggle(self, names, cbid, enable):
        name = names(cbid).name
        if name in ("INVALID", "SIZE"):
            raise cuptiError(Result.ERROR_NOT_INITIALIZED)
        self.apis[name] = enable

    def activity_enable_runtime_api(self, cbid, enable):
        self._toggle(runtime_api_trace_cbid, cbid, enable)

    def activity_enable_driver_api(self, cbid, enable):
        self._toggle(driver_api_trace_cbid, cbid, enable)

    def activity_push_external_correlation_id(self, kind, number):
        assert kind == ExternalCorrelationKind.CUSTOM0
        self.stack.append(number)

    def activity_pop_external_correlation_id(self, kind):
        return self.stack.pop()

    def activity_get_num_dropped_records(self, context, stream, pointer):
        ctypes.cast(pointer, ctypes.POINTER(ctypes.c_size_t))[0] = self.dropped if self.can_count_drops else 0
        self.dropped = 0

    def launch(self, name, gap_ns, length_ns, overlap=False, other_thread=False):
        """Run one kernel `gap_ns` after the last, or over it."""
        begin = self.time_ns + (-length_ns // 2 if overlap else gap_ns)
        end = begin + length_ns
        self.time_ns = max(self.time_ns, end)
        self.record(name, begin, end, other_thread)

    def record(self, name, begin, end, other_thread=False):
        """Record a kernel that was launched just now."""
        if ActivityKind.CONCURRENT_KERNEL not in self.enabled:
            return
        self.correlation += 1
        record = SimpleNamespace(
            kind=int(ActivityKind.CONCURRENT_KERNEL), name=name, start=begin, end=end, correlation_id=self.correlation
        )
        self.waiting.append(record)
        if self.stack and not other_thread:
            self.waiting.append(
                SimpleNamespace(
                    kind=int(ActivityKind.EXTERNAL_CORRELATION),
                    external_kind=3,
                    correlation_id=self.correlation,
                    external_id=self.stack[-1],
                )
            )

    def activity_flush_all(self, flag):
        assert flag == 1
        requested, completed = self.callbacks
        waiting, self.waiting = self.waiting, []
        size, limit = requested()
        self.sizes.append(size)
        assert limit == 0
        assert size > 0
        assert size % ALIGNMENT_BYTES == 0
        if self.refuses_small_buffers and size < SMALLEST_RECORD_BYTES:
            raise cuptiError(Result.ERROR_NOT_INITIALIZED)
        if size < RECORD_BYTES:
            self.dropped += len(waiting)
            return
        if self.loses_sessions and len(self.sizes) > 1:
            self.loses_sessions -= 1
            self.dropped += 1
            waiting = waiting[2:]
        completed(waiting)
