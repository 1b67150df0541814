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


class RooflineUsageError(pytest.UsageError):
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
        """Measure a kernel and store it beside its roofline prediction; see `plugin.pytest_glue.fixtures.RooflineFixture`."""
        yield from load(request.config).fixture(request, benchmark)


class _WithoutBenchmark:
    """The fixture where pytest-benchmark is absent or switched off."""

    @pytest.fixture
    def roofline(self, request: pytest.FixtureRequest) -> Any:
        """Measure a kernel and store it beside its roofline prediction; see `plugin.pytest_glue.fixtures.RooflineFixture`."""
        yield from load(request.config).fixture(request, None)


@pytest.hookimpl(wrapper=True)
def pytest_cmdline_main(config: pytest.Config) -> Any:
    if "ROOFLINE_WORKER" in os.environ:  # started by plugin/isolation/supervisor.py to run single tests
        _own("plugin.isolation.worker").attach(config)
    try:
        return (yield)
    except RooflineUsageError as error:
        print(f"ERROR: {error}", file=sys.stderr)
        return 2


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> Any:
    try:
        if any(n.startswith("roofline_") and v is not None for n, v in vars(session.config.option).items()):
            load(session.config).target  # noqa: B018 - a bad option is said before anything is collected
        return (yield)
    except Exception as error:
        raise _as_usage_error(error) from None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Any:
    try:
        if any("roofline" in getattr(i, "fixturenames", ()) or i.get_closest_marker("roofline") for i in items):
            load(config)
        return (yield)
    except Exception as error:
        raise _as_usage_error(error) from None


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    node.config.stash.setdefault(_xdist_lines, []).extend(getattr(node, "workeroutput", {}).get("roofline", ()))


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    for line in dict.fromkeys(config.stash.get(_xdist_lines, [])):
        terminalreporter.write_line(f"roofline: {line}")


def load(config: pytest.Config) -> Any:
    """Return the hooks object of this session, importing and registering it on first use."""
    if _hooks not in config.stash:
        config.stash[_hooks] = _own("plugin.pytest_glue.hooks").RooflineHooks(config, RooflineUsageError)
        config.pluginmanager.register(config.stash[_hooks], "roofline_hooks")
    return config.stash[_hooks]


def options(config: pytest.Config) -> Any:
    """Return this session's `plugin.run.options.BenchOptions`."""
    return load(config).options


def target(config: pytest.Config) -> Any:
    """Return this session's `plugin.run.target.Target`: which chip, which device, may it measure."""
    return load(config).target


def _as_usage_error(error: Exception) -> Exception:
    errors = sys.modules.get("roofline_model.core.errors")
    return RooflineUsageError(str(error)) if errors and isinstance(error, errors.RooflineError) else error


def _own(name: str) -> Any:
    """Import one of our modules, or say in one line what shadows it."""
    for package in ("roofline_model", "results", "plugin"):
        found = importlib.import_module(package) if importlib.util.find_spec(package) else None
        if getattr(found, "__roofline_bench__", None) is not True:
            where = getattr(found, "__file__", None) or "nothing"
            raise RooflineUsageError(
                f"roofline needs its own package {package!r}, but {where} is found first: rename that one"
            )
    return importlib.import_module(name)
