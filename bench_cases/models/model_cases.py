"""Which cases a model has: precision × phase × batch × context, and narrow caches. No torch here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from bench_cases.models.plan_file import plan_name, read_plan
from bench_cases.models.reference import ModelReference
from bench_cases.quantization.plans.layer_report import ROUND_TO_NEAREST
from bench_cases.quantization.plans.precisions import PRECISIONS, parse_precision, precision_formats
from bench_cases.quantization.plans.recipes import Recipe, recipes_of
from bench_cases.quantization.target import Target
from roofline_model.core.errors import InvalidValueError, RooflineError
from roofline_model.core.finding import finding
from roofline_model.formats.catalog import known_format
from roofline_model.models.decoder_step import Workload
from roofline_model.models.format_plan import FormatException, FormatPlan, PartFormats
from roofline_model.models.model_pass import LinearPath, ModelPass
from roofline_model.models.strategies.modules_plan import modules_plan
from roofline_model.operators.case import Case

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
    """One of `roofline_model.operators.case.MODES`."""

    @property
    def is_plain(self) -> bool:
        """Whether the weights are those of the 16-bit model."""
        return not self.plan and parse_precision(self.precision).is_plain

    @property
    def is_saved(self) -> bool:
        """Whether the model comes quantised from its folder: nothing is applied, and there is no original to compare
        with.
        """
        return bool(self.model.saved_precision)

    @property
    def workload(self) -> Workload:
        """The pass."""
        return Workload.of(self.phase, self.batch_count, self.context_count)

    @property
    def formats(self) -> tuple[str, str]:
        """Weight and activation format of the Linears; of a plan, those of most of its keys."""
        return precision_formats(self.main_precision, self.model.wide)

    @property
    def main_precision(self) -> str:
        """The precision; of a plan that of most of its keys."""
        return _commonest(self.plan) if self.plan else self.precision

    @property
    def kernel(self) -> str:
        """Kernel name: transformers, or torchao's Linears, with the method, plan or cache where the case has its
        own.
        """
        name_parts = ["transformers" if self.is_plain else "torchao"]
        name_parts += [] if self.is_plain or self.method == ROUND_TO_NEAREST else [self.method.lower()]
        name_parts += ["saved"] if self.is_saved else []
        name_parts += [f"plan_{self.plan_name}"] if self.plan else []
        name_parts += [] if self.kv == self.model.wide else [f"kv_{self.kv}"]
        name_parts += ["compiled"] if self.is_compiled else []
        return ".".join(name_parts)

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
        exceptions = [FormatException("embedding", PartFormats(wide, wide))] if weight != wide else []
        if weight != wide and shape.has_tied_embedding:  # apply_quantization keeps a weight that the embedding shares
            exceptions.append(FormatException("lm_head", PartFormats(wide, wide)))
        if weight != wide and shape.experts is not None:  # transformers keeps experts as one tensor, which is no Linear
            exceptions += [FormatException(part, PartFormats(wide, wide)) for part in ("experts", "router")]
        plan = FormatPlan(PartFormats(weight, activation), self.kv, wide, tuple(exceptions), label=self.precision)
        return ModelPass(shape, self.workload, plan, linear_paths(target, wide, is_compiled=self.is_compiled))

    def executed_work(self, became: Mapping[str, str], target: Target) -> ModelPass | None:
        """Return the pass with what every Linear became (full name → precision); as `work` where that is no plan of
        ours.
        """
        shape, wide = self.model.shape, self.model.wide
        if shape is None:
            return None
        formats = {name: PartFormats(*precision_formats(precision, wide)) for name, precision in became.items()}
        try:
            plan = modules_plan(formats, shape, wide=wide, kv=self.kv, label=self.precision)
        except RooflineError:
            return self.work(target)
        return ModelPass(shape, self.workload, plan, linear_paths(target, wide, is_compiled=self.is_compiled))


def model_cases(
    model: ModelReference,
    device: Device,
    shapes: str,
    *,
    formats: Sequence[str] | None = None,
    batches: Sequence[int] | None = None,
    contexts: Sequence[int] | None = None,
    kv_formats: Sequence[str] = (),
    plan_paths: Sequence[Path] = (),
    method: str | None = None,
    is_compiled: bool = False,
    modes: Sequence[str] = ("eager",),
) -> list[ModelCase]:
    """Return the cases of one model, its own format first.

    `shapes`: quick, standard or full decide what is not given; any other text (sizes of products) selects no model case
    unless batches or contexts are. `formats` keeps what is listed: by its weight's format alone, or as
    `WEIGHT.ACTIVATION`; a format that the set has not is added. `kv_formats` are measured with 16-bit weights in
    decode. Raises `InvalidValueError` (a method nobody knows, a plan that cannot be read).
    """
    if shapes not in ("quick", "standard", "full") and batches is None and contexts is None:
        return []
    method_key = _method(method)
    cases: list[ModelCase] = []
    if model.saved_precision and (plan_paths or kv_formats or method):
        raise InvalidValueError(
            f"{model.name} is quantised already ({model.saved_precision}): --roofline-plan, --roofline-kv and "
            "--roofline-method are for 16-bit models"
        )
    sizes = [(b, c) for c in contexts or _contexts(shapes, device) for b in batches or _batches(shapes)]
    wide = model.wide
    precisions = (
        tuple(
            precision_name for precision_name in (model.saved_precision,) if _is_listed(precision_name, formats, wide)
        )
        if model.saved_precision
        else _precisions(shapes, device, formats, wide)
    )
    for precision in precisions:
        for phase in PHASES:
            cases += [ModelCase(model, precision, phase, batch, context, wide, method_key) for batch, context in sizes]
    for path in plan_paths:
        plan = read_plan(path, model)
        for phase in PHASES:
            cases += [ModelCase(model, "plan", phase, b, c, wide, method_key, plan, plan_name(path)) for b, c in sizes]
    narrow = tuple(kv_formats) or (KV_FORMATS if shapes == "full" and not model.saved_precision else ())
    for kv in narrow:
        _check_kv(kv)
        cases += [ModelCase(model, wide, "decode", batch, context, kv) for batch, context in sizes]
    return [
        replace(case, method=ROUND_TO_NEAREST if case.is_plain else case.method, is_compiled=is_compiled, mode=mode)
        for case in cases
        for mode in modes
    ]


def linear_paths(target: Target, wide: str, *, is_compiled: bool = False) -> tuple[LinearPath, ...]:
    """Return the work per call of torchao's Linears beyond one fused product, from the table of its recipes.

    `is_compiled`: torch.compile puts a cast into the product that follows it.
    """
    paths = []
    for name in PRECISIONS:
        usable = [recipe for recipe in recipes_of(name, target.device) if recipe.against_target(target) is None]
        if usable and not (is_compiled and usable[0].is_scaled_apart):
            weight, activation = precision_formats(name, wide)
            path = _path(usable[0], weight, activation, wide, target)
            paths += [] if path is None else [path]
    return tuple(paths)


def _path(recipe: Recipe, weight: str, activation: str, wide: str, target: Target) -> LinearPath | None:
    source = f"torchao's {recipe.config_name} on {target}: {recipe.kernel}"
    if not recipe.is_emulated:
        extra = recipe.widened_bytes_per_element
        return LinearPath(weight, activation, widened_bytes_per_element=extra, source=source) if extra else None
    if activation != wide or recipe.scale_shape == "format":
        why_not = finding(
            "no-expected-time", kind="path", config=recipe.config_name, device=str(target), kernel=recipe.kernel
        )
        return LinearPath(weight, activation, unmodelled=why_not)
    return LinearPath(weight, activation, wide, not recipe.is_scaled_apart, source=source)


def _precisions(shapes: str, device: Device, formats: Sequence[str] | None, wide: str) -> tuple[str, ...]:
    """Return the model's own format and the set's precisions that are listed; a listed one that the set has not is
    added.
    """
    names = PRECISIONS if shapes == "full" else STANDARD[device] if shapes == "standard" else QUICK[device]
    runnable = (wide, *(name for name in names if recipes_of(name, device)))
    if formats is None:
        return runnable
    precisions = [precision for precision in runnable if _is_listed(precision, formats, wide)]
    for text in formats:
        if _is_pair(text):
            parsed = parse_precision(text)
            precisions += [] if parsed.substitution or parsed.is_plain else [parsed.name]
        elif not any(_is_listed(precision, (text,), wide) for precision in runnable):
            precisions += _alone(text, device, wide)
    return tuple(dict.fromkeys(precisions))


def _is_listed(precision: str, formats: Sequence[str] | None, wide: str) -> bool:
    """Return whether a precision is one of `formats`: by its weight's format, or by both."""
    if formats is None:
        return True
    weight, activation = precision_formats(precision, wide)
    pairs = [precision_formats(precision_name, wide) for precision_name in formats if _is_pair(precision_name)]
    return weight in formats or (weight, activation) in pairs


