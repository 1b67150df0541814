"""Cases and findings inside the record types: how a file holds them, and what it may hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from results.records.limits import MAX_COUNT, Form, Whole, lines
from results.records.plain_form import FormError, check_number, read_findings
from roofline_model.core.errors import RooflineError
from roofline_model.core.finding import Finding
from roofline_model.operators.case import Case

_Word = Annotated[str, lines(1_000)]


@dataclass(frozen=True, slots=True)
class _CaseForm:
    """Fields of a case in a file."""

    op: _Word
    shape: Mapping[_Word, Whole]
    formats: Mapping[_Word, _Word]
    kernel: Annotated[str, lines(100_000)]
    cache: str
    mode: _Word

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """Return the schema of a `Case`, or of the form itself."""
        from pydantic_core import core_schema

        if source is cls:
            return handler(source)
        return core_schema.with_info_after_validator_function(_case, handler.generate_schema(cls))


def _case(form: _CaseForm, info: Any) -> Case:
    is_product = form.op in ("gemv", "gemm")
    for name, size in form.shape.items() if info.context else ():
        least, most = (1, MAX_COUNT) if is_product and name in ("M", "N", "K") else (0, 2**63 - 1)
        if not least <= size <= most:
            raise FormError(f".shape.{name} is {str(size)[:40]}, not a whole number from {least} to {most:,}")
    try:
        return Case.from_dict(asdict(form))
    except RooflineError as error:
        raise FormError(f": {error}") from None


_FINDING_TEXT, _FINDING_CODE = lines(10_000), lines(100)


def _findings(data: Any, info: Any) -> tuple[Finding, ...]:
    try:
        findings = read_findings(data)
    except ValueError as error:
        raise FormError(f" is {error}") from None
    for number, item in enumerate(findings):
        texts = [("code", item.code, _FINDING_CODE), ("subject", item.subject, _FINDING_TEXT)]
        texts += [("values", name, _FINDING_TEXT) for name, _ in item.values]
        for name, value in item.values:
            check_number(value, f".{item.code}.{name}"[:200])
            values = value if isinstance(value, tuple) else (value,)
            texts += [(name, text, _FINDING_TEXT) for text in values if isinstance(text, str)]
        for name, text, limit in texts if info.context else ():
            limit.check(text, f"[{number}].{name[:40]}")
    return findings


StoredCase = Annotated[Case, _CaseForm]
StoredFindings = Annotated[
    tuple[Finding, ...], Form(lambda core, bare: core.with_info_plain_validator_function(_findings))
]
