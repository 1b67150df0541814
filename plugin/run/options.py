"""Options of a run: pytest options → one frozen value. Command line beats the ini file, which beats the default."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from results.records.limits import CONTROLS
from results.store.target import parse_target
from roofline_model.core.definition_text import shortened, user_path
from roofline_model.core.errors import InvalidValueError
from roofline_model.operators.case import MODES

if TYPE_CHECKING:
    import pytest

CACHE_CHOICES = ("cold", "warm", "flushed", "both")
ISOLATE_CHOICES = ("auto", "case", "none")
ATTRIBUTION_CHOICES = ("none", "cupti")
PROFILER_CHOICES = ("ncu",)
DEVICE_CHOICES = ("cpu", "cuda")
LEAST_TIMEOUT_S = 0.1
"""A watchdog that barks before a kernel could be loaded would fail every case."""
MAX_LABEL_CHARS = 200
_LISTS = "docs/reference/diff.md#quarantine"
"""Where the lists of a comparison are explained."""
MAX_SHAPES_CHARS = 1_000_000
"""Of a list MxNxK,…; a longer one belongs into a file."""


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """Our options after parsing and checking; see `pytest --help`, group roofline."""

    hw: str = "auto"
    device: str | None = None
    """cpu, cuda, or None: cuda when an NVIDIA device is present."""
    db: str | None = None
    """Path or URL; None: $ROOFLINE_DB, else .roofline/results.db in the folder pytest was called from."""
    run_label: str = ""
    predict_only: bool = False
    formats: tuple[str, ...] | None = None
    """Weight format keys to keep, or None for all."""
    model_formats: tuple[str, ...] | None = None
    """The same as they were given, for the model_quant cases: a weight's key, or `WEIGHT.ACTIVATION`."""
    shapes: str = "quick"
    model: str | None = None
    """Model of the model_quant cases; None: the workloads' own default."""
    batches: tuple[int, ...] | None = None
    contexts: tuple[int, ...] | None = None
    """Sequences and tokens per sequence of the model_quant cases; None: by `shapes`."""
    kv_formats: tuple[str, ...] = ()
    plan_paths: tuple[Path, ...] = ()
    method: str | None = None
    compile: bool = False
    text_path: Path | None = None
    cache: str = "cold"
    modes: tuple[str, ...] = ("eager",)
    """Modes of `roofline_model.operators.case.MODES`, each a case of its own."""
    target_ci_ratio: float = 0.01
    max_seconds: float = 0.7
    process_count: int | None = None
    """Fresh processes per case; None: not replicated."""
    isolate: str = "auto"
    timeout_s: float = 60.0
    timer: str = "auto"
    attribution: str = "none"
    canary: bool = True
    profile_file: Path | None = None
    """Ceilings of this machine from a file, instead of its own measured ones."""
    profiler: str | None = None
    """ncu: print profiler commands instead of measuring."""
    power: bool | None = None
    """True: add a window long enough for power; None: sample the sensors, report no power; False: read no sensor."""
    json_path: Path | None = None
    baseline: str | None = None
    """What this run is compared with when it ends."""
    fail_on: tuple[str, ...] = ()
    """Conditions of that comparison that fail the session, as `results.diff.gate` reads them."""
    quarantine_path: Path | None = None
    annotations_path: Path | None = None
    """Lists of that comparison: cases that fail nothing, and expected changes."""
    require_measured: int | None = None
    force_measure: bool = False

    @property
    def is_model_given(self) -> bool:
        """Whether an option names a model or says how models are measured."""
        model_options = (self.model, self.batches, self.contexts, self.kv_formats, self.plan_paths, self.method)
        return any(value for value in model_options)

    @classmethod
    def from_pytest_config(cls, config: pytest.Config) -> BenchOptions:
        """Read the options of one pytest session; raises a `RooflineError` naming the option that is wrong."""
        parsed = config.option
        invocation = Path(str(config.invocation_params.dir))
        db = parsed.roofline_bench_db if parsed.roofline_bench_db is not None else os.environ.get("ROOFLINE_DB") or None
        return cls(
            hw=_text("--roofline-hw", parsed.roofline_bench_hw, "auto"),
            device=_choice("--roofline-device", parsed.roofline_bench_device, DEVICE_CHOICES),
            db=_located(db, invocation) if db is not None else str(invocation / ".roofline" / "results.db"),
            run_label=_label(parsed.roofline_bench_run),
            predict_only=bool(parsed.roofline_bench_predict_only),
            formats=_format_keys("--roofline-formats", parsed.roofline_bench_formats),
            model_formats=_format_pairs("--roofline-formats", parsed.roofline_bench_formats),
            shapes=_text("--roofline-shapes", parsed.roofline_bench_shapes, "quick", MAX_SHAPES_CHARS),
            model=_name("--roofline-model", parsed.roofline_bench_model),
            batches=_counts("--roofline-batch", parsed.roofline_bench_batch, "sequences"),
            contexts=_counts("--roofline-context", parsed.roofline_bench_context, "tokens"),
            kv_formats=_format_pairs("--roofline-kv", parsed.roofline_bench_kv) or (),
            plan_paths=_inputs("--roofline-plan", parsed.roofline_bench_plan, invocation),
            method=_name("--roofline-method", parsed.roofline_bench_method),
            compile=bool(parsed.roofline_bench_compile),
            text_path=_input("--roofline-text", parsed.roofline_bench_text, invocation, fix="give a UTF-8 text file"),
            cache=_choice("--roofline-cache", parsed.roofline_bench_cache, CACHE_CHOICES) or "cold",
            modes=_modes(parsed.roofline_bench_mode),
            target_ci_ratio=_positive("--roofline-target-ci", parsed.roofline_bench_target_ci, 1.0, "percent", 100)
            / 100,
            max_seconds=_positive("--roofline-max-seconds", parsed.roofline_bench_max_seconds, 0.7, "seconds", 86_400),
            process_count=_count("--roofline-processes", parsed.roofline_bench_processes, "processes", 1000),
            isolate=_choice("--roofline-isolate", parsed.roofline_bench_isolate, ISOLATE_CHOICES) or "auto",
            timeout_s=_positive(
                "--roofline-timeout", parsed.roofline_bench_timeout, 60.0, "seconds", 86_400, LEAST_TIMEOUT_S
            ),
            timer=_text("--roofline-timer", parsed.roofline_bench_timer, "auto"),
            attribution=_choice("--roofline-attribution", parsed.roofline_bench_attribution, ATTRIBUTION_CHOICES)
            or "none",
            canary=not parsed.roofline_bench_no_canary,
            profile_file=_input("--roofline-profile-file", parsed.roofline_bench_profile_file, invocation),
            profiler=_choice("--roofline-profile", parsed.roofline_bench_profile, PROFILER_CHOICES),
            power=parsed.roofline_bench_power,
            json_path=_output("--roofline-json", parsed.roofline_bench_json, invocation),
            baseline=_name("--roofline-baseline", parsed.roofline_bench_baseline),
            fail_on=_fail_on(parsed.roofline_bench_fail_on, parsed.roofline_bench_baseline),
            quarantine_path=_of_baseline("--roofline-quarantine", parsed.roofline_bench_quarantine, parsed, invocation),
            annotations_path=_of_baseline(
                "--roofline-annotations", parsed.roofline_bench_annotations, parsed, invocation
            ),
            require_measured=_count("--roofline-require-measured", parsed.roofline_bench_require_measured, "cases"),
            force_measure=bool(parsed.roofline_bench_force_measure),
        )


