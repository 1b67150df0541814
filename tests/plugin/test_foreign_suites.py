"""Suites that do not use us are untouched, whatever they call their own packages and options."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

PROBE = """
    import sys
    import pytest
    {imports}

    def test_theirs():
        assert {theirs}

    def test_nothing_of_ours_was_imported():
        ours = {{"numpy", "sqlalchemy", "torch", "roofline_model", "plugin.pytest_glue.hooks", "results.store.store", "reports.page.html"}}
        assert not ours & set(sys.modules)
        for name in ("plugin", "results", "reports"):
            module = sys.modules.get(name)
            assert module is None or getattr(module, "__roofline_bench__", None) is None
"""
OWN = {
    "plugin package": ({"plugin/__init__.py": "WHOSE = 'theirs'"}, "import plugin", "plugin.WHOSE == 'theirs'"),
    "results module": ({"results.py": "WHOSE = 'theirs'"}, "import results", "results.WHOSE == 'theirs'"),
    "reports package": ({"reports/__init__.py": "WHOSE = 'theirs'"}, "import reports", "reports.WHOSE == 'theirs'"),
    "their own --hw": (
        {"conftest.py": "import pytest\ndef pytest_addoption(parser):\n    parser.addoption('--hw', default='theirs')\n"
         "@pytest.fixture(autouse=True)\ndef hw(request):\n    sys_hw['value'] = "
         "request.config.getoption('--hw')\nsys_hw = {}\n"},
        "import os", "os.environ.get('NOTHING') is None",
    ),
    "nothing special": ({}, "import os", "True"),
}  # fmt: skip


def write(pytester, files, imports, theirs):
    for name, text in files.items():
        path = pytester.path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    pytester.makepyfile(test_theirs=PROBE.format(imports=imports, theirs=theirs))


@pytest.mark.parametrize("what", OWN)
@pytest.mark.parametrize("command", [("pytest",), ("python", "-m", "pytest")], ids=["pytest", "python-m"])
def test_foreign_suite_passes_untouched(pytester, what, command, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "")
    write(pytester, *OWN[what])
    if command == ("pytest",):
        pytester.makeini("[pytest]\npythonpath = .")
    import sys
    from pathlib import Path

    program = (
        [str(Path(sys.executable).with_name("pytest"))] if command == ("pytest",) else [sys.executable, "-m", "pytest"]
    )
    result = pytester.run(*program, "-p", "no:cacheprovider", "test_theirs.py")
    result.assert_outcomes(passed=2)


def test_their_hw_wins_and_ours_has_a_long_name(pytester):
    pytester.makeconftest("def pytest_addoption(parser):\n    parser.addoption('--hw', default='none')\n")
    pytester.makepyfile(
        """
        from roofline_model import OpCost

        def test_theirs(request):
            assert request.config.getoption("--hw") == "rack-7"

        def test_ours(roofline):
            assert roofline.hardware.key == "b10"
            roofline.measure(lambda: None, work=OpCost(read_bytes=1e6))
        """
    )
    result = pytester.runpytest_inprocess("--hw", "rack-7", "--roofline-hw", "b10", "--roofline-timer", "simulated")
    result.assert_outcomes(passed=2)


def test_a_suite_that_uses_us_and_shadows_us_is_told_in_one_line(pytester):
    pytester.mkpydir("plugin")
    pytester.makepyfile("def test_ours(roofline):\n    roofline.measure(lambda: None)\n")
    pytester.makeini("[pytest]\npythonpath = .")
    import sys

    result = pytester.run(sys.executable, "-m", "pytest", "--hw", "b10")
    assert result.ret == 2
    (line,) = [line for line in result.stderr.lines if "ERROR" in line]
    assert "needs its own package 'plugin'" in line
    assert "rename" in line


def test_help_imports_nothing_heavy_and_lists_the_options(pytester):
    pytester.makeconftest(
        "import sys\ndef pytest_unconfigure():\n"
        "    print('HEAVY', sorted({'torch', 'numpy', 'sqlalchemy', 'plugin.pytest_glue.hooks', 'pynvml'} & "
        "set(sys.modules)))\n"
    )
    result = pytester.run(sys.executable, "-m", "pytest", "--help")
    result.stdout.fnmatch_lines(["roofline:*", "*--roofline-hw=NAME|FILE|auto*", "*--hw=*", "HEAVY []"])


SAME_NAMES = {
    "fixture": """
        @pytest.fixture
        def roofline():
            return "theirs"

        def test_it(roofline):
            assert roofline == "theirs"
        """,
    "parameter": """
        @pytest.mark.parametrize("roofline", ["red", "green"])
        def test_it(roofline):
            assert roofline in ("red", "green")
        """,
    "indirect parameter": """
        @pytest.fixture
        def roofline(request):
            return request.param

        @pytest.mark.parametrize("roofline", ["red"], indirect=True)
        def test_it(roofline):
            assert roofline == "red"
        """,
    "fixture beneath another": """
        @pytest.fixture
        def roofline():
            return "theirs"

        @pytest.fixture
        def house(roofline):
            return roofline + " too"

        def test_it(house):
            assert house == "theirs too"
        """,
    "marker": """
        @pytest.mark.roofline("tiles", work=12)
        def test_it(request):
            assert request.node.get_closest_marker("roofline").args == ("tiles",)
        """,
    "option": """
        def test_it(request):
            assert request.config.getoption("--roofline-out") == "tiles.txt"
        """,
}
THEIR_OPTION = "def pytest_addoption(parser):\n    parser.addoption('--roofline-out', default='none')\n"


@pytest.mark.parametrize("name", SAME_NAMES)
def test_a_fixture_parameter_marker_or_option_of_our_name_is_theirs(pytester, monkeypatch, name):
    monkeypatch.setenv("ROOFLINE_DB", "mysql://nowhere/at-all")  # read by nobody but a session of ours
    pytester.makeini("[pytest]\naddopts = --strict-markers\nmarkers = roofline: tiles")
    pytester.makeconftest(
        THEIR_OPTION + "import sys\ndef pytest_unconfigure():\n"
        "    print('OURS', sorted({'numpy', 'sqlalchemy', 'plugin.pytest_glue.hooks'} & set(sys.modules)))\n"
    )
    pytester.makepyfile("import pytest\n" + textwrap.dedent(SAME_NAMES[name]))
    result = pytester.run(sys.executable, "-B", "-m", "pytest", "-p", "no:cacheprovider", "--roofline-out", "tiles.txt")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["OURS []"])
    result.stdout.no_fnmatch_line("*roofline:*")
    assert not list(pytester.path.glob("**/.roofline"))


def test_a_fixture_of_that_name_that_wraps_ours_is_ours(pytester):
    pytester.makepyfile(
        """
        import pytest
        from roofline_model import OpCost

        @pytest.fixture
        def roofline(roofline):
            return lambda kernel: roofline.measure(kernel, work=OpCost(read_bytes=1e6))

        @pytest.fixture
        def measured(roofline):
            roofline(lambda: None)

        def test_direct(roofline):
            roofline(lambda: None)

        def test_through_another(measured):
            pass
        """
    )
    result = pytester.runpytest_inprocess("--roofline-hw", "b10", "--roofline-timer", "simulated")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*2 cases*"])


# Folders and modules with the names of our packages, beside a suite that uses us. What is found first is decided when a
# process starts, so each of these starts real ones.

OURS = "from roofline_model import OpCost\n\ndef test_ours(roofline):\n    roofline.measure(lambda: None, work=OpCost(read_bytes=1e6))\n"
MEASURED = ("--hw", "b10", "--roofline-timer", "simulated", "--roofline-processes", "1")


@pytest.fixture(scope="session")
def from_a_wheel(tmp_path_factory):
    """Return a Python in which our wheel is installed, beside the libraries of this one."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        folder / "dist",
        folder / "source",
    ]
    shutil.copytree(
        ROOT,
        folder / "source",
        ignore=lambda _, names: [n for n in names if n.startswith(".") or n in ("tests", "docs", "build")],
    )
    subprocess.run(command, check=True, capture_output=True)
    venv.create(folder / "env", symlinks=True)
    python = folder / "env" / "bin" / "python"
    (site,) = (folder / "env").glob("lib/*/site-packages")
    (wheel,) = (folder / "dist").glob("*.whl")
    zipfile.ZipFile(wheel).extractall(site)
    (site / "libraries.pth").write_text("\n".join(p for p in sys.path if p.endswith("site-packages")))
    return str(python)


