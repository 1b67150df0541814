"""A decoder model on a chip as a Pareto problem: one group per part and layer, times and bytes from the model's own
kernels.

The groups are those whose matrices run as one product: query, key and value together, gate and up together; down is a
group of its own. Where losses are those of whole feed-forward blocks, a block is one group (`layers.3.ffn`). A cache is
searched where cache formats are given. Whatever further groups a user wants to share a format are joined by
`share_formats`. A part's cost is what the whole pass costs more with this part alone in the format. Where kernels
between parts change with both neighbours (a cast that two readers share) the sum is off by that kernel;
`ModelProblem.pass_time_s` has the truth.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import ClassVar

from roofline_model.chips.hardware import Device
from roofline_model.core.errors import InvalidValueError, UnknownNameError, UnsupportedError
from roofline_model.core.finding import Finding, finding, finding_of
from roofline_model.formats.catalog import get_format
from roofline_model.models.chip_and_model import get_chip_and_model
from roofline_model.models.decoder_step import Workload, check_context
from roofline_model.models.format_plan import (
    CACHE,
    EXPERTS,
    FFN,
    GROUPS,
    PARTS,
    QKV,
    SHARED_EXPERTS,
    FormatException,
    FormatPlan,
    PartFormats,
    check_pair,
    checked_plan,
    joined_layers,
    parts_of,
)
from roofline_model.models.hf.parameters import parameter_counts
from roofline_model.models.model_memory import layer_matrices, model_memory
from roofline_model.models.model_shapes import DEFAULT_CONTEXT, ModelShape
from roofline_model.models.step_expected import Estimator
from roofline_model.recommend.search.losses import WHOLE_FFN, LossTable, parse_formats
from roofline_model.recommend.search.pass_times import TimedPass, Times, remembering, timed_pass
from roofline_model.recommend.search.problem import FormatChoice, LayerGroup, ParetoProblem, joined_source

_GROUP_OF = {
    **dict.fromkeys(QKV, "qkv_proj"),
    **dict.fromkeys(EXPERTS, "experts"),
    **dict.fromkeys(SHARED_EXPERTS, "shared_experts"),
}
"""Matrix of a layer → the group that it shares a format with; others are groups of their own."""


@dataclass(frozen=True, slots=True)
class TrafficShare:
    """One kind of pass among a user's traffic, and how often it runs against the others."""

    JSON_KEYS: ClassVar = {
        "phase": "workload.phase",
        "batch_count": "workload.batch_count",
        "context_count": "workload.context_count",
        "new_count": "workload.new_count",
        "share_ratio": "share_ratio",
    }

    workload: Workload
    share_ratio: float = 1.0
    """Any positive weight; shares are divided by their sum."""

    def __post_init__(self) -> None:
        if not 0 < self.share_ratio < math.inf:
            raise InvalidValueError(f"the share of a pass must be a positive number, got {self.share_ratio!r}")


def traffic_share(
    phase: str = "decode", *, batch: int = 1, context: int = 4096, new_tokens: int | None = None, share: float = 1.0
) -> TrafficShare:
    """Return a share of traffic from plain numbers, as `predict_model` takes them."""
    return TrafficShare(Workload.of(phase, batch, context, new_tokens), share)


@dataclass(frozen=True, slots=True)
class ModelProblem:
    """A problem with the way back: from a choice to the plan that a prediction or torchao takes."""

    problem: ParetoProblem
    shape: ModelShape
    device: Device
    traffic: tuple[TrafficShare, ...]
    base: FormatPlan
    """Everything in the wide format."""
    times: Times | None
    estimate: Estimator | None
    """Where expected times come from; None: only measured and ideal ones."""

    def plan(self, choices: Mapping[str, str], *, label: str = "pareto") -> FormatPlan:
        """Return the format plan of a choice, group → format; groups that are not named stay wide.

        Groups may be the problem's own, joined ones whose members are, or any other part of the model (`layers.3.ffn`);
        of two names for one matrix, the one for fewer is stronger.
        """
        exceptions: list[FormatException] = []
        for name, formats in choices.items():
            part, layer = _part_and_layer(name)
            if layer is not None and layer >= self.shape.layer_count:
                raise InvalidValueError(f"{name}: {self.shape.name} has layers 0 to {self.shape.layer_count - 1}")
            exceptions.append(FormatException(part, parse_formats(formats), layer, layer))
            if part == "lm_head" and self.shape.has_tied_embedding:
                exceptions.append(FormatException("embedding", parse_formats(formats)))
        names = sorted({exception.name for exception in exceptions})
        # A part that stays wide inside a narrow group has to be said; elsewhere it goes without saying.
        is_nested = any(set(parts_of(first)) & set(parts_of(other)) for first, other in combinations(names, 2))
        chosen = tuple(
            joined_layers(exception for exception in exceptions if is_nested or exception.formats != self.base.base)
        )
        return checked_plan(replace(self.base, exceptions=chosen, label=label), self.shape)

    def choices(self, plan: FormatPlan) -> dict[str, str]:
        """Return group → format of a plan: the way back.

        Raises `InvalidValueError` for a group with several formats.
        """
        group_of_part: dict[str, str] = {}
        for group in self.problem.groups:
            labels = {self._label(plan, *_part_and_layer(name)) for name in group.members or (group.name,)}
            if len(labels) > 1:
                raise InvalidValueError(
                    f"{group.name} has one format in this problem, the plan says {', '.join(sorted(labels))}"
                )
            group_of_part[group.name] = labels.pop()
        return group_of_part

    @staticmethod
    def _label(plan: FormatPlan, part: str, layer: int | None) -> str:
        if part == CACHE:
            assert layer is not None
            return plan.kv_of(layer)
        return plan.of(part, layer).label

    def pass_time_s(self, plan: FormatPlan) -> float:
        """Return the time of a pass with a plan, kernel by kernel, in the mean over the traffic."""
        whole = math.fsum(share.share_ratio for share in self.traffic)
        return math.fsum(share.share_ratio / whole * self.timed(share, plan).time_s for share in self.traffic)

    def timed(self, share: TrafficShare, plan: FormatPlan) -> TimedPass:
        """Return one kind of pass with a plan, kernel by kernel."""
        return timed_pass(self.shape, share.workload, plan, self.device, times=self.times, estimate=self.estimate)


