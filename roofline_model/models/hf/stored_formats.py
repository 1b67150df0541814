"""What a checkpoint really stores: the format of every role, from its quantisation config.

Read are `quantization_config` of compressed-tensors, ModelOpt, fp8, mxfp4, AWQ, GPTQ and bitsandbytes, MLX's
`quantization`, and the `hf_quant_config.json` that ModelOpt writes beside the config, which wins. What is not
understood is named, never taken for 16 bit.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import translate
from itertools import product
from typing import Any

from roofline_model.core.definition_text import reading_fields
from roofline_model.core.errors import UnsupportedError
from roofline_model.models.layer_kinds import Decoder, Role

_PREFIX = re.compile(r"^(model\.language_model\.|language_model\.model\.|language_model\.|model\.|backbone\.)+")
"""What publishers put before `layers.0.…`."""
_LAYER = re.compile(r"layers\.(\d+)(.*)")
_MODULES: Mapping[Role, tuple[str, ...]] = {
    "attention": ("q_proj", "k_proj", "v_proj", "o_proj", "q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj"),
    "indexer": ("indexer.wq_b", "indexer.wk"),
    "linear": ("in_proj_qkv", "in_proj_z", "in_proj", "out_proj", "q_proj", "k_proj", "v_proj", "o_proj"),
    "ffn": ("gate_proj", "up_proj", "down_proj"),
    "shared_expert": ("gate_proj", "up_proj", "down_proj"),
    "expert": ("0.gate_proj", "0.up_proj", "0.down_proj", "0.w1", "0.w2", "0.w3", ""),
}
"""Role → its matrices, as publishers call them."""
_BLOCKS: Mapping[Role, tuple[str, ...]] = {
    "attention": ("self_attn", "mixer", "attn"),
    "indexer": ("self_attn",),
    "linear": ("linear_attn", "mixer", "self_attn"),
    "ffn": ("mlp", "mixer", "feed_forward"),
    "shared_expert": ("mlp.shared_expert", "mlp.shared_experts", "mixer.shared_experts", "ffn.shared_experts"),
    "expert": ("mlp.experts", "mixer.experts", "ffn.experts", "block_sparse_moe.experts", "experts"),
}
"""Role → the blocks of a layer that they lie in."""
_ALGORITHMS = {
    "FP8": ("FP8_E4M3", "FP8_E4M3"), "NVFP4": ("NVFP4", "NVFP4"), "W4A16_NVFP4": ("NVFP4", "BF16"),
    "NVFP4_AWQ": ("NVFP4", "NVFP4"), "W4A16_AWQ": ("INT4", "BF16"), "W4A8_AWQ": ("INT4", "FP8_E4M3"),
    "INT4_AWQ": ("INT4", "BF16"), "W8A16": ("INT8", "BF16"), "W8A8_SQ_PER_CHANNEL": ("INT8", "INT8"),
    "FP8_PB_WO": ("FP8_E4M3", "BF16"), "FP8_PER_CHANNEL_PER_TOKEN": ("FP8_E4M3", "FP8_E4M3"), "MXFP4": ("MXFP4", "MXFP4"),
    "MXFP8": ("MXFP8_E4M3", "MXFP8_E4M3"),
}  # fmt: skip
"""ModelOpt's algorithm → formats of weights and activations."""


@dataclass(frozen=True, slots=True)
class RoleFormat:
    """Formats of one role."""

    weights: str
    activations: str
    share_ratio: float
    """Share of the role's elements that has them; the rest is in 16 bit."""
    wide_parts: tuple[str, ...] = ()
    """Matrices among them that are in 16 bit in most layers, by the part of a plan: `q_proj`, …"""


@dataclass(frozen=True, slots=True)
class CheckpointFormats:
    """Formats of a whole checkpoint; a role that is not named is in 16 bit."""

    roles: Mapping[Role, RoleFormat]
    cache: str | None = None
    """Format of keys and values that the checkpoint asks for; None: it asks for nothing."""
    has_block_scales: bool = False
    is_mlx: bool = False
    """Whether MLX packed it, which other engines do not read."""

    @property
    def main_format(self) -> str:
        """Format of the experts, else of the feed-forward, else of any role: that of most weights; MLX's integers by
        their own name.
        """
        most = next((self.roles[role] for role in ("expert", "ffn") if role in self.roles), None)
        weights = (most or next(iter(self.roles.values()))).weights
        return f"{weights.removeprefix('INT')}BIT" if self.is_mlx else weights


