"""Rows as they are served, in both forms and all types."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sangam.trainer_module.checkpoint.files import CheckpointError
from sangam.trainer_module.checkpoint.manifest import read_manifest
from sangam.trainer_module.checkpoint.writer import write
from tests.trainer_module.checkpoint.sample_checkpoints import GROUPS, all_rows, contents, spread, write_all

pytestmark = pytest.mark.slow
tf = pytest.importorskip("tensorflow")

FORMS = ("stock", "tfra")
_TAG = 1 << 52


def _group(name: str = "sgd_2", dim: int = 2, **defaults: float):  # type: ignore[no-untyped-def]
    from sangam.schemas.derived.groups import Group
    from sangam.schemas.spec.optimizers import Sgd
    from sangam.schemas.spec.tables import Table

    tables = {table: Table(dim=dim, default_value=value) for table, value in defaults.items()}
    return Group(
        name=name,
        dim=dim,
        tags={table: tag for tag, table in enumerate(tables, start=1)},
        tables=tables,
        optimizers={table: Sgd(kind="sgd", learning_rate=0.1) for table in tables},
        num_slot_floats=0,
    )


def _table(form: str, keys: Any, rows: Any, group: Any, stored: Any = "float32") -> Any:
    from sangam.trainer_module.serving.stock_table import StockTable
    from sangam.trainer_module.serving.tfra_table import TfraTable
    from sangam.trainer_module.serving.trained_rows import TrainedRows

    keys, rows = np.asarray(keys, np.int64), np.asarray(rows, np.float32).reshape(-1, group.dim)
    halves = [slice(0, len(keys) // 2), slice(len(keys) // 2, None)]
    trained = TrainedRows(keys, lambda: iter([rows[half] for half in halves]))
    if form == "stock":
        return StockTable(group, stored, trained)
    table = TfraTable(group, stored, trained)
    table.fill()
    return table


def _of_posts(form: str, stored: str = "float32") -> Any:
    """Returns rows [1, 2] and [3, 4] of keys 7 and 8 of one table, not in the order of the keys."""
    return _table(form, [_TAG | 8, _TAG | 7], [[3, 4], [1, 2]], _group(posts=0.5), stored)


def _keys(*low: int) -> Any:
    return tf.constant([_TAG | key for key in low], tf.int64)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("num_rows", [0, 2])
def test_an_id_without_a_row_reads_as_its_tables_default_and_an_absent_id_as_zeros(form: str, num_rows: int) -> None:
    keys = [3 * _TAG | 7, _TAG | 7][:num_rows]
    table = _table(form, keys, [[3, 4], [1, 2]][:num_rows], _group(posts=0.5, tags=0.0, users=-2.0))
    asked = tf.constant([3 * _TAG | 7, 2 * _TAG | 7, 0, 3 * _TAG | 8, _TAG | 7, _TAG | 8], tf.int64)
    expected = [[3, 4], [0, 0], [0, 0], [-2, -2], [1, 2], [0.5, 0.5]]
    if num_rows == 0:
        expected[0], expected[4] = [-2, -2], [0.5, 0.5]
    np.testing.assert_array_equal(table(asked).numpy(), expected)
    assert table.find(asked)[1].numpy().tolist() == [num_rows > 0, False, False, False, num_rows > 0, False]
    assert int(table.num_rows()) == num_rows


@pytest.mark.parametrize("stored", ["float32", "float16", "int8"])
@pytest.mark.parametrize("form", FORMS)
def test_rows_come_change_and_go(form: str, stored: str) -> None:
    table = _of_posts(form, stored)
    assert int(table.upsert(_keys(8, 9), tf.constant([[-5.0, 5.0], [6.0, -6.0]]))) == 2
    np.testing.assert_allclose(table(_keys(7, 8, 9, 10)), [[1, 2], [-5, 5], [6, -6], [0.5, 0.5]], atol=0.01)
    assert int(table.num_rows()) == 3
    assert int(table.remove(_keys(7, 9, 10))) == 2
    np.testing.assert_allclose(table(_keys(7, 8, 9)), [[0.5, 0.5], [-5, 5], [0.5, 0.5]], atol=0.05)
    assert int(table.num_rows()) == 1
    assert int(table.upsert(_keys(7), tf.constant([[8.0, 8.0]]))) == 1
    assert table.find(_keys(7, 8, 9))[1].numpy().tolist() == [True, True, False]
    assert int(table.num_rows()) == 2


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("keys", "rows", "message"),
    [
        ([7], [[1.0, 2.0], [3.0, 4.0]], "one row for each key"),
        ([7, 7], [[1.0, 2.0], [3.0, 4.0]], "twice"),
        ([7], [[1.0, np.nan]], "NaN"),
        ([5 * _TAG], [[1.0, 2.0]], "keys .*posts"),
        ([-_TAG], [[1.0, 2.0]], "keys .*posts"),
    ],
)
def test_what_cannot_be_upserted_is_refused_before_any_row_changes(
    form: str, keys: list[int], rows: list[list[float]], message: str
) -> None:
    table = _of_posts(form)
    upsert = tf.function(table.upsert, autograph=False)
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        upsert(_keys(*keys), tf.constant(rows))
    np.testing.assert_array_equal(table(_keys(7, 8)), [[1, 2], [3, 4]])


@pytest.mark.parametrize("form", FORMS)
def test_a_key_of_another_group_cannot_be_removed(form: str) -> None:
    remove = tf.function(_of_posts(form).remove, autograph=False)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"remove: .*posts"):
        remove(tf.constant([0], tf.int64))


@pytest.mark.parametrize("form", FORMS)
def test_reads_between_changes_see_whole_rows_and_insert_nothing(form: str) -> None:
    """Every row holds one number; a reader that sees two has seen half a change."""
    group = _group("sgd_16", 16, posts=0.5)
    table = _table(form, _TAG | np.arange(100), np.ones([100, 16]), group)
    read = tf.function(table.__call__, input_signature=[tf.TensorSpec([None], tf.int64)], autograph=False)
    upsert = tf.function(table.upsert, autograph=False)
    remove = tf.function(table.remove, autograph=False)
    changing, strangers = tf.constant(_TAG | np.arange(50, 150)), tf.constant(_TAG | np.arange(1000, 1100))
    ended, mixed = threading.Event(), []

    def keep_reading() -> None:
        while not ended.is_set():
            rows = read(changing).numpy()
            if np.any(rows != rows[:, :1]) or not set(np.unique(rows)) <= {0.5, 1.0, *range(2, 40)}:
                mixed.append(rows)
            if np.any(read(strangers).numpy() != 0.5):
                mixed.append("a stranger has a row")

    readers = [threading.Thread(target=keep_reading) for _ in range(4)]
    for reader in readers:
        reader.start()
    for value in range(2, 40):
        upsert(changing, tf.fill([100, 16], float(value)))
        remove(changing[::2])
    ended.set()
    for reader in readers:
        reader.join(60)
    assert not mixed
    assert int(table.num_rows()) == 50 + 50


@pytest.mark.parametrize("form", FORMS)
def test_smaller_rows_are_within_their_bounds(form: str) -> None:
    generator = np.random.default_rng(0)
    rows = (generator.normal(size=[300, 16]) * 10.0 ** generator.integers(-6, 3, [300, 1])).astype(np.float32)
    rows[0] = 0.0
    group = _group("sgd_16", 16, posts=0.5)
    keys = _TAG | np.arange(300)
    half = _table(form, keys, rows, group, "float16")(tf.constant(keys)).numpy()
    assert np.all(np.abs(half - rows) <= np.maximum(np.abs(rows) * 2.0**-11, 2.0**-25))
    small = _table(form, keys, rows, group, "int8")(tf.constant(keys)).numpy()
    step = np.abs(rows).max(axis=1, keepdims=True) / 127
    assert np.all(np.abs(small - rows) <= step / 2 * (1 + 1e-5))
    np.testing.assert_array_equal(small[0], 0.0)


@pytest.mark.parametrize("stored", ["float16", "int8"])
def test_a_row_reads_the_same_trained_or_upserted_in_either_form(stored: str) -> None:
    rows = np.random.default_rng(1).normal(size=[20, 16]).astype(np.float32)
    group, keys = _group("sgd_16", 16, posts=0.5), _TAG | np.arange(20)
    trained = [_table(form, keys, rows, group, stored) for form in FORMS]
    upserted = [_table(form, keys[:3], rows[3:6], group, stored) for form in FORMS]
    for table in upserted:
        table.upsert(tf.constant(keys), tf.constant(rows))
    read = [table(tf.constant(keys)).numpy() for table in (*trained, *upserted)]
    for other in read[1:]:
        np.testing.assert_array_equal(other, read[0])


def test_a_half_too_large_for_its_type_is_the_largest() -> None:
    table = _table("stock", [_TAG], [[1e6, -1e6]], _group(posts=0.0), "float16")
    np.testing.assert_array_equal(table(_keys(0)), [[65504, -65504]])


def test_the_rows_of_all_ranks_are_read_without_slots(tmp_path: Path) -> None:
    from sangam.trainer_module.serving.trained_rows import read_trained

    write_all(tmp_path / "c", spread(3), ranks=3)
    keys, rows = all_rows("adagrad_4")
    trained = read_trained(tmp_path / "c", read_manifest(tmp_path / "c"), _group("adagrad_4", 4, tags=0.0))
    got = np.empty([len(keys), 4], np.float32)
    for part, block in trained.parts():
        got[part] = block
    np.testing.assert_array_equal(trained.keys[np.argsort(trained.keys)], np.sort(keys))
    in_order = got[np.argsort(trained.keys)].view(np.uint32)
    np.testing.assert_array_equal(in_order, rows[np.argsort(keys), :4].view(np.uint32))


def test_a_key_with_two_owners_is_refused(tmp_path: Path) -> None:
    from sangam.trainer_module.serving.trained_rows import read_trained

    for rank in (1, 0):
        owners = {name: np.full(500, rank) for name in GROUPS}
        write(tmp_path / "c", contents(owners, rank=rank, ranks=2), rank, deadline_s=1.0)
    group = _group("adagrad_4", 4, tags=0.0)
    with pytest.raises(CheckpointError, match=r"adagrad_4 .*two owners"):
        read_trained(tmp_path / "c", read_manifest(tmp_path / "c"), group)


def test_rows_that_were_altered_on_the_disk_are_refused(tmp_path: Path) -> None:
    from sangam.trainer_module.serving.trained_rows import read_trained

    write_all(tmp_path / "c", spread(2), ranks=2)
    file = next((tmp_path / "c").glob("rank-00001.adagrad_4.rows.npy"))
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    trained = read_trained(tmp_path / "c", read_manifest(tmp_path / "c"), _group("adagrad_4", 4, tags=0.0))
    with pytest.raises(CheckpointError, match="checksum"):
        list(trained.parts())
