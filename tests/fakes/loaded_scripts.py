"""The scripts as modules: they are programs, not a package."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


def load_script(name: str) -> ModuleType:
    """Return the script of a name as a module, the same module every time; what it imports beside it is found as when
    it is run.
    """
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, next(SCRIPTS.glob(f"*/{name}.py")))
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]
