"""What the CUDA files ask of torch exists in the installed torch under these names, GPU or not; the fakes offer no
more.
"""

from __future__ import annotations

import inspect

import fake_cuda
import pytest
import torch

from plugin.timers.cuda import CudaEventTimer
from plugin.timers.cuda_graph import CudaGraphTimer
from roofline_model.core.errors import UnsupportedError

_TESTS_OWN = {
    "now",
    "sleep",
    "check",
    "wait_for_device",
    "item",
    "launch",
    "log",
    "loaded",
    "error",
    "device",
    "host_s",
    "stream_now",
    "clock_hz",
    "max_clock_hz",
    "launch_s",
    "latency_s",
    "record_s",
    "event_s",
    "kernel_gap_s",
    "sleep_offset_s",
    "step_s",
    "load_s",
    "queue_length",
    "l2_bytes",
    "sm_count",
    "active_sm_count",
    "capability",
    "name",
    "is_integrated",
    "free_bytes",
    "total_bytes",
    "is_used",
    "is_blocked",
    "on_launch",
    "ends_s",
    "busy_s",
    "busy_until_s",
}


def public(kind):
    return {name for name in dir(kind) if not name.startswith("__")}


def test_the_fake_has_no_call_that_torch_has_not():
    invented = {name for name in public(fake_cuda.FakeCuda()) - _TESTS_OWN if not hasattr(torch.cuda, name)}
    assert not invented
    assert {name for name in public(fake_cuda.Event) if not hasattr(torch.cuda.Event, name)} == set()


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (torch.cuda.Event.__new__, {"enable_timing"}),
        (torch.cuda.Event.record, {"stream"}),
        (torch.cuda.Event.elapsed_time, {"end_event"}),
        (torch.cuda._sleep, {"cycles"}),
        (torch.cuda.graph.__init__, {"cuda_graph", "pool", "stream", "capture_error_mode"}),
        (torch.cuda.green_contexts.GreenContext.create, {"num_sms", "device_id"}),
        (torch.nn.functional.scaled_mm, {"mat_a", "mat_b", "scale_a", "scale_recipe_a", "scale_b", "scale_recipe_b", "output_dtype", "use_fast_accum"}),
        (torch.cuda.nvtx.range_push, {"msg"}),
    ],
)  # fmt: skip
def test_signatures(call, names):
    assert names <= set(inspect.signature(call).parameters)


def test_a_failed_capture_end_leaves_the_stream_swapped_in_this_torch():
    """The reason for `CudaGraphTimer._recover`: __exit__ ends the capture, which may raise, before it restores."""
    source = inspect.getsource(torch.cuda.graph.__exit__)
    assert source.index("capture_end") < source.index("stream_ctx.__exit__")


def test_out_of_memory_is_a_runtime_error_and_is_told_apart():
    assert issubclass(torch.cuda.OutOfMemoryError, RuntimeError)
    assert issubclass(torch.AcceleratorError, RuntimeError)
    assert not issubclass(torch.AcceleratorError, torch.cuda.OutOfMemoryError)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
@pytest.mark.parametrize("kind", [CudaEventTimer, CudaGraphTimer])
def test_without_a_gpu_the_timer_says_what_to_do(kind):
    with pytest.raises(UnsupportedError, match=r"CUDA.*CUDA"):
        kind.create()
