"""Llamas whose weights are drawn from a seed: their names and shapes. No torch here: a prediction needs no weights."""

from __future__ import annotations

from dataclasses import dataclass

from roofline_model.models.model_shapes import ModelShape


@dataclass(frozen=True, slots=True)
class SeededLlama:
    """A Llama whose weights are drawn from a seed: real kernels and real memory, untrained quality."""

    name: str
    hidden_size: int
    intermediate_size: int
    layers_count: int
    heads_count: int
    kv_heads_count: int
    vocabulary_size: int
    positions_count: int
    is_tied: bool = False
    """Whether the head shares the embedding's weight."""

    def shape(self, wide: str = "BF16") -> ModelShape:
        """Return what a prediction needs to know of it, stored in `wide`."""
        return ModelShape(
            name=self.name,
            source="the seeded models of bench_cases",
            layer_count=self.layers_count,
            hidden_size=self.hidden_size,
            query_heads=self.heads_count,
            kv_heads=self.kv_heads_count,
            head_dim=self.hidden_size // self.heads_count,
            ffn_size=self.intermediate_size,
            vocab_size=self.vocabulary_size,
            max_context_size=self.positions_count,
            has_tied_embedding=self.is_tied,
            wide_format=wide,
            weight_format=wide,
        )


SEEDED_LLAMAS = {
    spec.name: spec
    for spec in (
        SeededLlama("seeded-llama-1m", 128, 384, 2, 4, 2, 512, 512),
        SeededLlama("seeded-llama-1m-tied", 128, 384, 2, 4, 2, 512, 512, is_tied=True),
        SeededLlama("seeded-llama-156m", 1024, 2816, 8, 16, 4, 32000, 4096),
    )
}
"""Shapes whose layers every 4-bit kernel takes (all sizes are multiples of 128): for tests, and for a decode that reads
more than a laptop's last-level cache."""

DEFAULT_MODEL = "seeded-llama-156m"
