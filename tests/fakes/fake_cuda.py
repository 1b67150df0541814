"""A torch.cuda whose device and host clocks are simulated: launches queue, kernels take time, events know when.

It behaves as the documentation of CUDA and torch 2.13 says: launches are asynchronous, the queue holds 1024 of them and
then makes the host wait, the first use of a kernel loads it, event times step, capturing forbids what waits for the
device, and a failed capture leaves the capturing stream current. Error texts are CUDA's.
"""

from __future__ import annotations

import bisect
from collections import deque
from types import SimpleNamespace


class AcceleratorError(RuntimeError):
    """torch.AcceleratorError: what CUDA's own errors become."""


class OutOfMemoryError(RuntimeError):
    """torch.OutOfMemoryError."""


CAPTURE_UNSUPPORTED = (
    "CUDA error: operation not permitted when stream is capturing\nSearch for `cudaErrorStreamCaptureUnsupported'"
)
CAPTURE_INVALIDATED = (
    "CUDA error: operation failed due to a previous error during capture\nCompile with `TORCH_USE_CUDA_DSA`"
)
ILLEGAL_ADDRESS = "CUDA error: an illegal memory access was encountered"


class Stream:
    def __init__(self, cuda):
        self.cuda = cuda
        self.free_s = 0.0
        self.pending = deque()
        self.graph = None
        self.is_broken = False

    def wait_stream(self, other):
        self.free_s = max(self.free_s, other.free_s)
        self.cuda.log.append("wait_stream")


class Event:
    def __init__(self, cuda):
        self.cuda, self.time_s, self.device = cuda, None, None

    def record(self, stream=None):
        cuda = self.cuda
        stream = stream or cuda.current_stream()
        if self.device not in (None, cuda.current_device()):
            raise RuntimeError("Event device does not match recording stream's device.")
        self.device = cuda.current_device()
        cuda.host_s += cuda.record_s
        stream.free_s = max(stream.free_s, cuda.host_s + cuda.latency_s) + cuda.event_s
        self.time_s = stream.free_s
        cuda.log.append("record")

    def query(self):
        self.cuda.check()
        self.cuda.host_s += 0.5e-6
        return self.time_s is None or self.time_s <= self.cuda.host_s

    def synchronize(self):
        self.cuda.check()
        self.cuda.is_blocked = False
        self.cuda.host_s = max(self.cuda.host_s, self.time_s or 0.0)

    def elapsed_time(self, end):
        if self.time_s is None or end.time_s is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        if max(self.time_s, end.time_s) > self.cuda.host_s:
            raise AcceleratorError("CUDA error: device not ready")
        step = self.cuda.step_s
        return (round(end.time_s / step) - round(self.time_s / step)) * step * 1e3


