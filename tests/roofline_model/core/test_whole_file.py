"""What a killed writer left is removed by the next one; what a living one holds is not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from roofline_cli.screen.output_file import write_text
from roofline_model.core.whole_file import held_folder, write_whole

HOLDERS = {
    "folder": (
        "from pathlib import Path; from roofline_cli.screen.output_file import written_file\n"
        "with written_file(Path({place!r})) as part: part.write_text('half'); print('held', flush=True); input()"
    ),
    "file": (
        "import os; from pathlib import Path; from roofline_model.core import whole_file\n"
        "os.fsync = lambda descriptor: (print('held', flush=True), input())\n"
        "whole_file.write_whole(Path({place!r}), 'half')"
    ),
    "elsewhere": (
        "from pathlib import Path; from roofline_model.core.whole_file import held_folder\n"
        "with held_folder('roofline-calibrate-', Path({place!r}).parent): print('held', flush=True); input()"
    ),
}


@pytest.mark.parametrize("kind", HOLDERS)
def test_what_a_killed_writer_left_goes_with_the_next_and_a_living_ones_stays(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "report.html"

    def write() -> None:
        if kind == "elsewhere":
            with held_folder("roofline-calibrate-", tmp_path):
                pass
        else:
            (write_text if kind == "folder" else write_whole)(place, "whole")

    writer = subprocess.Popen(
        [sys.executable, "-c", HOLDERS[kind].format(place=str(place))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "held\n"
        (part,) = tmp_path.iterdir()
        long_ago_s = time.time() - 3600
        os.utime(part, (long_ago_s, long_ago_s))
        write()
        assert part.exists()
    finally:
        writer.send_signal(signal.SIGKILL)
        writer.communicate()
    os.utime(part, (long_ago_s, long_ago_s))
    other = tmp_path / ".roofline-held-12345678"  # of nobody, and new: its owner may not have its lock yet
    other.mkdir()
    write()
    assert not part.exists()
    assert other.exists()
    assert kind == "elsewhere" or place.read_text() == "whole"
