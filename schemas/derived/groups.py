"""Groups of tables that share a physical table: one dimension, kind of row optimizer and place, so one row layout."""

from dataclasses import dataclass

from sangam.schemas.spec import RankerSpec
from sangam.schemas.spec.optimizers import RowOptimizer
from sangam.schemas.spec.tables import CountAdmission, Place, Table

KEY_ID_BITS = 52
"""Low bits of a key, which identify the id: see `sangam.trainer_module.transforms.keys`."""

BOOK_FLOATS = 2
"""Floats that hold a row's bookkeeping as int32 bits: minutes since 1970 of its newest event, and its occurrences."""


@dataclass(frozen=True)
class Group:
    """Tables that share a physical table on every rank.

    A row is `[embedding: dim | optimizer slots | bookkeeping: 2, if a table has expiry or a capacity]`.

    Attributes:
        name: `<kind of optimizer>_<dim>`, with `_device` on a device.
        dim: floats per embedding.
        tags: the high bits of a table's keys, by table.
        tables: tables by name.
        optimizers: optimizers by table, all of one kind.
        num_slot_floats: optimizer floats in a row.
    """

    name: str
    dim: int
    tags: dict[str, int]
    tables: dict[str, Table]
    optimizers: dict[str, RowOptimizer]
    num_slot_floats: int

    @property
    def place(self) -> Place:
        """The memory of all its rows."""
        return next(iter(self.tables.values())).place

    @property
    def optimizer_kind(self) -> str:
        """The kind of all its optimizers."""
        return next(iter(self.optimizers.values())).kind

    @property
    def tracks_usage(self) -> bool:
        """Whether its rows hold bookkeeping."""
        return any(table.tracks_usage for table in self.tables.values())

    @property
    def counts_occurrences(self) -> bool:
        """Whether owners need the occurrences of each key."""
        return self.tracks_usage or any(table.admission is not None for table in self.tables.values())

    @property
    def num_counters(self) -> int:
        """Cells in each row of a rank's sketch for admission by count; 0 without such admission."""
        admissions = [table.admission for table in self.tables.values()]
        return sum(admission.counters for admission in admissions if isinstance(admission, CountAdmission))

    @property
    def num_book_floats(self) -> int:
        """Floats of bookkeeping in a row."""
        return BOOK_FLOATS if self.tracks_usage else 0

    @property
    def width(self) -> int:
        """Floats in a row."""
        return self.dim + self.num_slot_floats + self.num_book_floats


def groups_of(spec: RankerSpec) -> dict[str, Group]:
    """Returns the groups of a ranker, sorted by name."""
    members: dict[str, list[str]] = {}
    for table in spec.table_tags():
        kind, declared = spec.optimizer_of(table).kind, spec.tables[table]
        suffix = "_device" if declared.place == "device" else ""
        members.setdefault(f"{kind}_{declared.dim}{suffix}", []).append(table)
    tags = spec.table_tags()
    groups = {}
    for name, tables in sorted(members.items()):
        dim = spec.tables[tables[0]].dim
        groups[name] = Group(
            name=name,
            dim=dim,
            tags={table: tags[table] for table in tables},
            tables={table: spec.tables[table] for table in tables},
            optimizers={table: spec.optimizer_of(table) for table in tables},
            num_slot_floats=spec.optimizer_of(tables[0]).slot_floats(dim),
        )
    return groups
