"""What an option loses against the 16-bit original: what others published of its formats, each number with its source.

A claim is of somebody else's model, text and recipe. It says what to expect before the loss is measured on the model
itself (`roofline losses`, `pytest bench_cases -k model_quant`), and it is shown as `claimed` until then. Where a paper
gives perplexities, the range is 100·(narrow/16 bit − 1) over its models; where it gives task scores, 100·(1 − narrow/16
bit). Formats without a row have no published figure that was found, and no claim is made for them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

from roofline_model.core.answer import Loss
from roofline_model.core.finding import Finding, Value, finding, short_text
from roofline_model.formats.catalog import is_wide_format
from roofline_model.models.format_plan import published_plan
from roofline_model.models.model_registry import shipped_model

PERPLEXITY, TASKS = "perplexity", "task accuracy"
CACHE_METHOD = "cache"
REFERENCE = Loss("reference", 0.0)
UNKNOWN = Loss("unknown")
RANK_AGREEMENT = "rank agreement"
"""Metric of an encoder's loss."""
LOW_TOP1_RATIO = 0.85
"""Agreement of the likeliest token below this is said beside a recommendation; `low-top1-agreement` says why."""

_QSERVE = (
    "QServe (arXiv:2405.04532), table of WikiText-2 perplexities in the repository mit-han-lab/deepcompressor, read "
    "2026-11-22"
)
_TORCHAO = (
    "pytorch/ao, evaluation of Llama 3.1 8B and Llama 3.2 3B (WikiText word perplexity, benchmarks/_models), read "
    "2026-11-22"
)
_RAZER = (
    "RaZeR (abdelfattah-lab, 2025-08-13), WikiText-2 perplexities of Llama-3.1-8B, Llama-3.2-3B and Qwen2.5-3B, -7B, "
    "-14B, "
    "weights rounded to nearest, read 2026-11-22"
)
_TORCHAO_BLOCKS = "pytorch/ao 3394, one evaluation of Llama-3.1-8B (WikiText word perplexity), read 2026-11-22"
_MXFP4_WEIGHTS = f"{_RAZER}: 7.21 to 8.14, 11.05 to 12.31, 8.56 to 9.44, 7.46 to 8.48, 5.69 to 6.41"
_MXFP4_OF_MODELS = (
    ("llama-3.1-8b", 12.9, 12.9),
    ("llama-3.2-3b", 11.4, 11.4),
    ("qwen2.5-3b", 10.3, 10.3),
    ("qwen2.5-7b", 13.7, 13.7),
    ("qwen2.5-14b", 12.7, 12.7),
)
_CARDS = "model card neuralmagic/Meta-Llama-3.1"
_READ = ", read 2026-11-22, recovery of OpenLLM v1 and v2"


@dataclass(frozen=True, slots=True)
class ClaimedLoss:
    """A published range for one format and method."""

    weights: str
    is_both: bool
    """Whether activations have the format, too."""
    method: str
    """AWQ, GPTQ, SmoothQuant, RTN (rounded to nearest, scales from the data's maximum)."""
    low_pct: float
    high_pct: float
    metric: str
    source: str
    models: str = ""
    """What the range is of, where it does not hold for models in general: the start of their names; empty: in
    general.
    """
    pct_by_model: tuple[tuple[str, float, float], ...] = ()
    """(name of a model, its lower and upper end) where the source says which figure of a general range is whose."""


