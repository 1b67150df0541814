"""Which number format each part of a model uses, layer by layer: weights, activations and KV cache apart.

A plan is a base and exceptions. `plan_from_text("INT4.BF16")` is the matrices of the layers in that format, with head,
embedding and router in 16 bit as published checkpoints have them; exceptions name a part or a group of parts, and
layers if need be: `lm_head=INT4.BF16`, `q_proj@0-3=FP8_E4M3`, `kv@0=BF16`. Formats are written as everywhere:
WEIGHT.ACTIVATION, one name for both or for weights alone (`is_weight_only`); a third one is the KV cache's.

A part is what can have a format of its own: a matrix, the cache, or one of the two products inside attention. Parts of
a group that agree run as one product (query, key and value; gate and up); parts that differ run apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from roofline_model.core.errors import InvalidValueError, UnknownNameError
from roofline_model.core.finding import Finding, finding
from roofline_model.formats.catalog import NumberFormat, format_name, get_format, is_weight_only
from roofline_model.models.model_shapes import ModelShape
from roofline_model.operators.operand_formats import activation_format, is_wide_float, product_format
from roofline_model.operators.product import with_group_scales

QKV = ("q_proj", "k_proj", "v_proj")
"""Of a latent cache (MLA), q_proj is all of the query's matrices; keys and values come from one matrix and must
agree.
"""
FFN = ("gate_proj", "up_proj", "down_proj")
"""A plain FFN has no gate_proj."""
EXPERTS = tuple(f"experts_{name}" for name in FFN)
SHARED_EXPERTS = tuple(f"shared_{name}" for name in FFN)
PRODUCTS = ("qk_matmul", "sv_matmul")
"""Query by key, and scores by value: the format that attention multiplies in; the residual stream's unless named."""
CACHE = "kv"
MATRICES = ("embedding", *QKV, "o_proj", *FFN, "router", *EXPERTS, *SHARED_EXPERTS, "lm_head")
PARTS = (*MATRICES, CACHE, *PRODUCTS)
"""What has a format of its own."""
OUTSIDE_LAYERS = ("embedding", "lm_head")
KEPT_WIDE = ("lm_head", "embedding", "router")
"""What published checkpoints of a narrow format keep in 16 bit, and so every plan here unless an exception names it."""

GROUPS = {
    "qkv_proj": QKV,
    "gate_up_proj": FFN[:2],
    "ffn": FFN,
    "experts": EXPERTS,
    "shared_experts": SHARED_EXPERTS,
    "attention": (*QKV, "o_proj"),
    "mlp": (*FFN, *EXPERTS, *SHARED_EXPERTS),
    "attention_products": PRODUCTS,
}
"""Names for several parts; of two names for one part, the one that names fewer parts is stronger."""


def parts_of(name: str) -> tuple[str, ...]:
    """Return the parts behind a name: a group's, or the part itself."""
    return GROUPS.get(name, (name,))


def ffn_parts_of(prefix: str, *, is_gated: bool) -> tuple[str, ...]:
    """Return the matrices of a feed-forward block that read its input; `prefix` is empty, `experts_` or `shared_`."""
    return tuple(f"{prefix}{name}" for name in (("gate_proj", "up_proj") if is_gated else ("up_proj",)))


def attention_part(matrix: str) -> str:
    """Return the part that a matrix of `model_parameters.attention_matrices` belongs to: q_b_proj → q_proj, kv_a_proj →
    k_proj.
    """
    return matrix if matrix == "o_proj" else f"{matrix[0]}_proj"


_WIDE_BITS = 16
AS_PUBLISHED = "checkpoint"
"""The plan's name for the formats the checkpoint itself is stored in."""


@dataclass(frozen=True, slots=True)
class PartFormats:
    """Formats of one part in one layer, by key."""

    weights: str
    activations: str

    @property
    def label(self) -> str:
        """What `plan_from_text` reads as these: `INT4.BF16`, `INT8.INT8`, or one name for a float of both operands."""
        is_alone = self.weights == self.activations and not is_weight_only(get_format(self.weights))
        return self.weights if is_alone else f"{self.weights}.{self.activations}"


