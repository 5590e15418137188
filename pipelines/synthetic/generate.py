"""Days of simulated logs as folders; each is complete or absent, and written atomically."""

import datetime
import filecmp
import logging
import tempfile
from collections.abc import Callable
from pathlib import Path

from sangam.pipelines.synthetic.files import write_table
from sangam.pipelines.synthetic.simulation import simulate
from sangam.pipelines.synthetic.world import MAX_DRIFT, Scale
from sangam.schemas.errors import UserError
from sangam.schemas.spec.patterns import FileFormat

SUCCESS = "_SUCCESS"
_LOG = logging.getLogger(__name__)

Progress = Callable[[datetime.date, int], None]
"""Receives each written day and its number of rows."""


def generate(
    output: Path,
    *,
    first_day: datetime.date,
    num_days: int,
    rows_per_day: int,
    num_users: int,
    num_posts: int,
    seed: int,
    drift: float = 0.0,
    file_format: FileFormat = "parquet",
    overwrite: bool = False,
    progress: Progress | None = None,
) -> list[Path]:
    """Writes seeded logs, one folder `YYYY-MM-DD` per day, and returns the folders.

    A folder with the same logs stays unchanged, so that calls are idempotent. `Scale` describes sizes, seed and drift.

    Raises:
        UserError: for sizes without logs, and for a day's folder with other content unless `overwrite`.
    """
    sizes = {"days": num_days, "rows per day": rows_per_day, "users": num_users, "posts": num_posts}
    for name, size in sizes.items():
        if size < 1:
            raise UserError(f"{name}: gives no logs (got {size}); at least 1")
    if seed < 0:
        raise UserError(f"seed: is negative (got {seed}); 0 or more")
    if not 0 <= drift <= MAX_DRIFT:
        raise UserError(f"drift: is out of range (got {drift}); from 0, nothing moves, to {MAX_DRIFT:.0f}")
    if num_days > (datetime.date.max - first_day).days:
        raise UserError(f"days: go beyond the year 9999 (got {num_days} from {first_day}); start earlier or make fewer")
    if output.exists() and not output.is_dir():
        raise UserError(f"{output}: is a file (got it as the folder of the logs); name a folder")
    output.mkdir(parents=True, exist_ok=True)
    scale = Scale(rows_per_day=rows_per_day, num_users=num_users, num_posts=num_posts, seed=seed, drift=drift)
    folders = []
    for day in simulate(scale, first_day=first_day, num_days=num_days):
        folder = output / day.date.isoformat()
        # Beside the final folder, so that the rename stays on one file system.
        with tempfile.TemporaryDirectory(prefix=".generate-", dir=output) as scratch:
            fresh = Path(scratch) / "day"
            fresh.mkdir()
            write_table(day.table, fresh, file_format)
            _put_in_place(fresh, folder, overwrite=overwrite)
        (folder / SUCCESS).touch()
        folders.append(folder)
        _LOG.info("generated day=%s rows=%d", day.date, day.table.num_rows)
        if progress:
            progress(day.date, day.table.num_rows)
    return folders


def _put_in_place(fresh: Path, folder: Path, *, overwrite: bool) -> None:
    if folder.exists() and _holds_the_same(fresh, folder):
        return
    if folder.is_dir() and any(folder.iterdir()):
        if not overwrite:
            raise UserError(
                f"{folder}: holds other logs already (got {_listing(folder)}); "
                "use another folder or seed, or overwrite them (--overwrite)"
            )
        # Two renames; the scratch folder with the old logs is removed later. The folder never has a partial day.
        folder.rename(fresh.with_name("old"))
    elif folder.exists() and not folder.is_dir():
        raise UserError(f"{folder}: is a file (got it as the folder of a day); remove it, or use another folder")
    fresh.rename(folder)


def _holds_the_same(fresh: Path, folder: Path) -> bool:
    if not folder.is_dir():
        return False
    names = {path.name for path in folder.iterdir()} - {SUCCESS}
    return names == {path.name for path in fresh.iterdir()} and all(
        filecmp.cmp(fresh / name, folder / name, shallow=False) for name in names
    )


def _listing(folder: Path) -> str:
    names = sorted(path.name for path in folder.iterdir())
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
