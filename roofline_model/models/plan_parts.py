"""The parts of a decoder model that a format plan can name, one by one or as groups.

A part is what can have a format of its own: a matrix, the cache, or one of the two products inside attention. Parts of a
group that agree run as one product (query, key and value; gate and up); parts that differ run apart.
"""

from __future__ import annotations

QKV = ("q_proj", "k_proj", "v_proj")
"""Of a latent cache (MLA), q_proj is all of the query's matrices; keys and values come from one matrix and must agree."""
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
    """Return the part that a matrix of `model_parameters.attention_matrices` belongs to: q_b_proj → q_proj, kv_a_proj → k_proj."""
    return matrix if matrix == "o_proj" else f"{matrix[0]}_proj"
