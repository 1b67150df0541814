"""A chip file is read whole or refused with one line that names the file, the field and the fix."""

from __future__ import annotations

from pathlib import Path

import pytest

from roofline_model import DefinitionError, get_hardware, predict_gemm
from roofline_model.chips.hardware import (
    _UNITS,
    STATUSES,
    check_device,
    errors_of,
    read_device_file,
    read_device_text,
)
from roofline_model.core.finding import Finding, finding

Q = 'status = "measured", source = "a test bench"'
GOOD = f"""
schema = 1
key = "mychip"
name = "My chip"
kind = "custom"
vendor = "me"
architecture = "v1"
aliases = ["Mine"]
notes = ["a note"]

[match]
device_names = ["^MYCHIP$"]
compute_capability = "1.0"
sm_count = 4
memory_gb = [10, 20]

[memory]
bandwidth = {{value = 0.5, unit = "TB/s", {Q}}}
bandwidth_achieved = {{value = 450, unit = "GB/s", {Q}}}
capacity = {{value = 16, unit = "GB", {Q}, note = "unified"}}

[[level]]
name = "L2"
capacity = {{value = 8, unit = "MiB", {Q}}}
bandwidth = {{value = 2, unit = "TB/s", {Q}}}

[chip]
sm_count = {{value = 4, unit = "", {Q}}}
clock = {{value = 1.5, unit = "GHz", {Q}}}
tdp = {{value = 30, unit = "W", {Q}}}
shared_memory_per_sm = {{value = 64, unit = "KiB", {Q}}}

[[peak]]
formats = ["FP16", "BF16"]
dense = {{value = 50, unit = "TFLOP/s", clock_mhz = 1500, {Q}}}
sparse = {{value = 0.1, unit = "PFLOP/s", clock_mhz = 1500, {Q}}}
achieved = {{value = 41, unit = "TFLOP/s", {Q}}}

[[peak]]
formats = ["INT8"]
dense = {{value = 100, unit = "TOP/s", clock_mhz = 1500, {Q}}}

[[path]]
formats = ["INT4", "FP8"]
kind = "emulated"
compute = "INT8"
reason = "no unit"
"""


def edited(old: str, new: str) -> str:
    assert GOOD.count(old) == 1, old
    return GOOD.replace(old, new)


def test_a_good_file_is_read_in_si_units(tmp_path: Path) -> None:
    path = tmp_path / "mychip.toml"
    path.write_text(GOOD, encoding="utf-8")
    chip = get_hardware(path)
    assert get_hardware(str(path)) == chip == read_device_file(path)
    assert (chip.key, chip.kind, chip.aliases, chip.notes) == ("mychip", "custom", ("mine",), ("a note",))
    assert chip.bandwidth.value == 5e11
    assert chip.capacity is not None
    assert (chip.capacity.value, chip.capacity.note) == (16e9, "unified")
    assert chip.levels[0].capacity_bytes == 8 * 2**20
    assert chip.chip["clock"].value == 1.5e9
    assert chip.chip["shared_memory_per_sm"].value == 65536
    assert chip.path("BF16").dense.clock_hz == 1.5e9
    assert chip.path("FP16").sparse is not None
    assert chip.path("FP16").sparse.value == 1e14  # type: ignore[union-attr]
    assert chip.path("INT8").dense.value == 1e14
    assert (chip.path("FP8").kind, chip.path("FP8").compute_format, chip.path("FP8").dense.value) == (
        "emulated",
        "INT8",
        1e14,
    )
    assert chip.match.memory_gb == (10.0, 20.0)
    assert check_device(chip) == []
    assert predict_gemm(chip, 1, 64, 64, "INT8").hardware == "mychip"


BW = f'bandwidth = {{value = 0.5, unit = "TB/s", {Q}}}'
PEAK = f'dense = {{value = 100, unit = "TOP/s", clock_mhz = 1500, {Q}}}'


