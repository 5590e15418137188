"""What `sangam init` drafts from logs of all kinds runs to a pushed model, with no edit."""

import json
from pathlib import Path

import pytest

from sangam.components.registry import stored_versions
from tests.e2e.user_run import sangam
from tests.errors import mentions
from tests.first_hours.shapes import SHAPES
from tests.object_stores import Bucket

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.long]


@pytest.mark.parametrize("shape", SHAPES)
def test_the_printed_commands_push_a_model(tmp_path: Path, shape: str) -> None:
    write, labels = SHAPES[shape]
    folder = tmp_path / "logs"
    folder.mkdir()
    spec = tmp_path / "spec.yaml"
    options = [part for label in labels for part in ("--label", label)]
    drafted = sangam("init", str(write(folder)), "--output", str(spec), *options)
    assert drafted.returncode == 0, drafted.stderr
    validated, run = (line.split() for line in drafted.stdout.splitlines()[-2:])
    assert sangam(*validated[1:]).returncode == 0
    # The command as it is printed, but for the root.
    assert run[:3] == ["sangam", "run", str(spec)]
    done = sangam(*run[1:-1], str(tmp_path / "root"))
    assert done.returncode == 0, drafted.stdout + done.stdout + done.stderr
    [summary] = (tmp_path / "root" / "runs").glob("2*/summary.json")
    result = json.loads(summary.read_text())
    assert result["pushed"], result
    # Better than the mean, or than no order: the columns were read right.
    assert all((task["auc"] or 1) > 0.6 for task in result["tasks"].values()), result["tasks"]


def test_logs_on_an_object_store_become_a_model_on_it(tmp_path: Path, bucket: Bucket) -> None:
    folder, spec = tmp_path / "logs", tmp_path / "spec.yaml"
    folder.mkdir()
    write, labels = SHAPES["hive"]
    logs = bucket.upload(write(folder), "some/logs")
    drafted = sangam("init", logs, "--output", str(spec), "--name", "stored", "--label", *labels)
    assert drafted.returncode == 0, drafted.stderr
    text, pushed = spec.read_text(), f"{bucket.uri}/serving/stored"
    assert "path: serving/stored" in text
    spec.write_text(text.replace("path: serving/stored", f"path: {pushed}"))
    run = drafted.stdout.splitlines()[-1].split()
    assert run[-3] == logs
    done = sangam(*run[1:-1], str(tmp_path / "root"))
    assert done.returncode == 0, drafted.stdout + done.stdout + done.stderr
    [version] = stored_versions.versions(pushed)
    assert mentions(done.stdout, f"live: ... {version} ... {pushed}")
    [summary] = (tmp_path / "root" / "runs").glob("2*/summary.json")
    result = json.loads(summary.read_text())
    assert result["pushed"]["path"] == f"{pushed}/{version}"
    assert all(task["auc"] > 0.6 for task in result["tasks"].values()), result["tasks"]
    shown = sangam("show", str(tmp_path / "root"))
    assert mentions(shown.stdout, f"version: ... {pushed}/{version}")
    # The same logs make no other version: neither days nor model are made again.
    again = sangam(*run[1:-1], str(tmp_path / "root"))
    assert again.returncode == 0, again.stdout + again.stderr
    assert stored_versions.versions(pushed) == [version]
