"""Messages on disk: numbered folders of messages, sealed like segments.

`<folder>/<number>/` holds a Parquet file for each source and day, and `segment.json`, written last, with the offsets to
read next. After a kill, landed messages are read again, and the broker sends the others again.
"""

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sangam.components.stream.arrivals import MAIN, Arrival
from sangam.schemas.contracts import segments
from sangam.schemas.contracts.joining_job import JoiningJob
from sangam.schemas.host.files import remove_folder
from sangam.schemas.parts.base import FrozenModel

Partition = tuple[str, int]
"""Topic and partition."""
_SUFFIX = ".parquet"


class Place(FrozenModel):
    """A place in a partition.

    Attributes:
        begin: first offset in this folder or a later one.
        next: first offset in the folders after this one.
        newest: latest time of a message before `next`, seconds since 1970; None: unknown.
    """

    begin: int
    next: int
    newest: int | None = None


@dataclass(frozen=True)
class Landing:
    """A sealed folder.

    Attributes:
        number: number of the folder.
        places: places of every partition.
        arrivals: files of the folder.
        counts: counts of messages since the first folder.
    """

    number: int
    places: Mapping[Partition, Place]
    arrivals: tuple[Arrival, ...]
    counts: Mapping[str, int]


def as_landed(job: JoiningJob) -> JoiningJob:
    """Returns a job with the format of landed files."""
    sources = {name: source.model_copy(update={"format": "parquet"}) for name, source in job.logs.sources.items()}
    landed = {"format": "parquet", "list_separator": None, "sources": sources}
    return job.model_copy(update={"logs": job.logs.model_copy(update=landed)})


def land(
    folder: Path,
    number: int,
    rows: Mapping[tuple[str, str], pa.Table],
    places: Mapping[Partition, Place],
    counts: Mapping[str, int],
) -> Landing:
    """Writes and seals a folder; returns it.

    Args:
        folder: parent of all landed folders.
        number: number of the last folder plus one.
        rows: rows by source and day.
        places: places of every partition.
        counts: counts of messages since the first folder.
    """
    path = segments.begin(folder, number)
    for (source, day), table in rows.items():
        pq.write_table(table, path / f"{day}{'.' if source else ''}{source}{_SUFFIX}", compression="zstd")
    positions: dict[str, dict[str, object]] = {}
    for (topic, partition), place in places.items():
        positions.setdefault(topic, {})[str(partition)] = place.model_dump()
    num_rows = sum(table.num_rows for table in rows.values())
    segments.seal(folder, number, rows=num_rows, first_event=None, last_event=None, positions=positions, counts=counts)
    return read(folder, number)


def read(folder: Path, number: int) -> Landing:
    """Returns a sealed folder.

    Raises:
        UserError: it cannot be read, or is damaged.
    """
    segment = segments.read(folder, number)
    places = {
        (topic, int(partition)): Place.model_validate(place)
        for topic, of_topic in segment.positions.items()
        for partition, place in of_topic.items()
    }
    segments.refuse_damaged(folder, segment)
    newest = max((place.newest for place in places.values() if place.newest is not None), default=None)
    arrivals = [_arrival(folder, number, name, newest) for name in segment.files]
    return Landing(number, places, tuple(sorted(arrivals, key=lambda each: (each.day, each.source))), segment.counts)


def read_all(folder: Path) -> dict[int, Landing]:
    """Returns all sealed folders by number, ascending; removes unsealed ones, left by a kill."""
    folder.mkdir(parents=True, exist_ok=True)
    landings = {number: read(folder, number) for number in segments.numbers(folder)}
    for path in folder.iterdir():
        if path.is_dir() and path.name.isdigit() and int(path.name) not in landings:
            remove_folder(path)
    return landings


def number_of(name: str) -> int:
    """Returns the number of a file's landed folder, from the file's name below the parent; 0: not a landed file."""
    number = name.split("/")[0]
    return int(number) if number.isdigit() and segments.path_of(Path(), int(number)).name == number else 0


def remove(folder: Path, numbers: Iterable[int]) -> None:
    """Removes folders that are no longer needed."""
    for number in numbers:
        segments.remove(folder, number)


def _arrival(folder: Path, number: int, name: str, newest: int | None) -> Arrival:
    day, _, source = name.removesuffix(_SUFFIX).partition(".")
    path = segments.path_of(folder, number)
    return Arrival(
        source or MAIN, str(path / name), f"{path.name}/{name}", datetime.date.fromisoformat(day), newest=newest
    )
