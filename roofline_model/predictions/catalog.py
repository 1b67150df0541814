"""What the catalogs hold, as answers: chips, number formats and language models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from roofline_model.chips.hardware import ComputePath, Device, MatchRule, MemoryLevel, Quantity, list_hardware
from roofline_model.chips.machine_constants import Calibration
from roofline_model.core.errors import UnknownNameError
from roofline_model.core.finding import SEVERITIES, CatalogEntry, Severity, catalog, value_names
from roofline_model.formats.catalog import FORMATS, NumberFormat
from roofline_model.models.chip_and_model import wide_format
from roofline_model.models.hf.parameters import parameter_counts
from roofline_model.models.model_registry import list_models
from roofline_model.models.model_shapes import ModelShape
from roofline_model.recommend.options import baseline_format


@dataclass(frozen=True, slots=True, kw_only=True)
class HardwareSummary:
    """A chip in a line."""

    key: str
    """Name to ask with."""
    name: str
    """Product name."""
    kind: str
    """gpu, cpu or custom."""
    vendor: str
    """Who makes it; empty where not known."""
    architecture: str
    """Generation of the chip, with its compute capability where it has one: Hopper sm_90; empty where not known."""
    aliases: tuple[str, ...]
    """Other names that are understood."""
    is_placeholder: bool
    """Whether its numbers are invented, for examples only."""
    bandwidth_bytes_per_s: float
    """DRAM bandwidth, bytes per second."""
    capacity_bytes: float | None
    """Memory, bytes."""
    dense_flops_per_s: Mapping[str, float]
    """Format → dense FLOP per second (a multiply and an add are two); native units only."""
    baseline_format: str | None
    """16-bit format of its faster unit, with which narrow formats are compared; null where it declares none."""
    model_baseline_formats: Mapping[str, str]
    """wide_format of a model → 16-bit format that its speed-ups refer to on this chip; empty where it declares none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PathDetail(ComputePath):
    """How a chip computes with operands of one format."""

    critical_intensity_flop_per_byte: float
    """Ridge point: dense rate over DRAM bandwidth, FLOP per byte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HardwareDetail(HardwareSummary):
    """A chip with every number and its source."""

    bandwidth: Quantity
    """Peak bandwidth of the memory."""
    bandwidth_achieved: Quantity | None
    """What of it a good kernel reaches; null where unknown."""
    capacity: Quantity | None
    """Size of the memory; null where unknown."""
    levels: tuple[MemoryLevel, ...]
    """Caches, innermost first."""
    paths: Mapping[str, PathDetail]
    """Format key → how the chip computes with it."""
    chip: Mapping[str, Quantity]
    """Everything else that is a number: sm_count, clocks, power, …"""
    match: MatchRule
    """By what a machine's device is taken for this chip."""
    notes: tuple[str, ...]
    """Remarks, may be empty."""
    calibration: Calibration | None
    """What a machine with this chip measured about itself; null for a chip of the registry."""
    content_hash: str
    """Sixteen hex digits over every number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HardwareList:
    """Every chip of the catalog, by key."""

    hardware: tuple[HardwareSummary, ...]
    """Every chip of the registry."""


@dataclass(frozen=True, slots=True)
class FormatList:
    """The catalog of number formats."""

    formats: tuple[NumberFormat, ...]
    """Every format of the catalog, and the caller's own behind them."""


@dataclass(frozen=True, slots=True)
class ModelSummary:
    """A language model of the catalog."""

    key: str
    """Name to ask with."""
    layer_count: int
    """Layers, count."""
    hidden_size: int
    """Width, elements."""
    parameter_count: float
    """Parameters, count."""
    active_parameter_count: float
    """Parameters that one token uses, count."""
    max_context_tokens: int
    """Longest context, tokens."""
    published_format: str | None
    """Format of the published weights."""
    wide_format: str
    """16-bit format in which the published model computes."""
    source: str
    """Where the shape comes from."""


@dataclass(frozen=True, slots=True)
class ModelList:
    """The models of the catalog, by key."""

    models: tuple[ModelSummary, ...]
    """Every shipped model."""


def hardware_list() -> HardwareList:
    """Return every chip of the registry, by key."""
    return HardwareList(hardware=tuple(hardware_summary(chip) for chip in list_hardware()))


def hardware_summary(chip: Device) -> HardwareSummary:
    """Return a chip in a line."""
    return HardwareSummary(**_summary_values(chip))


