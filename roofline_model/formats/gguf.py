"""Storage types of GGUF files, exact, and which of them the published mixes give to the roles of a model.

Sources: gguf-py 0.19.0 (`GGML_QUANT_SIZES`); mixes and what a row that is no multiple of 256 falls back to from files
published for llama.cpp 0c1e57098 (October 2026). Mixes whose rules were not read are not here.
"""

from __future__ import annotations

from collections.abc import Mapping

BLOCKS: Mapping[str, tuple[int, int]] = {
    "F32": (1, 4), "F16": (1, 2), "BF16": (1, 2),
    "Q4_0": (32, 18), "Q4_1": (32, 20), "Q5_0": (32, 22), "Q5_1": (32, 24), "Q8_0": (32, 34),
    "Q2_K": (256, 84), "Q3_K": (256, 110), "Q4_K": (256, 144), "Q5_K": (256, 176), "Q6_K": (256, 210),
    "IQ4_NL": (32, 18), "IQ4_XS": (256, 136), "IQ3_S": (256, 110), "IQ3_XXS": (256, 98), "IQ2_S": (256, 82),
    "IQ2_XS": (256, 74), "IQ2_XXS": (256, 66), "IQ1_M": (256, 56), "IQ1_S": (256, 50),
    "TQ1_0": (256, 54), "TQ2_0": (256, 66), "MXFP4": (32, 17), "NVFP4": (64, 36), "Q1_0": (128, 18), "Q2_0": (64, 18),
}  # fmt: skip
"""Type → elements of a block, and its bytes."""
_FALLBACKS = {"Q4_K": "Q5_0", "Q5_K": "Q5_1", "Q6_K": "Q8_0"}
MIXES: Mapping[str, tuple[str, str, str]] = {
    "Q4_0": ("Q4_0", "Q4_0", "Q6_K"), "Q4_K_M": ("Q4_K", "Q6_K", "Q6_K"), "Q5_K_M": ("Q5_K", "Q6_K", "Q6_K"),
    "Q6_K": ("Q6_K", "Q6_K", "Q6_K"), "Q8_0": ("Q8_0", "Q8_0", "Q8_0"),
    "F16": ("F16", "F16", "F16"), "BF16": ("BF16", "BF16", "BF16"),
}  # fmt: skip
"""Name of a mix → types of most matrices, of half of the down projections, and of the output."""


def bytes_per_element(gguf_type: str, row_size: int) -> float:
    """Return the bytes of an element in rows of `row_size`; a block that does not fit falls back as llama.cpp does."""
    if row_size % BLOCKS[gguf_type][0]:
        gguf_type = _FALLBACKS.get(gguf_type, "F16")
    elements, size = BLOCKS[gguf_type]
    return size / elements


def mix_bytes_per_element(mix: str, name: str, row_size: int) -> float:
    """Return the mean bytes of an element of a matrix in a mix, by the name of its module and the length of its rows.

    Raises `KeyError` for a mix that is not in `MIXES`.
    """
    most, half_of_down, output = MIXES[mix]
    if name in ("gate", "shared_expert_gate"):
        return 4.0  # routers stay in F32
    if name in ("lm_head", "embed_tokens"):
        return bytes_per_element(output, row_size)
    if name.endswith("down_proj"):
        return (bytes_per_element(most, row_size) + bytes_per_element(half_of_down, row_size)) / 2
    return bytes_per_element(most, row_size)
