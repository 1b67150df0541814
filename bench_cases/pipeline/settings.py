"""Settings of a pipeline: everything that decides its result, comparable with the settings that a folder began with."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

from bench_cases.models.reference import find_model
from bench_cases.quantization.plans.layer_report import ROUND_TO_NEAREST
from bench_cases.quantization.plans.precisions import parse_precision
from roofline_model.core.definition_text import user_path
from roofline_model.core.errors import InvalidValueError
from roofline_model.core.finding import short_text
from roofline_model.models.decoder_step import Workload
from roofline_model.recommend.ranking import MAX_LOSS_PCT

DEFAULT_CONTEXT_COUNT = {"cpu": 128, "cuda": 512}
"""Tokens of a sequence unless the user says, as in the quick cases of `test_model_quant`."""
MAX_PROCESSES_COUNT = 99
MAX_CANDIDATES_COUNT = 20
_METHODS = (ROUND_TO_NEAREST, "HQQ", "AWQ")
_RELEASES = ("torch", "torchao", "transformers")


@dataclass(frozen=True, slots=True)
class PipelineLimits:
    """Limits that the chosen model must meet. None: no limit, but see `PipelineSettings.limits_of`."""

    memory_bytes: float | None = None
    """Weights and cache together, at the batch and context that are measured."""
    latency_s: float | None = None
    """Time of one pass: a decode step, or a prefill."""
    loss_pct: float | None = None
    """See `ModelFigures.loss`."""

    def __post_init__(self) -> None:
        for name, value in (("memory limit", self.memory_bytes), ("latency limit", self.latency_s)):
            if value is not None and not 0 < value < float("inf"):
                raise InvalidValueError(f"the {name} must be a positive number, got {value:g}")
        if self.loss_pct is not None and not 0 <= self.loss_pct < float("inf"):
            raise InvalidValueError(f"the limit of the loss must be a percentage from 0, got {self.loss_pct:g}")


@dataclass(frozen=True, slots=True)
class PipelineSettings:
    """One question. Two runs with equal settings may share what was measured."""

    model: str
    """A seeded name, a folder, a hub id."""
    hw: str
    phase: str
    batch_count: int
    context_count: int | None
    """None: the default of the device."""
    limits: PipelineLimits
    candidates_count: int
    """How many candidates are measured."""
    processes_count: int
    """Fresh processes per candidate."""
    formats: tuple[str, ...] | None
    """Precisions to weigh (canonical names); None: every one that the device runs."""
    method: str
    text: str
    """File whose text quality is measured on, empty for the one that ships with Python."""

    def __post_init__(self) -> None:
        for name, value, most in (
            ("candidates", self.candidates_count, MAX_CANDIDATES_COUNT),
            ("processes", self.processes_count, MAX_PROCESSES_COUNT),
        ):
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
                raise InvalidValueError(f"{name} must be a whole number from 1 to {most}, got {value!r}")
        Workload.of(self.phase, self.batch_count, self.context_count or 1)  # a wrong phase or size is said here
        if self.text and not Path(self.text).is_file():
            raise InvalidValueError(f"the text {self.text[:160]} is not a file: give a text file, or leave it out")

    @property
    def model_name(self) -> str:
        """Name of the model in results."""
        return find_model(self.model).name

    def limits_of(self, *, is_seeded: bool) -> PipelineLimits:
        """Return the limits that decide: where none of the loss was given, that of every recommendation; of untrained
        weights none, for they have no quality.
        """
        if self.limits.loss_pct is not None or is_seeded:
            return self.limits
        return replace(self.limits, loss_pct=MAX_LOSS_PCT)

    def described(self) -> dict[str, Any]:
        """Return plain JSON values that are equal exactly where results may be shared: file contents and releases
        included.
        """
        described = asdict(self)
        described["formats"] = None if self.formats is None else list(self.formats)
        return described | {
            "model_files": _model_fingerprint(self.model),
            "text_sha256": _file_hash(Path(self.text)) if self.text else "",
            "releases": {name: _release(name) for name in _RELEASES},
        }

    def make_context_count(self, device: str) -> int:
        """Return the tokens of a sequence on a device (cpu or cuda)."""
        return self.context_count or DEFAULT_CONTEXT_COUNT[device]


def make_settings(
    model: str | Path,
    *,
    hw: str,
    phase: str,
    batch: int,
    context: int | None,
    limits: PipelineLimits,
    candidates: int,
    processes: int,
    formats: list[str] | tuple[str, ...] | None,
    method: str,
    text: str | Path | None,
) -> PipelineSettings:
    """Return checked settings; raises a `RooflineError` naming what is wrong."""
    names = None if formats is None else _precision_names(formats)
    chosen_method = next(
        (method_name for method_name in _METHODS if method_name.lower() == method.strip().lower()), None
    )
    if chosen_method is None:
        raise InvalidValueError(f"unknown method {method[:40]!r}. Known: {', '.join(_METHODS)}")
    return PipelineSettings(
        model=str(model).strip(),
        hw=hw,
        phase=phase,
        batch_count=batch,
        context_count=context,
        limits=limits,
        candidates_count=candidates,
        processes_count=processes,
        formats=names,
        method=chosen_method,
        text="" if text is None else str(user_path(text)),
    )


def differences(wanted: Mapping[str, Any], stored: Mapping[str, Any]) -> list[str]:
    """Return the names of settings that differ, nested ones by their own name."""
    names = []
    for name in sorted({*wanted, *stored}):
        wanted_value, stored_value = wanted.get(name), stored.get(name)
        if isinstance(wanted_value, Mapping) and isinstance(stored_value, Mapping):
            names += differences(wanted_value, stored_value)
        elif wanted_value != stored_value:
            names.append(name)
    return names


def _precision_names(formats: list[str] | tuple[str, ...]) -> tuple[str, ...]:
    if not formats:
        raise InvalidValueError("formats is empty: name at least one precision, e.g. INT4, or leave it out")
    names = []
    for text in formats:
        precision = parse_precision(text)
        if precision.is_plain:
            raise InvalidValueError(
                f"{text} leaves the model as it is: it is the baseline in any case; name what to quantise to, e.g. INT4"
            )
        if precision.substitution is not None:
            raise InvalidValueError(f"{text}: {short_text(precision.substitution)}")
        names.append(precision.name)
    return tuple(dict.fromkeys(names))


def _model_fingerprint(text: str) -> list[list[Any]]:
    """Return names, sizes and change times of a folder's files, the contents of the small ones; empty for anything
    else.
    """
    path = user_path(text)
    if not path.is_dir():
        return []
    fingerprint: list[list[Any]] = []
    for file in sorted(path.iterdir()):
        if file.is_file():
            file_stat = file.stat()
            is_small = file_stat.st_size < 1 << 20
            fingerprint.append(
                [file.name, file_stat.st_size, _file_hash(file) if is_small else str(file_stat.st_mtime_ns)]
            )
    return fingerprint


def _file_hash(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InvalidValueError(f"{path} cannot be read: {error.strerror or error}") from None


def _release(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def settings_hash(described: Mapping[str, Any]) -> str:
    """Return twelve digits that stand for the settings, in labels and in the state file."""
    text = json.dumps(described, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]
