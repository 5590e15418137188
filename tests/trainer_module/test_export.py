"""An export as a whole: what it leaves, that it is tried in a fresh process, and that it is whole or not at all."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from sangam.schemas.contracts.training_job import TrainJob
from tests.errors import place_and_value
from tests.trainer_module.conftest import LAUNCHED

pytestmark = pytest.mark.slow
tf = pytest.importorskip("tensorflow")

Exported = Callable[[str, str], TrainJob]

_BARE = """
import sys
for absent in ("tensorflow_recommenders_addons", "sangam", "tensorflow_transform", "tf_keras"):
    sys.modules[absent] = None
import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow.python.framework import op_def_registry

model, examples, scores = sys.argv[1:]
graph = saved_model_pb2.SavedModel.FromString(open(model + "/saved_model.pb", "rb").read()).meta_graphs[0].graph_def
functions = {function.signature.name for function in graph.library.function}
nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
unknown = {node.op for node in nodes if node.op not in functions and op_def_registry.get(node.op) is None}
assert not unknown, unknown
assert len(nodes) > 100
loaded = tf.saved_model.load(model)
raw = list(tf.data.TFRecordDataset(examples).as_numpy_iterator())
served = loaded.signatures["serving_default"](examples=tf.constant(raw))
with np.load(scores) as expected:
    assert len(raw) == len(expected["like"])
    for task in expected:
        np.testing.assert_allclose(served[task], expected[task], atol=1e-6)
