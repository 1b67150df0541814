"""A kernel of attention, and what it asks of machine and shape. No torch here.

Sizes are those of the case: B, Hq, Hkv, Sq, Skv, D, causal (0 or 1), window (0 = full), and Dv where the values' heads
differ from the keys'.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from bench_cases.kernels.rules import Sizes
from bench_cases.kernels.spec import QUANTIZE_BYTES_PER_ELEMENT, SOURCE_BYTES_PER_ELEMENT, Kernel
from bench_cases.shapes.attention import AttentionShape, ValueKind
from roofline_model.core.cost import OpCost
from roofline_model.formats.catalog import get_format
from roofline_model.operators.attention import attention
from roofline_model.operators.attention_shape import keys_read
from roofline_model.operators.case import Case
from roofline_model.operators.product import Operator

MaskKind = Literal["none", "causal", "band"]


@dataclass(frozen=True, slots=True)
class AttentionKernel(Kernel):
    """One way to compute attention."""

    q: str
    kv: str
    o: str
    """Format keys of the query, the key/value cache and the output."""
    values: tuple[ValueKind, ...] = ("equal", "narrow")
    """How values may lie beside the keys; the kernel is not offered for shapes of another kind."""
    is_fused: bool = True
    """False: scores, softmax and the second product are kernels of their own, and counted so."""
    score_bytes_per_pair: int = 0
    """Memory for each (query, key) pair of each head that the call takes where the scores are held whole."""

    prepared_by: ClassVar[str] = "bench_cases.kernels.attention.prepare:prepare_attention"

    @property
    def chosen_format(self) -> str:
        """The cache's format decides: it is what decode reads from memory."""
        return self.kv

    @property
    def is_latent(self) -> bool:
        """Whether the values are a part of the keys' rows."""
        return self.values == ("latent",)

    @property
    def key(self) -> str:
        """Unique among the kernels of all devices."""
        return f"{self.device}-{self.q}.{self.kv}-{self.name}"

    def takes(self, shape: AttentionShape) -> bool:
        """Return whether the kernel is offered for a shape: its cache format is run, and its values lie as they may."""
        return shape.values in self.values and (shape.formats is None or self.kv in shape.formats)

    def work(self, shape: AttentionShape) -> Operator:
        """Return the counted operator: fused attention, or the three kernels it replaces.

        A kernel that decodes the cache first also pays for writing and reading it decoded. Latent rows are read once by
        a fused kernel, and by each of the two products without fusion.
        """
        counted = attention(
            shape.batch_size,
            shape.query_heads,
            shape.kv_heads,
            shape.query_count,
            shape.kv_count,
            shape.head_dim,
            q=self.q,
            kv=self.kv,
            o=self.o,
            causal=shape.causal,
            window=shape.window_size,
            fused=self.is_fused,
            Dv=shape.value_dim,
            shared_kv=shape.is_latent and self.is_fused,
        )
        if self.decoded is None:
            return counted
        rows = (
            shape.batch_size * shape.kv_heads * keys_read(shape.query_count, shape.kv_count, window=shape.window_size)
        )
        row = shape.head_dim + (0 if shape.is_latent else shape.value_dim or shape.head_dim)
        size = rows * row * get_format(self.decoded).traffic_bytes_per_element
        between = {"KV decoded": size}
        return replace(counted, cost=counted.cost + OpCost(read_bytes=between, write_bytes=between))

    def preparing_bytes(self, case: Case) -> float:
        """Return the bytes of FP32 sources, of quantising the cache, and of scores that are held whole."""
        sizes = dict(case.shape)
        keys = stored_keys(sizes)
        is_plain = get_format(self.kv).element_bits >= 16
        per_cached = SOURCE_BYTES_PER_ELEMENT if is_plain else QUANTIZE_BYTES_PER_ELEMENT
        cached = sizes["B"] * sizes["Hkv"] * keys * (sizes["D"] + value_size(sizes))
        queries = sizes["B"] * sizes["Hq"] * sizes["Sq"]
        held_score_bytes = self.score_bytes_per_pair * queries * keys
        return per_cached * cached + SOURCE_BYTES_PER_ELEMENT * queries * sizes["D"] + held_score_bytes


def value_size(sizes: Sizes) -> int:
    """Return how many elements a value's head has: the keys', where the case does not say otherwise."""
    return sizes.get("Dv", sizes["D"])


def stored_keys(sizes: Sizes) -> int:
    """Return how many keys a sequence's cache holds: those that some query sees, as a rolling cache keeps them."""
    return keys_read(sizes["Sq"], sizes["Skv"], window=sizes["window"] or None)


def mask_kind(sizes: Sizes) -> MaskKind:
    """Return the kind of mask that a kernel needs.

    none: every query sees every stored key (decode always does); causal: a square triangle; band: anything else.
    """
    Sq, Skv, window = sizes["Sq"], sizes["Skv"], sizes["window"]
    if Sq == 1 or (not sizes["causal"] and not window):
        return "none"
    if sizes["causal"] and Sq == Skv and (not window or window >= Skv):
        return "causal"
    return "band"


def visible_keys(sizes: Sizes, query: int) -> tuple[int, int]:
    """Return the first stored key that a query (from 0) sees, and the first behind those it sees."""
    position = sizes["Skv"] - sizes["Sq"] + query
    dropped = sizes["Skv"] - stored_keys(sizes)
    last = position + 1 if sizes["causal"] else sizes["Skv"]
    first = max(0, position - sizes["window"] + 1) if sizes["window"] else 0
    return first - dropped, last - dropped
