"""Models of answers are built from their dataclasses, whoever else parses meanwhile."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("fastapi")

from reports.api import answer_models
from roofline_model.predictions.product import ProductPrediction


def test_threads_that_read_a_class_at_once_all_get_its_body() -> None:
    answer_models._class_body.cache_clear()
    with ThreadPoolExecutor(8) as pool:
        bodies = list(pool.map(answer_models._class_body, [ProductPrediction] * 24))
    assert all(len(body) == len(bodies[0]) > 1 for body in bodies)
