"""Suites that do not use us are untouched, whatever they call their own packages and options."""

from __future__ import annotations

import sys
import textwrap

import pytest

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
    monkeypatch.setenv("ROOFLINE_WORKER", "1")
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


def test_a_worker_variable_that_is_not_our_supervisors_is_ignored(pytester, monkeypatch):
    pytester.makepyfile("def test_theirs():\n    pass\n")
    for value in ("", "1", "a,b,c,d", "1,2,3,4", "3,4,5,99999999999999999999"):
        monkeypatch.setenv("ROOFLINE_WORKER", value)
        result = pytester.runpytest_inprocess()
        result.assert_outcomes(passed=1)
