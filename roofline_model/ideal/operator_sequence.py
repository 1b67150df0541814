"""Several kernels that run one after the other: their ideal times add up, whatever limits each of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from roofline_model.chips.hardware import Device, get_hardware
from roofline_model.core.answer import NOT_IN_JSON
from roofline_model.core.cost import OpCost
from roofline_model.core.errors import InvalidValueError
from roofline_model.core.finding import Finding, finding
from roofline_model.core.seed_names import SeedNames
from roofline_model.ideal.roofline import Bound, Prediction, predict, weakest_provenance
from roofline_model.operators.operand_formats import VECTOR_FORMAT
from roofline_model.operators.product import Operator


@dataclass(frozen=True, slots=True)
class PartPrediction:
    """One kernel of a sequence: its name there, what it does, and its ideal prediction."""

    name: str
    work: Operator
    prediction: Prediction


@dataclass(frozen=True, slots=True)
class SequencePrediction(SeedNames):
    """The ideal prediction of kernels in sequence: each starts when the one before has ended. All SI."""

    DERIVED: ClassVar = (
        "time_s",
        "memory_time_s",
        "compute_time_s",
        "bound",
        "flops",
        "read_bytes",
        "write_bytes",
        "rate_flops_per_s",
        "intensity_flop_per_byte",
        "critical_intensity_flop_per_byte",
        "path",
        "provenance",
        "findings",
    )

    hardware: str
    """Key of the chip."""
    parts: tuple[PartPrediction, ...] = field(metadata=NOT_IN_JSON)

    @property
    def time_s(self) -> float:
        """Ideal time, the sum of the kernels', seconds."""
        return math.fsum(part.prediction.time_s for part in self.parts)

    @property
    def memory_time_s(self) -> float:
        """Sum of the kernels' memory times, seconds."""
        return math.fsum(part.prediction.memory_time_s for part in self.parts)

    @property
    def compute_time_s(self) -> float:
        """Sum of the kernels' compute times, seconds."""
        return math.fsum(part.prediction.compute_time_s for part in self.parts)

    @property
    def bound(self) -> Bound:
        """What limits the parts that take most of the time."""
        compute_s = math.fsum(part.prediction.time_s for part in self.parts if part.prediction.bound == "compute")
        return "compute" if compute_s > self.time_s / 2 else "memory"

    @property
    def flops(self) -> float:
        """Work of all kernels, FLOP."""
        return math.fsum(part.prediction.flops for part in self.parts)

    @property
    def read_bytes(self) -> float:
        """Bytes read by all parts."""
        return math.fsum(part.prediction.read_bytes for part in self.parts)

    @property
    def write_bytes(self) -> float:
        """Bytes written by all parts."""
        return math.fsum(part.prediction.write_bytes for part in self.parts)

    @property
    def rate_flops_per_s(self) -> float:
        """FLOPs of all kernels over the whole time, FLOP per second."""
        return self.flops / self.time_s

    @property
    def intensity_flop_per_byte(self) -> float:
        """Arithmetic intensity over all kernels, FLOP per byte."""
        moved = self.read_bytes + self.write_bytes
        return self.flops / moved if moved else math.inf

    @property
    def critical_intensity_flop_per_byte(self) -> float:
        """FLOP per byte at which memory and compute times of the whole would be equal, in the mix of formats it has."""
        if not self.compute_time_s:
            return self.parts[0].prediction.critical_intensity_flop_per_byte
        return self.flops / self.compute_time_s * self.memory_time_s / (self.read_bytes + self.write_bytes)

    @property
    def path(self) -> str:
        """`emulated` or `dequantize` where a part takes such a path, else `native`."""
        paths = {part.prediction.path for part in self.parts}
        return next((kind for kind in ("emulated", "dequantize") if kind in paths), "native")

    @property
    def provenance(self) -> str:
        """Status of the weakest number that any part used."""
        return weakest_provenance(part.prediction.provenance for part in self.parts)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Findings of the parts, each once."""
        return tuple(dict.fromkeys(item for part in self.parts for item in part.prediction.findings))


def predict_sequence(
    works: Mapping[str, Operator], hardware: Device | str, *, cache: str = "cold"
) -> SequencePrediction:
    """Return the ideal prediction of `works` (name → operator), run one after the other on one chip."""
    if not works:
        raise InvalidValueError("a sequence needs at least one operator: there is nothing to predict")
    device = get_hardware(hardware)
    parts = tuple(
        PartPrediction(name, work, predict_operator(work, device, cache=cache)) for name, work in works.items()
    )
    return SequencePrediction(device.key, parts)


def predict_operator(work: Operator, hardware: Device | str, *, cache: str = "cold") -> Prediction:
    """Return `roofline.predict`, with elementwise arithmetic on a chip that declares no FP32 at its 16-bit rate.

    A custom chip often declares its tensor rates only; a softmax there is memory-bound all the same. A finding says so.
    """
    device = get_hardware(hardware)
    substitute = _vector_substitute(device)
    if substitute is None or VECTOR_FORMAT not in dict(work.cost.flops):
        return predict(work, device, cache=cache)
    flops = dict(work.cost.flops)
    count = flops.pop(VECTOR_FORMAT)
    flops[substitute] = flops.get(substitute, 0) + count
    moved = replace(work, cost=OpCost(flops, work.cost.read_bytes, work.cost.write_bytes))
    done = predict(moved, device, cache=cache)
    if not count:
        return done
    substituted = finding(
        "rate-not-declared", kind="elementwise", hardware=device.key, format=VECTOR_FORMAT, compute_format=substitute
    )
    return replace(done, findings=(*done.findings, substituted))


def _vector_substitute(device: Device) -> str | None:
    """Return the format that stands in for FP32, or None where none is needed or none is declared."""
    if device.declares(VECTOR_FORMAT):
        return None
    return next((name for name in ("BF16", "FP16") if device.declares(name)), None)
