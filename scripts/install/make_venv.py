#!/usr/bin/env python3
"""Build the project's virtual environment; standard library only, because nothing is installed yet.

    python3 scripts/install/make_venv.py [--venv .venv] [--extra measure] [--torch auto|system|cpu|cuda]

auto     no NVIDIA GPU: the torch of constraints.txt. With one: search an interpreter whose torch sees the GPU
         ($PYTHON, the active environment, PATH, the usual vendor places) and use its torch as it is.
system   use the torch that is there (name its interpreter with PYTHON=… when it is not found).
cpu      install the torch of constraints.txt; do not look for a GPU.
cuda     install the torch of constraints.txt and fail unless it sees the GPU.

Called again with nothing changed it returns at once. Progress: stdout; mistakes: stderr and exit code 2.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import interpreter_choice as choice

ROOT = Path(__file__).resolve().parents[2]
STATE_FILE = "roofline-venv.json"

# Run by each candidate. It must work on any Python 3, and end with one line of JSON whatever torch prints.
PROBE_CODE = """
import json, os, sys
asked = sys.argv[1:]
answer = {"python": list(sys.version_info[:3])}
answer["is_venv"] = sys.prefix != getattr(sys, "base_prefix", sys.prefix)
def has(name):
    import importlib.util
    return importlib.util.find_spec(name) is not None
answer["has_ensurepip"] = has("ensurepip") and has("venv")
answer["has_pip"] = has("pip") and has("venv")
if "torch" in asked:
    try:
        import torch
        answer["torch_version"] = str(torch.__version__)
        answer["sees_gpu"] = bool(torch.cuda.is_available())
    except Exception as error:
        answer["torch_error"] = repr(error)
if "distributions" in asked:
    import sysconfig
    from importlib import metadata
    names = {}
    for distribution in metadata.distributions():
        name = distribution.metadata["Name"]
        if name:
            names.setdefault(name, distribution.version)
    answer["distributions"] = names
    answer["site_folders"] = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
sys.stdout.write("\\n" + json.dumps(answer) + "\\n")
"""


def main(arguments: list[str] | None = None) -> int:
    """Build or refresh the environment and return an exit code."""
    parser = argparse.ArgumentParser(description="Build the virtual environment of roofline-bench.")
    parser.add_argument("--venv", default=".venv", help="folder of the environment (default: .venv)")
    parser.add_argument("--extra", default="measure", help="extra of pyproject.toml (default: measure)")
    parser.add_argument("--torch", default="", help="auto, system, cpu or cuda (default: as built, else auto)")
    options = parser.parse_args(arguments)
    venv = Path(options.venv).resolve()
    try:
        return _ensure(venv, options.extra, options.torch)
    except choice.ChoiceError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _ensure(venv: Path, extra: str, torch_mode: str) -> int:
    state = read_state(venv)
    mode = torch_mode or (state or {}).get("mode") or "auto"
    if state is None and venv.exists() and any(venv.iterdir()):
        raise choice.ChoiceError(
            f"{venv} exists and was not made by `make`; remove it, or use another folder: make … VENV=folder"
        )
    if state is not None and not _still_fits(venv, state, mode):
        state = None
    if state is not None and state["extras"].get(extra) == fingerprint():
        return 0
    if sys.version_info < choice.OLDEST_PYTHON:
        _continue_with_newer_python(venv)  # reading pyproject.toml needs tomllib
    if state is None:
        state = _create(venv, mode)
    _install(venv, extra, state)
    _check_torch(venv, state)
    state["extras"] = {**state.get("extras", {}), **dict.fromkeys(_included_extras(extra), fingerprint())}
    write_state(venv, state)
    return 0


def read_state(venv: Path) -> dict[str, Any] | None:
    """Return what the environment says about itself; None when there is none, or it is not ours."""
    try:
        state: dict[str, Any] = json.loads((venv / STATE_FILE).read_text(encoding="utf-8"))
        return state
    except (OSError, ValueError):
        return None


def write_state(venv: Path, state: dict[str, Any]) -> None:
    """Write the environment's own description, atomically."""
    temporary = venv / f"{STATE_FILE}.new"
    temporary.write_text(json.dumps(state, indent=1), encoding="utf-8")
    temporary.replace(venv / STATE_FILE)


