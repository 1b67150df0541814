"""What is asked of FlashAttention: the version, how it is to run, and the shape; values that refuse nonsense.

Letters: B batch, Hq query heads, Hkv key and value heads, Sq queries, Skv keys, D head dimension.
`model.py` turns a configuration and a shape into a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from roofline_model.core.errors import InvalidValueError
from roofline_model.formats.catalog import NumberFormat, get_format
from roofline_model.operators.product import MAX_DIMENSION, check_dimension


class FlashAttentionVersion(StrEnum):
    """The four published FlashAttention kernels; `value` is the short name (`fa3`), which the seeds print in
    capitals.
    """

    FA1 = "fa1"
    FA2 = "fa2"
    FA3 = "fa3"
    FA4 = "fa4"


FP8_FORMATS = ("FP8_E4M3", "FP8_E5M2")
QUERY_FORMATS = ("FP16", "BF16", *FP8_FORMATS)
"""What the kernels take as Q: flash-attention's own interface refuses everything else."""

VERSIONS_WITH_FP8 = (FlashAttentionVersion.FA3, FlashAttentionVersion.FA4)


@dataclass(frozen=True, slots=True)
class FlashAttentionConfig:
    """Settings of one attention call. Raises `InvalidValueError` naming the field when the fields contradict each
    other.
    """

    version: FlashAttentionVersion = FlashAttentionVersion.FA2
    qkv_precision: str | None = None
    """Format of Q, and of K and V as the products see them: FP16, BF16 or FP8. None: FP8_E4M3 with
    `use_native_fp8`, else FP16."""
    kv_cache_precision: str | None = None
    """Format of K and V in memory, scales included; narrower ones are widened inside the kernel. None: as Q."""
    use_native_fp8: bool = False
    """Multiply on FP8 tensor cores; needs FP8 inputs and a version that has such a path (fa3, fa4)."""
    block_sparse: bool = False
    """Skip blocks of the score matrix that a mask names. An option of any version; it does not shrink the cache."""
    sparsity_ratio: float = 0.0
    """Share of the blocks left by the mask that are skipped, 0 to below 1."""
    causal: bool = False
    """Query i sees keys up to i + Skv − Sq (the last query sees all)."""
    window_size: int | None = None
    """Each query sees at most this many keys that are not later than itself; None: all of them."""
    page_size: int | None = None
    """Tokens per page of a paged cache; None: contiguous."""
    split_count: int | None = None
    """Parts the keys are divided into (flash decoding); None: the version's own heuristic."""

    def __post_init__(self) -> None:
        if not isinstance(self.version, FlashAttentionVersion):
            object.__setattr__(self, "version", parse_version(self.version))
        for name in ("use_native_fp8", "block_sparse", "causal"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidValueError(f"{name} must be True or False, got {getattr(self, name)!r}")
        for name in ("window_size", "page_size", "split_count"):
            if getattr(self, name) is not None:
                check_dimension(name, getattr(self, name))
        self._check_sparsity()
        self._check_formats()

    def _check_sparsity(self) -> None:
        ratio = self.sparsity_ratio
        if isinstance(ratio, bool) or not isinstance(ratio, int | float) or not 0 <= ratio < 1:
            raise InvalidValueError(
                f"sparsity_ratio must be from 0 to below 1 (share of blocks skipped), got {ratio!r}"
            )
        if ratio and not self.block_sparse:
            raise InvalidValueError(f"sparsity_ratio is {ratio} but block_sparse is False; set block_sparse=True")

    def _check_formats(self) -> None:
        query = self.query_format
        if query.key not in QUERY_FORMATS:
            raise InvalidValueError(
                f"qkv_precision {query.key} is not an input format of FlashAttention; known: "
                f"{', '.join(QUERY_FORMATS)}. "
                "A narrower cache is kv_cache_precision"
            )
        cache = self.cache_format
        if cache.element_bits > query.element_bits or (cache.element_bits == 16 and cache.key != query.key):
            raise InvalidValueError(
                f"kv_cache_precision {cache.key} with qkv_precision {query.key}: a kernel widens a narrower cache, but "
                "takes "
                "no wider or other 16-bit one; give both the same format"
            )
        if not self.use_native_fp8:
            return
        if self.version not in VERSIONS_WITH_FP8:
            raise InvalidValueError(
                f"use_native_fp8: {self.version.value} multiplies in 16 bit only; choose fa3 or fa4, or leave it out"
            )
        if query.key not in FP8_FORMATS:
            raise InvalidValueError(
                f"use_native_fp8 with qkv_precision {query.key}: FP8 products need FP8 inputs; set qkv_precision to "
                "FP8_E4M3"
            )

    @property
    def query_format(self) -> NumberFormat:
        """Format of Q."""
        default = "FP8_E4M3" if self.use_native_fp8 else "FP16"
        return get_format(self.qkv_precision or default)

    @property
    def cache_format(self) -> NumberFormat:
        """Format of K and V in memory."""
        return get_format(self.kv_cache_precision) if self.kv_cache_precision else self.query_format

    @property
    def output_format(self) -> NumberFormat:
        """Format of O: 16 bit always (FP8 kernels write BF16)."""
        return get_format("BF16") if self.query_format.key in FP8_FORMATS else self.query_format

    @property
    def math_format(self) -> NumberFormat:
        """Format the two products are computed in."""
        if self.use_native_fp8 or self.query_format.key not in FP8_FORMATS:
            return self.query_format
        return get_format("BF16")

    @property
    def visited_ratio(self) -> float:
        """Share of the mask's blocks that are computed."""
        return 1.0 - self.sparsity_ratio


@dataclass(frozen=True, slots=True)
class AttentionShape:
    """Sizes of one attention call: B, Hq, Hkv, Sq, Skv, D. Raises `InvalidValueError` naming the impossible size."""

    batch_size: int
    query_heads: int
    kv_heads: int
    query_count: int
    """Sq: queries per sequence; 1 in decode."""
    kv_count: int
    """Skv: keys per sequence, the new ones included."""
    head_dim: int

    def __post_init__(self) -> None:
        names = {
            "batch_size": "batch",
            "query_heads": "num_heads",
            "kv_heads": "num_kv_heads",
            "query_count": "seq_len_q",
            "kv_count": "seq_len_kv",
            "head_dim": "head_dim",
        }
        for field, shown in names.items():
            check_dimension(shown, getattr(self, field))
        if self.query_heads % self.kv_heads:
            raise InvalidValueError(
                f"num_kv_heads {self.kv_heads} does not divide num_heads {self.query_heads}: every key head serves the "
                "same number of query heads"
            )
        if self.batch_size * self.query_heads * self.query_count > MAX_DIMENSION * 1000:
            raise InvalidValueError("batch × num_heads × seq_len_q is beyond 10¹² rows; check the sizes")

    @property
    def group_size(self) -> int:
        """G = Hq / Hkv: query heads that share one key head."""
        return self.query_heads // self.kv_heads

    def check_mask(self, config: FlashAttentionConfig) -> None:
        """Raise `InvalidValueError` when the mask of `config` does not fit this shape."""
        if (config.causal or config.window_size is not None) and self.query_count > self.kv_count:
            mask = "causal=True" if config.causal else f"window_size={config.window_size}"
            raise InvalidValueError(
                f"seq_len_q {self.query_count} exceeds seq_len_kv {self.kv_count} with {mask}: seq_len_kv counts the "
                "new "
                "tokens, too"
            )


def parse_version(name: str | FlashAttentionVersion) -> FlashAttentionVersion:
    """Return the version called `name` (`fa3`, `FA3` or the enum itself)."""
    try:
        return FlashAttentionVersion(str(getattr(name, "value", name)).lower())
    except ValueError:
        versions = ", ".join(version.value for version in FlashAttentionVersion)
        raise InvalidValueError(
            f"version {str(name)[:40]!r} is not a FlashAttention version; known: {versions}"
        ) from None
