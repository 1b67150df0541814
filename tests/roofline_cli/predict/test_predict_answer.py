"""`roofline predict` without `--all`: the answer, a row for each format, the next command, in a dozen lines."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from roofline_cli.main import app
from roofline_model.chips.hardware import get_hardware
from roofline_model.core.finding import finding
from roofline_model.predictions.kernel import fastest
from roofline_model.predictions.product import predict_products

runner = CliRunner()
GEMM = "predict gemm -M 512 -N 7168 -K 4096 --hw h100"
GEMV = "predict gemv -N 4096 -K 4096 --hw gb10"
ATTENTION = "predict attention --heads 32 --kv-heads 8 --head-dim 128 --kv-len 32768 --hw h100 --formats BF16,FP8.BF16"
FFN = "predict ffn --hidden 4096 --ffn-dim 14336 --hw gb10"
MODEL = "predict model --model llama-3.1-8b --hw gb10"
PLANS = "predict model --model llama-3.1-70b --hw h100 --formats BF16,FP8,INT4.BF16"


def lines(command: str, columns: int = 80) -> list[str]:
    done = runner.invoke(app, shlex.split(command), env={"COLUMNS": str(columns)})
    assert done.exit_code == 0, done.output
    return done.stdout.splitlines()


def document(command: str):
    return json.loads(runner.invoke(app, [*shlex.split(command), "--json"]).stdout)


@pytest.mark.parametrize("command", [GEMM, GEMV, ATTENTION, FFN, MODEL, PLANS])
def test_a_dozen_lines_end_with_the_next_command(command: str) -> None:
    shown = lines(command)
    assert len(shown) <= 14
    assert max(map(len, shown)) <= 80
    begun = [line for line in shown if not line.startswith("  ")]  # a long command goes on, indented
    assert [line.split(":")[0] for line in begun[-2:]] == ["Next", "More"]
    assert len(lines(f"{command} --all", 200)) > len(lines(command, 200))


@pytest.mark.parametrize("command", [GEMM, GEMV, FFN, ATTENTION])
def test_the_fastest_has_the_shortest_expected_time_among_known_kernels(command: str) -> None:
    rows = document(command)["predictions"]
    timed = [row for row in rows if row["expected"] and row["kernel_gap"] is None]
    best = min(timed, key=lambda row: row["expected"]["time_s"])
    shown = lines(command)
    name = re.split(r" is fastest: | and .* tie: ", shown[0])[0]
    row = next(line for line in shown[2:] if line.startswith(name))
    number, unit = row[len(name) :].split()[:2]
    assert shown[0].split("expected ")[1].split()[:2] == [number, unit]
    assert float(number) * {"ms": 1e-3, "µs": 1e-6}[unit] == pytest.approx(best["expected"]["time_s"], rel=0.02)


@pytest.mark.parametrize("command", [GEMM, GEMV, FFN, ATTENTION, f"{GEMV} --formats BF16,INT4.BF16", PLANS])
def test_the_fastest_is_not_told_apart_from_formats_whose_intervals_overlap_its_own(command: str) -> None:
    rows = [row for row in document(command)["predictions"] if row["expected"] and row.get("kernel_gap") is None]
    best, *others = sorted((row["expected"] for row in rows), key=lambda each: each["time_s"])
    overlapping = sum(each["low_s"] <= best["high_s"] for each in others)
    first = lines(command, 400)[0]
    assert overlapping or "told apart" not in first
    if overlapping and " tie: " not in first:
        assert re.search(r"; not told apart from .*, intervals overlap\.$", first)


def test_formats_without_a_kernel_are_fastest_only_where_there_are_no_others() -> None:
    rows = predict_products(get_hardware("h100"), (512, 7168, 4096), ["NVFP4", "BF16"]).predictions
    quick, wide = replace(rows[0], expected=replace(rows[1].expected, time_s=1e-9)), rows[1]
    assert quick.kernel_gap is not None
    assert fastest([quick, wide]) is wide
    gap = finding("kernel-gap", hardware="h100-sxm", rule="", kernels="")
    assert fastest([quick, replace(wide, kernel_gap=gap)]) is quick


def test_without_expected_times_the_ideal_is_called_an_upper_bound() -> None:
    shown = lines("predict gemv -N 4096 -K 4096 --hw b10")
    assert shown[0] == "INT4 (W4A4) is fastest: ideal 8.40 µs (at rated speed), 4.0× FP16."
    assert not any("Expected" in line for line in shown)
    whole = lines("predict model --model llama-3.1-8b --hw b10")
    assert whole[0].startswith("64.3 tokens/s: ideal ")
    real = lines("predict gemv -N 4096 -K 4096 --hw mi300x")
    reason = document("predict gemv -N 4096 -K 4096 --hw mi300x")["predictions"][0]["expected_reason"]["text"]
    assert f"Note: {reason}"[:60] in " ".join(real)


def test_only_plans_that_fit_are_called_fastest() -> None:
    rows = document(PLANS)["predictions"]
    assert [row["memory"]["fits"] for row in rows] == [False, True, True]
    assert lines(PLANS)[0].startswith("INT4 (W4A16) is the fastest that fits, loss aside: expected ")
    none = lines("predict model --model llama-3.1-70b --hw rtx4090 --formats BF16,FP8")
    assert none[0] == "Nothing fits: FP8 (W8A8) takes 74 GB of 23.95 GB usable."
    assert lines("predict model --model llama-3.1-70b --hw rtx4090")[0].startswith("Does not fit. ")


def test_the_rows_of_a_pass_add_up() -> None:
    shown = lines(MODEL, 120)
    head = next(index for index, line in enumerate(shown) if line.startswith("Operator"))
    rows = [line.split() for line in shown[head + 2 : head + 7]]
    times = [float(row[row.index("ms") - 1]) for row in rows]
    assert sum(times[:-1]) == pytest.approx(times[-1], abs=0.03)
    assert times[:3] == sorted(times[:3], reverse=True)
    assert times[-1] == pytest.approx(document(MODEL)["predictions"][0]["expected"]["time_s"] * 1e3, abs=0.006)


@pytest.mark.parametrize(
    ("options", "first"),
    [
        ("--model llama-3.1-70b --hw h100-sxm --formats FP8 --context 8192 --batch 64", "attention"),
        ("--model llama-3.1-70b --hw h100-sxm --formats FP8 --context 8192 --phase prefill", "all_reduce"),
        ("--model gpt-oss-20b --hw h100-sxm", "all_reduce"),
        ("--model llama-3.1-8b --hw b10 --phase prefill", "gate_up_proj"),  # without an expected time
    ],
)
def test_the_all_reduces_are_an_operator_of_the_pass(options: str, first: str) -> None:
    command = f"predict model {options} --tensor-parallel 8 --link-gb-s 450"
    answer = document(command)["predictions"][0]
    shown = lines(command, 200)
    head = next(index for index, line in enumerate(shown) if line.startswith("Operator"))
    rows = [line.replace(" others", "_others").split() for line in shown[head + 2 : head + 7]]
    names, calls = [row[0] for row in rows], [float(row[1]) for row in rows]
    assert names[0] == first
    assert "all_reduce" in names
    assert sum(calls[:-1]) == calls[-1] == answer["launch_count"]
    ideal = [float(line.split(" %")[1].split()[0]) for line in shown[head + 2 : head + 7]]
    unit = {"s": 1.0, "ms": 1e-3, "µs": 1e-6}[shown[head + 6].split(" %")[1].split()[1]]
    assert sum(ideal[:-1]) == pytest.approx(ideal[-1], rel=0.05)
    assert ideal[-1] * unit == pytest.approx(answer["time_s"], rel=0.05)
    assert sum("all_reduce: its bytes over the link's 450 GB/s" in line for line in shown) == 1


@pytest.mark.parametrize(
    "command", [f"{GEMM} --formats BF16", f"{GEMV} --formats FP8", ATTENTION.replace(",FP8.BF16", "")]
)
def test_a_time_of_ones_own_is_judged_by_the_interval_and_by_what_the_chip_allows(command: str) -> None:
    row = document(command)["predictions"][0]
    expected = row["expected"]
    chip = get_hardware(row["hardware"])
    times = {
        "own-time-impossible": 1e-9,
        "own-time-faster": (row["time_s"] + expected["low_s"]) / 2,
        "own-time-good": expected["time_s"],
        "own-time-slower": expected["high_s"] * 1.001,
    }
    assert chip.chip["clock_max"].value > chip.paths["BF16"].dense.clock_hz
    for code, own_s in times.items():
        verdict = document(f"{command} --measured-us {own_s * 1e6}")["own_time"]
        assert verdict["code"] == code
        assert verdict["values"]["own_s"] == pytest.approx(own_s)
        assert "rated_s" not in verdict["values"]
    # Below the ideal, which is at rated speed, nothing is impossible yet.
    verdict = document(f"{command} --measured-us {row['time_s'] * 0.99e6}")["own_time"]
    assert (verdict["code"], verdict["severity"]) == ("own-time-faster", "info")
    assert verdict["values"]["rated_s"] == pytest.approx(row["time_s"])


@pytest.mark.parametrize(
    ("chip", "formats", "size", "own_us", "code"),
    [
        ("rtx-5090", "BF16", 8192, 4685, "own-time-good"),
        ("rtx-5090", "BF16", 10240, 9061, "own-time-good"),
        ("rtx-5090", "FP8", 8192, 2350, "own-time-good"),  # 480 TFLOP/s were published, 419 are rated
        ("rtx-5090", "FP16", 8192, 2900, "own-time-faster"),  # sums in FP16, twice the rate
        ("rtx-4090", "BF16", 8192, 6400, "own-time-faster"),  # 2620 MHz for 2520 rated
        ("rtx-pro-6000", "BF16", 8192, 2100, "own-time-faster"),
        ("gb10", "NVFP4", 8192, 2250, "own-time-faster"),
        ("h100", "BF16", 8192, 1080, "own-time-faster"),
        ("l4", "BF16", 8192, 8700, "own-time-impossible"),  # its rated clock is its highest one
        ("a100", "BF16", 8192, 3400, "own-time-impossible"),
        ("rtx-5090", "BF16", 8192, 3900, "own-time-impossible"),
    ],
)
def test_a_clock_above_the_rated_one_is_not_impossible(chip, formats, size, own_us, code) -> None:
    command = f"predict gemm -M {size} -N {size} -K {size} --hw {chip} --formats {formats} --measured-us {own_us}"
    answer = document(command)
    verdict, row = answer["own_time"], answer["predictions"][0]
    assert own_us * 1e-6 < row["time_s"]
    assert verdict["code"] == code
    assert ("rated_s" in verdict["values"]) is (code != "own-time-impossible")
    if code == "own-time-impossible":
        assert own_us * 1e-6 < verdict["values"]["limit_s"] <= row["time_s"]
        assert verdict["values"]["ideal_s"] == row["time_s"]
        assert verdict["values"]["clock_hz"] == get_hardware(chip).chip["clock_max"].value


def test_an_impossible_time_of_memory_names_the_bandwidth_of_the_limit() -> None:
    verdict = document("predict gemm -M 1 -N 16384 -K 16384 --hw rtx-5090 --formats BF16 --measured-us 9")["own_time"]
    assert verdict["values"]["bandwidth_bytes_per_s"] == get_hardware("rtx-5090").chip["bandwidth_max"].value
    assert "clock_hz" not in verdict["values"]


@pytest.mark.parametrize("own_us", [300, 150, 130])
def test_no_time_is_held_against_a_kernel_that_nobody_has(own_us: float) -> None:
    command = f"predict gemm -M 4096 -N 4096 -K 4096 --hw h100-sxm --formats MXFP4 --measured-us {own_us}"
    answer = document(command)
    assert answer["predictions"][0]["kernel_gap"] is not None
    assert answer["own_time"]["code"] == "own-time-alone"
    assert "good kernel" not in lines(command, 200)[0]


@pytest.mark.parametrize(
    "command",
    [
        "predict gemm -M 8192 -N 8192 -K 8192 --all --hw rtx-5090",
        "predict attention --heads 32 --head-dim 128 --kv-len 4096 --all --hw rtx-5090",
        "predict ffn --hidden 4096 --ffn-dim 14336 --all --hw mi300x",
        "predict model --model llama-3.1-8b --phase prefill --context 512 --all --hw rtx-5090",
        "predict model --model llama-3.1-8b --formats BF16,FP8 --hw mi300x",
        "recommend -M 8192 -N 8192 -K 8192 --hw rtx-5090",
        "recommend --model llama-3.1-8b --hw mi300x",
    ],
)
def test_no_ideal_time_is_called_a_bound(command: str) -> None:
    text = " ".join(lines(command, 200)).lower()
    assert "ideal" in text
    assert not any(words in text for words in ("lower bound", "upper bound", "no kernel can"))


def test_without_an_expected_time_the_ideal_one_judges() -> None:
    command = "predict gemm -M 512 -N 4096 -K 4096 --hw b10 --formats FP16"
    row = document(command)["predictions"][0]
    assert row["expected"] is None
    verdict = document(f"{command} --measured-us {row['time_s'] * 2e6}")["own_time"]
    assert verdict["code"] == "own-time-alone"
    assert verdict["values"]["share_ratio"] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--formats BF16 --measured-us 1e-320", "a number of microseconds from 1e-06 on, got '1e-320'"),
        ("--formats BF16 --measured-us 0", "a number of microseconds from 1e-06 on"),
        ("--formats BF16 --measured-us nan", "a number of microseconds from 1e-06 on"),
        ("--formats BF16 --measured-us=-3", "a number of microseconds from 1e-06 on"),
        ("--formats BF16 --measured-us 1e400", "a number of microseconds from 1e-06 on"),
        ("--formats BF16,FP8 --measured-us 3", "name it, e.g. --formats BF16"),
        ("--measured-us 3", "name it, e.g. --formats BF16"),
    ],
)
def test_a_time_that_is_none_or_of_no_format_is_one_line(arguments: str, words: str) -> None:
    done = runner.invoke(app, shlex.split(f"{GEMM} {arguments}"))
    assert done.exit_code == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
