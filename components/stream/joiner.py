"""The joiner: reads arrived files, and seals complete examples, together with the state to resume from.

Rows become examples in one order: by their time, or for late rows by the watermark at their arrival, then by file and
row. A position in that order and the list of files thus define the state, and a joiner that is killed at any time
writes the same segments again.
"""

import datetime
import logging
import posixpath
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import tensorflow as tf

from components.examples.blocks import encode
from components.stream.arrivals import MAIN, Arrival, Folder
from components.stream.dead_letters import DeadLetters
from components.stream.emission import Emission
from components.stream.landing import as_landed
from components.stream.reading import FileReader, Integers, MainFile, OtherFile
from components.stream.state import ReadFile, State, read_state, write_state
from components.stream.topics import Topics
from schemas.contracts import segments
from schemas.contracts.example_files import BLOCK_ROWS
from schemas.contracts.joining_job import JoiningJob
from schemas.errors import UserError

_LOG = logging.getLogger("components.stream")
_NEVER = np.iinfo(np.int64).min
_DAY_S = 86_400


class Joiner:
    """A joiner in the state after its last segment.

    Attributes:
        counts: counts of rows, examples and files so far.
        watermark: as in `State`.
    """

    def __init__(self, job: JoiningJob, clock: Callable[[], float] = time.monotonic):
        """Reads the waiting rows of the last segment again."""
        self._arrivals: Folder | Topics = Folder(job, clock) if job.kafka is None else Topics(job, clock)
        if job.kafka is not None:
            job = as_landed(job)
        self._job, self._clock = job, clock
        self._settings, self._folder = job.settings, Path(job.segments)
        self._reader, self._emission = FileReader(job), Emission(job)
        self._dead = DeadLetters(Path(job.dead_letters))
        self._main: dict[int, MainFile] = {}
        self._others: dict[int, OtherFile] = {}
        self._files: dict[tuple[str, str], ReadFile] = {}
        self.counts: Counter[str] = Counter()
        self.watermark, self._emitted = int(_NEVER), (int(_NEVER), 0, 0)
        self._newest, self._last_number = int(_NEVER), 0
        self._positions: dict[str, Any] = {}
        self._segment = segments.newest(self._folder)
        if self._segment:
            self._restore(read_state(segments.path_of(self._folder, self._segment)))
        self._sealed_at = self._arrived_at = self._looked_at = clock()

    def step(self, *, is_last: bool = False) -> bool:
        """Reads arrived files and seals a segment if one is due; returns whether it did either.

        Args:
            is_last: seal what is ready even if no segment is due.
        """
        read = self._read_new()
        now = self._clock()
        if read or (self._arrivals.is_behind and not self._is_full):
            self._arrived_at = now
        is_idle = now - self._arrived_at >= self._settings.idle_s
        ready = self._ready(is_idle=is_idle)
        if not len(ready) and now - self._looked_at >= self._settings.idle_s:
            self._looked_at = now
            return self._seal_positions() or read
        is_full = len(ready) >= self._settings.segment_rows
        is_due = now - self._sealed_at >= self._settings.segment_every_s
        if not len(ready) or not (is_full or is_due or is_last):
            return read
        self._seal(ready[: self._settings.segment_rows])
        self._sealed_at = now
        return True

    def close(self) -> None:
        """Stops reading from the source."""
        self._arrivals.close()

    def source(self) -> Mapping[str, object]:
        """Returns the state of the source of the files, for people."""
        return self._arrivals.status()

    @property
    def num_waiting(self) -> int:
        """Rows that have not become examples, and actions that are kept."""
        return sum(int(file.waits.sum()) for file in self._main.values()) + sum(
            other.batch.num_rows for other in self._others.values()
        )

    @property
    def segment(self) -> int:
        """The number of the last sealed segment."""
        return self._segment

    @property
    def _is_full(self) -> bool:
        return self.num_waiting > self._settings.max_waiting_rows

    def _read_new(self) -> bool:
        if self._is_full:
            self._forget()  # Actions without rows are not sealed in a segment.
            if self._is_full:
                return False
        oldest = self._arrivals.oldest(file.day for file in self._files.values())

        def is_done(arrival: Arrival) -> bool:
            is_old = oldest is not None and arrival.source == MAIN and arrival.day < oldest
            return is_old or (arrival.source, arrival.name) in self._files

        found = False
        for arrival in self._arrivals.complete(is_done):
            if self._is_full:
                break
            self._last_number += 1
            file = ReadFile(
                number=self._last_number,
                source=arrival.source,
                name=arrival.name,
                day=arrival.day.isoformat(),
                watermark=self.watermark,
                is_over=False,
            )
            self._take(file, arrival.path, is_again=False)
            found = True
        self._advance()
        return found

    def _take(self, file: ReadFile, path: str, *, is_again: bool) -> None:
        """Reads a file; one that cannot be read becomes a dead letter, and is done."""
        arrival = Arrival(file.source, path, file.name, datetime.date.fromisoformat(file.day))
        counts = Counter() if is_again else self.counts
        try:
            if file.source == MAIN:
                main = self._reader.main(arrival, file.number, counts)
                main.order = np.maximum(main.times, file.watermark)
                if not is_again and file.watermark != _NEVER:
                    counts["rows late"] += int((main.times < file.watermark).sum())
                self._main[file.number], times = main, main.times
            else:
                self._others[file.number] = other = self._reader.other(arrival, file.number, counts)
                times = other.times
            self._newest = max(self._newest, int(times.max(initial=_NEVER)))
        except (UserError, OSError) as error:
            if is_again:
                raise UserError(
                    f"{path}: was read before, and cannot be read again (got {error}); restore it, or give the "
                    "source its former name: its rows wait for their actions"
                ) from error
            if self._job.kafka is not None:
                raise UserError(
                    f"{path}: has landed and cannot be read (got {error}); restore it, or remove the folders landed "
                    "and examples: messages come again from the group's committed offsets on"
                ) from error
            self._dead.add(file.name, file.source, str(error))
            counts["files that cannot be read"] += 1
            file = file.model_copy(update={"is_over": True})
        counts["files"] += 1
        self._files[file.source, file.name] = file

    def _advance(self) -> None:
        """Moves the watermark to the newest row or action, less `lateness_s`."""
        horizon = self._arrivals.horizon
        newest = self._newest if horizon is None else min(self._newest, horizon)
        if newest != _NEVER:
            self.watermark = max(self.watermark, newest - self._settings.lateness_s)

    @property
    def _window_s(self) -> int:
        return max(
            (source.window_s for source in self._job.logs.sources.values() if source.kind == "actions"), default=0
        )

    def _ready(self, *, is_idle: bool) -> Integers:
        """Returns order, file and index of the rows whose windows have ended, in their order: [n, 3]."""
        found = [np.zeros([0, 3], np.int64)]
        for number, file in self._main.items():
            is_over = file.waits if is_idle else file.waits & (file.order + self._window_s <= self.watermark)
            at = np.flatnonzero(is_over)
            found.append(np.stack([file.order[at], np.full(len(at), number), at], axis=1))
        rows = np.concatenate(found)
        return rows[np.lexsort((rows[:, 2], rows[:, 1], rows[:, 0]))]

    def _seal_positions(self) -> bool:
        """Seals a segment without examples if messages were read and none waits; returns whether it has."""
        self._forget()
        if self._arrivals.positions(self._files.values()) == self._positions:
            return False
        self._seal(np.zeros([0, 3], np.int64))
        return True

    def _seal(self, ready: Integers) -> None:
        counts: Counter[str] = Counter()
        rows, event = self._examples(ready, counts) if len(ready) else (pa.table({}), np.zeros(0, np.int64))
        if len(ready):
            self._emitted = tuple(ready[-1].tolist())
        # Later arrivals are ordered after the last example, even if it was emitted before the watermark reached it.
        self.watermark = max(self.watermark, self._emitted[0])
        self.counts += counts
        self._forget()
        number = self._segment + 1
        path = segments.begin(self._folder, number)
        _write_blocks(path / segments.EXAMPLES_FILE, rows)
        state = State(
            watermark=self.watermark,
            emitted=self._emitted,
            files=tuple(self._files.values()),
            counts=dict(self.counts),
        )
        write_state(path, state)
        self._positions = self._arrivals.positions(state.files)
        known = event[event != _NEVER]
        segments.seal(
            self._folder,
            number,
            rows=rows.num_rows,
            first_event=int(known.min()) if len(known) else None,
            last_event=int(known.max()) if len(known) else None,
            positions=self._positions,
            counts=dict(counts),
        )
        self._segment = number
        for key in self._arrivals.sealed(state.files):
            del self._files[key]
        _LOG.info("segment=%d rows=%d waiting=%d watermark=%d", number, rows.num_rows, self.num_waiting, self.watermark)

    def _examples(self, ready: Integers, counts: Counter[str]) -> tuple[pa.Table, Integers]:
        """Returns the examples of rows, in their order, and the time of each."""
        parts, orders, times = [], [], []
        of_files = [
            (self._main[number], np.sort(ready[ready[:, 1] == number, 2])) for number in np.unique(ready[:, 1]).tolist()
        ]
        examples = self._emission.examples(of_files, list(self._others.values()), counts)
        for (file, chosen), (batch, kept) in zip(of_files, examples, strict=True):
            parts.append(batch)
            at = chosen[kept]
            orders.append(np.stack([file.order[at], np.full(len(at), file.number), at], axis=1))
            times.append(file.times[at])
            file.waits[chosen] = False
        order, event = np.concatenate(orders), np.concatenate(times)
        in_order = np.lexsort((order[:, 2], order[:, 1], order[:, 0]))
        return pa.Table.from_batches(parts).take(pa.array(in_order)).combine_chunks(), event

    def _forget(self) -> None:
        """Forgets files that are no longer needed."""
        first = min(
            (int(file.order[file.waits].min()) for file in self._main.values() if file.waits.any()), default=None
        )
        horizon = self.watermark if first is None else min(first, self.watermark)
        keep_s = {
            name: 0 if source.kind == "actions" else source.max_age_days * _DAY_S
            for name, source in self._job.logs.sources.items()
        }
        over = {number for number, file in self._main.items() if not file.waits.any()}
        over |= {
            number
            for number, other in self._others.items()
            if not len(other.times) or int(other.times.max()) < horizon - keep_s[other.source]
        }
        for key, file in self._files.items():
            if file.number in over:
                self._files[key] = file.model_copy(update={"is_over": True})
                self._main.pop(file.number, None)
                self._others.pop(file.number, None)

    def _restore(self, state: State) -> None:
        self.watermark, self._emitted = state.watermark, state.emitted
        self._positions = segments.read(self._folder, self._segment).positions
        # Higher than the file number of any row so far, forgotten files included: it is part of the order of rows.
        self._last_number = max([state.emitted[1], *(file.number for file in state.files)])
        for file in state.files:
            if file.is_over:
                self._files[file.source, file.name] = file
            else:
                self._take(file, posixpath.join(self._job.data_root, file.name), is_again=True)
        for number, main in self._main.items():
            places = zip(main.order.tolist(), [number] * len(main.order), range(len(main.order)), strict=True)
            main.waits[:] = [place > self._emitted for place in places]
        self.counts = Counter(state.counts)


def _write_blocks(file: Path, rows: pa.Table) -> None:
    with tf.io.TFRecordWriter(str(file)) as writer:
        for start in range(0, rows.num_rows, BLOCK_ROWS):
            block = rows.slice(start, BLOCK_ROWS).combine_chunks()
            arrays = [column.chunk(0) if column.num_chunks else pa.array([], column.type) for column in block.columns]
            writer.write(encode(pa.RecordBatch.from_arrays(arrays, rows.schema.names)))
