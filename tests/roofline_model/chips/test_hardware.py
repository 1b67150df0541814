"""The registry: every number with its provenance, the chips told apart, custom chips, and no heavy import."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest

from roofline_model import (
    FORMATS,
    DeviceFacts,
    InvalidValueError,
    UnknownNameError,
    UnsupportedError,
    create_custom_asic,
    get_hardware,
    list_hardware,
    match_device,
)
from roofline_model.chips.hardware import STATUSES, Device, Quantity, check_device
from roofline_model.core.finding import short_text

CHIPS = list_hardware()
REAL = [device for device in CHIPS if not device.is_placeholder]
KEYS = [
    "gb10",
    "b10",
    "b200",
    "b300",
    "gb200",
    "h100-sxm",
    "h100-pcie",
    "h200-sxm",
    "a100-sxm-80gb",
    "a100-sxm-40gb",
    "l4",
    "l40s",
    "rtx-4090",
    "rtx-5090",
    "rtx-pro-6000",
    "orin-agx-64gb",
    "thor-t5000",
    "mi300x",
    "rx-7900-xt",
    "rtx-5070",
    "rtx-5880-ada",
    "rtx-2080",
    "t4",
    "gtx-1070",
    "gtx-1050-ti",
    "apple-m4-pro",
    "apple-m5-pro",
    "apple-m5-max",
]


def by_key(device: Device) -> str:
    return device.key


def quantities(device: Device) -> Iterator[tuple[str, Quantity]]:
    yield "bandwidth", device.bandwidth
    for name, quantity in (("bandwidth_achieved", device.bandwidth_achieved), ("capacity", device.capacity)):
        if quantity is not None:
            yield name, quantity
    yield from device.chip.items()
    for level in device.levels:
        if level.bandwidth is not None:
            yield f"{level.name} bandwidth", level.bandwidth
    for key, path in device.paths.items():
        for name, rate in (("dense", path.dense), ("sparse", path.sparse), ("achieved", path.achieved)):
            if rate is not None:
                yield f"{key} {name}", rate


def test_the_registry_holds_the_chips_of_the_design() -> None:
    assert sorted(device.key for device in CHIPS) == sorted(KEYS)
    assert [device.key for device in CHIPS] == sorted(KEYS)


def test_the_name_of_a_file_is_the_key_of_its_chip() -> None:
    files = resources.files("roofline_model.chips").joinpath("devices").iterdir()
    assert sorted(entry.name for entry in files) == [f"{key}.toml" for key in sorted(KEYS)]
    for key in KEYS:
        assert get_hardware(key).key == key
        assert get_hardware(key) is next(device for device in CHIPS if device.key == key)


def test_no_two_chips_share_a_name() -> None:
    names = [name for device in CHIPS for name in (device.key, *device.aliases)]
    assert len(names) == len(set(names))
    assert all(name == name.lower() and "_" not in name for name in names)  # else it could never be found


@pytest.mark.parametrize("device", CHIPS, ids=by_key)
def test_every_file_passes_its_self_check_without_a_word(device: Device) -> None:
    assert check_device(device) == []


@pytest.mark.parametrize("device", CHIPS, ids=by_key)
def test_every_number_has_a_unit_a_status_and_a_source(device: Device) -> None:
    for name, quantity in quantities(device):
        assert quantity.value > 0, name
        assert quantity.status in STATUSES, name
        assert len(quantity.source) >= 5, name
        assert quantity.unit in ("B/s", "FLOP/s", "B", "Hz", "W", ""), name
        if device.is_placeholder:
            assert quantity.status == "placeholder", name


@pytest.mark.parametrize("device", CHIPS, ids=by_key)
def test_every_format_of_the_catalog_has_a_path_with_a_reason(device: Device) -> None:
    assert set(device.paths) == set(FORMATS)
    for key, path in device.paths.items():
        assert path.format == key
        if path.kind == "native":
            assert path.compute_format == key
        else:
            assert path.reason
            assert device.paths[path.compute_format].kind == "native"
            assert path.dense == device.paths[path.compute_format].dense


@pytest.mark.parametrize("device", REAL, ids=by_key)
def test_dense_is_never_above_sparse_and_every_native_peak_has_a_clock(device: Device) -> None:
    for key, path in device.paths.items():
        if path.kind == "native":
            assert path.dense.clock_hz is not None, key
            if path.sparse is not None:
                assert path.sparse.value == pytest.approx(2 * path.dense.value, rel=0.005), key


@pytest.mark.parametrize("device", REAL, ids=by_key)
def test_rates_agree_with_units_times_clock(device: Device) -> None:
    # FLOP per clock per SM is a power of two in all of these designs: a slip in a peak or a clock shows here.
    sms = device.count("sm_count")
    assert sms
    for key in ("TF32", "BF16", "FP8_E4M3", "INT8"):
        path = device.paths[key]
        if path.kind != "native" or (device.key, key) == ("b300", "INT8"):
            continue
        per_clock = path.dense.value / (sms * path.dense.clock_hz)  # type: ignore[operator]
        nearest = min((2.0**n for n in range(6, 16)), key=lambda power: abs(power / per_clock - 1))
        assert per_clock == pytest.approx(nearest, rel=0.02), key


@pytest.mark.parametrize(
    ("key", "precision", "tflops"),
    [("gb10", "BF16", 118.8), ("gb10", "NVFP4", 475.3), ("gb10", "INT4", 237.7), ("h100", "FP16", 989.4), ("h200", "FP8", 1979),
     ("b200", "BF16", 2250), ("b200", "NVFP4", 9000), ("a100", "INT8", 624), ("a100", "FP8", 312), ("rtx-5090", "FP8", 419),
     ("rtx-5090", "MXFP8", 838), ("rtx-4090", "BF16", 165.2), ("orin", "INT8", 85), ("thor", "NVFP4", 1035), ("b300", "INT8", 150)],
)  # fmt: skip
def test_the_dense_peaks_that_are_often_printed_wrongly(key: str, precision: str, tflops: float) -> None:
    # H100 1979, B200 4500 and GB10 1000 are the 2:4-sparse headlines.
    # H100/H200 FP8 is 2 x 989.4 = 1978.8, printed as 1979.
    assert get_hardware(key).peak_flops_per_s(precision) / 1e12 == pytest.approx(tflops, rel=2e-4)


@pytest.mark.parametrize(
    ("key", "gb_s", "memory_gb"),
    [("gb10", 273.06, 128.5), ("b200", 8000, 192.3), ("b300", 8000, 288.4), ("gb200", 8000, 198.7), ("h100-sxm", 3352, 85.5),
     ("h100-pcie", 2000, 85.5), ("h200-sxm", 4800, 150.8), ("a100-sxm-80gb", 2039, 85.9), ("a100-sxm-40gb", 1555, 42.9), ("l4", 300.1, 24.2),
     ("l40s", 864, 48.3), ("rtx-4090", 1008, 25.8), ("rtx-5090", 1792, 34.2), ("rtx-pro-6000", 1792, 102.6), ("orin-agx-64gb", 204.8, 64),
     ("thor-t5000", 273, 128), ("mi300x", 5300, 206.1)],
)  # fmt: skip
def test_memories(key: str, gb_s: float, memory_gb: float) -> None:
    # What the driver reports: an "80 GB" card holds 80 GiB or a little less, not 80·10⁹ bytes.
    device = get_hardware(key)
    assert device.capacity is not None
    assert (device.peak_bandwidth_gb_s, round(device.capacity.value / 1e9, 1)) == (pytest.approx(gb_s), memory_gb)


def test_gb10_is_the_measured_machine() -> None:
    gb10 = get_hardware("gb10")
    assert gb10.bandwidth.value == 273.06e9
    assert gb10.bandwidth_achieved is not None
    assert gb10.bandwidth_achieved.value == 232e9
    assert gb10.last_level_cache is not None
    assert gb10.last_level_cache.capacity_bytes == 25_165_824
    assert (gb10.count("sm_count"), gb10.count("blocks_per_sm"), gb10.count("no_such_thing")) == (48, 24, None)
    assert gb10.chip["shared_memory_per_block"].value == 101_376
    assert gb10.path("NVFP4").sparse is not None


# --- names


@pytest.mark.parametrize(
    ("name", "key"),
    [("h100", "h100-sxm"), ("H200", "h200-sxm"), ("a100", "a100-sxm-80gb"), ("orin", "orin-agx-64gb"), ("thor", "thor-t5000"),
     ("dgx-spark", "gb10"), ("DGX_Spark", "gb10"), (" GB10 ", "gb10"), ("blackwell-b10", "b10"), ("a100_40gb", "a100-sxm-40gb")],
)  # fmt: skip
def test_chips_are_found_by_alias_in_any_spelling(name: str, key: str) -> None:
    assert get_hardware(name).key == key
    assert get_hardware(get_hardware(name)) is get_hardware(name)


def test_an_unknown_chip_names_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match=r"Did you mean .*h100") as caught:
        get_hardware("h10")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["", "..", "\x00", "x" * 5000, "gb10\n\x1b[31m!", "auto!", "b10.", "🙂"])
def test_hostile_names_are_unknown_names(name: str) -> None:
    with pytest.raises(UnknownNameError, match="unknown hardware") as caught:
        get_hardware(name)
    assert str(caught.value).isprintable()


# --- which chip is this machine?


@pytest.mark.parametrize(
    ("name", "capability", "sms", "gib", "key"),
    [
        ("NVIDIA GB10", "12.1", 48, 119.7, "gb10"),
        ("NVIDIA H200", "9.0", 132, 139.7, "h200-sxm"),
        ("NVIDIA H100 80GB HBM3", "9.0", 132, 79.1, "h100-sxm"),
        ("NVIDIA H100 PCIe", "9.0", 114, 79.1, "h100-pcie"),
        ("NVIDIA A100-SXM4-80GB", "8.0", 108, 79.2, "a100-sxm-80gb"),
        ("NVIDIA A100-SXM4-40GB", "8.0", 108, 39.4, "a100-sxm-40gb"),
        ("A100-SXM4-40GB", "8.0", 108, 39.6, "a100-sxm-40gb"),
        ("NVIDIA B200", "10.0", 148, 178.4, "b200"),
        ("NVIDIA B300 SXM6 AC", "10.3", 148, 267.7, "b300"),
        ("NVIDIA GB200", "10.0", 152, 184.0, "gb200"),
        ("NVIDIA L4", "8.9", 58, 22.0, "l4"),
        ("NVIDIA L40S", "8.9", 142, 44.4, "l40s"),
        ("NVIDIA GeForce RTX 4090", "8.9", 128, 23.6, "rtx-4090"),
        ("NVIDIA GeForce RTX 5090", "12.0", 170, 31.4, "rtx-5090"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "12.0", 188, 94.9, "rtx-pro-6000"),
        ("Orin", "8.7", 16, 61.4, "orin-agx-64gb"),
        ("Orin (nvgpu)", "8.7", 16, 61.4, "orin-agx-64gb"),
        ("NVIDIA Thor", "11.0", 20, 122.8, "thor-t5000"),
        ("AMD Instinct MI300X", "9.4", 304, 192.0, "mi300x"),
        ("AMD Instinct MI300X VF", "9.4", 304, 191.5, "mi300x"),
    ],
)
def test_driver_names_find_their_chip(name: str, capability: str, sms: int, gib: float, key: str) -> None:
    device, reason = match_device(DeviceFacts(name, capability, sms, int(gib * 2**30)))
    assert device is not None, reason
    assert device.key == key
    assert (reason.value("device_name"), reason.value("hardware")) == (name, key)


@pytest.mark.parametrize(
    ("name", "capability", "sms", "gib"),
    [
        ("NVIDIA H200 NVL", "9.0", 132, 139.7),
        ("NVIDIA H100 NVL", "9.0", 132, 93.1),
        ("NVIDIA GH200 480GB", "9.0", 132, 94.5),
        ("NVIDIA H100 80GB HBM3 MIG 3g.40gb", "9.0", 60, 39.6),
        ("NVIDIA H800", "9.0", 132, 79.1),
        ("NVIDIA A100-PCIE-40GB", "8.0", 108, 39.4),
        ("NVIDIA A100 80GB PCIe", "8.0", 108, 79.2),
        ("NVIDIA A100-SXM4-80GB MIG 1g.10gb", "8.0", 14, 9.5),
        ("NVIDIA A800-SXM4-80GB", "8.0", 108, 79.2),
        ("NVIDIA L40", "8.9", 142, 44.4),
        ("NVIDIA GB300", "10.3", 152, 277.0),
        ("NVIDIA GeForce RTX 4090 D", "8.9", 114, 23.6),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "8.9", 76, 15.7),
        ("NVIDIA GeForce RTX 5090 D", "12.0", 170, 31.4),
        ("NVIDIA GeForce RTX 5090 Laptop GPU", "12.0", 82, 23.9),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "12.0", 188, 94.9),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "12.0", 188, 94.9),
        ("NVIDIA RTX 6000 Ada Generation", "8.9", 142, 47.5),
        ("Orin", "8.7", 8, 15.3),  # Orin NX
        ("Orin", "8.7", 14, 29.9),  # AGX Orin 32 GB
        ("AMD Instinct MI300A", "9.4", 228, 128.0),
        ("AMD Instinct MI325X", "9.4", 304, 256.0),
        ("NVIDIA GB10", "12.0", 48, 119.7),  # a known fact disagrees
        ("NVIDIA H100 80GB HBM3", "9.0", 114, 79.1),
        ("Blackwell B10", None, None, None),
        ("", None, None, None),
    ],
)
def test_relatives_are_not_taken_for_the_chip(
    name: str, capability: str | None, sms: int | None, gib: float | None
) -> None:
    facts = DeviceFacts(name, capability, sms, None if gib is None else int(gib * 2**30))
    device, reason = match_device(facts)
    assert device is None, device
    assert reason.value("kind") == "none"


@pytest.mark.parametrize(
    ("name", "capability", "fact"),
    [
        ("NVIDIA H200 NVL", "9.0", "h200-sxm"),
        ("NVIDIA H100 NVL", "9.0", "h100-sxm"),
        ("NVIDIA GH200 480GB", "9.0", "die"),
        ("NVIDIA GH200 144G HBM3e", "9.0", "die"),
        ("NVIDIA GB300", "10.3", "b300"),
        ("NVIDIA H100 80GB HBM3 MIG 3g.40gb", "9.0", "MIG"),
        ("NVIDIA GeForce RTX 5090 Laptop GPU", "12.0", "power limit"),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "12.0", "Max-Q"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "12.0", "limit"),
        ("NVIDIA GeForce RTX 4090 D", "8.9", "SMs"),
    ],
)
def test_a_known_relative_is_told_why_it_is_not_the_chip(name: str, capability: str, fact: str) -> None:
    device, reason = match_device(DeviceFacts(name, capability))
    assert device is None
    assert any(fact in str(reason.value(name) or "") for name in ("hardware", "difference", "relative"))


def test_a_stranger_is_given_no_reason() -> None:
    assert ";" not in short_text(match_device(DeviceFacts("NVIDIA Whatever 9000", "15.0"))[1])


def test_the_name_alone_is_enough_where_nothing_else_is_known() -> None:
    assert match_device(DeviceFacts("NVIDIA GB10"))[0] is get_hardware("gb10")


def test_two_equal_matches_are_no_match() -> None:
    gb10 = get_hardware("gb10")
    device, reason = match_device(DeviceFacts("NVIDIA GB10"), [gb10, gb10])
    assert device is None
    assert reason.value("kind") == "several"


# --- profiles and custom chips


def test_a_device_becomes_plain_json_and_its_hash_sees_every_number() -> None:
    gb10 = get_hardware("gb10")
    assert json.loads(json.dumps(gb10.to_dict()))["paths"]["NVFP4"]["kind"] == "native"
    hashes = {device.content_hash for device in CHIPS}
    assert len(hashes) == len(CHIPS)
    slower = create_custom_asic("a", 100, {"FP16": 1.0})
    assert slower.content_hash != create_custom_asic("a", 100, {"FP16": 1.001}).content_hash
    assert slower.content_hash == create_custom_asic("a", 100, {"FP16": 1.0}).content_hash


def test_a_custom_chip_keeps_what_it_was_told() -> None:
    chip = create_custom_asic("My ASIC", 500, {"FP16": 50.0, "fp8": 100}, memory_gb=16)
    assert (chip.key, chip.name, chip.kind) == ("my-asic", "My ASIC", "custom")
    assert chip.peak_bandwidth_gb_s == 500
    assert chip.flops_by_precision == {"FP16": 50, "FP8_E4M3": 100}
    assert chip.capacity is not None
    assert chip.capacity.value == 16e9
    assert chip.declares("FP8")
    assert not chip.declares("INT8")
    assert chip.path("INT8").kind == "dequantize"
    with pytest.raises(UnsupportedError, match=r"FP64.*FP16, FP8_E4M3"):
        chip.path("FP64")


@pytest.mark.parametrize(
    ("bandwidth", "rates", "memory", "message"),
    [
        (0, {"FP16": 1.0}, None, "bandwidth_gb_s"),
        (-5, {"FP16": 1.0}, None, "bandwidth_gb_s"),
        ("fast", {"FP16": 1.0}, None, "bandwidth_gb_s"),
        (float("nan"), {"FP16": 1.0}, None, "bandwidth_gb_s"),
        (10**400, {"FP16": 1.0}, None, "bandwidth_gb_s"),
        (True, {"FP16": 1.0}, None, "bandwidth_gb_s"),
        (100, {}, None, "flops_by_precision is empty"),
        (100, {"FP16": -1.0}, None, "rate of FP16"),
        (100, {"FP16": "1"}, None, "rate of FP16"),
        (100, {"FP16": 1.0}, 0, "memory_gb"),
        (100e9, {"FP16": 1.0}, None, "slip of unit"),  # bytes/s given as GB/s
        (100, {"FP16": 1e12}, None, "slip of unit"),
        (100, {"FP8": 1.0, "FP8_E4M3": 2.0}, None, "given twice"),
    ],
)
def test_nonsense_chips_are_refused(bandwidth: object, rates: dict[str, object], memory: object, message: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        create_custom_asic("x", bandwidth, rates, memory_gb=memory)  # type: ignore[arg-type]
    assert message in str(caught.value)
    assert len(str(caught.value)) < 250


def test_a_custom_chip_with_an_unknown_format() -> None:
    with pytest.raises(UnknownNameError):
        create_custom_asic("x", 100, {"FP15": 1.0})


def test_importing_the_model_and_predicting_pulls_in_nothing_heavy() -> None:
    code = (
        "import sys, roofline_model as r\n"
        "heavy = {'numpy', 'torch', 'ml_dtypes', 'scipy', 'pandas', 'sqlalchemy', 'matplotlib', 'pytest'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
        "r.predict_gemm('gb10', 1, 64, 64); r.recommend_quantization('gb10', 1, 64, 64); r.list_hardware()\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    root = Path(__file__).resolve().parents[3]
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, cwd=root)


def test_the_lazy_names_of_the_package() -> None:
    import roofline_model

    assert roofline_model.BLACKWELL_B10 is get_hardware("b10")
    assert set(roofline_model.__all__) <= set(dir(roofline_model))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = roofline_model.nothing


# --- spelling


@pytest.mark.parametrize(
    ("typed", "key"),
    [
        ("rtx4090", "rtx-4090"), ("RTX 4090", "rtx-4090"), ("rtx_4090", "rtx-4090"), ("4090", "rtx-4090"), ("rtx 5090", "rtx-5090"),
        ("RTX Pro 6000", "rtx-pro-6000"), ("pro6000", "rtx-pro-6000"), ("H100 PCIe", "h100-pcie"), ("h100sxm", "h100-sxm"),
        ("a100 40gb", "a100-sxm-40gb"), ("dgxspark", "gb10"), ("jetson thor", "thor-t5000"), ("b-200", "b200"),
    ],
)  # fmt: skip
def test_dashes_blanks_and_capitals_of_a_name_do_not_count(typed, key):
    assert get_hardware(typed).key == key
