"""Turns the options into test cases: one item per case, with its id. Collecting imports neither torch nor numpy."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from bench_cases.kernels.spec import CaseSpec
from bench_cases.models.model_cases import ModelCase, model_cases
from bench_cases.models.reference import find_model
from bench_cases.selection import Family, family_cases, family_of, products_only
from roofline_model.core.errors import RooflineError
from roofline_model.core.finding import optional_text

_MODEL_CASES: pytest.StashKey[list[ModelCase]] = pytest.StashKey()
_CASES: pytest.StashKey[dict[Family, Sequence[CaseSpec]]] = pytest.StashKey()


def pytest_sessionstart(session: pytest.Session) -> None:
    """Build cases before collection, so that a wrong option is a one-line error and not one error per file.

    Those of products and models know every option; the others are built for the files that are collected.
    """
    _cases(session.config, "products")
    if _plugin(session.config).options(session.config).is_model_given:
        _model_cases(session.config)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test with a `spec` argument the cases of the operator in its name (`test_gemv`: gemv), `model_case` the
    models'.
    """
    if "model_case" in metafunc.fixturenames:
        try:
            cases = _model_cases(metafunc.config)
        except RooflineError as error:
            raise pytest.Collector.CollectError(str(error)) from None
        metafunc.parametrize("model_case", cases, ids=[case.id for case in cases])
        return
    if "spec" not in metafunc.fixturenames:
        return
    op = metafunc.function.__name__.removeprefix("test_")
    try:
        specs = [spec for spec in _cases(metafunc.config, family_of(op)) if spec.case.op == op]
    except RooflineError as error:  # `pytest --pyargs bench_cases` loads this file after pytest_sessionstart
        raise pytest.Collector.CollectError(str(error)) from None
    metafunc.parametrize("spec", specs, ids=[spec.case.id for spec in specs])


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Drop the placeholder that pytest makes for an operator without cases: a chosen shape set may hold one only."""
    items[:] = [item for item in items if not _is_placeholder(item)]


def pytest_report_collectionfinish(config: pytest.Config, items: list[pytest.Item]) -> str | list[str]:
    """Report that sizes of products select products only, unless `-k` selects products."""
    plugin = config.pluginmanager.get_plugin("roofline_pytest")
    if plugin is None or (config.option.keyword and items):
        return []
    return optional_text(products_only(plugin.options(config).shapes)) or []


@pytest.fixture(autouse=True)
def _release_device_memory() -> Iterator[None]:
    """Give a finished case's blocks back to the CUDA driver: the next one has other sizes."""
    yield
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def _cases(config: pytest.Config, family: Family) -> Sequence[CaseSpec]:
    families = config.stash.setdefault(_CASES, {})
    if family not in families:
        options = _plugin(config).options(config)
        device = _plugin(config).target(config).device
        families[family] = family_cases(family, options.shapes, device, options.formats, options.cache, options.modes)
    return families[family]


def _model_cases(config: pytest.Config) -> list[ModelCase]:
    cases = config.stash.get(_MODEL_CASES, None)
    if cases is None:
        options, device = _plugin(config).options(config), _plugin(config).target(config).device
        cases = model_cases(
            find_model(options.model),
            device,
            options.shapes,
            formats=options.model_formats,
            batches=options.batches,
            contexts=options.contexts,
            kv_formats=options.kv_formats,
            plan_paths=options.plan_paths,
            method=options.method,
            is_compiled=options.compile,
            modes=options.modes,
        )
        config.stash[_MODEL_CASES] = cases
    return cases


def _plugin(config: pytest.Config) -> Any:
    plugin = config.pluginmanager.get_plugin("roofline_pytest")
    if plugin is None:
        raise pytest.UsageError("bench_cases needs the pytest plugin roofline_pytest: pip install -e '.[measure]'")
    return plugin


def _is_placeholder(item: pytest.Item) -> bool:
    callspec = getattr(item, "callspec", None)
    if callspec is None:
        return False
    kinds = {"spec": CaseSpec, "model_case": ModelCase}
    return any(name in callspec.params and not isinstance(callspec.params[name], kind) for name, kind in kinds.items())
