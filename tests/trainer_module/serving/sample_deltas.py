"""A pushed version of a small ranker, and deltas of it."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sangam.components.registry import seal
from sangam.schemas.contracts import deltas
from sangam.trainer_module.embedding.delta import Delta
from sangam.trainer_module.online.delta_files import write_dense, write_rows

LINEAGE = "20240301001"


def push(model: Path, versions: Path, version: str = LINEAGE) -> Path:
    """Copies a model to a folder of versions, sealed; returns its folder."""
    folder = versions / version
    shutil.copytree(model, folder)
    (folder / seal.MANIFEST_FILE).unlink(missing_ok=True)
    seal.seal(str(folder))
    return folder


def publish(
    versions: Path,
    number: int,
    rows: Mapping[str, tuple[Any, Any]],
    *,
    removed: Mapping[str, Any] | None = None,
    dense: Any = None,
    lineage: str = LINEAGE,
    is_whole: bool = True,
    newest_event: int | None = None,
) -> deltas.Delta:
    """Publishes a delta: {group: (keys, rows)}, {group: keys}."""
    path = deltas.begin(versions, lineage, number)
    gone = removed or {}
    groups = {}
    for group in sorted({*rows, *gone}):
        keys, values = rows.get(group, (np.zeros(0, np.int64), np.zeros([0, 1], np.float32)))
        out = np.asarray(gone.get(group, []), np.int64)
        write_rows(path, group, 0, Delta(np.asarray(keys), np.asarray(values, np.float32), out, False))
        groups[group] = deltas.GroupChange(rows=len(keys), removed=len(out))
    if dense is not None:
        write_dense(path, dense)
    return deltas.publish(
        path,
        ranker="served",
        lineage=lineage,
        number=number,
        segment=number,
        newest_event=1_700_000_000 + number if newest_event is None else newest_event,
        examples=100 * number,
        groups=groups,
        dense=dense is not None,
        is_whole=is_whole,
    )
