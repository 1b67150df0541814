"""The installer's rim: probing real and fake interpreters, and its own memory of what it built. pip is never called."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from loaded_scripts import load_script

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts" / "install"


@pytest.fixture(scope="module")
def make_venv():
    return load_script("make_venv")


def fake_interpreter(folder: Path, name: str, body: str) -> str:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def answering(folder: Path, name: str, **answer: object) -> str:
    facts = {"python": [3, 12, 3], "is_venv": False, "has_ensurepip": True, "has_pip": True, **answer}
    return fake_interpreter(folder, name, f"echo 'a banner of the vendor'\necho '{json.dumps(facts)}'")


def test_probe_of_this_interpreter(make_venv):
    probe = make_venv.probe_interpreter(sys.executable, "distributions")
    assert probe.error == ""
    assert probe.python == sys.version_info[:3]
    assert probe.is_venv == (sys.prefix != sys.base_prefix)
    assert probe.site_folders[0] == sysconfig.get_path("purelib")
    assert probe.distributions["pytest"] == pytest.__version__
    assert probe.torch_version is None  # nobody asked, so it was not imported


def test_probe_reads_past_banners(make_venv, tmp_path):
    path = answering(
        tmp_path, "python3", torch_version="2.12.0a0+nv26.09", sees_gpu=True, distributions={"Py_CPUinfo": "9"}
    )
    probe = make_venv.probe_interpreter(path, "torch", "distributions")
    assert (probe.torch_version, probe.sees_gpu, probe.distributions) == ("2.12.0a0+nv26.09", True, {"py-cpuinfo": "9"})


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("echo 'pyenv: python3.12: command not found' >&2; exit 127", "exit 127: pyenv: python3.12: command not found"),
        ("exit 0", "no answer"),
        ("echo '{}'", "does not run"),
        ("exec sleep 30", "gave no answer in 1 s"),
    ],
)
def test_probe_of_a_broken_interpreter(make_venv, tmp_path, body, message):
    probe = make_venv.probe_interpreter(
        fake_interpreter(tmp_path, "python3", body), timeout_s=1.0 if "sleep" in body else 60.0
    )
    assert message in probe.error
    assert probe.python == ()


def test_probe_of_nothing(make_venv, tmp_path):
    assert "does not start" in make_venv.probe_interpreter(str(tmp_path / "gone")).error


def test_the_vendors_torch_wins_among_fake_interpreters(make_venv, tmp_path):
    shim = fake_interpreter(tmp_path, "shim", "exit 127")
    plain = answering(tmp_path, "plain")
    vendor = answering(tmp_path, "vendor", torch_version="2.12.0", sees_gpu=True)
    probes = (make_venv.probe_interpreter(path, "torch") for path in (shim, plain, vendor))
    plan = make_venv.choice.choose_plan("auto", probes, True)
    assert (plan.base.path, plan.source) == (vendor, "system")


def test_a_folder_that_is_not_ours_is_left_alone(make_venv, tmp_path, capsys):
    (tmp_path / "mine.txt").write_text("precious", encoding="utf-8")
    assert make_venv.main(["--venv", str(tmp_path)]) == 2
    assert "was not made by `make`" in capsys.readouterr().err
    assert (tmp_path / "mine.txt").read_text(encoding="utf-8") == "precious"


def built(make_venv, venv: Path, **changes: object) -> dict:
    """Make a folder that looks like a finished environment on a fake interpreter."""
    (venv / "bin").mkdir(parents=True)
    answering(venv / "bin", "python")
    state = {"mode": "auto", "place": str(venv), "base": "/usr/bin/python3", "source": "registry", "is_built": True}
    state |= {"extras": {"measure": make_venv.fingerprint()}, **changes}
    make_venv.write_state(venv, state)
    return state


def test_nothing_changed_means_nothing_done(make_venv, tmp_path, monkeypatch):
    monkeypatch.delenv("PYTHON", raising=False)
    built(make_venv, tmp_path / "env")
    monkeypatch.setattr(make_venv, "_create", lambda *_: pytest.fail("built again"))
    monkeypatch.setattr(make_venv, "_install", lambda *_: pytest.fail("installed again"))
    assert make_venv.main(["--venv", str(tmp_path / "env")]) == 0
    assert make_venv.main(["--venv", str(tmp_path / "env"), "--torch", "auto"]) == 0


@pytest.mark.parametrize(
    ("changes", "environ", "arguments"),
    [
        ({"is_built": False}, {}, []),  # interrupted
        ({"place": "/somewhere/else"}, {}, []),  # the checkout was moved
        ({}, {}, ["--torch", "cpu"]),  # another torch is wanted
        ({}, {"PYTHON": "/another/python"}, []),  # another interpreter is wanted
    ],
)
def test_what_no_longer_fits_is_built_again(make_venv, tmp_path, monkeypatch, changes, environ, arguments):
    monkeypatch.delenv("PYTHON", raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    state = built(make_venv, tmp_path / "env", **changes)
    calls = []
    monkeypatch.setattr(make_venv, "_create", lambda venv, mode: calls.append(mode) or {**state, "extras": {}})
    monkeypatch.setattr(make_venv, "_install", lambda venv, extra, state: calls.append(extra))
    monkeypatch.setattr(make_venv, "_check_torch", lambda *_: None)
    assert make_venv.main(["--venv", str(tmp_path / "env"), *arguments]) == 0
    assert calls == ["cpu" if arguments else "auto", "measure"]


def test_a_changed_pin_installs_without_building(make_venv, tmp_path, monkeypatch):
    monkeypatch.delenv("PYTHON", raising=False)
    built(make_venv, tmp_path / "env", extras={"measure": "of yesterday"})
    calls = []
    monkeypatch.setattr(make_venv, "_create", lambda *_: pytest.fail("built again"))
    monkeypatch.setattr(make_venv, "_install", lambda venv, extra, state: calls.append(extra))
    monkeypatch.setattr(make_venv, "_check_torch", lambda *_: None)
    assert make_venv.main(["--venv", str(tmp_path / "env"), "--extra", "dev"]) == 0
    assert calls == ["dev"]
    extras = make_venv.read_state(tmp_path / "env")["extras"]
    assert extras["dev"] == extras["measure"] == make_venv.fingerprint()  # [dev] contains [measure]


def test_pip_of_a_system_environment_never_names_torch(make_venv, tmp_path, monkeypatch):
    commands = []
    monkeypatch.setattr(make_venv, "_run", lambda command, output=None: commands.append(command) or 0)
    state = {"source": "system", "base": "/vendor/python3", "uses_base_pip": True}
    make_venv._install(tmp_path, "dev", state)
    assert len(commands) == 3
    assert commands[0][:5] == ["/vendor/python3", "-m", "pip", "--python", str(tmp_path / "bin" / "python")]
    assert str(tmp_path / "constraints.txt") in commands[0]
    assert not [word for command in commands for word in command if word.startswith("torch") and "torchao" not in word]
    assert commands[1][-3:] == ["--no-deps", "-e", str(make_venv.ROOT)]
    assert commands[2][commands[2].index("--target") + 1] == str(tmp_path / "other-plugins")  # active in no run of ours


def test_a_torch_that_misses_the_gpu_fails_when_it_must_see_it(make_venv, tmp_path, capsys):
    (tmp_path / "bin").mkdir()
    answering(tmp_path / "bin", "python", torch_version="2.13.0+cpu", sees_gpu=False)
    state = {"has_gpu": True, "source": "registry", "torch": None, "base": "/usr/bin/python3", "must_see_gpu": True}
    with pytest.raises(make_venv.choice.ChoiceError, match="NVIDIA"):
        make_venv._check_torch(tmp_path, state)
    make_venv._check_torch(tmp_path, {**state, "must_see_gpu": False})
    assert "only the CPU will be measured" in capsys.readouterr().out


def test_a_torch_that_was_replaced_is_noticed(make_venv, tmp_path):
    (tmp_path / "bin").mkdir()
    answering(tmp_path / "bin", "python", torch_version="2.13.0", sees_gpu=True)
    state = {
        "has_gpu": True,
        "source": "system",
        "torch": "2.12.0a0+nv26.09",
        "base": "/vendor/python3",
        "must_see_gpu": True,
    }
    with pytest.raises(make_venv.choice.ChoiceError, match=r"sees torch 2\.13\.0, not 2\.12\.0a0\+nv26\.09"):
        make_venv._check_torch(tmp_path, state)


def test_an_environment_on_a_virtual_environment_reaches_its_packages(make_venv, tmp_path):
    """A virtual environment with a torch of its own is a base like any other; the real `venv` module is used."""
    site = tmp_path / "their packages"
    site.mkdir()
    (site / "torch.py").write_text(
        "__version__ = '2.12.0'\nclass cuda:\n    is_available = staticmethod(lambda: True)\n", encoding="utf-8"
    )
    base = make_venv.choice.Probe(
        sys.executable,
        python=sys.version_info[:3],
        is_venv=True,
        torch_version="2.12.0",
        sees_gpu=True,
        site_folders=(str(site),),
    )
    plan = make_venv.choice.choose_plan("system", [base._replace(has_pip=True)], True)
    venv = tmp_path / "env"
    venv.mkdir()
    make_venv._create_folder(venv, base, plan)
    done = subprocess.run(
        [str(venv / "bin" / "python"), "-c", "import torch; print(torch.__file__)"],
        capture_output=True,
        text=True,
        check=True,
        cwd=os.sep,
    )
    assert done.stdout.strip() == str(site / "torch.py")
    assert (venv / "constraints.txt").read_text(encoding="utf-8").startswith("torch==2.12.0\n")
