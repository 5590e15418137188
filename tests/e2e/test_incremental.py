"""Daily training that starts from the last blessed checkpoint, as its user meets it."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sangam.components.registry.base import base_for
from sangam.components.registry.blessed import baseline_for
from sangam.components.registry.record import read_records
from tests.e2e.user_run import LEAN, World, sangam, states
from tests.errors import mentions

pytestmark = [pytest.mark.slow, pytest.mark.e2e]

FIRST, SECOND, THIRD = "2026-03-03", "2026-03-04", "2026-03-05"
Changes = dict[tuple[str | int, ...], Any]
INCREMENTAL: Changes = {
    **LEAN,
    ("training", "mode"): "incremental",
    ("data", "train_days"): 2,
    # Of one user and one candidate: exported tables are compared with what training read.
    ("features", "author_like_rate"): {"kind": "rate", "task": "like", "by": {"author_id": "int"}, "days": 3},
    ("features", "user_author_views"): {
        "kind": "count",
        "by": {"user_id": "string", "author_id": "int"},
        "log": True,
    },
}
SERVED: Changes = {**INCREMENTAL, ("training", "sync"): {"kind": "stale", "staleness": 2}}
"""Its rows are on a parameter server, and come from a base whose rank held them."""
REFUSING: Changes = {**INCREMENTAL, ("gates", 1, "at_least"): 0.999}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, demo_spec_path: Path) -> World:
    made = World(tmp_path_factory.mktemp("incremental"), demo_spec_path)
    made.generate()
    return made


@pytest.fixture(scope="module")
def first(world: World) -> dict[str, Any]:
    return _blessed(world.run(world.spec("daily", INCREMENTAL), date=FIRST))


def _blessed(ended: tuple["subprocess.CompletedProcess[str]", dict[str, Any]]) -> dict[str, Any]:
    done, summary = ended
    assert done.returncode == 0, done.stdout + done.stderr
    return summary


def _reports(root: Path) -> list[dict[str, Any]]:
    """Returns the reports of all trainings, oldest first."""
    found = (root / "artifacts" / "trainer" / "training").glob("*/training.json")
    return [json.loads(path.read_text()) for path in sorted(found, key=lambda path: int(path.parent.name))]


def _records(root: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted((root / "blessed" / "short_video").iterdir())]


def test_the_first_day_trains_from_nothing_and_says_so(world: World, first: dict[str, Any]) -> None:
    assert first["days"] == {"train": ["2026-03-01", "2026-03-02"], "eval": [FIRST]}
    assert first["base_last_day"] is None
    assert any(mentions(note, "no blessed checkpoint ... 2026-03-02") for note in first["notes"])
    [record] = _records(world.root)
    assert record["days"] == ["2026-03-01", "2026-03-02"]
    assert Path(record["checkpoint_uri"], "checkpoint", "manifest.json").exists()
    assert not (world.root / "checkpoints").exists()


def test_a_rejected_day_is_no_base_and_the_day_after_makes_up_for_it(world: World, first: dict[str, Any]) -> None:
    done, refused = world.run(world.spec("refusing", REFUSING), date=SECOND)
    assert done.returncode == 3, done.stdout + done.stderr
    assert refused["base_last_day"] == "2026-03-02"
    assert refused["days"]["train"] == [FIRST]
    assert len(_records(world.root)) == 1

    third = _blessed(world.run(world.spec("served", SERVED), date=THIRD))
    assert third["base_last_day"] == "2026-03-02"
    assert third["days"] == {"train": [FIRST, SECOND], "eval": [THIRD]}
    assert third["rows"]["train"]["written"] == 6000
    record = _records(world.root)[-1]
    assert record["days"] == ["2026-03-01", "2026-03-02", FIRST, SECOND]
    manifest = json.loads(Path(third["pushed"]["path"], "manifest.json").read_text())
    assert (manifest["base_days"], manifest["days"]["train"]) == (["2026-03-01", "2026-03-02"], [FIRST, SECOND])


def test_training_goes_on_with_the_weights_and_the_inputs_of_the_base(world: World, first: dict[str, Any]) -> None:
    base, last = _records(world.root)[0], _records(world.root)[-1]
    graphs = [Path(record["transform_graph_uri"]) for record in (base, last)]
    assert graphs[0] != graphs[1]
    statistics = [(graph / "statistics.json").read_bytes() for graph in graphs]
    assert statistics[0] == statistics[1]
    reports = _reports(world.root)
    assert [report["sync"]["kind"] for report in reports] == ["sync", "sync", "stale"]
    losses = [report["epochs"][0]["mean_loss"]["long_watch"] for report in reports]
    # The first epoch of a later day begins where the base ended, not where it began.
    assert losses[-1] < losses[0]


def test_each_day_serves_the_history_up_to_its_own_and_says_as_of_when(world: World, first: dict[str, Any]) -> None:
    as_of = []
    for record in _records(world.root):
        file = Path(record["transform_graph_uri"], "history", "history.json")
        as_of.append(json.loads(file.read_bytes())["as_of"])
    assert as_of == [FIRST, THIRD]
    assert any(mentions(note, f"author_like_rate, user_author_views ... as of {FIRST}") for note in first["notes"])
    versions = [world.root / "serving" / "short_video" / version for version in world.versions()]
    described = [json.loads((folder / "assets.extra" / "ranker.json").read_bytes()) for folder in versions]
    assert [each["history_as_of"] for each in described] == as_of
    assert f"before {THIRD}" in (versions[-1] / "MODEL_CARD.md").read_text()
    # The second run trained on two days; those that its base had learned were read for their history alone.
    ingested = sorted((world.root / "artifacts" / "example_gen" / "examples").glob("*/ingestion.json"))
    reports = [json.loads(path.read_bytes()) for path in ingested]
    last = next(each for each in reports if each["date"] == THIRD)
    assert last["history_days"] == ["2026-03-01", "2026-03-02"]
    assert last["days"]["train"] == [FIRST, SECOND]


def test_a_rerun_of_a_day_finds_the_same_base_and_is_cached(world: World, first: dict[str, Any]) -> None:
    again = _blessed(world.run(world.spec("served", SERVED), date=THIRD))
    assert set(states(again).values()) == {"cached"}
    assert again["base_last_day"] == "2026-03-02"
    assert len(_records(world.root)) == 2


def test_the_runs_are_looked_at_from_the_command_line(world: World, first: dict[str, Any]) -> None:
    newest, third, refused, oldest = json.loads(sangam("runs", str(world.root), "--json").stdout)
    assert [run["state"] for run in (newest, third, refused, oldest)] == ["pushed"] * 2 + ["refused", "pushed"]
    assert (oldest["id"], oldest["pushed"]) == (first["run"], "20260303001")
    assert mentions(sangam("show", refused["path"]).stdout.splitlines()[0], "not pushed ... refused ... share: auc")
    assert "below the bound 0.9990" in sangam("why", refused["path"]).stdout
    changed = json.loads(sangam("diff", refused["path"], third["path"], "--json").stdout)
    found = {each["what"]: (each["old"], each["new"]) for each in changed["spec"]}
    assert found["gates.1.at_least"] == (0.999, 0.3)
    assert found["training.sync.kind"] == ("sync", "stale")
    assert {"like auc", "like log_loss"} <= {each["what"] for each in changed["metrics"]}
    assert any(each["what"] == "trainer" and each["difference"] for each in changed["seconds"])


def test_the_lineage_of_a_version_goes_from_the_days_to_the_base_of_its_base(
    world: World, first: dict[str, Any]
) -> None:
    version = world.root / "serving" / "short_video" / world.versions()[-1]
    told = json.loads(sangam("lineage", str(version), "--json").stdout)
    manifest = json.loads((version / "manifest.json").read_text())
    assert told["spec_digest"] == manifest["spec_digest"]
    records = _records(world.root)
    assert [(link["checkpoint"], link["days"], link["there"]) for link in told["chain"]] == [
        (record["checkpoint_uri"], record["days"], True) for record in reversed(records)
    ]
    assert told["chain"][-1]["run"] == first["run"]
    days = {each["day"]: each["digest"] for each in told["days"]}
    assert sorted(days) == [FIRST, SECOND, THIRD]
    stored = {path.name for path in (world.root / "examples" / "short_video").iterdir()}
    assert {f"{day}-{digest}" for day, digest in days.items()} <= stored
    assert told["blessed_by"].startswith("the gates at ")
    assert told["run"] != json.loads(sangam("runs", str(world.root), "--json").stdout)[0]["id"]  # That took it cached.


def test_the_rule_of_the_spec_removes_old_runs_and_changes_nothing_of_the_next(
    world: World, first: dict[str, Any]
) -> None:
    before = {path.name for path in world.runs()}
    kept = {**SERVED, ("keep",): {"runs": 1, "models": 2, "checkpoints": 2}}
    done, again = world.run(world.spec("kept", kept), date=THIRD)
    assert done.returncode == 0, done.stdout + done.stderr
    # The section is no part of the digest.
    assert set(states(again).values()) == {"cached"}
    assert again["base_last_day"] == "2026-03-02"
    assert any(mentions(line, "removed: ... as `keep` says") for line in done.stdout.splitlines())
    assert {path.name for path in world.runs()} == {again["run"]}
    assert again["run"] not in before
    assert world.versions() == ["20260303001", "20260305001"]
    for record in _records(world.root):
        assert Path(record["checkpoint_uri"], "checkpoint", "manifest.json").exists()
        assert Path(record["transform_graph_uri"], "statistics.json").exists()
        assert Path(record["model_uri"]).is_dir()
    listed = {path.parent.name for path in (world.root / "artifacts/example_gen/examples").glob("*/examples.json")}
    assert len(listed) == 1
    # Once more: everything that the run needs is there.
    again = _blessed(world.run(world.spec("kept", kept), date=THIRD))
    assert set(states(again).values()) == {"cached"}


def test_after_a_rollback_the_version_before_is_base_and_baseline_also_after_a_clean(
    world: World, first: dict[str, Any]
) -> None:
    folder, root = world.root / "serving" / "short_video", world.root
    assert sangam("rollback", str(folder), "--because", "likes fell").returncode == 0
    oldest = _records(root)[0]

    def chosen() -> tuple[str, str | None]:
        records = read_records(root, "short_video")
        base = base_for(records, before=THIRD, exists=lambda uri: Path(uri, "checkpoint", "manifest.json").exists())
        assert base.base
        return base.base.checkpoint_uri, baseline_for("new", records, [THIRD])

    assert chosen() == (oldest["checkpoint_uri"], oldest["model_uri"])
    limits = ("--runs", "1", "--models", "2", "--checkpoints", "2")
    cleaned = json.loads(sangam("clean", str(root), *limits, "--json").stdout)
    assert not cleaned["rankers"][0]["failed"]
    assert chosen() == (oldest["checkpoint_uri"], oldest["model_uri"])
    assert (Path(oldest["model_uri"]) / "Format-Serving" / "saved_model.pb").is_file()
    assert world.versions() == ["20260303001"]
    assert sangam("rollback", str(folder), "--restore", "20260305001").returncode == 0
    assert chosen() == (_records(root)[1]["checkpoint_uri"], _records(root)[1]["model_uri"])
