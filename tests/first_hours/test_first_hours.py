"""What `sangam init` drafts from logs of all kinds runs to a pushed model, with no edit."""

import json
from pathlib import Path

import pytest

from sangam.components.registry import stored_versions
from sangam.components.reports.artifact_files import read_ingestion
from sangam.schemas.loading import load_spec
from tests.components.steps.example_gen.test_executor import ingest
from tests.e2e.user_run import sangam
from tests.errors import mentions
from tests.first_hours.shapes import ROWS, SHAPES
from tests.object_stores import Bucket

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.long]


_TRAINED_ON = "prices"
"""A regression without days. Hive's folders, with days and a binary task, are trained on from an object store, logs of
positives in `tests/e2e/test_positives_only.py`; the others differ from these in what ingestion reads."""
_ROWS_OF = {"competition": 1600, "delta": 1966}
"""Where not all rows are to be read: those of `test.csv` have no label, and some of the table were deleted."""


def _drafted(folder: Path, shape: str) -> list[str]:
    """Returns the command that `sangam init` prints to run its draft, which is valid."""
    write, labels = SHAPES[shape]
    logs = folder / "logs"
    logs.mkdir()
    options = [part for label in labels for part in ("--label", label)]
    drafted = sangam("init", str(write(logs)), "--output", str(folder / "spec.yaml"), *options)
    assert drafted.returncode == 0, drafted.stderr
    validated, run = (line.split() for line in drafted.stdout.splitlines()[-2:])
    checked = sangam(*validated[1:])
    assert checked.returncode == 0, drafted.stdout + checked.stdout + checked.stderr
    return run


@pytest.mark.parametrize("shape", sorted({*SHAPES} - {_TRAINED_ON, "hive"}))
def test_the_draft_reads_every_row(tmp_path: Path, shape: str) -> None:
    run = _drafted(tmp_path, shape)
    spec = load_spec(tmp_path / "spec.yaml")
    date = run[run.index("--date") + 1] if "--date" in run else ""
    examples = ingest(spec.data, Path(run[run.index("--data") + 1]), tmp_path / "examples", inputs=spec, date=date)
    splits = read_ingestion(examples.uri).splits.values()
    assert [(split.dropped, split.ignored) for split in splits] == [({}, {})] * 2
    assert sum(split.read for split in splits) == _ROWS_OF.get(shape, ROWS)


def test_the_printed_commands_push_a_model(tmp_path: Path) -> None:
    run = _drafted(tmp_path, _TRAINED_ON)
    # The command as it is printed, but for the root.
    assert run[:3] == ["sangam", "run", str(tmp_path / "spec.yaml")]
    done = sangam(*run[1:-1], str(tmp_path / "root"))
    assert done.returncode == 0, done.stdout + done.stderr
    [summary] = (tmp_path / "root" / "runs").glob("2*/summary.json")
    result = json.loads(summary.read_text())
    # Its gate asks for less error than the mean has: the columns were read right.
    assert [gate["kind"] for gate in result["tasks"]["price"]["gates"]] == ["finite", "value"]
    assert result["pushed"], result


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
