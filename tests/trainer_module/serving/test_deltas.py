"""Deltas as a server applies them: in order, whole, and with the same result whenever they come."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from schemas.contracts import deltas
from schemas.contracts.export import of_group
from schemas.contracts.training_job import TrainJob
from tests.trainer_module.serving.sample_deltas import LINEAGE, publish, push

pytestmark = pytest.mark.slow
tf = pytest.importorskip("tensorflow")

Exported = Callable[[str, str], TrainJob]
_GROUPS = {"adagrad_4": ("tags", 4), "adagrad_8": ("users", 8)}


@pytest.fixture(params=["stock", "tfra"])
def version(request: pytest.FixtureRequest, exported: Exported, tmp_path: Path) -> Path:
    """The folder of a pushed version, alone in its folder of versions."""
    return push(Path(exported(request.param, "float32").model_dir), tmp_path / "versions")


def _keys(group: str, *numbers: int) -> np.ndarray:
    """Returns the keys of ids, of which the first ones have rows in the version: u0 to u39, t0 to t19."""
    from tests.trainer_module.serving.sample_training import declared
    from trainer_module.transforms.keys import id_keys

    table = _GROUPS[group][0]
    ids = tf.constant([f"{table[0]}{number}" for number in numbers])
    keys: np.ndarray = id_keys(declared().table_tags()[table], ids).numpy()
    return keys


def _rows(group: str, count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, _GROUPS[group][1])).astype(np.float32)


def _served(version: Path) -> tuple[Any, Any]:
    from components.server.deltas import Deltas
    from components.server.model import LoadedModel

    model = LoadedModel(version, int(version.name))
    return model, Deltas(model, version)


def _call(model: Any, signature: str, **arrays: Any) -> dict[str, np.ndarray]:
    answer = model.signatures[signature].call({name: tf.constant(array) for name, array in arrays.items()})
    return {name: tensor.numpy() for name, tensor in answer.items()}


def _state(model: Any) -> dict[str, bytes]:
    """Returns scores of examples with known and unknown ids, and the tables' sizes."""
    from tests.trainer_module.serving.sample_training import encoded, rows

    examples = [encoded(row) for row in rows(300, seed=9)]
    scores = _call(model, "serving_default", examples=examples)
    return {name: array.tobytes() for name, array in (scores | _call(model, "table_size")).items()}


def _size_of_dense(model: Any) -> int:
    return int(model.signatures["replace_dense"].inputs["flat"].lengths[0])


def test_a_server_that_was_away_has_the_state_of_one_that_was_not_and_of_the_trainer(version: Path) -> None:
    versions = version.parent
    present, following = _served(version)
    keys = {group: _keys(group, *range(6000)) for group in _GROUPS}  # More than are changed at once.
    for number in (1, 2, 3):
        part = slice(0, 6000 // number)
        rows = {group: (keys[group][part], _rows(group, 6000 // number, number)) for group in _GROUPS}
        gone = {} if number < 3 else {group: keys[group][5000:5100] for group in _GROUPS}
        dense = np.linspace(-1, 1, _size_of_dense(present), dtype=np.float32) * number
        publish(versions, number, rows, removed=gone, dense=dense)
        assert following.apply_new() == 1
    away, late = _served(version)
    assert _state(away) != _state(present)
    assert late.apply_new() == 3
    assert _state(away) == _state(present)
    assert late.state.place == following.state.place
    assert (late.state.rows, late.state.removed) == (2 * (6000 + 3000 + 2000), 200)
    assert (late.state.place.number, late.state.newest_event, late.state.problem) == (3, 1_700_000_003, "")
    direct, _ = _served(version)
    for group in _GROUPS:
        for number in (1, 2, 3):
            values = _rows(group, 6000 // number, number)
            _call(direct, f"upsert_{group}", keys=keys[group][: 6000 // number], rows=values)
        _call(direct, f"remove_{group}", keys=keys[group][5000:5100])
    _call(direct, "replace_dense", flat=np.linspace(-1, 1, _size_of_dense(direct), dtype=np.float32) * 3)
    assert _state(direct) == _state(present)


def test_a_delta_that_is_applied_again_changes_nothing(version: Path) -> None:
    model, following = _served(version)
    before = _state(model)
    dense = np.full(_size_of_dense(model), 0.03, np.float32)
    rows = {"adagrad_8": (_keys("adagrad_8", 1, 2), _rows("adagrad_8", 2, 0))}
    publish(version.parent, 1, rows, removed={"adagrad_4": _keys("adagrad_4", 3)}, dense=dense)
    following.apply_new()
    after = _state(model)
    assert after != before
    from components.server.deltas import Deltas

    assert Deltas(model, version).apply_new() == 1
    assert _state(model) == after


def test_a_gap_is_waited_for(version: Path) -> None:
    versions, keys = version.parent, _keys("adagrad_8", 7)
    _, following = _served(version)
    for number in (1, 2, 3):
        publish(versions, number, {"adagrad_8": (keys, _rows("adagrad_8", 1, number))})
    missing, aside = deltas.path_of(versions, LINEAGE, 2), versions / "aside"
    missing.rename(aside)
    following.apply_new()
    assert (following.state.reason, following.state.place.number) == ("gap", 1)
    aside.rename(missing)
    assert following.apply_new() == 2
    assert (following.state.reason, following.state.place.number) == ("", 3)


def _flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda path: _flip(path / "adagrad_8.0.rows.npy"), "damaged"),
        (lambda path: (path / "adagrad_8.0.keys.npy").unlink(), "damaged"),
        (lambda path: (path / "delta.json").write_text("{"), "damaged"),
    ],
)
def test_a_damaged_delta_is_not_applied_until_it_is_restored(
    version: Path, damage: Callable[[Path], None], reason: str
) -> None:
    import shutil

    versions, keys = version.parent, _keys("adagrad_8", 7)
    model, following = _served(version)
    before = _state(model)
    publish(versions, 1, {"adagrad_8": (keys, _rows("adagrad_8", 1, 5))})
    path = deltas.path_of(versions, LINEAGE, 1)
    shutil.copytree(path, versions / "backup")
    damage(path)
    following.apply_new()
    assert (following.state.reason, following.state.place.number) == (reason, 0)
    assert str(path) in following.state.problem
    assert _state(model) == before
    shutil.rmtree(path)
    (versions / "backup").rename(path)
    assert following.apply_new() == 1
    assert following.state.problem == ""


def test_a_delta_of_another_base_is_refused(version: Path) -> None:
    versions = version.parent
    model, following = _served(version)
    (version / "manifest.json").write_text((version / "manifest.json").read_text() + " ")
    publish(versions, 1, {"adagrad_8": (_keys("adagrad_8", 7), _rows("adagrad_8", 1, 5))})
    assert following.apply_new() == 0
    assert following.state.reason == "foreign"
    assert of_group("upsert", "adagrad_8", 2) in model.signatures
