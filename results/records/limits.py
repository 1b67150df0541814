"""Limits that the record types declare for their fields: ranges, lengths, dates, the forms of JSON.

pydantic applies them where a run comes from outside (an import, `db check`), see `plain_form.from_plain`; it is not
imported before. Making a record checks nothing: the store keeps what it was given.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from results.records.plain_form import NON_FINITE, FormError, check_number, from_tagged, shown_value

MAX_TIME_S = 1e9
"""Thirty years: a longer time is a slip of a unit."""
MAX_COUNT = 2**40
"""Every database holds it."""
MIN_TIME_S = 1e-18
"""Light crosses no atom in it; a time of 0 stays, it is told elsewhere."""
MIN_RATE_PER_S = 1e-6
"""One a fortnight."""


@dataclass(frozen=True, slots=True)
class Form:
    """How a field is read, as part of its type: `Annotated[bool, EXACT]`."""

    schema: Callable[[Any, Any], Any]
    """Returns pydantic's schema from `pydantic_core.core_schema` and the schema of the bare type."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        """Return the schema; pydantic asks for it when the first record is read."""
        from pydantic_core import core_schema

        return self.schema(core_schema, handler(source))


@dataclass(frozen=True, slots=True)
class Limit:
    """A condition on the value of a field, as part of its type: `Annotated[float, Limit(…)]`.

    None is within every one.
    """

    holds: Callable[[Any], bool]
    description: str
    """What the value should be, for an error."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        """Return the schema of a value that is within the limit where a context is given."""
        from pydantic_core import core_schema

        return core_schema.with_info_after_validator_function(self._within, handler(source))

    def _within(self, value: Any, info: Any) -> Any:
        if info.context:
            self.check(value)
        return value

    def check(self, value: Any, where: str = "") -> None:
        """Raise `FormError` for a value that is outside."""
        if not self.holds(value):
            raise FormError(f"{where} is {shown_value(value)}, not {self.description}")


def _named(core: Any, bare: Any) -> Any:
    """Return the schema of a float that may be named; plain ones are read without a call of Python."""
    by_name = core.no_info_after_validator_function(NON_FINITE.__getitem__, core.literal_schema(list(NON_FINITE)))
    choices = [core.float_schema(strict=True), by_name]
    return core.union_schema(choices, mode="left_to_right", custom_error_type="float_type")


def _read_facts(data: Any, info: Any) -> dict[str, Any]:
    facts = from_tagged(data)
    if info.context:
        _check_facts(facts, "")
    return facts


def in_utc(moment: datetime) -> str:
    """Return a time in ISO 8601 with microseconds, so that texts sort like times; one without an offset is UTC already.

    Raises `OverflowError` for a time at the very edge of the calendar.
    """
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return aware.astimezone(UTC).isoformat(timespec="microseconds")


def _read_date(text: str, info: Any) -> str:
    """Return a date in UTC where there is a context: the store sorts and compares dates as texts."""
    try:
        return in_utc(datetime.fromisoformat(text)) if info.context else text
    except (ValueError, OverflowError):
        raise FormError(f" is {text[:40]!r}, not a date and time in ISO 8601") from None


def _read_optional_date(text: str, info: Any) -> str:
    return text and _read_date(text, info)


def _is_past(text: str) -> bool:
    """Return whether a date is no more than a day ahead: `latest` would mean that run until then."""
    return datetime.fromisoformat(text) - datetime.now(UTC) <= timedelta(days=1)


def _counts(least: int) -> Limit:
    return Limit(lambda count: least <= count <= MAX_COUNT, description=f"a whole number from {least} to {MAX_COUNT:,}")


def _texts(longest: int) -> Limit:
    return Limit(lambda text: 1 <= len(text) <= longest, description=f"text of 1 to {longest:,} characters")


CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""What no name holds: it moves the cursor, turns the direction of a line, or is no character."""
_KEY = re.compile("[!-~](?:[ -~]*[!-~])?")


def lines(longest: int) -> Limit:
    """Return the limit on a text of one line, none of it a control character."""
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
        if isinstance(value, int):
            check_number(value, where[:200])
        most = next((most for ending, most in MOST_OF_UNIT.items() if name.endswith(ending)), math.inf)
        # NaN and the infinities are said on purpose; a whole number may be larger than any float.
        if most < abs(value) != math.inf or (most == math.inf and isinstance(value, int) and abs(value) > MOST_FIGURE):
            raise FormError(f"{where[:200]} is {shown_value(value)}, more than {most:g}: a slip of unit?")


MAX_DEPTH, MAX_FACTS = 32, 10_000
MOST_FIGURE = 1e60
"""FLOPs of the largest product that every database holds the sizes of, and some."""
MOST_OF_UNIT = {"_per_s": MOST_FIGURE, "_s": MAX_TIME_S, "_bytes": 1e18, "_hz": 1e15, "_w": 1e9, "_j": 1e15}
"""Ending of a name → the largest number of that unit that is no slip."""