def hardware_detail(chip: Device) -> HardwareDetail:
    """Return a chip with every number and its source."""
    return HardwareDetail(
        **_summary_values(chip),
        bandwidth=chip.bandwidth,
        bandwidth_achieved=chip.bandwidth_achieved,
        capacity=chip.capacity,
        levels=chip.levels,
        paths={key: _path_detail(chip, path) for key, path in sorted(chip.paths.items())},
        chip=dict(sorted(chip.chip.items())),
        match=chip.match,
        notes=chip.notes,
        calibration=chip.calibration,
        content_hash=chip.content_hash,
    )


@dataclass(frozen=True, slots=True)
class FindingEntry:
    """What the code of a finding means."""

    code: str
    """Name that stays the same when the words change."""
    severity: Severity
    """info: context; caution: weakens the number; warning: do not act on the number before this is settled."""
    text: str
    """The line that a finding of this code is shown as; `{name}` stands for a value, a part in brackets may be
    missing.
    """
    kinds: Mapping[str, str]
    """Value of `kind` → the words that stand for it in the line; empty where there is one circumstance."""
    fix: str
    """What to do about it; empty where nothing is to be done."""
    values: tuple[str, ...]
    """Values that a finding of this code has."""
    optional_values: tuple[str, ...]
    """Values that it may have."""
    explanation: str
    """What it means, in a paragraph."""


@dataclass(frozen=True, slots=True)
class FindingList:
    """Codes of findings."""

    codes: tuple[FindingEntry, ...]
    """What each means, warnings first."""


def finding_list(codes: Iterable[str] | None = None) -> FindingList:
    """Return what codes of findings mean, by default all. Raises `UnknownNameError` naming those that come near."""
    entries = catalog()
    wanted = list(entries) if codes is None else [code.strip().lower() for code in codes]
    for code in wanted:
        if code not in entries:
            raise UnknownNameError("finding", code, entries)
    ordered = sorted((entries[code] for code in wanted), key=lambda entry: SEVERITIES.index(entry.severity))
    return FindingList(tuple(map(_finding_entry, ordered)))


def _finding_entry(entry: CatalogEntry) -> FindingEntry:
    needed = value_names(entry.short, is_optional=False)
    optional = value_names(entry.short, is_optional=True)
    for words in entry.kinds.values():
        optional |= (value_names(words, is_optional=False) | value_names(words, is_optional=True)) - needed
    return FindingEntry(
        code=entry.code,
        severity=entry.severity,
        text=entry.short,
        kinds=entry.kinds,
        fix=entry.fix,
        values=tuple(sorted(needed - {"subject"})),
        optional_values=tuple(sorted(optional - {"subject"})),
        explanation=" ".join(entry.explanation.split()),
    )


def format_list(user_formats: Iterable[NumberFormat] = ()) -> FormatList:
    """Return the formats of the catalog, `user_formats` behind them."""
    return FormatList((*FORMATS.values(), *user_formats))


def model_list() -> ModelList:
    """Return the shipped models."""
    return ModelList(tuple(_model_summary(shape) for shape in list_models()))


def _summary_values(chip: Device) -> dict[str, Any]:
    baseline = baseline_format(chip)
    shapes = () if baseline is None else list_models()
    return {
        "key": chip.key,
        "name": chip.name,
        "kind": chip.kind,
        "vendor": chip.vendor,
        "architecture": chip.architecture,
        "aliases": chip.aliases,
        "is_placeholder": chip.is_placeholder,
        "bandwidth_bytes_per_s": chip.bandwidth.value,
        "capacity_bytes": None if chip.capacity is None else chip.capacity.value,
        "dense_flops_per_s": {
            key: path.dense.value for key, path in sorted(chip.paths.items()) if path.kind == "native"
        },
        "baseline_format": baseline,
        "model_baseline_formats": {shape.wide_format: wide_format(shape, chip) for shape in shapes},
    }


def _path_detail(chip: Device, path: ComputePath) -> PathDetail:
    values = {each.name: getattr(path, each.name) for each in fields(ComputePath)}
    return PathDetail(**values, critical_intensity_flop_per_byte=chip.critical_intensity(path.format))


def _model_summary(shape: ModelShape) -> ModelSummary:
    counts = parameter_counts(shape)
    return ModelSummary(
        key=shape.name,
        layer_count=shape.layer_count,
        hidden_size=shape.hidden_size,
        parameter_count=counts.total_count,
        active_parameter_count=counts.active_count,
        max_context_tokens=shape.max_context_size,
        published_format=shape.weight_format,
        wide_format=shape.wide_format,
        source=shape.source,
    )
