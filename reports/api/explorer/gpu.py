"""What the sensors of the server's GPU say, as blocks."""

from __future__ import annotations

from collections.abc import Iterator

from reports.api.catalog.catalog_models import NvmlStatus
from reports.present.blocks import Block, Definitions, Paragraph
from reports.present.display_text import prefixed, shown
from roofline_model.core.units import format_memory, format_percent, sentence


def gpu_blocks(status: NvmlStatus) -> Iterator[Block]:
    """Yield the readings and what holds the clock back; without a GPU why there is none."""
    reading = status.reading
    if reading is None:
        yield Paragraph("No GPU here. Predictions need none; measuring on one does.")
        if status.reason:
            yield Paragraph(f"The sensors say: {sentence(shown(status.reason))}", "quiet")
        return
    facts = (
        ("Power", prefixed(reading.power_w, "W")),
        ("SM clock", prefixed(reading.sm_clock_hz, "Hz", 4)),
        ("Memory clock", prefixed(reading.memory_clock_hz, "Hz", 4)),
        ("Temperature", "–" if reading.temperature_c is None else f"{reading.temperature_c:g} °C"),
        ("Load of the last sensor period", format_percent(reading.utilization_ratio, 0)),
        ("Memory used", format_memory(reading.memory_used_bytes)),
    )
    yield Definitions(facts, look="figures")
    reasons = reading.throttle_reasons
    if reasons is None:
        yield Paragraph("This GPU does not say why its clock is where it is.", "quiet")
    else:
        held = f"The clock is held back: {', '.join(reasons)}." if reasons else "Nothing holds the clock back."
        yield Paragraph(held, "quiet")
