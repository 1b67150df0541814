"""NVML field values: one array call for numbers that have no function of their own, decoded by the type each names.

Written against nvml.h and nvidia-ml-py; an H200 answered every field. Other chips' refusals are tested with a fake.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

POWER_AVERAGE = 185
"""NVML_FI_DEV_POWER_AVERAGE, mW over one second (Ampere and later, not GA100)."""
POWER_INSTANT = 186
"""NVML_FI_DEV_POWER_INSTANT, mW."""
SCOPE_GPU, SCOPE_MODULE = 0, 1
"""NVML_POWER_SCOPE_*: the GPU, or the module it shares with a CPU (Grace)."""

_POWER_CAP, _THERMAL_POLICY, _SYNC_BOOST = 74, 75, 76
_STABLE_IDS = {"power cap": _POWER_CAP, "sync boost": _SYNC_BOOST}
_MOVED_REASONS = ("software thermal", "hardware thermal", "hardware power brake")
# Drivers number the last three differently: 251–253 as nvidia-smi 580.65 asks for them, 269–271 in the header of
# CUDA 13 (nvidia-ml-py 13), where 251–253 belong to power smoothing, and the other way round in older headers.
_NUMBERINGS = (
    dict(zip(_MOVED_REASONS, (251, 252, 253), strict=True)),
    dict(zip(_MOVED_REASONS, (269, 270, 271), strict=True)),
)
THROTTLE_CANDIDATES = (
    *_STABLE_IDS.values(),
    _THERMAL_POLICY,
    *(number for ids in _NUMBERINGS for number in ids.values()),
)
"""Every field that may be a throttle counter (nanoseconds since the driver was loaded)."""

VIOLATION_POLICIES = {"power cap": 0, "software thermal": 1, "sync boost": 2}
"""NVML_PERF_POLICY_*: the same counters through nvmlDeviceGetViolationStatus (nanoseconds), on drivers without the
fields.
"""

_ATTRIBUTES = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal", 6: "usVal"}
"""NVML_VALUE_TYPE_* → the member of the union that holds the value."""
_UNSIGNED_INT = 1
_COUNTER_TYPES = (2, 3)
"""A counter of nanoseconds is an unsigned 64-bit number; flags and settings are not."""
_NOT_AVAILABLE = {1: 2**32 - 1, 2: 2**64 - 1, 3: 2**64 - 1}
"""NVML_VALUE_NOT_AVAILABLE_* by type."""


class FieldError(Exception):
    """A field that the driver refused; `value` is its return code, as on `NVMLError`."""

    def __init__(self, value: int) -> None:
        super().__init__(f"field refused with code {value}")
        self.value = value


@dataclass(frozen=True, slots=True)
class FieldAnswer:
    """Answer of the driver for one field: a return code, and the value where that is 0."""

    return_code: int
    type_code: int = _UNSIGNED_INT
    value: float | None = None
    """None: refused, of an unknown type, or the driver's own sign for "not available"."""


def read_fields(library: Any, handle: Any, ids: Sequence[int | tuple[int, int]]) -> dict[int, FieldAnswer]:
    """Return the answer to each field by its number; `ids` may be (field, scope). Raises what the library raises."""
    numbers = [number if isinstance(number, int) else number[0] for number in ids]
    answers = library.nvmlDeviceGetFieldValues(handle, list(ids))
    return {number: _decoded(answer) for number, answer in zip(numbers, answers, strict=False)}


def read_field(library: Any, handle: Any, number: int, scope: int = SCOPE_GPU) -> float | None:
    """Return one field's value; raises `FieldError` with the driver's code where it is refused."""
    answer = read_fields(library, handle, [(number, scope) if scope else number])[number]
    if answer.return_code:
        raise FieldError(answer.return_code)
    return answer.value


def _decoded(answer: Any) -> FieldAnswer:
    if answer.nvmlReturn:
        return FieldAnswer(int(answer.nvmlReturn))
    type_code = int(getattr(answer, "valueType", _UNSIGNED_INT))
    name = _ATTRIBUTES.get(type_code)
    value = None if name is None else getattr(answer.value, name)
    return FieldAnswer(0, type_code, None if value == _NOT_AVAILABLE.get(type_code) else value)


def throttle_fields(answers: Mapping[int, FieldAnswer]) -> dict[str, int]:
    """Return which field counts which reason on this driver, from its answers to `THROTTLE_CANDIDATES`.

    A field is a counter when it is answered with a 64-bit type. Of the two numberings in use, the one that answers is
    taken; where both answer, neither can be trusted, and the thermal policy's counter, which never moved, stands for
    heat.
    """
    counters = {
        number for number, answer in answers.items() if not answer.return_code and answer.type_code in _COUNTER_TYPES
    }
    fields = {reason: number for reason, number in _STABLE_IDS.items() if number in counters}
    answering = [ids for ids in _NUMBERINGS if counters & set(ids.values())]
    if len(answering) == 1:
        fields |= {reason: number for reason, number in answering[0].items() if number in counters}
    elif _THERMAL_POLICY in counters:
        fields["software thermal"] = _THERMAL_POLICY
    return fields
