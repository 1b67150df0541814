"""Per-layer plans: layer names or patterns → precision, resolved on a model, and as torchao's own `FqnToConfig`.

Keys, strongest first (torchao's order): a layer's full name, `re:` and a regular expression that matches a whole name,
a group of the search (`layers.3.qkv_proj`, `layers.3.gate_up_proj`: what `recommend --model … -o` writes), a role
(`qkv_proj`, `o_proj`, `ffn`, `lm_head`, …: see `module_names`), `*` for all others. Layers no key matches stay as they
are.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

from bench_cases.quantization.config_builders import BuildOptions, build_config
from bench_cases.quantization.plans.layer_plan import LayerDecision, PlanRules, decide_layers
from bench_cases.quantization.plans.precisions import Precision, parse_precision
from bench_cases.quantization.saved.staging import stand_in_name
from bench_cases.quantization.survey import LinearSite, survey_linears
from bench_cases.quantization.target import read_target
from bench_cases.quantization.torchao_configs import DEFAULT_GROUP_ELEMS
from bench_cases.quantization.torchao_library import load_name
from roofline_model.core.errors import InvalidValueError, nearest_names
from roofline_model.models.strategies.module_names import ROLES, layer_group, layer_role

ALL_OTHERS = "*"
REGEX_PREFIX = "re:"


def resolve_plan(
    sites: Sequence[LinearSite], plan: Mapping[str, str], exclude: Sequence[str] = ()
) -> dict[str, Precision]:
    """Return layer name → precision for every site that the plan reaches.

    exclude: keys of the same kinds; what they match is left out, whatever the plan says. Raises `InvalidValueError` for
    a key that matches no layer, and for two names of one shared weight with different precisions.
    """
    precision_of_key = {key: parse_precision(text) for key, text in plan.items()}
    for key in (*precision_of_key, *exclude):
        _check_key(key, sites)
    resolved: dict[str, Precision] = {}
    for site in sites:
        if any(_matches(key, name) for key in exclude for name in site.names):
            continue
        chosen = {name: parsed for name in site.names if (parsed := _precision_of(name, precision_of_key)) is not None}
        names = {precision.name for precision in chosen.values()}
        if len(names) > 1:
            choices_text = ", ".join(f"{name}: {precision.requested}" for name, precision in chosen.items())
            raise InvalidValueError(f"layers that share one weight need one precision, the plan says {choices_text}")
        if chosen:
            resolved[site.name] = next(iter(chosen.values()))
    return resolved


def check_model_and_plan(model: object, plan: object) -> None:
    """Raise `InvalidValueError` unless these are a torch module and a mapping from text to text."""
    if not isinstance(model, nn.Module):
        raise InvalidValueError(f"model must be a torch module, got {type(model).__name__}")
    if not isinstance(plan, Mapping) or not all(isinstance(part, str) for pair in plan.items() for part in pair):
        raise InvalidValueError(
            f"a plan must be a mapping from layer names to precisions, both text, got {str(plan)[:60]!r}"
        )


def fqn_config(decisions: Sequence[LayerDecision], options: BuildOptions = BuildOptions()) -> Any:  # noqa: B008 (frozen)
    """Return torchao's `FqnToConfig` of the layers that will change, by their full names, for `quantize_(…,
    filter_fn=None)`.
    """
    cls: Any = load_name("torchao.quantization:FqnToConfig")
    configs = OrderedDict(
        (stand_in_name(decision), build_config(decision.recipe, decision.group_size, decision.target, options))
        for decision in decisions
        if decision.recipe is not None
    )
    return cls(configs)


def plan_to_fqn_config(
    model: nn.Module, plan: Mapping[str, str], group_size: int = DEFAULT_GROUP_ELEMS, *, exclude: Sequence[str] = ()
) -> Any:
    """Return the `FqnToConfig` of a plan for `torchao.quantize_` or transformers' `TorchAoConfig`; strict, changes
    nothing.

    Any layer that cannot become what the plan says is an `UnsupportedError`: a config handed on has nobody to report a
    fallback. Shared weights are quantised once per name by torchao; `apply_plan` keeps them shared.
    """
    sites = survey_linears(model)
    chosen_precisions = resolve_plan(sites, plan, exclude)
    targets = {device_type: read_target(device_type) for device_type in {site.weight.device.type for site in sites}}
    rules = PlanRules(group_size, is_strict=True, is_untied=False)
    return fqn_config(decide_layers(sites, chosen_precisions, targets, rules))


def _precision_of(name: str, chosen_precisions: Mapping[str, Precision]) -> Precision | None:
    if name in chosen_precisions:
        return chosen_precisions[name]
    for key, precision in chosen_precisions.items():
        if key.startswith(REGEX_PREFIX) and _matches(key, name):
            return precision
    group = chosen_precisions.get(layer_group(name) or "")
    return (
        group if group is not None else chosen_precisions.get(layer_role(name) or "", chosen_precisions.get(ALL_OTHERS))
    )


def _matches(key: str, name: str) -> bool:
    if key.startswith(REGEX_PREFIX):
        return re.fullmatch(key[len(REGEX_PREFIX) :], name) is not None
    return key in (name, ALL_OTHERS, layer_group(name)) or (key in ROLES and layer_role(name) == key)


def _check_key(key: str, sites: Sequence[LinearSite]) -> None:
    """Raise `InvalidValueError` for a key that reaches no layer: a typing error must not leave a layer in 16 bit."""
    names = [name for site in sites for name in site.names]
    if key.startswith(REGEX_PREFIX):
        try:
            re.compile(key[len(REGEX_PREFIX) :])
        except re.error as error:
            raise InvalidValueError(f"plan key {key!r} is not a regular expression: {error}") from None
    if any(_matches(key, name) for name in names):
        return
    near = nearest_names(key, names)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    raise InvalidValueError(
        f"plan key {key!r} matches none of the {len(names)} Linear layers.{hint} Keys are full names, re:PATTERN, "
        f"groups such as layers.0.qkv_proj, {', '.join(ROLES)} or *."
    )
