"""Which cases a model has: precision × phase × batch × context, and narrow caches. No torch here."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from bench_cases.model_runs.model_reference import ModelReference
from bench_cases.quantization.layer_report import ROUND_TO_NEAREST
from bench_cases.quantization.precisions import PRECISIONS, parse_precision, precision_formats
from bench_cases.quantization.recipes import Recipe, recipes_of
from bench_cases.quantization.target import Target
from roofline_model.case import Case
from roofline_model.decoder.decoder_step import Workload
from roofline_model.decoder.format_plan import FormatException, FormatPlan, PartFormats
from roofline_model.decoder.model_pass import LinearPath, ModelPass
from roofline_model.errors import DefinitionError, InvalidValueError, RooflineError
from roofline_model.formats import get_format
from roofline_model.mixed_precision.modules_plan import modules_plan

Device = Literal["cpu", "cuda"]
PHASES = ("decode", "prefill")
KV_FORMATS = ("INT8", "FP8_E4M3", "NVFP4")

QUICK = {"cpu": ("INT8", "INT4"), "cuda": ("INT8", "INT4", "FP8", "NVFP4")}
STANDARD = {
    "cpu": ("INT8", "INT8.INT8", "INT4", "INT4.INT8"),
    "cuda": ("INT8", "INT8.INT8", "INT4", "FP8.BF16", "FP8", "NVFP4", "MXFP8", "MXFP4"),
}
"""Precisions beside the model's own. Emulated formats of a CPU take a second a step: `full`, or by name."""


@dataclass(frozen=True, slots=True)
class ModelCase:
    """One case of a whole model: what is applied to it, and the pass that is timed."""

    model: ModelReference
    precision: str
    """Precision of every Linear (`precisions.PRECISIONS`), a 16-bit format, or `plan`."""
    phase: str
    batch_count: int
    context_count: int
    """Tokens of each sequence after the pass."""
    kv: str
    """Format of the KV cache."""
    method: str = ROUND_TO_NEAREST
    plan: tuple[tuple[str, str], ...] = ()
    """Of precision `plan`: layer, pattern or role → precision."""
    plan_name: str = ""
    is_compiled: bool = False
    """Whether the step runs through torch.compile."""
    mode: str = "eager"
    """One of `roofline_model.case.MODES`."""

    @property
    def is_plain(self) -> bool:
        """Whether the weights are those of the 16-bit model."""
        return not self.plan and parse_precision(self.precision).is_plain

    @property
    def is_saved(self) -> bool:
        """Whether the model comes quantised from its folder: nothing is applied, and there is no original to compare with."""
        return bool(self.model.saved_precision)

    @property
    def workload(self) -> Workload:
        """The pass."""
        return Workload.of(self.phase, self.batch_count, self.context_count)

    @property
    def formats(self) -> tuple[str, str]:
        """Weight and activation format of the Linears; of a plan, those of most of its keys."""
        return precision_formats(_commonest(self.plan) if self.plan else self.precision, self.model.wide)

    @property
    def kernel(self) -> str:
        """What runs: transformers as it is, or with torchao's Linears; a method, plan or cache of its own is named."""
        words = ["transformers" if self.is_plain else "torchao"]
        words += [] if self.is_plain or self.method == ROUND_TO_NEAREST else [self.method.lower()]
        words += ["saved"] if self.is_saved else []
        words += [f"plan_{self.plan_name}"] if self.plan else []
        words += [] if self.kv == self.model.wide else [f"kv_{self.kv}"]
        words += ["compiled"] if self.is_compiled else []
        return ".".join(words)

    @property
    def op(self) -> str:
        """Phase and model: results of two models are never set against each other."""
        return f"{self.phase}:{self.model.name}"

    @property
    def case(self) -> Case:
        """The identity: B sequences, Sq new tokens each, Skv tokens in the end."""
        weight, activation = self.formats
        work = self.workload
        sizes = (("B", work.batch_count), ("Sq", work.new_count), ("Skv", work.context_count))
        return Case(self.op, sizes, (("a", activation), ("b", weight), ("kv", self.kv)), self.kernel, "warm", self.mode)

    @property
    def id(self) -> str:
        """The pytest id: the phase before the case's own."""
        return f"{self.phase}-{self.case.id}"

    def work(self, target: Target) -> ModelPass | None:
        """Return the pass that is predicted, by the kernels that `target` runs.

        None where the model's shape is not known, or a plan has no formats per part.
        """
        shape = self.model.shape
        if shape is None or self.plan:
            return None
        weight, activation = self.formats
        wide = self.model.wide
        kept = [FormatException("embedding", PartFormats(wide, wide))] if weight != wide else []
        if weight != wide and shape.has_tied_embedding:  # apply_quantization keeps a weight that the embedding shares
            kept.append(FormatException("lm_head", PartFormats(wide, wide)))
        if weight != wide and shape.experts is not None:  # transformers keeps experts as one tensor, which is no Linear
            kept += [FormatException(part, PartFormats(wide, wide)) for part in ("experts", "router")]
        plan = FormatPlan(PartFormats(weight, activation), self.kv, wide, tuple(kept), label=self.precision)
        return ModelPass(shape, self.workload, plan, linear_paths(target, wide, is_compiled=self.is_compiled))

    def executed_work(self, became: Mapping[str, str], target: Target) -> ModelPass | None:
        """Return the pass with what every Linear became (full name → precision); as `work` where that is no plan of ours."""
        shape, wide = self.model.shape, self.model.wide
        if shape is None:
            return None
        formats = {name: PartFormats(*precision_formats(one, wide)) for name, one in became.items()}
        try:
            plan = modules_plan(formats, shape, wide=wide, kv=self.kv, label=self.precision)
        except RooflineError:
            return self.work(target)
        return ModelPass(shape, self.workload, plan, linear_paths(target, wide, is_compiled=self.is_compiled))


