"""Watches the folder of versions, loads a new version beside the served one, and swaps the two."""

import gc
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sangam.components.drift.comparison import Comparison
from sangam.components.registry import versions as folders
from sangam.components.server.deltas import Deltas, HalfApplied
from sangam.components.server.metrics import Metrics
from sangam.components.server.model import LoadedModel, NotServable
from sangam.components.server.request_error import Code, RequestError
from sangam.schemas.contracts.export import MODEL_FILE

_LOG = logging.getLogger("sangam.components.server")
LOADING, AVAILABLE, END = "LOADING", "AVAILABLE", "END"
"""States of a version, by the names of tensorflow.serving.ModelVersionStatus.State."""
_WITHDRAWN, _CHANGED = "withdrawn", "changed"
_EXPECTED_REASONS = (_WITHDRAWN, _CHANGED)
_MAX_DIGITS = 18
_SWITCH_INTERVAL_S = 5e-5
Fingerprint = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True)
class State:
    """The state of a version.

    Attributes:
        state: LOADING, AVAILABLE or END.
        problem: why it cannot be served; empty if it can.
        reason: the problem in one word.
    """

    state: str
    problem: str = ""
    reason: str = ""


class Versions:
    """The served version, and the states of others.

    Before the swap, a loaded version's files are checked again: it may have been withdrawn meanwhile.

    One thread swaps versions; a request calls `ready` once and keeps the result, so that it uses a single version, and
    a replaced version is freed when its last request ends.
    """

    def __init__(
        self,
        *,
        name: str,
        folder: Path,
        poll_s: float,
        metrics: Metrics,
        changed: Callable[[], None],
        map_tables: bool = False,
    ):
        """Takes a folder of versions, or one SavedModel; `changed` is called after each swap."""
        self._name, self._folder, self._poll_s, self._map_tables = name, folder, poll_s, map_tables
        self._metrics, self._changed = metrics, changed
        self._served: LoadedModel | None = None
        self._deltas: Deltas | None = None
        self._failed_delta = ""
        self._withdrawn = ""
        self._states: dict[int, State] = {}
        self._refused: dict[int, Fingerprint] = {}
        self._verified: set[int] = set()
        self._stopped = threading.Event()
        self._first_checked = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="versions", daemon=True)

    def start(self) -> None:
        """Starts the thread that watches the folder."""
        self._thread.start()

    def stop(self) -> None:
        """Stops watching, without waiting for a version that is loading."""
        self._stopped.set()

    def wait_for_first(self, seconds: float) -> bool:
        """Waits until a first version is served or all were refused; returns False after `seconds`."""
        return self._first_checked.wait(seconds)

    def states(self) -> dict[int, State]:
        """Returns the states of all versions, newest first."""
        return dict(sorted(self._states.copy().items(), reverse=True))

    def is_ready(self) -> bool:
        """Returns whether a version is served."""
        return self._served is not None

    def served_version(self) -> int | None:
        """Returns the number of the served version; None without one."""
        served = self._served
        return served.version if served else None

    def compared(self) -> Comparison | None:
        """Returns what the served version's requests are compared with; None: nothing."""
        served = self._served
        return served.compared if served else None

    def deltas(self) -> Deltas | None:
        """Returns the deltas of the served version; None if it takes none."""
        return self._deltas

    def ready(self, version: int | None = None) -> LoadedModel:
        """Returns the served version.

        Raises:
            RequestError: if there is none, or the request is for another one.
        """
        served = self._served
        if served is None:
            problems = self._withdrawn or "; ".join(
                f"{number}: {state.problem}" for number, state in self.states().items() if state.problem
            )
            raise RequestError(
                Code.UNAVAILABLE, f"model {self._name}: no version is ready (got {problems or 'none'}); try later"
            )
        if version is not None and version != served.version:
            raise RequestError(
                Code.NOT_FOUND, f"version: not served (got {version}); model {self._name} serves {served.version}"
            )
        return served

    def _watch(self) -> None:
        # Imported modules are never freed: the collections after each swap need not examine them.
        gc.collect()
        gc.freeze()
        while not self._stopped.is_set():
            try:
                self._check()
                self._follow_deltas()
            except Exception:  # noqa: BLE001 The served version stays, and the next check may succeed.
                _LOG.exception("model=%s folder=%s could not be checked", self._name, self._folder)
            self._first_checked.set()
            self._stopped.wait(self._poll_s)

    def _check(self) -> None:
        """Serves the newest version that can be served; keeps the current one if there is no other.

        Of a folder whose versions were all withdrawn nothing is served.
        """
        available = self._available()
        self._withdrawn = "" if available else self._end_if_withdrawn()
        for number_ in [number for number in self._states if number not in available and not self._is_served(number)]:
            self._forget(number_)
        for number, folder in sorted(available.items(), reverse=True):
            if self._is_served(number):
                return
            if self._refused.get(number) == _fingerprint(folder):
                continue
            if self._load(number, folder):
                return

    def _end_if_withdrawn(self) -> str:
        """Ends the served version if it was withdrawn; returns why no version is left, empty if that is not known.

        A folder that is empty for another reason, such as a store that is not mounted, ends no version.
        """
        gone = {int(number): record for number, record in folders.withdrawn(self._folder).items()}
        served = self._served.version if self._served else None
        if not gone or (served is not None and served not in gone):
            return ""
        newest = served or max(gone)
        why = f"version {newest} was withdrawn: {gone[newest].because or 'no reason is recorded'}"
        if served is not None:
            self._served = self._deltas = None
            self._metrics.follow(None)
            self._metrics.version.clear()
            self._changed()
            _LOG.warning("model=%s version=%d ends, and none is served: %s", self._name, served, why)
            gc.collect()
        return why

    def _follow_deltas(self) -> None:
        """Applies new deltas to the served version; loads it again to go back to an earlier one."""
        served, following = self._served, self._deltas
        if served is None or following is None:
            return
        try:
            if not following.must_go_back():
                following.apply_new()
                return
            _LOG.warning("model=%s version=%d goes back: its lineage is held", self._name, served.version)
        except HalfApplied as error:
            self._note_failed(served.version, error)
        self._load(served.version, self._folder / str(served.version))

    def _available(self) -> dict[int, Path]:
        if (self._folder / MODEL_FILE).is_file():
            name = self._folder.name
            return {int(name) if name.isdecimal() and len(name) <= _MAX_DIGITS else 1: self._folder}
        return {int(number): self._folder / number for number in folders.versions(self._folder)}

    def _load(self, number: int, folder: Path) -> bool:
        before = _fingerprint(folder)
        self._forget(number)
        self._states[number] = State(LOADING)
        start = time.monotonic()
        is_verified = folders.is_verified(folder)
        try:
            if not is_verified and number in self._verified:
                raise NotServable("damaged", f"{folder / folders.MANIFEST_FILE}: is gone; the version had one before")
            if is_verified:
                self._verified.add(number)
            if problem := folders.damage(folder):
                raise NotServable("damaged", f"{folder}: damaged ({problem})")
            verified = time.monotonic()
            with _yielding():
                model, loaded, num_warm, following = self._caught_up(number, folder)
            warm = time.monotonic()
            _check_unchanged(folder, before)
        except NotServable as error:
            self._refuse(number, before, error)
            return False
        times = (verified - start, loaded - verified, warm - loaded)
        old = self._swap(model, following)
        self._metrics.load_seconds.set(sum(times))
        _LOG.info(
            "model=%s version=%d replaces=%s verified=%s verify_s=%.2f load_s=%.2f warmup_s=%.2f warmup_requests=%d",
            self._name,
            number,
            old or "none",
            str(is_verified).lower(),
            *times,
            num_warm,
        )
        return True

    def _caught_up(self, number: int, folder: Path) -> tuple[LoadedModel, float, int, Deltas | None]:
        """Loads a version and applies all deltas so far before it is served, so that no swap goes back.

        A delta that fails half-way is left out, with all later ones: the version is loaded once more.

        Returns:
            The version, when it was loaded, the number of warm-up requests, and the object that applies deltas.
        """
        for _ in range(2):
            model = LoadedModel(folder, number, map_tables=self._map_tables)
            loaded = time.monotonic()
            num_warm = model.warm_up()
            if folder.parent != self._folder:
                return model, loaded, num_warm, None
            following = Deltas(model, folder, failed=self._failed_delta)
            try:
                following.apply_new()
                return model, loaded, num_warm, following
            except HalfApplied as error:
                self._note_failed(number, error)
                text = str(error)
            del model, following
        raise NotServable("deltas_fail", f"{folder}: two of its deltas fail half-way ({text})")

    def _note_failed(self, number: int, error: HalfApplied) -> None:
        self._failed_delta = error.sha256
        _LOG.error("model=%s version=%d is loaded again: %s", self._name, number, error)

    def _swap(self, model: LoadedModel, following: Deltas | None) -> int | None:
        """Replaces the served version by a loaded one; returns the number of the old one."""
        old = self._served
        if old is not None:
            self._states[old.version] = State(END)
        self._states[model.version] = State(AVAILABLE)
        self._served, self._deltas = model, following
        self._metrics.follow(following)
        self._metrics.version.clear()
        self._metrics.version.labels(self._name, str(model.version)).set(1)
        if old is not None:
            self._metrics.swaps.inc()
        self._changed()
        number = old.version if old else None
        del old
        # Loaded functions form reference cycles, which only a collection frees.
        gc.collect()
        return number

    def _refuse(self, number: int, fingerprint: Fingerprint, error: NotServable) -> None:
        self._refused[number] = fingerprint
        self._states[number] = State(END, str(error), error.reason)
        self._metrics.refused_version.labels(self._name, str(number), error.reason).set(1)
        kept = self._served.version if self._served else "none"
        level = logging.WARNING if error.reason in _EXPECTED_REASONS else logging.ERROR
        _LOG.log(level, "model=%s version=%d refused=%s served=%s: %s", self._name, number, error.reason, kept, error)

    def _forget(self, number: int) -> None:
        state = self._states.pop(number, None)
        self._refused.pop(number, None)
        if state and state.reason:
            self._metrics.refused_version.remove(self._name, str(number), state.reason)

    def _is_served(self, number: int) -> bool:
        return self._served is not None and self._served.version == number


def _check_unchanged(folder: Path, before: Fingerprint) -> None:
    """Refuses a version whose files have changed since they were verified and loaded."""
    if not folder.is_dir():
        raise NotServable(_WITHDRAWN, f"{folder}: withdrawn or removed while it was loaded")
    if _fingerprint(folder) != before:
        raise NotServable(_CHANGED, f"{folder}: its files changed while it was loaded; the next check tries it again")


def _fingerprint(folder: Path) -> Fingerprint:
    """Returns a value that changes with any file: a refused version is tried again after that."""
    # lstat: a link may be the reason for the refusal.
    entries = []
    for path in sorted(folder.rglob("*")):
        try:
            entries.append((path, path.lstat()))
        except FileNotFoundError:  # Removed since it was listed.
            continue
    return tuple((str(path.relative_to(folder)), stat.st_size, stat.st_mtime_ns) for path, stat in entries)


@contextmanager
def _yielding() -> Iterator[None]:
    """Shortens the interpreter's switch interval while a version loads: by default requests would wait 5 ms for it.

    Only while loading, since each short wait wakes another core.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