def model_problem(
    hardware: Device | str,
    model: ModelShape | str,
    losses: LossTable,
    *,
    traffic: Sequence[TrafficShare] = (),
    kv_formats: Iterable[str] = (),
    times: Times | None = None,
    is_ideal: bool = False,
    wide: str | None = None,
) -> ModelProblem:
    """Return the problem of a model on one chip.

    `traffic` defaults to one decode step at batch 1 and 4,096 tokens; its time is the mean pass by share, its memory
    that of the pass that takes most. Formats are those of the table; the wide format takes part with loss 0 unless the
    table says otherwise. `kv_formats` searches the cache's format layer by layer; they need losses (`layers.3.kv`) as
    well. A part without a loss in some format cannot get it, a part without any loss stays wide; findings say which.
    """
    device, shape = get_chip_and_model(hardware, model)
    shares = tuple(traffic) or (traffic_share(context=min(DEFAULT_CONTEXT, shape.max_context_size)),)
    for share in shares:
        check_context(shape, share.workload)
    key = get_format(wide or shape.wide_format).key
    base = FormatPlan(PartFormats(key, key), key, key, label="wide")
    checked_plan(base, shape)
    empty = ParetoProblem((LayerGroup("none", (FormatChoice(key, 0.0, 0.0, 0.0),)),))
    empty_problem = ModelProblem(empty, shape, device, shares, base, times, None if is_ideal else remembering())
    part_losses = losses.by_part(shape)
    formats = list(dict.fromkeys(label for name, label in part_losses if not name.endswith(".kv")))
    builder = _Builder(empty_problem, part_losses, [get_format(kv_format).key for kv_format in kv_formats], formats)
    groups = tuple(builder.groups())
    if not groups:
        raise InvalidValueError(
            f"none of the losses is of a part of {shape.name}: name parts (layers.0.qkv_proj) or modules "
            "(model.layers.0.self_attn.q_proj)"
        )
    problem = ParetoProblem(
        groups,
        fixed_time_s=empty_problem.pass_time_s(base) - builder.own_time_s,
        fixed_bytes=max(0.0, builder.base_bytes - builder.own_bytes),
        loss_source=losses.source,
        confidence=losses.confidence,
        findings=tuple(builder.findings),
    )
    return replace(empty_problem, problem=problem)