@pytest.mark.parametrize(
    ("old", "new", "refusals"),
    [
        # the top level
        ("schema = 1", "schema = 2", "schema must be 1, got 2"),
        ("schema = 1\n", "", "schema must be 1, got None"),
        ('key = "mychip"\n', "", "key is missing"),
        ('key = "mychip"', 'key = "My Chip"', "key must be lower-case"),
        ('key = "mychip"', "key = 5", "key is 5, not text"),
        ('name = "My chip"\n', "", "name is missing"),
        ('name = "My chip"', f'name = "{"x" * 201}"', "name must be text of 200 characters at most, got 201"),
        ('kind = "custom"', 'kind = "tpu"', "kind is 'tpu', not one of gpu, cpu, custom"),
        ('vendor = "me"', "vendor = 5", "vendor is 5, not text"),
        ('architecture = "v1"', "architecture = 1.0", "architecture is 1.0, not text"),
        ('aliases = ["Mine"]', 'aliases = "Mine"', "aliases is 'Mine', not a list"),
        ('notes = ["a note"]', "notes = [1]", "notes[0] is 1, not text"),
        ('notes = ["a note"]', 'placeholder = "no"', "placeholder is 'no', not true or false"),
        ('notes = ["a note"]', "bandwith = 5", "unknown field 'bandwith'"),
        ("schema = 1", "schema = ", "not valid TOML"),
        ("schema = 1", "schema = 1" + "0" * 5000, "not valid TOML"),
        # quantities
        (BW, "", "memory.bandwidth is missing"),
        (BW, "bandwidth = 500", "memory.bandwidth is 500, not a table"),
        (BW, 'bandwidth = {unit = "GB/s", status = "measured", source = "x"}', "value is missing"),
        (BW, 'bandwidth = {value = 5, status = "measured", source = "x"}', "unit is missing"),
        (BW, 'bandwidth = {value = 5, unit = "GB/s", source = "x"}', "status is missing"),
        (BW, 'bandwidth = {value = 5, unit = "GB/s", status = "measured"}', "source is missing"),
        (BW, f'bandwidth = {{value = "500", unit = "GB/s", {Q}}}', ", not a number"),
        (BW, f'bandwidth = {{value = true, unit = "GB/s", {Q}}}', ", not a number"),
        (BW, f'bandwidth = {{value = -500, unit = "GB/s", {Q}}}', "value must be positive"),
        (BW, f'bandwidth = {{value = 0, unit = "GB/s", {Q}}}', "value must be positive"),
        (BW, f'bandwidth = {{value = nan, unit = "GB/s", {Q}}}', "bandwidth.value is nan, not a number"),
        (BW, f'bandwidth = {{value = inf, unit = "GB/s", {Q}}}', "bandwidth.value is inf, not a number"),
        (BW, f'bandwidth = {{value = 1{"0" * 400}, unit = "GB/s", {Q}}}', ", not a number"),
        (
            BW,
            f'bandwidth = {{value = 500, unit = "Gb/s", {Q}}}',
            "unit 'Gb/s' does not fit; use one of B/s, MB/s, GB/s, TB/s",
        ),
        (BW, f'bandwidth = {{value = 500, unit = "TFLOP/s", {Q}}}', "unit 'TFLOP/s' does not fit"),
        (BW, f"bandwidth = {{value = 500, unit = 5, {Q}}}", "bandwidth.unit is 5, not text"),
        (
            BW,
            'bandwidth = {value = 5, unit = "GB/s", status = "guess", source = "x"}',
            "status is 'guess', not one of datasheet, ",
        ),
        (BW, 'bandwidth = {value = 5, unit = "GB/s", status = "measured", source = " "}', "source must say where"),
        (BW, f'bandwidth = {{value = 5, unit = "GB/s", units = "x", {Q}}}', "unknown field 'units'"),
        (BW, f'bandwidth = {{value = 5, unit = "GB/s", note = 5, {Q}}}', "bandwidth.note is 5, not text"),
        (BW, f'bandwidth = {{value = 5000000, unit = "GB/s", {Q}}}', "a slip of unit?"),
        (BW, f'bandwidth = {{value = 5, unit = "MB/s", {Q}}}', "a slip of unit?"),
        (PEAK, f'dense = {{value = 100, unit = "TOP/s", clock_mhz = -1, {Q}}}', "clock_mhz must be a positive number"),
        (
            PEAK,
            f'dense = {{value = 100, unit = "TOP/s", clock_mhz = "1500", {Q}}}',
            "peak[1].dense.clock_mhz is '1500', not a number",
        ),
        (
            PEAK,
            f'dense = {{value = 100, unit = "TOP/s", clock_mhz = nan, {Q}}}',
            "peak[1].dense.clock_mhz is nan, not a number",
        ),
        # memory, levels, chip
        ("[memory]", "[memry]", "unknown field 'memry'"),
        ("[memory]", "[memory]\nspeed = 5", "memory has an unknown field 'speed'"),
        ('name = "L2"\n', "", "level[0].name is missing"),
        (
            f'bandwidth = {{value = 2, unit = "TB/s", {Q}}}',
            f'bandwidth = {{value = 0.2, unit = "TB/s", {Q}}}',
            "L2 bandwidth is below DRAM",
        ),
        (
            f'capacity = {{value = 8, unit = "MiB", {Q}}}',
            f'capacity = {{value = 80, unit = "GiB", {Q}}}',
            "L2 is not smaller than the memory",
        ),
        (
            f'{{value = 450, unit = "GB/s", {Q}}}',
            f'{{value = 520, unit = "GB/s", {Q}}}',
            "achieved bandwidth is 104.0 % of the peak",
        ),
        ("[chip]", "[chip]\nfans = " + BW.removeprefix("bandwidth = "), "[chip] has an unknown field 'fans'"),
        (
            f'clock = {{value = 1.5, unit = "GHz", {Q}}}',
            f'clock = {{value = 1.5, unit = "W", {Q}}}',
            "[chip] clock: unit 'W' does not fit",
        ),
        # match
        ('["^MYCHIP$"]', '["^MYCHIP("]', "is not a regular expression"),
        ('["^MYCHIP$"]', '["M*"]', "matches every name"),
        ('compute_capability = "1.0"', "compute_capability = 1.0", "match.compute_capability is 1.0, not text"),
        ("sm_count = 4\n", 'sm_count = "4"\n', ", not a whole number"),
        ("sm_count = 4\n", "sm_count = true\n", ", not a whole number"),
        ("memory_gb = [10, 20]", "memory_gb = 16", "match.memory_gb is 16, not a list"),
        ("memory_gb = [10, 20]", "memory_gb = [20, 10]", "memory_gb must be [smallest, largest]"),
        ("memory_gb = [10, 20]", "memory = [10, 20]", "match has an unknown field 'memory'"),
        # peaks and paths
        ('formats = ["INT8"]\n', "", "peak[1].formats is missing"),
        ('formats = ["INT8"]', "formats = []", "[[peak]] 2: formats is empty"),
        ('formats = ["INT8"]', 'formats = ["INT9"]', "unknown format 'INT9'"),
        ('formats = ["INT8"]', 'formats = ["INT8", "BF16"]', "BF16 is given twice"),
        (PEAK, "", "peak[1].dense is missing"),
        (PEAK, PEAK + "\npeak = 5", "peak[1] has an unknown field 'peak'"),
        ('unit = "PFLOP/s"', 'unit = "TFLOP/s"', "a slip of unit?|sparse peak must be 2"),
        ('kind = "emulated"', 'kind = "native"', "path[0].kind is 'native', not one of emulated, dequantize"),
        ('compute = "INT8"', 'compute = "FP64"', "compute = FP64 has no [[peak]]"),
        ('compute = "INT8"\n', "", "compute is missing"),
        ('formats = ["INT4", "FP8"]', 'formats = ["INT4", "FP16"]', "FP16 is given twice"),
        ('formats = ["INT4", "FP8"]', 'formats = ["FP8", "FP8_E4M3"]', "FP8_E4M3 is given twice"),
        ('reason = "no unit"', "reason = 5", "path[0].reason is 5, not text"),
        ('reason = "no unit"', "rate = 5", "path[0] has an unknown field 'rate'"),
        ("[[level]]", "[level]", ", not a list of tables"),
    ],
)
def test_bad_files_are_refused_by_field(old: str, new: str, refusals: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        read_device_text(edited(old, new), "mychip.toml")
    message = str(caught.value)
    assert any(part in message for part in refusals.split("|")), message
    assert message.startswith("mychip.toml: ")
    assert "\n" not in message
    assert len(message) < 400


def test_a_file_without_peaks() -> None:
    head = GOOD[: GOOD.index("[[peak]]")]
    with pytest.raises(DefinitionError, match=r"x.toml: peak is missing"):
        read_device_text(head, "x.toml")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="does not exist"):
        get_hardware(tmp_path / "absent.toml")
    with pytest.raises(DefinitionError, match="is a folder"):
        get_hardware(tmp_path)
    (tmp_path / "latin.toml").write_bytes(b'key = "\xff"')
    with pytest.raises(DefinitionError, match="cannot be read"):
        get_hardware(tmp_path / "latin.toml")


