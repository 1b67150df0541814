"""`roofline calibrate`: what it shows, writes and refuses. The micro-kernels themselves are replaced."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path

import pandas
import pytest
from typer.testing import CliRunner

from bench_cases import selection
from plugin.calibrate import cpu_calibration as calibration
from plugin.calibrate import gpu_calibration
from plugin.calibrate.readings import Readings
from plugin.machine import facts as machine
from roofline_cli.machine import kernel_calibration
from roofline_cli.main import app
from roofline_cli.shared import quiet
from roofline_model.chips.curve import TimedCall
from roofline_model.chips.hardware import DeviceFacts, doubt_of_ideals, get_hardware
from roofline_model.chips.machine_constants import Constant
from roofline_model.core.errors import RooflineError
from roofline_model.core.finding import advice_text, finding, short_text
from roofline_model.operators.product import gemm

runner = CliRunner()
GB10 = DeviceFacts("NVIDIA GB10", "12.1", 48, 128_000_000_000)


def rate(best, unit="B/s", kernel="sum"):
    return Constant(unit, best, 0.9 * best, 0.5 * best, 0.123, 20, kernel)


READINGS = Readings(
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
    watch_at_rest = type("WatchAtRest", (calibration.LoadWatch,), {"flags": lambda self: ()})
    monkeypatch.setattr(calibration, "LoadWatch", watch_at_rest)
    monkeypatch.setattr(gpu_calibration, "open_nvml_device", lambda: (None, None))


@pytest.fixture
def here(monkeypatch):
    """Become a machine; returns the arguments that its micro-kernels were called with."""
    calls = []

    def fake(size, report, budget_s, **options):
        calls.append((budget_s, options))
        report("memory 60 GB/s (sum)")
        return READINGS

    def fake_kernels(budget_s, report, family=None):
        report("timing 1 kernels at 2 sizes")
        calls.append(("kernels", budget_s, *([family] if family else [])))
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


@pytest.mark.parametrize(
    "arguments", [("-o", "chip.toml"), ("--forget",), ("--no-kernels",), ("--json",), ("--only", "products")]
)
def test_if_needed_goes_alone(here, arguments):
    calls = here()
    assert run("--if-needed", *arguments).exit_code == 2
    assert calls == []


SHAPE = ("-M", "1", "-N", "1024", "-K", "1024")
WHOLE = ("--model", "llama-3.2-1b", "--context", "512")


def expected_of_matmul():
    """What is expected of one product: its time in seconds, else the code of the reason."""
    shown = runner.invoke(app, ["predict", "gemv", *SHAPE, "--formats", "BF16", "--json"])
    [row] = json.loads(shown.stdout)["predictions"]
    return row["expected_reason"]["code"] if row["expected"] is None else row["expected"]["time_s"]


def test_kernels_that_were_timed_beside_other_work_are_left_out(here, monkeypatch):
    here()
    quiet = kernel_calibration.time_kernels

    def busy(*arguments):
        return replace(quiet(*arguments), disturbed_by=("contended",))

    monkeypatch.setattr(kernel_calibration, "time_kernels", busy)
    left_out = advice_text(finding("look-left-out", "kernels", disturbed_by=("contended",)))
    assert left_out in run().stderr
    assert expected_of_matmul() == "no-expected-time"
    monkeypatch.setattr(kernel_calibration, "time_kernels", quiet)
    run()
    assert expected_of_matmul() == pytest.approx(1024e-7)
    monkeypatch.setattr(kernel_calibration, "time_kernels", busy)
    assert left_out in run().stderr
    assert expected_of_matmul() == pytest.approx(1024e-7)


def test_kernels_of_a_file_that_says_they_were_disturbed_make_no_expected_time(here):
    here()
    run()
    file = calibration.cache_file("cpu", calibration.cpu_fingerprint(machine.find_machine()))
    stored = json.loads(file.read_text())
    stored["calibration"]["kernels_disturbed_by"] = ["contended"]
    file.write_text(json.dumps(stored))
    assert expected_of_matmul() == "kernels-contended"
    answer = json.loads(runner.invoke(app, ["recommend", *SHAPE, "--json"]).stdout)
    assert "kernels-contended" in [item["code"] for item in answer["findings"]]
    run("--if-needed")  # they are needed: timed anew, and the disturbed ones dropped
    assert expected_of_matmul() == pytest.approx(1024e-7)


def test_nothing_is_stated_from_ceilings_of_a_busy_machine(here, monkeypatch):
    calls = here()
    monkeypatch.setattr(calibration.LoadWatch, "flags", lambda self: ("contended",))
    assert run().exit_code == 5
    assert len(calls) == 1  # the kernels would be held against these ceilings
    chip = calibration.cached_cpu_device(machine.find_machine())
    for arguments in (
        ("predict", "gemv", *SHAPE),
        ("predict", "gemv", *SHAPE, "--measured-us", "40", "--formats", "BF16"),
        ("predict", "gemm", "-M", "512", "-N", "1024", "-K", "1024", "--formats", "BF16"),
        ("predict", "ffn", "--tokens", "8", "--hidden", "1024", "--ffn-dim", "2048"),
        ("predict", "attention", "--q-len", "1", "--kv-len", "512", "--heads", "8", "--head-dim", "64"),
        ("predict", "model", *WHOLE),
        ("predict", "model", *WHOLE, "--batch", "1,8"),
        ("recommend", *SHAPE),
        ("recommend", *WHOLE),
        ("recommend", *WHOLE, "--formats", "INT4"),
        ("compare", "gemv", *SHAPE, "--no-measure"),
    ):
        for options in ((), ("--json",)):
            result = runner.invoke(app, [*arguments, *options])
            assert (result.exit_code, result.stdout) == (2, ""), (arguments, result.output)
            assert result.stderr == f"error: {short_text(doubt_of_ideals(chip))}\n", arguments
    swept = json.loads(runner.invoke(app, ["sweep", *SHAPE, "--formats", "BF16", "--json"]).stdout)
    assert [(row["ideal_s"], row["expected_s"]) for row in swept["rows"]] == [(None, None)]
    monkeypatch.setattr(calibration.LoadWatch, "flags", lambda self: ())
    count = len(calls)
    assert run("--if-needed").exit_code == 0  # it is needed
    assert len(calls) == count + 2
    assert runner.invoke(app, ["predict", "gemv", *SHAPE]).exit_code == 0


def test_a_busy_machine_is_not_calibrated(here, others_use):
    calls = here()
    others_use(0.6)
    for options in ((), ("--if-needed",), ("--no-kernels",)):
        result = run(*options)
        assert (result.exit_code, calls, result.stderr.count("\n")) == (5, [], 1)
        assert "60 %" in result.stderr
    others_use(0.3)
    assert run().exit_code == 0
    assert len(calls) == 2


def test_a_machine_that_becomes_busy_keeps_its_ceilings_and_times_no_kernel(here, others_use):
    calls = here()
    others_use(0.0, 0.8)
    assert (run().exit_code, [call[0] for call in calls]) == (5, [pytest.approx(26.25)])
    assert calibration.cached_cpu_device(machine.find_machine()) is not None


def test_it_waits_until_the_machine_is_quiet_and_not_for_ever(here, others_use, monkeypatch):
    calls = here()
    others_use(0.9, 0.05, 0.9, 0.9, 0.05)
    assert (run("--wait-until-quiet").exit_code, len(calls)) == (0, 2)
    ticks = itertools.count(step=300)
    monkeypatch.setattr(quiet.time, "monotonic", lambda: next(ticks))
    others_use(0.9)
    result = run("--wait-until-quiet")
    assert (result.exit_code, len(calls)) == (5, 2)
    assert "30 minutes" in result.stderr.splitlines()[-1]


def test_one_family_is_timed_on_known_ceilings(here):
    calls = here()
    assert run("--only", "attention").exit_code == 0  # unknown ceilings are measured first
    assert run("--only", "products").exit_code == 0
    assert [call[0] for call in calls] == [pytest.approx(26.25), "kernels", "kernels"]
    assert [call[2] for call in calls if call[0] == "kernels"] == ["attention", "products"]


def test_a_family_selects_its_own_cases(monkeypatch):
    every = {
        spec.case.case_key: spec.case.op
        for spec in selection.selected_cases("calibration", "cpu", None, "cold", ("eager",))
    }
    asked = []

    def fake(seconds_per_case, family, timeout_s):
        asked.append(timeout_s)
        return pandas.DataFrame({"case_key": list(every), "measured_s": 1e-3, "flags": ""}), ()

    monkeypatch.setattr(kernel_calibration, "_timed", fake)
    looks = [kernel_calibration.time_kernels(50, lambda text: None, family) for family in selection.FAMILIES]
    assert [{selection.family_of(call.work.op) for call in look.calls} for look in looks] == [
        {family} for family in selection.FAMILIES
    ]
    assert sum(len(look.calls) for look in looks) == len(every)
    assert max(asked) < 300  # it ends, however busy the machine is


def test_a_case_that_other_work_disturbed_is_left_out_of_a_quiet_look(monkeypatch):
    def fake(seconds_per_case, family, timeout_s):
        specs = selection.selected_cases("calibration", "cpu", None, "cold", ("eager",))
        keys = [spec.case.case_key for spec in specs]
        flags = ["contended", *[""] * (len(keys) - 1)]
        return pandas.DataFrame({"case_key": keys, "measured_s": 1e-3, "flags": flags}), ()

    monkeypatch.setattr(kernel_calibration, "_timed", fake)
    look = kernel_calibration.time_kernels(50, lambda text: None)
    case_count = len(fake(0, None, 0)[0])
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

    def fail(*arguments):
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
    result = run("-o", "mine.toml")
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


@pytest.mark.parametrize("options", [(), ("--forget",), ("--no-kernels",), ("--no-kernels", "--forget")])
def test_a_look_that_becomes_contended_exits_5_and_replaces_no_quiet_one(here, monkeypatch, options):
    here()
    run()
    file = calibration.cache_file("cpu", calibration.cpu_fingerprint(machine.find_machine()))
    quiet = file.read_text()
    monkeypatch.setattr(calibration.LoadWatch, "flags", lambda self: ("contended",))
    result = run(*options)
    assert result.exit_code == 5, result.output
    assert file.read_text() == quiet
    assert result.stderr.splitlines()[-1].startswith("error: other work ran (contended)")
    file.unlink()
    assert run(*options).exit_code == 5  # there is no quiet one, and this is none


def test_a_busy_machine_is_said(here, monkeypatch):
    here()
    monkeypatch.setattr(calibration.LoadWatch, "flags", lambda self: ("contended",))
    result = run("--no-kernels")
    assert short_text(doubt_of_ideals(calibration.cached_cpu_device(machine.find_machine()))) in result.stdout.replace(
        "\n", " "
    )
    assert "other work ran (contended)" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--device", "tpu"], "--device must be cpu or cuda, got 'tpu'"),
        (["--device", "cuda"], "no NVIDIA device (no GPU sensors: simulated)"),
        (["-o", "."], "is a folder"),
        (["-o", "absent/mine.toml"], "there is not a folder absent"),
        (["-o", "results.db"], "belongs to a SQLite database"),
        (["--only", "gemv"], "--only must be products, attention or operators"),
        (["--only", "products", "--no-kernels"], "--no-kernels"),
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
