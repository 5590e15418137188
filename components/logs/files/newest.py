"""Finds the newest day of the logs, for errors on a day without logs."""

import glob
import posixpath

from sangam.components.logs.files.listing import Storage
from sangam.schemas.derived.days import Day, any_day, day_expression, day_in
from sangam.schemas.spec.data import DayLogs
from sangam.schemas.spec.patterns import DAY_FIELDS


def newest_day(logs: DayLogs, data_root: str, storage: Storage) -> Day | None:
    """Returns the newest day with a file or a folder of its name; None if there is none."""
    parts, fields = logs.pattern.split("/"), [field for of_part in DAY_FIELDS.values() for field in of_part]
    last = max(index for index, part in enumerate(parts) if any(field in part for field in fields))
    pattern = "/".join(parts[: last + 1])
    [matches] = storage.match([posixpath.join(glob.escape(data_root), any_day(pattern))])
    expression = day_expression(pattern)
    days = (day_in(expression, "/".join(each.path.split("/")[-last - 1 :])) for each in matches)
    return max((day for day in days if day), default=None)
