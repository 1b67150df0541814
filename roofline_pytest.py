"""The pytest plugin's entry: options, the `roofline` fixture and marker. Standard library and pytest only.

Everything else (`plugin`, `results`, numpy) is imported on first use of the fixture, the marker or an option: a suite
that does not use us is untouched, even one with its own `plugin` or `results`. Names: docs/development/decisions/0001.

A worker imports it before pytest runs, and has no assertion to rewrite in it: PYTEST_DONT_REWRITE.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

import pytest

from roofline_pytest_options import OPTIONS, add_options, option_name, withdraw_options

_hooks: pytest.StashKey[Any] = pytest.StashKey()
_xdist_lines: pytest.StashKey[list[str]] = pytest.StashKey()


class RooflineUsageError(pytest.UsageError):  # type: ignore[misc]  # final for type checkers; nothing else ends so
    """Bad input to one of our options: one line, exit code 2."""


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    # Loaded by a conftest.py (a checkout that is not installed): the hook below has passed already.
    is_last = any(map(_is_conftest, pluginmanager.get_plugins()))
    add_options(parser, {} if is_last else {"nargs": "?"})  # theirs of that name may be a flag


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(parser: pytest.Parser) -> Any:
    # A suite's own --hw or --roofline-db wins: ours step back while the conftest files add theirs.
    withdraw_options(parser)
    try:
        return (yield)
    finally:
        add_options(parser, {})


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "roofline(work=…, name=…, tolerance=…, threshold=…): defaults of the test's roofline.measure"
    )
    for flag, _ in OPTIONS:
        vars(config.option).setdefault(option_name(flag), None)  # somebody else's option has that name
    if not any(map(_has_own_fixture, config.pluginmanager.get_plugins())):
        fixtures = _WithBenchmark if config.pluginmanager.hasplugin("benchmark") else _WithoutBenchmark
        config.pluginmanager.register(fixtures())


def _has_own_fixture(plugin: object) -> bool:
    """Return whether another plugin has a fixture called `roofline`, which ours, registered later, would hide."""
    fixture = inspect.getattr_static(plugin, "roofline", None)
    is_fixture = type(fixture).__name__ == "FixtureFunctionDefinition" or hasattr(fixture, "_pytestfixturefunction")
    return is_fixture and not _is_conftest(plugin)  # a conftest.py is nearer to the tests, and may wrap ours


def _is_conftest(plugin: object) -> bool:
    return str(getattr(plugin, "__name__", "")).rpartition(".")[2] == "conftest"


class _WithBenchmark:
    """The fixture where pytest-benchmark is active: requesting `benchmark` lets its own options see our tests."""

    @pytest.fixture
    def roofline(self, request: pytest.FixtureRequest, benchmark: Any) -> Any:
        """Measure a kernel and store it beside its roofline prediction; see
        `plugin.pytest_glue.fixtures.RooflineFixture`.
        """
        yield from load(request.config).fixture(request, benchmark)


class _WithoutBenchmark:
    """The fixture where pytest-benchmark is absent or switched off."""

    @pytest.fixture
    def roofline(self, request: pytest.FixtureRequest) -> Any:
        """Measure a kernel and store it beside its roofline prediction; see
        `plugin.pytest_glue.fixtures.RooflineFixture`.
        """
        yield from load(request.config).fixture(request, None)


@pytest.hookimpl(wrapper=True)
def pytest_cmdline_main(config: pytest.Config) -> Any:
    try:
        return (yield)
    except RooflineUsageError as error:
        print(f"ERROR: {error}", file=sys.stderr)
        return 2


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> Any:
    try:
        if any(getattr(session.config.option, option_name(flag)) is not None for flag, _ in OPTIONS):
            load(session.config).target  # noqa: B018 - a bad option is said before anything is collected
        return (yield)
    except Exception as error:
        raise _as_usage_error(error) from None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Any:
    try:
        if any(map(is_ours, items)) or _hooks in config.stash:
            load(config)
            for package in _OursFirst.PACKAGES:
                _refuse_clash(package)  # the collected files may have brought one
    except Exception as error:
        _stop(config, items, error)
    try:
        return (yield)
    except Exception as error:
        _stop(config, items, error)


def _stop(config: pytest.Config, items: list[pytest.Item], error: Exception) -> None:
    """End the session with an error of the collection; under xdist the controller raises it, once for all workers."""
    usage_error = _as_usage_error(error)
    if not isinstance(usage_error, RooflineUsageError) or not hasattr(config, "workeroutput"):
        raise usage_error from None
    config.workeroutput["roofline_bench_error"] = str(usage_error)
    items.clear()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    workeroutput = getattr(node, "workeroutput", {})
    if "roofline_bench_error" in workeroutput:
        raise RooflineUsageError(workeroutput["roofline_bench_error"])
    node.config.stash.setdefault(_xdist_lines, []).extend(workeroutput.get("roofline_bench_lines", ()))


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    lines = config.stash.get(_xdist_lines, [])
    for line in dict.fromkeys(lines):
        terminalreporter.write_line(f"roofline: {line}")


def load(config: pytest.Config) -> Any:
    """Return the hooks object of this session, importing and registering it on first use."""
    if _hooks not in config.stash:
        config.stash[_hooks] = _own("plugin.pytest_glue.hooks").RooflineHooks(config, RooflineUsageError)
        config.pluginmanager.register(config.stash[_hooks])
    return config.stash[_hooks]


def is_ours(item: pytest.Item) -> bool:
    """Return whether an item uses our `roofline` fixture, also through a fixture of that name that wraps ours.

    The name alone says nothing: another suite may have its own fixture, parameter or marker called `roofline`.
    """
    definitions = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {}).get("roofline", ())
    for definition in reversed(definitions):  # the nearest override is last
        if definition.func.__module__ == __name__:
            return True
        if "roofline" not in definition.argnames:
            return False
    return False


def options(config: pytest.Config) -> Any:
    """Return this session's `plugin.run.options.BenchOptions`."""
    return load(config).options


