"""From a checkpoint to any number of ranks, bit by bit."""

from pathlib import Path

import numpy as np
import pytest

from sangam.trainer_module.checkpoint.files import CheckpointError
from sangam.trainer_module.checkpoint.manifest import read_manifest
from tests.errors import place_and_value
from tests.trainer_module.checkpoint.sample_checkpoints import GROUPS, all_rows, by_key, contents, spread, write_all

pytestmark = pytest.mark.slow
tf = pytest.importorskip("tensorflow")


@pytest.mark.parametrize("before", [1, 2, 3, 4])
@pytest.mark.parametrize("after", [1, 2, 3, 4])
def test_every_row_comes_back_bit_by_bit_to_its_one_owner(tmp_path: Path, before: int, after: int) -> None:
    from sangam.trainer_module.checkpoint.restore import read_snapshot

    owners = spread(before)
    write_all(tmp_path / "c", owners, ranks=before)
    found = [
        read_snapshot(tmp_path / "c", read_manifest(tmp_path / "c"), rank=rank, ranks=after) for rank in range(after)
    ]
    new_owners = spread(after)
    for name in GROUPS:
        keys, rows = all_rows(name)
        for rank, snapshot in enumerate(found):
            got = by_key(snapshot.groups[name])
            mine = new_owners[name] == rank
            expected = np.argsort(keys[mine])
            np.testing.assert_array_equal(got.keys, keys[mine][expected])
            np.testing.assert_array_equal(got.rows.view(np.uint32), rows[mine][expected].view(np.uint32), err_msg=name)
        # Counters of statistics add up over the ranks.
        admitted = sum(snapshot.groups[name].extra["count_admitted"] for snapshot in found)
        np.testing.assert_array_equal(admitted, [0, before * (before + 1) // 2, before * 10])
    written = contents(owners, rank=0, ranks=before).snapshot
    for snapshot in found:
        assert snapshot.step == 7
        assert snapshot.dense.keys() == written.dense.keys()
        for name, array in written.dense.items():
            np.testing.assert_array_equal(snapshot.dense[name], array)
        assert {name: array.tolist() for name, array in snapshot.extra.items()} == {"newest_minute": [28_000_000]}


@pytest.mark.parametrize(
    ("after", "cells"), [(4, [1, 2, 3, 4]), (2, [1 + 2, 3 + 4]), (8, [1, 1, 2, 2, 3, 3, 4, 4]), (3, [3, 5, 7])]
)
def test_a_rank_counts_on_from_the_sketches_of_those_that_had_its_ids(
    tmp_path: Path, after: int, cells: list[int]
) -> None:
    from sangam.trainer_module.checkpoint.restore import read_snapshot

    write_all(tmp_path / "c", spread(4), ranks=4)
    for rank, times in enumerate(cells):
        found = read_snapshot(tmp_path / "c", read_manifest(tmp_path / "c"), rank=rank, ranks=after)
        np.testing.assert_array_equal(found.groups["adam_8"].extra["sketch_cells"], np.arange(6) * times)


def test_the_batches_of_all_ranks_are_told_to_each(tmp_path: Path) -> None:
    from sangam.trainer_module.checkpoint.restore import read_batches, read_history_arrays

    write_all(tmp_path / "c", spread(3), ranks=3)
    held = read_manifest(tmp_path / "c")
    assert read_batches(tmp_path / "c", held).tolist() == [[0, 0], [0, 1], [1, 0], [1, 1], [2, 0], [2, 1]]
    assert read_history_arrays(tmp_path / "c", held)["history_losses"].shape == (2, 2)
    assert (held.position.epoch, held.position.examples) == (1, 96)


def test_rows_of_a_wrong_owner_are_refused(tmp_path: Path) -> None:
    from sangam.trainer_module.checkpoint.restore import read_snapshot

    wrong = {name: 1 - owners for name, owners in spread(2).items()}
    write_all(tmp_path / "c", wrong, ranks=2)
    with pytest.raises(CheckpointError, match=r"rank 0 .*adagrad_4"):
        read_snapshot(tmp_path / "c", read_manifest(tmp_path / "c"), rank=0, ranks=2)


@pytest.mark.parametrize(
    ("changed", "place", "value"),
    [
        ({"dim": 16}, "tables.posts.dim", "(got 16; base has 8)"),
        ({"optimizer": "ftrl"}, "tables.posts.optimizer.kind", "(got ftrl; base has adam)"),
    ],
)
def test_a_table_of_another_dimension_or_optimizer_is_refused(
    changed: dict[str, object], place: str, value: str
) -> None:
    from sangam.trainer_module.checkpoint.layout import refuse_changed_tables

    wanted = {"new": GROUPS["adam_8"].model_copy(update=changed)}
    with pytest.raises(CheckpointError, match=place_and_value(place, value)):
        refuse_changed_tables(GROUPS, wanted, source="base")
    refuse_changed_tables(
        GROUPS, {"other": wanted["new"].model_copy(update={"tables": {"strangers": 1}})}, source="base"
    )
