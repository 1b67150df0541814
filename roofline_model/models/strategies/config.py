"""A mixed-precision strategy: the format of every operator, in every layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations, groupby

from roofline_model.core.errors import InvalidValueError
from roofline_model.formats.catalog import get_format, split_precision
from roofline_model.models.format_plan import PartFormats
from roofline_model.models.model_shapes import MAX_LAYERS
from roofline_model.models.strategies.layer_precisions import LayerPrecisions, canonical_precisions
from roofline_model.models.strategies.operator_type import PROJECTIONS, OperatorType, parse_operator
from roofline_model.models.strategies.precision_text import part_formats
from roofline_model.operators.operand_formats import activation_format, is_wide_float, product_format

UNNAMED_WIDE = "FP16"
"""The 16-bit format of the original documents, for a strategy whose only activation format is narrow."""


@dataclass(frozen=True, slots=True)
class StrategyClaims:
    """The gains that a document claims for a strategy, without a source. Never used in a prediction."""

    speedup: float
    quality_loss: str
    memory_saved_ratio: float
    best_for: str
    source: str


@dataclass(frozen=True, slots=True)
class MixedPrecisionConfig:
    """Formats of a whole model by operator. Raises a `RooflineError` naming the operator for formats that cannot be.

    An operator that is not named is not quantised: it has the 16-bit format of the activations.
    """

    name: str
    description: str = ""
    operator_precisions: Mapping[str, str] = field(default_factory=dict)
    """`OperatorType` (or its value) → format of the weight; `WEIGHT.ACTIVATION` for projections that differ from the
    default.
    """
    default_activation_precision: str = "FP16"
    """Format in which projections read their input; narrower than 16 bits, activations are quantised as well."""
    kv_cache_precision: str | None = None
    """The same as the operator `kv_cache`; None: that operator's, else 16 bit. After construction always a format."""
    layers: tuple[LayerPrecisions, ...] = ()
    """Ranges of layers with formats of their own; they need `layer_count` and must not contradict each other."""
    layer_count: int | None = None
    """Layers of the model that the strategy is made for; None: any."""
    claims: StrategyClaims | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        _check_name(self.name)
        if not isinstance(self.description, str):
            raise InvalidValueError(f"{self.name}: description must be text")
        default = activation_format("default_activation_precision", self.default_activation_precision)
        object.__setattr__(self, "default_activation_precision", default.key)
        object.__setattr__(self, "operator_precisions", canonical_precisions(self.operator_precisions))
        self._settle_cache()
        if not isinstance(self.layers, Sequence):
            raise InvalidValueError(f"{self.name}: layers holds LayerPrecisions, got a {type(self.layers).__name__}")
        object.__setattr__(self, "layers", tuple(self.layers))
        self._check_layers()
        self._check_pairs()
        self._check_attention()

    @property
    def strategy_name(self) -> str:
        """The name (seeds' word)."""
        return self.name

    @property
    def wide_precision(self) -> str:
        """Format of the residual stream and of everything that is not quantised."""
        named = self.operator_precisions.get(OperatorType.RMSNORM)
        if named is not None:
            return named
        default = self.default_activation_precision
        return default if is_wide_float(get_format(default)) else UNNAMED_WIDE

    def get_precision(self, operator: OperatorType | str, layer: int | None = None) -> str:
        """Return the format of an operator: of its weight for a projection, of what is stored or multiplied otherwise.

        Without a layer the answer is the format outside all layer ranges. Raises `UnknownNameError` for an operator
        nobody knows, `InvalidValueError` for a layer the strategy does not have.
        """
        return self.formats(operator, layer).weights

    def get_activation(self, operator: OperatorType | str, layer: int | None = None) -> str:
        """Return the format in which an operator reads its input."""
        return self.formats(operator, layer).activations

    def formats(self, operator: OperatorType | str, layer: int | None = None) -> PartFormats:
        """Return weight and activation format of an operator; both are the same for all but projections."""
        operator = parse_operator(operator)
        self._check_layer(layer)
        text = self._text(operator, layer)
        if text is None:
            return PartFormats(self.wide_precision, self.wide_precision)
        if operator in PROJECTIONS:
            return part_formats(operator, text, self.default_activation_precision)
        return PartFormats(text, text)

    def spans(self, operator: OperatorType | str) -> list[tuple[int | None, int | None, PartFormats]]:
        """Return (first layer, last layer, formats) of an operator from the first layer on; None, None: every layer."""
        operator = parse_operator(operator)
        if self.layer_count is None or not any(
            operator.value in layer_formats.operator_precisions for layer_formats in self.layers
        ):
            return [(None, None, self.formats(operator))]
        runs = [(list(run), own) for own, run in groupby(range(self.layer_count), partial(self.formats, operator))]
        return [(run[0], run[-1], own) if len(runs) > 1 else (None, None, own) for run, own in runs]

    def with_name(self, name: str) -> MixedPrecisionConfig:
        """Return the same strategy under another name, without the claims of the original."""
        return replace(self, name=name, claims=None)

    def _text(self, operator: OperatorType, layer: int | None) -> str | None:
        for layer_formats in self.layers:
            if layer_formats.covers(layer) and operator.value in layer_formats.operator_precisions:
                return layer_formats.operator_precisions[operator.value]
        if operator is OperatorType.KV_CACHE:
            return self.kv_cache_precision
        return self.operator_precisions.get(operator.value)

    def _settle_cache(self) -> None:
        """Make the two ways of naming the cache's format one."""
        named = self.operator_precisions.get(OperatorType.KV_CACHE)
        if self.kv_cache_precision is None:
            object.__setattr__(self, "kv_cache_precision", named or self.wide_precision)
            return
        given = split_precision(self.kv_cache_precision)
        if given[1] is not None:
            raise InvalidValueError(f"{self.name}: kv_cache_precision is one format, got {self.kv_cache_precision!r}")
        object.__setattr__(self, "kv_cache_precision", given[0].key)
        if named is not None and named != given[0].key:
            raise InvalidValueError(
                f"{self.name}: the cache's format is given twice: kv_cache_precision {given[0].key} and kv_cache "
                f"{named}; keep one"
            )

    def _check_layer(self, layer: int | None) -> None:
        if layer is None:
            return
        count = MAX_LAYERS if self.layer_count is None else self.layer_count
        if isinstance(layer, bool) or not isinstance(layer, int) or not 0 <= layer < count:
            raise InvalidValueError(f"{self.name} has layers 0 to {count - 1}, got {layer!r:.40}")

    def _check_layers(self) -> None:
        count = self.layer_count
        if count is not None and (
            isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MAX_LAYERS
        ):
            raise InvalidValueError(
                f"{self.name}: layer_count must be a whole number from 1 to {MAX_LAYERS:,}, got {str(count)[:40]}"
            )
        if not self.layers:
            return
        if count is None:
            raise InvalidValueError(f"{self.name}: layer ranges need layer_count, the layers of the whole model")
        for layer in self.layers:
            if not isinstance(layer, LayerPrecisions):
                raise InvalidValueError(f"{self.name}: layers holds LayerPrecisions, got a {type(layer).__name__}")
            if layer.last_layer_index >= count:
                raise InvalidValueError(
                    f"{self.name}: layers {layer.label} are beyond layer_count {count} (0 to {count - 1})"
                )
        for operator, layer, other in _overlaps(self.layers):
            raise InvalidValueError(
                f"{self.name}: {operator} is given twice for the same layers, in {layer.label} and in {other.label}; "
                "keep one"
            )

    def _check_pairs(self) -> None:
        """Raise when a projection's weight cannot meet the default activation."""
        for named in (self.operator_precisions, *(layer.operator_precisions for layer in self.layers)):
            for name, text in named.items():
                if name in PROJECTIONS:
                    part_formats(OperatorType(name), text, self.default_activation_precision)

    def _check_attention(self) -> None:
        """Raise when no product multiplies the cache as it is stored: one wider than the product, or of another
        kind.
        """
        for operator in (OperatorType.QK_MATMUL, OperatorType.SV_MATMUL):
            product = get_format(self.get_precision(operator))
            for _, _, stored in self.spans(OperatorType.KV_CACHE):
                cache = get_format(stored.weights)
                product_format(operator.value, product, "kv_cache", cache)
                if cache.element_bits > product.element_bits:
                    raise InvalidValueError(
                        f"{self.name}: kv_cache={cache.key} is wider than {operator.value}={product.key}; no kernel "
                        "narrows the "
                        f"cache on the way. Store the cache as {product.key} or multiply in {cache.key}"
                    )


def _check_name(name: str) -> None:
    if not isinstance(name, str) or not name.strip() or len(name) > 80 or not name.isprintable():
        raise InvalidValueError(f"a strategy's name is printable text of up to 80 characters, got {str(name)[:40]!r}")


def _overlaps(layers: Sequence[LayerPrecisions]) -> Iterator[tuple[str, LayerPrecisions, LayerPrecisions]]:
    for first, other in combinations(layers, 2):
        if first.first_layer_index <= other.last_layer_index and other.first_layer_index <= first.last_layer_index:
            for operator in first.operator_precisions:
                if operator in other.operator_precisions:
                    yield operator, first, other
