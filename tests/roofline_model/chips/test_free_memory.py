"""One answer to how much memory is free, whoever asks: on unified memory the driver's own is wrong."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from roofline_model.chips import free_memory
from roofline_model.chips.free_memory import free_device_bytes, free_system_bytes

GB = 10**9


@pytest.fixture
def system(tmp_path, monkeypatch):
    """A machine whose files a test writes: (available bytes, and of the container limit, used and inactive_file)."""
    monkeypatch.setattr(free_memory, "MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(free_memory, "CGROUP", tmp_path)

    def write(available=None, limit=None, used=0, inactive=0):
        if available is not None:
            (tmp_path / "meminfo").write_text(f"MemTotal: 9 kB\nMemAvailable:   {available // 1024} kB\n")
        if limit is not None:
            (tmp_path / "memory.max").write_text(f"{limit}\n")
            (tmp_path / "memory.current").write_text(f"{used}\n")
            (tmp_path / "memory.stat").write_text(f"anon 5\ninactive_file {inactive}\nactive_file 7\n")

    return write


def cuda(free, *, integrated=0, reserved=0, allocated=0, bare=False):
    facts = {
        "mem_get_info": lambda: (free, 122 * GB),
        "current_device": lambda: 3,
        "get_device_properties": lambda device: SimpleNamespace(is_integrated=integrated) if device == 3 else None,
    }
    if not bare:
        facts |= {"memory_reserved": lambda: reserved, "memory_allocated": lambda: allocated}
    return SimpleNamespace(**facts)


def test_a_card_with_memory_of_its_own_has_what_the_driver_says(system):
    system(available=900 * GB)
    assert free_device_bytes(cuda(60 * GB)) == 60 * GB
    assert free_device_bytes(cuda(60 * GB, bare=True)) == 60 * GB


def test_unified_memory_has_what_the_system_can_give_back(system):
    system(available=100 * 1024**3)
    assert free_device_bytes(cuda(9 * GB, integrated=1)) == 100 * 1024**3  # the rest is page cache
    assert free_device_bytes(cuda(110 * GB, integrated=1)) == 110 * GB


def test_what_torch_keeps_of_tensors_that_are_gone_can_be_used_again(system):
    system()
    assert free_device_bytes(cuda(9 * GB, reserved=30 * GB, allocated=10 * GB)) == 29 * GB


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, None),
        ({"available": 8192}, 8192),
        ({"available": 8192, "limit": "max", "used": 1}, 8192),
        ({"available": 10**9, "limit": 4000, "used": 3000, "inactive": 500}, 1500),
        ({"available": 4096, "limit": 10**12, "used": 0}, 4096),
        ({"available": 10**9, "limit": 1000, "used": 3000}, 0),
        ({"limit": 5000, "used": 3000}, 2000),
    ],
)
def test_a_container_has_what_its_limit_leaves_beside_its_page_cache(system, files, expected):
    system(**files)
    assert free_system_bytes() == expected
