"""The cache flush: how much is overwritten, in what order, and that torch never finds an error it did not make."""

from __future__ import annotations

import ctypes
import sys
from types import SimpleNamespace

import pytest
import torch

from plugin.timers import cache_state
from plugin.timers.cache_state import cpu_flush_bytes, make_flush, persisting_reset
from roofline_model.core.errors import InvalidValueError


@pytest.mark.parametrize("size", [0, -1, float("nan"), float("inf")])
def test_a_cache_without_a_size_cannot_be_flushed(size):
    with pytest.raises(InvalidValueError, match="must have a size above 0"):
        make_flush("cpu", size)


def test_a_cpu_flush_covers_every_cache():
    mib = 1024**2
    assert cpu_flush_bytes(32 * mib, 2, 1, mib) == 64 * mib
    assert cpu_flush_bytes(32 * mib, 96, 12, mib) == 768 * mib  # twelve last-level caches of 32 MiB
    assert cpu_flush_bytes(8 * mib, 64, 1, 2 * mib) == 256 * mib  # the cores' own caches are more than the shared one
    assert cpu_flush_bytes(mib, 1, 0, 0) == 2 * mib


def test_the_cpu_flush_writes_and_reads_its_whole_buffer_and_allocates_nothing_new(monkeypatch):
    monkeypatch.setattr(cache_state, "_cache_layout", lambda: (1, 0))
    flush = make_flush("cpu", 1024**2)
    cells = dict(zip(flush.__code__.co_freevars, (cell.cell_contents for cell in flush.__closure__), strict=True))
    buffer, total = cells["buffer"], cells["total"]
    assert buffer.nbytes >= 2 * 1024**2
    address = buffer.data_ptr()
    buffer.zero_()
    flush()
    assert bool((buffer == 1).all())  # written
    assert float(total) == pytest.approx(buffer.numel())  # and read, every element
    assert buffer.data_ptr() == address


def test_the_layout_of_this_machine_is_found():
    count, private = cache_state._cache_layout()
    assert count >= 1
    assert 0 <= private < 2**32


def test_the_layout_counts_each_shared_cache_once(tmp_path, monkeypatch):
    for cpu, last in enumerate(["0-1", "0-1", "2-3", "2-3"]):
        for index, (level, shared, size) in enumerate([(1, str(cpu), "32K"), (2, str(cpu), "1M"), (3, last, "32M")]):
            folder = tmp_path / f"cpu{cpu}" / "cache" / f"index{index}"
            folder.mkdir(parents=True)
            for name, text in (("level", str(level)), ("shared_cpu_list", shared), ("size", size)):
                (folder / name).write_text(text + "\n")
    monkeypatch.setattr(cache_state, "_CPU_FOLDER", tmp_path)
    monkeypatch.setattr(cache_state.os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    assert cache_state._cache_layout() == (2, 1024**2)
    monkeypatch.setattr(cache_state.os, "sched_getaffinity", lambda _: {0, 1})
    assert cache_state._cache_layout() == (1, 1024**2)
    monkeypatch.setattr(cache_state, "_CPU_FOLDER", tmp_path / "absent")
    assert cache_state._cache_layout() == (1, 0)


class FakeRuntime:
    """The CUDA runtime as ctypes shows it: limits, and the error that stays until it is asked for."""

    def __init__(self, limit=0, reset_code=0):
        self.limit, self.reset_code, self.resets, self.last_error = limit, reset_code, 0, 0

    def cudaDeviceGetLimit(self, pointer, which):
        assert which == 0x06  # cudaLimitPersistingL2CacheSize
        ctypes.cast(pointer, ctypes.POINTER(ctypes.c_size_t))[0] = self.limit
        return 0

    def cudaCtxResetPersistingL2Cache(self):
        self.resets += 1
        self.last_error = self.reset_code
        return self.reset_code

    def cudaGetLastError(self):
        error, self.last_error = self.last_error, 0
        return error


@pytest.mark.parametrize(("limit", "resets"), [(0, 0), (30 * 1024**2, 1)])
def test_persisting_lines_are_reset_where_some_were_set_aside(monkeypatch, limit, resets):
    runtime = FakeRuntime(limit)
    monkeypatch.setattr(cache_state, "_loaded_runtime", lambda: runtime)
    persisting_reset(SimpleNamespace(cuda=SimpleNamespace(cudart=lambda: SimpleNamespace())))()
    assert runtime.resets == resets


def test_a_refused_reset_leaves_no_error_for_torch(monkeypatch):
    runtime = FakeRuntime(limit=1, reset_code=801)  # cudaErrorNotSupported, below compute capability 8.0
    monkeypatch.setattr(cache_state, "_loaded_runtime", lambda: runtime)
    persisting_reset(SimpleNamespace(cuda=SimpleNamespace(cudart=lambda: None)))()
    assert runtime.last_error == 0


def test_a_torch_that_binds_the_reset_is_used_and_no_runtime_is_no_error(monkeypatch):
    called = []
    bound = SimpleNamespace(cudaCtxResetPersistingL2Cache=lambda: called.append(1))
    persisting_reset(SimpleNamespace(cuda=SimpleNamespace(cudart=lambda: bound)))()
    assert called == [1]
    monkeypatch.setattr(cache_state, "_loaded_runtime", lambda: None)
    persisting_reset(SimpleNamespace(cuda=SimpleNamespace(cudart=lambda: None)))()


def test_only_the_runtime_that_is_loaded_is_taken(tmp_path):
    maps = tmp_path / "maps"
    maps.write_text("7f00-7f01 r-xp 00000000 00:00 0 /usr/lib/libc.so.6\n")
    assert cache_state._loaded_runtime(maps) is None
    maps.write_text("7f00-7f01 r-xp 00000000 00:00 0 /usr/lib/libcudart-1234.so.13\n")  # named, but not there
    assert cache_state._loaded_runtime(maps) is None
    assert cache_state._loaded_runtime(tmp_path / "absent") is None


def test_the_cuda_flush_overwrites_twice_the_l2_and_then_reads_it(monkeypatch):
    log, made = [], []

    def zeros(*shape, dtype, device):
        assert device == "cuda"
        made.append(torch.empty(*shape, dtype=dtype))
        return made[-1]

    fake = SimpleNamespace(
        zeros=lambda *shape, dtype, device: _Recorded(zeros(*shape, dtype=dtype, device=device), log),
        sum=lambda buffer, **how: log.append("read"),
        int32=torch.int32,
        int64=torch.int64,
        cuda=SimpleNamespace(cudart=lambda: SimpleNamespace(cudaCtxResetPersistingL2Cache=lambda: log.append("reset"))),
    )
    monkeypatch.setitem(sys.modules, "torch", fake)
    flush = make_flush("cuda", 1024**2)
    assert log == []
    flush()
    assert log == ["reset", "written", "read"]
    assert made[0].nbytes >= 2 * 1024**2


class _Recorded:
    def __init__(self, tensor, log):
        self.tensor, self.log = tensor, log

    def zero_(self):
        self.log.append("written")
