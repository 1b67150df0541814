"""Which attention is run: prefill and decode of the models whose layers are multiplied. No torch here.

Letters as in `roofline_model.operators.attention`. Latent attention (MLA) is run as it is computed (see
`roofline_model.models.decoder_step`): prefill on expanded keys and values, whose heads differ in size; decode on the
cached latent rows, which all heads read once, and whose first elements are the values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from bench_cases.shapes.calibration import DECODE_SIZES, ORIGIN, PREFILL_SIZES
from bench_cases.shapes.products import SHAPE_SETS, Device, models, models_of
from roofline_model.models.model_shapes import LatentAttention, ModelShape

STANDARD_PREFILL = (512, 2048)
WINDOWED_MODELS = ("gpt-oss-20b",)
"""Added to the standard and full sets, whose other models look at everything."""
LATENT_MODELS = ("deepseek-v3",)
"""Added to them for latent attention."""
FULL_PREFILL = (512, 1024, 2048, 4096, 8192)
STANDARD_DECODE = ((1, 1024), (1, 8192), (8, 4096))
FULL_DECODE = tuple((B, Skv) for B in (1, 8, 32) for Skv in (1024, 4096, 8192, 16384, 32768))
"""Sequences and tokens in the cache."""


ValueKind = Literal["equal", "narrow", "latent"]
"""equal: as wide as the keys; narrow: fewer elements; latent: a part of the keys' own rows."""


@dataclass(frozen=True, slots=True)
class AttentionShape:
    """One attention call and where it comes from."""

    batch_size: int
    query_heads: int
    kv_heads: int
    query_count: int
    """Sq: new tokens; 1 in decode."""
    kv_count: int
    """Skv: tokens in the cache, the new ones included."""
    head_dim: int
    causal: bool
    window_size: int | None
    """Keys that a query sees, itself among them; None: all."""
    origin: str
    """Model and phase."""
    formats: tuple[str, ...] | None = None
    """Cache formats that the shape is run with; None: all. A small set has room for few."""
    value_dim: int | None = None
    """Dv: elements of a value's head where it differs from a key's; None: `head_dim`."""
    is_latent: bool = False
    """Values are the first `value_dim` elements of the keys' own rows, read once for both."""

    @property
    def values(self) -> ValueKind:
        """How values lie beside the keys."""
        if self.is_latent:
            return "latent"
        return "equal" if self.value_dim in (None, self.head_dim) else "narrow"

    @property
    def size(self) -> tuple[int, ...]:
        """All that makes a case, causal, window (0: none) and the values' size (0: the keys') included."""
        return (
            self.batch_size,
            self.query_heads,
            self.kv_heads,
            self.query_count,
            self.kv_count,
            self.head_dim,
            int(self.causal),
            self.window_size or 0,
            self.value_dim or 0,
            int(self.is_latent),
        )


def attention_shapes(text: str, device: Device = "cpu") -> tuple[AttentionShape, ...]:
    """Return the shapes that `--roofline-shapes TEXT` asks for: of quick, standard, full and llm:NAME.

    A list MxNxK or a CSV file names products only: no shapes. Raises as `shapes.resolve_shapes` does for unknown
    models.
    """
    name = text.strip().lower()
    if name == "quick":
        return tuple(_quick(device))
    if name == "calibration":
        return tuple(_calibration())
    chosen = models_of(text)
    if name in SHAPE_SETS:
        chosen += tuple(models()[model] for model in (*WINDOWED_MODELS, *LATENT_MODELS))
    lengths = (FULL_PREFILL, FULL_DECODE) if name == "full" else (STANDARD_PREFILL, STANDARD_DECODE)
    return _once(_model_attention(chosen, *lengths))


def _model_attention(
    chosen: Iterable[ModelShape], prefill: Iterable[int], decode: Iterable[tuple[int, int]]
) -> Iterator[AttentionShape]:
    lengths, caches = tuple(prefill), tuple(decode)
    for model in chosen:
        if model.latent is not None:
            yield from _latent_attention(model, model.latent, lengths, caches)
            continue
        heads = model.query_heads, model.kv_heads
        for window in _windows(model):
            for S in lengths:
                if model.max_context_size >= S:
                    visible = window if window is not None and window < S else None
                    yield AttentionShape(1, *heads, S, S, model.head_dim, True, visible, f"{model.name} prefill")
            for B, Skv in caches:
                if Skv <= model.max_context_size:
                    visible = window if window is not None and window < Skv else None
                    yield AttentionShape(B, *heads, 1, Skv, model.head_dim, False, visible, f"{model.name} decode")
        S = lengths[0]
        yield AttentionShape(1, *heads, S, S, model.head_dim, False, None, f"{model.name} heads without a mask")


