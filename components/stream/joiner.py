"""The joiner: reads arrived files, and seals complete examples, together with the state to resume from.

Rows become examples in one order: by their time, or for late rows by the watermark at their arrival, then by file and
row. A position in that order and the list of files thus define the state, and a joiner that is killed at any time
writes the same segments again.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import tensorflow as tf

from sangam.components.examples.blocks import encode
from sangam.components.stream.arrivals import Folder
from sangam.components.stream.emission import Emission
from sangam.components.stream.file_log import FileLog
from sangam.components.stream.landing import as_landed
from sangam.components.stream.reading import NEVER, Integers
from sangam.components.stream.stalls import Stalls
from sangam.components.stream.state import State, read_state, write_state
from sangam.components.stream.taking import Files
from sangam.components.stream.topics import Topics
from sangam.schemas.contracts import segments
from sangam.schemas.contracts.example_files import BLOCK_ROWS
from sangam.schemas.contracts.joining_job import JoiningJob

_LOG = logging.getLogger("sangam.components.stream")
_DAY_S = 86_400


class Joiner:
    """A joiner in the state after its last segment.

    Attributes:
        watermark: as in `State`.
        stalls: whether examples come as they should.
    """

    def __init__(
        self, job: JoiningJob, clock: Callable[[], float] = time.monotonic, wall: Callable[[], float] = time.time
    ):
        """Reads the waiting rows of the last segment again."""
        self._arrivals: Folder | Topics = (Folder if job.kafka is None else Topics)(job, clock, wall)
        if job.kafka is not None:
            job = as_landed(job)
        self._job, self._clock, self._wall = job, clock, wall
        self._settings, self._folder = job.settings, Path(job.segments)
        self._emission, self._files = Emission(job), Files(job, self._arrivals, wall)
        self.watermark, self._emitted = NEVER, (NEVER, 0, 0)
        self._positions: dict[str, Any] = {}
        self._log = FileLog(self._folder, None)
        self._segment = segments.newest(self._folder)
        if self._segment:
            self._restore(read_state(self._folder, self._segment))
        self._sealed_at = self._arrived_at = self._looked_at = clock()
        self.stalls = Stalls(self._settings, self._window_s, clock, wall)

    def step(self, *, is_last: bool = False) -> bool:
        """Reads arrived files and seals a segment if one is due; returns whether it did either.

        Args:
            is_last: seal what is ready even if no segment is due.
        """
        # Of the moment before the files are listed: reading them may take long, and others arrive meanwhile.
        now, wall = self._clock(), int(self._wall())
        read = self._read_new()
        if read or (self._arrivals.is_behind and not self._is_full):
            self._arrived_at = now
        ready = self._ready(quiet_at=wall if now - self._arrived_at >= self._settings.idle_s else None)
        self.stalls.note(self._files.main.values(), self.watermark)
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
    def counts(self) -> Counter[str]:
        """Counts of rows, examples and files so far."""
        return self._files.counts

    @property
    def num_waiting(self) -> int:
        """Rows that have not become examples, and actions that are kept."""
        return self._files.num_waiting

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
        found = False
        for _ in self._files.read_new(self.watermark):
            found = True
            if self._is_full:
                break
        self._advance()
        return found

    def _advance(self) -> None:
        """Moves the watermark to the newest row or action, less `lateness_s`."""
        horizon = self._arrivals.horizon
        newest = self._files.newest if horizon is None else min(self._files.newest, horizon)
        if newest != NEVER:
            self.watermark = max(self.watermark, newest - self._settings.lateness_s)

    @property
    def _window_s(self) -> int:
        return max(
            (source.window_s for source in self._job.logs.sources.values() if source.kind == "actions"), default=0
        )

    def _ready(self, *, quiet_at: int | None) -> Integers:
        """Returns order, file and index of the rows whose windows have ended, in their order: [n, 3].

        Where nothing arrives, the clock of this machine ends windows: no label that may still change is final.

        Args:
            quiet_at: time by that clock, seconds since 1970; None: rows arrive.
        """
        found = [np.zeros([0, 3], np.int64)]
        ended = self.watermark if quiet_at is None else max(self.watermark, quiet_at - self._settings.lateness_s)
        for number, file in self._files.main.items():
            at = np.flatnonzero(file.waits & (file.order + self._window_s <= ended))
            found.append(np.stack([file.order[at], np.full(len(at), number), at], axis=1))
        rows = np.concatenate(found)
        return rows[np.lexsort((rows[:, 2], rows[:, 1], rows[:, 0]))]

    def _seal_positions(self) -> bool:
        """Seals a segment without examples if messages were read and none waits; returns whether it has."""
        self._forget()
        if self._arrivals.positions(self._files.needed()) == self._positions:
            return False
        self._seal(np.zeros([0, 3], np.int64))
        return True

    def _seal(self, ready: Integers) -> None:
        counts: Counter[str] = Counter()
        rows, event = self._examples(ready, counts) if len(ready) else (pa.table({}), np.zeros(0, np.int64))
        if len(ready):
            self._emitted = tuple(ready[-1].tolist())
            self.stalls.note_examples()
        # Later arrivals are ordered after the last example, even if it was emitted before the watermark reached it.
        self.watermark = max(self.watermark, self._emitted[0])
        self._files.counts += counts
        self._forget()
        number = self._segment + 1
        path = segments.begin(self._folder, number)
        _write_blocks(path / segments.EXAMPLES_FILE, rows)
        log = self._log.append(number, self._files.take_over(), self._files.over())
        state = State(
            watermark=self.watermark,
            emitted=self._emitted,
            files=self._files.needed(),
            log=log,
            counts=dict(self.counts),
        )
        write_state(path, state)
        self._positions = self._arrivals.positions(state.files)
        known = event[event != NEVER]
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
        self._log.sealed()
        self._files.forget_landed(self._arrivals.sealed(state.files))
        _LOG.info("segment=%d rows=%d waiting=%d watermark=%d", number, rows.num_rows, self.num_waiting, self.watermark)

    def _examples(self, ready: Integers, counts: Counter[str]) -> tuple[pa.Table, Integers]:
        """Returns the examples of rows, in their order, and the time of each."""
        parts, orders, times = [], [], []
        of_files = [
            (self._files.main[number], np.sort(ready[ready[:, 1] == number, 2]))
            for number in np.unique(ready[:, 1]).tolist()
        ]
        examples = self._emission.examples(of_files, list(self._files.others.values()), counts)
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
        main, others = self._files.main, self._files.others
        first = min((int(file.order[file.waits].min()) for file in main.values() if file.waits.any()), default=None)
        horizon = self.watermark if first is None else min(first, self.watermark)
        keep_s = {
            name: 0 if source.kind == "actions" else source.max_age_days * _DAY_S
            for name, source in self._job.logs.sources.items()
        }
        over = {number for number, file in main.items() if not file.waits.any()}
        over |= {
            number
            for number, other in others.items()
            if not len(other.times) or int(other.times.max()) < horizon - keep_s[other.source]
        }
        self._files.forget(over)

    def _restore(self, state: State) -> None:
        self.watermark, self._emitted = state.watermark, state.emitted
        self._positions = segments.read(self._folder, self._segment).positions
        self._log = FileLog(self._folder, state.log)
        self._files.restore(state.files, self._log.read(), state.emitted[1])
        for number, main in self._files.main.items():
            places = zip(main.order.tolist(), [number] * len(main.order), range(len(main.order)), strict=True)
            main.waits[:] = [place > self._emitted for place in places]
        self._files.counts = Counter(state.counts)


def _write_blocks(file: Path, rows: pa.Table) -> None:
    with tf.io.TFRecordWriter(str(file)) as writer:
        for start in range(0, rows.num_rows, BLOCK_ROWS):
            block = rows.slice(start, BLOCK_ROWS).combine_chunks()
            arrays = [column.chunk(0) if column.num_chunks else pa.array([], column.type) for column in block.columns]
            writer.write(encode(pa.RecordBatch.from_arrays(arrays, rows.schema.names)))
