"""A GGUF file of a Llama with two narrow layers and a tokenizer of bytes, its weights stored as Q4_1."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
from gguf.quants import quantize

LAYERS_COUNT, HIDDEN_SIZE, FFN_SIZE, HEADS_COUNT = 2, 64, 128, 2
_LINEARS = {
    "attn_q": (HIDDEN_SIZE, HIDDEN_SIZE),
    "attn_k": (HIDDEN_SIZE, HIDDEN_SIZE),
    "attn_v": (HIDDEN_SIZE, HIDDEN_SIZE),
    "attn_output": (HIDDEN_SIZE, HIDDEN_SIZE),
    "ffn_gate": (FFN_SIZE, HIDDEN_SIZE),
    "ffn_up": (FFN_SIZE, HIDDEN_SIZE),
    "ffn_down": (HIDDEN_SIZE, FFN_SIZE),
}
"""Name in the file → (out, in)."""


def write_tiny_gguf(file: Path) -> Path:
    """Write the file and return its place."""
    letters = _byte_letters()
    tokens = [*letters, letters[0] + letters[1], "<|end|>"]
    writer = gguf.GGUFWriter(file, "llama")
    writer.add_name("tiny")
    writer.add_context_length(512)
    writer.add_embedding_length(HIDDEN_SIZE)
    writer.add_block_count(LAYERS_COUNT)
    writer.add_feed_forward_length(FFN_SIZE)
    writer.add_head_count(HEADS_COUNT)
    writer.add_head_count_kv(HEADS_COUNT)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types([1] * 257 + [3])
    writer.add_token_merges([f"{letters[0]} {letters[1]}"])
    writer.add_bos_token_id(257)
    writer.add_eos_token_id(257)
    random = np.random.default_rng(0)
    _add(writer, "token_embd", random.standard_normal((len(tokens), HIDDEN_SIZE)))
    for layer in range(LAYERS_COUNT):
        for name, sizes in _LINEARS.items():
            _add(writer, f"blk.{layer}.{name}", random.standard_normal(sizes) / 8)
        for name in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{layer}.{name}.weight", np.ones(HIDDEN_SIZE, np.float32))
    writer.add_tensor("output_norm.weight", np.ones(HIDDEN_SIZE, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def _add(writer: gguf.GGUFWriter, name: str, values: np.ndarray) -> None:
    kind = gguf.GGMLQuantizationType.Q4_1
    writer.add_tensor(f"{name}.weight", quantize(values.astype(np.float32), kind), raw_dtype=kind)


def _byte_letters() -> list[str]:
    """Return the letter of each byte, as byte-level tokenizers write them: printable ones as they are."""
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = iter(range(256, 512))
    return [chr(byte) if byte in printable else chr(next(others)) for byte in range(256)]
