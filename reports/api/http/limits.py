"""What one request, and all of them together, may ask of the server."""

from __future__ import annotations

from dataclasses import dataclass, fields

from roofline_model.core.errors import InvalidValueError


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a server. Everything beyond is refused with a problem that names the limit."""

    max_body_bytes: int = 1_048_576
    max_sweep_points_count: int = 100_000
    max_page_count: int = 1_000
    max_streams_count: int = 16
    """Live streams of the sensors at a time."""
    min_stream_interval_s: float = 0.2
    """Time between two readings of a stream; the sensors are asked no more often, however many streams there are."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e12:
                raise InvalidValueError(f"{field.name} must be a positive number, got {str(value)[:40]!r}")
