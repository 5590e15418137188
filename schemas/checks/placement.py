"""Mistakes in places of rows and dense layers."""

from collections.abc import Iterator

from sangam.schemas.problems import Problem
from sangam.schemas.spec import Spec
from sangam.schemas.spec.sync import InStep


def placement_problems(spec: Spec) -> Iterator[Problem]:
    """Yields every table whose rows cannot be on a device."""
    for name, table in spec.tables.items():
        if table.place == "host":
            continue
        if spec.training.dense_place == "host":
            yield Problem(
                ("tables", name, "place"),
                "rows are on a device beside the dense layers (got device, and training.dense_place host)",
                "remove it, or declare training.dense_place: auto",
            )
        if not isinstance(spec.training.sync, InStep):
            yield Problem(
                ("tables", name, "place"),
                f"parameter servers hold the rows (got device, and training.sync of kind {spec.training.sync.kind})",
                "remove it, or use training.sync: {kind: sync}",
            )