def model_cases(
    model: ModelReference, device: Device, shapes: str, *, formats: Sequence[str] | None = None,
    batches: Sequence[int] | None = None, contexts: Sequence[int] | None = None, kv_formats: Sequence[str] = (),
    plan_paths: Sequence[Path] = (), method: str | None = None, is_compiled: bool = False,
    modes: Sequence[str] = ("eager",),
) -> list[ModelCase]:  # fmt: skip
    """Return the cases of one model, its own format first.

    `shapes`: quick, standard or full decide what is not given; any other text (sizes of products) selects no model case
    unless batches or contexts are. `formats` keeps the weight formats that are listed. `kv_formats` are measured with
    16-bit weights in decode. Raises `InvalidValueError` (a method nobody knows, a plan that cannot be read).
    """
    if shapes not in ("quick", "standard", "full") and batches is None and contexts is None:
        return []
    wanted = _method(method)
    found: list[ModelCase] = []
    if model.saved_precision and (plan_paths or kv_formats or method):
        raise InvalidValueError(
            f"{model.name} is quantised already ({model.saved_precision}): --roofline-plan, --roofline-kv and --roofline-method are for 16-bit models"
        )
    sizes = [(b, c) for c in contexts or _contexts(shapes, device) for b in batches or _batches(shapes)]
    wide = model.wide
    precisions = (
        (model.saved_precision,) if model.saved_precision else (wide, *_precisions(shapes, device, formats, wide))
    )
    for precision in precisions:
        if formats is not None and get_format(precision_formats(precision, wide)[0]).key not in formats:
            continue
        for phase in PHASES:
            found += [ModelCase(model, precision, phase, batch, context, wide, wanted) for batch, context in sizes]
    for path in plan_paths:
        plan = _read_plan(path)
        for phase in PHASES:
            found += [ModelCase(model, "plan", phase, b, c, wide, wanted, plan, _plan_name(path)) for b, c in sizes]
    narrow = tuple(kv_formats) or (KV_FORMATS if shapes == "full" and not model.saved_precision else ())
    for kv in narrow:
        _check_kv(kv)
        found += [ModelCase(model, wide, "decode", batch, context, kv) for batch, context in sizes]
    return [
        replace(one, method=ROUND_TO_NEAREST if one.is_plain else one.method, is_compiled=is_compiled, mode=mode)
        for one in found
        for mode in modes
    ]