EXACT = Form(lambda core, bare: {**bare, "strict": True})
"""No text and no other number."""
TAGGED = Form(lambda core, bare: core.no_info_before_validator_function(from_tagged, bare))
"""A table whose numbers may be tagged."""
Flag = Annotated[bool, EXACT]
Whole = Annotated[int, EXACT]
Number = Annotated[float, Form(_named)]
"""NaN, Infinity and -Infinity by name."""
# A NaN is within no range of numbers.
Duration = Annotated[
    Number,
    Limit(
        lambda time_s: time_s == 0 or MIN_TIME_S <= time_s < MAX_TIME_S,
        description=f"a time from 0 to {MAX_TIME_S:g} s",
    ),
]
SignedDuration = Annotated[
    Number, Limit(lambda time_s: abs(time_s) < MAX_TIME_S, description=f"a time of less than {MAX_TIME_S:g} s")
]
NonNegative = Annotated[
    Number, Limit(lambda value: 0 <= value < MOST_FIGURE, description=f"a number from 0 to {MOST_FIGURE:g}")
]
Positive = Annotated[
    Number,
    Limit(lambda value: MIN_TIME_S <= value < MOST_FIGURE, description=f"a number above 0 and below {MOST_FIGURE:g}"),
]
Rate = Annotated[
    Number,
    Limit(
        lambda per_s: MIN_RATE_PER_S <= per_s < MOST_FIGURE,
        description=f"a rate from {MIN_RATE_PER_S:g} to {MOST_FIGURE:g} per second",
    ),
]
Finite = Annotated[
    Number, Limit(lambda value: abs(value) < MOST_FIGURE, description=f"a finite number below {MOST_FIGURE:g}")
]
Count = Annotated[Whole, _counts(0)]
CountFrom1 = Annotated[Whole, _counts(1)]
CountFrom2 = Annotated[Whole, _counts(2)]
ExitCode = Annotated[Whole, Limit(lambda code: abs(code) <= 2**31, description="the exit code of a process")]
Name = Annotated[str, _texts(1_000), lines(1_000)]
Line = Annotated[str, lines(4_000)]
"""May be empty."""
Reason = Annotated[str, lines(10_000)]
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
Facts = Annotated[Mapping[str, Any], Form(lambda core, bare: core.with_info_plain_validator_function(_read_facts))]
"""Free facts; a number whose name says its unit has to be one of that unit."""
IndexedName = Annotated[str, _texts(200), lines(200)]
"""Stands in an index: PostgreSQL refuses a row of more than 2,704 bytes there, SQLite none."""
Hash = Annotated[
    str, Limit(lambda text: re.fullmatch("[!-~]{1,64}", text) is not None, description="a hash of 1 to 64 characters")
]
KernelName = Annotated[str, _texts(100_000), lines(100_000)]
"""The mangled names of C++ templates fill pages."""
Date = Annotated[str, Form(lambda core, bare: core.with_info_after_validator_function(_read_date, bare))]
_PAST = Limit(
    lambda text: not text or _is_past(text), description="a time that has come: the clock or the file is wrong"
)
PastDate = Annotated[Date, _PAST]
OptionalPastDate = Annotated[
    str, Form(lambda core, bare: core.with_info_after_validator_function(_read_optional_date, bare)), _PAST
]
"""Empty where its maker gave none."""


def at_most(longest: int) -> Limit:
    """Return the limit on how many items a list or a table may hold."""
    return Limit(lambda items: len(items) <= longest, description=f"{longest:,} items or fewer")


def are_times(times_s: Collection[float]) -> bool:
    """Return whether a clock can have given all of these; a NaN or an infinity among them is one of their sum."""
    return not times_s or (min(times_s) >= 0 and sum(times_s) < MAX_TIME_S)


def outside_limits(value: Any) -> list[str]:
    """Return the names of the fields of a record type that are outside their limits; their parts are not looked at."""
    return [
        name
        for name, limit in _limits(type(value))  # type: ignore[arg-type]
        if (held := getattr(value, name)) is not None and not limit.holds(held)
    ]


@cache
def _limits(kind: type[Any]) -> tuple[tuple[str, Limit], ...]:
    """Return each limit of the fields of a record type with the field's name."""
    limits = []
    for name, hint in get_type_hints(kind, include_extras=True).items():
        annotated = get_args(hint)[0] if get_origin(hint) in (Union, UnionType) else hint  # of a type and None
        limits += [(name, limit) for limit in getattr(annotated, "__metadata__", ()) if isinstance(limit, Limit)]
    return tuple(limits)
