"""Kernel attribution: the arithmetic of intervals, and the dealings with CUPTI on a fake that answers as the real
one.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace

import fake_cupti
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugin.timers import cupti as attribution
from plugin.timers.cupti import KernelInterval, Trace, attribute, attribute_trace, busy_s, latency_s
from roofline_model.core.errors import UnsupportedError


def interval(start, end, code=1, name="k"):
    return KernelInterval(name, start, end, code)


@pytest.mark.parametrize(
    ("intervals", "busy_ns", "latency_ns"),
    [
        ([(0, 10)], 10, 10),
        ([(0, 10), (20, 25)], 15, 25),
        ([(20, 25), (0, 10)], 15, 25),  # order does not matter
        ([(0, 10), (5, 15)], 15, 15),  # overlaps count once
        ([(0, 100), (10, 20), (30, 40)], 100, 100),  # one inside another
        ([(0, 10), (10, 20)], 20, 20),  # touching
        ([(5, 5)], 0, 0),
        ([(1_700_000_000_000_000_000, 1_700_000_000_000_000_003)], 3, 3),  # timestamps of today lose no nanosecond
    ],
)
def test_union_and_span(intervals, busy_ns, latency_ns):
    kernels = [interval(*pair) for pair in intervals]
    assert busy_s(kernels) == pytest.approx(busy_ns * 1e-9, abs=1e-15)
    assert latency_s(kernels) == pytest.approx(latency_ns * 1e-9, abs=1e-15)


@given(st.lists(st.tuples(st.integers(1, 300), st.integers(1, 60)), min_size=1, max_size=30))
def test_the_union_is_the_count_of_covered_nanoseconds(pairs):
    kernels = [interval(start, start + length) for start, length in pairs]
    covered = {ns for kernel in kernels for ns in range(kernel.start_ns, kernel.end_ns)}
    assert round(busy_s(kernels) * 1e9) == len(covered)
    assert busy_s(kernels) <= latency_s(kernels) + 1e-15


def test_medians_over_calls():
    kernels = (
        interval(0, 10, 1, "pad"),
        interval(15, 45, 2, "mm"),
        interval(100, 110, 3, "pad"),
        interval(130, 160, 4, "mm"),
        interval(200, 210, 5, "pad"),
        interval(212, 242, 6, "mm"),
        interval(90, 95, 9, "flush"),
    )
    trace = Trace(kernels, {1: 0, 2: 0, 3: 1, 4: 1, 5: 2, 6: 2, 9: 1 << 32}, 0)
    timeline = attribute_trace(trace, 3)
    assert timeline.kernel_count == 2
    assert timeline.busy_s == pytest.approx(40e-9)
    assert timeline.latency_s == pytest.approx(45e-9)
    assert timeline.gap_s == pytest.approx(5e-9)
    assert timeline.kernel_names == ("pad", "mm")  # in launch order, the flush is not among them
    assert timeline.source == "cupti"


@pytest.mark.parametrize(("dropped", "doubt"), [(0, False), (None, True)])
def test_a_call_without_kernels_is_an_error_and_never_zero(dropped, doubt):
    trace = Trace((interval(0, 10, 1),), {1: 0}, dropped)
    with pytest.raises(UnsupportedError, match="no kernel in 1 of 2 calls") as caught:
        attribute_trace(trace, 2)
    assert ("whether records were lost is unknown" in str(caught.value)) is doubt


def test_a_kernel_of_another_thread_is_an_error():
    trace = Trace((interval(0, 10, 1), interval(20, 30, 2, "backward")), {1: 0}, 0)
    with pytest.raises(UnsupportedError, match=r"1 of 2 kernels \(backward\)"):
        attribute_trace(trace, 1)


@pytest.fixture
def cupti(monkeypatch):
    """Install a fake library; returns the function that makes it."""

    def install(**how):
        library = fake_cupti.FakeCupti(**how)
        monkeypatch.setitem(sys.modules, "cupti", SimpleNamespace(cupti=library))
        monkeypatch.setattr(attribution, "_collectors", {})
        return library

    return install


def test_a_traced_call(cupti):
    library = cupti()

    def kernel(_):
        library.launch("pad", 3_000, 2_000)
        library.launch("mm", 1_000, 5_000)

    waits = []
    timeline = attribute(kernel, [(i,) for i in range(5)], lambda: waits.append(1))
    assert (timeline.kernel_count, timeline.kernel_names) == (2, ("pad", "mm"))
    assert timeline.busy_s == pytest.approx(7e-6)
    assert timeline.latency_s == pytest.approx(8e-6)
    assert len(waits) >= 5  # each call is waited for before the next
    assert not library.enabled  # nothing is left switched on
    assert library.subscribers == 0
    assert not library.stack


def test_only_launches_are_recorded_and_the_filter_is_set_after_enabling(cupti):
    library = cupti()
    seen = []
    attribute(lambda: (library.launch("k", 1, 10), seen.append(dict(library.apis))), [()], lambda: None)
    assert seen[-1] == {
        "cudaMalloc_v3020": 0,
        "cudaLaunchKernel_v7000": 1,
        "cuMemAlloc": 0,
        "cuLaunchKernel": 1,
        "cuGraphLaunch": 1,
    }


def test_enumerations_under_their_later_names_are_found(cupti):
    library = cupti()
    library.RuntimeApiTraceCbid, library.DriverApiTraceCbid = (
        fake_cupti.runtime_api_trace_cbid,
        fake_cupti.driver_api_trace_cbid,
    )
    attribute(lambda: library.launch("k", 1, 10), [()], lambda: None)
    assert library.apis["cuLaunchKernel"] == 1


def test_the_flush_before_a_call_is_not_counted(cupti):
    library = cupti()
    timeline = attribute(
        lambda: library.launch("k", 1_000, 10_000), [()] * 3, lambda: None, lambda: library.launch("flush", 10, 90_000)
    )
    assert timeline.kernel_names == ("k",)
    assert timeline.busy_s == pytest.approx(10e-6)


def test_lost_records_are_traced_again_with_a_larger_buffer(cupti):
    library = cupti(loses_sessions=1)
    timeline = attribute(lambda: library.launch("k", 1_000, 10_000), [()] * 3, lambda: None)
    assert timeline.kernel_count == 1
    assert library.sizes == [8, 256 * 1024, 1024 * 1024]  # first the proof of the counter


def test_records_lost_for_good_are_an_error(cupti):
    library = cupti(loses_sessions=99)
    with pytest.raises(UnsupportedError, match="dropped 1 record in each of 3 attempts"):
        attribute(lambda: library.launch("k", 1_000, 10_000), [()] * 3, lambda: None)
    assert not library.enabled


def test_a_dead_drop_counter_is_not_believed(cupti):
    library = cupti(can_count_drops=False, loses_sessions=1)
    with pytest.raises(UnsupportedError, match="whether records were lost is unknown"):
        attribute(lambda: library.launch("k", 1_000, 10_000), [()] * 3, lambda: None)


def test_a_driver_that_refuses_the_proof_leaves_the_counter_unproven_and_traces_all_the_same(cupti):
    library = cupti(refuses_small_buffers=True)
    timeline = attribute(lambda: library.launch("k", 1_000, 10_000), [()] * 3, lambda: None)
    assert timeline.kernel_count == 1
    assert library.sizes[0] == fake_cupti.ALIGNMENT_BYTES < fake_cupti.SMALLEST_RECORD_BYTES


def test_callbacks_are_registered_and_the_counter_proven_once(cupti):
    library = cupti()
    for _ in range(3):
        attribute(lambda: library.launch("k", 1_000, 10_000), [()], lambda: None)
    assert library.registrations == 1
    assert library.sizes.count(8) == 1


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"subscriber_error": 39}, "held by another profiler"),
        ({"enable_error": 39}, "held by another profiler"),
        ({"enable_error": 35}, "ERR_NVGPUCTRPERM"),
        ({"subscriber_error": 15}, r"ERROR_NOT_INITIALIZED \(15\)"),
    ],
)
def test_a_cupti_that_cannot_be_used_says_why(cupti, how, message):
    library = cupti(**how)
    with pytest.raises(UnsupportedError, match=message) as caught:
        attribute(lambda: library.launch("k", 1, 10), [()], lambda: None)
    assert "--roofline-attribution" in str(caught.value)
    assert not library.enabled
    assert library.subscribers == 0


def test_the_kernels_own_error_comes_through_and_everything_is_switched_off(cupti):
    library = cupti()

    def kernel():
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    with pytest.raises(RuntimeError, match="illegal memory access"):
        attribute(kernel, [()], lambda: None)
    assert not library.enabled
    assert library.subscribers == 0
    assert not library.stack


def test_without_the_package_the_command_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupti", None)
    with pytest.raises(UnsupportedError, match=r"pip install 'cupti-python==13\.0\.\*'"):
        attribute(lambda: None, [()], lambda: None)
