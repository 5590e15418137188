"""A pipeline of two quick steps; the second does what the environment's TINY_SECOND says."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tfx.dsl.component.experimental.annotations import InputArtifact, OutputArtifact, Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.orchestration import metadata
from tfx.orchestration.pipeline import Pipeline
from tfx.types.standard_artifacts import ModelRun

from sangam.pipelines.local.request import RunRequest
from sangam.schemas.contracts.training_job import PROGRESS_FILE
from sangam.schemas.errors import UserError


@component
def first(number: Parameter[int], written: OutputArtifact[ModelRun]) -> None:
    """Writes a number."""
    (Path(written.uri) / "number.txt").write_text(str(number))


@component
def second(read: InputArtifact[ModelRun], written: OutputArtifact[ModelRun]) -> None:
    """Writes the number plus one; or hangs with a child process, or fails, half of its output written."""
    number = int((Path(read.uri) / "number.txt").read_text())
    (Path(written.uri) / "half.txt").write_text("half")
    print("second speaks", flush=True)
    match os.environ.get("TINY_SECOND"):
        case "hang":
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
            hangs = Path(os.environ["TINY_HANGS"])
            hangs.with_suffix(".new").write_text(str(child.pid))
            hangs.with_suffix(".new").rename(hangs)
            time.sleep(600)
        case "train":
            _train(Path(os.environ["SANGAM_LOG_DIR"]) / PROGRESS_FILE, Path(os.environ["TINY_GO"]))
        case "fill":
            with (Path(written.uri) / "large.bin").open("wb") as file:
                for _ in range(1000):
                    file.write(bytes(2**16))
        case "fail":
            raise ValueError("second fails as told")
        case "mistake":
            raise UserError("data: is wrong (got this); write that")
    (Path(written.uri) / "sum.txt").write_text(str(number + 1))


def _train(progress: Path, go: Path) -> None:
    """Writes what a training tells of itself until a file is there, at most for two minutes."""
    for step in range(1, 600):
        losses = {"like": 0.4 + 0.3 * 0.99**step, "share": 0.5 + 0.2 * 0.98**step}
        done = {"step": step, "examples": 100 * step, "expected": 60_000, "loss": 1.0, "examples_per_s": 500.0}
        with progress.open("a") as file:
            file.write(json.dumps({**done, "losses": losses}) + "\n")
        if go.exists():
            return
        time.sleep(0.2)


def build_tiny(request: RunRequest, commit: str | None) -> Any:
    """Returns the pipeline, with its storage where a spec's would be."""
    del commit
    start = first(number=int(os.environ.get("TINY_NUMBER", "1"))).with_id("first")
    end = second(read=start.outputs["written"]).with_id("second")
    config = metadata.sqlite_metadata_connection_config(str(request.layout.metadata))
    return Pipeline(
        pipeline_name="tiny",
        pipeline_root=str(request.layout.artifacts),
        components=[start, end],
        enable_cache=True,
        metadata_connection_config=config,
    )
