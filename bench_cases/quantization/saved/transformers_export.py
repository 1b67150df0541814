"""Writes a quantised transformers model as `save_pretrained` would: safetensors and a `quantization_config` per layer.

That is the form transformers' `from_pretrained` reads, and the one vLLM documents for torchao. Packed CPU INT4 has no
such form (pytorch/ao issue 3800) and is refused; `save_quantized` keeps it for this project.
"""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from typing import Any

from torch import nn

from bench_cases.quantization.config_builders import BuildOptions, build_config
from bench_cases.quantization.plans.layer_report import LayerOutcome, QuantizationResult
from bench_cases.quantization.plans.recipes import recipes_of
from bench_cases.quantization.saved.whole_folder import refuse_filled_folder
from bench_cases.quantization.target import Target, read_target
from bench_cases.quantization.torchao_library import load_name
from roofline_model.core.errors import MissingDependencyError, UnsupportedError

SAFETENSORS_CLASSES = (
    "Float8Tensor",
    "Int4Tensor",
    "Int4TilePackedTo4dTensor",
    "Int8Tensor",
    "IntxUnpackedToInt8Tensor",
    "MXTensor",
    "NVFP4Tensor",
)
"""Tensor classes that torchao 0.18 can write as safetensors (torchao.prototype.safetensors)."""


def export_transformers(
    model: nn.Module, folder: str | Path, result: QuantizationResult, *, tokenizer: Any | None = None
) -> Path:
    """Write the model to a new or empty folder that `AutoModelForCausalLM.from_pretrained` loads; return the folder.

    result: what `apply_quantization` returned for this model. Raises `UnsupportedError` for weights that have no
    safetensors form and for a model that is not transformers' own.
    """
    target = refuse_filled_folder(folder)
    if not hasattr(model, "save_pretrained"):
        raise UnsupportedError(f"{type(model).__name__} is not a transformers model: save_quantized keeps any module")
    for layer in result.quantized:
        if layer.tensor not in SAFETENSORS_CLASSES:
            raise UnsupportedError(
                f"{layer.name} is held as {layer.tensor}, which has no safetensors form (pytorch/ao issue 3800): use "
                "save_quantized"
            )
    quantizer = _quantizer(model, result)
    # Set for the time of writing only: with a quantizer, transformers refuses .to(dtype) and other everyday calls.
    config: Any = model.config
    old_values = {
        name: vars(owner).get(name) for owner, name in ((model, "hf_quantizer"), (config, "quantization_config"))
    }
    setattr(model, "hf_quantizer", quantizer)  # noqa: B010 (nn.Module's own type for attributes is too narrow)
    config.quantization_config = quantizer.quantization_config
    try:
        model.save_pretrained(target)  # type: ignore[operator]
    finally:
        _restore(model, "hf_quantizer", old_values["hf_quantizer"])
        _restore(config, "quantization_config", old_values["quantization_config"])
    if tokenizer is not None:
        tokenizer.save_pretrained(target)
    return target


def _quantizer(model: nn.Module, result: QuantizationResult) -> Any:
    """Return transformers' torchao quantizer for the configs that made each layer."""
    try:
        from transformers import TorchAoConfig
        from transformers.quantizers.quantizer_torchao import TorchAoHfQuantizer
    except ImportError:
        raise MissingDependencyError("transformers", "quant", "exporting a model") from None
    many: Any = load_name("torchao.quantization:FqnToConfig")
    target = read_target(next(model.parameters()).device.type)
    configs = OrderedDict((layer.name, _config_of(layer, target)) for layer in result.quantized)
    return TorchAoHfQuantizer(TorchAoConfig(many(configs)), pre_quantized=True)


def _config_of(layer: LayerOutcome, target: Target) -> Any:
    recipe = next(recipe for recipe in recipes_of(layer.became, target.device) if recipe.kernel == layer.kernel)
    return build_config(recipe, layer.group_size, target, BuildOptions(use_hqq=layer.method == "HQQ"))


def _restore(owner: Any, name: str, value: Any) -> None:
    if value is None:
        vars(owner).pop(name, None)
    else:
        setattr(owner, name, value)
