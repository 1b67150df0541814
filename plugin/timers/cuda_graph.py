"""Mode graph: the calls of one sample captured into one CUDA graph, timed as a whole replay.

A replay has no launch per kernel, so that what is left is the device's own time: how inference engines run decode
steps. Torch's rules hold (torch.cuda.graph): warm-up on the capturing stream, a private memory pool, static outputs,
nothing that waits for the device. Ran on an H200 (examples/runs/h200-sxm).
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from plugin.timers.cuda import CudaEventTimer
from plugin.timers.timers import Kernel, Schedule
from roofline_model.core.errors import InvalidValueError, UnsupportedError

WARMUP_CALLS = 3
"""Calls on the capturing stream before the capture: libraries make their handles and workspaces per stream."""


@dataclass(slots=True)
class CudaGraphTimer(CudaEventTimer):
    """Times eagerly until `capture`, from then on by replaying the captured graph whole between two events."""

    name: str = "cuda-graph"
    _graph: Any = None
    _captured: Schedule = ()
    _outputs: tuple[Any, ...] = ()
    """Kept, so that every call's output keeps memory of its own as long as the graph lives."""

    def begin_case(self, case_key: str, ideal_s: float | None) -> None:
        """Drop the last case's graph and its memory, and forget what it taught."""
        self._drop()
        CudaEventTimer.begin_case(self, case_key, ideal_s)  # zero-argument super() does not work with slots=True

    def capture(self, kernel: Kernel, schedule: Schedule) -> list[Any]:
        """Capture the schedule's calls into one graph, replay it once and return the output of each call.

        The outputs lie in static memory that every replay overwrites. The schedule must be whole turns of its distinct
        argument sets (FlashInfer issue 4468: a graph of ten calls over a rotation of twenty is warm). Raises
        `InvalidValueError` otherwise, `UnsupportedError` with the reason where the kernel cannot be captured; then the
        current stream is the one it was before, and usable. Errors of an uncaptured call come through as they are.
        """
        _require_whole_turns(schedule)
        self._drop()
        cuda = self.torch.cuda
        outer_stream, side = cuda.current_stream(), cuda.Stream()
        side.wait_stream(outer_stream)
        with cuda.stream(side):
            for index in range(WARMUP_CALLS):
                kernel(*schedule[index % len(schedule)])
        outer_stream.wait_stream(side)
        cuda.synchronize()
        graph, outputs = cuda.CUDAGraph(), []
        with _no_garbage_collection():
            try:
                # thread_local: what other threads (telemetry) ask of CUDA does not end this capture.
                with cuda.graph(graph, pool=cuda.graph_pool_handle(), stream=side, capture_error_mode="thread_local"):
                    for args in schedule:
                        outputs.append(kernel(*args))  # noqa: PERF401  (what was captured must be freed after a failure)
            except self.torch.cuda.OutOfMemoryError:
                self._recover(graph, outer_stream)
                raise
            except RuntimeError as error:
                outputs.clear()
                reason = _first_cause(error)
                self._recover(graph, outer_stream)
                raise UnsupportedError(
                    f"this kernel cannot be captured into a CUDA graph ({reason}); leave mode graph out for it"
                ) from error
        graph.replay()  # the first replay uploads the graph to the device
        cuda.synchronize()
        CudaEventTimer.begin_case(self, "", None)  # what eager calls taught does not hold for replays
        self._graph, self._captured, self._outputs = graph, schedule, tuple(outputs)
        return outputs

    def sample(self, kernel: Kernel, schedule: Schedule, prepare: Callable[[], None] | None = None) -> float:
        """Return seconds per call of one replay; before `capture`, of eager calls. Raises for another schedule."""
        if self._graph is None:
            return CudaEventTimer.sample(self, kernel, schedule, prepare)
        if len(schedule) != len(self._captured):
            raise InvalidValueError(
                f"the graph holds {len(self._captured)} calls, asked for {len(schedule)}: a graph is replayed whole"
            )
        replay_s = CudaEventTimer.sample(self, self._graph.replay, ((),), prepare)
        self.last_issue_s = None if self.last_issue_s is None else self.last_issue_s / len(schedule)
        return replay_s / len(schedule)

    def replay(self) -> None:
        """Replay the captured graph exactly once, untimed: for a check, where `sample` may replay it more often."""
        if self._graph is None:
            raise InvalidValueError("there is no graph to replay; capture one first")
        self._graph.replay()
        self.torch.cuda.synchronize()

    def _drop(self) -> None:
        """Free the graph and its pool."""
        graph, self._graph, self._captured, self._outputs = self._graph, None, (), ()
        if graph is not None:
            self.torch.cuda.synchronize()
            graph.reset()

    def _recover(self, graph: Any, outer_stream: Any) -> None:
        """Make the stream from before the capture current again; raises CUDA's error where the device is lost.

        A failed `capture_end` leaves torch.cuda.graph before it has restored the stream (torch 2.13, cuda/graphs.py).
        """
        cuda = self.torch.cuda
        cuda.set_stream(outer_stream)
        with contextlib.suppress(RuntimeError):  # torch refuses to reset what was never finished
            graph.reset()
        cuda.synchronize()


def _require_whole_turns(schedule: Schedule) -> None:
    count = len({id(args) for args in schedule})
    if (
        not schedule
        or len(schedule) % count
        or any(a is not b for a, b in zip(schedule, schedule[count:], strict=False))
    ):
        raise InvalidValueError(
            f"a graph must hold whole turns of the rotation: {len(schedule)} calls over {count} argument sets are none"
        )


def _first_cause(error: BaseException) -> str:
    """Return one line: what went wrong first. A broken capture also fails when it is ended, which says less."""
    while isinstance(error.__context__, RuntimeError):
        error = error.__context__
    lines = str(error).strip().splitlines()
    return lines[0].strip().rstrip(".;:") if lines else type(error).__name__


@contextlib.contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Collect now and not during the capture, where freeing a tensor may ask CUDA for what it must not do."""
    gc.collect()
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
