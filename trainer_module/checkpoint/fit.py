"""Which parts of a checkpoint fit a spec, by name: decided from the manifest and the spec, without reading arrays."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sangam.schemas.spec import RankerSpec
from sangam.trainer_module.checkpoint.layout import group_layouts, refuse_changed_tables
from sangam.trainer_module.checkpoint.manifest import Manifest, WeightLayout
from sangam.trainer_module.checkpoint.warm_dense import changed_blocks, matching_positions, of_the_base


@dataclass(frozen=True)
class Fit:
    """The fate of each part of a base: `tables.<name>`, `weights.<name>` or `weights.<name>[<feature or task>]`.

    Attributes:
        loaded: tables and weights taken over.
        new: those that start from their initial values.
        dropped: those that only the base has; `[<feature> of the base]` for a part of a feature that has changed.
    """

    loaded: tuple[str, ...]
    new: tuple[str, ...]
    dropped: tuple[str, ...]


def fit(
    manifest: Manifest, spec: RankerSpec, weights: Sequence[WeightLayout], changed: Collection[str], *, source: str
) -> Fit:
    """Returns which parts of a checkpoint fit.

    Args:
        manifest: manifest of the checkpoint.
        spec: spec of the ranker to train.
        weights: layouts of its dense weights.
        changed: features whose values mean something else than in the base, see `sangam.schemas.contracts.statistics`.
        source: name of the checkpoint in messages.

    Raises:
        CheckpointError: when a table of the same name has other rows.
    """
    fitting = without(manifest, spec, changed)
    groups = group_layouts(spec)
    refuse_changed_tables(fitting.groups, groups, source=source)
    held = {table for group in manifest.groups.values() for table in group.tables}
    before = {table for group in fitting.groups.values() for table in group.tables}
    after = {table for group in groups.values() for table in group.tables}
    loaded, new, dropped = _weights(fitting, weights)
    return Fit(
        loaded=(*_named("tables", before & after), *_named("weights", loaded)),
        new=(*_named("tables", after - before), *_named("weights", new)),
        dropped=(*_named("tables", (held - after) | (held - before)), *_named("weights", dropped)),
    )


def without(manifest: Manifest, spec: RankerSpec, changed: Collection[str]) -> Manifest:
    """Returns a checkpoint's manifest without the weights and tables of features that have changed.

    A table whose rows stand for buckets of such a feature is left out whole.
    """
    tables = {spec.table_of(name) for name in changed if name in spec.features}
    groups = {
        name: group.model_copy(
            update={"tables": {table: tag for table, tag in group.tables.items() if table not in tables}}
        )
        for name, group in manifest.groups.items()
    }
    weights = tuple(of_the_base(layout, changed) for layout in manifest.weights)
    return manifest.model_copy(update={"groups": groups, "weights": weights})


def _weights(manifest: Manifest, weights: Sequence[WeightLayout]) -> tuple[list[str], list[str], list[str]]:
    before = {layout.name: layout for layout in manifest.weights}
    loaded, new = [], []
    dropped = [name for name in before if name not in {layout.name for layout in weights}]
    for layout in weights:
        old = before.get(layout.name)
        if old is None or matching_positions(old, layout) is None:
            new.append(layout.name)
            dropped += [layout.name] if old else []
            continue
        loaded.append(layout.name)
        only_new, only_old = changed_blocks(old, layout)
        new += only_new
        dropped += only_old
    return loaded, new, dropped


def _named(kind: str, names: Collection[str]) -> list[str]:
    return [f"{kind}.{name}" for name in sorted(names)]