def _located(db: str, invocation: Path) -> str:
    """Make a plain path independent of later changes of folder; URLs stay as they are."""
    if not db.strip():
        raise InvalidValueError("--roofline-db is empty; give a path such as .roofline/results.db or a database URL")
    if db.startswith(":"):
        raise InvalidValueError(
            f"--roofline-db {_shown(db)}: a run must outlive its process; give a path or a database URL"
        )
    path = _path("--roofline-db", db)
    parse_target(db)  # what may hold a password is refused before a folder is put in front of it
    return db if "://" in db else str(invocation / path)


def _label(value: str | None) -> str:
    """Return the label without the spaces around it; refuses one that no list of runs could show."""
    if value is None:
        return ""
    label = value.strip()
    if not label or len(label) > MAX_LABEL_CHARS or CONTROLS.search(label):
        option_texts = (
            "is blank"
            if not label
            else f"is {len(label):,} characters long"
            if len(label) > MAX_LABEL_CHARS
            else "has several lines"
            if len(label.splitlines()) > 1
            else "holds a control character"
        )
        raise InvalidValueError(
            f"--roofline-run {option_texts}; give one line of 1 to {MAX_LABEL_CHARS} characters, or leave it out"
        )
    return label


def _path(option: str, value: str) -> Path:
    try:
        return user_path(value)
    except InvalidValueError as error:
        raise InvalidValueError(f"{option} {error}") from None


