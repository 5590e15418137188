"""The stores of one of the processes that share the rows."""

from collections.abc import Mapping

from sangam.schemas.derived.groups import Group
from sangam.trainer_module.embedding.row_store import RowStore
from sangam.trainer_module.placement import HOST_ALONE, Placement


def stores_of(
    groups: Mapping[str, Group],
    *,
    seed: int,
    owners: int,
    track_changes: bool = False,
    placement: Placement = HOST_ALONE,
) -> dict[str, RowStore]:
    """Returns empty stores of one of the processes that share the rows, with room for its share of the capacities.

    Args:
        groups: groups of tables by name.
        seed: the spec's `training.seed`.
        owners: number of processes that share the rows.
        track_changes: see `RowStore`.
        placement: see `RowStore`.
    """
    stores = {}
    for name, group in groups.items():
        expected = sum(table.capacity.rows for table in group.tables.values() if table.capacity) // owners
        # Shares differ, and between evictions there may be more rows; unused room costs nothing.
        room = expected + expected // 8
        stores[name] = RowStore(group, seed=seed, expected_rows=room, track_changes=track_changes, placement=placement)
    return stores