Formats = tuple[str, str]
"""Keys of weights and activations."""
FormatOf = Callable[[str], Formats | None]


def checkpoint_formats(
    config: Mapping[str, Any], sidecar: Mapping[str, Any] | None, decoder: Decoder, *, where: str = "model config"
) -> CheckpointFormats:
    """Return the formats of a checkpoint from its parsed config.json and, if there is one, its hf_quant_config.json.

    Raises `UnsupportedError` for a quantisation that is not known here, `DefinitionError` for fields that no known
    file has.
    """
    with reading_fields(where):
        return _formats(config, sidecar, decoder, where)


def _formats(
    config: Mapping[str, Any], sidecar: Mapping[str, Any] | None, decoder: Decoder, where: str
) -> CheckpointFormats:
    inner, own = config.get("text_config"), config.get("quantization_config")
    if own is None and isinstance(inner, Mapping):
        own = inner.get("quantization_config")
    if sidecar is not None:
        return _modelopt(sidecar.get("quantization") or {}, own or {}, decoder, where)
    if own is not None:
        return _hugging_face(own, decoder, where)
    mlx = config.get("quantization")
    if mlx is not None:
        return replace(_everywhere(_integer(mlx.get("bits"), where), (), decoder), is_mlx=True)
    return CheckpointFormats({})


def _modelopt(
    quantisation: Mapping[str, Any], config: Mapping[str, Any], decoder: Decoder, where: str
) -> CheckpointFormats:
    cache = "FP8_E4M3" if quantisation.get("kv_cache_quant_algo") == "FP8" else None
    excluded = _matcher(quantisation.get("exclude_modules") or config.get("ignore") or ())
    algorithm = quantisation.get("quant_algo")
    layers = quantisation.get("quantized_layers")
    if algorithm == "MIXED_PRECISION" and isinstance(layers, Mapping):
        listed = {_PREFIX.sub("", name): _algorithm(entry.get("quant_algo"), where) for name, entry in layers.items()}
        return CheckpointFormats(_listed_roles(listed.get, decoder), cache)
    formats = _algorithm(algorithm, where)
    return CheckpointFormats(_roles(excluded, formats, decoder), cache)


def _algorithm(name: Any, where: str) -> tuple[str, str]:
    if name not in _ALGORITHMS:
        raise UnsupportedError(f"{where}: quantisation {str(name)[:40]!r} is not known here")
    return _ALGORITHMS[name]


def _hugging_face(config: Mapping[str, Any], decoder: Decoder, where: str) -> CheckpointFormats:
    method = str(config.get("quant_method") or config.get("quant_algo") or "").lower()
    ignored = config.get("ignore") or config.get("modules_to_not_convert") or ()
    scheme = config.get("kv_cache_scheme")
    cache = "FP8_E4M3" if scheme == "FP8" or (isinstance(scheme, Mapping) and scheme.get("num_bits") == 8) else None
    if config.get("config_groups"):
        return CheckpointFormats(_grouped(config["config_groups"], ignored, decoder, where), cache)
    if method == "modelopt":
        return _modelopt(config, config, decoder, where)
    if method in ("fp8", "fbgemm_fp8"):
        is_block = bool(config.get("weight_block_size"))
        fixed = _everywhere(("FP8_E4M3", "FP8_E4M3"), ignored, decoder)
        return CheckpointFormats(fixed.roles, cache, has_block_scales=is_block)
    if method == "mxfp4":
        return CheckpointFormats({"expert": RoleFormat("MXFP4", "BF16", 1.0)}, cache)
    if method in ("awq", "gptq"):
        return _everywhere(_integer(config.get("bits", config.get("w_bit", 4)), where), ignored, decoder)
    if method == "bitsandbytes":
        skipped = config.get("llm_int8_skip_modules") or ()
        if config.get("load_in_8bit"):
            return _everywhere(("INT8", "INT8"), skipped, decoder)
        if config.get("load_in_4bit") and config.get("bnb_4bit_quant_type", "fp4") == "nf4":
            return _everywhere(("NF4", "BF16"), skipped, decoder)
    raise UnsupportedError(f"{where}: quantisation method {method[:40] or 'without a name'!r} is not known here")


