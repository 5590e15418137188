"""Which tables share a physical table: those of one dimension and one kind of row optimizer, so of one row layout."""

from dataclasses import dataclass

from schemas.spec import RankerSpec
from schemas.spec.optimizers import RowOptimizer
from schemas.spec.tables import CountAdmission, Table

KEY_ID_BITS = 52
"""Low bits of a key, which are of its id: see `trainer_module.transforms.keys`."""

BOOK_FLOATS = 2
"""Floats that hold a row's bookkeeping as int32 bits: minutes since 1970 of its newest event, and its occurrences."""


@dataclass(frozen=True)
class Group:
    """Tables that share a physical table on every rank.

    A row is `[embedding: dim | optimizer slots | bookkeeping: 2, where a table declares expiry or a capacity]`.

    Attributes:
        name: `<kind of optimizer>_<dim>`.
        dim: floats per embedding.
        tags: of each table, by name: the high bits of its keys.
        tables: the declarations, by name.
        optimizers: of each table's rows, all of one kind.
        num_slot_floats: optimizer floats in a row.
    """

    name: str
    dim: int
    tags: dict[str, int]
    tables: dict[str, Table]
    optimizers: dict[str, RowOptimizer]
    num_slot_floats: int

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
        """Whether owners must be told how often each key occurred."""
        return self.tracks_usage or any(table.admission is not None for table in self.tables.values())

    @property
    def num_counters(self) -> int:
        """Cells in each row of a rank's sketch for admission by count; 0 without."""
        admissions = [table.admission for table in self.tables.values()]
        return sum(declared.counters for declared in admissions if isinstance(declared, CountAdmission))

    @property
    def num_book_floats(self) -> int:
        """Floats of bookkeeping in a row."""
        return BOOK_FLOATS if self.tracks_usage else 0

    @property
    def width(self) -> int:
        """Floats in a row."""
        return self.dim + self.num_slot_floats + self.num_book_floats


def groups_of(declared: RankerSpec) -> dict[str, Group]:
    """Returns the groups of a ranker by name, in the order of the names."""
    members: dict[str, list[str]] = {}
    for table in declared.table_tags():
        kind, dim = declared.optimizer_of(table).kind, declared.tables[table].dim
        members.setdefault(f"{kind}_{dim}", []).append(table)
    tags = declared.table_tags()
    groups = {}
    for name, tables in sorted(members.items()):
        dim = declared.tables[tables[0]].dim
        groups[name] = Group(
            name=name,
            dim=dim,
            tags={table: tags[table] for table in tables},
            tables={table: declared.tables[table] for table in tables},
            optimizers={table: declared.optimizer_of(table) for table in tables},
            num_slot_floats=declared.optimizer_of(tables[0]).slot_floats(dim),
        )
    return groups