CLAIMED_LOSSES: tuple[ClaimedLoss, ...] = (
    ClaimedLoss(
        "INT8",
        False,
        "RTN",
        0.1,
        0.2,
        PERPLEXITY,
        f"{_TORCHAO}: 7.33 to 7.34, 9.26 to 9.28 (int8wo)",
        pct_by_model=(("llama-3.1-8b", 0.1, 0.1), ("llama-3.2-3b", 0.2, 0.2)),
    ),
    ClaimedLoss(
        "FP8_E4M3",
        False,
        "RTN",
        0.5,
        0.5,
        PERPLEXITY,
        f"{_TORCHAO}: 7.33 to 7.37, 9.26 to 9.31 (float8wo)",
        pct_by_model=(("llama-3.1-8b", 0.5, 0.5), ("llama-3.2-3b", 0.5, 0.5)),
    ),
    ClaimedLoss(
        "FP8_E4M3",
        True,
        "RTN",
        0.8,
        1.2,
        PERPLEXITY,
        f"{_TORCHAO}: 7.33 to 7.41 and 7.42, 9.26 to 9.33 and 9.35 (float8dq by row and by tensor)",
        pct_by_model=(("llama-3.1-8b", 1.1, 1.2), ("llama-3.2-3b", 0.8, 1.0)),
    ),
    ClaimedLoss(
        "INT8",
        True,
        "PTQ",
        1.6,
        1.8,
        PERPLEXITY,
        f"{_TORCHAO}: 7.33 to 7.45, 9.26 to 9.43 (int8dq)",
        pct_by_model=(("llama-3.1-8b", 1.6, 1.6), ("llama-3.2-3b", 1.8, 1.8)),
    ),
    ClaimedLoss(
        "INT8",
        True,
        "SmoothQuant",
        0.8,
        3.2,
        PERPLEXITY,
        f"{_QSERVE}: ten of its models, with an 8-bit cache; Llama-3 70B and Llama-3.1 70B stand apart",
    ),
    ClaimedLoss(
        "INT8",
        True,
        "SmoothQuant",
        10.2,
        14.9,
        PERPLEXITY,
        f"{_QSERVE}: 2.85 to 3.14, 2.81 to 3.23",
        "llama-3-70b llama-3.1-70b",
    ),
    ClaimedLoss(
        "INT4",
        False,
        "AWQ",
        1.5,
        6.5,
        PERPLEXITY,
        f"{_QSERVE}: groups of 128, ten of its models: 1.5-2.7 % but for Llama-3 8B and Llama-3.1 8B (6.5 and 5.8 %); "
        "Llama-3 "
        "70B and Llama-3.1 70B stand apart",
        pct_by_model=(("llama-3-8b", 6.5, 6.5), ("llama-3.1-8b", 5.8, 5.8)),
    ),
    ClaimedLoss(
        "INT4",
        False,
        "AWQ",
        12.3,
        14.6,
        PERPLEXITY,
        f"{_QSERVE}: 2.85 to 3.20, 2.81 to 3.22",
        "llama-3-70b llama-3.1-70b",
    ),
    ClaimedLoss(
        "INT4",
        False,
        "GPTQ",
        1.7,
        6.8,
        PERPLEXITY,
        f"{_QSERVE}: GPTQ-R, groups of 128, ten of its models; Llama-3 70B and Llama-3.1 70B stand apart",
    ),
    ClaimedLoss(
        "INT4",
        False,
        "GPTQ",
        20.0,
        23.1,
        PERPLEXITY,
        f"{_QSERVE}: GPTQ-R, 2.85 to 3.42, 2.81 to 3.46",
        "llama-3-70b llama-3.1-70b",
    ),
    ClaimedLoss(
        "INT4",
        False,
        "RTN",
        11.9,
        12.6,
        PERPLEXITY,
        f"{_TORCHAO}: 7.33 to 8.25, 9.26 to 10.36 (int4wo, groups of 128)",
        pct_by_model=(("llama-3.1-8b", 12.6, 12.6), ("llama-3.2-3b", 11.9, 11.9)),
    ),
    ClaimedLoss(
        "INT4",
        True,
        "Atom",
        8.0,
        26.7,
        PERPLEXITY,
        f"{_QSERVE}: Atom W4A4, groups of 128, nine of its models; QuaRot loses more; Llama-3 70B stands apart",
    ),
    ClaimedLoss("INT4", True, "Atom", 51.9, 51.9, PERPLEXITY, f"{_QSERVE}: Atom W4A4, 2.85 to 4.33", "llama-3-70b"),
    ClaimedLoss(
        "NVFP4",
        False,
        "RTN",
        3.6,
        6.5,
        PERPLEXITY,
        f"{_RAZER}: 7.21 to 7.56, 11.05 to 11.73, 8.56 to 9.12, 7.46 to 7.73, 5.69 to 6.05",
        pct_by_model=(
            ("llama-3.1-8b", 4.9, 4.9),
            ("llama-3.2-3b", 6.2, 6.2),
            ("qwen2.5-3b", 6.5, 6.5),
            ("qwen2.5-7b", 3.6, 3.6),
            ("qwen2.5-14b", 6.3, 6.3),
        ),
    ),
    ClaimedLoss("MXFP4", False, "RTN", 10.3, 13.7, PERPLEXITY, _MXFP4_WEIGHTS, pct_by_model=_MXFP4_OF_MODELS),
    ClaimedLoss(
        "NVFP4",
        True,
        "RTN",
        11.8,
        11.8,
        PERPLEXITY,
        f"{_TORCHAO_BLOCKS}: 7.55 to 8.44",
        pct_by_model=(("llama-3.1-8b", 11.8, 11.8),),
    ),
    ClaimedLoss(
        "MXFP8_E4M3",
        True,
        "RTN",
        0.7,
        0.8,
        PERPLEXITY,
        f"{_TORCHAO_BLOCKS}: 7.55 to 7.60 and 7.61 (two ways of rounding the scales)",
        pct_by_model=(("llama-3.1-8b", 0.7, 0.8),),
    ),
    ClaimedLoss(
        "MXFP4",
        True,
        "RTN, weights alone",
        10.3,
        13.7,
        PERPLEXITY,
        f"{_MXFP4_WEIGHTS}; narrow activations lose more",
        pct_by_model=_MXFP4_OF_MODELS,
    ),
)
"""Of several methods for one format the first is what the rankings assume of a model that no row is of. The percentages
are of perplexity where anybody published one of the format, and of task accuracy only where nobody did: rankings and
limits go by this one number.
"""

