"""Golden files: texts derived from a spec, kept under tests/golden so that a change of them is seen in review.

`SANGAM_UPDATE_GOLDEN=1 pytest -k golden` rewrites them.
"""

import difflib
import os
from pathlib import Path

FOLDER = Path(__file__).parent / "golden"
UPDATE = "SANGAM_UPDATE_GOLDEN"


def check_golden(name: str, text: str) -> None:
    """Compares a text with the golden file of that name, or rewrites the file when SANGAM_UPDATE_GOLDEN is 1.

    Args:
        name: of the file, for example "short_video.schema.pbtxt".
        text: that should be in it.
    """
    path = FOLDER / name
    if os.environ.get(UPDATE) == "1":
        path.write_text(text, encoding="utf-8")
        return
    known = path.read_text(encoding="utf-8") if path.exists() else ""
    difference = "\n".join(
        difflib.unified_diff(known.splitlines(), text.splitlines(), str(path), "now", lineterm="", n=1)
    )
    assert known == text, f"{name} has changed; if it should have, run the test with {UPDATE}=1\n{difference}"
