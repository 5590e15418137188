"""Kafka's topics as a source of files: messages land in files, which the joiner reads like others.

This one process reads all partitions, without consumer-group rebalancing. Landed folders and joined segments contain
the offsets; the supervisor commits to the group the offsets of messages that a checkpoint has learned from.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

from sangam.components.stream.arrivals import Arrival, oldest_days
from sangam.components.stream.dead_letters import DeadLetters, Letter
from sangam.components.stream.landing import Landing, Partition, Place, land, number_of, read_all, remove
from sangam.components.stream.messages import Message, Sorter, day_of
from sangam.components.stream.partitions import Partitions
from sangam.components.stream.reading import NEVER, newest_of
from sangam.components.stream.state import Facts, ReadFile
from sangam.schemas.contracts.joining_job import JoiningJob

_MOST_MESSAGES, _MOST_BYTES = 20_000, 16 * 2**20
"""Limits of one landing."""


class Topics:
    """The topics of a job.

    Attributes:
        counts: counts of messages so far.
    """

    def __init__(
        self, job: JoiningJob, clock: Callable[[], float] = time.monotonic, wall: Callable[[], float] = time.time
    ):
        """Reads the landed folders; `complete` makes the first request to the broker."""
        assert job.kafka is not None
        self._clock, self._wall, self._settle_s = clock, wall, job.settings.settle_s
        self._folder, self._dead = Path(job.data_root), DeadLetters(Path(job.dead_letters))
        self._sources = {topic: source for source, topic in job.kafka.topics.items()}
        self._sorters = {source: Sorter(job, source, wall) for source in job.kafka.topics}
        self._oldest = {source: day.toordinal() for source, day in oldest_days(job).items()}
        self._landings = read_all(self._folder)
        last = self._landings[max(self._landings)] if self._landings else None
        self.counts: Counter[str] = Counter(last.counts if last else {})
        self._places = {key: place for key, place in (last.places if last else {}).items() if key[0] in self._sources}
        self._unread: list[Landing] | None = None
        self._newest: dict[Partition, int] = {}
        self._gathered: list[Message] = []
        self._letters: list[Letter] = []
        self._gathered_since: float | None = None
        self._partitions: Partitions | None = Partitions(
            job.kafka, {key: place.next for key, place in self._places.items()}, clock
        )

    def complete(self, known: Callable[[Arrival], tuple[bool, Facts | None]]) -> list[Arrival]:
        """Returns the files that have landed and are not known, oldest landing first; without any, lands more."""
        waiting = list(self._landings.values()) if self._unread is None else self._unread
        self._unread = []
        for landing in waiting:
            if all(known(arrival)[0] for arrival in landing.arrivals):
                self._note_read(landing)
            else:
                self._unread.append(landing)
        if not self._unread and self._partitions is not None:
            self._gather(self._partitions)
        return [arrival for landing in self._unread for arrival in landing.arrivals if not known(arrival)[0]]

    @property
    def is_behind(self) -> bool:
        """Whether the broker has messages that the joiner has not read, or this is unknown."""
        return self.horizon is not None

    @property
    def horizon(self) -> int | None:
        """Latest time that all partitions have been read to; None: they have been read to their ends.

        If another partition ended windows earlier, their actions still unread in this partition would be lost.
        """
        if self._partitions is None or not self._partitions.offsets or self._partitions.away_since is not None:
            return NEVER
        unread = {(message.topic, message.partition) for message in self._gathered}
        for landing in self._unread or ():
            unread |= {key for key, place in landing.places.items() if place.next > place.begin}
        behind = [key for key in self._partitions.offsets if key in unread or key not in self._partitions.at_end]
        return min((self._newest.get(key, NEVER) for key in behind), default=None)

    def positions(self, files: Iterable[ReadFile]) -> dict[str, dict[str, int]]:
        """Returns by topic and partition the offset below which all messages are done.

        Args:
            files: files that the joiner has read, and whether each is done.
        """
        over = {file.name for file in files if file.is_over}
        found: dict[str, dict[str, int]] = {}
        for (topic, partition), place in self._places.items():
            found.setdefault(topic, {})[str(partition)] = place.next
        begun: set[str] = set()
        for landing in self._landings.values():
            needed = {each.source for each in landing.arrivals if each.name not in over} - begun
            begun |= needed
            for (topic, partition), place in landing.places.items():
                if self._sources.get(topic) in needed:
                    found[topic][str(partition)] = place.begin
        return found

    def path_of(self, file: ReadFile) -> str:
        """Returns the path of a landed file."""
        return str(self._folder / file.name)

    def sealed(self, files: Iterable[ReadFile]) -> list[tuple[str, str]]:
        """Removes landings that a sealed segment has made obsolete; returns source and name of the files that can be
        forgotten because they cannot be read again."""
        keys = [(file.source, file.name) for file in files if file.is_over]
        over = {name for _, name in keys}
        last = max(self._landings, default=0)
        gone = [
            number
            for number, landing in self._landings.items()
            if number < last and all(arrival.name in over for arrival in landing.arrivals)
        ]
        remove(self._folder, gone)
        for number in gone:
            del self._landings[number]
        return [
            (source, name)
            for source, name in keys
            # Files of an earlier data folder of this root are kept: the root may read that folder again.
            if (number := number_of(name)) and number not in self._landings
        ]

    def status(self) -> Mapping[str, object]:
        """Returns the state of the broker, for people."""
        away_since = self._partitions.away_since if self._partitions else None
        return {"behind": self.is_behind, "away_since": away_since, "counts": dict(self.counts)}

    def close(self) -> None:
        """Ends reading from the broker: messages that have not landed are read again after the next start."""
        if self._partitions is not None:
            self._partitions.close()
        self._partitions, self._gathered = None, []

    def _note_read(self, landing: Landing) -> None:
        for key, place in landing.places.items():
            if place.newest is not None:
                self._newest[key] = max(place.newest, self._newest.get(key, NEVER))

    def _gather(self, partitions: Partitions) -> None:
        """Takes arrived messages; lands them when no more come, or when there are many."""
        for what in partitions.poll(_MOST_MESSAGES - len(self._gathered)):
            if isinstance(what, Letter):
                self._letters.append(what)
                self.counts["messages deleted before they were read"] += (what.until or what.offset) - what.offset
            else:
                self._gathered.append(what)
        if not self._gathered and not self._letters:
            return
        if self._gathered_since is None:
            self._gathered_since = self._clock()
        is_much = (
            len(self._gathered) >= _MOST_MESSAGES
            or sum(len(message.value or b"") for message in self._gathered) >= _MOST_BYTES
        )
        if is_much or self._clock() - self._gathered_since >= self._settle_s:
            self._land(partitions.offsets)

    def _land(self, offsets: Mapping[Partition, int]) -> None:
        number = max(self._landings, default=0) + 1
        by_source: dict[str, list[Message]] = {}
        for message in self._gathered:
            by_source.setdefault(self._sources[message.topic], []).append(message)
        rows: dict[tuple[str, str], pa.Table] = {}
        newest = {key: place.newest for key, place in self._places.items()}
        letters = list(self._letters)
        counts = self.counts + Counter({"messages": len(self._gathered)})
        for source, messages in by_source.items():
            found = self._sorters[source].sort(messages)
            letters += [messages[place].as_letter(reason) for place, reason in sorted(found.poison.items())]
            counts["messages without a value"] += found.num_empty
            counts["times clipped to their arrival"] += found.num_clipped
            of_partition: dict[Partition, list[int]] = {}
            for place, seconds in zip(found.places.tolist(), found.times.tolist(), strict=True):
                message = messages[place]
                times = of_partition.setdefault((message.topic, message.partition), [])
                times.append(min(seconds, message.logged_at, int(self._wall())))
            for key, times in of_partition.items():
                newest[key] = max(newest_of(np.asarray(times, np.int64)), newest.get(key) or 0)
            counts["messages of days that the base has learned from"] += int((found.days < self._oldest[source]).sum())
            for day in np.unique(found.days[found.days >= self._oldest[source]]).tolist():
                of_day = pa.array(np.flatnonzero(found.days == day))
                rows[source, day_of(day)] = pa.Table.from_batches([found.batch.take(of_day)])
        counts["dead letters"] += len(letters)
        # Before the folder is sealed, under its number: after a kill in between, this file is written again. If the
        # folder then has fewer messages, their letters follow with the next one, so a stale file must be replaced.
        self._dead.put(f"landed-{number:012d}", letters)
        begin = {(each.topic, each.partition): each.offset for each in reversed(self._gathered)}
        begin |= {key: place.next for key, place in self._places.items()}
        places = {
            key: Place(begin=begin.get(key, offset), next=offset, newest=newest.get(key))
            for key, offset in offsets.items()
        }
        self._landings[number] = landing = land(self._folder, number, rows, places, +counts)
        self.counts, self._places = Counter(landing.counts), dict(landing.places)
        self._gathered, self._letters, self._gathered_since = [], [], None
        assert self._unread is not None
        self._unread.append(landing)
