from __future__ import annotations

import importlib.util

import pytest


@pytest.fixture(autouse=True, scope="session")
def _one_torch_thread():
    """Small products gain nothing from threads, and on a busy machine they wait for each other at every barrier."""
    if importlib.util.find_spec("torch") is None:
        yield
        return
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def small_llama():
    """A fresh one-million-parameter Llama in BF16, untied, with 512 tokens."""
    pytest.importorskip("torchao")
    pytest.importorskip("transformers")
    from bench_cases.models.sources import seeded_llama

    return seeded_llama("seeded-llama-1m")
