"""Applies the deltas of the served version's lineage, one whole delta after another."""

import datetime
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from sangam.components.server.delta_files import NotApplicable, ReadDelta, read_delta
from sangam.components.server.model import LoadedModel
from sangam.schemas.contracts import deltas
from sangam.schemas.contracts.export import DESCRIPTION_FILE, REMOVE, REPLACE_DENSE, UPSERT, of_group, read_description
from sangam.schemas.errors import UserError

_LOG = logging.getLogger("sangam.components.server")
_ROWS_AT_ONCE = 4096
"""Rows per change of a table under its lock: a request waits for about a millisecond."""
_PAUSE_S = 0.002
"""Seconds between two changes, in which requests run."""


class HalfApplied(Exception):
    """A delta failed in the middle: the model is between two states, and must be loaded again, without that delta.

    Attributes:
        sha256: SHA-256 of the delta.
    """

    def __init__(self, sha256: str, text: str):
        super().__init__(text)
        self.sha256 = sha256


@dataclass(frozen=True)
class State:
    """The served state of a lineage.

    Attributes:
        place: position in the lineage; None: the version has no lineage.
        newest_event: newest event that the served state has learned from, seconds since 1970; None: unknown.
        created: when the last delta was published; None before the first.
        rows: number of rows applied since the version was loaded.
        removed: number of keys removed since then.
        problem: why the next delta is not applied; empty without one.
        reason: the problem in one word.
    """

    place: deltas.Lineage | None
    newest_event: int | None = None
    created: datetime.datetime | None = None
    rows: int = 0
    removed: int = 0
    problem: str = ""
    reason: str = ""

    def lag_s(self) -> float | None:
        """Returns the seconds since the newest event that was learned from."""
        return None if self.newest_event is None else time.time() - self.newest_event

    def age_s(self) -> float | None:
        """Returns the seconds since the served delta was published."""
        return None if self.created is None else time.time() - self.created.timestamp()


