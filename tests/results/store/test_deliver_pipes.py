"""What stands among the files that wait and is none: it is named, and nobody waits for it."""

from __future__ import annotations

import os
from pathlib import Path

from results.store.delivery.outbox import deliver_files, deliver_waiting
from results.store.store import open_store
from roofline_model.core.finding import reason_text


def test_a_pipe_among_the_files_is_not_waited_for(tmp_path: Path) -> None:
    pipe, folder = tmp_path / "a.spool.jsonl", tmp_path / "b.spool.jsonl"
    os.mkfifo(pipe)
    folder.mkdir()
    with open_store(tmp_path / "r.db") as store:
        by_name = deliver_files(store, [pipe, folder])
        assert [delivery.outcome for delivery in by_name] == ["failed", "failed"]
        assert all("is not a regular file" in reason_text(delivery.reason) for delivery in by_name)
        assert "failed" in {delivery.outcome for delivery in deliver_waiting(store, tmp_path)}
    assert pipe.exists()
