"""Deltas as a server applies them: in order, whole, and with the same result whenever they come."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sangam.schemas.contracts import deltas
from sangam.schemas.contracts.export import of_group
from sangam.schemas.contracts.training_job import TrainJob
from tests.trainer_module.serving.sample_deltas import LINEAGE, publish, push

pytestmark = pytest.mark.slow
tf = pytest.importorskip("tensorflow")

Exported = Callable[[str, str], TrainJob]
_GROUPS = {"adagrad_4": ("tags", 4), "adagrad_8": ("users", 8)}


in_both_forms = pytest.mark.parametrize(
    "version", ["stock", pytest.param("tfra", marks=pytest.mark.long)], indirect=True
)
"""What is done with deltas around their tables' signatures is the same in both forms."""


@pytest.fixture
def version(request: pytest.FixtureRequest, exported: Exported, tmp_path: Path) -> Path:
    """The folder of a pushed version, alone in its folder of versions."""
    form = getattr(request, "param", "stock")
    return push(Path(exported(form, "float32").model_dir), tmp_path / "versions")


def _keys(group: str, *numbers: int) -> np.ndarray:
    """Returns the keys of ids, of which the first ones have rows in the version: u0 to u39, t0 to t19."""
    from sangam.trainer_module.transforms.keys import id_keys
    from tests.trainer_module.serving.sample_training import declared

    table = _GROUPS[group][0]
    ids = tf.constant([f"{table[0]}{number}" for number in numbers])
    keys: np.ndarray = id_keys(declared().table_tags()[table], ids).numpy()
    return keys


def _rows(group: str, count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, _GROUPS[group][1])).astype(np.float32)


def _served(version: Path) -> tuple[Any, Any]:
    from sangam.components.server.deltas import Deltas
    from sangam.components.server.model import LoadedModel

    model = LoadedModel(version, int(version.name))
    return model, Deltas(model, version)


def _call(model: Any, signature: str, **arrays: Any) -> dict[str, np.ndarray]:
    answer: dict[str, np.ndarray] = model.signatures[signature].call(
        {name: np.asarray(array) for name, array in arrays.items()}
    )
    return answer


def _state(model: Any) -> dict[str, bytes]:
    """Returns scores of examples with each id, known or not, and the tables' sizes."""
    from tests.trainer_module.serving.sample_training import encoded, rows

    every = [row | {"User ID": [f"u{n % 70}"], "tags": [f"t{n % 30}"]} for n, row in enumerate(rows(300, seed=9))]
    examples = [encoded(row) for row in every]
    scores = _call(model, "serving_default", examples=examples)
    return {name: array.tobytes() for name, array in (scores | _call(model, "table_size")).items()}


def _size_of_dense(model: Any) -> int:
    return int(model.signatures["replace_dense"].inputs["flat"].lengths[0])


@in_both_forms
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
    from sangam.components.server.deltas import Deltas

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


