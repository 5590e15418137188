"""What goes into a delta, and what is told again after a kill; one rank, in this process."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sangam.schemas.contracts import deltas
from sangam.trainer_module.transforms.keys import ID_BITS
from tests.trainer_module.online.streams import LINEAGE, online_job
from tests.trainer_module.sample_job import declared

pytestmark = pytest.mark.slow
tf = pytest.importorskip("tensorflow")

_HEADER_BYTES = 128
"""Of a file of NumPy."""


@pytest.fixture(scope="module")
def trainer() -> Any:
    from sangam.trainer_module import collectives
    from sangam.trainer_module.loop.in_step import InStepTrainer
    from sangam.trainer_module.ranker import Ranker

    collectives.start()
    return InStepTrainer(Ranker(declared()), rank=0, ranks=1, track_changes=True)


@pytest.fixture
def publisher(trainer: Any, tmp_path: Path) -> Any:
    """A publisher of a training that starts from its base, in which nothing has changed."""
    for store in trainer.tables.stores.values():
        store.mark(tf.range(1, store.end), False)
    return _begun(trainer, tmp_path, after_segment=0)


def _begun(trainer: Any, tmp_path: Path, *, after_segment: int) -> Any:
    from sangam.trainer_module.online.publishing import Publisher

    directory = tmp_path / "job"
    job = online_job(directory, declared(), base=tmp_path) if not directory.exists() else _job(directory)
    made = Publisher(job, trainer)
    made.begin(after_segment=after_segment)
    return made


def _job(directory: Path) -> Any:
    from sangam.schemas.contracts.training_job import read_job

    return read_job(directory / "job.json")


def _versions(tmp_path: Path) -> Path:
    return tmp_path / "job" / "versions"


def _touch(trainer: Any, *ids: int) -> list[int]:
    """Makes or touches rows of users; returns their keys."""
    store, tag = trainer.tables.stores["adagrad_8"], declared().table_tags()["users"]
    keys = tf.constant([tag << ID_BITS | number for number in ids], tf.int64)
    store.mark(store.find_or_make(keys, None, tf.constant(1, tf.int64)), True)
    return [int(key) for key in keys.numpy()]


def _publish(publisher: Any, segment: int, *, dense: bool = False) -> tuple[bool, deltas.Delta]:
    is_whole = publisher.publish(dense=dense, segment=segment, newest_event=None, examples=segment)
    return is_whole, deltas.read(publisher._versions, LINEAGE, publisher.number)


def _keys(tmp_path: Path, delta: deltas.Delta) -> list[int]:
    from sangam.trainer_module.online.delta_files import arrays

    return [int(key) for part in arrays(_versions(tmp_path), delta, "adagrad_8", "keys") for key in part]


def test_a_deltas_bytes_are_those_of_the_rows_touched(publisher: Any, trainer: Any) -> None:
    for number, count in enumerate((10, 1000, 10), 1):
        _touch(trainer, *range(1, count + 1))
        _, delta = _publish(publisher, number)
        assert {name: file.bytes for name, file in delta.files.items()} == {
            "adagrad_8.0.keys.npy": _HEADER_BYTES + 8 * count,
            "adagrad_8.0.rows.npy": _HEADER_BYTES + 4 * 8 * count,
        }
    assert _publish(publisher, 4)[1].files == {}
    _, delta = _publish(publisher, 5, dense=True)
    assert delta.files["dense.npy"].bytes == _HEADER_BYTES + 4 * trainer.ranker.weights.size


def test_a_delta_that_lacks_changes_says_so_and_the_next_is_whole(publisher: Any, trainer: Any, tmp_path: Path) -> None:
    _touch(trainer, 1)
    trainer.tables.stores["adagrad_8"].removed.lose()
    is_whole, delta = _publish(publisher, 1)
    assert (is_whole, delta.is_whole) == (False, False)
    two = _touch(trainer, 2)
    is_whole, delta = _publish(publisher, 2)
    assert (is_whole, delta.is_whole, _keys(tmp_path, delta)) == (True, True, two)


def test_what_came_after_the_checkpoint_is_told_again_and_no_more(publisher: Any, trainer: Any, tmp_path: Path) -> None:
    for segment in (1, 2, 3, 4):
        _touch(trainer, segment)
        _publish(publisher, segment)
    assert not _begun(trainer, tmp_path, after_segment=4).has_changes
    again = _begun(trainer, tmp_path, after_segment=2)
    assert (again.number, again.has_changes) == (4, True)
    is_whole, delta = _publish(again, 2)
    assert (is_whole, sorted(_keys(tmp_path, delta))) == (True, _touch(trainer, 3, 4))
    trainer.tables.stores["adagrad_8"].mark(tf.range(1, 9, dtype=tf.int64), False)
    assert not _begun(trainer, tmp_path, after_segment=2).has_changes  # Delta 5 has told it again.


@pytest.mark.parametrize("damage", ["a file is damaged", "deltas are gone"])
def test_where_it_is_not_known_what_to_tell_again_a_full_version_must_follow(
    publisher: Any, trainer: Any, tmp_path: Path, damage: str
) -> None:
    import shutil

    for segment in (1, 2, 3):
        _touch(trainer, segment)
        _publish(publisher, segment)
    if damage == "a file is damaged":
        (deltas.path_of(_versions(tmp_path), LINEAGE, 3) / "adagrad_8.0.keys.npy").write_bytes(b"")
    else:
        shutil.rmtree(deltas.path_of(_versions(tmp_path), LINEAGE, 1))
    again = _begun(trainer, tmp_path, after_segment=0)
    assert again.has_changes
    assert _publish(again, 0)[0] is False


def test_removed_keys_are_told_unless_they_have_a_row_again(publisher: Any, trainer: Any, tmp_path: Path) -> None:
    from sangam.trainer_module.online.delta_files import arrays

    keys, store = _touch(trainer, 1, 2, 3, 4), trainer.tables.stores["adagrad_8"]
    _publish(publisher, 1)
    store.removed.add(np.array([keys[0], 99], np.int64))  # The first one has a row: it was made anew.
    _, delta = _publish(publisher, 2)
    [removed] = arrays(_versions(tmp_path), delta, "adagrad_8", "removed")
    assert removed.tolist() == [99]
