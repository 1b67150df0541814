"""The pytest plugin's entry: options, the `roofline` fixture and marker. Standard library and pytest only.

Everything else (`plugin`, `results`, numpy) is imported on first use of the fixture, the marker or an option: a suite
that does not use us is untouched, even one with its own `plugin` or `results`. Names: docs/development/decisions/0001.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from typing import Any

import pytest

from roofline_pytest_options import OPTIONS

_hooks: pytest.StashKey[Any] = pytest.StashKey()
_xdist_lines: pytest.StashKey[list[str]] = pytest.StashKey()
_OPTION_NAMES = tuple(flag.lstrip("-").replace("-", "_") for flag, _ in OPTIONS)


class RooflineUsageError(pytest.UsageError):  # type: ignore[misc]  # final for type checkers; nothing else ends so
    """Bad input to one of our options: one line, exit code 2."""


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    group = parser.getgroup("roofline", "roofline: predict, measure and compare kernels")
    for flag, attributes in OPTIONS:
        group.addoption(flag, **{"default": None, **attributes})
    # Loaded by a conftest.py (a checkout that is not installed): the hook below has passed already.
    if any(getattr(p, "__name__", "").rpartition(".")[2] == "conftest" for p in pluginmanager.get_plugins()):
        _add_short_form(parser)


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(parser: pytest.Parser) -> Any:
    try:
        return (yield)
    finally:
        _add_short_form(parser)  # after the conftest files, so that a suite's own --hw wins


def _add_short_form(parser: pytest.Parser) -> None:
    if not any("--hw" in option.names() for group in parser._groups for option in group.options):
        attributes = {**dict(OPTIONS)["--roofline-hw"], "default": None, "help": "Short form of --roofline-hw."}
        parser.getgroup("roofline").addoption("--hw", **attributes)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "roofline(work=…, name=…, tolerance=…, threshold=…): defaults of the test's roofline.measure"
    )
    fixtures = _WithBenchmark if config.pluginmanager.hasplugin("benchmark") else _WithoutBenchmark
    config.pluginmanager.register(fixtures(), "roofline_fixture")


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
    if _is_worker(os.environ.get("ROOFLINE_WORKER", "")):
        _own("plugin.isolation.worker").attach(config)
    try:
        return (yield)
    except RooflineUsageError as error:
        print(f"ERROR: {error}", file=sys.stderr)
        return 2


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> Any:
    try:
        if any(getattr(session.config.option, name, None) is not None for name in _OPTION_NAMES):
            load(session.config).target  # noqa: B018 - a bad option is said before anything is collected
        return (yield)
    except Exception as error:
        raise _as_usage_error(error) from None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Any:
    try:
        if any(map(is_ours, items)):
            load(config)
        return (yield)
    except Exception as error:
        raise _as_usage_error(error) from None


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    node.config.stash.setdefault(_xdist_lines, []).extend(
        getattr(node, "workeroutput", {}).get("roofline_bench_lines", ())
    )


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    lines = config.stash.get(_xdist_lines, [])
    for line in dict.fromkeys(lines):
        terminalreporter.write_line(f"roofline: {line}")


def load(config: pytest.Config) -> Any:
    """Return the hooks object of this session, importing and registering it on first use."""
    if _hooks not in config.stash:
        config.stash[_hooks] = _own("plugin.pytest_glue.hooks").RooflineHooks(config, RooflineUsageError)
        config.pluginmanager.register(config.stash[_hooks], "roofline_hooks")
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


def _is_worker(value: str) -> bool:
    """Return whether plugin/isolation/supervisor.py started this process: three descriptors and the parent's number."""
    parts = value.split(",")
    return len(parts) == 4 and all(p.isdecimal() for p in parts) and int(parts[3]) == os.getppid()


def _as_usage_error(error: Exception) -> Exception:
    errors = sys.modules.get("roofline_model.core.errors")
    return RooflineUsageError(str(error)) if errors and isinstance(error, errors.RooflineError) else error


def _own(name: str) -> Any:
    """Import one of our modules, or say in one line what shadows it."""
    for package in ("roofline_model", "results", "plugin"):
        module = importlib.import_module(package) if importlib.util.find_spec(package) else None
        if getattr(module, "__roofline_bench__", None) is not True:
            where = getattr(module, "__file__", None) or "nothing"
            raise RooflineUsageError(
                f"roofline needs its own package {package!r}, but {where} is found first: rename that one"
            )
    return importlib.import_module(name)
