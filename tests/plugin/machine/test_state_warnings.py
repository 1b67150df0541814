from __future__ import annotations

from types import SimpleNamespace

import fake_nvml as fake
import pytest

from plugin.machine import cpu_state
from plugin.machine import state_warnings as machine_state
from plugin.machine.cpu_state import (
    CpuQuota,
    CpuTimes,
    LoadWatch,
    allowed_cpus,
    cpu_facts,
    hypervisor,
    mean_clock_hz,
    ranges,
    read_quota,
    throttle_s,
)
from plugin.machine.state_warnings import StateWatch, cpu_warnings, gpu_warnings, load_warnings, warnings
from plugin.sensors.nvml import NvmlDevice
from results.records.state_records import MachineState
from roofline_model.core.finding import finding, fix_text


def put(root, name, text):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


# CPU settings ----------------------------------------------------------------------------------------------------

CPUINFO = """processor\t: 0
cpu MHz\t\t: 2000.000
flags\t\t: fpu vme hypervisor lahf_lm

processor\t: 1
cpu MHz\t\t: 3000.000
flags\t\t: fpu vme hypervisor lahf_lm
"""


def test_facts_of_a_configured_machine(tmp_path):
    for cpu, governor, clock in ((0, "performance", 2_500_000), (1, "powersave", 3_500_000)):
        folder = f"sys/devices/system/cpu/cpu{cpu}/cpufreq"
        put(tmp_path, f"{folder}/scaling_governor", governor)
        put(tmp_path, f"{folder}/scaling_driver", "intel_pstate")
        put(tmp_path, f"{folder}/scaling_cur_freq", clock)
        put(tmp_path, f"{folder}/scaling_min_freq", 800_000)
        put(tmp_path, f"{folder}/scaling_max_freq", 4_000_000 + cpu)
    put(tmp_path, "sys/devices/system/cpu/intel_pstate/no_turbo", 1)
    put(tmp_path, "sys/devices/system/cpu/smt/active", 1)
    put(tmp_path, "sys/devices/system/cpu/online", "0-7")
    put(tmp_path, "sys/devices/system/node/node0/cpulist", "0-3")
    put(tmp_path, "sys/devices/system/node/node1/cpulist", "4-7")
    put(tmp_path, "proc/meminfo", "MemTotal: 100 kB\nSwapTotal:  3000 kB\nSwapFree:  1000 kB")
    facts = cpu_facts(tmp_path, [0, 1])
    assert facts == {
        "governor": "performance+powersave",
        "cpu_driver": "intel_pstate",
        "energy_preference": None,
        "cpu_clock_hz": 3.0e9,
        "cpu_min_clock_hz": 8e8,
        "cpu_max_clock_hz": 4.000001e9,
        "boost": False,
        "smt": True,
        "numa_node_count": 2,
        "online_cpus": "0-7",
        "allowed_cpus": "0-1",
        "isolated_cpus": None,
        "cpu_quota_ratio": None,
        "hypervisor": None,
        "swap_used_bytes": 2000 * 1024,
    }


def test_a_machine_that_tells_nothing(tmp_path):
    facts = cpu_facts(tmp_path, [])
    assert set(facts.values()) == {None}
    assert throttle_s(tmp_path) is None


def test_frequency_from_cpuinfo_where_there_is_no_cpufreq(tmp_path):
    put(tmp_path, "proc/cpuinfo", CPUINFO)
    assert mean_clock_hz([0, 1], tmp_path) == 2.5e9
    assert mean_clock_hz([1], tmp_path) == 3.0e9
    put(tmp_path, "proc/cpuinfo", CPUINFO.replace("2000.000", "0.000").replace("3000.000", "unknown"))
    assert mean_clock_hz([0, 1], tmp_path) is None


@pytest.mark.parametrize(
    ("vendor", "product", "expected"),
    [
        ("QEMU", "Standard PC (Q35 + ICH9, 2009)", "KVM"),
        ("Amazon EC2", "c7i.4xlarge", "EC2"),
        ("Amazon EC2", "c7i.metal-24xl", None),
        ("Microsoft Corporation", "Virtual Machine", "Hyper-V"),
        ("Microsoft Corporation", "Surface Book", None),
        ("NVIDIA", "NVIDIA_DGX_Spark", None),
    ],
)
def test_hypervisor_by_the_boards_names(tmp_path, vendor, product, expected):
    put(tmp_path, "sys/class/dmi/id/sys_vendor", vendor)
    put(tmp_path, "sys/class/dmi/id/product_name", product)
    assert hypervisor(tmp_path) == expected


