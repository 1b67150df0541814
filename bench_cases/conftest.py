"""Turns the options into test cases: one item per case, with its id. Collecting imports neither torch nor numpy."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from bench_cases.kernels.spec import CaseSpec
from bench_cases.selection import products_only, selected_cases
from roofline_model.errors import RooflineError

_CASES: pytest.StashKey[list[CaseSpec]] = pytest.StashKey()


def pytest_sessionstart(session: pytest.Session) -> None:
    """Build all cases before collection, so that a wrong option is a one-line error and not one error per file."""
    _cases(session.config)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test with a `spec` argument the cases of the operator in its name (`test_gemv`: gemv)."""
    if "spec" not in metafunc.fixturenames:
        return
    op = metafunc.function.__name__.removeprefix("test_")
    try:
        specs = [spec for spec in _cases(metafunc.config) if spec.case.op == op]
    except RooflineError as error:  # `pytest --pyargs bench_cases` loads this file after pytest_sessionstart
        raise pytest.Collector.CollectError(str(error)) from None
    metafunc.parametrize("spec", specs, ids=[spec.case.id for spec in specs])


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Drop the placeholder that pytest makes for an operator without cases: a chosen shape set may hold one only."""
    items[:] = [item for item in items if not _is_placeholder(item)]


def pytest_report_collectionfinish(config: pytest.Config, items: list[pytest.Item]) -> str | list[str]:
    """Say that sizes of products select products alone, unless products are what `-k` asked for."""
    plugin = config.pluginmanager.get_plugin("roofline_pytest")
    if plugin is None or (config.option.keyword and items):
        return []
    return products_only(plugin.options(config).shapes) or []


@pytest.fixture(autouse=True)
def _release_device_memory() -> Iterator[None]:
    """Give a finished case's blocks back to the CUDA driver: the next one has other sizes."""
    yield
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def _cases(config: pytest.Config) -> list[CaseSpec]:
    found = config.stash.get(_CASES, None)
    if found is None:
        plugin = config.pluginmanager.get_plugin("roofline_pytest")
        if plugin is None:
            raise pytest.UsageError(
                "bench_cases needs the pytest plugin roofline_pytest: pip install 'roofline-bench[measure]'"
            )
        options = plugin.options(config)
        device = plugin.target(config).device
        found = selected_cases(options.shapes, device, options.formats, options.cache, options.modes)
        config.stash[_CASES] = found
    return found


def _is_placeholder(item: pytest.Item) -> bool:
    callspec = getattr(item, "callspec", None)
    return callspec is not None and "spec" in callspec.params and not isinstance(callspec.params["spec"], CaseSpec)