def _everywhere(formats: tuple[str, str], ignored: Iterable[str], decoder: Decoder) -> CheckpointFormats:
    return CheckpointFormats(_roles(_matcher(ignored), formats, decoder))


def _grouped(
    groups: Mapping[str, Any], ignored: Iterable[str], decoder: Decoder, where: str
) -> Mapping[Role, RoleFormat]:
    """Return the roles of compressed-tensors: a group of formats for all linear layers, or groups for lists of them."""
    parsed = [(group.get("targets") or ("Linear",), _group_formats(group, where)) for group in groups.values()]
    everywhere = next((formats for targets, formats in parsed if "Linear" in targets), None)
    if everywhere is not None:
        return _roles(_matcher(ignored), everywhere, decoder)
    rules = [(_matcher(targets), formats) for targets, formats in parsed]
    return _listed_roles(lambda name: next((formats for meant, formats in rules if meant(name)), None), decoder)


def _group_formats(group: Mapping[str, Any], where: str) -> tuple[str, str]:
    def name(part: Mapping[str, Any] | None) -> str:
        if not part:
            return "BF16"
        bits, kind = part.get("num_bits"), part.get("type")
        named = {"8 float": "FP8_E4M3", "8 int": "INT8", "4 int": "INT4"}.get(f"{bits} {kind}")
        if (bits, kind) == (4, "float"):
            named = "MXFP4" if part.get("group_size") == 32 else "NVFP4"
        if named is None:
            raise UnsupportedError(f"{where}: weights of {bits} bits of type {str(kind)[:20]!r} are not known here")
        return named

    return name(group.get("weights")), name(group.get("input_activations"))


def _integer(bits: Any, where: str) -> tuple[str, str]:
    if bits not in (2, 4, 8):
        raise UnsupportedError(f"{where}: weights of {str(bits)[:20]} bits are not known here")
    return f"INT{bits}", "BF16"


def _roles(excluded: Callable[[str], bool], formats: Formats, decoder: Decoder) -> Mapping[Role, RoleFormat]:
    """Return the roles of a checkpoint in one format: all of those whose modules are not excluded."""
    roles: dict[Role, RoleFormat] = {}
    for role, count in _layer_counts(decoder).items():
        wide = _matrix_shares(role, excluded, decoder, count)
        narrow = 1 - _share(role, wide, decoder)
        if narrow > 0:
            roles[role] = RoleFormat(*formats, narrow, _wide_parts(role, wide, decoder))
    return roles  # the head stays in 16 bit unless it is listed


def _wide_parts(role: Role, shares: Mapping[str, float], decoder: Decoder) -> tuple[str, ...]:
    """Return the parts of attention of which most is wide; matrices that engines fuse are quantised together."""
    if role != "attention":
        return ()
    balance: dict[str, float] = {}
    for matrix in decoder.matrices():
        if matrix.role == role:
            part = matrix.name if matrix.name == "o_proj" else f"{matrix.name[0]}_proj"
            excess = (2 * shares.get(matrix.name, 0.0) - 1) * matrix.element_count
            balance[part] = balance.get(part, 0.0) + excess
    wide = [part for part, excess in balance.items() if excess > 0]
    is_latent = "k_proj" in wide and "v_proj" not in balance
    return (*wide, "v_proj") if is_latent else tuple(wide)


