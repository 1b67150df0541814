"""The environment of a run: what is captured, what decides comparability, and what must never be captured."""

from __future__ import annotations

import json
import os
import shlex
import sys
from types import SimpleNamespace

import pytest

from plugin.machine import environment
from plugin.machine.environment import capture_environment, class_facts, command_line
from plugin.machine.facts import Machine
from roofline_model.chips.hardware import DeviceFacts

CPU = Machine("cpu", "none", "Test CPU", 2, 1 << 25, 1 << 34, torch_version="2.13.0+cpu")
GPU = Machine("cuda", "", "Test CPU", 2, 1 << 25, 1 << 34, DeviceFacts("NVIDIA GB10", "12.1"), "2.13.0+cu130")


def write(root, **files):
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_the_class_of_an_unchanged_machine_is_stable_and_nothing_volatile_is_in_it(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    first = capture_environment(CPU, "cpu")
    monkeypatch.setattr(os, "getloadavg", lambda: (99.0, 9.0, 9.0))
    monkeypatch.setenv("OMP_NUM_THREADS", "2")  # what torch does by itself on two CPUs
    monkeypatch.setenv("HOSTNAME", "other")
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(__config__=SimpleNamespace(show=lambda: "BLAS_INFO=mkl")))
    second = capture_environment(CPU, "cpu")
    assert second.facts["load_1min"] == 99.0
    assert second.environment_hash != first.environment_hash
    assert second.class_hash == first.class_hash
    volatile = (
        "load",
        "clock_hz_now",
        "temperature",
        "used",
        "pid",
        "time",
        "uuid",
        "host",
        "commit",
        "python",
        "blas",
    )
    assert not [name for name in first.class_facts if name.startswith(volatile) or name == "cpu_clock_hz"]


def test_facts_are_plain_json_and_name_what_matters():
    facts = capture_environment(CPU, "cpu").facts
    assert json.loads(json.dumps(facts, allow_nan=False)) == facts
    wanted = {
        "device",
        "cpu",
        "cpu_count",
        "threads",
        "torch",
        "torch_build",
        "torch_commit",
        "torchao",
        "triton",
        "governor",
        "boost",
        "smt",
        "numa_node_count",
        "microcode",
        "hypervisor",
        "cpu_quota_ratio",
        "container",
        "container_image",
        "transparent_huge_pages",
        "malloc_preload",
        "speed_variables",
        "cudnn",
        "cublas",
        "cuda_runtime",
        "kernel_libraries",
        "plugin_version",
        "method_version",
        "host",
        "os",
        "python",
        "memory_bytes",
        "load_1min",
    }
    assert wanted <= set(facts)


