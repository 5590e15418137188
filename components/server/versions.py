"""Which version is served: watches the folder, loads a new version aside, and puts it in the place of the old one."""

import gc
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from components.registry import versions as folders
from components.server.metrics import Metrics
from components.server.model import LoadedModel, NotServable
from components.server.request_error import Code, Refused

_LOG = logging.getLogger("components.server")
LOADING, AVAILABLE, END = "LOADING", "AVAILABLE", "END"
"""States of a version, by the names of tensorflow.serving.ModelVersionStatus.State."""
_WITHDRAWN, _CHANGED = "withdrawn", "changed"
_NOBODYS_FAULT = (_WITHDRAWN, _CHANGED)
_MAX_DIGITS = 18
Fingerprint = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True)
class State:
    """What became of a version.

    Attributes:
        state: one of LOADING, AVAILABLE and END.
        problem: why it cannot be served; empty if nothing is wrong.
        reason: the same in one word.
    """

    state: str
    problem: str = ""
    reason: str = ""


class Versions:
    """The served version and those tried.

    What was loaded is looked at once more at the moment of the swap: it may have been withdrawn meanwhile.

    One thread changes it; requests read `ready` once and keep what they got, so that each runs wholly on one version,
    and a version that was replaced is freed when its last request ends.
    """

    def __init__(self, *, name: str, folder: Path, poll_s: float, metrics: Metrics, changed: Callable[[], None]):
        """Takes a folder of versions, or of one SavedModel; `changed` is called after each swap."""
        self._name, self._folder, self._poll_s = name, folder, poll_s
        self._metrics, self._changed = metrics, changed
        self._served: LoadedModel | None = None
        self._states: dict[int, State] = {}
        self._refused: dict[int, Fingerprint] = {}
        self._described: set[int] = set()
        self._stopped = threading.Event()
        self._tried = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="versions", daemon=True)

    def start(self) -> None:
        """Starts to load and to watch."""
        self._thread.start()

    def stop(self) -> None:
        """Stops watching; a load that is under way is not waited for."""
        self._stopped.set()

    def tried(self, seconds: float) -> bool:
        """Waits until a first version is served or all that are there were refused; says whether that came."""
        return self._tried.wait(seconds)

    def states(self) -> dict[int, State]:
        """Returns what became of each version, newest first."""
        return dict(sorted(self._states.copy().items(), reverse=True))

    def is_ready(self) -> bool:
        """Whether a version is served."""
        return self._served is not None

    def ready(self, version: int | None = None) -> LoadedModel:
        """Returns the served version.

        Raises:
            Refused: when there is none, or another one is wanted.
        """
        served = self._served
        if served is None:
            problems = "; ".join(
                f"{number}: {state.problem}" for number, state in self.states().items() if state.problem
            )
            raise Refused(
                Code.UNAVAILABLE, f"model {self._name}: no version is ready (got {problems or 'none'}); try later"
            )
        if version is not None and version != served.version:
            raise Refused(
                Code.NOT_FOUND, f"version: not served (got {version}); model {self._name} serves {served.version}"
            )
        return served

    def _watch(self) -> None:
        # What was imported stays for ever: the collections after each swap need not look at it.
        gc.collect()
        gc.freeze()
        while not self._stopped.is_set():
            try:
                self._look()
            except Exception:  # noqa: BLE001 What is served goes on, and the next look may do better.
                _LOG.exception("model=%s folder=%s could not be looked at", self._name, self._folder)
            self._tried.set()
            self._stopped.wait(self._poll_s)

    def _look(self) -> None:
        """Serves the newest version that can be; keeps the served one where nothing else can."""
        there = self._there()
        for gone in [number for number in self._states if number not in there and not self._is_served(number)]:
            self._forget(gone)
        for number, folder in sorted(there.items(), reverse=True):
            if self._is_served(number):
                return
            if self._refused.get(number) == _fingerprint(folder):
                continue
            if self._try(number, folder):
                return

    def _there(self) -> dict[int, Path]:
        if (self._folder / folders.MODEL_FILE).is_file():
            name = self._folder.name
            return {int(name) if name.isdecimal() and len(name) <= _MAX_DIGITS else 1: self._folder}
        return {int(number): self._folder / number for number in folders.versions(self._folder)}

    def _try(self, number: int, folder: Path) -> bool:
        before = _fingerprint(folder)
        self._forget(number)
        self._states[number] = State(LOADING)
        start = time.monotonic()
        is_described = folders.is_verified(folder)
        try:
            if not is_described and number in self._described:
                raise NotServable("damaged", f"{folder}: its {folders.MANIFEST_FILE}, which it had, is gone")
            if is_described:
                self._described.add(number)
            if found := folders.damage(folder):
                raise NotServable("damaged", f"{folder}: damaged ({found})")
            verified = time.monotonic()
            model = LoadedModel(folder, number)
            loaded = time.monotonic()
            num_warm = model.warm_up()
            warm = time.monotonic()
            _check_unchanged(folder, before)
        except NotServable as error:
            self._refuse(number, before, error)
            return False
        times = (verified - start, loaded - verified, warm - loaded)
        old = self._swap(model)
        self._metrics.load_seconds.set(sum(times))
        _LOG.info(
            "model=%s version=%d replaces=%s verified=%s verify_s=%.2f load_s=%.2f warmup_s=%.2f warmup_requests=%d",
            self._name,
            number,
            old or "none",
            str(is_described).lower(),
            *times,
            num_warm,
        )
        return True

    def _swap(self, model: LoadedModel) -> int | None:
        """Puts a loaded version in the place of the old one; returns the old one's number."""
        old = self._served
        self._states[model.version] = State(AVAILABLE)
        self._served = model
        self._metrics.version.clear()
        self._metrics.version.labels(self._name, str(model.version)).set(1)
        if old is not None:
            self._metrics.swaps.inc()
            self._states[old.version] = State(END)
        self._changed()
        number = old.version if old else None
        del old
        # Loaded functions refer to each other in circles, which only a collection frees.
        gc.collect()
        return number

    def _refuse(self, number: int, fingerprint: Fingerprint, error: NotServable) -> None:
        self._refused[number] = fingerprint
        self._states[number] = State(END, str(error), error.reason)
        self._metrics.refused_version.labels(self._name, str(number), error.reason).set(1)
        kept = self._served.version if self._served else "none"
        level = logging.WARNING if error.reason in _NOBODYS_FAULT else logging.ERROR
        _LOG.log(level, "model=%s version=%d refused=%s served=%s: %s", self._name, number, error.reason, kept, error)

    def _forget(self, number: int) -> None:
        state = self._states.pop(number, None)
        self._refused.pop(number, None)
        if state and state.reason:
            self._metrics.refused_version.remove(self._name, str(number), state.reason)

    def _is_served(self, number: int) -> bool:
        return self._served is not None and self._served.version == number


def _check_unchanged(folder: Path, before: Fingerprint) -> None:
    """Refuses a version whose files are no longer those that were verified and loaded."""
    if not folder.is_dir():
        raise NotServable(_WITHDRAWN, f"{folder}: withdrawn or removed while it was loaded")
    if _fingerprint(folder) != before:
        raise NotServable(_CHANGED, f"{folder}: its files changed while it was loaded; the next look tries it again")


def _fingerprint(folder: Path) -> Fingerprint:
    """Returns what changes when a file does: a version that was refused is tried again after that."""
    # Of links themselves: one may be what it was refused for.
    described = []
    for path in sorted(folder.rglob("*")):
        try:
            described.append((path, path.lstat()))
        except FileNotFoundError:  # Removed since it was listed.
            continue
    return tuple((str(path.relative_to(folder)), stat.st_size, stat.st_mtime_ns) for path, stat in described)