def test_hypervisor_by_the_processors_flag(tmp_path):
    put(tmp_path, "proc/cpuinfo", CPUINFO)
    assert hypervisor(tmp_path) == "unknown"
    put(tmp_path, "sys/hypervisor/type", "xen")
    assert hypervisor(tmp_path) == "Xen"
    put(tmp_path, "proc/cpuinfo", CPUINFO.replace("hypervisor", ""))
    (tmp_path / "sys/hypervisor/type").unlink()
    assert hypervisor(tmp_path) is None


def test_cpu_numbers_as_the_kernel_writes_them():
    assert ranges([3, 0, 1, 2, 8, 10, 11]) == "0-3,8,10-11"
    assert ranges([]) == ""


# Containers ------------------------------------------------------------------------------------------------------


def test_quota_of_version_2_is_the_tightest_on_the_way_up(tmp_path):
    put(tmp_path, "proc/self/cgroup", "0::/kubepods/pod1/box")
    put(tmp_path, "sys/fs/cgroup/cpu.stat", "usage_usec 5")
    for folder, limit, throttled in (("kubepods", "max 100000", 0), ("kubepods/pod1", "150000 100000", 2_500_000)):
        put(tmp_path, f"sys/fs/cgroup/{folder}/cpu.max", limit)
        put(tmp_path, f"sys/fs/cgroup/{folder}/cpu.stat", f"nr_periods 9\nnr_throttled 7\nthrottled_usec {throttled}")
    put(tmp_path, "sys/fs/cgroup/kubepods/pod1/box/cpu.max", "400000 100000")
    put(tmp_path, "sys/fs/cgroup/kubepods/pod1/box/cpu.stat", "nr_throttled 1\nthrottled_usec 1000")
    assert read_quota(tmp_path) == CpuQuota(1.5, 2.5)
    assert throttle_s(tmp_path) == {"cgroup quota": 2.5}


@pytest.mark.parametrize("mount", ["cpu,cpuacct", "cpu"])
def test_quota_of_version_1(tmp_path, mount):
    put(tmp_path, "proc/self/cgroup", "3:cpuset:/\n4:cpu,cpuacct:/docker/abc\n0::/docker/abc")
    put(tmp_path, f"sys/fs/cgroup/{mount}/docker/abc/cpu.cfs_quota_us", "200000")
    put(tmp_path, f"sys/fs/cgroup/{mount}/docker/abc/cpu.cfs_period_us", "100000")
    put(tmp_path, f"sys/fs/cgroup/{mount}/docker/abc/cpu.stat", "nr_throttled 2\nthrottled_time 3000000000")
    put(tmp_path, f"sys/fs/cgroup/{mount}/cpu.cfs_quota_us", "-1")
    put(tmp_path, f"sys/fs/cgroup/{mount}/cpu.stat", "nr_throttled 0\nthrottled_time 0")
    assert read_quota(tmp_path) == CpuQuota(2.0, 3.0)


NONSENSE = "0::/\nnonsense\n::", "usage_usec 5\nnr_throttled x", CpuQuota(None, None)


@pytest.mark.parametrize(
    ("groups", "stat", "quota", "limit"),
    [
        ("0::/../../outside", "nr_throttled 3\nthrottled_usec 100", CpuQuota(0.5, 0.0001), "50000 100000"),
        *((*NONSENSE, limit) for limit in ("", "max", "max 100000", "0", "100 0", "x y", "-1 100000")),
    ],
)
def test_quota_inside_a_containers_own_view_where_it_is_one(tmp_path, groups, stat, quota, limit):
    put(tmp_path, "proc/self/cgroup", groups)
    put(tmp_path, "sys/fs/cgroup/cpu.stat", stat)
    put(tmp_path, "sys/fs/cgroup/cpu.max", limit)
    assert read_quota(tmp_path) == quota


def test_heat_of_a_package_counts(tmp_path):
    for cpu in allowed_cpus():
        put(tmp_path, f"sys/devices/system/cpu/cpu{cpu}/thermal_throttle/package_throttle_total_time_ms", 1500)
    assert throttle_s(tmp_path) == {"package thermal": 1.5}


# One case --------------------------------------------------------------------------------------------------------


@pytest.fixture
def host(monkeypatch):
    """The host's counters as a test sets them: quota time, CPU clock."""
    values = {"throttled": {"cgroup quota": 1.0}, "clock": 2.6e9}
    monkeypatch.setattr(machine_state, "throttle_s", lambda: values["throttled"])
    monkeypatch.setattr(machine_state, "mean_clock_hz", lambda: values["clock"])
    return values