class FakeCuda:
    """torch.cuda with one simulated device; every cost is an attribute that a test may set."""

    OutOfMemoryError = OutOfMemoryError

    def __init__(self, **settings):
        self.host_s = 1.0
        self.clock_hz = 1.6e9
        self.max_clock_hz = 2.0e9
        self.launch_s = 4e-6
        self.latency_s = 3e-6
        self.record_s = 1e-6
        self.event_s = 0.4e-6
        self.kernel_gap_s = 1e-6
        self.sleep_offset_s = 0.9e-6
        self.step_s = 0.5e-6
        self.load_s = 4e-3
        self.queue_length = 1024
        self.l2_bytes = 50 * 1024**2
        self.sm_count = 132
        self.name = "Fake GPU"
        self.is_integrated = 0
        self.free_bytes, self.total_bytes = 60 * 1024**3, 80 * 1024**3
        self.active_sm_count = None
        self.capability = (9, 0)
        self.device = 0
        self.log = []
        self.loaded = set()
        self.error = None
        self.is_used = False
        self.is_blocked = False
        """Whether launches wait behind `_sleep`, for a timer: nobody has waited for the device since."""
        self.on_launch = []
        """Called with the name, begin and end of each kernel: what a tracer sees."""
        self.ends_s, self.busy_s = [], [0.0]
        """When each kernel ends, and the seconds of work until then: what a power sensor integrates."""
        self.stream_now = Stream(self)
        self.nvtx = SimpleNamespace(range_push=self.log.append, range_pop=lambda: self.log.append("pop"))
        vars(self).update(settings)

    # The host's side -----------------------------------------------------------------------------------------

    def now(self):
        return self.host_s

    def sleep(self, seconds):
        self.host_s += seconds
        self.log.append(("idle", seconds))

    def check(self):
        if self.error is not None:
            raise AcceleratorError(self.error)

    def synchronize(self):
        self.check()
        self.wait_for_device()
        self.log.append("synchronize")

    def wait_for_device(self):
        if self.stream_now.graph is not None:
            self.stream_now.is_broken = True
            raise AcceleratorError(CAPTURE_UNSUPPORTED)
        self.is_blocked = False
        self.host_s = max(self.host_s, self.stream_now.free_s)

    def item(self):
        """What `.item()` and `nonzero` do: wait for the stream."""
        self.wait_for_device()

    # Launching -----------------------------------------------------------------------------------------------

    def launch(self, seconds, name="kernel", host_s=0.0, run=None):
        """Queue a kernel of so many seconds; `host_s` is Python's own time before the launch, `run` what it
        computes.
        """
        self.check()
        stream = self.stream_now
        self.host_s += host_s + (0.0 if name in self.loaded else self.load_s)
        self.loaded.add(name)
        if stream.graph is not None:
            self.host_s += self.launch_s
            stream.graph.nodes.append((seconds, run))
            return
        self.host_s += self.launch_s
        while stream.pending and stream.pending[0] <= self.host_s:
            stream.pending.popleft()
        if len(stream.pending) >= self.queue_length:
            self.host_s = stream.pending.popleft()
        begin = max(stream.free_s + self.kernel_gap_s, self.host_s + self.latency_s)
        stream.free_s = begin + seconds
        stream.pending.append(stream.free_s)
        self.ends_s.append(stream.free_s)
        self.busy_s.append(self.busy_s[-1] + seconds)
        for note in self.on_launch:
            note(name, begin, stream.free_s)
        if run is not None:
            run()
        self.log.append(name)

    def busy_until_s(self, moment_s):
        """Return the seconds of work that the device has done until a moment, the running kernel's share included."""
        place = bisect.bisect_right(self.ends_s, moment_s)
        if place == len(self.ends_s):
            return self.busy_s[-1]
        length_s = self.busy_s[place + 1] - self.busy_s[place]
        return self.busy_s[place] + min(length_s, max(0.0, moment_s - (self.ends_s[place] - length_s)))

    def _sleep(self, cycles):
        self.is_blocked = True
        self.launch(self.sleep_offset_s * (cycles > 0) + cycles / self.clock_hz, "block")

    # The rest of torch.cuda ----------------------------------------------------------------------------------

    def Event(self, enable_timing=False):
        assert enable_timing, "an event without timing cannot be asked for its time"
        return Event(self)

    def Stream(self):
        return Stream(self)

    def current_stream(self):
        return self.stream_now

    def set_stream(self, stream):
        self.stream_now = stream

    def stream(self, stream):
        return _Swapped(self, stream)

    def current_device(self):
        return self.device

    def init(self):
        self.is_used = True
        self.log.append("init")

    def is_initialized(self):
        return self.is_used

    def device_count(self):
        return 1

    def get_device_name(self, device=None):
        return self.name

    def cudart(self):
        return SimpleNamespace()

    def empty_cache(self):
        self.log.append("empty_cache")

    def memory_allocated(self):
        return 0

    memory_reserved = max_memory_allocated = memory_allocated

    def reset_peak_memory_stats(self):
        self.log.append("reset_peak_memory_stats")

    def is_available(self):
        return True

    def get_device_properties(self, device):
        return SimpleNamespace(
            name=self.name,
            is_integrated=self.is_integrated,
            total_memory=self.total_bytes,
            clock_rate=int(self.max_clock_hz / 1e3),
            L2_cache_size=self.l2_bytes,
            multi_processor_count=self.sm_count,
        )

    def get_device_capability(self, device=None):
        return self.capability

    def mem_get_info(self, device=None):
        return self.free_bytes, self.total_bytes

    def graph_pool_handle(self):
        return (0, 1)

    def CUDAGraph(self):
        return _Graph(self)

    def graph(self, graph, pool=None, stream=None, capture_error_mode="global"):
        return _Capture(self, graph, stream)


class _Swapped:
    def __init__(self, cuda, stream):
        self.cuda, self.stream = cuda, stream

    def __enter__(self):
        self.before, self.cuda.stream_now = self.cuda.stream_now, self.stream

    def __exit__(self, *_):
        self.cuda.stream_now = self.before


class _Graph:
    def __init__(self, cuda):
        self.cuda, self.nodes, self.is_finished, self.is_reset = cuda, [], False, False
        self.is_replayed = False

    def replay(self):
        """One launch; its nodes follow each other with half the gap of separate launches."""
        assert self.is_finished
        assert not self.is_reset
        cuda = self.cuda
        cuda.launch(sum(seconds + cuda.kernel_gap_s / 2 for seconds, _ in self.nodes), "graph")
        if cuda.is_blocked and self.is_replayed:  # timed: nobody looks at what it computes
            return
        self.is_replayed = True
        for _, run in self.nodes:
            if run is not None:
                run()

    def reset(self):
        self.is_reset = True


class _Capture:
    """torch.cuda.graph: like the real one, it does not restore the stream where ending the capture fails."""

    def __init__(self, cuda, graph, stream):
        self.cuda, self.graph, self.stream = cuda, graph, stream

    def __enter__(self):
        self.cuda.synchronize()
        self.before, self.cuda.stream_now = self.cuda.stream_now, self.stream
        self.stream.graph = self.graph

    def __exit__(self, *_):
        self.stream.graph = None
        if self.stream.is_broken:
            raise AcceleratorError(CAPTURE_INVALIDATED)
        self.graph.is_finished = True
        self.cuda.stream_now = self.before


def fake_torch(**settings):
    """Return a torch with the simulated `cuda`."""
    return SimpleNamespace(cuda=FakeCuda(**settings), __version__="2.13.0+cu130")
