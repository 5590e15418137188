"""The version in the shadow of the served one: loaded beside it, kept as fresh, and dropped when it goes away."""

import gc
import logging
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from sangam.components.registry import versions as folders
from sangam.components.request_log.settings import shadow_of
from sangam.components.server.deltas import Deltas, HalfApplied
from sangam.components.server.deltas import State as DeltaState
from sangam.components.server.loading import Fingerprint, check_unchanged, fingerprint_of, yielding
from sangam.components.server.model import LoadedModel, NotServable
from sangam.components.server.shadow import Scorer
from sangam.components.server.shadow_metrics import ShadowMetrics
from sangam.components.server.states import LOADING, START, State, States
from sangam.schemas.contracts import deltas
from sangam.schemas.contracts.export import RANK, SERVE
from sangam.schemas.errors import UserError

_LOG = logging.getLogger("sangam.components.server")
_LEFT_BEHIND_S = 3600
"""Seconds of events that a version must be behind the served one to be compared with it no more."""


@dataclass(frozen=True)
class Loaded:
    """A version that was loaded in the shadow.

    Attributes:
        model: the version, warmed up.
        share: share of the requests that it scores.
        files: its files when it was loaded.
        following: applies its deltas.
    """

    model: LoadedModel
    share: float
    files: Fingerprint
    following: Deltas


@dataclass(frozen=True)
class _Loading:
    number: int
    files: Fingerprint
    loaded: "Future[Loaded]"


class ShadowVersions:
    """Follows the folder of versions in the shadow; the thread that swaps the served version calls it.

    A version loads in a thread of its own: the served one follows its deltas meanwhile, and may be replaced.
    """

    def __init__(self, *, name: str, folder: Path, scorer: Scorer, metrics: ShadowMetrics, map_tables: bool = False):
        """Takes the folder of the served versions, and what scores requests."""
        self._name, self._versions, self._map_tables = name, folder, map_tables
        self._folder = folder / folders.SHADOW
        self._scorer, self._metrics = scorer, metrics
        self._states = States(name, metrics.refused)
        self._loader = ThreadPoolExecutor(1, thread_name_prefix="shadow_loader")
        self._loading: _Loading | None = None
        self._loaded: Loaded | None = None
        self._beside: int | None = None
        self._is_level = False

    def states(self) -> dict[int, State]:
        """Returns the state of the version."""
        return self._states.all()

    def check(self, waiting: str | None, served: LoadedModel | None, served_deltas: Deltas | None = None) -> None:
        """Applies new deltas to the newest version, and has it score requests, if it can score those to the served one
        and has learned what that one has.

        Args:
            waiting: the newest version in the shadow; None: there is none.
            served: the served version; None: nothing is served, and nothing to be scored.
            served_deltas: deltas of the served version; None: it takes none.
        """
        number = int(waiting) if waiting and served and int(waiting) != served.version else None
        for other in self._states.all().keys() - {number}:
            self._drop()
            self._states.forget(other)
        if self._loading and self._loading.number != number and self._loading.loaded.done():
            self._loading = None
        if number is None or served is None:
            return
        if self._loaded is None:
            self._loaded, self._beside, self._is_level = self._load(number, served), None, False
        if self._loaded and self._follow(self._loaded, served):
            state = served_deltas.state if served_deltas else None
            self._score_if_level(served, self._loaded, state)

    def _follow(self, loaded: Loaded, served: LoadedModel) -> bool:
        """Applies new deltas; returns False and drops the version if one has failed half-way."""
        number = loaded.model.version
        try:
            loaded.following.apply_new()
        except HalfApplied as error:
            self._drop()
            self._states.refuse(number, loaded.files, _deltas_fail(self._folder / str(number), error), served.version)
            return False
        if (place := loaded.following.state.place) is not None:
            self._metrics.delta.labels(self._name, str(number)).set(place.number)
        return True

    def _score_if_level(self, served: LoadedModel, loaded: Loaded, served_state: DeltaState | None) -> None:
        number = loaded.model.version
        is_trained = deltas.lineage_folder(self._versions, str(number)).is_dir()
        self._is_level = not is_trained or is_level(loaded.following.state, served_state, was=self._is_level)
        beside = served.version if self._is_level else None
        if beside == self._beside:
            return
        self._beside = beside
        if beside is None:
            self._stop_scoring()
            self._states.set(number, LOADING)
            _LOG.warning("model=%s version=%d in_shadow=behind: it scores nothing", self._name, number)
        else:
            self._score_beside(served, loaded)

    def handed_over(self, number: int, files: Fingerprint) -> Loaded | None:
        """Gives the loaded version away, which is promoted, if it was loaded from these files; None otherwise."""
        loaded = self._loaded
        if loaded is None or loaded.model.version != number or _of_model(loaded.files) != _of_model(files):
            return None
        self._drop()
        self._states.forget(number)
        return loaded

    def _load(self, number: int, served: LoadedModel) -> Loaded | None:
        """Starts to load a version; returns it by a later call, once it is loaded."""
        if self._loading is None:
            folder = self._folder / str(number)
            files = fingerprint_of(folder)
            if not self._states.is_refused(number, files):
                self._states.set(number, LOADING)
                loaded = self._loader.submit(_load, self._versions, number, files, map_tables=self._map_tables)
                self._loading = _Loading(number, files, loaded)
            return None
        loading = self._loading
        if loading.number != number or not loading.loaded.done():
            return None
        self._loading = None
        try:
            return loading.loaded.result()
        except NotServable as error:
            self._states.refuse(number, loading.files, error, served.version)
            return None

    def _score_beside(self, served: LoadedModel, loaded: Loaded) -> None:
        """Starts to score requests to the served version, or refuses to."""
        number = loaded.model.version
        self._stop_scoring()
        if problem := problem_of(loaded.model, served):
            error = NotServable("cannot_score", f"{self._folder / str(number)}: {problem}")
            self._states.refuse(number, loaded.files, error, served.version)
            return
        self._states.set(number, START)
        self._metrics.version.labels(self._name, str(number)).set(1)
        self._scorer.use(loaded.model, loaded.share)

    def _stop_scoring(self) -> None:
        self._scorer.use(None)
        self._metrics.version.clear()

    def _drop(self) -> None:
        if self._loaded is None:
            return
        self._stop_scoring()
        self._metrics.delta.clear()
        _LOG.info("model=%s version=%d in_shadow=false", self._name, self._loaded.model.version)
        self._loaded = None
        # Loaded functions form reference cycles, which only a collection frees.
        gc.collect()


