"""Work and traffic of an operation, before any chip is chosen: a frozen value that adds and scales."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from operator import add

from roofline_model.core.errors import InvalidValueError

Amounts = tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class OpCost:
    """Counted work of one call: FLOPs per compute format, bytes per tensor. Times live in `ideal` and `expected`.

    Counts: one MAC is 2 FLOPs; each input byte read once and each output byte written once (compulsory traffic).
    Ignores: re-reads of a tiled kernel, caches and launch overhead.

    `flops`, `read_bytes` and `write_bytes` take a plain number or a mapping (format key → FLOPs, tensor name → bytes);
    they are stored as sorted pairs. `OpCost(flops={"BF16": 2e9}, read_bytes=1e6, write_bytes=1e3)` is a complete cost;
    FLOPs without a format can be added up, but not predicted.
    """

    flops: Amounts = field(default=())
    """FLOPs by the number format that computes them; "" means the device's default for the case."""
    read_bytes: Amounts = field(default=())
    write_bytes: Amounts = field(default=())

    def __init__(
        self,
        flops: float | Mapping[str, float] | Amounts = 0,
        read_bytes: float | Mapping[str, float] | Amounts = 0,
        write_bytes: float | Mapping[str, float] | Amounts = 0,
    ) -> None:
        object.__setattr__(self, "flops", _amounts("flops", flops, ""))
        object.__setattr__(self, "read_bytes", _amounts("read_bytes", read_bytes, "input"))
        object.__setattr__(self, "write_bytes", _amounts("write_bytes", write_bytes, "output"))

    @property
    def total_flops(self) -> float:
        """All FLOPs, whatever computes them."""
        return math.fsum(count for _, count in self.flops)

    @property
    def total_read_bytes(self) -> float:
        """Compulsory bytes read."""
        return math.fsum(size for _, size in self.read_bytes)

    @property
    def total_write_bytes(self) -> float:
        """Compulsory bytes written."""
        return math.fsum(size for _, size in self.write_bytes)

    @property
    def total_bytes(self) -> float:
        """Compulsory bytes read and written."""
        return self.total_read_bytes + self.total_write_bytes

    @property
    def intensity_flop_per_byte(self) -> float:
        """Arithmetic intensity; infinite when nothing is moved, 0 when nothing is computed."""
        if self.total_bytes == 0:
            return math.inf if self.total_flops else 0.0
        return self.total_flops / self.total_bytes

    def __add__(self, other: OpCost) -> OpCost:
        """Return the cost of doing both (fused: tensors of the same name are summed, not shared)."""
        if not isinstance(other, OpCost):
            return NotImplemented
        return OpCost(
            _merged(self.flops, other.flops),
            _merged(self.read_bytes, other.read_bytes),
            _merged(self.write_bytes, other.write_bytes),
        )

    def __mul__(self, times: float) -> OpCost:
        """Return the cost of `times` calls."""
        return OpCost(
            *(tuple((n, v * times) for n, v in part) for part in (self.flops, self.read_bytes, self.write_bytes))
        )

    __rmul__ = __mul__


def total_cost(costs: Iterable[OpCost]) -> OpCost:
    """Return the sum of several costs (an empty iterable gives the zero cost)."""
    return reduce(add, costs, OpCost())


def _amounts(name: str, given: float | Mapping[str, float] | Amounts, label: str) -> Amounts:
    if isinstance(given, Mapping):
        pairs: Iterable[tuple[str, float]] = given.items()
    elif isinstance(given, tuple):
        pairs = given
    else:
        pairs = ((label, given),) if given != 0 else ()
    checked = []
    for key, value in pairs:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
            raise InvalidValueError(
                f"OpCost {name}{f'[{key}]' if key else ''} must be a finite number ≥ 0, got {value!r}"
            )
        checked.append((str(key), value))
    return tuple(sorted(checked))


def _merged(first: Amounts, second: Amounts) -> dict[str, float]:
    result = dict(first)
    for key, value in second:
        result[key] = result.get(key, 0) + value
    return result