def _shown(value: str) -> str:
    return repr(shortened(value))


def _text(option: str, value: str | None, default: str, most: int = 4096) -> str:
    if value is None:
        return default
    if not value.strip():
        raise InvalidValueError(f"{option} is empty; leave it out for {default}")
    if len(value) > most:
        raise InvalidValueError(f"{option} is {len(value):,} characters long, no name or path is: {_shown(value)}")
    return value.strip()


def _name(option: str, value: str | None) -> str | None:
    return None if value is None else _text(option, value, "the default")


def _fail_on(value: str | None, baseline: str | None) -> tuple[str, ...]:
    """Return the conditions as texts; refuses what means nothing, and conditions without anything to compare with."""
    if value is None:
        return ()
    from results.diff.gate import parse_fail_on

    if baseline is None:
        raise InvalidValueError("--roofline-fail-on needs --roofline-baseline: what should this run be compared with?")
    try:
        return tuple(rule.text for rule in parse_fail_on([value]))
    except InvalidValueError as error:
        raise InvalidValueError(str(error).replace("--fail-on", "--roofline-fail-on")) from None


def _of_baseline(option: str, value: str | None, parsed: Any, invocation: Path) -> Path | None:
    """Return the path of a list of the comparison; refuses one without a comparison."""
    if value is not None and parsed.roofline_bench_baseline is None:
        raise InvalidValueError(f"{option} needs --roofline-baseline: what should this run be compared with?")
    return _input(option, value, invocation, f"see {_LISTS}")


def _choice(option: str, value: str | None, choices: tuple[str, ...]) -> str | None:
    if value is not None and value not in choices:
        raise InvalidValueError(f"{option} must be {' or '.join(choices)}, got {_shown(value)}")
    return value


def _positive(option: str, value: str | None, default: float, unit: str, most: float, least: float = 0.0) -> float:
    if value is None:
        return default
    try:
        number = float(value) if value.isascii() else math.nan  # Python reads digits of other scripts, people rarely do
    except ValueError:
        raise InvalidValueError(f"{option} must be a number of {unit}, got {_shown(value)}") from None
    if not math.isfinite(number) or not 0 < number <= most or number < least:
        lowest = f"at least {least:g}" if least else "above 0"
        raise InvalidValueError(f"{option} must be {lowest} and at most {most:g} {unit}, got {_shown(value)}")
    return number


def _count(option: str, value: str | None, what: str, most: int = 10**9) -> int | None:
    if value is None:
        return None
    if not (value.isascii() and value.isdecimal() and len(value) <= len(str(most))) or not 1 <= int(value) <= most:
        raise InvalidValueError(
            f"{option} takes a whole number of {what} from 1 to {most}, got {_shown(value)}; write {option}=N"
        )
    return int(value)