def is_level(shadow: DeltaState, served: DeltaState | None, *, was: bool) -> bool:
    """Returns whether a version in the shadow that is trained on has learned what the served one has.

    Both learn from the same rows, and are compared only while both have learned them.

    Args:
        shadow: the state of its deltas.
        served: that of the served version; None: it takes none.
        was: the answer before.
    """
    if served is None or served.place is None or not served.place.number:
        return True
    if served.newest_event is None:  # A full version, of which only the next delta will tell.
        return was
    if shadow.newest_event is None:
        return False
    return served.newest_event - shadow.newest_event <= (_LEFT_BEHIND_S if was else 0)


def problem_of(shadow: LoadedModel, served: LoadedModel) -> str:
    """Returns why a version cannot score requests to the served one; empty if it can."""
    if served.logged is None:
        return f"needs logged requests (got version {served.version}, whose are not); push one with serving.log"
    for name in (RANK, SERVE):
        if name not in served.signatures:
            continue
        requests, signature = served.signatures[name], shadow.signatures.get(name)
        if signature is None:
            return f"has no signature {name} (got none), as version {served.version} has; promote it without scores"
        read = signature.inputs.items()
        if lacking := sorted(each for each, told in read if requests.inputs.get(each) != told):
            return (
                f"{name} reads what requests to version {served.version} lack, or have of another type (got "
                f"{', '.join(lacking)}); promote it without scores"
            )
        if not set(served.logged.tasks) & signature.outputs.keys():
            got = ", ".join(sorted(signature.outputs))
            return f"{name} predicts no task of version {served.version} (got {got}); promote it without scores"
    return ""


def _of_model(files: Fingerprint) -> Fingerprint:
    """Leaves out what a promotion changes: it tells the model card, whose checksum the manifest has."""
    return tuple(entry for entry in files if entry[0] not in (folders.CARD_FILE, folders.MANIFEST_FILE))


def _load(versions: Path, number: int, files: Fingerprint, *, map_tables: bool) -> Loaded:
    """Loads a version, and applies its deltas so far.

    Raises:
        NotServable: with the reason.
    """
    folder = versions / folders.SHADOW / str(number)
    start, share = time.monotonic(), _share_of(folder)
    if problem := folders.damage(folder):
        raise NotServable("damaged", f"{folder}: damaged ({problem})")
    with yielding():
        model = LoadedModel(folder, number, map_tables=map_tables)
        model.warm_up()
        following = Deltas(model, folder, versions=versions)
        try:
            following.apply_new()
        except HalfApplied as error:
            raise _deltas_fail(folder, error) from error
    check_unchanged(folder, files)
    _LOG.info("version=%d in_shadow=true share=%g load_s=%.2f", number, share, time.monotonic() - start)
    return Loaded(model, share, files, following)


def _deltas_fail(folder: Path, error: HalfApplied) -> NotServable:
    return NotServable("deltas_fail", f"{folder}: one of its deltas fails half-way ({error})")


def _share_of(folder: Path) -> float:
    try:
        declared = shadow_of(folder)
    except UserError as error:
        raise NotServable("cannot_load", str(error)) from error
    if declared is None:
        raise NotServable(
            "no_share", f"{folder}: does not say which requests it scores (got no share); push it with serving.shadow"
        )
    return declared.share
