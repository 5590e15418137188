"""The pusher's executor: what it pushes, what it refuses, and what it writes down."""

import json
from pathlib import Path
from typing import Any

import pytest

from sangam.components.registry import seal, versions
from sangam.components.reports.evaluation import TaskVerdict, Verdict
from sangam.components.reports.serving import Check, ServingVerdict
from sangam.schemas.contracts.root import Root
from sangam.schemas.errors import UserError
from sangam.schemas.spec.drift import Drift, DriftBounds
from sangam.schemas.spec.serving import InShadow, Load, RequestLog
from tests.errors import place_and_value
from tests.object_stores import Bucket
from tests.paths import SPECS
from tests.pipelines.command_line import sangam

pytestmark = pytest.mark.slow

PRICES = {"currency": "EUR", "rank_per_hour": 0, "step_per_hour": 0, "serving_core_hour": 0.036}
INGESTION = {
    "date": "2011-11-30",
    "days": {"train": ["2011-11-28", "2011-11-29"], "eval": ["2011-11-30"]},
    "missing_days": [],
    "splits": {
        "train": {"num_files": 2, "read": 2, "written": 2, "dropped": {}},
        "eval": {"num_files": 1, "read": 1, "written": 1, "dropped": {}},
    },
}


def run(
    folder: Path,
    *,
    blessed: bool = True,
    served: bool = True,
    says: bool | None = None,
    infra_says: bool | None = None,
    push: dict[str, str] | None = None,
    changed: bool = False,
    graph: str = "graph",
    bound: float = 0.1,
) -> Any:
    """Runs the executor on a model in `folder`, which is the pipeline root too, and returns the output artifact.

    Args:
        folder: of everything.
        blessed: the quality gates' verdict.
        served: the serving check's verdict.
        says: the evaluator's blessing, where that is another.
        infra_says: the serving check's blessing, where that is another.
        push: the target.
        changed: whether a byte of the model is another one since it was exported.
        graph: the model.
        bound: of the spec on the drift of missing values.
    """
    from tfx.types import standard_artifacts

    from sangam.components.registry.checkpoint import RankerCheckpoint
    from sangam.components.steps.pusher.executor import Executor
    from tests.components.drift.sample_statistics import INPUTS, sample_statistics

    def artifact(kind: Any, name: str) -> Any:
        made = kind()
        made.uri = str(folder / name)
        Path(made.uri).mkdir(exist_ok=True)
        return made

    model = artifact(standard_artifacts.Model, "model")
    serving = folder / "model" / "Format-Serving"
    serving.mkdir(exist_ok=True)
    (serving / "saved_model.pb").write_text(graph)
    model.set_string_custom_property(seal.SHA256, seal.seal(str(serving)))
    if changed:
        (serving / "saved_model.pb").write_text("grapf")
    examples = artifact(standard_artifacts.Examples, "examples")
    (folder / "examples" / "ingestion.json").write_text(json.dumps(INGESTION))
    evaluation = artifact(standard_artifacts.ModelEvaluation, "evaluation")
    verdict = Verdict(
        blessed=blessed,
        baseline="models/7",
        notes=["a note"],
        tasks={"like": TaskVerdict(metrics={"auc": 0.75, "calibration": None}, slices={}, gates=[])},
    )
    (folder / "evaluation" / "verdict.json").write_text(verdict.model_dump_json())
    blessing = artifact(standard_artifacts.ModelBlessing, "blessing")
    blessing.set_int_custom_property("blessed", int(blessed if says is None else says))
    infra_blessing = artifact(standard_artifacts.InfraBlessing, "infra_blessing")
    infra_blessing.set_int_custom_property("blessed", int(served if infra_says is None else infra_says))
    serving_verdict = ServingVerdict(
        blessed=served,
        model_bytes=5,
        load=Load(),
        checks=[Check(name="size", passed=served, reason="5 B")],
        candidates_per_core_s=20_000,
        live_candidates_per_core_s=25_000,
    )
    (folder / "infra_blessing" / "infra_verdict.json").write_text(serving_verdict.model_dump_json())
    checkpoint = artifact(RankerCheckpoint, "checkpoint")
    checkpoint.set_string_custom_property("sha256", "c1")
    checkpoint.set_string_custom_property("transform_graph_sha256", "g1")
    noted = {"days": '["2011-11-29"]', "transform_graph": "graph", "inputs_digest": "i1"}
    for name, value in noted.items():
        checkpoint.set_string_custom_property(name, value)
    statistics = artifact(standard_artifacts.ExampleStatistics, "statistics")
    statistics.split_names = '["train"]'
    (folder / "statistics/Split-train").mkdir(exist_ok=True)
    (folder / "statistics/Split-train/FeatureStats.pb").write_bytes(sample_statistics().SerializeToString())
    pushed_model = artifact(standard_artifacts.PushedModel, "pushed_model")
    Executor().Do(
        {
            "model": [model],
            "examples": [examples],
            "statistics": [statistics],
            "evaluation": [evaluation],
            "blessing": [blessing],
            "infra_blessing": [infra_blessing],
            "checkpoint": [checkpoint],
        },
        {"pushed_model": [pushed_model]},
        {
            "name": "tiny",
            "push": json.dumps(push or {"kind": "directory", "path": "serving/tiny"}),
            "evaluation_config": "{}",
            "cost": json.dumps(PRICES),
            "request_log": RequestLog(share=0.1).model_dump_json(),
            "inputs": INPUTS.model_dump_json(),
            "drift": Drift(action="warn", every=DriftBounds(missing_share=bound)).model_dump_json(),
            "shadow": InShadow(share=0.05).model_dump_json(),
            "intended_use": "Ranks tiny things.",
            "ranker_digest": "d1",
            "pipeline_root": str(folder),
            "spec_digest": "s1",
            "git_commit": "g1",
            "code": "c1",
        },
    )
    return pushed_model


