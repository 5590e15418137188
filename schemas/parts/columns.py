"""A column of the logs: what one reader needs of it."""

from dataclasses import dataclass
from typing import Literal

IdType = Literal["string", "int"]
ColumnType = Literal["float", "int", "string"]
"""Type of a value in the logs."""
TimeKind = Literal["event", "other"]
"""Kinds of a column of seconds since 1970: the time of the event, which is in the days of the logs, or another time."""


@dataclass(frozen=True)
class Column:
    """One column of the logs.

    Attributes:
        name: name in the files.
        is_list: any number of values per row, also none; otherwise at most one.
        is_required: a row without a value is an anomaly; without a label, ingestion drops and counts it.
        is_after_event: known only after the event, such as a label, `only_where` or a weight; absent at serving.
        is_binary: the only values are 0 and 1.
        is_not_negative: all values are at least 0.
        is_id: values identify something, even if they are numbers.
        time: the kind of time if values are seconds since 1970, else None.
        length: fixed length of the lists that are not empty, if any.
        last_values: number of values read from the end of each list.
        beside: columns whose lists have the same lengths, such as the ids of weights.
        not_after: column of the time that the times of a list come before; later ones are counted.
    """

    name: str
    type: ColumnType
    is_list: bool = False
    is_required: bool = True
    is_label: bool = False
    is_after_event: bool = False
    is_binary: bool = False
    is_not_negative: bool = False
    is_id: bool = False
    time: TimeKind | None = None
    length: int | None = None
    last_values: int = 0
    beside: tuple[str, ...] = ()
    not_after: str | None = None

    @property
    def is_masked(self) -> bool:
        """Whether a row without this label is kept, outside the tasks that read it."""
        return self.is_label and not self.is_required
