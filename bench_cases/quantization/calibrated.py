"""Methods that do more than round to the nearest code: AWQ (needs activations) and HQQ (weights only), as torchao has
them.

AWQ (Lin et al., 2023) scales the input channels of a weight before it is quantised, by a power of their mean activation
that is searched per layer; torchao multiplies the activation by the inverse in every call. HQQ (Badri and Shaji, 2023)
moves zero points to minimise the weight error. torchao's GPTQ runs on CUDA only, and for INT4 wants a package that the
registry lacks: it is refused by name, not imitated.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from torch import nn

from bench_cases.quantization.calibration_data import Batch, LayerInputs, collect_inputs
from bench_cases.quantization.config_builders import BuildOptions, build_config
from bench_cases.quantization.failures import cause_of, is_memory_short
from bench_cases.quantization.plans.layer_plan import LayerDecision
from bench_cases.quantization.plans.layer_report import ROUND_TO_NEAREST
from bench_cases.quantization.plans.plans import fqn_config
from bench_cases.quantization.plans.recipes import METHOD_PRECISIONS
from bench_cases.quantization.saved.staging import place_stand_in, quantize_tree, stand_in_name, stand_in_tree
from bench_cases.quantization.torchao_library import load_name
from roofline_model.core.errors import InvalidValueError, RooflineError, UnsupportedError
from roofline_model.core.finding import Finding, finding

METHODS = (ROUND_TO_NEAREST, *METHOD_PRECISIONS)
"""Layers whose precision a method does not exist for (`METHOD_PRECISIONS`) are rounded to nearest, and say so."""
AWQ_SCALES_SEARCHED = 20


def parse_method(text: str) -> str:
    """Return the method's name; `rtn` and the recommendations' `PTQ` and `none` mean round-to-nearest."""
    method_key = text.strip().lower() if isinstance(text, str) else ""
    if method_key in ("rtn", "ptq", "none", "weight_only", ROUND_TO_NEAREST):
        return ROUND_TO_NEAREST
    if method_key == "gptq":
        raise UnsupportedError(
            "torchao's GPTQ runs on CUDA only, and for INT4 needs mslk ≥ 1.0, which no registry has: use method='AWQ' "
            "or 'HQQ'"
        )
    for method in METHODS:
        if method_key == method.lower():
            return method
    raise InvalidValueError(f"unknown method {text!r}. Known: {', '.join(METHODS)}")


def method_of(decision: LayerDecision, method: str, inputs: LayerInputs | None) -> tuple[str, Finding | None]:
    """Return the method one layer gets and why it is not the one asked for."""
    if decision.recipe is None or method == ROUND_TO_NEAREST:
        return ROUND_TO_NEAREST, None
    if decision.recipe.precision not in METHOD_PRECISIONS[method]:
        return ROUND_TO_NEAREST, finding(
            "rounded-to-nearest", kind="formats", method=method, formats=tuple(METHOD_PRECISIONS[method])
        )
    if method == "AWQ" and inputs is not None and decision.site.name not in inputs.by_site:
        return ROUND_TO_NEAREST, finding("rounded-to-nearest", kind="data")
    return method, None


def collect_if_needed(
    model: nn.Module, decisions: Sequence[LayerDecision], method: str, batches: Iterable[Batch] | None
) -> LayerInputs | None:
    """Return the layers' inputs for a method that needs them, else None.

    Missing batches are an `InvalidValueError`, and so are batches that no method would look at.
    """
    if method != "AWQ":
        if batches is not None:
            raise InvalidValueError(
                f"{method} uses no calibration data: leave calibration= out, or choose method='AWQ'"
            )
        return None
    if batches is None:
        raise InvalidValueError(
            "method='AWQ' needs calibration=: token batches (`token_batches(text, tokenizer)`) like the text it will "
            "serve"
        )
    aimed = [decision for decision in decisions if method_of(decision, method, None)[0] == method]
    return collect_inputs(model, aimed, batches)


def quantize_stand_ins(
    decisions: Sequence[LayerDecision],
    methods: Sequence[str],
    inputs: LayerInputs | None,
    options: Callable[[str], BuildOptions],
) -> tuple[nn.Module, dict[str, Finding]]:
    """Return the tree of stand-ins, each quantised with its method, and site name → why for those torchao fails on.

    methods: one per decision; options: method → what its configs carry. The model's own layers are not touched. A
    failed stand-in holds the original weight.
    """
    chosen = [
        (decision, method) for decision, method in zip(decisions, methods, strict=True) if decision.recipe is not None
    ]
    root = stand_in_tree([decision for decision, _ in chosen])
    failures: dict[str, Finding] = {}
    for method in METHODS:
        part = [decision for decision, decision_method in chosen if decision_method == method]
        if part:
            failures |= _quantize_part(root, part, method, inputs, options(method))
    return root, failures


def _quantize_part(
    root: nn.Module, part: Sequence[LayerDecision], method: str, inputs: LayerInputs | None, options: BuildOptions
) -> dict[str, Finding]:
    """Quantise stand-ins of one method together; where that fails, each on its own, and return which fail and why."""
    try:
        _quantize_together(root, part, method, inputs, options)
        return {}
    except Exception as error:
        if _is_no_layers_fault(error):
            raise
    failures = {}
    for decision in part:
        place_stand_in(root, decision)
    for decision in part:
        try:
            _quantize_together(root, [decision], method, inputs, options)
        except Exception as error:
            if _is_no_layers_fault(error):
                raise
            failures[decision.site.name] = finding("layer-kept-wide", kind="torchao-fails", cause=cause_of(error))
            place_stand_in(root, decision)
    return failures


def _quantize_together(
    root: nn.Module, part: Sequence[LayerDecision], method: str, inputs: LayerInputs | None, options: BuildOptions
) -> None:
    if method == "AWQ":
        assert inputs is not None
        _quantize_awq(root, part, inputs, options)
    else:
        quantize_tree(root, fqn_config(part, options))


def _is_no_layers_fault(error: Exception) -> bool:
    return isinstance(error, RooflineError) or is_memory_short(error)


def _quantize_awq(
    root: nn.Module, decisions: Sequence[LayerDecision], inputs: LayerInputs, options: BuildOptions
) -> None:
    quantize_tree(root, _awq_config(decisions, options, "prepare"))
    for decision in decisions:
        observer: Any = root.get_submodule(stand_in_name(decision)).get_submodule("act_obs")
        for activation in inputs.by_site[decision.site.name]:
            observer(activation, None)  # torchao's observer keeps the input and computes the output itself
    quantize_tree(root, _awq_config(decisions, options, "convert"))


def _awq_config(decisions: Sequence[LayerDecision], options: BuildOptions, step: str) -> Any:
    awq: Any = load_name("torchao.prototype.awq:AWQConfig")
    many: Any = load_name("torchao.quantization:FqnToConfig")
    configs: OrderedDict[str, Any] = OrderedDict()
    for decision in decisions:
        assert decision.recipe is not None
        base = build_config(decision.recipe, decision.group_size, decision.target, options)
        configs[stand_in_name(decision)] = awq(base, step=step, scale_search_space_size=AWQ_SCALES_SEARCHED)
    return many(configs)
