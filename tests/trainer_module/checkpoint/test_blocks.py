"""Rows in blocks by owner: a rank of any number of ranks reads its own rows, and little else. NumPy alone."""

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from sangam.trainer_module.checkpoint import blocks
from sangam.trainer_module.checkpoint.files import CheckpointError, write_array
from sangam.trainer_module.checkpoint.manifest import Manifest, rows_file
from sangam.trainer_module.checkpoint.rows import OwnRows, write_rows
from sangam.trainer_module.snapshot import RowsOnDisk, RowsSnapshot
from tests.errors import place_and_value
from tests.trainer_module.checkpoint.sample_checkpoints import GROUPS, all_rows, by_key, manifest

GROUP, NUM_ROWS, BLOCK_ROWS = "adam_8", 20_000, 64
ROW_BYTES = 8 + 4 * GROUPS[GROUP].width
BLOCK_BYTES = BLOCK_ROWS * ROW_BYTES


def _written(folder: Path, ranks: int) -> Manifest:
    """Writes rows by as many ranks."""
    keys, rows = all_rows(GROUP, NUM_ROWS)
    files = {}
    for rank in range(ranks):
        mine = blocks.is_owned(keys, rank, ranks)
        files |= write_rows(folder, rank, GROUP, RowsSnapshot(keys[mine], rows[mine]), block_rows=BLOCK_ROWS)
    return manifest(ranks=ranks).model_copy(update={"files": files})


def _read(folder: Path, held: Manifest, rank: int, ranks: int) -> RowsSnapshot:
    own = OwnRows(folder, held, GROUP, rank=rank, ranks=ranks)
    return by_key(RowsOnDisk(own.num_rows, own.blocks, dict))


def _assert_shared_out(folder: Path, held: Manifest, ranks: int) -> None:
    """Checks that all rows come to their one owner among so many ranks, bit by bit."""
    keys, rows = all_rows(GROUP, NUM_ROWS)
    for rank in range(ranks):
        got, mine = _read(folder, held, rank, ranks), blocks.is_owned(keys, rank, ranks)
        order = np.argsort(keys[mine])
        np.testing.assert_array_equal(got.keys, keys[mine][order])
        np.testing.assert_array_equal(got.rows.view(np.uint32), rows[mine][order].view(np.uint32))


@pytest.mark.parametrize("before", [1, 2, 3, 7])
def test_all_rows_come_to_the_owners_among_any_number_of_ranks(tmp_path: Path, before: int) -> None:
    held = _written(tmp_path, before)
    for after in (1, 2, 3, 4, 7, 10):
        _assert_shared_out(tmp_path, held, after)


def test_owners_are_spread_evenly_and_every_key_has_one() -> None:
    keys, _ = all_rows(GROUP, NUM_ROWS)
    for ranks in (1, 2, 3, 7, 64):
        owned = np.array([blocks.is_owned(keys, rank, ranks) for rank in range(ranks)])
        assert (owned.sum(axis=0) == 1).all()
        assert owned.sum(axis=1).max() < NUM_ROWS / ranks + 6 * (NUM_ROWS / ranks) ** 0.5


def test_a_row_keeps_its_owner_when_the_tag_of_its_table_moves() -> None:
    keys, _ = all_rows(GROUP, NUM_ROWS)
    np.testing.assert_array_equal(blocks.is_owned(keys, 2, 5), blocks.is_owned(keys + (7 << 52), 2, 5))


