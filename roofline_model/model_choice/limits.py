"""What a plan of a whole model may take, and by how much one misses it."""

from __future__ import annotations

from dataclasses import dataclass

from roofline_model.claimed_losses import PERPLEXITY
from roofline_model.errors import InvalidValueError
from roofline_model.hardware import Device
from roofline_model.units import format_quantity, format_time

MAX_MEASURED_LOSS_PCT = 1.0
"""Default limit of a loss that was measured, or estimated, on the model itself."""
MAX_CLAIMED_LOSS_PCT = 16.0
"""Default limit of a published loss. It is of other people's models, its upper end is the worst of them, and what engines
serve every day comes close to it: AWQ INT4 lost 1.5 to 6.5 % of perplexity on ten models and 14.6 % on Llama-3.1 70B, where
task scores fell by 2.6 % at most, and an FP8 cache is counted with 1 % more (`claimed_losses.py`). A lower default would
refuse it unseen; the ranking states the loss, and beside the choice what loses less (`gentler.py`)."""


@dataclass(frozen=True, slots=True)
class ModelLimits:
    """Limits on one pass of a model; None: any amount."""

    memory_bytes: float | None = None
    """What weights, cache and buffers may take together, the headroom already off."""
    memory_limit_bytes: float | None = None
    """The same with the headroom: what there is."""
    headroom_ratio: float = 0.0
    max_latency_s: float | None = None
    max_loss_pct: float = MAX_MEASURED_LOSS_PCT
    """Rise of perplexity in percent, measured or estimated on the model."""
    max_claimed_pct: float = MAX_CLAIMED_LOSS_PCT
    """The same where the loss is a claim, and of task accuracy where no perplexity was published; equal to `max_loss_pct` where
    the caller set it."""
    is_loss_given: bool = False
    """Whether the caller set the limit of the loss; False: the two defaults."""

    def loss_limit_pct(self, quality_source: str) -> float:
        """Return the limit of a loss from a source: claimed, or anything else."""
        return self.max_claimed_pct if quality_source == "claimed" else self.max_loss_pct


@dataclass(frozen=True, slots=True)
class LimitMiss:
    """One limit that a plan does not meet."""

    limit: str
    """memory, latency or quality."""
    value: float
    """What the plan takes: bytes, seconds or percent."""
    limit_value: float
    text: str

    @property
    def excess_ratio(self) -> float:
        """By how much of the limit it is missed."""
        return self.value / self.limit_value - 1 if self.limit_value else float("inf")


def model_limits(
    device: Device,
    *,
    memory_limit_bytes: float | None,
    headroom_ratio: float,
    max_latency_s: float | None,
    max_loss_pct: float | None,
    is_loss_measured: bool = False,
) -> ModelLimits:
    """Return checked limits; the memory's default is what the chip reports. Raises `InvalidValueError` naming the limit.

    `is_loss_measured`: losses of the model are at hand; then a mere claim gets no wider default than they do.
    """
    for name, value in (("memory_limit_bytes", memory_limit_bytes), ("max_latency_s", max_latency_s)):
        if value is not None and not _is_number(value, 1e30):
            raise InvalidValueError(f"{name} must be a positive number, got {str(value)[:40]!r}")
    if max_loss_pct is not None and max_loss_pct != 0 and not _is_number(max_loss_pct, 1e6):
        raise InvalidValueError(f"max_loss_pct must be a percentage from 0, got {str(max_loss_pct)[:40]!r}")
    if headroom_ratio != 0 and not _is_number(headroom_ratio, 1):
        raise InvalidValueError(f"memory_headroom_ratio must be a share from 0 to below 1, got {headroom_ratio!r}")
    limit = memory_limit_bytes
    if limit is None and device.capacity is not None:
        limit = device.capacity.value
    return ModelLimits(
        None if limit is None else limit * (1 - headroom_ratio),
        limit,
        headroom_ratio,
        max_latency_s,
        MAX_MEASURED_LOSS_PCT if max_loss_pct is None else float(max_loss_pct),
        _claimed_limit(max_loss_pct, is_loss_measured),
        max_loss_pct is not None,
    )


def _claimed_limit(max_loss_pct: float | None, is_loss_measured: bool) -> float:
    if max_loss_pct is not None:
        return float(max_loss_pct)
    return MAX_MEASURED_LOSS_PCT if is_loss_measured else MAX_CLAIMED_LOSS_PCT


def limit_misses(
    limits: ModelLimits,
    total_bytes: float,
    time_s: float,
    loss_pct: float | None,
    loss_text: str,
    quality_source: str = "",
    claimed_metric: str = "",
) -> list[LimitMiss]:
    """Return every limit that a plan misses; a loss that nobody knows (None) misses none.

    `loss_text`: how to show the loss; `quality_source`: `claimed`, or where else it is from; `claimed_metric`: what a
    published loss is of.
    """
    found = []
    if limits.memory_bytes is not None and total_bytes > limits.memory_bytes:
        over = total_bytes - limits.memory_bytes
        kept = f" with {limits.headroom_ratio:.0%} kept free" if limits.headroom_ratio else ""
        needed, more, there_is = (_size(one) for one in (total_bytes, over, limits.memory_limit_bytes))
        text = f"needs {needed}, {more} more than {there_is}{kept}"
        found.append(LimitMiss("memory", total_bytes, limits.memory_bytes, text))
    if limits.max_latency_s is not None and time_s > limits.max_latency_s:
        over_s = time_s - limits.max_latency_s
        text = f"takes {format_time(time_s)}, {format_time(over_s)} more than {format_time(limits.max_latency_s)}"
        found.append(LimitMiss("latency", time_s, limits.max_latency_s, text))
    most_pct = limits.loss_limit_pct(quality_source)
    if loss_pct is not None and loss_pct > most_pct:
        summed = f", counted as {loss_pct:g} % in all" if " + " in loss_text else ""
        text = f"{loss_text}{summed}, above the limit of {most_pct:g}%{_of(claimed_metric)}"
        found.append(LimitMiss("quality", loss_pct, most_pct, text))
    return found


def _of(claimed_metric: str) -> str:
    if claimed_metric in ("", PERPLEXITY):
        return claimed_metric and f" of {claimed_metric}"
    return f" of {claimed_metric}: no {PERPLEXITY} was published"


def _is_number(value: object, below: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < below


def _size(value_bytes: float | None) -> str:
    return format_quantity(value_bytes or 0.0, "B")
