"""Rank 0's schedule: the next segment, and when deltas, checkpoints and full versions are due."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from sangam.schemas.contracts import segments
from sangam.schemas.contracts.training_job import TrainJob
from sangam.schemas.errors import UserError
from sangam.schemas.spec.online import SkipTo
from sangam.trainer_module.online.turns import DENSE, NOTHING, ROWS, Turn

WAIT_S = 0.5
"""Maximum wait for a segment before ranks synchronize, so that no rank appears hung."""
_POLL_S = 0.05
_LOOK_EVERY_S = 10.0
"""Seconds between checks for a missing next segment that later segments have overtaken."""


@dataclass
class Skipped:
    """Segments left out by the policy `skip_to_s`, or missing.

    Attributes:
        segments: number of segments.
        rows: number of their rows, as far as known.
    """

    segments: int = 0
    rows: int = 0


@dataclass
class Director:
    """Decides each turn.

    Attributes:
        job: the online training job.
        last: number of the last segment trained on or skipped; 0: none.
        deltas: number of deltas of the lineage so far.
        full_at: number of the last delta in a full version.
        held: reason to publish no delta; empty: publish.
        skipped: segments and rows skipped so far.
        has_changes: whether the rows were trained since the last delta.
        has_dense_changes: whether the model was trained since the last delta with dense weights.
    """

    job: TrainJob
    last: int
    deltas: int
    full_at: int
    held: str = ""
    skipped: Skipped = field(default_factory=Skipped)
    has_changes: bool = False
    has_dense_changes: bool = False
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        assert self.job.stream is not None
        self._stream, self._folder = self.job.stream, Path(self.job.stream.segments)
        now = self.clock()
        self._rows_due = now + self._stream.settings.sync.rows_every_s
        self._dense_due = now + self._stream.settings.sync.dense_every_s
        self._save_due = now + self._stream.settings.checkpoint_every_s
        self._saved_at = self.last
        self._newest = 0
        self._look_due = now

    def turn(self) -> Turn:
        """Returns the next turn; waits up to `WAIT_S` if nothing is due.

        Raises:
            UserError: the next segment is missing.
        """
        given_up = self.clock() + WAIT_S
        while True:
            stop = self.job.stop_file.exists()
            segment = 0 if stop else self._next()
            turn = self._turn(segment, stop=stop)
            if turn != Turn() or self.clock() > given_up:
                return turn
            time.sleep(_POLL_S)

    def _turn(self, segment: int, *, stop: bool) -> Turn:
        now = self.clock()
        is_full = self.deltas + 1 - self.full_at >= self._stream.settings.sync.full_every
        publish = NOTHING
        if not self.held:
            if (segment or self.has_dense_changes) and (stop or now >= self._dense_due):
                publish = DENSE
            elif (segment or self.has_changes) and now >= self._rows_due:
                publish = DENSE if is_full else ROWS
        full = publish == DENSE and is_full
        is_new = max(segment, self.last) > self._saved_at
        # A full version allows the removal of deltas: no checkpoint may remain that must publish them again.
        save = full or (is_new and (stop or now >= self._save_due))
        return Turn(segment, publish, save, full=full, stop=stop)

    def done(self, turn: Turn) -> None:
        """Updates the state after a turn."""
        now, sync = self.clock(), self._stream.settings.sync
        if turn.segment:
            self.last, self.has_changes, self.has_dense_changes = turn.segment, True, True
        if turn.publish:
            self.deltas, self.has_changes = self.deltas + 1, False
            self._rows_due = now + sync.rows_every_s
        if turn.publish == DENSE:
            self._dense_due, self.has_dense_changes = now + sync.dense_every_s, False
        if turn.full:
            self.full_at = self.deltas
        if turn.save:
            self._saved_at, self._save_due = self.last, now + self._stream.settings.checkpoint_every_s

    def newest(self) -> int:
        """Returns the number of the newest segment; 0 without any."""
        self._newest = segments.newest(self._folder, self._newest)
        return self._newest

    def _next(self) -> int:
        """Returns the number of the segment to train on; 0: none has arrived."""
        number, lag = max(self.last + 1, self._stream.first), self._stream.settings.lag
        if isinstance(lag, SkipTo):
            number = self._skipped_to(number, lag.skip_to_s)
        if segments.exists(self._folder, number):
            return number
        now = self.clock()
        if now >= self._look_due:
            self._look_due = now + _LOOK_EVERY_S
            self._refuse_gone(number)
        return 0

    def _refuse_gone(self, number: int) -> None:
        if self.newest() > number and not segments.exists(self._folder, number):
            later = next(each for each in segments.numbers(self._folder) if each > number)
            raise UserError(
                f"{segments.path_of(self._folder, number)}: is gone (got {later} as the next segment); restore it, or "
                "declare online.lag: {skip_to_s: SECONDS} to leave out what is gone"
            )

    def _skipped_to(self, number: int, seconds: int) -> int:
        """Returns the first segment from `number` on that is at most `seconds` older than the newest."""
        newest = self.newest()
        if newest <= number:
            return number
        newest_event = segments.read(self._folder, newest).newest_event
        while number < newest:
            rows = 0
            if segments.exists(self._folder, number):
                segment = segments.read(self._folder, number)
                event, rows = segment.newest_event, segment.rows
                if event is None or newest_event is None or event >= newest_event - seconds:
                    break
            self.skipped.segments += 1
            self.skipped.rows += rows
            number += 1
        self.last = number - 1
        return number
