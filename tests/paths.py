"""Where things lie in this checkout."""

from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
SPECS = REPOSITORY / "pipelines" / "specs"
SHARED_DATA = REPOSITORY.parent / "shared" / "data"
SHARED_CASES = REPOSITORY.parent / "shared" / "cases"
