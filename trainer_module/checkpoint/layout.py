"""The layout of a ranker's tables and weights in a checkpoint, and whether a checkpoint fits it."""

from collections.abc import Iterable, Mapping

from sangam.schemas.derived.groups import groups_of
from sangam.schemas.parts.weight import Weight
from sangam.schemas.spec import RankerSpec
from sangam.trainer_module.checkpoint.files import CheckpointError
from sangam.trainer_module.checkpoint.manifest import GroupLayout, WeightLayout


def group_layouts(spec: RankerSpec) -> dict[str, GroupLayout]:
    """Returns the layout of every group of tables, by name."""
    return {
        name: GroupLayout(
            dim=group.dim,
            optimizer=group.optimizer_kind,
            tables=group.tags,
            width=group.width,
            tracks_usage=group.tracks_usage,
        )
        for name, group in groups_of(spec).items()
    }


def weight_layouts(weights: Iterable[Weight]) -> tuple[WeightLayout, ...]:
    """Returns the layout of the dense weights."""
    return tuple(WeightLayout(name=weight.name, shape=weight.shape, blocks=weight.blocks) for weight in weights)


def refuse_changed_tables(held: Mapping[str, GroupLayout], wanted: Mapping[str, GroupLayout], *, source: str) -> None:
    """Checks that a table's rows are as wide as before and have the same slots.

    Args:
        held: groups of the checkpoint.
        wanted: groups of the spec.
        source: the checkpoint, for the message.

    Raises:
        CheckpointError: for the first table of both whose dimension or kind of optimizer differs.
    """
    before = {table: group for group in held.values() for table in group.tables}
    after = {table: group for group in wanted.values() for table in group.tables}
    for table in sorted(set(before) & set(after)):
        for what, old, new in (
            ("dim", before[table].dim, after[table].dim),
            ("optimizer.kind", before[table].optimizer, after[table].optimizer),
        ):
            if old != new:
                raise CheckpointError(
                    f"tables.{table}.{what}: differs from the checkpoint's (got {new}; {source} has {old}); "
                    "give the table another name to restart it, or train from scratch with training.mode: full"
                )
