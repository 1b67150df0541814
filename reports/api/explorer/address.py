"""The inputs of the explorer page as they stand in its address, and the requests of the API that they make."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import urlencode

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

from reports.api.base_models import RequestBody
from reports.api.http.problem import ProblemError, invalid

MOST_FORMATS = 8
MOST_CHIPS = 4
Operator = Literal["product", "attention", "model"]
Input = Annotated[str, StringConstraints(max_length=400, strip_whitespace=True)]
Body = TypeVar("Body", bound=RequestBody)

INPUTS: Mapping[str, tuple[str, str]] = {
    "memory_limit_gb": ("limit", "Memory limit"),
    "model_parameters": ("parameters", "Parameters"),
    "max_loss_pct": ("loss", "Loss limit"),
    "batch_count": ("batch", "Batch"),
    "context_tokens": ("context", "Context"),
    "window": ("window", "Window"),
    "hardware_key": ("hw", "Chip"),
    "key": ("model", "Model"),
    "max_token_s": ("token", "Time per token"),
    "max_first_token_s": ("first", "Time to first token"),
}
"""Field of a request → the input it comes from and its label, where that is not the field's own name."""
_GROUPED = re.compile(r"\d{1,3}([ ,\u00a0\u202f]\d{3})+")
_NUMBER = re.compile(r"\d+(\.\d+)?(e\+?\d{1,2})?", re.IGNORECASE)


class Address(BaseModel):
    """Every input of the page as text; an empty one was not given. Inputs that the operator has not are ignored."""

    model_config = ConfigDict(frozen=True)

    hw: Input = ""
    op: Input = ""
    M: Input = "1"
    N: Input = "4096"
    K: Input = "4096"
    cache: Input = "cold"
    parameters: Input = ""
    B: Input = "1"
    Hq: Input = "32"
    Hkv: Input = "8"
    Sq: Input = "1"
    Skv: Input = "4096"
    D: Input = "128"
    causal: Input = ""
    window: Input = ""
    model: Input = "llama-3.1-8b"
    phase: Input = "decode"
    batch: Input = "1"
    context: Input = "4096"
    limit: Input = ""
    loss: Input = ""
    token: Input = ""
    first: Input = ""
    formats: Input = ""
    focus: Input = ""
    compare: Input = "h200-sxm,b200"
    run: Input = ""
    words: Input = ""

    @property
    def operator(self) -> Operator:
        """What is asked about; a product where the address names nothing known."""
        return self.op if self.op in ("attention", "model") else "product"  # type: ignore[return-value]

    def link(self, **changes: str) -> str:
        """Return the address of the page with some inputs changed."""
        given = {name: getattr(self, name) for name in self.model_fields_set} | changes
        return f"?{urlencode(given)}"

    def body(self, model: type[Body], fields: tuple[str, ...], **more: Any) -> Body:
        """Return the request of these inputs, named as the fields they fill; raises `ProblemError` naming those that
        are wrong.
        """
        given = {field: typed(getattr(self, INPUTS.get(field, (field,))[0])) for field in fields}
        try:
            return model.model_validate({**{field: value for field, value in given.items() if value != ""}, **more})
        except ValidationError as error:
            faults = [{**fault, "loc": ("body", *fault["loc"])} for fault in error.errors()]
            raise invalid(RequestValidationError(faults)) from None


def listed(text: str, most: int) -> tuple[str, ...]:
    """Return the entries of a list in the address: no blanks, nothing twice."""
    return tuple(dict.fromkeys(filter(None, map(str.strip, text.split(",")))))[:most]


def typed(text: str) -> float | int | str:
    """Return the number that was typed, `4,096`, `4 096` and `1e9` too, else the text itself: the request's model says
    what is wrong with it.
    """
    digits = re.sub(r"\D", "", text) if _GROUPED.fullmatch(text) else text
    if not _NUMBER.fullmatch(digits):
        return text
    number = float(digits)
    return int(number) if number.is_integer() else number


def input_errors(problem: ProblemError) -> dict[str, str]:
    """Return input → what is wrong with it; a message that begins with the name of the field begins with its label."""
    errors = {}
    for fault in problem.fields:
        name, label = INPUTS.get(fault.field, (fault.field, fault.field))
        errors[name] = (
            label + fault.message[len(fault.field) :] if fault.message.startswith(fault.field) else fault.message
        )
    return errors
