"""Watches the folder of versions, loads a new version beside the served one, and swaps the two."""

import gc
import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

from sangam.components.drift.comparison import Comparison
from sangam.components.registry import versions as folders
from sangam.components.server.deltas import Deltas, HalfApplied
from sangam.components.server.loading import Fingerprint, check_unchanged, fingerprint_of, yielding
from sangam.components.server.metrics import Metrics
from sangam.components.server.model import LoadedModel, NotServable
from sangam.components.server.request_error import Code, RequestError
from sangam.components.server.shadow_versions import ShadowVersions
from sangam.components.server.states import AVAILABLE, END, LOADING, State, States
from sangam.schemas.contracts.export import MODEL_FILE

_LOG = logging.getLogger("sangam.components.server")
_MAX_DIGITS = 18


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
        shadow: ShadowVersions | None = None,
    ):
        """Takes a folder of versions, or one SavedModel; `changed` is called after each swap.

        Without `shadow` no version in the shadow of the served one is loaded.
        """
        self._name, self._folder, self._poll_s, self._map_tables = name, folder, poll_s, map_tables
        self._metrics, self._changed, self._shadow = metrics, changed, shadow
        self._served: LoadedModel | None = None
        self._deltas: Deltas | None = None
        self._failed_delta = ""
        self._withdrawn = ""
        self._states = States(name, metrics.refused_version)
        self._verified: set[int] = set()
        self._is_shadow_told = False
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
        """Returns the states of all versions, newest first; also of one in the shadow."""
        in_shadow = self._shadow.states() if self._shadow else {}
        return dict(sorted((in_shadow | self._states.all()).items(), reverse=True))

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
                waiting = folders.shadow(self._folder)  # First: one that is promoted meanwhile is found by `_check`.
                self._check()
                self._follow_deltas()
                self._first_checked.set()
                self._follow_shadow(waiting)
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
        for number in self._states.all().keys() - available.keys():
            if not self._is_served(number):
                self._states.forget(number)
        for number, folder in sorted(available.items(), reverse=True):
            if self._is_served(number):
                return
            if self._states.is_refused(number, fingerprint_of(folder)):
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

    def _follow_shadow(self, waiting: str | None) -> None:
        if self._shadow:
            self._shadow.check(waiting, self._served, self._deltas)
        elif waiting and not self._is_shadow_told:
            self._is_shadow_told = True
            _LOG.warning(
                "model=%s version=%s in the shadow scores nothing: this server has no --log, where its scores would be",
                self._name,
                waiting,
            )

    def _available(self) -> dict[int, Path]:
        if (self._folder / MODEL_FILE).is_file():
            name = self._folder.name
            return {int(name) if name.isdecimal() and len(name) <= _MAX_DIGITS else 1: self._folder}
        return {int(number): self._folder / number for number in folders.versions(self._folder)}

    def _load(self, number: int, folder: Path) -> bool:
        before = fingerprint_of(folder)
        self._states.set(number, LOADING)
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
            with yielding():
                model, loaded, num_warm, following = self._caught_up(number, folder, before)
            warm = time.monotonic()
            check_unchanged(folder, before)
        except NotServable as error:
            self._states.refuse(number, before, error, self.served_version())
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

    def _caught_up(
        self, number: int, folder: Path, before: Fingerprint
    ) -> tuple[LoadedModel, float, int, Deltas | None]:
        """Loads a version and applies all deltas so far before it is served, so that no swap goes back.

        One that was loaded in the shadow, from the same files, is taken with the deltas that it has. A delta that fails
        half-way is left out, with all later ones: the version is loaded once more.

        Returns:
            The version, when it was loaded, the number of warm-up requests, and the object that applies deltas.
        """
        for _ in range(2):
            warm = self._shadow.handed_over(number, before) if self._shadow else None
            model = warm.model if warm else LoadedModel(folder, number, map_tables=self._map_tables)
            loaded = time.monotonic()
            num_warm = 0 if warm else model.warm_up()
            if folder.parent != self._folder:
                return model, loaded, num_warm, None
            following = warm.following if warm else Deltas(model, folder, failed=self._failed_delta)
            try:
                following.apply_new()
                return model, loaded, num_warm, following
            except HalfApplied as error:
                self._note_failed(number, error)
                text = str(error)
            del model, warm, following
        raise NotServable("deltas_fail", f"{folder}: two of its deltas fail half-way ({text})")

    def _note_failed(self, number: int, error: HalfApplied) -> None:
        self._failed_delta = error.sha256
        _LOG.error("model=%s version=%d is loaded again: %s", self._name, number, error)

    def _swap(self, model: LoadedModel, following: Deltas | None) -> int | None:
        """Replaces the served version by a loaded one; returns the number of the old one."""
        old = self._served
        if old is not None:
            self._states.set(old.version, END)
        self._states.set(model.version, AVAILABLE)
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

    def _is_served(self, number: int) -> bool:
        return self._served is not None and self._served.version == number
