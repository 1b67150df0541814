"""The chip of the machine that serves, which `hardware_key=auto` means. How to find it is passed in: reports never
look.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

from reports.api.http.problem import Location, wrong_field
from roofline_model.chips.hardware import Device, list_hardware
from roofline_model.core.errors import RooflineError

AUTO = "auto"
_OWN_PREFIX = f"{AUTO}:"
_OWN: dict[str, Device] = {}
"""Chips of no catalog by their handle: what a machine measured about itself. A handle tells the numbers, so it never
means others.
"""


class ThisMachine:
    """Finds the chip once, when it is first asked for. Safe between threads."""

    def __init__(self, find: Callable[[], Device] | None) -> None:
        """`find` returns the chip and raises a `RooflineError` where there is none; None: nobody can tell."""
        self._find = find
        self._lock = Lock()
        self._handle = ""
        self._why = (
            "this server was not told how to find the chip of its machine; name a chip: GET /api/hardware lists them"
        )

    def handle(self, field: str = "hardware_key", location: Location = "query") -> str:
        """Return what `find_chip` takes for it; ends the request with a problem that says why there is none."""
        handle = self.known_handle()
        if handle:
            return handle
        status = 404 if location == "path" else 422
        raise wrong_field(field, self.why_not, location, status=status, slug="unsupported")

    def known_handle(self) -> str:
        """Return the same; empty where there is none (`why_not` says why)."""
        with self._lock:
            if not self._handle and self._find is not None:
                self._look(self._find)
            return self._handle

    @property
    def why_not(self) -> str:
        """Why there is none, in words; empty where there is one."""
        return "" if self._handle else self._why

    def _look(self, find: Callable[[], Device]) -> None:
        try:
            chip = find()
        except RooflineError as error:
            # It is looked for once: a calibration that comes later is known to the next server.
            self._find = None
            self._why = str(error).replace("--hw auto", f"hardware_key={AUTO}").replace("--hw ", "hardware_key=")
            return
        self._handle = handle_of(chip)


def handle_of(chip: Device) -> str:
    """Return the name that `own_chip` or the catalog knows a chip by: its key for a chip of the catalog as it stands
    there.
    """
    if any(device is chip for device in list_hardware()):
        return chip.key
    handle = f"{_OWN_PREFIX}{chip.content_hash}"
    _OWN[handle] = chip
    return handle


def own_chip(handle: str) -> Device | None:
    """Return a chip that a machine measured about itself; None for any other name."""
    return _OWN.get(handle) if handle.startswith(_OWN_PREFIX) else None
