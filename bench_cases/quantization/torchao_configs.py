"""Precision → torchao config on a device, or the reason why not (the seeds' `torchao_configs`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench_cases.quantization.config_builders import BuildOptions, build_config
from bench_cases.quantization.plans.precisions import PRECISIONS, Precision, parse_precision
from bench_cases.quantization.plans.recipes import FALLBACKS, Recipe, recipes_of
from bench_cases.quantization.target import Target, read_target
from roofline_model.core.errors import InvalidValueError, UnsupportedError
from roofline_model.core.finding import Finding, finding, findings_text, short_text

if TYPE_CHECKING:
    import torch

DEFAULT_GROUP_ELEMS = 128


@dataclass(frozen=True, slots=True)
class Availability:
    """Whether a device runs a precision as it was asked for, and what happens if not."""

    precision: str
    target: Target
    recipe: Recipe | None
    """What runs for it here; None: nothing, layers stay in 16 bit."""
    findings: tuple[Finding, ...]
    """Why `recipe` is not the first choice; empty where it is."""

    @property
    def is_exact(self) -> bool:
        """Whether the precision itself runs, emulated or not."""
        return self.recipe is not None and self.recipe.precision == self.precision


def get_quantize_config(
    precision: str,
    device: str | torch.device | Target = "auto",
    group_size: int = DEFAULT_GROUP_ELEMS,
    *,
    compile: bool = False,
    use_hqq: bool = False,
) -> Any:
    """Return the torchao config of a precision on a device, for `torchao.quantize_` by hand; None for 16-bit formats.

    Nothing falls back here: a precision that the device does not run is an `UnsupportedError` with the reason, a group
    size that its kernel does not take an `InvalidValueError`.
    """
    chosen = parse_precision(precision)
    if chosen.is_plain:
        return None
    target = as_target(device)
    if chosen.substitution is not None:
        raise UnsupportedError(f"{chosen.requested}: {short_text(chosen.substitution)}")
    reasons = []
    for recipe in recipes_of(chosen.name, target.device):
        against = recipe.against_target(target)
        if against is not None:
            reasons.append(against)
            continue
        if recipe.group_sizes and group_size not in recipe.group_sizes:
            sizes = ", ".join(str(size) for size in recipe.group_sizes)
            raise InvalidValueError(f"group size {group_size!r}: {recipe.config_name} takes {sizes}")
        return build_config(recipe, group_size if recipe.group_sizes else None, target, BuildOptions(compile, use_hqq))
    raise UnsupportedError(
        f"{chosen.requested} does not run on {target}: {findings_text(reasons) or 'torchao has no kernel for it'}"
    )


def map_precision_to_torchao(precision: str, device: str | torch.device | Target = "auto") -> str:
    """Return the precision that torchao really runs for `precision` on a device (the seeds' map, decided by the
    device).

    The original documents mapped NVFP4, NF4 and MXFP4 to INT4 and FP8 to INT8, because torchao had nothing else; it has
    configs for them now. A precision the device cannot run becomes its fallback (`availability` says why); 16-bit
    formats come back as they are.
    """
    answer = availability(precision, device)
    return answer.precision if answer.recipe is None else answer.recipe.precision


def availability(precision: str, device: str | torch.device | Target = "auto") -> Availability:
    """Return the recipe that a device runs for a precision, before any check of layer shapes."""
    chosen = parse_precision(precision)
    target = as_target(device)
    if chosen.is_plain:
        return Availability(chosen.name, target, None, (finding("layer-stays-wide", kind="wide"),))
    findings = [] if chosen.substitution is None else [chosen.substitution]
    for recipe, against in candidates(chosen, target):
        if recipe is not None and against is None:
            return Availability(chosen.name, target, recipe, tuple(findings))
        findings += [] if against is None else [against]
    return Availability(chosen.name, target, None, tuple(findings))


def availability_table(device: str | torch.device | Target = "auto") -> tuple[Availability, ...]:
    """Return the availability of every precision on a device."""
    target = as_target(device)
    return tuple(availability(name, target) for name in PRECISIONS)


def candidates(chosen: Precision, target: Target) -> list[tuple[Recipe | None, Finding | None]]:
    """Return the recipes to try in order, fallbacks included, each with why the device rules it out (or None).

    A precision that has no recipe on the kind of device at all is one entry without a recipe.
    """
    options: list[tuple[Recipe | None, Finding | None]] = []
    name: str | None = chosen.name
    while name is not None:
        recipes = recipes_of(name, target.device)
        options += [(recipe, recipe.against_target(target)) for recipe in recipes]
        if not recipes:
            options.append((None, finding("torchao-kernel-missing", name, kind="device", device=target.device)))
        name = FALLBACKS.get(name)
    return options


def as_target(device: str | torch.device | Target) -> Target:
    """Return a device description as it is, or describe a device of this machine."""
    return device if isinstance(device, Target) else read_target(device)
