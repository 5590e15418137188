"""What the contestants read, made once for a model: requests, the server's scores, weights, the peers' models."""

import dataclasses
import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import tensorflow as tf
from numpy.typing import NDArray

from bench.processes import Process, run
from bench.serving_peers import days as logs_of
from bench.serving_peers import request_files
from bench.serving_peers.dense_inputs import DENSE_INPUTS, examples, write_with_inputs
from bench.serving_peers.lookups import Tables
from bench.serving_peers.trees import TreeTable, tree_table
from bench.serving_peers.worker import SIZES
from bench.torch_processes import ENVIRONMENT, PYTHON
from sangam.components.registry.versions import MANIFEST_FILE
from sangam.components.server.session import ModelSession
from sangam.schemas.contracts.export import DESCRIPTION_FILE, RANK, Description, read_description
from sangam.schemas.host.files import remove_folder
from sangam.schemas.parts.weight import width_of
from sangam.schemas.spec.models import Mmoe
from sangam.trainer_module.ranker import Ranker, with_precision

DENSE, VERSIONS = "dense", "versions"
"""The SavedModel of the dense layers alone, and the folder of the served version."""
MODEL = f"{VERSIONS}/1"
_DENSE_VARIABLE = ("_flat/", "_lines/")
"""Beginnings of the key of the variable with all dense weights: one vector, or a line or more of each weight."""
_WITH_INPUTS = "with_inputs"
_READY, _PEERS_READY = "ready", "peers_ready"
"""Files that say that the folder is complete: without the peers' models, and with them."""
_NUM_REQUESTS, _ROWS_A_CALL = 8, 2_000


