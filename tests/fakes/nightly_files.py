"""What the gates read, as far as they read it."""

from __future__ import annotations

import json


def written_run(measured=2, failed=(), run_id="ab" * 16, flags=((), ())):
    """What `--roofline-json` writes of a run, as far as the gates read it; `flags`: those of both processes."""
    cases = [("measured", f"t.py::m{number}", "") for number in range(measured)]
    cases += [("failed", f"t.py::{name}", "wrong result\nat row 3") for name in failed]
    unknown_code = {"code": "governor", "subject": "", "values": {"value": "powersave"}}
    contended = {"code": "contended", "subject": "", "values": {"others_ratio": 0.9475031869787723}}
    facts = {"facts": {"warnings": [unknown_code, contended]}}
    run = {"run_id": run_id, "status": "complete", "hardware_key": "gb10", "git_commit": "c" * 40, "git_is_dirty": True}
    records = [
        {
            "case": {"op": name},
            "status": status,
            "reason": reason,
            "test_id": name,
            "extra": {},
            "measurement": {"flags": list(own_flags)} if status == "measured" else None,
        }
        for status, name, reason in cases
        for own_flags in flags
    ]
    return json.dumps({"run": {**run, "environment": facts}, "records": records})
