"""Whether a quantised model writes what its original writes: greedy continuations, compared token by token."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bench_cases.quality.model_outputs import (
    BATCH_WINDOWS,
    CacheMaker,
    checked_logits,
    device_of,
    evaluating,
    require_fitting,
    require_same_vocabulary,
)
from bench_cases.quality.texts.estimates import Clusters, Estimate, ratio_estimate
from bench_cases.quality.texts.token_windows import TextWindows
from roofline_model.core.errors import InvalidValueError, UnsupportedError


@dataclass(frozen=True, slots=True)
class GenerationAgreement:
    """Greedy continuations of the same prompts by both models, each fed with its own tokens."""

    equal_tokens: Estimate
    """Share of the positions that hold the same token: after a divergence equal tokens are chance."""
    equal_prefix: Estimate
    """Mean count of tokens before the first difference; a continuation without one counts in full."""
    identical_continuations: Estimate
    """Share of the prompts that both models continue alike to the end."""
    first_divergences: tuple[int | None, ...]
    """Per prompt: position of the first token that differs, from 0; None: no difference."""
    prompts_count: int
    prompt_elems: int
    new_tokens_count: int
    """Tokens generated per prompt; the end-of-text token does not stop a continuation."""


def compare_generation(
    reference: nn.Module,
    quantized: nn.Module,
    windows: TextWindows,
    *,
    prompt_elems: int | None = None,
    new_tokens_count: int = 32,
    quantized_cache: CacheMaker | None = None,
    batch_windows: int = BATCH_WINDOWS,
) -> GenerationAgreement:
    """Continue the first `prompt_elems` tokens of every window (None: all of them) by the most likely token each time.

    Both models are left as they are. Counts each prompt as one trial; prompts of one document are drawn together where
    there are enough documents. Raises `InvalidValueError` for a prompt or continuation of no token, and as
    `compare_models`.
    """
    prompt_elems = windows.window_elems if prompt_elems is None else prompt_elems
    if not 1 <= prompt_elems <= windows.window_elems or new_tokens_count < 1:
        raise InvalidValueError(
            f"prompt_elems={prompt_elems}, new_tokens_count={new_tokens_count}: a prompt has 1 to "
            f"{windows.window_elems} "
            "tokens (one window), a continuation at least 1"
        )
    # Ids that stand for the whole sequence: both models must have positions for it.
    token_ids = windows.ids[:1, :1].expand(1, prompt_elems + new_tokens_count)
    for model, name in ((reference, "reference"), (quantized, "quantised")):
        require_fitting(model, windows.ids, name)
        require_fitting(model, token_ids, name)
    equal: list[Tensor] = []
    with evaluating(reference, quantized), torch.no_grad():
        for ids in windows.ids[:, :prompt_elems].split(max(1, batch_windows)):
            first = _continuations(reference, ids, new_tokens_count, "reference", None)
            second = _continuations(quantized, ids, new_tokens_count, "quantised", quantized_cache)
            require_same_vocabulary(first[1], second[1])
            equal.append(first[0] == second[0])
    return _summary(torch.cat(equal), windows, prompt_elems)


def _continuations(
    model: nn.Module, ids: Tensor, count: int, name: str, make_cache: CacheMaker | None
) -> tuple[Tensor, Tensor]:
    """Return the greedy continuation (rows, count) of every row, on the CPU, and the last logits.

    The cache is transformers' own where none is given: the arithmetic of use. A model that returns no cache is called
    with the whole sequence each time.
    """
    sequence, cache = ids.to(device_of(model)), None if make_cache is None else make_cache()
    wish = {"use_cache": True} if hasattr(model, "config") else {}
    step, logits = sequence, torch.empty(0)
    for _ in range(count):
        output = model(step, **wish) if cache is None else model(step, past_key_values=cache, **wish)
        logits = checked_logits(output, step, name)
        chosen = logits[:, -1].argmax(-1, keepdim=True)
        sequence = torch.cat([sequence, chosen], dim=1)
        cache = getattr(output, "past_key_values", None)
        if cache is None and make_cache is not None:
            raise UnsupportedError(f"the {name} model keeps no key-value cache: compare it without one")
        step = sequence if cache is None else chosen
    return sequence[:, ids.shape[1] :].cpu(), logits


def _summary(equal: Tensor, windows: TextWindows, prompt_elems: int) -> GenerationAgreement:
    prompts, tokens = equal.shape
    clusters = Clusters.of_documents(windows.documents, "prompts")
    prefixes = [int(row.int().cumprod(0).sum()) for row in equal]
    ones = [1.0] * prompts
    count = prompts * tokens
    return GenerationAgreement(
        equal_tokens=ratio_estimate(
            equal.sum(1).tolist(), [float(tokens)] * prompts, clusters, unit="share", tokens_count=count
        ),
        equal_prefix=ratio_estimate([float(p) for p in prefixes], ones, clusters, unit="tokens", tokens_count=count),
        identical_continuations=ratio_estimate(
            [float(p == tokens) for p in prefixes], ones, clusters, unit="share", tokens_count=count
        ),
        first_divergences=tuple(None if p == tokens else p for p in prefixes),
        prompts_count=prompts,
        prompt_elems=prompt_elems,
        new_tokens_count=tokens,
    )
