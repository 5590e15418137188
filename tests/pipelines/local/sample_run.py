"""`python -m tests.pipelines.local.sample_run DATA ROOT`: runs the tiny pipeline as `sangam run` runs a spec's."""

import os
import sys
from pathlib import Path
from typing import Any

from sangam.pipelines.local.request import RunRequest, check_request
from sangam.pipelines.local.terminal import run_and_report
from sangam.pipelines.local.watched import STOP_S
from sangam.schemas.loading import load_spec
from tests.paths import SPECS

SPEC = SPECS / "short_video.yaml"


def _build(request: RunRequest, commit: str | None) -> Any:
    # Imported once standard output is a file, as with a real pipeline.
    from tests.pipelines.local.sample_pipeline import build_tiny

    return build_tiny(request, commit)


if __name__ == "__main__":
    data, root = sys.argv[1:]
    request = check_request(load_spec(SPEC), "2024-03-07", Path(data), Path(root))
    sys.exit(run_and_report(request, _build, stop_s=float(os.environ.get("TINY_STOP_S", STOP_S))))