class _Builder:
    """Makes the groups of a model; layers of one kind share their times."""

    def __init__(
        self, model: ModelProblem, losses: Mapping[tuple[str, str], float], kv_formats: list[str], formats: list[str]
    ) -> None:
        self._model, self._losses = model, losses
        self._wide = model.base.wide
        self._formats = list(dict.fromkeys([self._wide, *formats]))
        self._kv_formats = list(dict.fromkeys([self._wide, *kv_formats])) if kv_formats else []
        self._whole_blocks = {_part_and_layer(name)[1] for name, _ in losses if name.endswith(WHOLE_FFN)}
        self._base_passes = [model.timed(share, model.base) for share in model.traffic]
        self._groups_by_key: dict[tuple[object, ...], dict[str, tuple[float, str]]] = {}
        self._largest = max(
            model.traffic, key=lambda share: model_memory(model.shape, share.workload, model.base).total_bytes
        ).workload
        self.base_bytes = model_memory(model.shape, self._largest, model.base).total_bytes
        self.own_time_s = self.own_bytes = 0.0
        self.findings: list[Finding] = []

    def groups(self) -> Iterator[LayerGroup]:
        """Yield the groups of every layer, then the head."""
        shape = self._model.shape
        for layer in range(shape.layer_count):
            sizes: dict[str, int] = {}
            for part, size in layer_matrices(shape, layer):
                name = self._group_of(part, layer)
                sizes[name] = sizes.get(name, 0) + size
            for part, size in sizes.items():
                if size and part != "router":
                    yield from self._group(part, layer, size, self._formats)
            if self._kv_formats:
                yield from self._group("kv", layer, self._cached(layer), self._kv_formats)
        counts = parameter_counts(shape)
        yield from self._group("lm_head", None, counts.head_count or counts.embedding_count, self._formats)

    def _group_of(self, part: str, layer: int) -> str:
        """Return the group whose format a matrix of a layer shares."""
        if part not in FFN:
            return _GROUP_OF.get(part, part)
        if layer in self._whole_blocks:
            return "ffn"
        return "gate_up_proj" if part in GROUPS["gate_up_proj"] and self._model.shape.ffn == "gated" else part

    def _group(self, part: str, layer: int | None, size: int, formats: list[str]) -> Iterator[LayerGroup]:
        """Yield one group, or nothing for a part without losses: it stays wide."""
        name = part if layer is None else f"layers.{layer}.{part}"
        groups = {label: self._losses[name, label] for label in formats if (name, label) in self._losses}
        if not groups:
            return
        groups.setdefault(self._wide, 0.0)
        missing = [label for label in formats if label not in groups]
        if missing and part != "kv":
            self._add(finding("losses-applied", part, kind="layers-missing", formats=tuple(missing)))
        times = self._times(part, layer, formats)
        choices = []
        for label, loss in groups.items():
            if label not in times:
                continue
            time_s, source = times[label]
            choices.append(FormatChoice(label, loss, time_s, size * self._width(part, label), source))
        self.own_time_s += times[self._wide][0]
        self.own_bytes += size * self._width(part, self._wide)
        yield LayerGroup(name, tuple(choices), (name,))

    def _width(self, part: str, label: str) -> float:
        weights = parse_formats(label).weights
        return (
            get_format(weights).traffic_bytes_per_element
            if part == "kv"
            else self._model.base.weight_bytes_per_element(weights)
        )

    def _cached(self, layer: int) -> int:
        """Return the cached elements of one layer in the pass that takes most memory."""
        shape, work = self._model.shape, self._largest
        tokens = work.context_count
        if shape.window_size is not None and shape.is_windowed(layer):
            tokens = min(tokens, shape.window_size)
        return work.batch_count * tokens * shape.cached_elements_per_token

    def _times(self, part: str, layer: int | None, formats: list[str]) -> dict[str, tuple[float, str]]:
        """Return format → time of the part in the mean pass, and its source; equal layers are asked once."""
        shape = self._model.shape
        key = (part, None) if layer is None else (part, shape.is_windowed(layer), shape.has_experts(layer))
        if key not in self._groups_by_key:
            self._groups_by_key[key] = self._asked(part, layer, formats)
        return self._groups_by_key[key]

    def _asked(self, part: str, layer: int | None, formats: list[str]) -> dict[str, tuple[float, str]]:
        model = self._model
        whole = math.fsum(each.share_ratio for each in model.traffic)
        changed: dict[str, list[TimedPass]] = {}
        for label in formats:
            wanted = parse_formats(label)
            if part != CACHE:
                check_pair(f"{label}: formats", get_format(wanted.weights), get_format(wanted.activations))
            plan = replace(model.base, exceptions=(FormatException(part, wanted, layer, layer),))
            try:
                changed[label] = [model.timed(each, plan) for each in model.traffic]
            except UnsupportedError as error:
                if label == self._wide:
                    raise
                self._add(replace(finding_of(error), subject=f"{part} in {label}"))
        times: dict[str, tuple[float, str]] = {}
        # What some format replaces in each pass: the part's own kernels, counted in the wide format.
        parts = [
            max((base.beyond(passes[at]) for passes in changed.values()), key=lambda timed: timed[0])
            for at, base in enumerate(self._base_passes)
        ]
        for label, passes in changed.items():
            time_s, sources = 0.0, []
            for at, (share, base) in enumerate(zip(model.traffic, self._base_passes, strict=True)):
                time_s += share.share_ratio / whole * (parts[at][0] + passes[at].time_s - base.time_s)
                sources.append(parts[at][1] if label == self._wide else passes[at].beyond(base)[1])
            times[label] = (max(0.0, time_s), joined_source(sources) or "ideal")
        return times

    def _add(self, item: Finding) -> None:
        if item not in self.findings:
            self.findings.append(item)


def _part_and_layer(name: str) -> tuple[str, int | None]:
    head, _, part = name.rpartition(".")
    word, _, number = head.partition(".")
    if head and (word != "layers" or not number.isdecimal()):
        raise InvalidValueError(f"{name[:60]!r} is not a part of a decoder model, e.g. layers.3.qkv_proj or lm_head")
    if part not in PARTS and part not in GROUPS:
        raise UnknownNameError("part", part, [*PARTS, *GROUPS])
    return part, int(number) if head else None
