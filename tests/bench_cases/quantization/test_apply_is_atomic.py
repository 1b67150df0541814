"""A failure anywhere leaves every weight, its identity and its value as they were."""

from __future__ import annotations

import pytest
import torch
from torch import nn

pytest.importorskip("torchao")

from bench_cases.quantization import apply_plan, apply_quantization
from bench_cases.quantization.calibration_data import collect_inputs
from bench_cases.quantization.saved import staging
from roofline_model.core.errors import InvalidValueError, UnsupportedError
from roofline_model.core.finding import finding


class Snapshot:
    """Identity and content of everything a model holds."""

    def __init__(self, model):
        self.model = model
        self.parameters = {name: (value, value.detach().clone()) for name, value in model.named_parameters()}
        self.modules = {name: (module, type(module), dict(vars(module))) for name, module in model.named_modules()}

    def assert_unchanged(self):
        now = dict(self.model.named_parameters())
        assert list(now) == list(self.parameters)
        for name, (parameter, value) in self.parameters.items():
            assert now[name] is parameter, name
            assert torch.equal(parameter, value), name
        assert [name for name, _ in self.model.named_modules()] == list(self.modules)
        for name, (module, kind, attributes) in self.modules.items():
            assert self.model.get_submodule(name) is module
            assert type(module) is kind
            assert set(vars(module)) == set(attributes), name
            assert not module._forward_pre_hooks, name


class InjectedError(RuntimeError):
    pass


def failing_handler(monkeypatch, error, is_meant):
    """Make torchao's INT8 handler raise `error` for the layers that `is_meant(call number, module)` names."""
    from torchao.quantization import quant_api
    from torchao.quantization.quant_api import Int8WeightOnlyConfig

    handler = quant_api._QUANTIZE_CONFIG_HANDLER[Int8WeightOnlyConfig]
    calls = []

    def failing(module, config, **options):
        calls.append(module)
        if is_meant(len(calls), module):
            raise error
        return handler(module, config, **options)

    monkeypatch.setitem(quant_api._QUANTIZE_CONFIG_HANDLER, Int8WeightOnlyConfig, failing)
    return calls


@pytest.mark.parametrize("failing_call", [1, 7, 15])
def test_memory_runs_out_at_a_layer(small_llama, monkeypatch, failing_call):
    calls = failing_handler(monkeypatch, MemoryError("layer seven"), lambda number, module: number == failing_call)
    before = Snapshot(small_llama)
    with pytest.raises(MemoryError):
        apply_quantization(small_llama, "INT8")
    assert len(calls) == failing_call
    before.assert_unchanged()
    monkeypatch.undo()
    assert len(apply_quantization(small_llama, "INT8").quantized) == 15


def test_a_layer_torchao_fails_on_is_kept_with_its_error(small_llama, monkeypatch):
    broken = small_llama.model.layers[1].mlp.up_proj.weight
    failing_handler(
        monkeypatch,
        InjectedError("the kernel\nof layer seven"),
        lambda number, module: module.weight.data_ptr() == broken.data_ptr(),
    )
    before = Snapshot(small_llama)
    with pytest.raises(UnsupportedError, match=r"1 of 15 layers .*InjectedError: the kernel$"):
        apply_quantization(small_llama, "INT8", strict=True)
    before.assert_unchanged()
    result = apply_quantization(small_llama, "INT8")
    assert len(result.quantized) == 14
    layer = result.layer("model.layers.1.mlp.up_proj")
    assert (layer.became, layer.findings) == (
        "BF16",
        (finding("layer-kept-wide", kind="torchao-fails", cause="InjectedError: the kernel"),),
    )
    assert small_llama.model.layers[1].mlp.up_proj.weight is broken


class StubbornLinear(nn.Linear):
    """Refuses a new weight once it is built."""

    is_closed = False

    def __setattr__(self, name, value):
        if name == "weight" and self.is_closed:
            raise InjectedError("read-only")
        super().__setattr__(name, value)


def test_a_module_that_refuses_its_new_weight():
    model = nn.Sequential(nn.Linear(128, 64), nn.Linear(64, 128), StubbornLinear(128, 64), nn.Linear(64, 64)).bfloat16()
    before = Snapshot(model)
    model[2].__dict__["is_closed"] = True
    with pytest.raises(InjectedError):
        apply_quantization(model, "INT8")
    del model[2].__dict__["is_closed"]
    before.assert_unchanged()


def test_calibration_that_fails_half_way(small_llama, token_ids):
    def batches():
        yield token_ids
        raise InjectedError("the data ran out")

    before = Snapshot(small_llama)
    with pytest.raises(InjectedError):
        apply_quantization(small_llama, "INT4", method="AWQ", calibration=batches())
    before.assert_unchanged()


def test_calibration_leaves_hooks_and_mode_alone(small_llama, token_ids):
    small_llama.train()
    before = Snapshot(small_llama)
    assert collect_inputs(small_llama, [], [token_ids]).tokens_count == 24
    before.assert_unchanged()
    assert small_llama.training


def test_a_bad_plan_key_touches_nothing(small_llama):
    before = Snapshot(small_llama)
    with pytest.raises(InvalidValueError, match="15 Linear"):
        apply_plan(small_llama, {"lm_head": "INT8", "model.layers.9.mlp.up_proj": "INT4"})
    before.assert_unchanged()


def test_a_failing_awq_search_touches_nothing(small_llama, token_ids, monkeypatch):
    """The search of all layers together fails, then that of every layer alone."""
    real = staging.quantize_tree
    steps = []

    def failing(root, configs):
        steps.append(configs)
        if len(steps) % 2 == 0:
            raise InjectedError("convert")
        real(root, configs)

    monkeypatch.setattr("bench_cases.quantization.calibrated.quantize_tree", failing)
    before = Snapshot(small_llama)
    result = apply_quantization(small_llama, "INT4", method="AWQ", calibration=[token_ids])
    assert len(steps) == 2 + 2 * 15
    assert not result
    assert {layer.findings for layer in result.layers} == {
        (finding("layer-kept-wide", kind="torchao-fails", cause="InjectedError: convert"),)
    }
    before.assert_unchanged()