# --- the self-check


def gpu(text: str) -> str:
    return text.replace('kind = "custom"', 'kind = "gpu"')


def test_a_gpu_whose_narrow_format_is_slower_needs_a_reason() -> None:
    slow = gpu(edited("value = 100, unit", "value = 10, unit"))
    with pytest.raises(DefinitionError, match="INT8 peak is below BF16"):
        read_device_text(slow, "x.toml")
    explained = slow.replace('formats = ["INT8"]', 'formats = ["INT8"]\nreason = "few INT8 units"')
    assert read_device_text(explained, "x.toml").path("INT8").reason == "few INT8 units"
    # A CPU or a custom chip really may be slower in a narrow format.
    assert read_device_text(slow.replace('kind = "gpu"', 'kind = "cpu"'), "x.toml").kind == "cpu"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("clock_mhz = 1500, status", "status", finding("chip-file-doubtful", "INT8", kind="clock")),
        ('reason = "no unit"', "", finding("chip-file-doubtful", kind="path-reason", formats=("INT4", "FP8_E4M3"))),
        (
            "achieved = {value = 41",
            "achieved = {value = 71",
            finding("chip-file-doubtful", "FP16", kind="achieved", achieved_flops_per_s=71e12),
        ),
        ('device_names = ["^MYCHIP$"]', "", finding("chip-file-doubtful", kind="unmatched")),
        ("", "", "undeclared"),
    ],
)
def test_warnings_do_not_refuse_a_file_but_are_found(old: str, new: str, expected: Finding | str) -> None:
    head, tail = gpu(GOOD).rsplit("[[peak]]", 1)
    text = f"{head}[[peak]]{tail.replace(old, new)}" if old.startswith("clock") else gpu(GOOD).replace(old, new)
    findings = check_device(read_device_text(text, "x.toml"))
    assert errors_of(findings) == []
    assert expected in findings or expected in [item.value("kind") for item in findings], findings