@pytest.mark.parametrize(("before", "after"), [(8, 8), (8, 4), (8, 16), (8, 6), (3, 8)])
def test_a_rank_needs_no_file_of_ranks_that_had_none_of_its_keys(tmp_path: Path, before: int, after: int) -> None:
    held = _written(tmp_path, before)
    expected = _read(tmp_path, held, 1, after)
    beside = range(before // after, -(-2 * before // after))
    for other in set(range(before)) - set(beside):
        for path in tmp_path.glob(f"rank-{other:05}.*"):
            path.unlink()
    got = _read(tmp_path, held, 1, after)
    assert len(got.keys) > NUM_ROWS / after / 2
    np.testing.assert_array_equal(got.keys, expected.keys)


def _bytes_read() -> int:
    """Returns what this process has read from files so far."""
    found = re.search(r"rchar: (\d+)", Path("/proc/self/io").read_text())
    assert found
    return int(found[1])


@pytest.mark.parametrize(("before", "after"), [(1, 4), (2, 2), (4, 3), (4, 1), (1, 1)])
def test_a_rank_reads_its_share_of_the_bytes_and_at_most_two_blocks_more_of_each_writer(
    tmp_path: Path, before: int, after: int
) -> None:
    held = _written(tmp_path, before)
    index_bytes = [held.files[rows_file(part, GROUP, "blocks")].bytes for part in range(before)]
    for rank in range(after):
        started = _bytes_read()
        own = OwnRows(tmp_path, held, GROUP, rank=rank, ranks=after)
        rows = sum(len(keys) for keys, _ in own.blocks())
        read = _bytes_read() - started
        beside = blocks.ranks_beside(rank, after, before)
        # The index is read to count the rows and again to read them, and so are the keys of the blocks at the edges.
        most = rows * ROW_BYTES + sum(2 * index_bytes[part] + 4 * BLOCK_BYTES + 2000 for part in beside)
        assert rows * ROW_BYTES <= read < most


def test_a_damaged_block_is_refused_by_those_who_own_its_rows_alone(tmp_path: Path) -> None:
    held = _written(tmp_path, 1)
    path = tmp_path / rows_file(0, GROUP, "rows")
    content = bytearray(path.read_bytes())
    content[len(content) // 8] ^= 1  # In the first quarter.
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=place_and_value(str(path.name), "(got checksum ... of rows ... to")):
        _read(tmp_path, held, 0, 4)
    for rank in (1, 2, 3):
        assert len(_read(tmp_path, held, rank, 4).keys) > 0


@pytest.mark.parametrize("change", ["dtype", "gap", "short"])
def test_what_does_not_fit_its_keys_is_refused(tmp_path: Path, change: str) -> None:
    held = _written(tmp_path, 1)
    name = rows_file(0, GROUP, "rows" if change == "dtype" else "blocks")
    array = np.load(tmp_path / name)
    forged = {"dtype": array.view(np.int32), "gap": array[[0, *range(2, len(array))]], "short": array[:-1]}[change]
    held = held.model_copy(update={"files": held.files | {name: write_array(tmp_path / name, forged)}})
    with pytest.raises(
        CheckpointError, match=place_and_value(name, "(got holds int32" if change == "dtype" else "keys")
    ):
        _read(tmp_path, held, 0, 1)


def test_blocks_are_runs_of_whole_buckets_of_about_as_many_rows() -> None:
    rows_by_bucket = np.zeros(1 << 16, np.int64)
    rows_by_bucket[[3, 5, 6, 9, 40]] = [40, 30, 30, 200, 1]
    assert list(blocks.cut(rows_by_bucket, 64)) == [(3, 5, 0, 70), (6, 9, 70, 300), (40, 40, 300, 301)]
    assert list(blocks.cut(np.zeros(1 << 16, np.int64), 64)) == []


def test_rows_that_are_dropped_are_not_counted(tmp_path: Path) -> None:
    held, keys = _written(tmp_path, 2), all_rows(GROUP, NUM_ROWS)[0]

    def of_users(some: np.ndarray) -> np.ndarray:
        return some >> 52 == GROUPS[GROUP].tables["users"]

    own = OwnRows(tmp_path, held, GROUP, rank=1, ranks=3, is_kept=of_users)
    expected = keys[of_users(keys) & blocks.is_owned(keys, 1, 3)]
    assert own.num_rows == len(expected) > 0
    parts: Iterator[np.ndarray] = (keys for keys, _ in own.blocks())
    assert sorted(np.concatenate(list(parts))) == sorted(expected)
