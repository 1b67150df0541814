"""Models of answers have the words of their dataclasses, whoever asks at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("fastapi")

from reports.api.http.app import create_app
from results.records.records import RunInfo


def test_threads_that_ask_at_once_get_one_document_with_every_word():
    app = create_app()
    with ThreadPoolExecutor(8) as pool:
        documents = list(pool.map(lambda _: app.openapi(), range(16)))
    assert all(document is documents[0] for document in documents)
    schemas = documents[0]["components"]["schemas"]
    assert schemas["RunInfo"]["description"].startswith((RunInfo.__doc__ or "").split(".")[0])
    fields = schemas["ProductPrediction"]["properties"]
    assert fields["M"]["description"] == "Rows of A and C, count."  # of its own
    assert fields["time_s"]["description"]  # of a class that it extends
