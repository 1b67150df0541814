"""The question: groups of layers that share a format, what each format costs them, and what may be spent.

Losses, times and bytes add up over groups: a plan costs the sum of its choices and what is spent whatever is chosen.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from roofline_model.core.errors import InvalidValueError, UnknownNameError
from roofline_model.core.finding import Finding

CONFIDENCES = ("high", "medium", "low")
_SUMMED = ("loss_value", "time_s", "memory_bytes")


@dataclass(frozen=True, slots=True)
class FormatChoice:
    """One format for one group: its loss, seconds and bytes there."""

    label: str
    """The format as everywhere, `WEIGHT.ACTIVATION` or one name for both."""
    loss_value: float
    """Loss of quality in the unit of the problem's `loss_source`; it adds up over groups."""
    time_s: float
    """Time of the group's kernels in one pass (the mean over a traffic mix), seconds."""
    memory_bytes: float
    """Bytes the group occupies: packed weights with scales, or its share of the cache."""
    time_source: str = "ideal"
    """measured, expected or ideal; several joined by `+` where kernels differ."""

    def __post_init__(self) -> None:
        for name in _SUMMED:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                raise InvalidValueError(f"{self.label}: {name} must be a finite number, got {str(value)[:40]!r}")
            if value < 0 and name != "loss_value":
                raise InvalidValueError(f"{self.label}: {name} must not be negative, got {value!r}")


@dataclass(frozen=True, slots=True)
class LayerGroup:
    """Layers, or matrices of a layer, that get the same format."""

    name: str
    choices: tuple[FormatChoice, ...]
    members: tuple[str, ...] = ()
    """What shares the format; empty: the group is one thing, called `name`."""

    def __post_init__(self) -> None:
        labels = [choice.label for choice in self.choices]
        if not labels:
            raise InvalidValueError(f"group {self.name!r} has no format to choose from; give it at least one")
        if len(set(labels)) < len(labels):
            twice = next(label for label in labels if labels.count(label) > 1)
            raise InvalidValueError(f"group {self.name!r} names {twice} twice; keep one")

    def choice(self, label: str) -> FormatChoice:
        """Return the choice called `label`; raises `UnknownNameError` with the group's formats."""
        for own_choice in self.choices:
            if own_choice.label == label:
                return own_choice
        raise UnknownNameError(
            "format", label, [own_choice.label for own_choice in self.choices], fix=f"Asked of group {self.name}."
        )


@dataclass(frozen=True, slots=True)
class Budgets:
    """Limits of a plan: seconds of the mean pass, bytes of the largest. None: no limit."""

    time_s: float | None = None
    memory_bytes: float | None = None

    def __post_init__(self) -> None:
        for name, value in (("time_s", self.time_s), ("memory_bytes", self.memory_bytes)):
            is_number = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf
            if value is not None and not is_number:
                raise InvalidValueError(f"the budget {name} must be a positive number, got {str(value)[:40]!r}")


@dataclass(frozen=True, slots=True)
class ParetoProblem:
    """The input of a search: groups with their choices, time and bytes of the rest, source of the losses."""

    groups: tuple[LayerGroup, ...]
    fixed_time_s: float = 0.0
    """Time of a pass that no choice changes: attention, norms. Below 0 where groups share a kernel that both count."""
    fixed_bytes: float = 0.0
    """Memory that no choice changes: norms, working buffers, a cache whose format is not searched."""
    loss_source: str = "given"
    """Where the losses come from and what they are: measured KL, Fisher, tensor error × role prior, …"""
    confidence: str = "low"
    """high (measured on the model's own outputs), medium (a gradient's estimate) or low (without data)."""
    findings: tuple[Finding, ...] = ()
    """What could not be searched, and why."""

    def __post_init__(self) -> None:
        if not self.groups:
            raise InvalidValueError("the search needs at least one group of layers")
        names = [group.name for group in self.groups]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise InvalidValueError(f"two groups are called {twice!r}; give each a name of its own")
        if self.confidence not in CONFIDENCES:
            raise InvalidValueError(f"confidence must be {', '.join(CONFIDENCES)}, got {str(self.confidence)[:40]!r}")
        if not math.isfinite(self.fixed_time_s):
            raise InvalidValueError(f"fixed_time_s must be a finite number, got {self.fixed_time_s!r}")
        if not 0 <= self.fixed_bytes < math.inf:
            raise InvalidValueError(f"fixed_bytes must be a number from 0, got {self.fixed_bytes!r}")


def share_formats(problem: ParetoProblem, shared: Mapping[str, Sequence[str]]) -> ParetoProblem:
    """Return the problem with further groups joined: new name → names of groups that must get the same format.

    A joined group has the formats that all its parts have; losses, times and bytes are sums. Raises `UnknownNameError`
    for a group the problem does not have, `InvalidValueError` for one named twice and for parts without a format in
    common.
    """
    groups = {group.name: group for group in problem.groups}
    owners: dict[str, str] = {}
    for name, parts in shared.items():
        if not parts:
            raise InvalidValueError(f"group {name!r} joins nothing; name the groups that share a format")
        for part in parts:
            if part not in groups:
                raise UnknownNameError("part", part, groups)
            if part in owners:
                raise InvalidValueError(
                    f"{part} is in {owners[part]!r} and in {name!r}; a group shares one format only"
                )
            owners[part] = name
    joined = {name: _joined(name, [groups[part] for part in parts]) for name, parts in shared.items()}
    # A joined group stands where the first of its parts stood.
    left = [joined.pop(owners[name], None) if name in owners else group for name, group in groups.items()]
    return replace(problem, groups=tuple(group for group in left if group is not None))


def joined_source(sources: Iterable[str]) -> str:
    """Return kinds of times joined by `+`, each once, sorted."""
    return "+".join(sorted({part for source in sources for part in source.split("+") if part}))


def _joined(name: str, parts: Sequence[LayerGroup]) -> LayerGroup:
    labels = [[choice.label for choice in part.choices] for part in parts]
    common = [label for label in labels[0] if all(label in others for others in labels)]
    if not common:
        raise InvalidValueError(f"the groups of {name!r} have no format in common; nothing can be shared")
    choices = []
    for label in common:
        alike = [part.choice(label) for part in parts]
        loss_value, time_s, memory_bytes = (math.fsum(getattr(each, field) for each in alike) for field in _SUMMED)
        source = joined_source(each.time_source for each in alike)
        choices.append(FormatChoice(label, loss_value, time_s, memory_bytes, source))
    members = tuple(member for part in parts for member in part.members or (part.name,))
    return LayerGroup(name, tuple(choices), members)
