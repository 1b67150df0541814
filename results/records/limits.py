"""Limits that the record types declare for their fields (ranges, lengths, dates), and the check of a value against
them.

They hold where a run comes from outside (an import, `db check`). Making a record checks nothing: the store keeps what
it was given.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from results.records.plain_form import FormError

MAX_TIME_S = 1e9
"""Thirty years: a longer time is a slip of a unit."""
MAX_COUNT = 2**40
"""Every database holds it."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A condition on the value of a field, as part of its type: `Annotated[float, Limit(…)]`.

    None is within every one.
    """

    holds: Callable[[Any], bool]
    description: str
    """What the value should be, for an error."""


def _is_date(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _is_past(text: str) -> bool:
    """Return whether a date is no more than a day ahead: `latest` would mean that run until then."""
    moment = datetime.fromisoformat(text)
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return aware - datetime.now(UTC) <= timedelta(days=1)


def _counts(least: int) -> Limit:
    return Limit(lambda count: least <= count <= MAX_COUNT, description=f"a whole number from {least} to {MAX_COUNT:,}")


def _texts(longest: int) -> Limit:
    return Limit(lambda text: 1 <= len(text) <= longest, description=f"text of 1 to {longest:,} characters")


CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""What no name holds: it moves the cursor, turns the direction of a line, or is no character."""
_KEY = re.compile("[!-~](?:[ -~]*[!-~])?")


def _lines(longest: int) -> Limit:
    return Limit(
        lambda text: len(text) <= longest and not CONTROLS.search(text),
        description=f"one line of {longest:,} characters or fewer, none of them a control character",
    )


def _is_multiline(text: str) -> bool:
    return len(text) <= 10_000 and not CONTROLS.search(text.translate(_BREAKS))


_BREAKS = {ord(ch): " " for ch in "\t\n\r"}


def _check_facts(value: Any, where: str, name: str = "", depth: int = 0) -> None:
    """Raise `FormError` naming what no machine says: numbers beyond their unit, texts or nests without end."""
    if isinstance(value, Mapping | list | tuple) and depth >= MAX_DEPTH:
        raise FormError(f"{where[:200]} is nested more than {MAX_DEPTH} deep")
    if isinstance(value, Mapping):
        if len(value) > MAX_FACTS or any(len(key) > 1_000 for key in value):
            raise FormError(f"{where[:200]} holds more than {MAX_FACTS:,} names, or one of more than 1,000 characters")
        for key, item in value.items():
            _check_facts(item, f"{where}.{key[:40]}", key, depth + 1)
    elif isinstance(value, list | tuple):
        for item in value:
            _check_facts(item, where, name, depth + 1)
    elif isinstance(value, str):
        if len(value) > 100_000:
            raise FormError(f"{where[:200]} is of length {len(value):,}, not 100,000 or fewer")
    elif isinstance(value, int | float):
        most = next((most for ending, most in MOST_OF_UNIT.items() if name.endswith(ending)), math.inf)
        # NaN and the infinities are said on purpose; a whole number may be larger than any float.
        if most < abs(value) != math.inf or (most == math.inf and isinstance(value, int) and abs(value) > MOST_FIGURE):
            raise FormError(f"{where[:200]} is {_shown(value)}, more than {most:g}: a slip of unit?")


MAX_DEPTH, MAX_FACTS = 32, 10_000
MOST_FIGURE = 1e60
"""FLOPs of the largest product that every database holds the sizes of, and some."""
MOST_OF_UNIT = {"_per_s": MOST_FIGURE, "_s": MAX_TIME_S, "_bytes": 1e18, "_hz": 1e15, "_w": 1e9, "_j": 1e15}
"""Ending of a name → the largest number of that unit that is no slip."""


