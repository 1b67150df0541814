"""`roofline calibrate`: what it shows, writes and refuses. The micro-kernels themselves are replaced."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pandas
import pytest
from typer.testing import CliRunner

from bench_cases import selection
from plugin.calibrate import cpu_calibration as calibration
from plugin.calibrate import gpu_calibration
from plugin.calibrate.cpu_ceilings import CpuReadings
from plugin.machine import facts as machine
from reports.answers.short_answer import product_answer
from roofline_cli.machine import kernel_calibration
from roofline_cli.main import app
from roofline_model.chips.curve import TimedCall
from roofline_model.chips.hardware import DeviceFacts, doubt_of_times, get_hardware
from roofline_model.chips.machine_constants import Constant
from roofline_model.core.errors import RooflineError
from roofline_model.core.finding import finding, short_text
from roofline_model.expected.predict import expected_times
from roofline_model.operators.product import gemm
from roofline_model.recommend.shape import recommend_quantization

runner = CliRunner()
GB10 = DeviceFacts("NVIDIA GB10", "12.1", 48, 128_000_000_000)


def rate(best, unit="B/s", kernel="sum"):
    return Constant(unit, best, 0.9 * best, 0.5 * best, 0.123, 20, kernel)


READINGS = CpuReadings(
    dram={"read": rate(60e9), "copy": rate(50e9, kernel="copy")},
    cache={"copy": rate(180e9, kernel="copy")},
    peaks={"FP32": rate(2e11, "FLOP/s", "704 square"), "BF16": rate(4e11, "FLOP/s", "704 square")},
    floors={"call": Constant("s", 1e-6, 2e-6, 4e-6, 0.2, 300, "add")},
    casts={"INT8>BF16": Constant("s", 5e-11, 6e-11, 9e-11, 0.1, 300, "copy")},
    scaling={"1": rate(30e9), "2": rate(60e9)},
)


@pytest.fixture(autouse=True)
def _alone(monkeypatch, tmp_path):
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setenv("ROOFLINE_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(calibration.LoadWatch, "flags", lambda self: ())
    monkeypatch.setattr(gpu_calibration, "open_nvml_device", lambda: (None, None))


@pytest.fixture
def here(monkeypatch):
    """Become a machine; returns the arguments that its micro-kernels were called with."""
    calls = []

    def fake(size, report, budget_s, **options):
        calls.append((budget_s, options))
        report("memory 60 GB/s (sum)")
        return READINGS

    def fake_kernels(budget_s, report):
        report("timing 1 kernels at 2 sizes")
        calls.append(("kernels", budget_s))
        calls_of_a_look = [TimedCall(gemm(1, N, 1024, a="BF16"), "matmul", N * 1e-7) for N in (512, 2048)]
        return kernel_calibration.KernelLook(calls_of_a_look, ("gemv broken",))

    def become(facts=None, torch="2.13.0+cpu"):
        how = finding("sensors-missing", error="simulated")
        found_machine = machine.Machine("cuda" if facts else "cpu", how, "Test CPU", 2, 2**25, 2**34, facts, torch)
        monkeypatch.setattr(machine, "find_machine", lambda: found_machine)
        monkeypatch.setattr(calibration, "measure_cpu_ceilings", fake)
        monkeypatch.setattr(kernel_calibration, "time_kernels", fake_kernels)
        return calls

    return become


def run(*arguments):
    return runner.invoke(app, ["calibrate", *arguments])


def test_it_measures_shows_and_keeps(here):
    calls = here()
    result = run()
    assert result.exit_code == 0, result.output
    options = {"free_bytes": calls[0][1]["free_bytes"], "with_scaling": True}
    assert calls == [(pytest.approx(26.25), options), ("kernels", pytest.approx(48.75))]
    for words in (
        "cpu-test-cpu-2t",
        "torch 2.13.0+cpu, 2 threads",
        "memory read",
        "60 GB/s",
        "54 GB/s",
        "12.3 %",
        "memory, 1 thread ",
        "FP32 product",
        "200 GFLOP/s",
        "smallest call",
        "2 µs",
        "INT8 to BF16 per element",
        "60 ps",
        "704 square",
    ):
        assert words in result.stdout, words
    assert "memory 60 GB/s (sum)" in result.stderr
    assert runner.invoke(app, ["predict", "gemv", "-N", "64", "-K", "64"]).exit_code == 0  # --hw auto knows it now


def test_kernels_are_timed_kept_and_used(here):
    here()
    for looks in ("1 look", "2 looks"):
        result = run()
        assert f"kernels: 1 timed at 2 sizes, {looks} each" in " ".join(result.stdout.split())
        assert "not calibrated, its check failed: gemv broken" in result.stdout
    shown = runner.invoke(app, ["predict", "gemv", "-N", "1024", "-K", "1024", "--formats", "BF16", "--json"])
    expected = json.loads(shown.stdout)["predictions"][0]["expected"]["time_s"]
    assert expected == pytest.approx(1024e-7)
    assert run("--forget").exit_code == 0
    assert len(calibration.cached_cpu_device(machine.find_machine()).calibration.kernels[0].points["1"][0].looks_s) == 1


def test_if_needed_measures_once(here):
    calls = here()
    assert run("--if-needed").exit_code == 0
    measured_count = len(calls)
    again = run("--if-needed")
    assert measured_count == len(calls) == 2
    assert (again.exit_code, again.output) == (0, "")


def test_if_needed_times_the_kernels_of_a_cpu_with_ceilings_alone(here):
    calls = here()
    run("--no-kernels")
    run("--if-needed")
    assert [call[0] for call in calls].count("kernels") == 1


def test_if_needed_leaves_a_gpu_alone(here):
    calls = here(GB10)
    assert run("--if-needed").exit_code == 0
    assert calls == []


@pytest.mark.parametrize("arguments", [("-o", "chip.toml"), ("--forget",), ("--no-kernels",), ("--json",)])
def test_if_needed_goes_alone(here, arguments):
    calls = here()
    assert run("--if-needed", *arguments).exit_code == 2
    assert calls == []


def test_a_look_on_a_busy_machine_is_doubted_everywhere_until_a_quiet_one_takes_its_place(here, monkeypatch):
    here()
    quiet = kernel_calibration.time_kernels

    def busy(budget_s, report):
        look = quiet(budget_s, report)
        slow = [replace(call, time_s=2 * call.time_s) for call in look.calls]
        return replace(look, calls=slow, disturbed_by=("contended",))

    def expected_s():
        shown = runner.invoke(app, ["predict", "gemv", "-N", "1024", "-K", "1024", "--formats", "BF16", "--json"])
        return json.loads(shown.stdout)["predictions"][0]["expected"]["time_s"]

    monkeypatch.setattr(kernel_calibration, "time_kernels", busy)
    assert "busy while the kernels were timed (contended)" in " ".join(run().stdout.split())
    assert expected_s() == pytest.approx(2 * 1024e-7)
    doubt = "other work ran while cpu-test-cpu-2t timed its kernels (contended)"
    for arguments in (("-M", "1", "-N", "1024", "-K", "1024"), ("--model", "llama-3.2-1b", "--context", "512")):
        assert doubt in str(json.loads(runner.invoke(app, ["recommend", *arguments, "--json"]).stdout)["findings"])
    assert "doubtful (contended)" in calibration.calibration_text(calibration.cached_cpu_device(machine.find_machine()))
    monkeypatch.setattr(kernel_calibration, "time_kernels", quiet)
    assert "busy" not in run().stdout
    assert expected_s() == pytest.approx(1024e-7)
    monkeypatch.setattr(kernel_calibration, "time_kernels", busy)
    assert "these times of the kernels are left out, earlier ones stand" in run().stderr
    assert expected_s() == pytest.approx(1024e-7)


def test_of_two_disturbed_looks_the_shorter_time_of_each_size_stands(here, monkeypatch):
    here()
    quiet, slowdowns = kernel_calibration.time_kernels, iter([(8, 1), (2, 20), (9, 9)])

    def busy(budget_s, report):
        look = quiet(budget_s, report)
        calls = [
            replace(call, time_s=slowdown * call.time_s)
            for call, slowdown in zip(look.calls, next(slowdowns), strict=True)
        ]
        return replace(look, calls=calls, disturbed_by=("contended",))

    def times_s():
        cached = calibration.cached_cpu_device(machine.find_machine()).calibration
        assert cached.kernels_disturbed_by == ("contended",)
        return [point.time_s for point in cached.kernels[0].points["1"]]

    monkeypatch.setattr(kernel_calibration, "time_kernels", busy)
    run()
    assert times_s() == pytest.approx([8 * 512e-7, 2048e-7])
    for _ in range(2):
        assert run().exit_code == 0
        assert times_s() == pytest.approx([2 * 512e-7, 2048e-7])


@pytest.mark.parametrize(("slowdown", "is_believed"), [(2, True), (160, False)])
def test_a_time_beyond_what_is_plausible_makes_no_speedup(here, monkeypatch, slowdown, is_believed):
    here()

    def busy(budget_s, report):
        times_s = {"BF16": 6e-5 * slowdown, "INT4": 2e-5}
        calls = [TimedCall(gemm(1, 1024, 1024, a="BF16", b=key), "matmul", time_s) for key, time_s in times_s.items()]
        return kernel_calibration.KernelLook(calls, (), ("contended",))

    def ask(*arguments):
        result = runner.invoke(app, [*arguments, "-M", "1", "-N", "1024", "-K", "1024", "--json"])
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    monkeypatch.setattr(kernel_calibration, "time_kernels", busy)
    # Seen on two busy cores: waking the threads is no measure of what a kernel may take.
    monkeypatch.setitem(READINGS.floors, "fork-join", Constant("s", 1e-2, 1.2e-2, 1.3e-2, 0.1, 3, "add on 2 threads"))
    run()
    answer = ask("recommend")
    (int4,) = (each for each in answer["candidates"] if each["format"] == "INT4")
    assert int4["speedup_ratio"] == pytest.approx(3 * slowdown if is_believed else int4["ideal_speedup_ratio"])
    (row,) = (each for each in ask("predict", "gemv")["predictions"] if each["format"] == "INT4.BF16")
    assert (row["expected_speedup_ratio"] is not None) is is_believed
    codes = [item["code"] for item in answer["findings"]]
    assert codes[0] == ("kernels-contended" if is_believed else "kernel-time-implausible")


def test_the_doubt_of_expected_times_is_the_first_note_of_a_dozen_lines(here, monkeypatch):
    here()
    quiet = kernel_calibration.time_kernels
    monkeypatch.setattr(
        kernel_calibration, "time_kernels", lambda *args: replace(quiet(*args), disturbed_by=("contended",))
    )
    monkeypatch.setattr(calibration.LoadWatch, "flags", lambda self: ("contended",))
    run()
    chip = calibration.cached_cpu_device(machine.find_machine())
    ranking = recommend_quantization(chip, 1, 1024, 1024, times=expected_times(chip))
    answer = product_answer(ranking)
    assert answer.notes[0] == short_text(doubt_of_times(chip))
    assert len(runner.invoke(app, ["recommend", "-M", "1", "-N", "1024", "-K", "1024"]).stdout.splitlines()) <= 12


def test_a_case_that_other_work_disturbed_is_left_out_of_a_quiet_look(monkeypatch):
    def fake(seconds):
        specs = selection.selected_cases("calibration", "cpu", None, "cold", ("eager",))
        keys = [spec.case.case_key for spec in specs]
        flags = ["contended", *[""] * (len(keys) - 1)]
        return pandas.DataFrame({"case_key": keys, "measured_s": 1e-3, "flags": flags}), ()

    monkeypatch.setattr(kernel_calibration, "_timed", fake)
    look = kernel_calibration.time_kernels(50, lambda text: None)
    case_count = len(fake(0)[0])
    assert (len(look.calls), look.disturbed_by) == (case_count - 1, ())


def test_a_look_is_disturbed_where_a_quarter_of_its_cases_are():
    assert kernel_calibration.load_flags(["contended;noisy", None, "stolen", "contended", ""]) == ("contended",)
    assert kernel_calibration.load_flags(["noisy", "contended", "", ""]) == ()
    assert kernel_calibration.load_flags([]) == ()


def test_ceilings_alone_leave_the_kernels_as_they_were(here):
    calls = here()
    assert run("--no-kernels").exit_code == 0
    assert [budget for budget, _ in calls] == [40]
    assert calibration.cached_cpu_device(machine.find_machine()).calibration.kernels == ()
    run()
    result = run("--no-kernels")
    assert "kernels: 1 timed" in result.stdout
    assert len(calibration.cached_cpu_device(machine.find_machine()).calibration.kernels) == 1


def test_ceilings_of_a_busy_machine_are_doubted_beside_every_time(here, monkeypatch):
    here()
    monkeypatch.setattr(calibration.LoadWatch, "flags", lambda self: ("contended",))
    assert run("--no-kernels").exit_code == 0
    doubt = "other work ran while cpu-test-cpu-2t was calibrated (contended)"
    shape = ("-M", "1", "-N", "1024", "-K", "1024")
    whole = ("--model", "llama-3.2-1b", "--context", "512")
    for arguments in (
        ("predict", "gemv", *shape),
        ("predict", "ffn", "--tokens", "8", "--hidden", "1024", "--ffn-dim", "2048"),
        ("predict", "attention", "--q-len", "1", "--kv-len", "512", "--heads", "8", "--head-dim", "64"),
        ("predict", "model", *whole),
        ("predict", "model", *whole, "--batch", "1,8"),
        ("recommend", *shape),
        ("recommend", *whole),
        ("compare", "gemv", *shape, "--no-measure"),
    ):
        assert doubt in runner.invoke(app, arguments).stdout, arguments
        assert doubt in str(json.loads(runner.invoke(app, [*arguments, "--json"]).stdout)["findings"]), arguments


def test_without_timed_kernels_every_command_names_the_way_to_expected_times_in_the_same_words(here):
    here()
    assert run("--no-kernels").exit_code == 0
    shape = ("-M", "1", "-N", "1024", "-K", "1024")

    def printed(*arguments):
        return runner.invoke(app, arguments).stdout

    hint = json.loads(printed("predict", "gemv", *shape, "--json"))["predictions"][0]["expected_reason"]["text"]
    assert "`roofline calibrate` times them" in hint
    assert json.loads(printed("recommend", *shape, "--json"))["findings"][0]["text"] == hint
    assert f"Note: {hint}\n" in printed("recommend", *shape)
    whole = ("--model", "llama-3.2-1b", "--context", "512")
    assert (
        json.loads(printed("predict", "model", *whole, "--json"))["predictions"][0]["expected_reason"]["text"] == hint
    )
    assert f"Note: {hint}\n" in printed("predict", "model", *whole)
    assert hint in printed("recommend", *whole)


def test_kernels_that_cannot_be_timed_leave_the_ceilings(here, monkeypatch):
    here()

    def fail(budget_s, report):
        raise RooflineError(
            "timing the kernels failed (pytest exit code 3): no torch. --no-kernels measures the ceilings alone"
        )

    monkeypatch.setattr(kernel_calibration, "time_kernels", fail)
    result = run()
    assert result.exit_code == 2
    assert "--no-kernels measures the ceilings alone" in result.stderr
    assert calibration.cached_cpu_device(machine.find_machine()) is not None


@pytest.mark.parametrize("columns", ["80", "120"])
def test_it_fits_the_screen(here, monkeypatch, columns):
    here()
    monkeypatch.setenv("COLUMNS", columns)
    result = run()
    assert max(len(line) for line in result.stdout.splitlines()) <= int(columns)
    assert "Typical" in result.stdout
    assert ("(left out at this width" in result.stdout) == (columns == "80")


def test_it_writes_a_complete_chip_file(here):
    here()
    result = run("-o", "mine.toml", "--seconds", "20")
    assert result.exit_code == 0, result.output
    assert "written to mine.toml" in result.stdout
    checked = runner.invoke(app, ["hardware", "check", "mine.toml"])
    assert (checked.exit_code, checked.stdout.splitlines()[0]) == (0, "cpu-test-cpu-2t: ok")
    chip = get_hardware("./mine.toml")
    assert chip == calibration.cached_cpu_device(machine.find_machine())
    assert chip.calibration.scaling["2"].best_value == 60e9
    assert chip.bandwidth.status == "measured-here"


def test_json_holds_everything(here):
    here()
    result = run("--json", "-o", "mine.toml")
    data = json.loads(result.stdout)
    assert data["file"] == "mine.toml"
    assert data["hardware"]["calibration"]["floors"]["call"]["median"] == 2e-6
    assert data["hardware"]["calibration"]["provenance"] == "measured-here"


def test_a_busy_machine_is_said(here, monkeypatch):
    here()
    monkeypatch.setattr(calibration.LoadWatch, "flags", lambda self: ("contended",))
    result = run()
    assert "doubtful: the machine was busy (contended)" in result.stdout
    assert "other work ran (contended)" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--device", "tpu"], "--device must be cpu or cuda, got 'tpu'"),
        (["--device", "cuda"], "no NVIDIA device (no GPU sensors: simulated)"),
        (["-o", "."], "is a folder"),
        (["-o", "absent/mine.toml"], "there is not a folder absent"),
        (["-o", "results.db"], "belongs to a SQLite database"),
        (["--seconds", "1"], "--seconds"),
    ],
)
def test_what_cannot_be_done_is_refused_before_measuring(here, arguments, words):
    calls = here()
    Path("results.db").write_bytes(b"SQLite format 3\x00" + b"\x00" * 100)
    result = run(*arguments)
    assert (result.exit_code, calls) == (2, [])
    assert words in result.stderr
    assert result.stderr.count("\n") == 1


def test_without_torch_it_names_the_command(here):
    here(torch=None)
    result = run()
    assert result.exit_code == 2
    assert "pip install -e '.[measure]'" in result.stderr


def test_a_gpu_is_measured_beside_its_datasheet(here, monkeypatch):
    here(GB10, "2.13.0+cu130")
    calls = []

    def fake(machine, chip, report, *, forget, budget_s):
        calls.append((chip.key, forget, budget_s))
        made = calibration._calibration(machine, READINGS, calibration.LoadWatch())
        return gpu_calibration.with_calibration(chip, made)

    monkeypatch.setattr(gpu_calibration, "gpu_device", fake)
    result = run("--forget", "-o", "gb10.toml")
    assert result.exit_code == 0, result.output
    assert calls == [("gb10", True, 40)]
    assert get_hardware("./gb10.toml").bandwidth == get_hardware("gb10").bandwidth
    assert run("--device", "cpu").exit_code == 0  # the CPU beside it
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("facts", "torch", "words"),
    [
        (GB10, "2.13.0+cpu", "the installed torch 2.13.0+cpu has no CUDA"),
        (DeviceFacts("NVIDIA Whatever 9000", "15.0"), "2.13.0+cu130", "describe this chip in a TOML file first"),
    ],
)
def test_a_gpu_that_cannot_be_measured_says_why(here, facts, torch, words):
    here(facts, torch)
    result = run()
    assert result.exit_code == 2
    assert words in result.stderr


def test_a_cache_that_cannot_be_written_is_said(here, monkeypatch, tmp_path):
    here()
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ROOFLINE_CACHE", str(tmp_path / "file"))  # no folder: nobody, root included, can write there
    result = run()
    assert result.exit_code == 0
    assert "not kept:" in result.stderr
    assert "kernels: 1 timed" in result.stdout


@pytest.mark.parametrize("kind", ["cuda", "nonsense"])
def test_a_cache_of_another_kind_is_measured_anew(here, kind):
    here()
    run()
    file = calibration.cache_file("cpu", calibration.cpu_fingerprint(machine.find_machine()))
    stored = json.loads(file.read_text())
    stored["calibration"] |= {"kind": kind, "peaks": {}}
    file.write_text(json.dumps(stored))
    assert calibration.cached_cpu_device(machine.find_machine()) is None
