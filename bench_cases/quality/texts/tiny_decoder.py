"""A decoder with trained weights and no network: a one-million-parameter Llama over bytes, trained on Python's help.

Its perplexity answers to a format as a large model's does, which seeded weights never do: their output is noise
before and after. It says how formats rank and whether a search decides well, not what a format costs a model of 7 B.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bench_cases.models.sources import LoadedModel, SeededLlama, seeded_llama
from bench_cases.quality.texts.python_help import ByteTokenizer, TinyText, tiny_text
from roofline_model.core.errors import InvalidValueError

TINY_DECODER = SeededLlama("tiny-decoder-1m", 128, 512, 4, 4, 2, 256, 512)
"""All sizes are multiples of 128, so that every 4-bit kernel takes every layer."""


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """Training run of the tiny decoder: a count of steps, never a time, so that a seed gives one model."""

    steps_count: int = 220
    window_elems: int = 128
    """Tokens that are predicted in one row."""
    batch_count: int = 16
    """Rows of one step."""
    matrix_rate_value: float | None = 0.05
    """Learning rate of the layers' matrices (Muon) after the warm-up; all rates then fall along a half cosine. None:
    AdamW trains them too, in three times the steps, but Muon multiplies in BF16, which a CPU without such a unit does
    slowly.
    """
    vector_rate_value: float = 0.01
    """Learning rate of embedding, head and norms (AdamW)."""
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("steps_count", "window_elems", "batch_count"):
            if getattr(self, name) < 1:
                raise InvalidValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.window_elems > TINY_DECODER.positions_count:
            raise InvalidValueError(
                f"window_elems={self.window_elems}: the tiny decoder has {TINY_DECODER.positions_count} positions"
            )


FULL_RUN = TrainingRun()
"""About a minute on one idle core."""
SHORT_RUN = TrainingRun(
    steps_count=150, window_elems=48, batch_count=8, matrix_rate_value=None, vector_rate_value=0.003
)
"""Seconds on one core: enough for formats to differ."""


@dataclass(frozen=True, slots=True)
class TrainedDecoder:
    """The trained model, the text it has not seen, and what its last training steps lost."""

    loaded: LoadedModel
    text: TinyText
    run: TrainingRun
    final_loss_value: float
    """Mean training loss of the last tenth of the steps, nats per byte."""


def train_tiny_decoder(run: TrainingRun = FULL_RUN, *, dtype: torch.dtype = torch.bfloat16) -> TrainedDecoder:
    """Train the tiny decoder in FP32 on the CPU and return it there, rounded to `dtype`.

    The same run gives the same weights on the same machine and library; torch's random state is left alone.
    """
    text = tiny_text()
    stream = torch.tensor(list("\n".join(text.training).encode()), dtype=torch.long)
    model = seeded_llama(TINY_DECODER, seed=run.seed, dtype=torch.float32)
    model.train()
    generator = torch.Generator().manual_seed(run.seed)
    losses = _train(model, stream, run, generator)
    model.eval()
    for parameter in model.parameters():
        parameter.data = parameter.data.to(dtype)
        parameter.grad = None
    last = losses[-max(1, len(losses) // 10) :]
    parameters_count = sum(parameter.numel() for parameter in model.parameters())
    loaded = LoadedModel(TINY_DECODER.name, "trained", model, ByteTokenizer(), parameters_count)
    return TrainedDecoder(loaded, text, run, sum(last) / len(last))


def _train(model: nn.Module, stream: Tensor, run: TrainingRun, generator: torch.Generator) -> list[float]:
    """Run the steps; return the loss of each."""
    matrices = [parameter for name, parameter in model.named_parameters() if _is_matrix(name, parameter)]
    vectors = [parameter for name, parameter in model.named_parameters() if not _is_matrix(name, parameter)]
    optimizers: list[torch.optim.Optimizer] = []
    if run.matrix_rate_value is None:
        vectors += matrices
    else:
        optimizers.append(torch.optim.Muon(matrices, lr=run.matrix_rate_value, weight_decay=0.0))
    optimizers.append(torch.optim.AdamW(vectors, lr=run.vector_rate_value, betas=(0.9, 0.95), weight_decay=0.0))
    peaks = [optimizer.param_groups[0]["lr"] for optimizer in optimizers]
    losses = []
    for step in range(run.steps_count):
        rows = _rows(stream, run, generator)
        logits = model(rows[:, :-1]).logits
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())
        loss.backward()
        for optimizer, peak in zip(optimizers, peaks, strict=True):
            optimizer.param_groups[0]["lr"] = peak * _schedule(step, run.steps_count)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        losses.append(float(loss.detach()))
    return losses


def _is_matrix(name: str, parameter: nn.Parameter) -> bool:
    """Whether Muon trains it: the matrices inside the layers.

    In a hundred steps it learns what AdamW needs three for.
    """
    return parameter.dim() == 2 and "layers" in name


def _rows(stream: Tensor, run: TrainingRun, generator: torch.Generator) -> Tensor:
    """Draw rows of the stream, one token longer than a window: inputs and what follows them."""
    width = run.window_elems + 1
    starts = torch.randint(0, stream.numel() - width, (run.batch_count, 1), generator=generator)
    return stream[starts + torch.arange(width)]


def _schedule(step: int, steps_count: int) -> float:
    """Return the share of the peak rate: a linear warm-up over a twentieth of the steps, then half a cosine."""
    warm = max(1, steps_count // 20)
    if step < warm:
        return (step + 1) / warm
    decayed_share = (step - warm) / max(1, steps_count - warm)
    return 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * decayed_share))
