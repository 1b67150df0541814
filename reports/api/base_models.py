"""What all models of the API share: strict requests, answers without surprises, and the fields that recur."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from reports.present.encoder import SCHEMA_VERSION
from roofline_model.operators.product import MAX_DIMENSION

Dimension = Annotated[int, Field(strict=True, ge=1, le=MAX_DIMENSION)]
FormatName = Annotated[
    str,
    Field(strict=True, min_length=1, max_length=40, examples=["FP16", "BF16", "FP8_E4M3", "NVFP4", "INT4"]),
]
# PostgreSQL takes no NUL in a text, and a name of several lines is none.
NAME_PATTERN = r"^[^\x00-\x1f\x7f]+$"
"""Of names that a request may hold: no control characters."""
CacheName = Literal["cold", "warm"]
PhaseName = Literal["decode", "prefill"]

CACHE_TEXT = "cold: operands come from DRAM; warm: they are still in the last-level cache"
RATE_TEXT = "dense FLOP per second (a multiply and an add are two)"


class RequestBody(BaseModel):
    """A request body: unknown fields, NaN and infinities are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Answer(BaseModel):
    """A response body: numbers are SI and finite; what is not known is null."""

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="null", protected_namespaces=())


class Document(Answer):
    """A whole response body."""

    schema_version: int = Field(
        default=SCHEMA_VERSION, description="version of the keys of all documents, code (docs/reference/json_keys.md)"
    )


class FindingBody(Answer):
    """One thing to know about an answer: a code with values, and its line of words."""

    code: str = Field(description="`roofline explain CODE` and docs/reference/findings.md say what it means")
    severity: Literal["info", "caution", "warning"] = Field(
        description="info: context; caution: weakens the number; warning: do not act on the number before this is settled"
    )
    subject: str = Field(description="what it is about where that is not the answer itself; may be empty")
    values: dict[str, str | bool | int | float | list[str]] = Field(description="name → value; names end in their unit")
    text: str = Field(description="the finding in one line")