def _counts(option: str, value: str | None, what: str) -> tuple[int, ...] | None:
    """Return the whole numbers of a list `1,8`, each once."""
    if value is None:
        return None
    counts = [_count(option, part.strip(), what) for part in value.split(",") if part.strip()]
    if not counts:
        raise InvalidValueError(f"{option} is empty; give whole numbers of {what} such as 1,8 or leave it out")
    return tuple(dict.fromkeys(number for number in counts if number is not None))


def _modes(value: str | None) -> tuple[str, ...]:
    if value is None:
        return ("eager",)
    names = tuple(dict.fromkeys(part.strip().lower() for part in value.split(",") if part.strip()))
    if names == ("all",):
        return MODES
    wrong = [name for name in names if name not in MODES]
    if wrong or not names:
        raise InvalidValueError(f"--roofline-mode must be some of {', '.join(MODES)}, or all; got {_shown(value)}")
    return names


def _input(
    option: str, value: str | None, invocation: Path, fix: str = "`roofline calibrate -o FILE` writes one"
) -> Path | None:
    if value is None:
        return None
    path = invocation / _path(option, value)
    if not value.strip() or not os.path.isfile(path):
        raise InvalidValueError(f"{option} {_shown(value)} is not a file; {fix}")
    return path


def _inputs(option: str, value: str | None, invocation: Path) -> tuple[Path, ...]:
    """Return the files of a list `a.json,b.json`."""
    if value is None:
        return ()
    names = [part for part in value.split(",") if part.strip()] or [""]
    paths = [_input(option, name, invocation, fix='give JSON files such as {"ffn": "INT4"}') for name in names]
    return tuple(path for path in paths if path is not None)


def _output(option: str, value: str | None, invocation: Path) -> Path | None:
    """Return the path of a file to be written; refuses what cannot become one, and a file that is no earlier export."""
    if value is None:
        return None
    from results.exchange.exported.export import EXPORT_FORMAT

    path = invocation / _path(option, value)
    if not value.strip() or (os.path.exists(path) and not os.path.isfile(path)):
        raise InvalidValueError(
            f"{option} {_shown(value)} is not a file that can be written; give a path such as run.json"
        )
    try:
        with path.open("rb") as stream:
            start = stream.read(200)
        if start.startswith(b"SQLite format 3"):
            raise InvalidValueError(
                f"{option} {_shown(value)} is a results database; give another path, such as run.json"
            )
        if start and EXPORT_FORMAT.encode() not in start:
            raise InvalidValueError(
                f"{option} {_shown(value)} is there already and no export of a run: it is not overwritten; remove it, "
                "or "
                "give another path, such as run.json"
            )
    except FileNotFoundError:
        pass
    except InvalidValueError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a NUL character
        reason = getattr(error, "strerror", None) or error
        raise InvalidValueError(f"{option} {_shown(value)} cannot be written ({reason})") from None
    return path


def _format_keys(option: str, value: str | None) -> tuple[str, ...] | None:
    """Return the keys of a list of formats, each once; of `WEIGHT.ACTIVATION` the weight's."""
    pairs = _pairs(option, value)
    return None if pairs is None else tuple(dict.fromkeys(weight for weight, _ in pairs))


def _format_pairs(option: str, value: str | None) -> tuple[str, ...] | None:
    """Return the formats of a list in canonical spelling, each once: `INT4`, `INT4.INT8`."""
    pairs = _pairs(option, value)
    return None if pairs is None else tuple(dict.fromkeys(".".join(filter(None, pair)) for pair in pairs))


def _pairs(option: str, value: str | None) -> list[tuple[str, str]] | None:
    """Return (weight, activation) of a list of formats; the second is empty where one alone is named."""
    if value is None:
        return None
    from roofline_model.formats.catalog import split_precision

    names = [name for name in value.split(",") if name.strip()]
    if not names:
        raise InvalidValueError(f"{option} is empty; give keys such as BF16,INT4 or leave it out")
    pairs = [split_precision(name.strip()) for name in names]
    return [(weight.key, "" if activation is None else activation.key) for weight, activation in pairs]
