"""Training that starts from another training's checkpoint: tables by name, dense weights by name and block.

What only the spec has starts from initial values; what only the base has is dropped; the report lists both. Weights of
the base are dropped too for a feature whose values have changed their meaning after a new analysis of its statistics.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sangam.schemas.derived.groups import BOOK_FLOATS
from sangam.schemas.spec import RankerSpec
from sangam.trainer_module.checkpoint.fit import Fit, fit, without
from sangam.trainer_module.checkpoint.layout import group_layouts, weight_layouts
from sangam.trainer_module.checkpoint.manifest import GroupLayout, Manifest, WeightLayout
from sangam.trainer_module.checkpoint.restore import extra_of_rank, read_dense, read_extra
from sangam.trainer_module.checkpoint.rows import OwnRows
from sangam.trainer_module.checkpoint.warm_dense import started_from
from sangam.trainer_module.dense.optimizers import moment_starts
from sangam.trainer_module.embedding.bookkeeping import MINUTES_A_DAY
from sangam.trainer_module.losses.balance import is_of_balance
from sangam.trainer_module.ranker import Ranker
from sangam.trainer_module.snapshot import Arrays, KeysAndRows, RowsOnDisk, StoredSnapshot
from sangam.trainer_module.transforms.keys import ID_BITS

NEWEST_MINUTE = "newest_minute"
_SKETCH = "sketch_"


@dataclass(frozen=True)
class WarmStart(Fit):
    """A rank's state to start from, and the fate of each part of the base.

    Attributes:
        snapshot: the state taken from the base; the rest starts from initial values.
    """

    snapshot: StoredSnapshot


def warm_start(
    directory: Path, manifest: Manifest, ranker: Ranker, *, rank: int, ranks: int, changed: Collection[str] = ()
) -> WarmStart:
    """Reads the parts of a checkpoint that fit a ranker.

    Args:
        directory: folder of the checkpoint.
        manifest: manifest of the checkpoint.
        ranker: ranker to train.
        rank: number of this rank.
        ranks: number of ranks.
        changed: features whose values mean something else than in the base, see `sangam.schemas.contracts.statistics`.

    Raises:
        CheckpointError: when a table of the same name has other rows, or a file is damaged.
    """
    layouts = weight_layouts(ranker.weights.weights)
    extra = read_extra(directory, manifest)
    told = fit(manifest, ranker.spec, layouts, changed, source=str(directory))
    fitting = without(manifest, ranker.spec, changed)
    groups = warm_rows(directory, manifest, ranker.spec, rank=rank, ranks=ranks, changed=changed)
    snapshot = StoredSnapshot(
        step=manifest.step,
        dense=_dense(read_dense(directory, manifest), fitting, ranker, layouts),
        groups=groups,
        # Without the start of the schedule: this training restarts it.
        extra={name: array for name, array in extra.items() if name == NEWEST_MINUTE or is_of_balance(name)},
    )
    return WarmStart(**vars(told), snapshot=snapshot)


def warm_rows(
    directory: Path, manifest: Manifest, spec: RankerSpec, *, rank: int, ranks: int, changed: Collection[str] = ()
) -> dict[str, RowsOnDisk]:
    """Returns the rows of a checkpoint that fit a spec, by group; see `warm_start`."""
    fitting = without(manifest, spec, changed)
    newest = _newest_minute(manifest, read_extra(directory, manifest))
    return {
        name: _rows(directory, manifest, fitting, layout, newest, rank=rank, ranks=ranks)
        for name, layout in group_layouts(spec).items()
    }


def _dense(held: Arrays, fitting: Manifest, ranker: Ranker, layouts: Sequence[WeightLayout]) -> Arrays:
    """Returns the weights and moments that are taken over."""
    before = {layout.name: layout for layout in fitting.weights}
    arrays: Arrays = {}
    training = ranker.spec.training
    starts = moment_starts(training.dense_optimizer)
    for weight, layout in zip(ranker.weights.weights, layouts, strict=True):
        if old := before.get(weight.name):
            arrays |= started_from(held, old, weight, layout, seed=training.seed, starts=starts) or {}
    return arrays


def _newest_minute(manifest: Manifest, extra: Arrays) -> int:
    """Returns the latest minute at which the base can have seen an id: its newest event, or the end of its last day."""
    newest = int(extra[NEWEST_MINUTE][0]) if NEWEST_MINUTE in extra else 0
    if newest == 0 and manifest.days:
        end = date.fromisoformat(manifest.days[-1]) + timedelta(days=1)
        newest = (end - date(1970, 1, 1)).days * MINUTES_A_DAY
    return newest


def _rows(
    directory: Path,
    manifest: Manifest,
    fitting: Manifest,
    wanted: GroupLayout,
    newest: int,
    *,
    rank: int,
    ranks: int,
) -> RowsOnDisk:
    """Returns this rank's rows of a group that fit, from whichever groups its tables had in the base.

    A row's owner does not depend on its table's tag: even where tags have moved, a rank reads its own rows alone.
    """
    parts, extra_of = [], None
    for name, held in fitting.groups.items():
        moved = {held.tables[table]: tag for table, tag in wanted.tables.items() if table in held.tables}
        if not moved:
            continue
        are_all_kept = moved.keys() == set(manifest.groups[name].tables.values())
        is_kept = None if are_all_kept else partial(_is_kept, moved)
        rows = OwnRows(directory, manifest, name, rank=rank, ranks=ranks, is_kept=is_kept)
        parts.append((rows, moved, held))
        if held.tables == wanted.tables:
            # Counts of ids that wait for admission are by key: they are valid while no key has changed.
            extra_of = name

    def blocks() -> Iterator[KeysAndRows]:
        for rows, moved, held in parts:
            for keys, block in rows.blocks():
                yield _remapped(keys, moved), _with_books(block, held, wanted, newest)

    def extra() -> Arrays:
        if extra_of is None:
            return {}
        extra = extra_of_rank(directory, manifest, extra_of, rank=rank, ranks=ranks)
        return {name: array for name, array in extra.items() if name.startswith(_SKETCH)}

    return RowsOnDisk(sum(rows.num_rows for rows, _, _ in parts), blocks, extra)


def _is_kept(moved: dict[int, int], keys: NDArray[Any]) -> NDArray[np.bool_]:
    return np.isin(keys >> ID_BITS, list(moved))


def _remapped(keys: NDArray[Any], moved: dict[int, int]) -> NDArray[Any]:
    """Returns the keys of remaining tables, with the tables' new tags."""
    new_tags = np.zeros(max(moved) + 1, np.int64)
    new_tags[list(moved)] = list(moved.values())
    remapped: NDArray[Any] = (keys & ((1 << ID_BITS) - 1)) | (new_tags[keys >> ID_BITS] << ID_BITS)
    return remapped


def _with_books(rows: NDArray[Any], held: GroupLayout, wanted: GroupLayout, newest: int) -> NDArray[Any]:
    """Returns rows with the bookkeeping that the spec needs: kept, removed, or begun."""
    if held.tracks_usage == wanted.tracks_usage:
        return rows
    if held.tracks_usage:
        return rows[:, :-BOOK_FLOATS]
    books = np.tile(np.array([newest, 1], np.int32), (len(rows), 1)).view(np.float32)
    return np.concatenate([rows, books], axis=1)
