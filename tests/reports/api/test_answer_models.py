"""Models of answers are built from their dataclasses, whoever else parses meanwhile."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("fastapi")

from reports.api import answer_models
from roofline_model.predictions.product import ProductPrediction


def test_threads_that_read_a_module_at_once_all_get_its_classes() -> None:
    answer_models._classes.cache_clear()
    with ThreadPoolExecutor(8) as pool:
        modules = list(pool.map(answer_models._classes, [ProductPrediction.__module__] * 24))
    assert all("ProductPrediction" in classes for classes in modules)
