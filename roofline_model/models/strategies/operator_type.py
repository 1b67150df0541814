"""The thirteen operators that a mixed-precision strategy names, and what a format means for each of them.

Source: the original document 004, "Operator Types". Formats of a projection are those of its weight and its activation;
of the two attention products, the format they multiply in; of the cache and the embeddings, how they are stored; of
norms and softmax, what they read and write (their arithmetic is FP32 whatever is stored).
"""

from __future__ import annotations

from enum import StrEnum

from roofline_model.core.errors import UnknownNameError


class OperatorType(StrEnum):
    """One operator of a decoder layer, or the embeddings; `value` is the name that strategies and files use."""

    Q_PROJ = "q_proj"
    K_PROJ = "k_proj"
    V_PROJ = "v_proj"
    O_PROJ = "o_proj"
    QK_MATMUL = "qk_matmul"
    """Queries times keys."""
    SV_MATMUL = "sv_matmul"
    """Softmax scores times values."""
    SOFTMAX = "softmax"
    FFN_GATE = "ffn_gate"
    FFN_UP = "ffn_up"
    FFN_DOWN = "ffn_down"
    KV_CACHE = "kv_cache"
    RMSNORM = "rmsnorm"
    """Norms and the residual stream between the operators."""
    EMBEDDINGS = "embeddings"
    """The embedding table, and the output head, which the document does not name."""


ATTENTION_PROJECTIONS = (OperatorType.Q_PROJ, OperatorType.K_PROJ, OperatorType.V_PROJ, OperatorType.O_PROJ)
FFN_PROJECTIONS = (OperatorType.FFN_GATE, OperatorType.FFN_UP, OperatorType.FFN_DOWN)
PROJECTIONS = (*ATTENTION_PROJECTIONS, *FFN_PROJECTIONS)
"""Operators with a weight matrix and an activation."""
ATTENTION_PRODUCTS = (OperatorType.QK_MATMUL, OperatorType.SV_MATMUL)
VECTOR_OPERATORS = (OperatorType.SOFTMAX, OperatorType.RMSNORM)
"""Operators without a product: they stay in a plain float of 16 bits or more."""
LAYERED = (*PROJECTIONS, OperatorType.KV_CACHE)
"""Operators whose format may differ from layer to layer."""


def parse_operator(name: str | OperatorType) -> OperatorType:
    """Return the operator called `name`: the enum itself or its value, any case.

    Raises `UnknownNameError` with the nearest names.
    """
    if isinstance(name, OperatorType):
        return name
    try:
        return OperatorType(str(name).strip().lower())
    except ValueError:
        raise UnknownNameError("operator", str(name), [operator.value for operator in OperatorType]) from None
