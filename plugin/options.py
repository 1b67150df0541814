"""What the user asked for: pytest options → one frozen value. Command line beats the ini file, which beats the default."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from roofline_model.errors import InvalidValueError

if TYPE_CHECKING:
    import pytest

CACHE_CHOICES = ("cold", "warm", "both")
DEVICE_CHOICES = ("cpu", "cuda")


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
    """Format keys to keep, or None for all."""
    shapes: str = "quick"
    cache: str = "cold"
    target_ci_ratio: float = 0.01
    max_seconds: float = 0.7
    timer: str = "auto"
    power: bool | None = None
    """True: add a window long enough for power; None: sample the sensors, report no power; False: read no sensor."""
    json_path: Path | None = None
    require_measured: int | None = None
    force_measure: bool = False

    @classmethod
    def from_pytest_config(cls, config: pytest.Config) -> BenchOptions:
        """Read the options of one pytest session; raises a `RooflineError` naming the option that is wrong."""
        given = config.option
        invocation = Path(str(config.invocation_params.dir))
        db = given.roofline_db if given.roofline_db is not None else os.environ.get("ROOFLINE_DB") or None
        return cls(
            hw=_text("--roofline-hw", given.roofline_hw, "auto"),
            device=_choice("--roofline-device", given.roofline_device, DEVICE_CHOICES),
            db=_located(db, invocation) if db is not None else str(invocation / ".roofline" / "results.db"),
            run_label=given.roofline_run or "",
            predict_only=bool(given.roofline_predict_only),
            formats=_format_keys(given.roofline_formats),
            shapes=_text("--roofline-shapes", given.roofline_shapes, "quick"),
            cache=_choice("--roofline-cache", given.roofline_cache, CACHE_CHOICES) or "cold",
            target_ci_ratio=_positive("--roofline-target-ci", given.roofline_target_ci, 1.0, "percent", 100) / 100,
            max_seconds=_positive("--roofline-max-seconds", given.roofline_max_seconds, 0.7, "seconds", 86_400),
            timer=_text("--roofline-timer", given.roofline_timer, "auto"),
            power=given.roofline_power,
            json_path=_output("--roofline-json", given.roofline_json, invocation),
            require_measured=_count("--roofline-require-measured", given.roofline_require_measured),
            force_measure=bool(given.roofline_force_measure),
        )


def _located(db: str, invocation: Path) -> str:
    """Make a plain path independent of later changes of folder; URLs stay as they are."""
    if not db.strip():
        raise InvalidValueError("--roofline-db is empty; give a path such as .roofline/results.db or a database URL")
    if db.startswith(":"):
        raise InvalidValueError(f"--roofline-db {db}: a run must outlive its process; give a path or a database URL")
    return db if "://" in db else str(invocation / Path(db).expanduser())


def _text(option: str, value: str | None, default: str) -> str:
    if value is None:
        return default
    if not value.strip():
        raise InvalidValueError(f"{option} is empty; leave it out for {default}")
    return value.strip()


def _choice(option: str, value: str | None, choices: tuple[str, ...]) -> str | None:
    if value is not None and value not in choices:
        raise InvalidValueError(f"{option} must be {' or '.join(choices)}, got {value!r}")
    return value


def _positive(option: str, value: str | None, default: float, unit: str, most: float) -> float:
    if value is None:
        return default
    try:
        number = float(value)
    except ValueError:
        raise InvalidValueError(f"{option} must be a number of {unit}, got {value!r}") from None
    if not math.isfinite(number) or not 0 < number <= most:
        raise InvalidValueError(f"{option} must be above 0 and at most {most:g} {unit}, got {value!r}")
    return number


def _count(option: str, value: str | None) -> int | None:
    if value is None:
        return None
    if not (value.isascii() and value.isdecimal() and len(value) < 10) or int(value) < 1:
        raise InvalidValueError(f"{option} takes a whole number of cases from 1, got {value!r}; write {option}=N")
    return int(value)


def _output(option: str, value: str | None, invocation: Path) -> Path | None:
    """Return the path of a file to be written; refuses what cannot become one, or is a results database."""
    if value is None:
        return None
    path = invocation / value
    if not value.strip() or path.is_dir() or (path.exists() and not path.is_file()):
        raise InvalidValueError(f"{option} {value!r} is no file that can be written; give a path such as run.json")
    try:
        with path.open("rb") as stream:
            if stream.read(15) == b"SQLite format 3":
                raise InvalidValueError(
                    f"{option} {value!r} is a results database; give another path, such as run.json"
                )
    except FileNotFoundError:
        pass
    except OSError as error:
        raise InvalidValueError(f"{option} {value!r} cannot be written ({error.strerror})") from None
    return path


def _format_keys(value: str | None) -> tuple[str, ...] | None:
    if value is None:
        return None
    from roofline_model.formats import get_format

    names = [name for name in value.split(",") if name.strip()]
    if not names:
        raise InvalidValueError("--roofline-formats is empty; give keys such as BF16,INT4 or leave it out")
    return tuple(dict.fromkeys(get_format(name).key for name in names))