def _is_pair(text: str) -> bool:
    """Return whether a text is `WEIGHT.ACTIVATION`; a user's format may have a dot in its name."""
    return "." in text and known_format(text) is None


def _alone(weight: str, device: Device, wide: str) -> list[str]:
    """Return the one precision that a weight format alone stands for on a device; empty where torchao has none."""
    precisions = [
        precision
        for precision in PRECISIONS
        if precision_formats(precision, wide)[0] == weight and recipes_of(precision, device)
    ]
    usual = parse_precision(weight).name
    return [usual] if usual in precisions else precisions[:1]


def _batches(shapes: str) -> tuple[int, ...]:
    return {"standard": (1, 8), "full": (1, 4, 16)}.get(shapes, (1,))


def _contexts(shapes: str, device: Device) -> tuple[int, ...]:
    if device == "cpu":
        return {"full": (128, 1024)}.get(shapes, (128,))
    return {"standard": (1024,), "full": (1024, 4096)}.get(shapes, (512,))


def _method(text: str | None) -> str:
    methods = (ROUND_TO_NEAREST, "HQQ", "AWQ")
    for name in methods:
        if (text or ROUND_TO_NEAREST).strip().lower() == name.lower():
            return name
    raise InvalidValueError(f"--roofline-method must be {', '.join(methods)}; got {str(text)[:40]!r}")


def _check_kv(kv: str) -> None:
    if kv not in KV_FORMATS:
        raise InvalidValueError(f"--roofline-kv takes {', '.join(KV_FORMATS)}; got {kv}")


def _commonest(plan: tuple[tuple[str, str], ...]) -> str:
    values = [value for _, value in plan]
    return max(dict.fromkeys(values), key=values.count)
