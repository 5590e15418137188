"""Where a model comes from, of made-up records; tests/e2e reads those of real runs."""

import json
from pathlib import Path

import pytest

from sangam.pipelines.history.lineage import lineage_of
from sangam.schemas.contracts import deltas
from sangam.schemas.errors import UserError
from tests.errors import place_and_value
from tests.pipelines.history.command import sangam

VERSION, FULL = "20240305001", "20240305002"


@pytest.fixture
def serving(tmp_path: Path) -> Path:
    """A folder with a version that a person has blessed, and one that online training has made of it."""
    folder = tmp_path / "serving" / "small"
    for name in (VERSION, FULL):
        (folder / name).mkdir(parents=True)
        manifest = {
            "format": 1,
            "name": "small",
            "spec_digest": "s1",
            "git_commit": "g1",
            "days": {"train": ["2024-03-04"], "eval": ["2024-03-05"]},
            "missing_days": [],
            "base_days": ["2024-03-01", "2024-03-03"],
            "metrics": {},
            "baseline": None,
            "notes": [],
            "version": name,
            "created": "2024-03-06T00:00:00Z",
            "files": {},
        }
        (folder / name / "manifest.json").write_text(json.dumps(manifest))
    (folder / deltas.FOLDER / VERSION / "00000007").mkdir(parents=True)
    (folder / deltas.FOLDER / VERSION / "00000007" / deltas.DELTA_FILE).write_text("{}")
    deltas.write_lineage(folder / FULL, folder, VERSION, 7)
    blessed = tmp_path / "blessed" / "small"
    blessed.mkdir(parents=True)
    record = {
        "format": 1,
        "model_uri": "/gone/model",
        "ranker_digest": "r1",
        "blessed_at": "2024-03-06T01:02:00Z",
        "metrics": {},
        "checkpoint_uri": "/gone/checkpoint",
        "days": ["2024-03-01", "2024-03-03", "2024-03-04"],
        "transform_graph_uri": "/gone/graph",
        "inputs_digest": "i1",
        "model_sha256": "0" * 64,
        "checkpoint_sha256": "1" * 64,
        "transform_graph_sha256": "2" * 64,
        "because": "a holiday",
        "by": "ada",
        "pushed": f"serving/small/{VERSION}",
    }
    (blessed / "00000001.json").write_text(json.dumps(record))
    return folder


def test_of_a_run_that_was_removed_the_manifest_and_the_blessing_still_tell(serving: Path) -> None:
    told = json.loads(sangam("lineage", str(serving / VERSION), "--json").stdout)
    assert (told["ranker"], told["run"], told["spec_digest"], told["git_commit"]) == ("small", None, "s1", "g1")
    assert told["blessed_by"] == "ada at 2024-03-06 01:02 UTC, because a holiday"
    assert [(each["split"], each["day"]) for each in told["days"]] == [("train", "2024-03-04"), ("eval", "2024-03-05")]
    [link] = told["chain"]
    assert (link["checkpoint"], link["there"]) == ("/gone/checkpoint", False)
    lines = sangam("lineage", str(serving / VERSION)).stdout.splitlines()
    assert "base       trained on 2024-03-01 to 2024-03-03, not known any more" in lines


def test_what_online_training_has_made_of_a_version_leads_to_that_version(serving: Path) -> None:
    told = lineage_of(serving / FULL)
    assert (told.online, told.blessing and told.blessing.pushed) == (f"{VERSION}+7", f"serving/small/{VERSION}")
    assert lineage_of(serving / VERSION).online == ""


def test_a_manifest_of_something_else_is_refused(serving: Path) -> None:
    (serving / VERSION / "manifest.json").write_text('{"format": 1, "files": {}}')
    with pytest.raises(UserError, match=place_and_value(str(serving / VERSION / "manifest.json"), "validation errors")):
        lineage_of(serving / VERSION)
