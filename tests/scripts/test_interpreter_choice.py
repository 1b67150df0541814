"""The rule that picks an interpreter and a torch, without starting any."""

from __future__ import annotations

import pytest
from loaded_scripts import load_script

choice = load_script("interpreter_choice")

Probe = choice.Probe


def python(path="/a/python3", version=(3, 12, 1), **facts):
    return Probe(path, python=version, **{"has_ensurepip": True, **facts})


WITHOUT_TORCH = python("/plain/python3")
CPU_TORCH = python("/cpu/python3", torch_version="2.13.0+cpu")
VENDOR_TORCH = python("/vendor/python3", torch_version="2.12.0a0+nv26.09", sees_gpu=True)
OLD_VENDOR_TORCH = python("/jetson/python3", torch_version="2.8.0", sees_gpu=True)
OLD_PYTHON = python("/old/python3", (3, 9, 2))
SHIM = Probe("/shims/python3", error="does not run (exit 127: command not found)")


@pytest.mark.parametrize(
    ("mode", "probes", "has_gpu", "base", "source", "must_see_gpu"),
    [
        ("auto", [WITHOUT_TORCH, CPU_TORCH], False, "/plain/python3", "registry", False),
        ("auto", [SHIM, OLD_PYTHON, WITHOUT_TORCH], False, "/plain/python3", "registry", False),
        ("auto", [WITHOUT_TORCH, CPU_TORCH, VENDOR_TORCH], True, "/vendor/python3", "system", True),
        ("auto", [OLD_VENDOR_TORCH], True, "/jetson/python3", "system", True),
        ("auto", [CPU_TORCH, WITHOUT_TORCH], True, "/cpu/python3", "registry", False),
        ("system", [WITHOUT_TORCH, CPU_TORCH], False, "/cpu/python3", "system", False),
        ("system", [CPU_TORCH, VENDOR_TORCH], True, "/vendor/python3", "system", True),
        ("system", [WITHOUT_TORCH, CPU_TORCH], True, "/cpu/python3", "system", False),
        ("cpu", [WITHOUT_TORCH, VENDOR_TORCH], True, "/plain/python3", "registry", False),
        ("cuda", [WITHOUT_TORCH, VENDOR_TORCH], True, "/plain/python3", "registry", True),
    ],
)
def test_plan(mode, probes, has_gpu, base, source, must_see_gpu):
    plan = choice.choose_plan(mode, probes, has_gpu)
    assert (plan.base.path, plan.source, plan.must_see_gpu) == (base, source, must_see_gpu)
    assert plan.why


def test_asking_stops_at_the_first_that_fits():
    probed = []

    def probes():
        for probe in (VENDOR_TORCH, WITHOUT_TORCH):
            probed.append(probe.path)
            yield probe

    choice.choose_plan("auto", probes(), True)
    assert probed == ["/vendor/python3"]


def test_warnings_name_what_is_odd():
    assert "2.8.0 is older than 2.11" in choice.choose_plan("auto", [OLD_VENDOR_TORCH], True).warning
    assert "only the CPU" in choice.choose_plan("system", [CPU_TORCH], True).warning
    assert "3.15 is newer than" in choice.choose_plan("cpu", [python(version=(3, 15, 0))], False).warning
    assert choice.choose_plan("auto", [WITHOUT_TORCH], False).warning == ""


@pytest.mark.parametrize(
    ("mode", "probes", "message"),
    [
        ("gpu", [WITHOUT_TORCH], "TORCH=gpu is unknown; use one of auto, system, cpu, cuda"),
        ("system", [WITHOUT_TORCH], "no torch in /plain/python3"),
        ("auto", [], "no Python found"),
        ("auto", [OLD_PYTHON, SHIM], "/old/python3: Python 3.9.2; /shims/python3: does not run"),
        ("auto", [python("/bare/python3", (3, 11, 2), has_ensurepip=False)], "apt install python3.11-venv"),
    ],
)
def test_no_plan_says_what_to_do(mode, probes, message):
    with pytest.raises(choice.ChoiceError) as caught:
        choice.choose_plan(mode, probes, False)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "PYTHON=" in str(caught.value) or mode == "gpu"


def candidates(environ, existing, on_path=None, venv="/project/.venv"):
    return choice.candidate_paths(environ, (on_path or {}).get, set(existing).__contains__, venv)


def test_candidates_are_ordered_and_exist():
    interpreters = candidates(
        {"VIRTUAL_ENV": "/active", "CONDA_PREFIX": "/conda", "HOME": "/home/me"},
        [
            "/active/bin/python",
            "/conda/bin/python",
            "/bin/python3",
            "/usr/bin/python3",
            "/home/me/miniforge3/bin/python",
        ],
        {"python3": "/bin/python3", "python3.12": "/missing/python3.12"},
    )
    assert interpreters == [
        "/active/bin/python",
        "/conda/bin/python",
        "/bin/python3",
        "/usr/bin/python3",
        "/home/me/miniforge3/bin/python",
    ]


def test_the_environment_about_to_be_built_is_no_candidate():
    inside = "/project/.venv/bin/python"
    interpreters = candidates({"VIRTUAL_ENV": "/project/.venv", "PYTHON": inside}, [inside, "/usr/bin/python3"])
    assert interpreters == ["/usr/bin/python3"]


def test_asked_python_stands_alone():
    existing = ["/usr/bin/python3", "/mine/python"]
    assert candidates({"PYTHON": "/mine/python"}, existing) == ["/mine/python"]
    assert candidates({"PYTHON": "mine"}, existing, {"mine": "/mine/python"}) == ["/mine/python"]
    assert candidates({"PYTHON": "gone"}, existing) == ["gone"]  # probing it tells the user that it does not start


@pytest.mark.parametrize(
    ("files", "programs", "expected"),
    [
        ([], {}, False),
        (["/dev/nvidiactl"], {}, True),
        (["/dev/nvhost-gpu"], {}, True),  # Jetson
        ([], {"nvidia-smi": "/usr/bin/nvidia-smi"}, True),
    ],
)
def test_nvidia_device(files, programs, expected):
    assert choice.has_nvidia_device(files.__contains__, programs.get) is expected


def test_system_constraints_hold_the_vendors_torch_and_leave_what_is_there():
    base = VENDOR_TORCH._replace(distributions={"numpy": "1.26.4", "py-cpuinfo": "9.0.0"})
    pinned = "# core\nnumpy==2.4.6\npy_cpuinfo==9.0.0\ntorch==2.13.0\ntorchao==0.18.0  # not torch\n"
    assert choice.system_constraints(pinned, base) == "torch==2.12.0a0+nv26.09\ntorchao==0.18.0\n"


def test_requirements_leave_torch_out():
    project = {
        "name": "roofline_bench",
        "dependencies": ["numpy>=1.26"],
        "optional-dependencies": {
            "measure": ["torch>=2.11", "pytest>=8.3"],
            "quant": ["torchao>=0.16"],
            "dev": ["roofline-bench[measure, quant]", "ruff>=0.11", "numpy>=1.26"],
        },
    }
    assert choice.requirements_without_torch(project, ["measure"]) == ["numpy>=1.26", "pytest>=8.3"]
    assert choice.requirements_without_torch(project, ["dev"]) == [
        "numpy>=1.26",
        "ruff>=0.11",
        "pytest>=8.3",
        "torchao>=0.16",
    ]


@pytest.mark.parametrize(
    ("version", "expected"), [("2.13.0+cpu", (2, 13)), ("2.11.0a0+50eac811a6.nv26.01", (2, 11)), ("unknown", (0, 0))]
)
def test_release(version, expected):
    assert choice.release(version) == expected