def test_a_delta_that_is_published_while_a_server_looks_is_no_gap(
    version: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = _keys("adagrad_8", 7)
    _, following = _served(version)
    published = deltas.published

    def meanwhile(folder: Path, lineage: str) -> list[int]:
        if not published(folder, lineage):
            publish(folder, 1, {"adagrad_8": (keys, _rows("adagrad_8", 1, 1))})
        return published(folder, lineage)

    monkeypatch.setattr(deltas, "published", meanwhile)
    assert following.apply_new() == 1
    assert (following.state.reason, following.state.place.number) == ("", 1)


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
        (lambda path: (path / "delta.json").write_text("[" * 100_000), "damaged"),
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
    manifest = json.loads((version / "manifest.json").read_bytes())
    (version / "manifest.json").write_text(json.dumps(manifest | {"version": "other"}))
    publish(versions, 1, {"adagrad_8": (_keys("adagrad_8", 7), _rows("adagrad_8", 1, 5))})
    assert following.apply_new() == 0
    assert following.state.reason == "foreign"
    assert of_group("upsert", "adagrad_8", 2) in model.signatures


@pytest.mark.parametrize(
    ("changes", "reason"), [({"is_whole": False}, "not_whole"), ({"dense": np.zeros(3, np.float32)}, "foreign")]
)
def test_a_delta_that_does_not_fit_changes_nothing(version: Path, changes: dict[str, Any], reason: str) -> None:
    model, following = _served(version)
    before = _state(model)
    publish(version.parent, 1, {"adagrad_8": (_keys("adagrad_8", 7), _rows("adagrad_8", 1, 5))}, **changes)
    assert following.apply_new() == 0
    assert (following.state.reason, following.state.place.number) == (reason, 0)
    assert _state(model) == before


def _server(version: Path) -> Any:
    """Returns what a server does with a folder of versions, without its thread."""
    from sangam.components.server.metrics import Metrics
    from sangam.components.server.versions import Versions

    watching = Versions(name="served", folder=version.parent, poll_s=1.0, metrics=Metrics(), changed=lambda: None)
    watching._check()
    return watching


@pytest.mark.long
def test_after_a_delta_that_fails_half_way_the_last_whole_state_is_served(
    version: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sangam.components.server.deltas import Deltas

    keys = {number: (_keys("adagrad_8", *range(50)), _rows("adagrad_8", 50, number)) for number in (1, 2, 3)}
    present = _server(version)
    for number in (1, 2, 3):
        dense = np.full(_size_of_dense(present.ready()), 0.01 * number, np.float32)
        publish(version.parent, number, {"adagrad_8": keys[number]}, dense=dense)
    apply, loads = Deltas._call, []

    def fails(self: Deltas, signature: str, **arrays: Any) -> None:
        """Fails in delta 2, once its rows are in the table."""
        if signature == "replace_dense" and arrays["flat"][0] == np.float32(0.02):
            loads.append(1)
            raise RuntimeError("out of memory")
        apply(self, signature, **arrays)

    monkeypatch.setattr(Deltas, "_call", fails)
    present._follow_deltas()
    for watching in (present, _server(version)):
        for _ in range(2):  # It is not tried again.
            state = watching.deltas().state
            assert (state.place.number, state.reason) == (1, "failed")
            watching._follow_deltas()
    assert len(loads) == 2
    wanted = present.ready()
    monkeypatch.undo()
    alone, _ = _served(version)
    _call(alone, "upsert_adagrad_8", keys=keys[1][0], rows=keys[1][1])
    _call(alone, "replace_dense", flat=np.full(_size_of_dense(alone), 0.01, np.float32))
    assert _state(wanted) == _state(alone)
    assert _state(_server(version).ready()) != _state(alone)  # A new process tries again.


@pytest.mark.long
def test_a_server_that_loads_a_full_version_and_few_deltas_equals_one_that_has_applied_all(
    version: Path, served_world: Path, tmp_path: Path
) -> None:
    import shutil

    from sangam.components.registry import seal
    from sangam.trainer_module.export import export
    from tests.trainer_module.serving.sample_training import declared, embeddings, job_of, write_checkpoint

    versions = version.parent
    present, behind = _server(version), _server(version)
    rows = {name: dict(zip(keys.tolist(), vectors, strict=True)) for name, (keys, vectors) in embeddings().items()}

    def delta(number: int) -> None:
        keys = _keys("adagrad_8", *range(3 * number, 60))
        gone = embeddings()["adagrad_8"][0][number : number + 2]
        gone = gone[~np.isin(gone, keys)]
        values = _rows("adagrad_8", len(keys), number)
        publish(versions, number, {"adagrad_8": (keys, values)}, removed={"adagrad_8": gone})
        for key in gone.tolist():
            rows["adagrad_8"].pop(key, None)
        rows["adagrad_8"] |= dict(zip(keys.tolist(), values, strict=True))
        present._follow_deltas()

    for number in (1, 2, 3):
        delta(number)
    job = job_of(tmp_path / "full", served_world, declared(form="stock", rows="float32"))
    job = job.model_copy(update={"final_checkpoint": str(tmp_path / "checkpoint"), "check_files": ()})
    learned = {name: (np.array(list(held)), np.array(list(held.values()))) for name, held in rows.items()}
    write_checkpoint(tmp_path / "checkpoint", job.ranker, learned)
    Path(job.output_dir).mkdir(parents=True)
    export(job)
    deltas.write_lineage(Path(job.model_dir), versions, LINEAGE, 3)
    full = push(Path(job.model_dir), tmp_path / "aside", "20240301002")
    full.rename(versions / "20240301002")
    assert seal.difference(versions / "20240301002") is None
    away = _server(version)
    assert (away.ready().version, away.deltas().state.place) == (20240301002, present.deltas().state.place)
    assert _state(away.ready()) == _state(present.ready())
    delta(4)
    away._follow_deltas()
    assert present.ready().version == int(LINEAGE)  # It has never loaded another one.
    assert (away.deltas().state.place.number, away.deltas().state.rows) == (4, 48)
    assert _state(away.ready()) == _state(present.ready())
    for number in (1, 2, 3):
        shutil.rmtree(deltas.path_of(versions, LINEAGE, number))
    behind._follow_deltas()
    assert behind.deltas().state.reason == "gap"
    behind._check()
    assert _state(behind.ready()) == _state(present.ready())


@pytest.mark.long
def test_a_server_that_was_away_for_long_applies_all_that_it_lacks_before_it_answers(version: Path) -> None:
    keys, missed = _keys("adagrad_8", *range(5)), 120
    for number in range(1, missed + 1):
        publish(version.parent, number, {"adagrad_8": (keys, _rows("adagrad_8", 5, number))})
    back = _server(version)
    assert back.deltas().state.place.number == missed
    alone, _ = _served(version)
    _call(alone, "upsert_adagrad_8", keys=keys, rows=_rows("adagrad_8", 5, missed))
    assert _state(back.ready()) == _state(alone)


def test_a_hold_that_cannot_be_read_is_told_and_no_delta_is_applied_until_it_can(version: Path) -> None:
    publish(version.parent, 1, {"adagrad_8": (_keys("adagrad_8", 1), _rows("adagrad_8", 1, 1))})
    _, following = _served(version)
    hold = deltas.lineage_folder(version.parent, LINEAGE) / deltas.HOLD_FILE
    hold.write_text("{")
    assert (following.must_go_back(), following.apply_new()) == (False, 0)
    assert (following.state.reason, following.state.place.number) == ("damaged", 0)
    assert str(hold) in following.state.problem
    hold.unlink()
    assert (following.apply_new(), following.state.problem) == (1, "")