class DenseLayers(tf.Module):
    """The dense layers that are served, from their input to the scores."""

    def __init__(self, ranker: Ranker, weights: Mapping[str, NDArray[Any]]):
        super().__init__()
        self._ranker = ranker
        self._weights = {name: tf.Variable(value, trainable=False) for name, value in weights.items()}
        spec = tf.TensorSpec([None, ranker.inputs.width], tf.float32, name="x")
        self.signature = tf.function(self._scores, input_signature=[spec], autograph=False)

    def _scores(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        weights = {name: variable.read_value() for name, variable in self._weights.items()}
        return dict(self._ranker.predictions(self._ranker.logits_of_inputs(weights, x)))


def prepare(model: Path, logs: Path, root: Path) -> Path:
    """Returns the folder below `root` with what the contestants read; makes what is not there.

    The peers' models are left out if their environment is not there.

    Raises:
        SystemExit: the model is of another kind than the demo's.
    """
    content = (model / "saved_model.pb").read_bytes() + (model / DESCRIPTION_FILE).read_bytes()
    folder = root / hashlib.sha256(content).hexdigest()[:12]
    if not (folder / _READY).exists():
        _prepare_ours(model, logs, folder)
        (folder / _READY).touch()
    if PYTHON.exists() and not (folder / _PEERS_READY).exists():
        run([Process(["bench.serving_peers.make_peers", str(folder)], ENVIRONMENT, python=str(PYTHON))], folder)
        (folder / _PEERS_READY).touch()
    return folder


def _prepare_ours(model: Path, logs: Path, folder: Path) -> None:
    described = read_description(str(model / DESCRIPTION_FILE), (model / DESCRIPTION_FILE).read_bytes())
    ranker = _ranker(described)
    remove_folder(folder)
    shutil.copytree(model, folder / MODEL, ignore=shutil.ignore_patterns(MANIFEST_FILE))
    write_with_inputs(folder / MODEL, folder / _WITH_INPUTS, ranker.inputs.width)
    _write_layers(folder, model, ranker)
    days = logs_of.tables(logs)
    trees = _write_trees(folder, days, ranker.tasks)
    _write_requests(folder, logs_of.inputs(days[-1], described.columns), trees, described, ranker)


def read_tasks(folder: Path) -> list[str]:
    """Returns the tasks, in the order of the scores."""
    return list(json.loads((folder / "model.json").read_text())["tasks"])


def read_requests(folder: Path, candidates: int) -> list[logs_of.Arrays]:
    """Returns the requests of so many candidates as inputs of `rank`."""
    return [each["inputs"] for each in request_files.read_requests(folder / f"inputs-{candidates}.npz")]


def _ranker(described: Description) -> Ranker:
    spec = described.ranker
    kind = spec.model
    is_plain = isinstance(kind, Mmoe) and kind.top_k is None and kind.interaction is None and kind.members == 1
    if not is_plain or any(task.kind != "binary" or task.calibration for task in described.tasks.values()):
        raise SystemExit(
            "bench.serving_peers: the peers have no such layers (got another model than a plain mmoe of binary tasks); "
            "give a version of the demo"
        )
    return Ranker(with_precision(spec, "float32"))


def _weights(model: Path, ranker: Ranker) -> dict[str, NDArray[np.float32]]:
    variables = tf.train.load_checkpoint(str(model / "variables" / "variables"))
    [key] = [each for each in variables.get_variable_to_shape_map() if each.startswith(_DENSE_VARIABLE)]
    values = variables.get_tensor(key)
    line = values.shape[1] if values.ndim == 2 else 1
    found, start = {}, 0
    for weight in ranker.weights.weights:
        found[weight.name] = values.reshape(-1)[start : start + weight.size].reshape(weight.shape)
        start += -(-weight.size // line) * line
    return found


def _write_layers(folder: Path, model: Path, ranker: Ranker) -> None:
    weights = _weights(model, ranker)
    np.savez(folder / "weights.npz", **weights)
    tables = Tables(model, ranker)
    np.savez(folder / "tables.npz", **tables.rows)
    assert isinstance(ranker.spec.model, Mmoe)
    document = {"tasks": ranker.tasks, "num_experts": ranker.spec.model.num_experts, "parts": tables.parts()}
    (folder / "model.json").write_text(json.dumps(document))
    layers = DenseLayers(ranker, weights)
    tf.saved_model.save(layers, str(folder / DENSE), signatures={DENSE: layers.signature})


def _write_trees(folder: Path, days: Sequence[pa.Table], tasks: Sequence[str]) -> TreeTable:
    trees = tree_table(days, tasks)
    labels = np.concatenate([np.stack([day[task].to_numpy() for task in tasks], 1) for day in days])
    train, last = np.split(np.arange(len(labels)), [len(labels) - days[-1].num_rows])
    np.savez(
        folder / "trees.npz",
        train=trees.x[train],
        labels=labels[train],
        evaluation=trees.x[last],
        evaluation_labels=labels[last],
        categories=trees.categories,
    )
    return dataclasses.replace(trees, x=trees.x[last])


def _write_requests(
    folder: Path, day: logs_of.Arrays, trees: TreeTable, described: Description, ranker: Ranker
) -> None:
    """Writes requests for a day's posts in the forms that contestants take, and the server's scores of all its rows."""
    served = ModelSession(folder / MODEL, {}).call(RANK)
    told = ModelSession(folder / _WITH_INPUTS, {}).call(DENSE_INPUTS)
    tables, floats = Tables(folder / MODEL, ranker), width_of(ranker.inputs.floats)

    def scores(arrays: logs_of.Arrays) -> NDArray[np.float32]:
        found = served(arrays)
        return np.concatenate([found[task] for task in ranker.tasks], 1)

    parts = np.split(np.arange(len(trees.x)), range(_ROWS_A_CALL, len(trees.x), _ROWS_A_CALL))
    np.save(folder / "scores.npy", np.concatenate([scores({k: v[rows] for k, v in day.items()}) for rows in parts]))
    random = np.random.default_rng(1)
    for size in SIZES:
        users = random.integers(0, len(trees.x), _NUM_REQUESTS)
        posts = random.integers(0, len(trees.x), [_NUM_REQUESTS, size])
        requests = [logs_of.request(day, user, of_user) for user, of_user in zip(users, posts, strict=True)]
        x = np.stack([told({"examples": examples(each, described.columns)})["x"] for each in requests])
        looked_up = [
            {"floats": {"x": of[:, :floats]}} | tables.request(each) for of, each in zip(x, requests, strict=True)
        ]
        request_files.write_requests(folder / f"inputs-{size}.npz", [{"inputs": each} for each in requests])
        request_files.write_requests(folder / f"lookups-{size}.npz", looked_up)
        np.savez(
            folder / f"requests-{size}.npz",
            x=x,
            scores=np.stack([scores(each) for each in requests]),
            trees=np.where(trees.is_context, trees.x[users][:, None], trees.x[posts]),
        )
