from __future__ import annotations

import os

import pytest

from plugin.sensors import rapl
from plugin.sensors.rapl import open_cpu_sensors


def put(root, name, text):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")
    return path


def package(root, index, energy_uj, name=None, range_uj=262_143_328_850, folder="intel-rapl"):
    base = f"sys/class/powercap/{folder}:{index}"
    put(root, f"{base}/name", name or f"package-{index}")
    if range_uj is not None:
        put(root, f"{base}/max_energy_range_uj", range_uj)
    return put(root, f"{base}/energy_uj", energy_uj)


@pytest.fixture
def root(tmp_path):
    put(tmp_path, "proc/stat", "cpu  1 2 3 4 5 6 7 8 0 0")
    return tmp_path


def test_packages_are_added_and_everything_else_left_out(root):
    first, second = package(root, 0, 1_000_000), package(root, 1, 5_000_000)
    for index, name in (("0:0", "core"), ("0:1", "dram"), ("2", "psys")):
        package(root, index, 9_000_000, name)
    package(root, 0, 9_000_000, "package-0", folder="intel-rapl-mmio")
    sensors, reason = open_cpu_sensors(root)
    assert (reason, sensors.scope, sensors.counter_source) == (None, "cpu-package", "rapl")
    assert sensors.total_energy_j() == 0.0
    first.write_text("3000000")
    second.write_text("5500000")
    assert sensors.total_energy_j() == pytest.approx(2.5)


@pytest.mark.parametrize(
    ("range_uj", "energies_j"),
    [
        (9_999_999, {"500000": 1.5, "400000": 11.4}),  # 0.999999 up to the end, one step to 0, and 0.5
        (None, {"500000": None, "1500000": 1.0}),
    ],
    ids=["known range", "unknown range"],
)
def test_a_counter_that_wraps_goes_on(root, range_uj, energies_j):
    counter = package(root, 0, 9_000_000, range_uj=range_uj)
    sensors, _ = open_cpu_sensors(root)
    assert sensors.total_energy_j() == 0.0
    for text, energy_j in energies_j.items():
        counter.write_text(text)
        assert sensors.total_energy_j() == (energy_j and pytest.approx(energy_j))


def test_one_unreadable_package_makes_the_sum_unknown(root):
    package(root, 0, 1)
    second = package(root, 1, 1)
    sensors, _ = open_cpu_sensors(root)
    second.unlink()
    assert sensors.total_energy_j() is None
    assert sensors.power_w() is None


@pytest.mark.parametrize("content", ["", "garbage", "-"])
def test_garbage_is_none(root, content):
    counter = package(root, 0, 1)
    sensors, _ = open_cpu_sensors(root)
    counter.write_text(content)
    assert sensors.total_energy_j() is None


def test_power_is_energy_over_time_between_readings(root, monkeypatch):
    counter = package(root, 0, 0)
    seconds = [100.0]
    monkeypatch.setattr(rapl.time, "perf_counter", lambda: seconds[0])
    sensors, _ = open_cpu_sensors(root)
    assert sensors.power_w() is None  # nothing to compare with yet
    seconds[0], _ = 100.5, counter.write_text("20000000")
    assert sensors.power_w() == pytest.approx(40.0)
    seconds[0], _ = 100.505, counter.write_text("30000000")
    assert sensors.power_w() == pytest.approx(40.0)  # too soon to say anything new
    seconds[0], _ = 101.5, counter.write_text("30000000")
    assert sensors.power_w() == pytest.approx(10.0)
    assert sensors.power_is_derived


def test_readable_by_root_only_says_how_to_open_it(root, monkeypatch):
    counter = package(root, 0, 1)
    if os.geteuid() == 0:  # permissions do not stop root: the file cannot be read for another reason
        counter.unlink()
        counter.mkdir()
    else:
        counter.chmod(0)
    sensors, reason = open_cpu_sensors(root)
    assert reason.code == "cpu-energy-unreadable"
    assert (sensors.total_energy_j(), sensors.power_w()) == (None, None)


def test_without_powercap_the_other_sensors_remain(root):
    put(root, "sys/class/hwmon/hwmon0/name", "nvme")
    put(root, "sys/class/hwmon/hwmon0/temp1_input", "90000")
    put(root, "sys/class/hwmon/hwmon1/name", "k10temp")
    put(root, "sys/class/hwmon/hwmon1/temp1_input", "61500")
    put(root, "sys/class/hwmon/hwmon1/temp2_input", "-40000")
    sensors, reason = open_cpu_sensors(root)
    assert reason.value("kind") == "cpu-energy"
    assert (sensors.total_energy_j(), sensors.power_w(), sensors.temperature_c()) == (None, None, 61.5)
    put(root, "sys/class/hwmon/hwmon1/temp1_input", "72000")
    assert sensors.temperature_c() == 72.0
    for name in ("sm_clock_hz", "memory_clock_hz", "rated_clock_hz", "utilization_ratio", "memory_used_bytes"):
        assert getattr(sensors, name)() is None
    assert (sensors.other_process_count(), sensors.throttle_s(), sensors.throttle_reasons()) == (None, None, None)


def test_thermal_zones_stand_in_for_hwmon(root):
    put(root, "sys/class/thermal/thermal_zone0/type", "x86_pkg_temp")
    put(root, "sys/class/thermal/thermal_zone0/temp", "48000")
    put(root, "sys/class/thermal/thermal_zone1/type", "iwlwifi")
    put(root, "sys/class/thermal/thermal_zone1/temp", "77000")
    assert open_cpu_sensors(root)[0].temperature_c() == 48.0


def test_amd_energy_driver_counts_sockets(root):
    for index, (label, value) in enumerate([("Ecore000", 5), ("Esocket0", 1_000_000), ("Esocket1", 2_000_000)]):
        put(root, f"sys/class/hwmon/hwmon0/energy{index}_label", label)
        put(root, f"sys/class/hwmon/hwmon0/energy{index}_input", value)
    put(root, "sys/class/hwmon/hwmon0/name", "amd_energy")
    sensors, reason = open_cpu_sensors(root)
    assert (reason, sensors.total_energy_j()) == (None, 0.0)
    put(root, "sys/class/hwmon/hwmon0/energy2_input", 2_500_000)
    assert sensors.total_energy_j() == pytest.approx(0.5)


def test_another_system_has_no_sensors(tmp_path):
    sensors, reason = open_cpu_sensors(tmp_path)
    assert sensors is None
    assert reason.value("kind") == "cpu-of-linux"