def gpu_of(library):
    return NvmlDevice(library, 0)


def test_state_of_a_case_on_a_gpu(host):
    library = fake.FakeNvml.h200()
    with StateWatch(gpu_of(library), "cuda") as watch:
        library.fields[74] = (fake.ULL, 2_700_000_000)
        host["throttled"] = {"cgroup quota": 9.0}  # the host thread's own trouble is no clock held down
    state = watch.state
    assert state.throttled_s == {"power cap": pytest.approx(0.7)}
    assert (state.rated_clock_hz, state.device_process_count, state.cpu_clock_hz) == (1.98e9, 0, 2.6e9)
    assert watch.flags() == ()


@pytest.mark.parametrize("when", ["before", "after"])
def test_another_process_on_the_gpu_is_seen_at_either_end(host, monkeypatch, when):
    monkeypatch.setattr("plugin.sensors.nvml.other_processes", lambda pids: len(list(pids)))
    library = fake.FakeNvml.h200()
    others = {"nvmlDeviceGetComputeRunningProcesses": [fake.process(4711)]}
    library.answers |= others if when == "before" else {}
    with StateWatch(gpu_of(library), "cuda") as watch:
        library.answers |= others if when == "after" else {"nvmlDeviceGetComputeRunningProcesses": []}
    assert (watch.state.device_process_count, watch.flags()) == (1, ("shared-device",))


def test_state_of_a_case_on_a_cpu(host):
    with StateWatch(None, "cpu") as watch:
        host["throttled"] = {"cgroup quota": 1.25}
    watch._load._after = watch._load._before = None
    assert watch.state == MachineState(throttled_s={"cgroup quota": 0.25}, cpu_clock_hz=2.6e9)
    assert watch.flags() == ()


def test_load_flags_belong_to_the_cpu_only(host, monkeypatch):
    monkeypatch.setattr(LoadWatch, "flags", lambda self: ("contended",))
    for device, expected in (("cpu", ("contended",)), ("cuda", ()), (None, ())):
        with StateWatch(None, device) as watch:
            pass
        assert watch.flags() == expected


def test_a_simulated_device_is_watched_and_this_machine_is_not(host):
    library = fake.FakeNvml.h200()
    with StateWatch(gpu_of(library), None) as watch:
        library.fields[74] = (fake.ULL, 3_000_000_000)
        host["throttled"] = {"cgroup quota": 9.0}
    assert watch.state == MachineState(
        throttled_s={"power cap": pytest.approx(1.0)}, rated_clock_hz=1.98e9, device_process_count=0
    )
    with StateWatch(None, None) as watch:
        pass
    assert watch.state == MachineState()


def test_a_late_step_is_waited_for_by_the_devices_clock(host):
    library = fake.FakeNvml.h200()

    def idle(seconds):
        library.fields[74] = (fake.ULL, 2_100_000_000)

    with StateWatch(gpu_of(library), None, idle) as watch:  # the power cap is active, and has gained nothing yet
        pass
    assert watch.state.throttled_s == {"power cap": pytest.approx(0.1)}


def test_the_watch_ends_cleanly_when_the_case_fails(host):
    with pytest.raises(ZeroDivisionError), StateWatch(gpu_of(fake.FakeNvml.h200()), "cuda") as watch:
        raise ZeroDivisionError
    assert watch.state.throttled_s == {}


# Warnings --------------------------------------------------------------------------------------------------------

GOOD_GPU = {
    "clock_lock_hz": 1.5e9, "max_clock_hz": 1.98e9, "persistence": True, "ecc": True, "ecc_pending": True, "mig": False,
    "power_limit_w": 700.0, "power_limit_default_w": 700.0,
}  # fmt: skip
GOOD_CPU = {"governor": "performance", "cpu_quota_ratio": None, "swap_used_bytes": 0}


def test_nothing_to_warn_of():
    assert gpu_warnings(GOOD_GPU, "NVIDIA H200", 0) == []
    assert cpu_warnings(GOOD_CPU, 8, 8) == []
    assert cpu_warnings(dict.fromkeys(GOOD_CPU), 8, 8) == []