def fingerprint() -> str:
    """Return a hash of everything an installation depends on."""
    files = (
        "pyproject.toml",
        "constraints.txt",
        "scripts/install/make_venv.py",
        "scripts/install/interpreter_choice.py",
    )
    return hashlib.sha256(b"\0".join((ROOT / name).read_bytes() for name in files)).hexdigest()[:16]


def probe_interpreter(path: str, *modules: str, timeout_s: float = 120.0) -> choice.Probe:
    """Ask one interpreter about itself (`modules`: "torch", "distributions"); never raises.

    A name on PATH proves nothing: version managers leave shims there that exit with an error.
    """
    try:
        done = subprocess.run(
            [path, "-c", PROBE_CODE, *modules],
            capture_output=True,
            text=True,
            timeout=timeout_s,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return choice.Probe(path, f"gave no answer in {timeout_s:.0f} s")
    except OSError as error:
        return choice.Probe(path, f"does not start ({error.strerror})")
    try:
        answer = json.loads(done.stdout.strip().splitlines()[-1])
        distributions = {choice.normalized(n): v for n, v in answer.get("distributions", {}).items()}
        return choice.Probe(
            path,
            "",
            tuple(answer["python"]),
            answer["is_venv"],
            answer["has_ensurepip"],
            answer["has_pip"],
            answer.get("torch_version"),
            answer.get("sees_gpu", False),
            tuple(answer.get("site_folders", ())),
            distributions,
        )
    except (IndexError, KeyError, TypeError, ValueError):
        first_line = (done.stderr.strip().splitlines() or ["no answer"])[0]
        return choice.Probe(path, f"does not run (exit {done.returncode}: {first_line[:100]})")


def _continue_with_newer_python(venv: Path) -> None:
    candidates = choice.candidate_paths(os.environ, shutil.which, os.path.isfile, str(venv))
    plan = choice.choose_plan("cpu", (probe_interpreter(path) for path in candidates), False)
    os.execv(plan.base.path, [plan.base.path, os.path.abspath(__file__), *sys.argv[1:]])


def _still_fits(venv: Path, state: dict[str, Any], mode: str) -> bool:
    """Say whether the environment is complete, where it was made, and made as it is asked for now."""
    wanted_python = choice.asked_python(os.environ, shutil.which)
    is_as_asked = state["mode"] == mode and (
        not wanted_python or wanted_python == state["base"] or wanted_python.startswith(str(venv))
    )
    is_whole = state.get("is_built", False) and state["place"] == str(venv)
    return is_whole and is_as_asked and not probe_interpreter(str(venv / "bin" / "python")).error


def _create(venv: Path, mode: str) -> dict[str, Any]:
    has_gpu = mode != "cpu" and choice.has_nvidia_device(os.path.exists, shutil.which)
    asks_torch = mode == "system" or (mode == "auto" and has_gpu)
    candidates = choice.candidate_paths(os.environ, shutil.which, os.path.isfile, str(venv))
    if asks_torch:
        _say(f"looking for a Python {'whose torch sees the GPU' if has_gpu else 'that has torch'} …")
    modules = ("torch", "distributions") if asks_torch else ()
    plan = choice.choose_plan(mode, (probe_interpreter(path, *modules) for path in candidates), has_gpu)
    base = plan.base
    _say(f"{base.path} (Python {'.'.join(map(str, base.python))}); {plan.why}")
    if plan.warning:
        _say(f"warning: {plan.warning}")
    if venv.exists():
        shutil.rmtree(venv)
    venv.mkdir(parents=True)
    state: dict[str, Any] = {
        "mode": mode,
        "place": str(venv),
        "base": base.path,
        "source": plan.source,
        "torch": base.torch_version if plan.source == "system" else None,
        "must_see_gpu": plan.must_see_gpu,
        "has_gpu": has_gpu,
        "uses_base_pip": not base.has_ensurepip,
        "is_built": False,
        "extras": {},
    }
    write_state(venv, state)  # before anything else: an interrupted build is then known to be ours
    _create_folder(venv, base, plan)
    state["is_built"] = True
    write_state(venv, state)
    return state


def _create_folder(venv: Path, base: choice.Probe, plan: choice.Plan) -> None:
    flags = ["--system-site-packages"] if plan.source == "system" else []
    if not base.has_ensurepip:
        flags.append("--without-pip")  # the base's own pip serves the new environment
    if _run([base.path, "-m", "venv", *flags, str(venv)]) != 0:
        raise choice.ChoiceError(f"{base.path} could not make an environment in {venv}; its reason is above")
    if plan.source != "system":
        return
    constraints = choice.system_constraints((ROOT / "constraints.txt").read_text(encoding="utf-8"), base)
    (venv / "constraints.txt").write_text(constraints, encoding="utf-8")
    if base.is_venv:
        # --system-site-packages reaches past a virtual environment to the Python below; this file names it.
        folder = probe_interpreter(str(venv / "bin" / "python"), "distributions").site_folders[0]
        lines = "\n".join(base.site_folders) + "\n"
        (Path(folder) / "_roofline_base.pth").write_text(lines, encoding="utf-8")


def _install(venv: Path, extra: str, state: dict[str, Any]) -> None:
    python = str(venv / "bin" / "python")
    pip = [state["base"], "-m", "pip", "--python", python]
    if not state["uses_base_pip"]:
        pip = [python, "-m", "pip"]
    pip_install = [*pip, "--no-input", "--disable-pip-version-check", "install", "--progress-bar", "off"]
    _say(f"installing roofline-bench[{extra}] into {venv} (some minutes the first time) …")
    log = venv / "pip.log"
    log.unlink(missing_ok=True)
    if state["source"] == "registry":
        _run_pip([*pip_install, "-c", str(ROOT / "constraints.txt"), "-e", f"{ROOT}[{extra}]"], log)
    else:
        # torch is named in no command here, and `--no-deps` keeps our own metadata from asking for it: a vendor's
        # version such as 2.11.0a0+nv26.01 does not satisfy "torch>=2.11", and pip would fetch another one.
        requirements = choice.requirements_without_torch(_project_table(), [extra])
        _run_pip([*pip_install, "-c", str(venv / "constraints.txt"), *requirements], log)
        _run_pip([*pip_install, "--no-deps", "-e", str(ROOT)], log)
    if extra == "dev":
        others = _pyproject()["dependency-groups"]["other-plugins"]
        target = ["--no-deps", "--upgrade", "--target", str(venv / "other-plugins")]
        _run_pip([*pip_install, "-c", str(ROOT / "constraints.txt"), *target, *others], log)


def _pyproject() -> dict[str, Any]:
    import tomllib

    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def _project_table() -> dict[str, Any]:
    table: dict[str, Any] = _pyproject()["project"]
    return table


def _included_extras(extra: str) -> list[str]:
    table = _project_table()
    return [extra, *choice.own_extras(table["name"], table["optional-dependencies"][extra])]


def _check_torch(venv: Path, state: dict[str, Any]) -> None:
    if not state["has_gpu"] and state["source"] == "registry":
        return
    probe = probe_interpreter(str(venv / "bin" / "python"), "torch")
    if state["source"] == "system" and probe.torch_version != state["torch"]:
        raise choice.ChoiceError(
            f"the environment sees torch {probe.torch_version}, not {state['torch']} of {state['base']}; "
            "please report this, and use TORCH=cpu or TORCH=cuda meanwhile"
        )
    if probe.sees_gpu or not state["has_gpu"]:
        return
    problem = f"torch {probe.torch_version} in {venv} does not see the NVIDIA device"
    fix = "name the Python whose torch does: make … TORCH=system PYTHON=/path/to/python"
    if state["must_see_gpu"]:
        raise choice.ChoiceError(f"{problem}; {fix}, or measure the CPU: TORCH=cpu")
    _say(f"warning: {problem}: only the CPU will be measured. To measure the GPU {fix}")


def _run_pip(command: list[str], log: Path) -> None:
    """Run pip with its many lines going to a file; show the ones that matter when it fails."""
    with log.open("a", encoding="utf-8") as stream:
        code = _run(command, stream)
    if code == 0:
        return
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    errors = [line for line in lines if line.startswith(("ERROR", "error:"))] or lines[-5:]
    print("\n".join(errors), file=sys.stderr)
    raise choice.ChoiceError(f"pip failed with exit code {code}; its reason is above, the whole story in {log}")


def _run(command: list[str], output: IO[str] | None = None) -> int:
    # PIP_USER and PIP_TARGET would send packages past the environment, PYTHONHOME would start another library.
    environment = {k: v for k, v in os.environ.items() if k not in ("PIP_USER", "PIP_TARGET", "PYTHONHOME")}
    errors = subprocess.STDOUT if output else None
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, env=environment)
    return done.returncode


def _say(text: str) -> None:
    print(f"venv: {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