@pytest.mark.parametrize(
    "change",
    [{"torch": "2.14.0"}, {"driver": "590.1"}, {"governor": "powersave"}, {"threads": 4}, {"microcode": "0x2"}, {"cudnn": "9.9"},
     {"kernel_libraries": {"flash-attn": "2.9"}}, {"power_limit_w": 100.0}, {"boost": False}, {"malloc_preload": ["libjemalloc.so.2"]},
     {"speed_variables": {"NVIDIA_TF32_OVERRIDE": "0"}}, {"mig": True}, {"vbios": "x"}, {"transparent_huge_pages": "never"}],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
def test_what_moves_a_time_makes_another_class(change):
    before = {"device": "x", "boost": True, "mig": False, "hypervisor": None}
    assert class_facts(before | change) != class_facts(before)


@pytest.mark.parametrize(
    "change",
    [{"host": "b"}, {"load_1min": 3.0}, {"python": "3.13"}, {"container": "docker"}, {"container_image": "x:1"}, {"persistence": True},
     {"git_commit": "abc"}, {"plugin_version": "9"}, {"clock_lock_hz": 2e9}, {"gpu_uuid": "GPU-1"}, {"cpu_clock_hz": 2.5e9},
     {"speed_variables": {"OMP_NUM_THREADS": "2"}}, {"driver": None}],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
def test_what_moves_no_time_does_not(change):
    before = {"device": "x", "torch": "2.13.0"}
    assert class_facts(before | change) == class_facts(before)


def test_microcode_counts_on_bare_metal_only():
    assert class_facts({"microcode": "0x1"}) == {"microcode": "0x1"}
    assert class_facts({"microcode": "0x1", "hypervisor": "KVM"}) == {"hypervisor": "KVM"}


def test_every_fact_of_the_class_is_explained():
    for name in (*environment._CLASS_FACTS, "speed_variables"):
        assert name in environment.__doc__, name


def test_the_facts_of_a_gpu(monkeypatch):
    nvml = SimpleNamespace(
        facts=lambda: {
            "driver": "580.142",
            "vbios": "1.2",
            "power_limit_w": 140.0,
            "clock_lock_hz": 2.1e9,
            "gpu_uuid": "GPU-1",
        },
        application_clock_hz=lambda: 2.0e9,
    )
    monkeypatch.setattr(environment, "open_nvml_device", lambda: (nvml, None))
    info = capture_environment(GPU, "cuda")
    assert (info.facts["device"], info.facts["compute_capability"]) == ("NVIDIA GB10", "12.1")
    assert info.class_facts["application_clock_hz"] == 2.0e9
    assert "clock_lock_hz" not in info.class_facts
    assert "driver" not in capture_environment(GPU, "cpu").facts
    monkeypatch.setattr(environment, "open_nvml_device", lambda: (None, None))
    assert "driver" not in capture_environment(GPU, "cuda").class_facts


# Secrets ---------------------------------------------------------------------------------------------------------


def test_no_secret_of_the_environment_is_captured(monkeypatch):
    for name in (
        "AWS_SECRET_ACCESS_KEY",
        "GITHUB_TOKEN",
        "PGPASSWORD",
        "ROOFLINE_DB",
        "HF_TOKEN",
        "CUDA_SECRET",
        "OMP_TOKEN",
        "TORCH_KEY",
    ):
        monkeypatch.setenv(name, f"s3cret-{name}")
    monkeypatch.setenv("LD_PRELOAD", "/usr/s3cret/libjemalloc.so.2:/usr/s3cret/libspy.so")
    monkeypatch.setenv("MALLOC_CONF", "prof:true,note:\x1b[31m s3cret with blanks")
    monkeypatch.setenv("CONTAINER_IMAGE", "user:s3cret@registry.example/s3cret/team/bench:1.2")
    facts = capture_environment(CPU, "cpu").facts
    assert "s3cret" not in json.dumps(facts)
    assert facts["malloc_preload"] == ["libjemalloc.so.2"]
    assert facts["speed_variables"]["MALLOC_CONF"] == "(set)"
    assert facts["container_image"] == "bench:1.2"


def test_a_password_in_the_command_line_is_not_kept(monkeypatch):
    monkeypatch.setattr(
        sys,
        "argv",
        ["/usr/bin/pytest", "--roofline-db=postgresql+psycopg://me:p4ss@db.example:5432/x", "-k", "a:b@c"],
    )
    assert command_line() == "pytest '--roofline-db=postgresql+psycopg://me:***@db.example:5432/x' -k a:b@c"


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("/usr/bin/pytest", ["pytest"]),
        ("/usr/lib/pytest/__main__.py", ["pytest"]),
        ("/usr/lib/roofline_cli/__main__.py", ["python", "-m", "roofline_cli"]),
        ("/usr/bin/my runner.py", ["my runner.py"]),
    ],
)
def test_the_command_line_can_be_pasted_again(monkeypatch, program, words):
    arguments = ["bench_cases", "-k", "gemv or gemm", "--roofline-run-label", "it's $HOME; `id`\n", ""]
    monkeypatch.setattr(sys, "argv", [program, *arguments])
    assert shlex.split(command_line()) == [*words, *arguments]
    if words == ["pytest"]:
        assert command_line().startswith("pytest bench_cases -k 'gemv or gemm' ")


def test_a_command_line_of_any_length_is_cut(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["pytest", "-k", "'\udcff\x00" * 10_000])
    assert len(command_line()) == 4000


# The host --------------------------------------------------------------------------------------------------------


def test_speed_variables_come_from_a_closed_list():
    variables = {
        "OMP_NUM_THREADS": " 4 ",
        "KMP_AFFINITY": "granularity=fine,compact,1,0",
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
        "PATH": "/x",
        "TERM": "",
        "NVIDIA_TF32_OVERRIDE": "",
        "CUDA_LAUNCH_BLOCKING": "1",
    }
    assert environment.speed_variables(variables) == {
        "OMP_NUM_THREADS": "4",
        "KMP_AFFINITY": "granularity=fine,compact,1,0",
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
        "CUDA_LAUNCH_BLOCKING": "1",
    }
    assert environment.speed_variables({}) == {}


@pytest.mark.parametrize(
    ("files", "variables", "kind"),
    [
        ({}, {}, None),
        ({".dockerenv": ""}, {}, "docker"),
        ({"run__.containerenv": "", ".dockerenv": ""}, {}, "podman"),
        ({"run__systemd__container": "systemd-nspawn\n"}, {}, "systemd-nspawn"),
        ({"run__systemd__container": "../../evil"}, {}, None),
        ({".dockerenv": ""}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "kubernetes"),
        ({}, {"APPTAINER_CONTAINER": "/x/y.sif"}, "apptainer"),
    ],
)
def test_containers_are_told_apart(tmp_path, files, variables, kind):
    write(tmp_path, **files)
    assert environment.container(variables, tmp_path) == kind


