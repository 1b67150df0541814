"""Cases of whole models that another program measured, named as our own are: `decode:llama-3.1-8b`, sizes B, Sq,
Skv.
"""

from __future__ import annotations

import re

from results.exchange.foreign import ModelAsk, PassRun, Stated
from results.exchange.model_names import LONGEST_NAME, NamedModel
from roofline_model.core.errors import RooflineError
from roofline_model.core.finding import Finding, finding
from roofline_model.models.format_plan import EXPERTS, stored_plan
from roofline_model.operators.case import Case

_UNSAFE = re.compile(r"[^A-Za-z0-9_@+-]+")


def kernel_name(*words: str) -> str:
    """Return a kernel name, its words joined by dots; characters other than letters, digits and _@+- become
    underscores.
    """
    parts = (_UNSAFE.sub("_", word.replace(" - ", " ").strip()).strip("_") for word in words if word.strip())
    return ".".join(parts)[: 2 * LONGEST_NAME]


def model_case(
    named_model: NamedModel,
    phase: str,
    passes: tuple[PassRun, ...],
    kernel: str,
    stated: Stated,
    *,
    output_count: int = 0,
) -> tuple[Case, ModelAsk | None, Finding | None]:
    """Return the case of a measured call, the question to `predict model`, and why there is none.

    Of several formats, those of the case are the experts'. `phase` generate: a prompt and the steps behind it in one
    call, with sizes B, Sin and Sout, `output_count` new tokens.
    """
    last = passes[-1]
    sizes = (("B", last.batch_count), ("Sq", last.new_count), ("Skv", last.context_count))
    if phase == "generate":
        sizes = (("B", last.batch_count), ("Sin", passes[0].new_count), ("Sout", output_count))
    formats: tuple[tuple[str, str], ...] = ()
    ask, reason = None, named_model.unknown
    shape, text, kv = named_model.shape, named_model.formats, named_model.kv_format
    if shape is not None and text is not None:
        try:
            plan = stored_plan(text, shape, kv=kv)
        except RooflineError as error:
            reason = finding("unsupported", reason=str(error))
        else:
            most = plan.base if shape.experts is None else plan.of(EXPERTS[0])
            formats = (("a", most.activations), ("b", most.weights), ("kv", plan.kv))
            ask = ModelAsk(
                shape, text, kv, passes, named_model.weight_bytes, stated.device_count, stated.link_bytes_per_s
            )
    elif reason is None:
        reason = finding("import-incomplete", kind="formats", options="--formats")
    return Case(f"{phase}:{named_model.label}", sizes, formats, kernel, "none", "eager"), ask, reason
