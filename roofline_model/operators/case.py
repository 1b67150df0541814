"""The identity of a benchmark case (what is run, with which formats and kernel, from which cache state) and its names.

The test id and the key are contracts: a stored history depends on them (DESIGN §4 "Case identity"). Whole models are
recognised by their identity alone (`decode:MODEL` or `prefill:MODEL` with the sizes B, Sq, Skv), so that their names
are the same in the terminal, the reports and for runs that were imported.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from roofline_model.core.errors import InvalidValueError
from roofline_model.formats.catalog import attention_name, container_bits, format_name, short_name

CacheState = Literal["cold", "flushed", "warm", "none"]
CACHE_STATES: tuple[str, ...] = ("cold", "flushed", "warm", "none")
"""cold: each call finds operands of its own in DRAM (rotation); flushed: the caches are overwritten before each call;
warm (hot): calls follow each other on the same operands; none: nothing was arranged."""

MODES: tuple[str, ...] = ("eager", "graph", "burst", "sustained")
"""eager: calls issued one by one, short warm-up; graph: replay of a captured CUDA graph; burst: short, after the chip
has recovered; sustained: after power and clock have become flat. Modes are cases of their own, never compared."""

PHASES = ("decode", "prefill")
"""Of a whole model."""
Sizes = tuple[tuple[str, int], ...]
_UNSAFE = re.compile(r"[^A-Za-z0-9._x]")


@dataclass(frozen=True, slots=True)
class Case:
    """One thing to measure. Two cases with equal fields have the same `case_key` on every machine."""

    op: str
    """Operator: gemv, gemm, attention, … or the name a user gives to a kernel of their own."""
    shape: tuple[tuple[str, int], ...]
    """Dimension letters and sizes in canonical order, e.g. (("M", 1), ("N", 4096), ("K", 4096))."""
    formats: tuple[tuple[str, str], ...]
    """Operand → format key; GEMM: a (activation), b (weight), c (output)."""
    kernel: str
    """The implementation, e.g. matmul, int_mm, tinygemm."""
    cache: str = "cold"
    """State of the caches before each call: one of `CACHE_STATES`."""
    mode: str = "eager"
    """How calls are issued and what went before: one of `MODES`, or a user's own word."""

    def __post_init__(self) -> None:
        if self.cache not in CACHE_STATES:
            raise InvalidValueError(f"cache must be one of {', '.join(CACHE_STATES)}, got {self.cache[:40]!r}")
        for name, value in (("op", self.op), ("kernel", self.kernel), ("mode", self.mode)):
            if not value:
                raise InvalidValueError(f"case {name} must not be empty")

    @property
    def case_key(self) -> str:
        """Sixteen hex digits over op, shape, formats, kernel, mode and cache in canonical JSON."""
        return short_hash(self.to_dict())

    @property
    def shape_label(self) -> str:
        """Sizes joined by x in canonical order: `1x4096x4096`; empty when the case has no dimensions."""
        return "x".join(str(size) for _, size in self.shape)

    @property
    def width_label(self) -> str:
        """Operand widths in the field's shorthand: `w4a16`; empty without operands a and b, or where their formats are
        unknown.

        A record may name a user's format that this process has not loaded; it must still be shown.
        """
        formats = dict(self.formats)
        try:
            return f"w{container_bits(formats['b'])}a{container_bits(formats['a'])}"
        except KeyError:  # no such operand; an unknown format is a KeyError too
            return ""

    @property
    def format_label(self) -> str:
        """Weight and activation format, `INT4.BF16`; for other operators all formats in operand order."""
        formats = dict(self.formats)
        if "a" in formats and "b" in formats:
            return f"{formats['b']}.{formats['a']}"
        return ".".join(dict.fromkeys(formats.values()))

    @property
    def precision_label(self) -> str:
        """What people call the precision: `INT4 (W4A16)`, `BF16`, `FP8 (W8A8) + FP8 KV`, `FP8 KV` of attention; may be
        empty.

        The formats of other operators are joined by +.
        """
        formats = dict(self.formats)
        if "q" in formats and "kv" in formats:
            return attention_name(formats["kv"], formats["q"])
        if "a" not in formats or "b" not in formats:
            return "+".join(map(short_name, dict.fromkeys(formats.values())))
        return format_name(formats["b"], formats["a"], formats.get("kv", ""))

    @property
    def configuration_label(self) -> str:
        """What people call formats and kernel: `INT4 (W4A16) · tinygemm`; the kernel alone where it has no formats."""
        return f"{self.precision_label} · {self.kernel}" if self.precision_label else self.kernel

    @property
    def id(self) -> str:
        """The pytest id, `1x4096x4096-w4a16-INT4.BF16-tinygemm-cold`; other modes than eager are appended."""
        parts = [self.shape_label, self.width_label, self.format_label, self.kernel]
        parts += [] if self.cache == "none" else [self.cache]
        parts += [] if self.mode == "eager" else [self.mode]
        return "-".join(_UNSAFE.sub("_", part) for part in parts if part)

    def to_dict(self) -> dict[str, Any]:
        """Return the identity as plain values."""
        return {
            "op": self.op,
            "shape": dict(self.shape),
            "formats": dict(self.formats),
            "kernel": self.kernel,
            "mode": self.mode,
            "cache": self.cache,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Case:
        """Rebuild a case from `to_dict`, keeping the order of dimensions."""
        return cls(
            op=data["op"],
            shape=tuple((str(name), int(size)) for name, size in data["shape"].items()),
            formats=tuple((str(name), str(key)) for name, key in data["formats"].items()),
            kernel=data["kernel"],
            cache=data["cache"],
            mode=data["mode"],
        )


def short_hash(data: Any) -> str:
    """Return sixteen hex digits of the SHA-256 of `data` as canonical JSON (sorted keys, no spaces)."""
    return hashlib.sha256(json.dumps(data, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:16]


def history_key(case_key: str, hardware_key: str, method_version: str, environment_class: str) -> str:
    """Return the key of a time series: results with equal keys may be compared over time."""
    return short_hash([case_key, hardware_key, method_version, environment_class])


@dataclass(frozen=True, slots=True)
class PassName:
    """One pass of a whole model, as the case names it."""

    model_name: str
    phase: str
    batch_count: int
    new_count: int
    """New tokens of each sequence."""
    context_count: int
    """Tokens of each sequence after the pass."""

    @property
    def sizes_text(self) -> str:
        """`batch 1, 128 tokens`; new tokens are said where the phase does not (a step of several, a prompt on a
        cache).
        """
        usual = 1 if self.phase == "decode" else self.context_count
        new = "" if self.new_count == usual else f", {self.new_count} of them new"
        return f"batch {self.batch_count}, {self.context_count} token{'' if self.context_count == 1 else 's'}{new}"

    @property
    def title(self) -> str:
        """`seeded-llama-156m, decode, batch 1, 128 tokens`."""
        return f"{self.model_name}, {self.phase}, {self.sizes_text}"


def pass_name(op: str, shape: Sizes) -> PassName | None:
    """Return the model and pass that an operator and its sizes name; None for any other operator."""
    phase, _, model = op.partition(":")
    if phase not in PHASES or not model:
        return None
    sizes = dict(shape)
    if tuple(sizes) != ("B", "Sq", "Skv"):
        return None
    return PassName(model, phase, sizes["B"], sizes["Sq"], sizes["Skv"])


def is_model_case(case: Case) -> bool:
    """Return whether a case is a pass of a whole model."""
    return pass_name(case.op, case.shape) is not None


def op_title(case: Case) -> str:
    """Return the operator in words: `gemv`, `seeded-llama-156m decode`."""
    name = pass_name(case.op, case.shape)
    return case.op if name is None else f"{name.model_name} {name.phase}"


def case_title(op: str, shape: Sizes) -> str:
    """Return operator and sizes in words: `gemv 1x4096x4096`, `seeded-llama-156m, decode, batch 1, 128 tokens`."""
    name = pass_name(op, shape)
    if name is not None:
        return name.title
    return f"{op} {sizes_text(shape)}".rstrip()


_CACHE_WORDS = {"cold": "cold", "flushed": "flushed", "warm": "hot (warm)", "none": ""}


def regime_words(cache: str, mode: str) -> str:
    """Return `cold`, `hot (warm)`, `flushed, graph`, …; eager is not said, and `as it comes` when nothing was
    arranged.
    """
    words = [_CACHE_WORDS.get(cache, cache), "" if mode == "eager" else mode]
    return ", ".join(word for word in words if word) or "as it comes"


def regime_title(cache: str, mode: str) -> str:
    """Return what a title adds to its shape: nothing for the usual regime (cold or as it comes, eager), else the
    words.
    """
    return "" if mode == "eager" and cache in ("cold", "none") else regime_words(cache, mode)


def sizes_text(shape: Sizes) -> str:
    """Return sizes in words: `1x4096x4096`; of attention `1 of 8,192 tokens, 32/8 heads of 128` (query over key/value
    heads), `512 tokens, causal, 64 heads of 192/128` (values of another size).
    """
    sizes = dict(shape)
    if not {"B", "Hq", "Hkv", "Sq", "Skv", "D"} <= sizes.keys():
        return "x".join(str(size) for _, size in shape)
    new, cached, heads = sizes["Sq"], sizes["Skv"], sizes["Hq"]
    parts = [f"batch {sizes['B']}"] if sizes["B"] > 1 else []
    parts.append(f"{cached:,} tokens" if new == cached else f"{new:,} of {cached:,} tokens")
    parts += ["causal"] if sizes.get("causal") else []
    parts += [f"window {sizes['window']:,}"] if sizes.get("window") else []
    values = f"/{sizes['Dv']}" if sizes.get("Dv", sizes["D"]) != sizes["D"] else ""
    key_heads = "" if sizes["Hkv"] == heads else f"/{sizes['Hkv']}"
    return f"{', '.join(parts)}, {heads}{key_heads} heads of {sizes['D']}{values}"


def is_meant(case: Case, words: Iterable[str], test_id: str = "") -> bool:
    """Return whether all words stand in the case's id, operator, kernel, sizes or test, in any order; capitals do not
    matter.

    So a name that any table, diff or warning printed finds its case, also where it was cut short with a `…`.
    """
    text = f"{case.op} {case.id} {case.kernel} {case_title(case.op, case.shape)} {test_id}".lower()
    return all(word.lower().rstrip("…") in text for word in words)
