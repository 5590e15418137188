"""Reads a rank's rows back and writes what memory that took: `python -m … CHECKPOINT RANK RANKS OUTPUT`.

A process of its own, because memory is that of a process.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sangam.schemas.derived.groups import groups_of
from sangam.schemas.derived.plan import plan
from sangam.schemas.host.files import sync
from sangam.trainer_module.checkpoint.blocks import is_owned
from sangam.trainer_module.checkpoint.manifest import MANIFEST, GroupLayout, Manifest, encode, read_manifest
from sangam.trainer_module.checkpoint.rows import write_rows
from sangam.trainer_module.input.position import Position
from sangam.trainer_module.snapshot import RowsSnapshot
from tests.schemas.derived.test_plan import of_users_and_posts

_DECLARED = of_users_and_posts(16, "adagrad")
(_GROUP,) = groups_of(_DECLARED).values()


def write_users(target: Path, ids: NDArray[Any], *, ranks: int) -> None:
    """Writes the rows of so many ranks."""
    target.mkdir()
    keys, files = (_GROUP.tags["users"] << 52) | ids, {}
    for rank in range(ranks):
        mine = keys[is_owned(keys, rank, ranks)]
        rows = np.full([len(mine), _GROUP.width], 0.5, np.float32)
        files |= write_rows(target, rank, _GROUP.name, RowsSnapshot(mine, rows))
    layout = GroupLayout(
        dim=_GROUP.dim, optimizer=_GROUP.optimizer_kind, tables=_GROUP.tags, width=_GROUP.width, tracks_usage=False
    )
    manifest = Manifest(
        step=1,
        ranks=ranks,
        spec_digest="",
        job_digest="",
        seed=1,
        days=(),
        position=Position(),
        groups={_GROUP.name: layout},
        weights=(),
        files=files,
    )
    (target / MANIFEST).write_bytes(encode(manifest))
    sync(target)


def main(checkpoint: str, rank: str, ranks: str, output: str) -> None:
    """Reads one rank's rows into a store."""
    from sangam.trainer_module.checkpoint.restore import own_rows
    from sangam.trainer_module.embedding.persistence import restore
    from sangam.trainer_module.embedding.row_store import RowStore

    held = read_manifest(Path(checkpoint))
    this, all_of_them = int(rank), int(ranks)
    _restore_few(RowStore(_GROUP, seed=1))
    store = RowStore(_GROUP, seed=1)
    before = _resident_bytes("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # The most so far is what is resident now.
    restore(
        store, own_rows(Path(checkpoint), held, _GROUP.name, rank=this, ranks=all_of_them), rank=this, ranks=all_of_them
    )
    rows = sum(record.shape[0] for file, record in held.files.items() if file.endswith(".keys.npy") and record.shape)
    result = {
        "rows": store.num_rows,
        "held": _resident_bytes("VmRSS") - before,
        "peak": _resident_bytes("VmHWM") - before,
        "planned": plan(_DECLARED, rows={"users": rows, "posts": 0}, ranks=all_of_them).ranks.mean.tables,
    }
    Path(output).write_text(json.dumps(result))


def _restore_few(store: Any) -> None:
    """Takes what TensorFlow loads and keeps when rows first come into a store."""
    store.fill([(np.arange(1, 1001), np.zeros([1000, _GROUP.width], np.float32))], 1000)


def _resident_bytes(name: str) -> int:
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    return int(found[1]) * 1024


if __name__ == "__main__":
    main(*sys.argv[1:5])
