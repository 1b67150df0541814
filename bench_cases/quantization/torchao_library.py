"""The one door to torchao: imported late (it takes seconds), without the warnings about libraries it cannot load."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from roofline_model.core.errors import MissingDependencyError, UnsupportedError


def has_torchao() -> bool:
    """Whether torchao is installed; imports nothing."""
    return importlib.util.find_spec("torchao") is not None


@contextmanager
def quiet_imports() -> Iterator[None]:
    """Keep the lines off the screen that importing torchao (or transformers, which imports it) logs.

    A build for another CUDA version logs one line per extension it cannot load, and torch one per enum that torchao
    registers the old way. What is really missing shows in the recipe that is chosen.
    """
    loggers = [logging.getLogger(name) for name in ("torchao", "torch.utils._pytree")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def load_torchao(purpose: str) -> ModuleType:
    """Import torchao and return it. Raises `MissingDependencyError` when it is absent."""
    if not has_torchao():
        raise MissingDependencyError("torchao", "quant", purpose)
    with quiet_imports():
        return importlib.import_module("torchao")


def load_name(path: str) -> object:
    """Return `module:name` of torchao. A name that this version lacks is an `UnsupportedError` with the version."""
    module_name, _, name = path.partition(":")
    torchao = load_torchao(f"quantizing with {name}")
    try:
        with quiet_imports():
            return getattr(importlib.import_module(module_name), name)
    except (ImportError, AttributeError):
        version = getattr(torchao, "__version__", "of unknown version")
        raise UnsupportedError(
            f"torchao {version} has no {name} in {module_name}; this project is tested with 0.18: pip install "
            "'torchao>=0.18'"
        ) from None
