"""The exported form of the tables."""

from pathlib import Path

import numpy as np
import pytest

from tests.trainer_module.fabricated import GROUPS, all_rows, contents, spread, write_all
from trainer_module.checkpoint.files import CheckpointError
from trainer_module.checkpoint.manifest import read_manifest
from trainer_module.checkpoint.writer import write

pytestmark = pytest.mark.slow
tf = pytest.importorskip("tensorflow")


def _group(name: str = "sgd_2", dim: int = 2, **defaults: float):  # type: ignore[no-untyped-def]
    from schemas.groups import Group
    from schemas.optimizers import Sgd
    from schemas.tables import Table

    tables = {table: Table(dim=dim, default_value=value) for table, value in defaults.items()}
    return Group(
        name=name,
        dim=dim,
        tags={table: tag for tag, table in enumerate(tables, start=1)},
        tables=tables,
        optimizers={table: Sgd(kind="sgd", learning_rate=0.1) for table in tables},
        num_slot_floats=0,
    )


@pytest.mark.parametrize("num_rows", [0, 2])
def test_an_id_without_a_row_reads_as_its_tables_default_and_an_absent_id_as_zeros(num_rows: int) -> None:
    from trainer_module.export import FrozenTable

    keys = np.array([(1 << 52) | 7, (3 << 52) | 7])[:num_rows]
    rows = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)[:num_rows]
    table = FrozenTable(keys, rows, _group(posts=0.5, tags=0.0, users=-2.0))
    asked = tf.constant([(3 << 52) | 7, (2 << 52) | 7, 0, (3 << 52) | 8, (1 << 52) | 7, (1 << 52) | 8], tf.int64)
    expected = [[3, 4], [0, 0], [0, 0], [-2, -2], [1, 2], [0.5, 0.5]]
    if num_rows == 0:
        expected[0], expected[4] = [-2, -2], [0.5, 0.5]
    np.testing.assert_array_equal(table(asked).numpy(), expected)


def test_the_rows_of_all_ranks_are_read_in_the_order_of_their_keys_without_slots(tmp_path: Path) -> None:
    from trainer_module.export import embeddings_of

    write_all(tmp_path / "c", spread(3), ranks=3)
    keys, rows = all_rows("adagrad_4")
    group = _group("adagrad_4", 4, tags=0.0)
    got_keys, got = embeddings_of(tmp_path / "c", read_manifest(tmp_path / "c"), group)
    order = np.argsort(keys)
    np.testing.assert_array_equal(got_keys, keys[order])
    np.testing.assert_array_equal(got.view(np.uint32), rows[order, :4].view(np.uint32))


def test_a_key_with_two_owners_is_refused(tmp_path: Path) -> None:
    from trainer_module.export import embeddings_of

    for rank in (1, 0):
        owners = {name: np.full(500, rank) for name in GROUPS}
        write(tmp_path / "c", contents(owners, rank=rank, ranks=2), rank, deadline_s=1.0)
    group = _group("adagrad_4", 4, tags=0.0)
    with pytest.raises(CheckpointError, match="a key of adagrad_4 has two owners"):
        embeddings_of(tmp_path / "c", read_manifest(tmp_path / "c"), group)