def test_a_wrong_ridge_is_an_error() -> None:
    wrong = edited('value = 50, unit = "TFLOP/s"', 'value = 49000, unit = "TFLOP/s"').replace(
        "value = 0.1, unit", "value = 98, unit"
    )
    with pytest.raises(DefinitionError, match="ridge point of FP16"):
        read_device_text(wrong, "x.toml")


OWN = """
schema = 1
key = "own"
name = "Own"
kind = "custom"
[memory]
bandwidth = {value = 546, unit = "GB/s", status = "datasheet", source = "page 1"}
capacity = {value = 64, unit = "GB", status = "datasheet", source = "page 1"}
[chip]
clock = {value = 1.5, unit = "GHz", status = "datasheet", source = "page 1"}
[[peak]]
formats = ["FP16"]
dense = {value = 60, unit = "TFLOP/s", status = "datasheet", source = "page 1"}
[[peak]]
formats = ["INT8"]
dense = {value = 120, unit = "TOP/s", status = "datasheet", source = "page 1", clock_mhz = 1500}
"""


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("", "", None),
        ('546, unit = "GB/s"', '546, unit = "TB/s"', "unusual"),
        ('60, unit = "TFLOP/s"', '60, unit = "GFLOP/s"', "rates-apart"),
        ('64, unit = "GB"', '0.001, unit = "TB"', "memory"),
        ('64, unit = "GB"', '0.064, unit = "GB"', "memory"),
        ('1.5, unit = "GHz"', '15, unit = "MHz"', "unusual"),
        ('1.5, unit = "GHz"', '15, unit = "GHz"', "unusual"),
        ("clock_mhz = 1500", "clock_mhz = 15", "unusual"),
    ],
)
def test_a_slip_of_unit_is_a_caution(old: str, new: str, kind: str | None) -> None:
    findings = check_device(read_device_text(OWN.replace(old, new) if old else OWN, "x.toml"))
    assert {item.value("kind") for item in findings if item.severity == "caution"} >= ({kind} if kind else set())
    assert kind is not None or findings == []
    assert errors_of(findings) == []