def _listed_roles(format_of: FormatOf, decoder: Decoder) -> Mapping[Role, RoleFormat]:
    """Return the roles of a checkpoint that lists what is quantised and how."""
    roles: dict[Role, RoleFormat] = {}
    for role, count in _layer_counts(decoder).items():
        layers = range(sum(run.count for run in decoder.layers))
        names = (name for layer in layers for name in _names(_BLOCKS[role], layer, _MODULES[role]))
        counts = Counter(formats for name in names if (formats := format_of(name)) is not None)
        if counts:
            share = _share(
                role, _matrix_shares(role, lambda name: format_of(name) is not None, decoder, count), decoder
            )
            roles[role] = RoleFormat(*counts.most_common(1)[0][0], share)
    head = format_of("lm_head")
    if head is not None:
        roles["lm_head"] = RoleFormat(*head, 1.0)
    return roles


def _layer_counts(decoder: Decoder) -> Mapping[Role, int]:
    """Return in how many layers each role that may be quantised occurs."""
    counts: dict[Role, int] = {}
    for run in decoder.layers:
        for part in (run.mixer, run.feed_forward):
            for role in {matrix.role for matrix in part.matrices(decoder.hidden_size)} if part is not None else ():
                counts[role] = counts.get(role, 0) + run.count
    return {role: counts[role] for role in _MODULES if role in counts}


def _share(role: Role, shares: Mapping[str, float], decoder: Decoder) -> float:
    """Return the share of a role's elements from those of its matrices."""
    elements: Counter[str] = Counter()
    for matrix in decoder.matrices():
        if matrix.role == role and matrix.name in shares:
            elements[matrix.name] += matrix.element_count
    if elements.total() and role not in ("ffn", "expert", "shared_expert"):
        return sum(count * shares[name] for name, count in elements.items()) / elements.total()
    return max(shares.values())  # matrices that engines fuse are quantised together


def _matrix_shares(role: Role, meant: Callable[[str], bool], decoder: Decoder, count: int) -> dict[str, float]:
    """Return the share of its layers in which each matrix of a role is meant."""
    layers = range(sum(run.count for run in decoder.layers))
    is_beside_dense = decoder.experts is not None and decoder.experts.dense_size > 0
    blocks = ("experts", "moe.experts") if role == "expert" and is_beside_dense else _BLOCKS[role]
    return {
        matrix: min(1.0, sum(any(map(meant, _names(blocks, layer, (matrix,)))) for layer in layers) / count)
        for matrix in _MODULES[role]
    }


def _names(blocks: Iterable[str], layer: int, matrices: Iterable[str]) -> Iterator[str]:
    """Yield the names that matrices may have in a layer, without what comes before `layers`."""
    for block, name in product(blocks, matrices):
        yield f"layers.{layer}.{block}{'.' if name else ''}{name}"


def _matcher(patterns: Iterable[str]) -> Callable[[str], bool]:
    """Return whether any of the patterns means a module: its name or the start of one, a part of it, with `*`, or `re:`
    and an expression. Thousands of patterns that name a layer are looked up by it.
    """
    exact: set[str] = set()
    general: list[re.Pattern[str]] = []
    by_layer: dict[str, list[re.Pattern[str]]] = {}
    for pattern in patterns:
        if pattern.startswith("re:"):
            general.append(re.compile(pattern[3:]))
            continue
        plain = _PREFIX.sub("", pattern)
        if "*" not in plain:
            exact.add(plain)
            continue
        expression = re.compile(translate(plain.removesuffix(".*").removesuffix("*")).replace(r"\Z", ""))
        layer = _LAYER.match(plain)
        if layer is None or plain.startswith(f"layers.{layer.group(1)}*"):
            general.append(expression if layer is None else re.compile(rf"layers\.{layer.group(1)}(\.|$)"))
        else:
            by_layer.setdefault(layer.group(1), []).append(expression)

    def matches(module: str) -> bool:
        parts = module.split(".")
        if any(".".join(parts[:end]) in exact for end in range(1, len(parts) + 1)) or any(
            part in exact for part in parts
        ):
            return True
        layer = _LAYER.match(module)
        own = by_layer.get(layer.group(1), ()) if layer is not None else ()
        return any(each.match(module) or each.match(f"model.{module}") for each in (*own, *general))

    return matches
