"""The catalog of attention kernels: who runs where, and whose model answers."""

from __future__ import annotations

import pytest

from roofline_model import ATTENTION_KERNELS, UnknownNameError, find_attention_kernel, get_hardware
from roofline_model.expected.attention.flash.versions import TRAITS, why_unavailable
from roofline_model.kernels.attention_kernels import FITTED_MODEL, FLASH_MODELS, newest_flash

CHIPS = ("a100", "l40s", "h100", "b200", "thor", "gb10", "mi300x")
MODELS = {
    "trtllm": ("trtllm", "trtllm", "trtllm", "trtllm", "trtllm", "trtllm", None),
    "fa1": ("fa1", "fa1", "fa1", "fa1", "fa1", "fa1", None),
    "fa2": ("fa2",) * 7,
    "fa3": (None, None, "fa3", None, None, None, None),
    "fa4": (None, None, None, "fa4", "fa4", None, None),
    "cudnn": ("fa2", "fa2", "fa3", "fa4", None, "fa2", None),
    "flashinfer": ("fa2", "fa2", "fa3", "trtllm", None, "fa2", None),
}


@pytest.mark.parametrize("key", MODELS)
def test_the_model_of_each_kernel_on_each_chip(key: str) -> None:
    assert tuple(ATTENTION_KERNELS[key].model_on(get_hardware(chip)) for chip in CHIPS) == MODELS[key]


def test_the_catalog_is_whole() -> None:
    assert set(ATTENTION_KERNELS) == set(MODELS)
    for key, kernel in ATTENTION_KERNELS.items():
        assert kernel.key == key
        assert kernel.source
        assert kernel.versions
        assert {chips.model for chips in kernel.ranges} <= {FITTED_MODEL, *FLASH_MODELS}
        assert all(chips.highest is None or chips.lowest <= chips.highest for chips in kernel.ranges)
    assert {key for key, kernel in ATTENTION_KERNELS.items() if not kernel.has_own_model} == {"cudnn", "flashinfer"}


def test_a_placeholder_runs_every_kernel() -> None:
    b10 = get_hardware("b10")
    assert {key: kernel.model_on(b10) for key, kernel in ATTENTION_KERNELS.items() if key in FLASH_MODELS} == {
        key: key for key in FLASH_MODELS
    }
    assert ATTENTION_KERNELS["cudnn"].model_on(b10) == "fa2"


@pytest.mark.parametrize("chip", CHIPS)
def test_the_flash_model_runs_where_the_catalog_says(chip: str) -> None:
    device = get_hardware(chip)
    for version, traits in TRAITS.items():
        is_known = ATTENTION_KERNELS[version.value].model_on(device) is not None
        assert (why_unavailable(traits, device, 128) is None) == is_known


def test_names() -> None:
    assert find_attention_kernel(" FA3 ").key == "fa3"
    assert find_attention_kernel("TensorRT-LLM").key == "trtllm"
    with pytest.raises(UnknownNameError) as caught:
        find_attention_kernel("fa5")
    assert caught.value.slug == "unknown-attention-kernel"
    assert "fa4" in caught.value.nearest


def test_the_newest_flashattention_of_a_compute_capability() -> None:
    capabilities = ((7, 0), (7, 5), (8, 6), (9, 0), (10, 3), (11, 0), (12, 1))
    assert [newest_flash(capability) for capability in capabilities] == [None, "fa1", "fa2", "fa3", "fa4", "fa4", "fa2"]
