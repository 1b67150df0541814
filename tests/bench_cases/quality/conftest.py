from __future__ import annotations

from contextlib import contextmanager

import pytest


@pytest.fixture(scope="session")
def few_windows():
    """Eight windows of 24 random tokens."""
    pytest.importorskip("torch")
    from bench_cases.quality import synthetic_windows

    return synthetic_windows(512, windows_count=8, window_elems=24, seed=1)


@pytest.fixture
def untouched():
    """A block after which a model must be what it was: values, parameter objects, modes, hooks, gradients."""
    torch = pytest.importorskip("torch")

    def look(model):
        return {
            "parameters": [
                (name, id(p), p.requires_grad, p.grad) for name, p in model.named_parameters(remove_duplicate=False)
            ],
            "modes": [module.training for module in model.modules()],
            "hooks": [
                (len(m._forward_hooks), len(m._forward_pre_hooks), len(m._backward_hooks), "forward" in m.__dict__)
                for m in model.modules()
            ],
        }

    @contextmanager
    def block(*models):
        before = [look(model) for model in models]
        values = [{name: tensor.clone() for name, tensor in model.state_dict().items()} for model in models]
        state = torch.get_rng_state()
        try:
            yield
        finally:
            for model, was, held in zip(models, before, values, strict=True):
                assert look(model) == was
                now = model.state_dict()
                assert list(now) == list(held)
                assert all(torch.equal(now[name].view(torch.uint8), held[name].view(torch.uint8)) for name in held)
            assert torch.equal(torch.get_rng_state(), state)

    return block