@dataclass(frozen=True, slots=True)
class FormatException:
    """One exception of a plan: a part (or group), the layers it holds for, and its formats."""

    name: str
    formats: PartFormats
    first_layer_index: int | None = None
    """First and last layer, from 0; None: every layer."""
    last_layer_index: int | None = None

    def covers(self, layer: int | None) -> bool:
        """Return whether the exception holds in a layer; parts outside the layers are asked with None."""
        if self.first_layer_index is None or self.last_layer_index is None:
            return True
        return layer is not None and self.first_layer_index <= layer <= self.last_layer_index

    @property
    def strength(self) -> tuple[int, bool]:
        """A name for fewer parts beats one for more; then some layers beat all layers."""
        return -len(self.parts), self.first_layer_index is not None

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts it names."""
        return parts_of(self.name)

    @property
    def is_of_weights(self) -> bool:
        """Whether it names matrices: not the cache, not attention's products."""
        return not {CACHE, *PRODUCTS} & set(self.parts)


@dataclass(frozen=True, slots=True)
class FormatPlan:
    """Formats of a whole model."""

    base: PartFormats
    kv: str
    wide: str
    """16-bit (or wider) float in which the residual stream, norms and products' outputs flow."""
    exceptions: tuple[FormatException, ...] = ()
    label: str = field(default="", compare=False)
    has_group_scales: bool = True
    """Whether INT4 and INT2 weights carry a 16-bit scale per 128 elements, as the kernels behind the expected time
    store them. False counts as the original documents do, without: memory and ideal time alone, the expected time keeps
    them.
    """

    @property
    def name(self) -> str:
        """What people are shown: `FP8 (W8A8) + FP8 KV`; of a published or mixed plan its label."""
        is_mixed = any(not self.keeps_wide(exception) for exception in self.exceptions)
        if is_mixed or self.label.startswith(AS_PUBLISHED):
            return self.label
        return format_name(self.base.weights, self.base.activations, self.kv)

    def keeps_wide(self, exception: FormatException) -> bool:
        """Return whether an exception is what every uniform plan has: a part outside quantisation."""
        return exception.name in KEPT_WIDE and exception.formats == PartFormats(self.wide, self.wide)

    def of(self, name: str, layer: int | None = None) -> PartFormats:
        """Return the formats of a part in a layer, or of a group whose parts agree there.

        Raises `InvalidValueError` for a group whose parts differ.
        """
        groups = self.agreeing(parts_of(name), layer)
        if len(groups) > 1:
            listed = ", ".join(f"{'+'.join(parts)}={formats.label}" for parts, formats in groups)
            raise InvalidValueError(f"the parts of {name} differ in this plan ({listed}); ask for one of them")
        return groups[0][1]

    def agreeing(self, parts: Sequence[str], layer: int | None = None) -> list[tuple[tuple[str, ...], PartFormats]]:
        """Return the parts gathered by equal formats, in order: those that can run as one product, and their
        formats.
        """
        groups: dict[PartFormats, list[str]] = {}
        for part in parts:
            groups.setdefault(self._named(part, layer) or self.base, []).append(part)
        return [(tuple(names), formats) for formats, names in groups.items()]

    def stored(self, weights: str) -> NumberFormat:
        """Return a weight format as this plan stores it: with group scales where they count."""
        fmt = get_format(weights)
        return with_group_scales(fmt) if self.has_group_scales else fmt

    def weight_bytes_per_element(self, weights: str) -> float:
        """Return the bytes of one element of a weight in a format, with its scales."""
        return self.stored(weights).traffic_bytes_per_element

    @property
    def grouped_weights(self) -> tuple[str, ...]:
        """The plan's weight formats to which group scales belong, each once."""
        named = [self.base, *(exception.formats for exception in self.exceptions if exception.is_of_weights)]
        keys = dict.fromkeys(operands.weights for operands in named)
        return tuple(key for key in keys if with_group_scales(get_format(key)) != get_format(key))

    def kv_of(self, layer: int) -> str:
        """Return the KV-cache format of a layer."""
        named = self._named(CACHE, layer)
        return self.kv if named is None else named.weights

    def products_of(self, layer: int) -> tuple[str, str]:
        """Return the formats that attention multiplies in: query by key, scores by value. The wide one unless named."""
        qk, sv = (self._named(part, layer) for part in PRODUCTS)
        return self.wide if qk is None else qk.weights, self.wide if sv is None else sv.weights

    def _named(self, part: str, layer: int | None) -> PartFormats | None:
        """Return what the strongest exception says of a part in a layer; None: nothing."""
        matching = [exception for exception in self.exceptions if part in exception.parts and exception.covers(layer)]
        return max(matching, key=lambda exception: exception.strength).formats if matching else None

    def layer_keys(self, layer_count: int) -> list[tuple[object, ...]]:
        """Return for every layer what tells its formats from another's; layers with equal keys have equal formats."""
        layered = sorted(
            (exception for exception in self.exceptions if exception.first_layer_index is not None),
            key=lambda exception: exception.strength,
        )
        chosen: list[dict[str, PartFormats]] = [{} for _ in range(layer_count)]
        for exception in layered:
            assert exception.first_layer_index is not None and exception.last_layer_index is not None  # noqa: PT018
            for layer in range(exception.first_layer_index, exception.last_layer_index + 1):
                chosen[layer].update(dict.fromkeys(exception.parts, exception.formats))
        return [tuple((part, formats[part]) for part in PARTS if part in formats) for formats in chosen]


