"""Reads files into the joiner, each row once: the content of a file, not its name, shows which of its rows are new."""

import datetime
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from sangam.components.stream.arrivals import MAIN, Arrival, Folder
from sangam.components.stream.dead_letters import DeadLetters
from sangam.components.stream.reading import NEVER, Content, FileReader, MainFile, OtherFile, Span
from sangam.components.stream.state import Facts, ReadFile
from sangam.components.stream.topics import Topics
from sangam.schemas.contracts.joining_job import JoiningJob
from sangam.schemas.errors import UserError

_LOG = logging.getLogger("sangam.components.stream")
_AHEAD = "time is after the arrival by more than joining.ahead_s: correct the clock that wrote it"


class Files:
    """The files that a joiner has read.

    Attributes:
        main: readings of the main log with rows that wait, by number.
        others: readings of sources that rows may still be joined to, by number.
        newest: latest time that rows are evidence of.
        counts: counts so far.
    """

    def __init__(self, job: JoiningJob, arrivals: Folder | Topics, wall: Callable[[], float] = time.time):
        """Takes the job, the source of the files, and what returns seconds since 1970."""
        self._job, self._arrivals, self._wall = job, arrivals, wall
        self._reader, self._dead = FileReader(job), DeadLetters(Path(job.dead_letters))
        self._last_number = 0
        self._records: dict[int, ReadFile] = {}
        self._by_name: dict[tuple[str, str], ReadFile] = {}
        self._by_head: dict[tuple[str, str], dict[str, ReadFile]] = {}
        self.main: dict[int, MainFile] = {}
        self.others: dict[int, OtherFile] = {}
        self.newest, self.counts = NEVER, Counter[str]()

    @property
    def num_waiting(self) -> int:
        """Rows that have not become examples, and actions that are kept."""
        return sum(int(file.waits.sum()) for file in self.main.values()) + sum(
            other.batch.num_rows for other in self.others.values()
        )

    def read_new(self, watermark: int) -> Iterator[Arrival]:
        """Reads and yields the files that have arrived or changed, one by one."""
        for arrival in self._arrivals.complete(self._known_facts):
            self._take(arrival, watermark)
            yield arrival

    def restore(self, needed: tuple[ReadFile, ...], over: list[ReadFile], last_number: int) -> None:
        """Reads the files again that are still needed.

        Raises:
            UserError: one cannot be read, or has changed.
        """
        # Higher than the number of any reading so far, forgotten ones included: it is part of the order of rows.
        self._last_number = max([last_number, *(file.number for file in (*over, *needed))])
        for each in sorted([*over, *needed], key=lambda each: each.number):
            file = self._without_folder(each)
            self._note(file)
            if not file.is_over:
                self._take_again(file)

    def _without_folder(self, file: ReadFile) -> ReadFile:
        """Returns a record that is over where topics have replaced the folder of these actions.

        Raises:
            UserError: rows or versions of the folder are still needed.
        """
        if file.is_over or file.facts is None or isinstance(self._arrivals, Folder):
            return file
        if file.source != MAIN and self._job.logs.sources[file.source].kind == "actions":
            return file.model_copy(update={"is_over": True})  # Their rows are examples: otherwise these would wait.
        raise UserError(
            f"--source: rows of a folder are still needed (got {file.name}); give that folder until none waits, or "
            "another --root"
        )

    def forget(self, numbers: set[int]) -> None:
        """Forgets the rows of readings."""
        for number in numbers & (self.main.keys() | self.others.keys()):
            self.main.pop(number, None)
            self.others.pop(number, None)
            self._note(self._records[number].model_copy(update={"is_over": True}))

    def take_over(self) -> list[ReadFile]:
        """Returns the records that are over since the last call, but those of landed files."""
        over = [file for file in self._records.values() if file.is_over and file.facts is not None]
        for file in over:
            del self._records[file.number]
        return over

    def needed(self) -> tuple[ReadFile, ...]:
        """Returns the records of the readings that are needed, and of landed files, in the order of reading."""
        return tuple(self._records.values())

    def over(self) -> list[ReadFile]:
        """Returns the last record of each file of the folder that is over: one of an earlier day than the base's, or
        of the last week and no longer in the folder, is forgotten."""
        if not isinstance(self._arrivals, Folder):
            return [file for file in self._by_name.values() if file.is_over and file.facts is not None]
        return [file for file in self._by_name.values() if file.is_over and self._arrivals.remembers(file)]

    def forget_landed(self, keys: list[tuple[str, str]]) -> None:
        """Forgets landed files that are removed."""
        for key in keys:
            del self._records[self._by_name.pop(key).number]

    def _known_facts(self, arrival: Arrival) -> tuple[bool, Facts | None]:
        known = self._by_name.get((arrival.source, arrival.name))
        return known is not None, known.facts if known else None

    def _note(self, file: ReadFile) -> None:
        self._records[file.number] = file
        known = self._by_name.get((file.source, file.name))
        if known is not None and known.number > file.number:
            return
        self._by_name[file.source, file.name] = file
        if file.facts is not None and file.rows:
            self._by_head.setdefault((file.source, file.head), {})[file.name] = file

    def _take(self, arrival: Arrival, watermark: int) -> None:
        """Reads the new rows of a file; one that cannot be read becomes a dead letter, and is done until it changes."""
        self._last_number += 1
        known = self._by_name.get((arrival.source, arrival.name))
        file = ReadFile(
            number=self._last_number,
            source=arrival.source,
            name=arrival.name,
            day=arrival.day.isoformat(),
            watermark=watermark,
            arrived=int(self._wall()) if arrival.seen is None else arrival.seen,
            facts=arrival.facts,
        )
        counts = Counter[str]()
        try:
            content = self._reader.open(arrival)
            placed, problem = self._placed(file, known, content)
            if not placed.is_over:
                self._add(placed, content, counts)
            if arrival.facts is not None:
                self._dead.remove(file.name, file.source)
            file = placed
        except Exception as error:  # Whatever converting it raises, of whichever library: the stream must go on.
            if arrival.facts is None:
                raise UserError(
                    f"{arrival.path}: has landed and cannot be read (got {error}); restore it, or remove the folders "
                    "landed and examples: messages come again from the group's committed offsets on"
                ) from error
            kept: dict[str, object] = {}
            if known:  # What was read of it stays read.
                kept = {"rows": known.rows, "first": known.rows, "head": known.head, "digest": known.digest}
            file = file.model_copy(update=kept | {"is_over": True})
            problem, counts = str(error) or repr(error), Counter({"files that cannot be read": 1})
        if problem:
            self._dead.add(file.name, file.source, problem)
        counts["files"] += not (known and known.rows)
        self.counts += counts
        self._note(file)

    def _placed(self, file: ReadFile, known: ReadFile | None, content: Content) -> tuple[ReadFile, str]:
        """Returns the record with the new rows, over without any, and why rows of the file are left out."""
        if file.facts is None:
            return file.model_copy(update={"rows": content.rows}), ""
        read, twin = self._read_before(file, content)
        rows = {"first": read, "rows": content.rows, "head": content.digest(1), "digest": content.digest(content.rows)}
        placed = file.model_copy(update={**rows, "unreadable": content.unreadable, "is_over": True})
        if read == content.rows:
            if twin is None or twin.name == file.name or self._is_same(twin, file):
                return placed, ""
            self.counts["rows of files with the content of another"] += max(0, read - (known.rows if known else 0))
            return placed, f"{file.name}: has the content of {twin.name}, which was read; its rows are not read twice"
        if known and known.rows and not read and not self._has_moved(known):
            self.counts["rows of files changed after reading"] += content.rows
            return placed, (
                f"{file.name}: has other content than when its {known.rows} rows were read (got {content.rows} rows); "
                "write new rows to a new file"
            )
        unreadable = max(0, content.unreadable - (known.unreadable if known else 0))
        self.counts["rows"] += unreadable
        self.counts["rows dropped"] += unreadable
        return placed.model_copy(update={"is_over": False}), ""

    def _read_before(self, file: ReadFile, content: Content) -> tuple[int, ReadFile | None]:
        """Returns how many rows of a file were read, under whatever name, and the file with them."""
        read, twin = 0, None
        same = self._by_head.get((file.source, content.digest(1)), {}) if content.rows else {}
        for each in same.values():
            rows = min(each.rows, content.rows)
            if rows < each.rows and (each.name == file.name or self._is_same(each, file)):
                continue  # It has been written anew: nothing is left to compare with.
            if rows > read and self._digest_at(each, rows) == content.digest(rows):
                read, twin = rows, each
        return read, twin

    def _digest_at(self, known: ReadFile, rows: int) -> str:
        """Returns the digest of the first rows of a file that was read; empty if they are no longer there."""
        if rows == known.rows:
            return known.digest
        path, day = self._arrivals.path_of(known), datetime.date.fromisoformat(known.day)
        try:
            content = self._reader.open(Arrival(known.source, path, known.name, day, known.facts))
        except UserError as error:
            _LOG.warning("file=%s cannot be compared: %s", path, error)
            return ""
        return content.digest(rows) if content.rows >= rows else ""

    def _has_moved(self, known: ReadFile) -> bool:
        """Returns whether a file has another name now, so that its former name is free for another one."""
        return isinstance(self._arrivals, Folder) and self._arrivals.moved(known) is not None

    @staticmethod
    def _is_same(one: ReadFile, other: ReadFile) -> bool:
        return one.facts is not None and other.facts is not None and one.facts[2] == other.facts[2]

    def _add(self, file: ReadFile, content: Content, counts: Counter[str]) -> None:
        landed = file.facts is None  # The arrival of its messages is known better: they were checked then.
        latest = np.iinfo(np.int64).max if landed else file.arrived + self._job.settings.ahead_s
        span = Span(file.first, file.rows, file.arrived, int(latest))
        if file.source == MAIN:
            main, wrong = self._reader.main(content, file.number, span, counts)
            main.order = np.maximum(main.times, file.watermark)
            if file.watermark != NEVER:
                counts["rows late"] += int((main.times < file.watermark).sum())
            self.main[file.number] = main
        else:
            other, wrong = self._reader.other(content, file.number, span, counts)
            if file.watermark != NEVER and self._job.logs.sources[file.source].kind == "actions":
                counts[f"rows of {file.source} late"] += int((other.times < file.watermark).sum())
            self.others[file.number] = other
        bound = content.arrival.newest
        self.newest = max(self.newest, min(self._reader.newest(content, span), file.arrived, bound or file.arrived))
        if wrong:
            self._dead.add(file.name, file.source, f"{content.arrival.path}: {len(wrong)} rows: {_AHEAD}", rows=wrong)

    def _take_again(self, file: ReadFile) -> None:
        path = self._arrivals.path_of(file)
        day = datetime.date.fromisoformat(file.day)
        try:
            content = self._reader.open(Arrival(file.source, path, file.name, day, file.facts))
            if content.rows < file.rows or (file.facts is not None and content.digest(file.rows) != file.digest):
                raise UserError(f"other content than the {file.rows} rows that were read")
        except Exception as error:
            raise UserError(
                f"{path}: was read before, and cannot be read again (got {error}); restore it, or give the "
                "source its former name: its rows wait for their actions"
            ) from error
        self._add(file, content, Counter())
