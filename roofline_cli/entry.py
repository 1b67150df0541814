"""The console script `roofline`: what Ctrl-C does is settled before anything that takes time is imported."""

from __future__ import annotations

from roofline_cli.shared import interruption


def run() -> None:
    """Run the command line."""
    interruption.watch()
    from roofline_cli import main

    main.run()