def _latent_attention(
    model: ModelShape, latent: LatentAttention, lengths: tuple[int, ...], caches: tuple[tuple[int, int], ...]
) -> Iterator[AttentionShape]:
    for S in lengths:
        if model.max_context_size >= S:
            yield _expanded_prefill(model, latent, S)
    for B, Skv in caches:
        if Skv <= model.max_context_size:
            yield _absorbed_decode(model, latent, B, Skv)


def _expanded_prefill(
    model: ModelShape, latent: LatentAttention, S: int, formats: tuple[str, ...] | None = None
) -> AttentionShape:
    """Return MLA of a prompt: every head has keys and values of its own, expanded from the latent by a product
    before.
    """
    heads, width = model.query_heads, latent.query_dim
    origin = f"{model.name} expanded prefill"
    return AttentionShape(1, heads, heads, S, S, width, True, None, origin, formats, value_dim=latent.value_dim)


def _absorbed_decode(
    model: ModelShape, latent: LatentAttention, B: int, Skv: int, formats: tuple[str, ...] | None = None
) -> AttentionShape:
    """Return MLA of one new token: all heads attend to the latent rows (and the rotated part of the keys behind
    them).
    """
    origin = f"{model.name} absorbed decode"
    return AttentionShape(
        B,
        model.query_heads,
        1,
        1,
        Skv,
        latent.cached_dim,
        False,
        None,
        origin,
        formats,
        value_dim=latent.kv_rank,
        is_latent=True,
    )


def _windows(model: ModelShape) -> list[int | None]:
    """Return the windows that a model's layers have, the full view (None) first where some layer has it."""
    kinds = {model.is_windowed(layer) for layer in range(model.layer_count)}
    return [None if not windowed else model.window_size for windowed in sorted(kinds)]


def _quick(device: Device) -> Iterator[AttentionShape]:
    """Each phase and mask once; milliseconds on two cores."""
    if device == "cuda":
        yield AttentionShape(1, 32, 8, 1, 8192, 128, False, None, "llama-3-8b decode")
        yield AttentionShape(1, 32, 8, 2048, 2048, 128, True, None, "llama-3-8b prefill", formats=("BF16", "FP8_E4M3"))
        yield AttentionShape(
            1, 32, 32, 512, 512, 128, False, None, "llama-2-7b heads without a mask", formats=("BF16",)
        )
        yield AttentionShape(1, 64, 8, 512, 512, 64, True, 128, "gpt-oss-20b prefill", formats=("BF16",))
        deepseek = models()["deepseek-v3"]
        assert deepseek.latent is not None
        yield _absorbed_decode(deepseek, deepseek.latent, 1, 8192)
        yield _expanded_prefill(deepseek, deepseek.latent, 512, formats=("BF16",))
        return
    yield AttentionShape(1, 32, 8, 1, 2048, 128, False, None, "llama-3-8b decode")
    yield AttentionShape(1, 32, 4, 128, 128, 64, True, None, "tinyllama prefill", formats=("BF16",))
    yield AttentionShape(1, 32, 4, 128, 128, 64, False, None, "tinyllama heads without a mask", formats=("FP16",))
    yield AttentionShape(1, 64, 8, 256, 256, 64, True, 128, "gpt-oss-20b prefill", formats=("FP32",))


def _calibration() -> Iterator[AttentionShape]:
    for size in DECODE_SIZES:
        yield AttentionShape(*size, False, None, ORIGIN)
    for B, Hq, Hkv, Sq, Skv, D, causal, window in PREFILL_SIZES:
        yield AttentionShape(B, Hq, Hkv, Sq, Skv, D, causal, window, ORIGIN)


def _once(shapes: Iterable[AttentionShape]) -> tuple[AttentionShape, ...]:
    """Keep the first shape of every size."""
    by_dimensions: dict[tuple[int, ...], AttentionShape] = {}
    for shape in shapes:
        by_dimensions.setdefault(shape.size, shape)
    return tuple(by_dimensions.values())