print(sorted(loaded.signatures))
"""


def _run(*command: str, directory: Path) -> str:
    environment = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "TF_USE_LEGACY_KERAS")
    }
    done = subprocess.run(
        [sys.executable, "-I", *command], cwd=directory, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.long
def test_the_stock_form_is_loaded_by_tensorflow_alone_from_wherever_it_lies(exported: Exported, tmp_path: Path) -> None:
    job = exported("stock", "float32")
    output = Path(job.output_dir)
    moved = tmp_path / "moved"
    subprocess.run(["cp", "-r", job.model_dir, str(moved)], check=True)
    files = [str(output / name) for name in ("check_examples.tfrecord", "served_scores.npz")]
    printed = _run("-c", _BARE, str(moved), *files, directory=tmp_path)
    assert "'rank'" in printed


@pytest.mark.long
def test_a_launched_export_leaves_the_model_and_its_report_alone(exported: Exported) -> None:
    job = exported(*LAUNCHED)
    tmp_path = Path(job.model_dir).parent
    assert {path.name for path in tmp_path.iterdir()} == {"model", "output", "job.json"}
    report = json.loads((tmp_path / "output" / "export.json").read_text())
    files = [file for file in (tmp_path / "model").rglob("*") if file.is_file()]
    assert report["model_bytes"] == sum(file.stat().st_size for file in files)
    assert (report["form"], report["rows"], report["seconds"] > 0) == ("tfra", "int8", True)
    assert {path.name for path in (tmp_path / "output").iterdir()} == {
        "check_examples.tfrecord",
        "check_scores.npz",
        "served_scores.npz",
        "export.json",
    }


@pytest.mark.parametrize("form", ["stock", "tfra"])
def test_float32_rows_give_the_ranks_own_scores(exported: Exported, form: str) -> None:
    output = Path(exported(form, "float32").output_dir)
    with np.load(output / "served_scores.npz") as served, np.load(output / "check_scores.npz") as expected:
        assert set(served) == set(expected) == {"like", "watch"}
        for task in served:
            np.testing.assert_allclose(served[task], expected[task], rtol=1e-5, atol=1e-5)
    assert json.loads((output / "export.json").read_text())["tasks"] == {}


@pytest.mark.long
def test_smaller_rows_are_measured_on_the_whole_evaluation_split(exported: Exported) -> None:
    from tests.trainer_module.serving.sample_training import NUM_EXAMPLES, encoded, rows

    job = exported("stock", "int8")
    report = json.loads((Path(job.output_dir) / "export.json").read_text())
    some = rows(NUM_EXAMPLES, seed=1)
    assert len(np.load(Path(job.output_dir) / "served_scores.npz")["like"]) < NUM_EXAMPLES
    raw = tf.constant(list(map(encoded, some)))
    scores = {}
    for stored in ("float32", "int8"):
        serve = tf.saved_model.load(exported("stock", stored).model_dir).signatures["serving_default"]
        scores[stored] = {task: score.numpy().ravel() for task, score in serve(examples=raw).items()}
    likes = [row["like"][0] for row in some]
    full, reduced = (roc_auc_score(likes, scores[stored]["like"]) for stored in ("float32", "int8"))
    assert full != reduced
    expected = {"metric": "auc", "full": full, "reduced": reduced, "loss": full - reduced}
    assert report["tasks"]["like"] == pytest.approx(expected, abs=1e-9)
    seconds = np.array([row["seconds"][0] for row in some], np.float32)
    full, reduced = (float(np.sqrt(np.mean((scores[s]["watch"] - seconds) ** 2))) for s in ("float32", "int8"))
    expected = {"metric": "rmse", "full": full, "reduced": reduced, "loss": reduced / full - 1}
    assert report["tasks"]["watch"] == pytest.approx(expected, abs=1e-5)


def test_a_model_that_scores_otherwise_than_the_ranks_is_not_exported(served_world: Path, tmp_path: Path) -> None:
    from sangam.trainer_module.export import export
    from tests.trainer_module.serving.sample_training import trained_job

    job = trained_job(tmp_path, served_world)
    scores = Path(job.output_dir) / "check_scores.npz"
    with np.load(scores) as stored:
        wrong = {task: values + 2e-4 * (task == "watch") for task, values in stored.items()}
    np.savez(scores, **wrong)
    with pytest.raises(ValueError, match=r"differ .*1e-05"):
        export(job)
    assert not Path(job.model_dir).exists()
    assert not (tmp_path / "output" / "export.json").exists()
    with pytest.raises(ValueError, match="differ"):
        export(job.model_copy(update={"ranker": job.ranker.model_copy(update={"export": exported_as("int8")})}))


def exported_as(rows: str):  # type: ignore[no-untyped-def]
    """Returns an export with smaller rows."""
    from sangam.schemas.spec.serving import Export

    return Export.model_validate({"rows": rows})


def test_smaller_rows_need_examples_to_measure_them_on(served_world: Path, tmp_path: Path) -> None:
    from sangam.trainer_module.export import export
    from tests.trainer_module.serving.sample_training import trained_job

    job = trained_job(tmp_path, served_world, rows="int8").model_copy(update={"check_files": ()})
    with pytest.raises(ValueError, match=place_and_value("export.rows", "int8 ... evaluation split")):
        export(job)


@pytest.mark.parametrize("form", ["stock", "tfra"])
def test_a_model_says_what_it_is_and_brings_its_assets(exported: Exported, form: str) -> None:
    from tests.trainer_module.serving.sample_training import VOCABULARY

    job = exported(form, "float32")
    model = Path(job.model_dir)
    said = json.loads((model / "assets.extra" / "ranker.json").read_text())
    assert said["ranker"] == job.ranker.model_dump(mode="json")
    assert (said["name"], said["spec_digest"], said["form"], said["rows"]) == (
        "served",
        job.spec_digest,
        form,
        "float32",
    )
    assert said["tasks"] == {
        "like": {"kind": "binary", "label": "like", "calibration": None},
        "watch": {"kind": "regression", "label": "seconds", "calibration": None},
    }
    assert said["columns"]["User ID"] == {"type": "string", "is_list": False, "input": "User_ID"}
    assert said["columns"]["history"] == {"type": "int", "is_list": True, "input": "history"}
    assert set(said["columns"]) == {"User ID", "friend", "post-id", "history", "tags", "age", "hour", "spent"}
    assert said["groups"]["adagrad_8"] == {"dim": 8, "tables": {"posts": 1, "users": 3}}
    assert said["versions"]["tensorflow"] == tf.__version__
    needed = "tensorflow_recommenders_addons" if form == "tfra" else None
    assert (said["custom_ops"], needed in said["versions"]) == (needed, form == "tfra")
    signatures = tf.saved_model.load(str(model)).signatures
    assert said["signatures"] == sorted(signatures)
    inputs = set(signatures["rank"].structured_input_signature[1])
    assert inputs == {column["input"] for column in said["columns"].values()} | {"history_length", "tags_length"}
    assert [path.name for path in (model / "assets").iterdir()] == [VOCABULARY]


def test_a_server_can_warm_up_with_real_requests(exported: Exported) -> None:
    from tensorflow_serving.apis.prediction_log_pb2 import PredictionLog

    model = exported("stock", "float32").model_dir
    serve = tf.saved_model.load(model).signatures
    records = tf.data.TFRecordDataset(f"{model}/assets.extra/tf_serving_warmup_requests").as_numpy_iterator()
    requests = [PredictionLog.FromString(record).predict_log.request for record in records]
    asked = []
    for request in requests:
        assert request.model_spec.name == "served"
        given = {name: tf.constant(tf.make_ndarray(tensor)) for name, tensor in request.inputs.items()}
        signature = request.model_spec.signature_name
        asked.append((signature, len(serve[signature](**given)["like"])))
    assert asked == [(signature, size) for size in (1, 8, 64) for signature in ("serving_default", "rank")]


def test_auc_is_none_without_pairs_and_rmse_without_a_number() -> None:
    from sangam.trainer_module.serving.reduction import auc, rmse

    generator = np.random.default_rng(0)
    labels, scores = generator.integers(0, 2, 1000), generator.integers(0, 30, 1000) / 7.0
    assert auc(labels, scores) == pytest.approx(roc_auc_score(labels, scores), abs=1e-12)
    assert auc(np.ones(3), np.arange(3.0)) is None
    assert auc(np.array([0, 1]), np.array([np.nan, 1.0])) is None
    assert rmse(np.array([1.0]), np.array([np.inf])) is None