def registered(folder: Path) -> list[Any]:
    """Returns the models that are baselines of later ones."""
    from sangam.components.registry import blessed

    return blessed.read_all(Root(str(folder)).blessed("tiny"))


@pytest.mark.parametrize("push", [None, {"kind": "none"}])
def test_what_every_gate_has_blessed_is_registered_once_with_what_a_later_training_needs(
    tmp_path: Path, push: dict[str, str] | None
) -> None:
    for _ in range(2):
        run(tmp_path, push=push)
    [record] = registered(tmp_path)
    assert (record.model_uri, record.ranker_digest) == (str(tmp_path / "model"), "d1")
    assert record.metrics == {"like": {"auc": 0.75, "calibration": None}}
    assert (record.checkpoint_uri, record.days) == (str(tmp_path / "checkpoint"), ("2011-11-29",))
    assert (record.transform_graph_uri, record.inputs_digest) == ("graph", "i1")
    assert (record.checkpoint_sha256, record.transform_graph_sha256) == ("c1", "g1")
    assert record.model_sha256 == seal.sha256_of(tmp_path / "model" / "Format-Serving" / "manifest.json")


def test_a_model_that_was_changed_since_its_export_is_not_pushed(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=place_and_value("Format-Serving", "(got saved_model.pb")):
        run(tmp_path, changed=True)
    assert registered(tmp_path) == []
    assert not (tmp_path / "serving").exists()


@pytest.mark.parametrize("refused", ["blessed", "served"])
def test_what_one_gate_has_refused_is_neither_baseline_nor_base(tmp_path: Path, refused: str) -> None:
    run(tmp_path, **{refused: False})
    assert registered(tmp_path) == []


def test_a_blessed_model_is_pushed_with_days_metrics_and_digests(tmp_path: Path) -> None:
    pushed = run(tmp_path)
    assert pushed.get_int_custom_property("pushed") == 1
    assert pushed.get_string_custom_property("version") == "20111130001"
    path = tmp_path / "serving" / "tiny" / "20111130001"
    assert pushed.get_string_custom_property("path") == str(path)
    manifest = json.loads((path / "manifest.json").read_text())
    assert manifest["days"] == INGESTION["days"]
    assert manifest["metrics"] == {"like": {"auc": 0.75, "calibration": None}}
    assert (manifest["name"], manifest["spec_digest"], manifest["git_commit"]) == ("tiny", "s1", "g1")
    assert manifest["request_log"]["share"] == 0.1
    assert manifest["shadow"] == {"share": 0.05}
    assert (manifest["baseline"], manifest["notes"]) == ("models/7", ["a note"])
    assert sorted(manifest["files"]) == ["MODEL_CARD.md", "drift_reference.json", "saved_model.pb"]
    card = (path / "MODEL_CARD.md").read_text()
    assert "serving 0.0005 EUR for a million candidates, +0.0001 (+25.0%) over the live version" in card
    assert card.startswith("# tiny, version 20111130001\n\n## Intended use\n\nRanks tiny things.\n")
    assert "| train | 2011-11-28 to 2011-11-29 (2) | 2 | none |" in card
    assert versions.damage(path) is None
    assert (Path(pushed.uri) / "manifest.json").read_bytes() == (path / "manifest.json").read_bytes()


