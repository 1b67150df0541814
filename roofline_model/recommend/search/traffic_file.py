"""A user's traffic as text: one kind of pass in a line, or a JSON file of them.

A line is `decode:batch=8,context=4096,share=0.7`; what is left out is batch 1, context 4096, share 1. A file is

    {"schema": 1, "traffic": [
      {"phase": "decode", "batch": 8, "context": 4096, "share": 0.7},
      {"phase": "prefill", "context": 2048, "share": 0.3}
    ]}

`new_tokens` may be given as for `predict_model`. Shares are any positive weights. A mistake is told with file and
field.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from roofline_model.core.definition_text import (
    json_document,
    read_definition_text,
    shown,
    user_path,
)
from roofline_model.core.errors import DefinitionError, InvalidValueError, RooflineError
from roofline_model.core.typed_fields import read_as
from roofline_model.models.decoder_step import PHASES
from roofline_model.models.model_shapes import DEFAULT_CONTEXT
from roofline_model.recommend.search.model_problem import TrafficShare, traffic_share

SCHEMA = 1
_FIELDS = ("phase", "batch", "context", "new_tokens", "share")
_EXAMPLE = "decode:batch=8,context=4096,share=0.7"


def traffic_from_text(text: str) -> tuple[TrafficShare, ...]:
    """Return the passes of one line, or of the JSON file it names; text that begins with a phase is a line.

    Raises `InvalidValueError` for a line and `DefinitionError` for a file, naming the field.
    """
    phase = text.partition(":")[0].strip().lower()
    if phase in PHASES:
        return (_parsed_line(text),)
    if ":" in text or not (text.lower().endswith(".json") or "/" in text):
        raise InvalidValueError(
            f"traffic {text[:60]!r} is neither PHASE:FIELD=VALUE,… ({_EXAMPLE}) nor the path of a .json file"
        )
    return read_traffic(text)


def read_traffic(path: str | Path) -> tuple[TrafficShare, ...]:
    """Read a traffic file; raises `DefinitionError` naming file, pass and field."""
    file = user_path(path)
    text = read_definition_text(file, "traffic file", fix=f"or give passes one by one, e.g. {_EXAMPLE}")
    data = json_document(text, str(file), "a traffic file", SCHEMA, ("schema", "traffic"))
    passes = data.get("traffic")
    if not isinstance(passes, list) or not passes:
        raise DefinitionError(f"{file}: traffic must be a list of passes, got {shown(passes)}")
    return tuple(_from_file(traffic_pass, f"{file}: pass {at}") for at, traffic_pass in enumerate(passes, 1))


def traffic_text(share: TrafficShare) -> str:
    """Return the line of one kind of pass: `traffic_from_text` reads it back equal."""
    work = share.workload
    default = 1 if work.phase == "decode" else work.context_count
    new = f",new_tokens={work.new_count}" if work.new_count != default else ""
    return f"{work.phase}:batch={work.batch_count},context={work.context_count}{new},share={_short(share.share_ratio)}"


def _parsed_line(text: str) -> TrafficShare:
    phase, _, rest = text.partition(":")
    fields: dict[str, Any] = {}
    for item in rest.split(",") if rest.strip() else ():
        name, equals, value = (part.strip() for part in item.partition("="))
        if not equals or name not in _FIELDS or name == "phase":
            raise InvalidValueError(
                f"traffic {text[:60]!r}: {item.strip()[:40]!r} is not FIELD=VALUE with a field of "
                f"{', '.join(_FIELDS[1:])}"
            )
        if name in fields:
            raise InvalidValueError(f"traffic {text[:60]!r}: {name} is given twice; keep one")
        fields[name] = _number(name, value, text)
    return traffic_share(phase.strip().lower(), **fields)


def _number(name: str, value: str, text: str) -> float | int:
    digits = value.replace("_", "")
    if name != "share":
        if not (digits.isdecimal() and digits.isascii() and len(digits) < 20):
            raise InvalidValueError(f"traffic {text[:60]!r}: {name} must be a whole number, got {value[:40]!r}")
        return int(digits)
    try:
        return float(digits)
    except ValueError:
        raise InvalidValueError(f"traffic {text[:60]!r}: share must be a positive number, got {value[:40]!r}") from None


@dataclass(frozen=True, slots=True)
class _PassTable:
    phase: Literal["decode", "prefill"]
    batch: int = 1
    context: int = DEFAULT_CONTEXT
    new_tokens: int | None = None
    share: float = 1.0


def _from_file(data: Any, where: str) -> TrafficShare:
    table = read_as(_PassTable, data, f"{where}: ")
    if not 0 < table.share < 1e15:
        raise DefinitionError(f"{where}: share must be a positive number, got {shown(table.share)}")
    try:
        return traffic_share(**asdict(table))
    except RooflineError as error:
        raise DefinitionError(f"{where}: {error}") from None


def _short(value: float) -> str:
    short = f"{value:g}"
    return short if float(short) == value else repr(value)