@pytest.fixture(params=["editable", pytest.param("wheel", marks=pytest.mark.full)])
def python(request):
    return request.getfixturevalue("from_a_wheel") if request.param == "wheel" else sys.executable


def run_real(pytester, python, *arguments, path=""):
    """Run pytest as the command `pytest` does: the folder it is called from is not on the path."""
    environment = {**os.environ, "PYTHONPATH": path}
    command = [python, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=pytester.path, env=environment, capture_output=True, text=True, check=False)


def folders_of_data(pytester):
    for name in ("results", "plugin", "reports", "roofline_model"):
        pytester.mkdir(name).joinpath("data.csv").write_text("1,2\n")


def test_folders_of_data_with_our_names_stop_neither_pytest_nor_its_workers(pytester, python):
    folders_of_data(pytester)
    (pytester.path / "results" / "tables.py").write_text("ROWS = 3\n")  # a folder may hold modules, too
    pytester.makepyfile(test_suite=OURS + "    import results.tables\n    assert results.tables.ROWS == 3\n")
    done = run_real(pytester, python, *MEASURED, path=str(pytester.path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 measured" in done.stdout


def test_tests_that_lie_in_folders_with_our_names_run_under_xdist(pytester, python):
    folders_of_data(pytester)
    pytester.makeini("[pytest]\naddopts = --import-mode=importlib")  # it imports the folders themselves
    for name in ("plugin", "results"):
        (pytester.path / name / "conftest.py").write_text("")  # before anything says that we are used
        (pytester.path / name / f"test_{name}.py").write_text(OURS)
    done = run_real(pytester, python, "--hw", "b10", "--roofline-timer", "simulated", "-n", "1", "plugin", "results")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


CLASHES = {
    "on the path": ({"results.py": ""}, "", ()),
    "imported by a test": ({"results/__init__.py": "ROWS = 3"}, "from results import ROWS\n", ()),
    "found when an option has brought ours": ({"plugin/__init__.py": ""}, "", MEASURED),
    "under xdist": ({"results.py": ""}, "", ("-n", "2")),
}


@pytest.mark.parametrize("clash", CLASHES)
def test_a_real_module_with_our_name_is_refused_in_one_line_before_any_worker(pytester, python, clash):
    files, imports, options = CLASHES[clash]
    for name, text in files.items():
        path = pytester.path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    pytester.makepyfile(test_suite=imports + OURS.partition("\n")[2])  # the folder of the test goes on the path late
    done = run_real(pytester, python, *options)
    assert done.returncode == 2, done.stdout + done.stderr
    (line,) = [line for line in (done.stdout + done.stderr).splitlines() if "needs its own package" in line]
    assert str(pytester.path / next(iter(files))) in line
    assert "worker" not in done.stdout
    assert "INTERNALERROR" not in done.stdout + done.stderr
    assert not (pytester.path / ".roofline").exists()


def test_options_fixture_and_plugin_of_our_names_are_theirs_wherever_they_are_defined(pytester):
    pytester.makeconftest(
        """
        def pytest_addoption(parser):
            parser.getgroup("roofline").addoption("--roofline-json", default="theirs.json")
            parser.addoption("--roofline-run", action="store_true")
        """
    )
    pytester.makepyfile(
        roofline_fixture="""
        import pytest

        def pytest_addoption(parser):
            parser.addoption("--roofline-db", default="theirs.db")

        @pytest.fixture
        def roofline():
            return "theirs"
        """,
        test_suite="""
        def test_theirs(request, roofline):
            options = request.config.getoption
            assert (options("--roofline-db"), options("roofline_db")) == ("x.db", "x.db")
            assert (options("--roofline-json"), options("roofline_json")) == ("theirs.json", "theirs.json")
            assert options("--roofline-run") is True
            assert roofline == "theirs"
        """,
    )
    command = (sys.executable, "-m", "pytest", "-p", "roofline_fixture", "--roofline-db", "x.db", "--roofline-run")
    result = pytester.run(*command)
    assert result.ret == 0
    result.stdout.no_fnmatch_line("*roofline:*")
    assert not (pytester.path / ".roofline").exists()


def test_a_suites_own_option_is_not_taken_for_ours(pytester):
    pytester.makeconftest("def pytest_addoption(parser):\n    parser.addoption('--roofline-db', default='theirs.db')\n")
    pytester.makepyfile(OURS)
    result = pytester.runpytest_inprocess(
        "--hw", "b10", "--roofline-timer", "simulated", "--roofline-db", "mysql://x/y"
    )
    result.assert_outcomes(passed=1)
    assert (pytester.path / ".roofline" / "results.db").exists()