@pytest.mark.parametrize(
    ("changed", "name", "others", "command"),
    [
        ({"clock_lock_hz": None}, "NVIDIA H200", 0, "sudo nvidia-smi -lgc 1980"),
        ({"clock_lock_hz": None}, "NVIDIA GB10", 0, "sudo nvidia-smi -lgc 0,2100"),
        ({"persistence": False}, "NVIDIA H200", 0, "sudo nvidia-smi -pm 1"),
        ({}, "NVIDIA H200", 2, "nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv"),
        ({"mig": True}, "NVIDIA H200", 0, "sudo nvidia-smi -mig 0"),
        ({}, "NVIDIA L40S", 0, "sudo nvidia-smi -e 0"),
        ({}, "NVIDIA RTX 6000 Ada Generation", 0, "sudo nvidia-smi -e 0"),
        ({"ecc": False}, "NVIDIA H200", 0, "nvidia-smi -q -d ECC"),
        ({"power_limit_w": 450.0}, "NVIDIA H200", 0, "sudo nvidia-smi -pl 700"),
    ],
)
def test_each_gpu_warning_names_its_command(changed, name, others, command):
    (item,) = gpu_warnings(GOOD_GPU | changed, name, others)
    assert f"`{command}`" in fix_text(item)


@pytest.mark.parametrize("name", ["NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3", "NVIDIA A30", "NVIDIA H200", ""])
def test_ecc_costs_nothing_on_stacked_memory(name):
    assert gpu_warnings(GOOD_GPU, name, 0) == []


@pytest.mark.parametrize(
    ("changed", "threads", "allowed", "command"),
    [
        ({"governor": "powersave"}, 8, 8, "sudo cpupower frequency-set -g performance"),
        ({"governor": "performance+powersave"}, 8, 8, "sudo cpupower frequency-set -g performance"),
        ({"cpu_quota_ratio": 2.5}, 8, 8, "OMP_NUM_THREADS=2"),
        ({"cpu_quota_ratio": 0.5}, 1, 8, "OMP_NUM_THREADS=1"),
        ({}, 8, 4, "OMP_NUM_THREADS=4"),
        ({"swap_used_bytes": 2**30}, 8, 8, "sudo swapoff -a && sudo swapon -a"),
    ],
)
def test_each_cpu_warning_names_its_command(changed, threads, allowed, command):
    (item,) = cpu_warnings(GOOD_CPU | changed, threads, allowed)
    assert f"`{command}`" in fix_text(item)


def test_a_quota_that_fits_is_no_trouble():
    assert cpu_warnings(GOOD_CPU | {"cpu_quota_ratio": 8.0, "swap_used_bytes": 2**20}, 8, 8) == []


def window(busy_s, stolen_s):
    watch = LoadWatch()
    watch._cpus = [0, 1]
    watch._before, watch._after = CpuTimes(0.0, 0.0, 0.0, 0.0), CpuTimes(1.0, busy_s, stolen_s, 0.0)
    return watch


def test_load_that_is_not_ours():
    assert load_warnings(window(0.1, 0.0)) == []
    (others,) = load_warnings(window(0.5, 0.0))
    assert others == finding("contended", others_ratio=0.25)
    (stolen,) = load_warnings(window(0.0, 0.2))
    assert stolen == finding("stolen", stolen_ratio=pytest.approx(0.1))
    assert load_warnings(window(0.1, -0.2)) == []  # steal of a migrated virtual machine may run backwards


def test_warnings_of_a_whole_machine(monkeypatch):
    machine = SimpleNamespace(facts=SimpleNamespace(name="NVIDIA H200"), thread_count=64, cpu_count=2)
    monkeypatch.setattr(machine_state, "cpu_facts", lambda: GOOD_CPU | {"governor": "powersave"})
    monkeypatch.setattr(machine_state, "allowed_cpus", lambda: [0, 1])
    gpu = gpu_of(fake.FakeNvml.h200(nvmlDeviceGetPersistenceMode=0))
    findings = warnings(gpu, machine, "cuda")
    assert [item.code for item in findings] == ["clock-unlocked", "persistence-off"]
    findings = warnings(None, machine, "cpu", window(1.0, 0.0))
    assert [item.code for item in findings] == ["governor-unsteady", "threads-exceed-cpus", "contended"]
    assert warnings(gpu, machine, None) == []
    assert warnings(None, machine, "cuda") == []


def test_without_a_window_the_cpus_are_watched_for_a_moment(monkeypatch):
    naps = []
    monkeypatch.setattr(machine_state.time, "sleep", naps.append)
    monkeypatch.setattr(cpu_state, "SHORTEST_WINDOW_S", 0.0)
    machine = SimpleNamespace(facts=None, thread_count=1, cpu_count=1)
    assert isinstance(warnings(None, machine, "cpu"), list)
    assert naps == [machine_state.LOOK_S]
