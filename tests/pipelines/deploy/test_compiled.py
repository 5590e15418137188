"""The command as it is given, with the pipeline as it is compiled."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.paths import SPECS
from tests.pipelines.deploy.sample_server import IMAGE, World


@pytest.mark.long
@pytest.mark.slow
def test_a_compiled_pipeline_is_deployed_and_nothing_but_lines_is_printed(world: World, repository: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "sangam.pipelines.cli",
        "deploy",
        str(SPECS / "short_video.yaml"),
        "--image",
        IMAGE,
    ]
    done = subprocess.run(
        [*command, "--host", world.server.host], cwd=repository, capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stderr) == (0, "")
    words = [line.split()[0] for line in done.stdout.splitlines()]
    assert words == ["compiling", "pipeline", "version", "schedule", "next"]
    (version,) = world.store.versions.values()
    assert version["pipeline_spec"]["pipelineInfo"] == {"name": "short-video"}
    assert version["_parameters"] == {"data_root", "date", "pipeline_root"}