def target(config: pytest.Config) -> Any:
    """Return this session's `plugin.run.target.Target`: which chip, which device, may it measure."""
    return load(config).target


def run_worker(
    arguments: list[str], folder: str, environment: dict[str, str], start: bytes, pipe: Any, crash: Any, output: Any
) -> None:
    """Be a worker of `plugin.isolation.supervisor` in this process, which it has spawned for that."""
    os.setsid()  # Ctrl-C is the parent's to handle, and what a test forks dies with the group
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    if output is not None:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    sys.exit(int(pytest.main(arguments, plugins=[_Worker(start, pipe, crash)])))


class _Worker:
    """Turns a pytest into a worker before it is configured."""

    def __init__(self, start: bytes, pipe: Any, crash: Any) -> None:
        self._given = start, pipe, crash

    @pytest.hookimpl(tryfirst=True)
    def pytest_cmdline_main(self, config: pytest.Config) -> None:
        _own("plugin.isolation.worker").attach(config, *self._given)


def _as_usage_error(error: Exception) -> Exception:
    errors = sys.modules.get("roofline_model.core.errors")
    return RooflineUsageError(str(error)) if errors and isinstance(error, errors.RooflineError) else error


class _OursFirst:
    """Finds our packages in the folder of this file, wherever it is installed.

    On `sys.path` a folder of data called `results` stands before an editable installation, whose finder is asked last.
    """

    PACKAGES = ("roofline_model", "results", "plugin")

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
        """Find our packages here, and what they lack in the folders of their names on `sys.path`."""
        package, _, inner = name.partition(".")
        if package not in _OursFirst.PACKAGES or "." in inner:
            return None
        if not inner:
            return PathFinder.find_spec(name, [os.path.dirname(os.path.abspath(__file__))])
        is_asked_of_ours = path == getattr(sys.modules.get(package), "__path__", None)
        if not is_asked_of_ours or PathFinder.find_spec(name, path):
            return None  # ours is found as ever, and pytest may ask for a test in a folder called `results`
        return PathFinder.find_spec(name, [os.path.join(folder, package) for folder in sys.path])


def _own(name: str) -> Any:
    """Import one of our modules ahead of every folder of its name, or say in one line which module clashes with it."""
    if _OursFirst not in sys.meta_path:
        sys.meta_path.insert(0, _OursFirst)
    for package in _OursFirst.PACKAGES:
        _refuse_clash(package)
        if not hasattr(sys.modules.get(package), "__roofline_bench__"):
            folder = sys.modules.pop(package, None)  # imported as a module without a file; what lies in it stays
            inner = {key: value for key, value in vars(folder).items() if inspect.ismodule(value)} if folder else {}
            vars(importlib.import_module(package)).update(inner)
    return importlib.import_module(name)


def _refuse_clash(package: str) -> None:
    """Raise for a real module of our package's name that is imported, or that would be found without us."""
    finders = (finder for finder in sys.meta_path if finder is not _OursFirst and hasattr(finder, "find_spec"))
    specs = (finder.find_spec(package, None) for finder in finders)
    origins = (spec.origin for spec in specs if spec is not None)
    for file in (getattr(sys.modules.get(package), "__file__", None), next(filter(None, origins), None)):
        if file and not os.path.isdir(file) and b"__roofline_bench__" not in Path(file).read_bytes():
            raise RooflineUsageError(
                f"roofline needs its own package {package!r}, but {file} is found first: rename that one"
            )
