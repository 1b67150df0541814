"""Profiler commands: what a shell makes of them, which options they carry, and what runs under the profiler."""

from __future__ import annotations

import shlex
from pathlib import Path
from types import SimpleNamespace

import pytest

from plugin.timers import profiler
from plugin.timers.profiler import case_of, is_profiled, ncu_command, ncu_commands, profile_one_call
from roofline_model.operators.case import Case

CASE = Case("gemv", (("M", 1), ("N", 4096), ("K", 4096)), (("a", "BF16"), ("b", "INT4"), ("c", "BF16")), "tinygemm")
NODE = f"bench_cases/test_gemv.py::test_gemv[{CASE.id}]"


def parsed(command):
    """Return the environment, ncu's options and pytest's arguments as a shell would hand them over."""
    words = shlex.split(command)
    environment = dict(word.split("=", 1) for word in words[: words.index("ncu")])
    profiler = words[words.index("ncu") : words.index("python")]
    assert words[words.index("python") :][:3] == ["python", "-m", "pytest"]
    return environment, profiler, words[words.index("python") + 3 :]


def after(words, option):
    return words[words.index(option) + 1]


def test_the_command_survives_the_shell():
    environment, profiler, arguments = parsed(ncu_command(NODE, CASE))
    assert environment == {"ROOFLINE_PROFILED": "1"}
    assert arguments[0] == NODE  # brackets and all, as one word
    assert after(arguments, "--roofline-isolate") == "none"
    assert "--roofline-no-canary" in arguments
    assert after(profiler, "--nvtx-include") == "roofline-call/"  # the slash: a push/pop range
    assert "--nvtx" in profiler
    assert after(profiler, "--set") == "roofline"
    assert after(profiler, "--export") == "gemv-1x4096x4096-w4a16-INT4.BF16-tinygemm-cold"


def test_hostile_node_ids_stay_one_word():
    node = "tests/test_x.py::test_x[a b;$(touch x) 'q' \"d\" `c` | > é]"
    _, profiler, arguments = parsed(ncu_command(node, None))
    assert arguments[0] == node
    assert set(after(profiler, "--export")) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


@pytest.mark.parametrize(
    ("cache", "expected"), [("warm", "none"), ("cold", "all"), ("flushed", "all"), ("none", "all")]
)
def test_a_warm_case_keeps_its_cache(cache, expected):
    case = Case(CASE.op, CASE.shape, CASE.formats, CASE.kernel, cache)
    _, profiler, _ = parsed(ncu_command(NODE, case))
    assert after(profiler, "--cache-control") == expected


def item(nodeid, root, folder, param=None, fixtures=("roofline",), **options):
    config = SimpleNamespace(
        rootpath=Path(root), invocation_params=SimpleNamespace(dir=Path(folder)), option=SimpleNamespace(**options)
    )
    callspec = SimpleNamespace(params={} if param is None else {"spec": param})
    return SimpleNamespace(nodeid=nodeid, config=config, callspec=callspec, fixturenames=fixtures)


def test_each_selected_case_gets_a_command_with_the_options_that_chose_it():
    spec = SimpleNamespace(case=CASE)
    chosen = item(
        NODE,
        "/p",
        "/p",
        spec,
        roofline_bench_hw="gb10",
        roofline_bench_shapes="llm:a b",
        roofline_bench_mode="graph",
        roofline_bench_force_measure=True,
        roofline_bench_formats=None,
        roofline_bench_profile="ncu",
        roofline_bench_db="x.db",
        verbose=2,
    )
    (command,) = ncu_commands([chosen])
    _, _, arguments = parsed(command)
    roofline_options = [word for word in arguments if word.startswith("--roofline-") and "=" in word]
    assert roofline_options == ["--roofline-hw=gb10", "--roofline-shapes=llm:a b", "--roofline-mode=graph"]
    assert "--roofline-force-measure" in arguments
    assert not any(word.startswith("--roofline-profile") for word in arguments)  # it would print commands again


def test_paths_are_seen_from_where_pytest_was_called():
    (command,) = ncu_commands([item("suite/test_a.py::test_b", "/p", "/p/other")])
    assert parsed(command)[2][0] == "../suite/test_a.py::test_b"


def test_the_case_is_found_wherever_it_is_a_parameter():
    assert case_of(item(NODE, "/", "/", SimpleNamespace(case=CASE))) is CASE
    assert case_of(item(NODE, "/", "/", CASE)) is CASE
    assert case_of(item(NODE, "/", "/", 17)) is None
    assert case_of(SimpleNamespace()) is None


@pytest.mark.parametrize(("value", "expected"), [("1", True), ("0", False), ("", False)])
def test_the_harness_knows_when_it_is_profiled(monkeypatch, value, expected):
    monkeypatch.setenv("ROOFLINE_PROFILED", value)
    assert is_profiled() is expected
    monkeypatch.delenv("ROOFLINE_PROFILED")
    assert not is_profiled()


def test_one_call_is_profiled_after_everything_was_loaded(monkeypatch):
    log = []

    class Range:
        def __init__(self, name):
            assert name == profiler.CALL_RANGE

        def __enter__(self):
            log.append("push")

        def __exit__(self, *_):
            log.append("pop")

    monkeypatch.setattr(profiler, "nvtx_range", Range)
    profile_one_call(lambda: log.append("call"), lambda: log.append("wait"))
    assert log == ["call", "wait", "push", "call", "wait", "pop"]


def test_pytest_takes_every_option_of_the_command():
    from roofline_pytest_options import OPTIONS

    known_options = {name for name, _ in OPTIONS}
    _, _, arguments = parsed(
        ncu_commands([item(NODE, "/", "/", roofline_bench_hw="x", roofline_bench_force_measure=True)])[0]
    )
    used = {word.partition("=")[0] for word in arguments if word.startswith("--roofline")}
    assert used <= known_options