def published_plan(shape: ModelShape, *, kv: str | None = None) -> FormatPlan:
    """Return the plan of the checkpoint as it was published.

    Where the checkpoint does not say it, FP8 and NVFP4 multiply in that format (W8A8, W4A4), any other narrow format is
    weight-only (W4A16). Embedding, router and head stay in its 16-bit format, the cache unless it asks for another.
    Raises `InvalidValueError`
    when the checkpoint's quantisation is not one we know.
    """
    if shape.weight_format is None:
        raise InvalidValueError(
            f"{shape.name}: the formats of this checkpoint are not known (quantization_config or dtype of its "
            "config.json); say them with --formats"
        )
    wide = shape.wide_format
    usual = shape.weight_format if shape.weight_format in ("FP8_E4M3", "NVFP4") else wide
    plan = FormatPlan(
        PartFormats(shape.weight_format, shape.activation_format or usual),
        kv or shape.cache_format or wide,
        wide,
        () if shape.weight_format == wide else tuple(_kept_wide(shape, wide)),
        label=_published_label(shape),
    )
    stored = tuple(_parse_exception(text, plan, shape) for text in shape.format_exceptions)
    return checked_plan(replace(plan, exceptions=(*plan.exceptions, *stored)), shape)


def _kept_wide(shape: ModelShape, wide: str) -> list[FormatException]:
    """Return the exceptions that keep head, embedding and a router out of quantisation."""
    parts = (part for part in KEPT_WIDE if part != "router" or shape.experts is not None)
    return [FormatException(part, PartFormats(wide, wide)) for part in parts]