@pytest.mark.parametrize(
    ("text", "variables", "image"),
    [
        ('engine="podman-5"\nname="x"\nimage="docker.example/team/bench:1"\nimageid="9f8e7d"\n', {}, "9f8e7d"),
        ('image="docker.example/team/bench:1"\n', {}, "bench:1"),
        (None, {"IMAGE_DIGEST": "registry.example/team/bench@sha256:abcdef"}, "bench@sha256:abcdef"),
        (None, {"CONTAINER_IMAGE": "bad image; name"}, None),
        (None, {}, None),
    ],
)
def test_an_image_is_named_without_its_registry(tmp_path, text, variables, image):
    if text is not None:
        write(tmp_path, **{"run__.containerenv": text})
    assert environment.container_image(variables, tmp_path) == image


def test_memory_settings_and_microcode(tmp_path):
    assert environment.host_facts({}, tmp_path) == {
        "microcode": None,
        "transparent_huge_pages": None,
        "container": None,
        "container_image": None,
        "speed_variables": None,
        "malloc_preload": None,
    }
    write(
        tmp_path,
        sys__kernel__mm__transparent_hugepage__enabled="always [madvise] never\n",
        proc__cpuinfo="processor : 0\nmicrocode\t: 0xa10113e\n",
    )
    facts = environment.host_facts({"LD_PRELOAD": "libtcmalloc.so.4 libiomp5.so"}, tmp_path)
    assert (facts["transparent_huge_pages"], facts["microcode"]) == ("madvise", "0xa10113e")
    assert facts["malloc_preload"] == ["libtcmalloc.so.4", "libiomp5.so"]


# Software --------------------------------------------------------------------------------------------------------

VERSION_FILE = """from typing import Optional
__version__ = '2.13.0{local}'
debug = False
cuda: Optional[str] = {cuda}
git_version = 'cf30153c'
hip: Optional[str] = {hip}
"""


@pytest.mark.parametrize(
    ("cuda", "hip", "build"), [("None", "None", "cpu"), ("'13.0'", "None", "cu130"), ("None", "'6.4.1'", "rocm6.4.1")]
)
def test_the_build_of_torch_is_read_without_importing_it(monkeypatch, cuda, hip, build):
    monkeypatch.setattr(environment, "_version_file", lambda: VERSION_FILE.format(local="", cuda=cuda, hip=hip))
    facts = environment.torch_build()
    assert (facts["torch_build"], facts["torch_commit"]) == (build, "cf30153c")


def test_without_torch_nothing_is_claimed(monkeypatch):
    monkeypatch.setattr(environment, "_version_file", lambda: "")
    assert set(environment.torch_build().values()) - {environment._loaded_blas()} <= {None}


def test_this_environments_own_torch_is_found():
    version = environment.installed_version("torch")
    if version is None:
        pytest.skip("no torch here")
    assert environment.torch_build()["torch_build"] is not None
    assert environment.torch_build()["torch_commit"]


def test_libraries_are_listed_where_they_are_installed(monkeypatch):
    installed = {
        "torch": "2.13.0",
        "flash-attn": "2.8.3",
        "nvidia-cublas-cu12": "12.9.1",
        "nvidia-cudnn-cu13": "9.13",
        "nvidia-cudnn-cu12": "9.10",
    }
    monkeypatch.setattr(environment, "installed_version", installed.get)
    facts = environment.software_facts()
    assert (facts["torch"], facts["triton"], facts["cublas"], facts["cudnn"]) == ("2.13.0", None, "12.9.1", "9.13")
    assert facts["kernel_libraries"] == {"flash-attn": "2.8.3"}


def test_math_libraries_are_told_by_a_loaded_torch_only(monkeypatch):
    text = (
        "Intel(R) oneAPI Math Kernel Library Version 2024.2-Product\n - Intel(R) MKL-DNN v3.12.0 (Git\n BLAS_INFO=mkl, "
        "x"
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(__config__=SimpleNamespace(show=lambda: text)))
    assert environment._loaded_blas() == "BLAS mkl, MKL 2024.2-Product, oneDNN 3.12.0"
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace())
    assert environment._loaded_blas() is None
    monkeypatch.delitem(sys.modules, "torch")
    assert environment._loaded_blas() is None