class Deltas:
    """The deltas of one loaded version; one thread applies them."""

    def __init__(self, model: LoadedModel, version: Path, *, versions: Path | None = None, failed: str = ""):
        """Takes a loaded version and its folder.

        Args:
            model: model in the state in which it was pushed.
            version: folder of the version.
            versions: folder of versions; None: that of `version`, which is not in the shadow.
            failed: sha256 of a delta that has failed half-way: it is not tried again.
        """
        self._model, self._versions, self._failed = model, versions or version.parent, failed
        self.state = State(deltas.lineage_of(version))
        self._first = self.state.place.number if self.state.place else 0
        self._dims: Mapping[str, int] = {}
        if self.state.place is not None and (version / DESCRIPTION_FILE).is_file():
            try:
                file = version / DESCRIPTION_FILE
                described = read_description(str(file), file.read_bytes())
                self._dims = {name: group.dim for name, group in described.groups.items()}
            except UserError as error:
                self._note(NotApplicable("foreign", str(error)))

    def number_of(self, model: LoadedModel) -> int | None:
        """Returns the number of the last delta of a model; None if these are not its deltas, or it takes none."""
        place = self.state.place
        return place.number if place is not None and model is self._model else None

    def must_go_back(self) -> bool:
        """Returns whether the lineage is held at a delta of this version that precedes the served one."""
        place = self.state.place
        try:
            held = self._held()
        except NotApplicable as error:
            self._note(error)
            return False
        return place is not None and held is not None and self._first <= held < place.number

    def _held(self) -> int | None:
        place = self.state.place
        try:
            hold = deltas.read_hold(self._versions, place.lineage) if place is not None else None
        except UserError as error:
            raise NotApplicable("damaged", str(error)) from error
        return None if hold is None else hold.number

    def apply_new(self) -> int:
        """Applies the published deltas; returns their number.

        Raises:
            HalfApplied: one has failed in the middle.
        """
        applied = 0
        try:
            while self._is_there():
                self._apply_next()
                applied += 1
        except NotApplicable as error:
            self._note(error)
        except (OSError, ValueError) as error:  # The folder of deltas cannot be listed, or a file in it be read.
            self._note(NotApplicable("damaged", f"the next delta cannot be read (got {type(error).__name__}: {error})"))
        else:
            if applied or self.state.problem:
                self._note(None)
        return applied

    def _is_there(self) -> bool:
        place = self.state.place
        if place is None:
            return False
        held = self._held()
        if held is not None and place.number >= held:
            return False
        path = deltas.path_of(self._versions, place.lineage, place.number + 1)
        if (path / deltas.DELTA_FILE).is_file():
            return True
        later = [number for number in deltas.published(self._versions, place.lineage) if number > place.number]
        if later and later[0] > place.number + 1:
            raise NotApplicable(
                "gap",
                f"{path}: is missing (got {later[0]} after {place.number}); a full version that includes it is served "
                "once it is pushed",
            )
        return bool(later)  # It may have been published since.

    def _apply_next(self) -> None:
        state, started = self.state, time.monotonic()
        assert state.place is not None
        read = read_delta(self._versions, state.place, self._dims)
        if read.sha256 == self._failed:
            raise NotApplicable(
                "failed", f"delta {read.delta.number}: failed half-way, see the log; the next full version includes it"
            )
        self._refuse_dense(read)
        try:
            self._run(read)
        except Exception as error:
            raise HalfApplied(read.sha256, f"delta {read.delta.number}: {type(error).__name__}: {error}") from error
        number, lineage = read.delta.number, state.place.lineage
        rows = sum(change.rows for change in read.delta.groups.values())
        removed = sum(change.removed for change in read.delta.groups.values())
        self.state = State(
            place=deltas.Lineage(lineage=lineage, number=number, sha256=read.sha256),
            newest_event=read.delta.newest_event,
            created=read.delta.created,
            rows=state.rows + rows,
            removed=state.removed + removed,
        )
        told = (self._model.version, lineage, number, rows, removed, read.delta.dense, time.monotonic() - started)
        _LOG.info("version=%d lineage=%s delta=%d rows=%d removed=%d dense=%s seconds=%.3f", *told)

    def _refuse_dense(self, read: ReadDelta) -> None:
        if read.dense is None:
            return
        signature = self._model.signatures.get(REPLACE_DENSE)
        if signature is None:
            raise NotApplicable(
                "foreign", f"version {self._model.version}: has no signature {REPLACE_DENSE}; push a newer export"
            )
        lengths = signature.inputs["flat"].lengths
        if lengths != (len(read.dense),):
            raise NotApplicable(
                "foreign", f"delta {read.delta.number}: has {len(read.dense)} dense weights (got a model of {lengths})"
            )

    def _run(self, read: ReadDelta) -> None:
        """Removes, then upserts, then replaces the dense weights."""
        for change in read.changes:
            for start in range(0, len(change.removed), _ROWS_AT_ONCE):
                keys = change.removed[start : start + _ROWS_AT_ONCE]
                self._call(of_group(REMOVE, change.group, len(self._dims)), keys=keys)
        for change in read.changes:
            for start in range(0, len(change.keys), _ROWS_AT_ONCE):
                part = slice(start, start + _ROWS_AT_ONCE)
                name = of_group(UPSERT, change.group, len(self._dims))
                self._call(name, keys=change.keys[part], rows=change.rows[part])
        if read.dense is not None:
            self._call(REPLACE_DENSE, flat=read.dense)

    def _call(self, signature: str, **arrays: object) -> None:
        self._model.signatures[signature].call(arrays)
        time.sleep(_PAUSE_S)

    def _note(self, error: NotApplicable | None) -> None:
        problem, reason = (str(error), error.reason) if error else ("", "")
        if problem and problem != self.state.problem:
            _LOG.error("version=%d delta_refused=%s: %s", self._model.version, reason, problem)
        self.state = replace(self.state, problem=problem, reason=reason)

    def document(self) -> dict[str, object]:
        """Returns the served state, for people and programs."""
        state, place = self.state, self.state.place
        return {
            "version": self._model.version,
            "lineage": place.lineage if place else None,
            "delta": place.number if place else None,
            "published_s_ago": state.age_s(),
            "newest_event_s_ago": state.lag_s(),
            "rows_applied": state.rows,
            "keys_removed": state.removed,
            "problem": state.problem or None,
        }