def plan_from_text(
    text: str, shape: ModelShape, *, kv: str | None = None, exceptions: Sequence[str] = ()
) -> FormatPlan:
    """Return the plan for `WEIGHT[.ACTIVATION[.KV]]` (or `checkpoint`) with exceptions `PART[@LAYERS]=FORMATS`.

    Every matrix of the layers gets the base's weight format; head, embedding and router stay in 16 bit, as in published
    checkpoints, unless an exception names them (`lm_head=INT4.BF16`). A weight-only format named alone (`INT4`) has the
    model's 16-bit activations. The cache has the residual stream's 16-bit format unless named. Raises
    `InvalidValueError` for formats that contradict each other, for a part or layer the model does not have, and for two
    exceptions that name the same part in one layer.
    """
    if text.strip().lower() == AS_PUBLISHED:
        plan = published_plan(shape, kv=None if kv is None else get_format(kv).key)
    else:
        weight, activation, cache = _parse_formats(text, shape.wide_format)
        if cache is not None and kv is not None and cache.key != get_format(kv).key:
            raise InvalidValueError(f"the KV format is given twice: {cache.key} in {text!r} and {get_format(kv).key}")
        chosen = cache or (None if kv is None else get_format(kv))
        wide = activation.key if is_wide_float(activation) else shape.wide_format
        exceptions_of_plan = _kept_wide(shape, wide) if weight.element_bits < _WIDE_BITS else ()
        plan = FormatPlan(
            PartFormats(weight.key, activation.key),
            (chosen or get_format(wide)).key,
            wide,
            tuple(exceptions_of_plan),
            label=text.strip(),
        )
    added = tuple(_parse_exception(item, plan, shape) for item in exceptions)
    _check_overlaps(added)
    # What the user says replaces what the plan itself says of the same part.
    remaining = tuple(exception for exception in plan.exceptions if not any(_replaces(new, exception) for new in added))
    label = " ".join([plan.label, *(item.strip() for item in exceptions)])
    return checked_plan(FormatPlan(plan.base, plan.kv, plan.wide, (*remaining, *added), label=label), shape)


def _replaces(new: FormatException, old: FormatException) -> bool:
    """Return whether a user's exception takes an older one's place; a stronger one for a part of it wins beside it."""
    return new.first_layer_index is None and bool(set(new.parts) & set(old.parts)) and new.strength <= old.strength


def _published_label(shape: ModelShape) -> str:
    experts = f", experts {shape.expert_format}" if shape.expert_format else ""
    return f"{AS_PUBLISHED} ({shape.weight_format}{experts})"


def _parse_formats(text: str, wide: str) -> tuple[NumberFormat, NumberFormat, NumberFormat | None]:
    """Return weight, activation and cache format of `W`, `W.A` or `W.A.KV`; `wide` is the activation of a weight-only
    format named alone.

    A user's format may have a dot in its name.
    """
    pieces = text.split(".")
    if 2 <= len(pieces) <= 3:
        try:
            weight, activation = get_format(pieces[0]), get_format(pieces[1])
            return weight, activation, get_format(pieces[2]) if len(pieces) == 3 else None
        except UnknownNameError as error:
            try:
                get_format(text)
            except UnknownNameError:
                raise error from None
    weight = get_format(text)
    return weight, get_format(wide) if is_weight_only(weight) else weight, None


def _parse_exception(text: str, plan: FormatPlan, shape: ModelShape) -> FormatException:
    name, equals, formats = text.partition("=")
    if not equals or not formats.strip():
        raise InvalidValueError(
            f"exception {text[:60]!r} is not PART[@LAYERS]=FORMATS, e.g. lm_head=BF16 or ffn@0-3=FP8"
        )
    part, at, layers = name.strip().partition("@")
    part = part.strip().lower()
    if part not in PARTS and part not in GROUPS:
        raise UnknownNameError("part", part, [*PARTS, *GROUPS], fix="An exception is PART[@LAYERS]=FORMATS.")
    first = last = None
    if at:
        if part in OUTSIDE_LAYERS:
            raise InvalidValueError(
                f"exception {text[:60]!r}: {part} is outside the layers; leave @{layers.strip()} out"
            )
        first, last = _parse_layers(layers.strip(), text, shape)
    # The cache and a product inside attention have one format: there is no activation beside it.
    is_single = set(parts_of(part)) <= {CACHE, *PRODUCTS}
    named = formats.strip()
    weight, activation, cache = _parse_formats(named, named if is_single else plan.wide)
    if cache is not None:
        raise InvalidValueError(
            f"exception {text[:60]!r}: the cache's format is an exception of its own, kv={cache.key}"
        )
    if part == CACHE and weight is not activation:
        raise InvalidValueError(f"exception {text[:60]!r}: the cache has one format, e.g. kv=FP8")
    if set(parts_of(part)) <= set(PRODUCTS) and weight is not activation:
        raise InvalidValueError(f"exception {text[:60]!r}: attention multiplies in one format, e.g. {part}=FP8")
    # An exception that widens a part of a narrow plan is meant to take it out of quantisation: both are widened.
    return FormatException(part, PartFormats(weight.key, activation.key), first, last)


