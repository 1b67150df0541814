from __future__ import annotations

import pytest


@pytest.fixture
def tied_llama():
    pytest.importorskip("torchao")
    pytest.importorskip("transformers")
    from bench_cases.models.sources import seeded_llama

    return seeded_llama("seeded-llama-1m-tied")


@pytest.fixture(scope="session")
def token_ids():
    torch = pytest.importorskip("torch")
    return torch.randint(0, 512, (1, 24), generator=torch.Generator().manual_seed(3))
