"""The kernel's files about this machine, read as text. What is not there is None."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/")


def read_file(path: Path) -> str | None:
    """Return the text of a file without what stands around it; None for an empty or unreadable one."""
    try:
        return path.read_text(errors="replace").strip("\0\t\n ") or None
    except (OSError, ValueError):
        return None


def cpuinfo(root: Path = ROOT) -> Iterator[tuple[str, str]]:
    """Yield (name, value) of each line of /proc/cpuinfo, one CPU after the other."""
    for line in (read_file(root / "proc/cpuinfo") or "").splitlines():
        name, _, value = line.partition(":")
        yield name.strip(), value.strip()