LOSSES_BESIDE: tuple[ClaimedLoss, ...] = (
    ClaimedLoss(
        "INT4",
        False,
        "GPTQ",
        0.6,
        2.6,
        TASKS,
        f"{_CARDS}-70B-Instruct-quantized.w4a16{_READ}: 99.4 and 97.4 %; Arena-Hard 100.0 %",
        "llama-3.1-70b",
    ),
    ClaimedLoss(
        "INT4",
        False,
        "GPTQ",
        1.1,
        3.9,
        TASKS,
        f"{_CARDS}-8B-Instruct-quantized.w4a16{_READ}: 98.9 and 96.1 %; Arena-Hard 93.0 %",
        "llama-3.1-8b",
    ),
    ClaimedLoss(
        "FP8_E4M3",
        True,
        "RTN",
        0,
        0.3,
        TASKS,
        f"{_CARDS}-70B-Instruct-FP8-dynamic{_READ}: 99.7 and 100.0 %; Arena-Hard 101.6 %",
        "llama-3.1-70b",
    ),
    ClaimedLoss(
        "FP8_E4M3",
        True,
        "RTN",
        0,
        0.3,
        TASKS,
        f"{_CARDS}-8B-Instruct-FP8-dynamic{_READ}: 99.7 and 101.2 %; Arena-Hard 105.4 %",
        "llama-3.1-8b",
    ),
    ClaimedLoss(
        "INT8",
        True,
        "GPTQ",
        0,
        0.1,
        TASKS,
        f"{_CARDS}-70B-Instruct-quantized.w8a8{_READ}: 99.9 and 100.0 %; Arena-Hard 98.8 %",
        "llama-3.1-70b",
    ),
    ClaimedLoss(
        "INT8",
        True,
        "GPTQ",
        0,
        0,
        TASKS,
        f"{_CARDS}-8B-Instruct-quantized.w8a8{_READ}: 100.3 and 101.5 %; Arena-Hard 105.4 %",
        "llama-3.1-8b",
    ),
    ClaimedLoss(
        "NVFP4",
        True,
        "PTQ",
        1.1,
        6.2,
        TASKS,
        "Llama-3.1-8B-Instruct: vllm-project/llm-compressor issue 2922 (GSM8K, 97.9 % recovered by RTN, 98.9 % by "
        "GPTQ) and the model "
        "card ISTA-DASLab/Llama-3.1-8B-Instruct-FPQuant-QAT-NVFP4 (four tasks, 78.9 to 74.0 by RTN), read 2026-11-22",
        pct_by_model=(("llama-3.1-8b", 1.1, 6.2),),
    ),
    ClaimedLoss(
        "MXFP4",
        True,
        "RTN",
        5.7,
        7.4,
        TASKS,
        "intel/auto-round, docs/auto_scheme_acc.md: five tasks of Llama-3.1-8B, Qwen2.5-7B, Qwen3-8B and Qwen3-32B, "
        "pure 4 bit "
        "(94.3 to 92.6 % recovered), read 2026-11-22",
    ),
)
"""What was published of the same formats in the other metric. It is shown beside the claim, so that like can be held
against like, and ranks nothing: the rankings go by `CLAIMED_LOSSES`. Task scores of model cards are the range over
OpenLLM v1 and v2, in percent of the 16-bit score; a score above it counts as no loss.
"""