def test_other_bounds_of_drift_push_the_model_again(tmp_path: Path) -> None:
    pushed = [run(tmp_path, bound=bound) for bound in (0.1, 0.1, 0.2)]
    names = [each.get_string_custom_property("version") for each in pushed]
    assert names == ["20111130001", "20111130001", "20111130002"]
    path = tmp_path / "serving" / "tiny" / names[-1]
    found = json.loads((path / "drift_reference.json").read_text())
    assert found["columns"]["price"]["bounds"] == {"missing_share": 0.2}
    assert versions.damage(path) is None


def test_a_rerun_finds_its_version_again(tmp_path: Path) -> None:
    assert [run(tmp_path).get_string_custom_property("version") for _ in range(2)] == ["20111130001"] * 2


@pytest.mark.parametrize(("blessed", "served"), [(False, True), (True, False), (False, False)])
def test_a_model_that_one_of_the_two_has_not_blessed_is_not_pushed(blessed: bool, served: bool, tmp_path: Path) -> None:
    assert run(tmp_path, blessed=blessed, served=served).get_int_custom_property("pushed") == 0
    assert not (tmp_path / "serving").exists()


def test_without_a_push_target_nothing_is_pushed(tmp_path: Path) -> None:
    assert run(tmp_path, push={"kind": "none"}).get_int_custom_property("pushed") == 0
    assert not (tmp_path / "serving").exists()


@pytest.mark.parametrize(
    "contradiction",
    [
        {"blessed": True, "says": False},
        {"blessed": False, "says": True},
        {"served": True, "infra_says": False},
        {"served": False, "infra_says": True},
    ],
)
def test_a_blessing_that_contradicts_its_verdict_is_an_error(contradiction: dict[str, bool], tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="contradicts the verdict"):
        run(tmp_path, **contradiction)
    assert not (tmp_path / "serving").exists()


def test_a_target_behind_a_link_that_leads_out_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "serving").symlink_to(tmp_path)
    with pytest.raises(UserError, match=place_and_value("push.path", "pipeline root")):
        run(root)


def test_a_remote_target_gets_the_same_version_and_manifest(tmp_path: Path) -> None:
    import datetime

    from sangam.components.steps.pusher import object_store
    from sangam.components.steps.pusher.manifest import Provenance, list_files

    model = tmp_path / "model"
    (model / "variables").mkdir(parents=True)
    (model / "saved_model.pb").write_text("graph")
    (model / "variables" / "data").write_text("w")
    # An unfinished upload: no saved_model.pb. Its number is left alone.
    (tmp_path / "serving" / "tiny" / "20240102001").mkdir(parents=True)
    target = object_store.target_uri(f"file://{tmp_path}", "serving/tiny")
    provenance = Provenance(
        name="tiny", spec_digest="s", git_commit="g", days={}, missing_days=[], metrics={}, baseline=None, notes=[]
    )
    now = datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC)
    pushed = [
        object_store.push(
            model=str(model), target=target, day="20240102", provenance=provenance, card=lambda _: "card", now=now
        )
        for _ in range(2)
    ]
    assert [version.version for version in pushed] == ["20240102002"] * 2
    versions_folder = tmp_path / "serving" / "tiny"
    files = list_files(versions_folder / "20240102002")
    assert files.pop("MODEL_CARD.md").bytes == 4
    assert files == list_files(model)
    assert versions.damage(versions_folder / "20240102002") is None
    assert sorted(path.name for path in versions_folder.glob("2*")) == ["20240102001", "20240102002"]
    (versions_folder / "withdrawn").mkdir()
    (versions_folder / "20240102002").rename(versions_folder / "withdrawn" / "20240102002")
    with pytest.raises(UserError, match=place_and_value("push", "20240102002 ... withdrawn")):
        object_store.push(
            model=str(model), target=target, day="20240102", provenance=provenance, card=lambda _: "card", now=now
        )
    (model / "variables" / "data").write_text("v")
    again = object_store.push(
        model=str(model), target=target, day="20240102", provenance=provenance, card=lambda _: "card", now=now
    )
    assert again.version == "20240102003"