def _parse_layers(layers: str, text: str, shape: ModelShape) -> tuple[int, int]:
    low, dash, high = layers.partition("-")
    ends = [low.strip(), high.strip() if dash else low.strip()]
    if not all(end.isdecimal() and end.isascii() and len(end) < 8 for end in ends):
        raise InvalidValueError(
            f"exception {text[:60]!r}: layers are one number or FIRST-LAST, from 0, e.g. ffn@0-3=FP8"
        )
    first, last = int(ends[0]), int(ends[1])
    if first > last or last >= shape.layer_count:
        raise InvalidValueError(
            f"exception {text[:60]!r}: {shape.name} has layers 0 to {shape.layer_count - 1}, got {layers}"
        )
    return first, last


def _check_overlaps(exceptions: Iterable[FormatException]) -> None:
    """Raise when two exceptions of equal strength name one part in one layer: neither can win."""
    rivals: dict[tuple[object, ...], list[FormatException]] = {}
    for exception in exceptions:
        for part in exception.parts:
            rivals.setdefault((part, *exception.strength), []).append(exception)
    for rival in rivals.values():
        rival.sort(key=lambda exception: exception.first_layer_index or 0)
        for exception, other in pairwise(rival):
            if (
                exception.last_layer_index is None
                or other.first_layer_index is None
                or other.first_layer_index <= exception.last_layer_index
            ):
                raise InvalidValueError(
                    f"{exception.name} is given twice for the same layers: {exception.formats.label} and "
                    f"{other.formats.label}; keep one"
                )


def checked_plan(plan: FormatPlan, shape: ModelShape) -> FormatPlan:
    """Return the plan; raise `InvalidValueError` for formats no kernel can combine, naming the part."""
    wide = get_format(plan.wide)
    if not is_wide_float(wide):
        raise InvalidValueError(f"the residual stream needs a float of 16 bits or more, got {wide.key}")
    named = [
        ("formats", plan.base),
        *((exception.name, exception.formats) for exception in plan.exceptions if exception.is_of_weights),
    ]
    for name, formats in named:
        check_pair(name, get_format(formats.weights), get_format(formats.activations))
    caches = [plan.kv, *(exception.formats.weights for exception in plan.exceptions if exception.name == CACHE)]
    for key in caches:
        if get_format(key).element_bits > wide.element_bits:
            raise InvalidValueError(
                f"kv={key} contradicts activations of {wide.key}: a cache wider than its content holds nothing more"
            )
    for exception in plan.exceptions:
        if shape.experts is None and set(exception.parts) <= {"router", *EXPERTS, *SHARED_EXPERTS}:
            raise InvalidValueError(
                f"{exception.name}={exception.formats.label}: {shape.name} has no experts; leave it out"
            )
        if shape.ffn == "plain" and exception.name == "gate_proj":
            raise InvalidValueError(
                f"{exception.name}={exception.formats.label}: {shape.name} has a plain FFN; leave it out"
            )
    seen: set[tuple[object, ...]] = set()
    for layer, kind in enumerate(plan.layer_keys(shape.layer_count)):
        if kind not in seen:
            seen.add(kind)
            _check_attention(plan, shape, layer)
    return plan


