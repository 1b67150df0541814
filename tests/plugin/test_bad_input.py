"""Bad options: one line that names the fix, exit code 2, no traceback, nothing written."""

from __future__ import annotations

import pytest

BAD = [
    (("--hw", "gb11"), "unknown hardware 'gb11'. Did you mean gb10*"),
    (("--hw", "missing.toml"), "chip file missing.toml does not exist*"),
    (("--hw", "bad.toml"), "bad.toml: *bandwidth*value must be positive*"),
    (("--roofline-formats", "bf17"), "unknown format 'bf17'. Did you mean*"),
    (("--roofline-cache", "hot"), "--roofline-cache must be cold or warm or flushed or both*"),
    (("--roofline-device", "tpu"), "--roofline-device must be cpu or cuda*"),
    (("--roofline-max-seconds", "-3"), "--roofline-max-seconds must be above 0*"),
    (("--roofline-timer", "stopwatch"), "--roofline-timer 'stopwatch' is unknown*"),
    (("--roofline-timer", "simulated:speed=9"), "--roofline-timer simulated: 'speed=9' is not a setting*"),
    (("--roofline-timer", "replay:none.json"), "--roofline-timer replay: *none.json cannot be read*"),
    (("--roofline-db", "folder", "--hw", "b10", "--roofline-predict-only"), "*folder*"),
    (("--roofline-db", "not.db", "--hw", "b10", "--roofline-predict-only"), "*not.db*"),
    (("--roofline-db", "mysql://host/x", "--hw", "b10", "--roofline-predict-only"), "*mysql*"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "message"), BAD, ids=["-".join(options[:2]).replace("--", "") for options, _ in BAD]
)
def test_one_line_exit_2_nothing_written(pytester, options, message):
    pytester.makepyfile("def test_ours(roofline):\n    roofline.measure(lambda: None)\n")
    pytester.mkdir("folder")
    (pytester.path / "not.db").write_text("this is not a database, it is somebody's notes")
    (pytester.path / "bad.toml").write_text(
        'schema = 1\nkey = "x"\nname = "x"\nkind = "custom"\n[memory]\n'
        'bandwidth = {value = -1, unit = "GB/s", status = "declared", source = "me"}\n'
        '[[peak]]\nformats = ["FP16"]\ndense = {value = 1, unit = "TFLOP/s", status = "declared", source = "me"}\n'
    )
    before = {path: path.read_bytes() for path in pytester.path.rglob("*") if path.is_file()}
    result = pytester.runpytest_inprocess(*options, "-p", "no:cacheprovider")
    assert result.ret == 2
    errors = [line for line in result.stderr.lines if line.startswith("ERROR: ")]
    assert len(errors) == 1
    result.stderr.fnmatch_lines([f"ERROR: {message}"])
    assert "Traceback" not in result.stdout.str() + result.stderr.str()
    after = {
        path: path.read_bytes()
        for path in pytester.path.rglob("*")
        if path.is_file() and "__pycache__" not in str(path)
    }
    assert {path: after.get(path) for path in before} == before


def test_cuda_asked_for_and_absent(pytester, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    pytester.makepyfile("def test_ours(roofline):\n    roofline.measure(lambda: None)\n")
    result = pytester.runpytest_inprocess("--roofline-device", "cuda")
    assert result.ret == 2
    result.stderr.fnmatch_lines(
        ["ERROR: --roofline-device cuda: this machine has no NVIDIA device*use --roofline-device cpu"]
    )