def test_a_model_is_pushed_to_an_object_store_once_and_again_after_a_change(tmp_path: Path, bucket: Bucket) -> None:
    from sangam.components.registry import stored_versions

    folder = f"{bucket.uri}/serving/tiny"
    push = {"kind": "directory", "path": f"{folder}/"}
    first, again = run(tmp_path, push=push), run(tmp_path, push=push)
    assert first.get_string_custom_property("path") == f"{folder}/20111130001"
    assert again.get_string_custom_property("version") == "20111130001"
    names = ["MODEL_CARD.md", "drift_reference.json", "manifest.json", "saved_model.pb"]
    assert bucket.keys() == [f"serving/tiny/20111130001/{name}" for name in names]
    document = json.loads(bucket.get("serving/tiny/20111130001/manifest.json"))
    assert document["files"].keys() == {"MODEL_CARD.md", "drift_reference.json", "saved_model.pb"}
    assert [record.pushed for record in registered(tmp_path)] == [f"{folder}/20111130001"]
    run(tmp_path, push=push, graph="another graph")
    assert bucket.get("serving/tiny/20111130002/saved_model.pb") == b"another graph"
    done = sangam("rollback", folder, "--because", "likes fell", "--json")
    assert (done.returncode, json.loads(done.stdout)["newest"]) == (0, "20111130001"), done.stderr
    assert [record.is_withdrawn for record in registered(tmp_path)] == [False, True]
    with pytest.raises(UserError, match=place_and_value("push", "20111130002 ... likes fell")):
        run(tmp_path, push=push, graph="another graph")
    done = sangam("rollback", folder, "--restore", "20111130002")
    assert (done.returncode, stored_versions.versions(folder)[-1]) == (0, "20111130002"), done.stderr


def test_after_the_shadow_the_artifact_tells_what_the_version_waits_for(tmp_path: Path) -> None:
    push = {"kind": "directory", "path": "serving/tiny", "after": "shadow"}
    run(tmp_path, push=push)
    waiting = run(tmp_path, push=push, graph="another graph")
    folder = tmp_path / "serving" / "tiny"
    told = [waiting.get_string_custom_property(name) for name in ("version", "path", "shadow_of")]
    assert told == ["20111130002", str(folder / "20111130002"), "20111130001"]
    assert [record.is_waiting for record in registered(tmp_path)] == [False, True]


@pytest.mark.parametrize("path", ["../out", "a/../../out", "/etc", ".", "s3://other/bucket"])
def test_a_remote_target_outside_the_pipeline_root_is_refused(path: str) -> None:
    from sangam.components.steps.pusher.object_store import target_uri

    with pytest.raises(UserError, match=place_and_value("push.path", "pipeline root")):
        target_uri("s3://bucket/root", path)


def test_components_can_be_built_from_a_spec() -> None:
    from tfx import types
    from tfx.types import standard_artifacts as kinds

    from sangam.components.registry.checkpoint import RankerCheckpoint
    from sangam.components.steps.evaluator.component import Evaluator
    from sangam.components.steps.infra_validator.component import InfraValidator
    from sangam.components.steps.pusher.component import Pusher
    from sangam.schemas.loading import load_spec

    spec = load_spec(SPECS / "short_video.yaml")
    examples, model = types.Channel(type=kinds.Examples), types.Channel(type=kinds.Model)
    training = types.Channel(type=kinds.ModelRun)
    given = {"examples": examples, "model": model, "training": training}
    evaluator = Evaluator(spec=spec, **given, pipeline_root="root")
    infra_validator = InfraValidator(
        spec=spec, model=model, training=training, pipeline_root="root", date="2024-03-08", data_root="logs"
    )
    pusher = Pusher(
        spec=spec,
        examples=examples,
        statistics=types.Channel(type=kinds.ExampleStatistics),
        model=model,
        pipeline_root="root",
        spec_digest="s",
        git_commit="g",
        checkpoint=types.Channel(type=RankerCheckpoint),
        infra_blessing=infra_validator.outputs["blessing"],
        **evaluator.outputs,
    )
    assert set(evaluator.outputs) == {"evaluation", "blessing"}
    assert set(infra_validator.outputs) == {"blessing"}
    assert set(pusher.outputs) == {"pushed_model"}
    one_gate = spec.model_copy(update={"gates": spec.gates[:1]})
    again = Evaluator(spec=one_gate, **given, pipeline_root="root").exec_properties
    changed = {name for name, value in evaluator.exec_properties.items() if again[name] != value}
    assert changed == {"gates"}