def test_caches_together_must_be_smaller_than_the_memory() -> None:
    l3 = f'[[level]]\nname = "L3"\ncapacity = {{value = 9, unit = "MiB", {Q}}}\n\n[chip]'
    two = edited("[chip]", l3).replace('value = 16, unit = "GB"', 'value = 16, unit = "MiB"')
    with pytest.raises(DefinitionError, match=r"L2 \+ L3 is not smaller than the memory"):
        read_device_text(two, "x.toml")


# --- units


@pytest.mark.parametrize(
    ("value", "unit"),
    [(100, "TFLOPS"), (100_000, "GFLOPS"), (0.1, "PFLOPS"), (100, "TOPS"), (100_000, "GOPS"), (0.1, "POPS"), (100_000, "GOP/s")],
)  # fmt: skip
def test_rates_may_be_written_as_vendors_do(value: float, unit: str) -> None:
    chip = read_device_text(edited(PEAK, f'dense = {{value = {value}, unit = "{unit}", {Q}}}'), "x.toml")
    assert chip.path("INT8").dense.value == pytest.approx(1e14)


def test_the_documentation_names_every_status_and_unit() -> None:
    text = (Path(__file__).parents[3] / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
    section = text.split("## definition\n")[1].split("\n## ")[0]
    assert [name for name in STATUSES if f"`{name}`" not in section] == []
    assert [name for name in _UNITS if name and f"`{name}`" not in section] == []


# --- hostile files


@pytest.mark.parametrize("factor", [1e3, 1e-3])
def test_a_measured_bandwidth_that_no_memory_reaches_is_a_slip_of_unit(tmp_path, pytestconfig, factor):
    text = (pytestconfig.rootpath / "examples/runs/h200-sxm/calibrated.toml").read_text(encoding="utf-8")
    (tmp_path / "good.toml").write_text(text, encoding="utf-8")
    assert get_hardware(str(tmp_path / "good.toml")).calibration is not None
    rates = "best = 4.01863e+12, median = 4.01129e+12, slow = 4.00395e+12"
    assert rates in text
    wrong = ", ".join(
        f"{name} = {float(rate) * factor}" for name, rate in (part.split(" = ") for part in rates.split(", "))
    )
    (tmp_path / "wrong.toml").write_text(text.replace(rates, wrong), encoding="utf-8")
    with pytest.raises(DefinitionError, match="achieved bandwidth"):
        get_hardware(str(tmp_path / "wrong.toml"))
