"""From a model to a decision, in under two minutes on a CPU: recommend, quantise, measure, quality, verdict, save, reload.

    python examples/quantization_demo.py [FOLDER]

Speed is measured on a Llama of 156 M parameters with seeded weights: large enough to be read from memory in every decode step.
Quality is measured on a decoder of one million parameters that is trained here, for a few seconds, on the help texts that ship
with Python: seeded weights know nothing that a narrow format could lose. No network is needed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from bench_cases.models.sources import load_model
from bench_cases.pipeline.progress import PipelineEvent
from bench_cases.pipeline.result import PipelineResult
from bench_cases.pipeline.run import PipelineSeams
from bench_cases.quality import compare_models, text_windows
from bench_cases.quality.texts.tiny_decoder import SHORT_RUN, TrainedDecoder, TrainingRun, train_tiny_decoder
from bench_cases.quantization import apply_quantization, run_pipeline

SPEED_MODEL = "seeded-llama-156m"
QUALITY_FORMATS = (("INT8", "round-to-nearest"), ("INT4", "round-to-nearest"), ("INT4", "HQQ"))
WINDOWS_COUNT = 8
WINDOW_ELEMS = 128


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; return 0."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, help="where model and report go (default: a temporary folder)")
    parser.add_argument("--model", default=SPEED_MODEL, help=f"model whose speed is measured (default: {SPEED_MODEL})")
    given = parser.parse_args(arguments)
    if given.folder is not None:
        demo(given.model, given.folder)
        return 0
    with tempfile.TemporaryDirectory(prefix="quantization-demo-") as folder:
        demo(given.model, Path(folder))
    return 0


def demo(model: str, folder: Path, *, training: TrainingRun = SHORT_RUN, seams: PipelineSeams | None = None) -> None:
    """Print every step with its figures. training, seams: shorter ones for tests."""
    begin = time.monotonic()
    print("1. Quality, on trained weights")
    show_quality(training)
    print(f"\n2. Speed of {model}: recommend, quantise, measure, save")
    result = run_pipeline(
        model,
        folder / "pipeline",
        candidates=1,
        processes=1,
        db=str(folder / "results.db"),
        progress=show_progress,
        seams=seams,
    )
    print("\n3. Verdict")
    for sentence in result.sentences:
        print(f"   {sentence}")
    if result.saved is not None:
        print("\n4. The saved model, loaded again")
        show_reloaded(result)
    print(f"\nreport: {folder / 'pipeline' / 'report.md'}; {time.monotonic() - begin:.0f} s in all")


def show_quality(training: TrainingRun) -> None:
    """Train the tiny decoder and print what each format costs it on text that it has not seen."""
    begin, threads = time.monotonic(), torch.get_num_threads()
    torch.set_num_threads(1)  # small products gain nothing from threads, and on a busy machine they wait for each other
    trained = train_tiny_decoder(training)
    torch.set_num_threads(threads)
    took_s = time.monotonic() - begin
    print(
        f"   {trained.loaded.parameters_count / 1e6:.2f} M parameters trained in {took_s:.0f} s: {trained.final_loss_value:.2f} nats per byte"
    )
    windows = text_windows(trained.text.held_out, trained.loaded.tokenizer, window_elems=WINDOW_ELEMS).thinned(
        WINDOWS_COUNT
    )
    for precision, method in QUALITY_FORMATS:
        quantised = copied(trained)
        report = apply_quantization(quantised, precision, method=method)
        if report is False:
            print("   torchao is not installed: pip install 'roofline-bench[quant]'")
            return
        quality = compare_models(trained.loaded.model, quantised, windows)
        print(
            f"   {precision:5} {method:16} KL {quality.kl}, perplexity × {quality.perplexity_ratio} on {quality.tokens_count} tokens; "
            f"{report.before_bytes / 1e6:.2f} MB → {report.after_bytes / 1e6:.2f} MB"
        )


def copied(trained: TrainedDecoder) -> torch.nn.Module:
    """Return a second model with the same weights: quantising works in place."""
    model = type(trained.loaded.model)(trained.loaded.model.config).to(torch.bfloat16)
    model.load_state_dict(trained.loaded.model.state_dict())
    return model.eval()


def show_progress(event: PipelineEvent) -> None:
    """Print a line per step."""
    left = f", about {event.remaining_s:.0f} s left" if event.kind == "begin" and event.remaining_s else ""
    print(f"   [{event.step_index}/{event.steps_count}] {event.text}{left}", flush=True)


def show_reloaded(result: PipelineResult) -> None:
    """Load the winner from its folder and let it continue a prompt of random tokens."""
    loaded = load_model(str(result.folder / "model"))
    prompt = torch.randint(0, loaded.model.config.vocab_size, (1, 8), generator=torch.Generator().manual_seed(0))
    written = loaded.model.generate(prompt, max_new_tokens=8, do_sample=False, pad_token_id=0)
    print(f"   {type(loaded.model).__name__} from {result.folder / 'model'}")
    print(f"   eight tokens after eight: {written[0, 8:].tolist()}")


if __name__ == "__main__":
    sys.exit(main())