def _check_attention(plan: FormatPlan, shape: ModelShape, layer: int) -> None:
    """Raise `InvalidValueError` for what attention cannot multiply in one layer."""
    if shape.latent is not None and plan.of("k_proj", layer) != plan.of("v_proj", layer):
        raise InvalidValueError(
            f"k_proj={plan.of('k_proj', layer).label} and v_proj={plan.of('v_proj', layer).label}: the latent cache of "
            f"{shape.name} "
            "gives keys and values by one matrix; give both one format"
        )
    products = plan.products_of(layer)
    if products == (plan.wide, plan.wide):
        return
    cache, wide = get_format(plan.kv_of(layer)), get_format(plan.wide)
    for name, key in zip(PRODUCTS, products, strict=True):
        fmt = activation_format(name, key)
        if key != plan.wide and fmt.element_bits >= wide.element_bits:
            raise InvalidValueError(
                f"{name}={key}: attention multiplies in the residual stream's {plan.wide} or in a narrower format"
            )
        product_format(name, fmt, CACHE, cache)
        if cache.element_bits > fmt.element_bits:
            raise InvalidValueError(
                f"kv={cache.key} is wider than {name}={key}; no kernel narrows the cache on the way. Store the cache "
                f"in {key} "
                f"(kv={key}) or multiply in {cache.key}"
            )
    if shape.latent is not None and products[0] != products[1]:
        raise InvalidValueError(
            f"qk_matmul={products[0]} and sv_matmul={products[1]}: the kernels of {shape.name}'s latent attention have "
            "one format "
            "for both products"
        )


def check_pair(name: str, weights: NumberFormat, activations: NumberFormat) -> None:
    """Raise `InvalidValueError` for a weight and an activation that no kernel multiplies; `name` is the part's."""
    activation_format(f"{name}: activations", activations)
    product_format(f"{name}: activations", activations, "weights", weights)
    if weights.element_bits > activations.element_bits:
        raise InvalidValueError(
            f"{name}: weights {weights.key} are wider than activations {activations.key}; no kernel narrows weights on "
            "the way. "
            f"Write {activations.key} for both, or {weights.key}.{weights.key}"
        )


def joined_layers(exceptions: Iterable[FormatException]) -> Iterator[FormatException]:
    """Yield the exceptions with neighbouring layers of equal formats joined."""
    by_part: dict[str, list[FormatException]] = {}
    for exception in exceptions:
        by_part.setdefault(exception.name, []).append(exception)
    for of_part in by_part.values():
        of_part.sort(key=lambda exception: exception.first_layer_index or 0)
        last = of_part[0]
        for exception in of_part[1:]:
            if (
                last.last_layer_index is not None
                and exception.first_layer_index == last.last_layer_index + 1
                and exception.formats == last.formats
            ):
                last = replace(last, last_layer_index=exception.last_layer_index)
                continue
            yield last
            last = exception
        yield last


HEAD_PARTS = KEPT_WIDE[:2]


def plan_coverage(plan: FormatPlan) -> Finding | None:
    """Return which matrices have a narrow plan's format and what head and embedding are in; None for a wide plan."""
    if get_format(plan.base.weights).element_bits >= _WIDE_BITS:
        return None
    head, embedding = (plan.of(part).label for part in HEAD_PARTS)
    if head == embedding == plan.base.label:
        return finding("narrow-where", kind="everywhere", formats=plan.base.label)
    return finding("narrow-where", kind="layers", formats=plan.base.label, head=head, embedding=embedding)


def stored_plan(
    text: str, shape: ModelShape, *, kv: str | None = None, weight_bytes: float | None = None
) -> FormatPlan:
    """Return the plan of a file: as `plan_from_text`, but of one whose size is known every matrix has a format of the
    text. Exceptions stand behind the base: `INT8.BF16 experts=MXFP4.BF16`.

    Such a file is a GGUF, whose head and embedding are quantised with the rest; its size says how far they are not.
    """
    base, *exceptions = text.split()
    plan = plan_from_text(base, shape, kv=kv, exceptions=exceptions)
    if weight_bytes is None or plan.label.startswith(AS_PUBLISHED):
        return plan
    return replace(plan, exceptions=tuple(item for item in plan.exceptions if not plan.keeps_wide(item)))