def linear_paths(target: Target, wide: str, *, is_compiled: bool = False) -> tuple[LinearPath, ...]:
    """Return what torchao's Linears do per call beyond one fused product, from the table of its recipes.

    `is_compiled`: torch.compile puts a cast into the product that follows it.
    """
    found = []
    for name in PRECISIONS:
        usable = [one for one in recipes_of(name, target.device) if one.reason_against_target(target) is None]
        if usable and not (is_compiled and usable[0].is_scaled_apart):
            weight, activation = precision_formats(name, wide)
            path = _path(usable[0], weight, activation, wide, target)
            found += [] if path is None else [path]
    return tuple(found)


def _path(recipe: Recipe, weight: str, activation: str, wide: str, target: Target) -> LinearPath | None:
    source = f"torchao's {recipe.config_name} on {target}: {recipe.kernel}"
    if not recipe.is_emulated:
        extra = recipe.widened_bytes_per_element
        return LinearPath(weight, activation, widened_bytes_per_element=extra, source=source) if extra else None
    if activation != wide or recipe.scale_shape == "format":
        why = f"{recipe.config_name} on {target} is emulated in many steps, whose time nobody models: {recipe.kernel}"
        return LinearPath(weight, activation, unmodelled=why)
    return LinearPath(weight, activation, wide, not recipe.is_scaled_apart, source=source)


def _precisions(shapes: str, device: Device, formats: Sequence[str] | None, wide: str) -> Iterator[str]:
    """Yield the precisions beside the model's own; formats asked for by name bring those no set has."""
    known = PRECISIONS if shapes == "full" else STANDARD[device] if shapes == "standard" else QUICK[device]
    named = [one for one in PRECISIONS if precision_formats(one, wide)[0] in (formats or ())]
    for one in dict.fromkeys((*known, *named)):
        if recipes_of(one, device):
            yield one


def _batches(shapes: str) -> tuple[int, ...]:
    return {"standard": (1, 8), "full": (1, 4, 16)}.get(shapes, (1,))


def _contexts(shapes: str, device: Device) -> tuple[int, ...]:
    if device == "cpu":
        return {"full": (128, 1024)}.get(shapes, (128,))
    return {"standard": (1024,), "full": (1024, 4096)}.get(shapes, (512,))


def _method(text: str | None) -> str:
    known = (ROUND_TO_NEAREST, "HQQ", "AWQ")
    for name in known:
        if (text or ROUND_TO_NEAREST).strip().lower() == name.lower():
            return name
    raise InvalidValueError(f"--roofline-method must be {', '.join(known)}; got {str(text)[:40]!r}")


def _check_kv(kv: str) -> None:
    if kv not in KV_FORMATS:
        raise InvalidValueError(f"--roofline-kv takes {', '.join(KV_FORMATS)}; got {kv}")


def _read_plan(path: Path) -> tuple[tuple[str, str], ...]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DefinitionError(f"--roofline-plan {path.name} cannot be read as JSON: {str(error)[:120]}") from None
    plan = data.get("plan", data) if isinstance(data, Mapping) else None
    if not isinstance(plan, Mapping) or not plan or not all(isinstance(value, str) for value in plan.values()):
        raise DefinitionError(
            f'--roofline-plan {path.name} must be a JSON object of layer, pattern or role to precision, e.g. {{"ffn": "INT4", "lm_head": "INT8"}}'
        )
    for precision in plan.values():
        parse_precision(precision)
    return tuple((str(key), str(value)) for key, value in plan.items())


def _plan_name(path: Path) -> str:
    return "".join(ch if ch.isalnum() and ch.isascii() else "_" for ch in path.stem)[:40] or "plan"


def _commonest(plan: tuple[tuple[str, str], ...]) -> str:
    values = [value for _, value in plan]
    return max(dict.fromkeys(values), key=values.count)
