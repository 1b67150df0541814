"""Report of each Linear: format, method, kernel, bytes held, and the reason of every fallback."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from roofline_model.core.finding import Finding, findings_text, stored_form
from roofline_model.core.units import format_memory

ROUND_TO_NEAREST = "round-to-nearest"

OUTSIDE_SHARE = 0.25
"""From this share of the model's bytes on, a summary says what no Linear holds (embeddings, experts kept as one
tensor).
"""


@dataclass(frozen=True, slots=True)
class LayerOutcome:
    """One Linear weight after the plan was applied."""

    name: str
    aliases: tuple[str, ...]
    """Other names that hold the same weight."""
    N: int
    K: int
    requested: str
    """The precision as it was asked for."""
    became: str
    """The precision that runs, or the dtype that was kept."""
    method: str
    """round-to-nearest, AWQ, HQQ; empty for a layer that was kept."""
    kernel: str
    """What multiplies; empty for a layer that was kept."""
    tensor: str
    """Class of the tensor that holds the weight."""
    is_emulated: bool
    """Whether the weight is decoded in a separate step of every call: smaller, rarely faster."""
    group_size: int | None
    original_bytes: int
    held_bytes: int
    """Measured from the tensors the layer holds now, bias apart."""
    format_bytes: int
    """What the format's definition says for this shape (`NumberFormat.storage_bytes`)."""
    findings: tuple[Finding, ...] = ()
    """Why it is not what was asked; empty where it is."""
    padding: tuple[Finding, ...] = ()
    """Why `held_bytes` may exceed `format_bytes`, or empty."""
    notes: tuple[Finding, ...] = ()
    """Why a better kernel of the same precision is not used, and what its codes are limited to."""

    @property
    def is_quantized(self) -> bool:
        """Whether the layer changed."""
        return bool(self.method)

    @property
    def is_as_asked(self) -> bool:
        """Whether the layer became what was asked for."""
        return not self.findings


@dataclass(frozen=True, slots=True)
class QuantizationResult:
    """The answer of `apply_quantization`. True when at least one layer was quantised."""

    precision: str
    """What was asked for the whole model, or `plan`."""
    target: str
    """The device, with its compute capability."""
    layers: tuple[LayerOutcome, ...]
    before_bytes: int
    """Parameters and buffers of the whole model before."""
    after_bytes: int
    """The same after: embeddings, norms and kept layers included."""
    is_compiled: bool
    torchao_release: str
    torch_release: str
    calibration_tokens_count: int | None = None
    """Tokens that an activation-aware method saw; None without one."""

    def __bool__(self) -> bool:
        return any(layer.is_quantized for layer in self.layers)

    @property
    def quantized(self) -> tuple[LayerOutcome, ...]:
        """The layers that changed."""
        return tuple(layer for layer in self.layers if layer.is_quantized)

    @property
    def fallbacks(self) -> tuple[LayerOutcome, ...]:
        """The layers that did not become what was asked, each with its reason."""
        return tuple(layer for layer in self.layers if layer.findings)

    @property
    def saved_bytes(self) -> int:
        """Bytes the model holds less than before (negative: an untied copy cost more than it saved)."""
        return self.before_bytes - self.after_bytes

    @property
    def outside_bytes(self) -> int:
        """Bytes that no Linear weight holds, so that nothing here could shrink them: embeddings, norms, biases,
        experts.
        """
        return self.after_bytes - sum(layer.held_bytes for layer in self.layers)

    def layer(self, name: str) -> LayerOutcome:
        """Return the outcome of a layer by any of its names; `KeyError` with the name if there is none."""
        for outcome in self.layers:
            if name == outcome.name or name in outcome.aliases:
                return outcome
        raise KeyError(name)

    def summary(self) -> str:
        """Return one line: how many layers became what, and the bytes before and after."""
        counts: dict[str, int] = {}
        for layer in self.layers:
            counts[layer.became] = counts.get(layer.became, 0) + 1
        parts = ", ".join(f"{count} × {became}" for became, count in counts.items())
        text = f"{parts}; model {format_memory(self.before_bytes)} → {format_memory(self.after_bytes)} on {self.target}"
        if self.outside_bytes > OUTSIDE_SHARE * self.after_bytes:
            text += f", outside Linears {format_memory(self.outside_bytes)}"
        return text + (f"; {len(self.fallbacks)} not as asked" if self.fallbacks else "")

    def lines(self) -> list[str]:
        """Return one line per layer: name, shape, what it became, bytes, reason."""
        width = max(len(layer.name) for layer in self.layers)
        return [
            f"{layer.name:{width}} {layer.N}x{layer.K} {layer.became}"
            + (f" g{layer.group_size}" if layer.group_size else "")
            + (f" ({layer.method}{', emulated' if layer.is_emulated else ''})" if layer.is_quantized else "")
            + f" {format_memory(layer.original_bytes)} → {format_memory(layer.held_bytes)}"
            + (f"  [{findings_text(layer.findings)}]" if layer.findings else "")
            for layer in self.layers
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain JSON values."""
        layers = [
            asdict(layer) | {name: list(map(stored_form, getattr(layer, name))) for name in ("findings", "notes")}
            for layer in self.layers
        ]
        return {**asdict(self), "layers": layers}
