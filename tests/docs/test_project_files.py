"""pyproject.toml, constraints.txt, the installer and CI say the same things."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def direct_requirements() -> dict[str, Requirement]:
    lines = [*PROJECT["dependencies"], *(line for extra in PROJECT["optional-dependencies"].values() for line in extra)]
    requirements = [Requirement(line) for line in lines]
    return {canonicalize_name(r.name): r for r in requirements if canonicalize_name(r.name) != PROJECT["name"]}


def pins() -> dict[str, Requirement]:
    lines = [line.split("#")[0].strip() for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()]
    requirements = [Requirement(line) for line in lines if line]
    assert len({canonicalize_name(r.name) for r in requirements}) == len(requirements), "a package is pinned twice"
    return {canonicalize_name(r.name): r for r in requirements}


def test_every_direct_dependency_is_pinned_inside_its_range():
    wrong = []
    for name, requirement in direct_requirements().items():
        pin = pins().get(name)
        specifiers = list(pin.specifier) if pin else []
        if (
            len(specifiers) != 1
            or specifiers[0].operator != "=="
            or not requirement.specifier.contains(specifiers[0].version)
        ):
            wrong.append(f"{requirement} is pinned as {pin}")
    assert not wrong


def test_pip_accepts_the_pins_as_constraints():
    assert not [str(pin) for pin in pins().values() if pin.extras or pin.url], "pip refuses extras in a constraint file"


def installer_constant(name: str) -> tuple[int, ...]:
    tree = ast.parse((ROOT / "scripts" / "install" / "interpreter_choice.py").read_text(encoding="utf-8"))
    values = [ast.literal_eval(n.value) for n in tree.body if isinstance(n, ast.Assign) and n.targets[0].id == name]
    assert len(values) == 1
    return values[0]


def test_the_installer_knows_the_versions_of_pyproject():
    oldest = ".".join(map(str, installer_constant("OLDEST_PYTHON")))
    newest = ".".join(map(str, installer_constant("NEWEST_TESTED_PYTHON")))
    assert PROJECT["requires-python"] == f">={oldest}"
    versions = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert (versions[0], versions[-1]) == (oldest, newest)
    torch = ".".join(map(str, installer_constant("OLDEST_TESTED_TORCH")))
    assert str(direct_requirements()["torch"].specifier) == f">={torch}"


def test_ci_runs_every_python_we_claim():
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    matrix = re.search(r"python: \[(.*)\]", workflow)
    assert matrix is not None
    claimed = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert re.findall(r"3\.\d+", matrix[1]) == claimed


@pytest.mark.parametrize("path", sorted((ROOT / ".github" / "workflows").glob("*.yml")), ids=lambda path: path.name)
def test_workflows_pin_actions_and_ask_for_little(path):
    text = path.read_text(encoding="utf-8")
    actions = re.findall(r"uses: (.+)", text)
    assert actions
    assert all(re.fullmatch(r"[\w-]+/[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action) for action in actions)
    assert re.search(r"^permissions:\n  contents: read\n(?! )", text, flags=re.MULTILINE)
    assert len(re.findall(r"^    timeout-minutes: \d+$", text, flags=re.MULTILINE)) == len(
        re.findall(r"^    runs-on:", text, flags=re.MULTILINE)
    )


def test_the_ci_script_is_executable_and_parses():
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & 0o111
    subprocess.run(["bash", "-n", str(script)], check=True)


def test_the_license_is_the_whole_apache_license():
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert PROJECT["license"] == "Apache-2.0"
    assert "Version 2.0, January 2004" in text
    assert "9. Accepting Warranty or Additional Liability" in text
    assert "END OF TERMS AND CONDITIONS" in text


def test_versions_are_versions():
    assert Version(PROJECT["version"])