CACHE_LOSSES: tuple[ClaimedLoss, ...] = (
    ClaimedLoss(
        "NVFP4",
        False,
        CACHE_METHOD,
        0,
        1.0,
        TASKS,
        "NVIDIA developer blog, NVFP4 KV cache (2025-12-08): code, knowledge and long contexts, read 2026-11-22",
    ),
    ClaimedLoss(
        "FP8_E4M3",
        False,
        CACHE_METHOD,
        0,
        1.0,
        TASKS,
        "inferred, not published: no more than an NVFP4 cache of half its bits (NVIDIA developer blog, 2025-12-08). Its "
        "scales must be calibrated: without, some models fail (verl-project/verl 4435)",
    ),
    ClaimedLoss(
        "INT8", False, CACHE_METHOD, 0.2, 0.2, TASKS, "vllm-project/vllm 1507: MMLU 0.4657 to 0.4648, read 2026-11-22"
    ),
)
"""What a narrow cache alone is said to cost, in addition to the weights."""


def claimed_loss_of(format_key: str, *, is_both: bool, method: str = "", model: str = "") -> ClaimedLoss | None:
    """Return the claim for weights in a format (and activations, `is_both`); None where no figure was found.

    `model`: a range of that very model, or its figure in a general range, goes before what holds in general, whatever
    its method; the result then names it in `models`. `method`: that one alone (default: the first, see
    `CLAIMED_LOSSES`).

    >>> awq, of_llama = (claimed_loss_of("INT4", is_both=False, model=model) for model in ("", "llama-3.1-70b"))
    >>> (awq.low_pct, awq.high_pct, awq.method), (of_llama.low_pct, of_llama.high_pct)
    ((1.5, 6.5, 'AWQ'), (12.3, 14.6))
    >>> claimed_loss_of("INT8", is_both=True, model="llama-3.1-70b").method
    'SmoothQuant'
    """
    claimed_losses = [
        claimed_loss
        for claimed_loss in CLAIMED_LOSSES
        if (claimed_loss.weights, claimed_loss.is_both) == (format_key, is_both)
    ]
    return _of_model([claim for claim in claimed_losses if not method or claim.method == method], model)


def loss_beside(format_key: str, *, is_both: bool, model: str = "") -> ClaimedLoss | None:
    """Return what was published of a format in the other metric than its claim's; None where no figure was found.

    >>> loss_beside("INT4", is_both=False, model="llama-3.1-70b").high_pct
    2.6
    """
    return _of_model([loss for loss in LOSSES_BESIDE if (loss.weights, loss.is_both) == (format_key, is_both)], model)


def claimed_cache_loss(format_key: str) -> ClaimedLoss | None:
    """Return the claim for a cache in a format; None where no figure was found."""
    return next((cache_loss for cache_loss in CACHE_LOSSES if cache_loss.weights == format_key), None)


def _of_model(claims: Iterable[ClaimedLoss], model: str) -> ClaimedLoss | None:
    """Return the first claim that is of a model, else the first that holds in general."""
    general = None
    for claim in claims:
        if model and model.lower() in claim.models.split():
            return claim
        for name, low_pct, high_pct in claim.pct_by_model:
            if name == model.lower():
                return replace(claim, low_pct=low_pct, high_pct=high_pct, models=name)
        if not claim.models and general is None:
            general = claim
    return general


def product_loss(format_key: str, *, is_both: bool) -> Loss:
    """Return what was published of weights in a format (and activations, `is_both`); unknown where no figure was
    found.
    """
    claim = claimed_loss_of(format_key, is_both=is_both)
    return UNKNOWN if claim is None else claimed(claim)


