"""The columns and days that sampled rows depend on, and what their predictions and metrics mean."""

import datetime
from collections.abc import Sequence

from sangam.schemas.parts.columns import Column
from sangam.schemas.spec import Inputs
from sangam.schemas.spec.data import Logs
from sangam.schemas.spec.negatives import Negatives


def columns_of_candidates(negatives: Negatives, inputs: Inputs, columns: Sequence[Column]) -> list[Column]:
    """Returns the columns of the logs that candidates are made of.

    Args:
        negatives: settings of the samples.
        inputs: inputs of the spec.
        columns: columns of the inputs.
    """
    read = {*negatives.read, inputs.event_time}
    return [column for column in columns if column.name in read]


def earlier_days(logs: Logs, day: datetime.date) -> list[datetime.date]:
    """Returns the days before one whose items are candidates too, oldest first."""
    days = logs.negatives.days if logs.negatives else 1
    return [day - datetime.timedelta(days=before) for before in range(days - 1, 0, -1)]
