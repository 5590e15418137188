"""The list of an Examples artifact's files, which are in folders by day, shared by runs."""

import posixpath
from collections.abc import Iterator
from typing import Literal

from pydantic import BaseModel, ConfigDict
from tfx.dsl.io import fileio

from sangam.components.examples.documents import read_document
from sangam.schemas.contracts.example_files import LISTING_FILE
from sangam.schemas.errors import UserError

FORMAT: Literal[1] = 1


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class DayExamples(_Closed):
    """The examples of one day, or of a split of logs without days.

    Attributes:
        day: YYYY-MM-DD; None for logs without days.
        folder: folder of the files and of steps' results. It does not change once it is complete.
        names: names of the files, in the order of the logs.
        rows: number of examples.
    """

    day: str | None
    folder: str
    names: tuple[str, ...]
    rows: int

    @property
    def files(self) -> tuple[str, ...]:
        """Paths of the files."""
        return tuple(posixpath.join(self.folder, name) for name in self.names)


class Listing(_Closed):
    """The examples of every split, oldest day first.

    Attributes:
        format: format number of the file.
        splits: days of each split, by its name.
        history: days before those of the splits, read only for history features.
    """

    format: Literal[1] = FORMAT
    splits: dict[str, tuple[DayExamples, ...]]
    history: tuple[DayExamples, ...] = ()

    def files(self, split: str) -> tuple[str, ...]:
        """Returns the files of a split in the order of the logs; none for an unknown split."""
        return tuple(file for day in self.splits.get(split, ()) for file in day.files)

    def rows(self, split: str) -> int:
        """Returns the number of a split's examples."""
        return sum(day.rows for day in self.splits.get(split, ()))

    def days(self) -> Iterator[DayExamples]:
        """Yields the days of all splits, each once."""
        yield from {day.files: day for days in self.splits.values() for day in days}.values()


def write_listing(uri: str, listing: Listing) -> None:
    """Writes the list of an artifact."""
    fileio.makedirs(uri)
    with fileio.open(posixpath.join(uri, LISTING_FILE), "w") as file:
        file.write(listing.model_dump_json(indent=2) + "\n")


def read_listing(uri: str) -> Listing:
    """Reads the list of an Examples artifact.

    Raises:
        UserError: there is none, another version wrote it, or a file that it names is gone.
    """
    listing = read_document(uri, LISTING_FILE, Listing)
    for day in (*listing.history, *listing.days()):
        for file in day.files:
            if not fileio.exists(file):
                listed, store = posixpath.join(uri, LISTING_FILE), posixpath.dirname(posixpath.dirname(day.folder))
                raise UserError(
                    f"{file}: no such file, but {listed} names it; restore it, or remove {store}: the next run then "
                    "writes all examples again"
                )
    return listing