def formats_loss(formats: Iterable[tuple[str, str]], model: str = "") -> Loss:
    """Return what is known of the loss of one operator by the formats of its operands.

    None where all have 16 bits or more, or the weights the format of the model's own checkpoint.
    Of a product's weights and activations what was published (`model`: of that
    very model first). Unknown of the rest: narrow operands of an operator without weights, as a narrow cache has them.

    >>> cache = [("q", "BF16"), ("kv", "FP8_E4M3"), ("o", "BF16")]
    >>> [formats_loss(formats).pct for formats in (cache, [("a", "BF16"), ("b", "INT4")], [("x", "BF16")])]
    [None, 6.5, 0.0]
    """
    by_operand = dict(formats)
    weight = by_operand.get("b", "")
    activation = by_operand.get("a", weight)
    operands = (weight, activation) if weight else tuple(by_operand.values())  # the output of a product adds nothing
    if operands and all(map(is_wide_format, operands)):
        return REFERENCE
    is_both = weight == activation
    if _is_own_format(weight, activation, model):
        return REFERENCE
    if not weight or not (is_both or is_wide_format(activation)):
        return UNKNOWN
    claim = claimed_loss_of(weight, is_both=is_both, model=model)
    return UNKNOWN if claim is None else claimed(claim)


@lru_cache(1_024)  # every row of a stored run asks
def _is_own_format(weight: str, activation: str, model: str) -> bool:
    """Return whether a shipped model's own checkpoint has weights in a format, under these activations or 16 bit."""
    shape = shipped_model(model) if model and weight else None
    if shape is None or shape.weight_format is None or is_wide_format(weight):
        return False
    plan = published_plan(shape)
    own = [plan.base, *(exception.formats for exception in plan.exceptions)]
    return any(
        part.weights == weight and (part.activations == activation or is_wide_format(activation)) for part in own
    )


def claimed(claim: ClaimedLoss) -> Loss:
    """Return a published range as a loss: limits and ties go by its upper end."""
    return Loss(
        "claimed",
        claim.high_pct,
        low_pct=claim.low_pct,
        metric=claim.metric,
        is_of_model=bool(claim.models),
        method=claim.method,
        citation=claim.source,
    )


def loss_finding(loss: Loss, subject: str = "") -> Finding:
    """Return what is known of a loss as a finding.

    >>> loss_finding(product_loss("INT4", is_both=False)).code, loss_finding(UNKNOWN).code
    ('loss-known', 'loss-unknown')
    """
    if loss.pct is None:
        return finding("loss-unknown", subject)
    if loss.source == "reference":
        return finding("loss-known", subject, kind="reference")
    if loss.source == "measured" and loss.kl_nats_per_token is not None:
        return finding("loss-known", subject, kind="over-tokens", **_token_figures(loss))
    if loss.metric == RANK_AGREEMENT:
        return finding("loss-known", subject, kind="rank-agreement", loss_pct=loss.pct)
    if loss.source != "claimed":
        return finding("loss-known", subject, kind=loss.source, loss_pct=loss.pct)
    values = {"method": loss.method or "claim", "metric": loss.metric or PERPLEXITY}
    if loss.low_pct is None or loss.low_pct in (0, loss.pct):
        return finding("loss-known", subject, kind="claimed-at-most", loss_pct=loss.pct, **values)
    return finding("loss-known", subject, kind="claimed", low_pct=loss.low_pct, loss_pct=loss.pct, **values)


def _token_figures(loss: Loss) -> dict[str, Value]:
    figures = {
        "kl": loss.kl_nats_per_token,
        "perplexity_factor": loss.perplexity_ratio if loss.text else None,
        "top1_agreement_ratio": loss.top1_agreement_ratio,
    }
    return {name: value for name, value in figures.items() if value is not None}


def loss_doubt(loss: Loss, subject: str = "") -> Finding | None:
    """Return what a small measured loss hides, most tokens with another likeliest successor; None where it hides
    nothing.
    """
    top1 = loss.top1_agreement_ratio
    if loss.source != "measured" or top1 is None or top1 >= LOW_TOP1_RATIO:
        return None
    return finding("low-top1-agreement", subject, top1_agreement_ratio=top1)


@lru_cache(1_024)  # every answer says it of the same formats
def loss_text(loss: Loss) -> str:
    """Return a loss in a few words, for a table: `claimed: 1.5 % to 6.5 % of perplexity (AWQ)`."""
    return short_text(loss_finding(loss))
