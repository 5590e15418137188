"""Checkpoints of made-up state: rows of two groups on any number of ranks, without a training."""

from pathlib import Path

import numpy as np

from sangam.trainer_module.checkpoint.manifest import GroupLayout, Manifest, WeightLayout
from sangam.trainer_module.checkpoint.writer import Contents, write
from sangam.trainer_module.input.position import Position
from sangam.trainer_module.snapshot import RowsOnDisk, RowsSnapshot, Snapshot

GROUPS = {
    "adagrad_4": GroupLayout(dim=4, optimizer="adagrad", tables={"tags": 2}, width=8, tracks_usage=False),
    "adam_8": GroupLayout(dim=8, optimizer="adam", tables={"posts": 1, "users": 3}, width=26, tracks_usage=True),
}
SHAPES = {"layer/w": (3, 5), "layer/b": (5,)}


def manifest(*, ranks: int, step: int = 7, job_digest: str = "job") -> Manifest:
    """Returns what such a checkpoint says of itself."""
    return Manifest(
        step=step,
        ranks=ranks,
        spec_digest="spec",
        job_digest=job_digest,
        seed=1,
        days=("2024-03-01", "2024-03-02"),
        position=Position(epoch=1, examples=96, parts=8),
        groups=GROUPS,
        weights=tuple(WeightLayout(name=name, shape=shape) for name, shape in SHAPES.items()),
    )


def all_rows(group: str, num_rows: int = 500) -> tuple[np.ndarray, np.ndarray]:
    """Returns all keys and rows of a group: any bits, those of NaN with a payload included."""
    layout = GROUPS[group]
    generator = np.random.default_rng(layout.dim)
    low = generator.choice(2**52, num_rows, replace=False)
    keys = low | (generator.choice(list(layout.tables.values()), num_rows) << 52)
    bits = generator.integers(0, 2**32, [num_rows, layout.width], np.uint32)
    return keys, bits.view(np.float32)


def contents(owners: dict[str, np.ndarray], *, rank: int, ranks: int, step: int = 7, job: str = "job") -> Contents:
    """Returns a rank's part.

    Args:
        owners: which rank has each of `all_rows`, by group.
        rank: whose part.
        ranks: how many there are.
        step: of the checkpoint.
        job: digest of the job.
    """
    generator = np.random.default_rng(5)
    groups = {}
    for name in GROUPS:
        keys, rows = all_rows(name, len(owners[name]))
        mine = owners[name] == rank
        extra = {
            "count_admitted": np.array([0, rank + 1, 10]),
            "sketch_cells": np.arange(6, dtype=np.int32) * (rank + 1),
        }
        groups[name] = RowsSnapshot(keys[mine], rows[mine], extra)
    dense = {
        f"{moment}/{name}": generator.normal(size=shape).astype(np.float32)
        for moment in ("m", "v", "weights")
        for name, shape in SHAPES.items()
    }
    return Contents(
        manifest=manifest(ranks=ranks, step=step, job_digest=job),
        snapshot=Snapshot(step=step, dense=dense, groups=groups, extra={"newest_minute": np.array([28_000_000])}),
        batches=np.array([[rank, 0], [rank, 1]]),
        history=b'{"rank": %d}' % rank,
        arrays={"history_losses": np.ones([2, 2])},
    )


def by_key(held: RowsSnapshot | RowsOnDisk) -> RowsSnapshot:
    """Returns the rows of a group in the order of their keys, in memory."""
    parts = [(keys.copy(), rows.copy()) for keys, rows in held.blocks]
    if not parts:
        return RowsSnapshot(np.zeros(0, np.int64), np.zeros([0, 0], np.float32), held.extra)
    keys, rows = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    assert len(keys) == held.num_rows
    order = np.argsort(keys)
    return RowsSnapshot(keys[order], rows[order], held.extra)


def spread(ranks: int, num_rows: int = 500) -> dict[str, np.ndarray]:
    """Returns the true owner of each of `all_rows`, by group."""
    from sangam.trainer_module.embedding.hashing import owner_of

    return {name: owner_of(all_rows(name, num_rows)[0], ranks).numpy() for name in GROUPS}


def write_all(target: Path, owners: dict[str, np.ndarray], *, ranks: int, step: int = 7, job: str = "job") -> None:
    """Writes a whole checkpoint, one rank after another; rank 0 publishes it."""
    for rank in reversed(range(ranks)):
        write(target, contents(owners, rank=rank, ranks=ranks, step=step, job=job), rank, deadline_s=1.0)