# A NaN is within no range of numbers.
Duration = Annotated[
    float, Limit(lambda time_s: 0 <= time_s < MAX_TIME_S, description=f"a time from 0 to {MAX_TIME_S:g} s")
]
SignedDuration = Annotated[
    float, Limit(lambda time_s: abs(time_s) < MAX_TIME_S, description=f"a time of less than {MAX_TIME_S:g} s")
]
NonNegative = Annotated[
    float, Limit(lambda value: 0 <= value < MOST_FIGURE, description=f"a number from 0 to {MOST_FIGURE:g}")
]
Positive = Annotated[
    float, Limit(lambda value: 0 < value < MOST_FIGURE, description=f"a number above 0 and below {MOST_FIGURE:g}")
]
Finite = Annotated[
    float, Limit(lambda value: abs(value) < MOST_FIGURE, description=f"a finite number below {MOST_FIGURE:g}")
]
Count = Annotated[int, _counts(0)]
CountFrom1 = Annotated[int, _counts(1)]
CountFrom2 = Annotated[int, _counts(2)]
ExitCode = Annotated[int, Limit(lambda code: abs(code) <= 2**31, description="the exit code of a process")]
Name = Annotated[str, _texts(1_000), _lines(1_000)]
Line = Annotated[str, _lines(4_000)]
"""May be empty."""
Reason = Annotated[str, _lines(10_000)]
Command = Annotated[
    str,
    Limit(
        _is_multiline, description="text of 10,000 characters or fewer, no control characters but line breaks and tabs"
    ),
]
Key = Annotated[
    str,
    Limit(
        lambda text: not text or (len(text) <= 200 and _KEY.fullmatch(text) is not None),
        description="a key of 200 ASCII characters or fewer",
    ),
]
"""Of a table, a version, a program's own word; may be empty."""
Facts = Annotated[Mapping[str, Any], _check_facts]
"""Free facts; a number whose name says its unit has to be one of that unit."""
IndexedName = Annotated[str, _texts(200), _lines(200)]
"""Stands in an index: PostgreSQL refuses a row of more than 2,704 bytes there, SQLite none."""
Hash = Annotated[
    str, Limit(lambda text: re.fullmatch("[!-~]{1,64}", text) is not None, description="a hash of 1 to 64 characters")
]
KernelName = Annotated[str, _texts(100_000), _lines(100_000)]
"""The mangled names of C++ templates fill pages."""
Date = Annotated[str, Limit(_is_date, description="a date and time in ISO 8601")]
_PAST = Limit(
    lambda text: not text or _is_past(text), description="a time that has come: the clock or the file is wrong"
)
PastDate = Annotated[Date, _PAST]
OptionalDate = Annotated[str, Limit(lambda text: not text or _is_date(text), description="a date and time in ISO 8601")]
"""Empty where its maker gave none."""
OptionalPastDate = Annotated[OptionalDate, _PAST]


def at_most(longest: int) -> Limit:
    """Return the limit on how many items a list or a table may hold."""
    return Limit(lambda items: len(items) <= longest, description=f"{longest:,} items or fewer")


def check_line(text: str, where: str, longest: int = 4_000) -> None:
    """Raise `FormError` for text that is not one line without control characters."""
    _check_limits((_lines(longest),), None, text, where)


def check_limits(value: Any, where: str) -> None:
    """Raise `FormError` naming the first field of a record type, or of a part of it, that is outside its limits."""
    _check_fields(type(value), value, where)


def outside_limits(value: Any) -> list[str]:
    """Return the names of the fields of a record type that are outside their limits."""
    return [name for name, check in _field_checks(type(value)) if not _is_within(check, getattr(value, name))]  # type: ignore[arg-type]


def _is_within(check: Check, value: Any) -> bool:
    try:
        if value is not None:
            check(value, "")
    except FormError:
        return False
    return True


Check = Callable[[Any, str], None]
"""Raises `FormError` for a value, not None, that is outside its limits; it is told where that stands."""


def _check_fields(kind: type[Any], record: Any, where: str) -> None:
    for name, check in _field_checks(kind):  # type: ignore[arg-type]
        value = getattr(record, name)
        if value is not None:
            check(value, f"{where}.{name}")


@cache
def _field_checks(kind: type[Any]) -> tuple[tuple[str, Check], ...]:
    """Return the checks of the fields of a record type that have limits."""
    checks = [(name, _check_of(hint)) for name, hint in get_type_hints(kind, include_extras=True).items()]
    return tuple([(name, check) for name, check in checks if check is not None])


def _check_of(hint: Any) -> Check | None:
    """Return the check of a type; None where neither it nor a part of it has limits."""
    origin, arguments = get_origin(hint), get_args(hint)
    if is_dataclass(hint):
        return partial(_check_fields, hint) if _field_checks(hint) else None  # type: ignore[arg-type]
    if origin is Annotated:
        return partial(_check_limits, hint.__metadata__, _check_of(arguments[0]))
    if origin in (Union, UnionType):  # of a type and None
        return _check_of(arguments[0])
    if origin is tuple:
        check_item = _check_of(arguments[0])
        return None if check_item is None else partial(_check_items, check_item)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        checks = _check_of(arguments[0]), _check_of(arguments[1])
        return None if checks == (None, None) else partial(_check_entries, *checks)
    return None


def _check_limits(limits: tuple[Limit | Check, ...], check: Check | None, value: Any, where: str) -> None:
    for limit in limits:
        if not isinstance(limit, Limit):
            limit(value, where)
        elif not limit.holds(value):
            raise FormError(f"{where} is {_shown(value)}, not {limit.description}")
    if check is not None:
        check(value, where)


def _check_items(check: Check, items: tuple[Any, ...], where: str) -> None:
    for number, item in enumerate(items):
        if item is not None:
            check(item, f"{where}[{number}]")


def _check_entries(check_key: Check | None, check: Check | None, entries: Mapping[str, Any], where: str) -> None:
    for key, item in entries.items():
        if check_key is not None:
            check_key(key, f"a key of {where}")
        if check is not None and item is not None:
            check(item, f"{where}.{key[:40]}")


def _shown(value: Any) -> str:
    """Return a value for a message; a whole number may be longer than a float can say."""
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, int):
        return str(value)[:40]
    return repr(value) if isinstance(value, str) and len(value) <= 40 else f"of length {len(value):,}"
