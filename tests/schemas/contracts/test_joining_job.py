"""Whether a joiner stalls, as its status file shows."""

import json
from pathlib import Path

import pytest

from sangam.schemas.contracts.joining_job import Stalled, read_stalled

_NOW = 1_700_000_000.0


@pytest.mark.parametrize(
    ("seconds", "reason", "silent_s", "expected"),
    [
        (3.0, "", 1.0, Stalled(3.0, "")),
        (100.0, "7 rows wait", 1.0, Stalled(100.0, "7 rows wait")),
        (3.0, "", 61.0, Stalled(64.0, "the joiner has written no status for 61 s, see its log")),
    ],
)
def test_a_joiner_that_is_silent_stalls_too(
    tmp_path: Path, seconds: float, reason: str, silent_s: float, expected: Stalled
) -> None:
    file = tmp_path / "status.json"
    assert read_stalled(file, _NOW) == Stalled()
    file.write_text(json.dumps({"stalled_s": seconds, "stalled": reason, "written": _NOW - silent_s}))
    assert read_stalled(file, _NOW) == expected
