"""Compiling in a process of its own gives what compiling here gives, and leaves TFX there."""

import dataclasses
import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from sangam.pipelines.kubeflow.apart import compile_apart
from sangam.pipelines.kubeflow.compile import compile_pipeline
from sangam.schemas.errors import UserError
from sangam.schemas.loading import load_spec
from sangam.schemas.spec import Spec
from tests.errors import place_and_value
from tests.paths import REPOSITORY, SPECS
from tests.pipelines.kubeflow.compiled_files import TARGET

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("path", sorted(SPECS.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_spec_survives_the_way_to_the_other_process(path: Path) -> None:
    spec = load_spec(path)
    there = Spec.model_validate_json(spec.model_dump_json(exclude_unset=True))
    assert there == spec
    assert [there.cluster.step(name) for name in ("trainer", "pusher")] == [
        spec.cluster.step(name) for name in ("trainer", "pusher")
    ]


@pytest.mark.long
def test_a_mistake_is_told_as_if_it_were_compiled_here() -> None:
    target = dataclasses.replace(TARGET, pipeline_root="/elsewhere")
    with pytest.raises(UserError, match=place_and_value("--pipeline-root", "(got /elsewhere; volumes: ")):
        compile_apart(load_spec(SPECS / "short_video.yaml"), target)


@pytest.mark.long
def test_the_text_is_the_same_and_tfx_stays_in_the_other_process() -> None:
    """A backfill held 0.97 GB while it waited."""
    code = (
        "import hashlib, sys\n"
        "import sangam.pipelines.backfill.kubeflow, sangam.pipelines.commands.backfill\n"
        "import sangam.pipelines.deploy.release_options\n"
        "from sangam.pipelines.kubeflow.apart import compile_apart\n"
        "from sangam.schemas.loading import load_spec\n"
        "from tests.paths import SPECS\n"
        "from sangam.pipelines.kubeflow.target import Target\n"
        f"text = compile_apart(load_spec(SPECS / 'short_video.yaml'), {TARGET!r})\n"
        "print(hashlib.sha256(text.encode()).hexdigest())\n"
        "print([name for name in ('tfx', 'tensorflow', 'apache_beam') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, timeout=300)
    here = compile_pipeline(load_spec(SPECS / "short_video.yaml"), TARGET)
    assert (done.stdout.split("\n", 1), done.stderr) == ([hashlib.sha256(here.encode()).hexdigest(), "[]\n"], "")
