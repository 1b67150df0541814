"""A stranger's suite that has each of our names for something of its own: nothing it says or writes differs by a byte.

The same suite runs with our plugin and with `-p no:roofline_pytest`; what is compared are the exit code, every line it
prints, its JUnit file and every file in its folder, times apart.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

CONFTEST = """
import pytest

def pytest_addoption(parser):
    parser.addoption("--roofline-out", default="none")
    parser.addini("roofline", "theirs", default="tiles")

def pytest_configure(config):
    config.addinivalue_line("markers", "roofline(text): theirs")
"""
SUITES = {
    "fixture": """
        import pytest

        @pytest.fixture
        def roofline(tmp_path):
            (tmp_path / "out").write_text("theirs")
            return "theirs"

        @pytest.mark.parametrize("number", range(3))
        def test_fixture(roofline, number):
            assert roofline == "theirs"

        def test_fails(roofline):
            assert roofline == "ours"
        """,
    "marker": """
        import pytest

        @pytest.mark.roofline("tiles")
        def test_marker(request):
            assert request.node.get_closest_marker("roofline").args == ("tiles",)
        """,
    "option": """
        def test_option(request):
            assert request.config.getoption("--roofline-out") == "tiles.txt"
            assert request.config.getini("roofline") == "tiles"
        """,
    "package": """
        import plugin, reports, results, roofline_model

        def test_packages():
            assert {module.WHOSE for module in (plugin, reports, results, roofline_model)} == {"theirs"}
        """,
    "environment": """
        import os

        def test_environment():
            assert os.environ["ROOFLINE_DB"] == "mysql://nowhere/at-all"
            print("printed by the test")
        """,
}
VARIABLES = {
    "ROOFLINE_DB": "mysql://nowhere/at-all",
    "ROOFLINE_PROFILED": "1",
    "ROOFLINE_TOKEN": "x",
}


def suite(folder, names):
    folder.mkdir()
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\npythonpath = .\n")
    for name in names:
        text = SUITES[name].replace("\n        ", "\n")
        (folder / f"test_{name}.py").write_text(text)
    if "package" in names:
        for module in ("plugin", "reports", "results", "roofline_model"):
            (folder / f"{module}.py").write_text("WHOSE = 'theirs'\n")
    return folder


def left_by(folder, *options):
    """Run the suite; return its exit code, what it printed and every file there is afterwards, without times."""
    command = [sys.executable, "-B", "-m", "pytest", "--no-header", "-rA", "-p", "no:cacheprovider", *options]
    command += ["--roofline-out", "tiles.txt", "--junitxml", "junit.xml", "--basetemp", "theirs-temporary"]
    environment = {**os.environ, **VARIABLES, "PYTHONPATH": ""}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False)
    files = {
        str(path.relative_to(folder)): timeless(path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    (folder / "junit.xml").unlink()
    return done.returncode, timeless(done.stdout), timeless(done.stderr), files


def timeless(data):
    return re.sub(rb'\d+\.\d+s|time(stamp)?="[^"]*"', b"T", data)


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(tuple(SUITES), id="all"),
        *(pytest.param((name,), id=name, marks=pytest.mark.full) for name in SUITES),
    ],
)
def test_a_suite_with_our_names_is_untouched_to_the_byte(tmp_path, names):
    folder = suite(tmp_path / "theirs", names)
    without = left_by(folder, "-p", "no:roofline_pytest")
    assert left_by(folder) == without
    assert without[0] == (1 if "fixture" in names else 0)
    assert b"passed" in without[1]
