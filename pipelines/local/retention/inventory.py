"""The files of a ranker in a root, read without TensorFlow and TFX."""

import json
import math
import posixpath
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sangam.components.object_stores import is_stored
from sangam.components.record.lock import is_locked
from sangam.components.record.store import read_run
from sangam.components.registry import versions
from sangam.components.registry.record import BlessedModel, read_records
from sangam.components.steps.trainer.unfinished import longest_s, may_be_running, newest_first
from sangam.pipelines.local.outputs import Output, Recorded, read_outputs
from sangam.schemas.contracts import deltas
from sangam.schemas.contracts.example_files import LISTING_FILE
from sangam.schemas.contracts.root import Root
from sangam.schemas.spec import Spec
from sangam.schemas.spec.release import DirectoryPush

CHECKPOINT, MODEL = ("trainer", "checkpoint"), ("trainer", "model")


@dataclass(frozen=True)
class Version:
    """A version in a folder of versions.

    Attributes:
        path: path of its folder.
        is_withdrawn: whether it was rolled back, and may be restored.
        is_online: whether online training has pushed it, or trains from it.
    """

    path: Path
    is_withdrawn: bool = False
    is_online: bool = False


@dataclass(frozen=True)
class Inventory:
    """The files and records of a ranker.

    Attributes:
        ranker: name of the ranker.
        runs: folders of runs, newest first.
        dates: dates of the runs.
        foreign_runs: ids of runs of other or unknown rankers.
        own_runs: ids of all runs of the ranker's pipeline, also of those without a folder.
        outputs: existing outputs of steps.
        lost: outputs that are missing on the disk but live in ML Metadata.
        listed: folders of days, by the output that lists them.
        blessed: records of blessed models, oldest first.
        versions: versions of each push folder, lowest first.
        lineages: versions that online training trains from.
        days: folders of examples.
        searched: paths that a running search reads.
        trainings: folders of unfinished trainings, newest first; True if it may still run.
        searches: folders of trials with the last change of their search, seconds since 1970; infinite if it runs.
        logs: logs of backfills with their last change.
        last_base: checkpoint that the newest run started from; empty without one.
        last_good: id of the newest successful run; empty without one.
    """

    ranker: str
    runs: tuple[Path, ...] = ()
    dates: tuple[str, ...] = ()
    foreign_runs: frozenset[str] = frozenset()
    own_runs: frozenset[str] = frozenset()
    outputs: tuple[Output, ...] = ()
    lost: tuple[Output, ...] = ()
    listed: Mapping[Path, frozenset[Path]] = field(default_factory=dict)
    blessed: tuple[BlessedModel, ...] = ()
    versions: tuple[tuple[Version, ...], ...] = ()
    lineages: frozenset[str] = frozenset()
    days: tuple[Path, ...] = ()
    searched: frozenset[str] = frozenset()
    trainings: Mapping[Path, bool] = field(default_factory=dict)
    searches: Mapping[Path, float] = field(default_factory=dict)
    logs: Mapping[Path, float] = field(default_factory=dict)
    last_base: str = ""
    last_good: str = ""


def rankers_of(root: Root) -> list[str]:
    """Returns the names of the rankers that have runs in a root."""
    return sorted({name for run in root.run_folders() if (name := read_run(run).ranker)})


def take_inventory(root: Root, ranker: str, spec: Spec | None) -> Inventory:
    """Returns a ranker's files and records in a root.

    Args:
        root: root with an absolute path.
        ranker: name of the ranker.
        spec: spec of its newest run; None if unknown: abandoned trainings are omitted.

    Raises:
        UserError: a record of a blessing cannot be read.
    """
    runs = sorted(map(read_run, root.run_folders()), key=lambda run: run.id, reverse=True)
    own = [run for run in runs if run.ranker == ranker]
    own_ids = {run.id for run in own}
    foreign = frozenset(run.id for run in runs) - own_ids
    recorded = read_outputs(root)
    known = _runs_of_pipelines(recorded, own_ids) - foreign
    there = tuple(output for output in recorded.outputs if output.is_live and output.path.is_dir())
    lost = tuple(output for output in recorded.outputs if output.is_live and not output.path.is_dir())
    blessed = tuple(read_records(root.path, ranker))
    lineages = frozenset(folder.name for folder in _folders(root.online(ranker), "training/*"))
    unfinished = newest_first(root.checkpoints(ranker)) if spec else []
    searches = {folder: _last_change(folder.parent) for folder in _folders(root.tune(ranker), "*/trials")}
    return Inventory(
        ranker=ranker,
        runs=tuple(run.folder.path for run in own),
        dates=tuple(run.record.date for run in own if run.record and run.record.date),
        foreign_runs=foreign,
        own_runs=known,
        outputs=there,
        lost=lost,
        listed={output.path: frozenset(_days_listed(output.path)) for output in there},
        blessed=blessed,
        versions=tuple(tuple(_versions(folder, ranker, lineages)) for folder in _push_folders(root, blessed, spec)),
        lineages=lineages,
        days=tuple(_folders(Path(root.examples(ranker)), "*")),
        searched=frozenset(_searched(folder.parent for folder, changed in searches.items() if changed == math.inf)),
        trainings={path: may_be_running(path, longest_s=longest_s(spec)) for path in unfinished} if spec else {},
        searches=searches,
        logs={log: log.stat().st_mtime for log in sorted(root.backfill(ranker).glob("*.log"))},
        last_base=(own[0].record.base or "") if own and own[0].record else "",
        last_good=next((run.id for run in own if run.state in ("pushed", "blessed", "refused", "ended")), ""),
    )


def _folders(parent: Path, pattern: str) -> list[Path]:
    return sorted(path for path in parent.glob(pattern) if path.is_dir())


def _runs_of_pipelines(recorded: Recorded, runs: set[str]) -> frozenset[str]:
    """Returns all runs of the pipelines of these runs."""
    return frozenset().union(runs, *(all_runs for all_runs in recorded.runs.values() if all_runs & runs))


def _days_listed(output: Path) -> Iterator[Path]:
    """Yields the folders of days in a list of examples."""
    try:
        listing = json.loads((output / LISTING_FILE).read_bytes())
    except FileNotFoundError:
        return
    for day in (*listing["history"], *(day for days in listing["splits"].values() for day in days)):
        yield Path(day["folder"]).parent


def _push_folders(root: Root, blessed: Iterable[BlessedModel], spec: Spec | None) -> list[Path]:
    folders = {posixpath.dirname(model.pushed) for model in blessed if model.pushed}
    if spec and isinstance(spec.push, DirectoryPush):
        folders.add(spec.push.folder)
    return [root.path / folder for folder in sorted(folders) if not is_stored(folder)]


def _versions(folder: Path, ranker: str, lineages: frozenset[str]) -> Iterator[Version]:
    """Yields the versions of a folder that this ranker's runs have pushed."""
    for name in versions.versions(folder):
        place = deltas.lineage_of(folder / name)
        is_online = name in lineages or (place is not None and place.number > 0)
        if _is_of(folder / name, ranker):
            yield Version(folder / name, is_online=is_online)
    for name in versions.withdrawn(folder):
        path = folder / versions.WITHDRAWN / name
        if _is_of(path, ranker):
            yield Version(path, is_withdrawn=True, is_online=name in lineages)


def _is_of(version: Path, ranker: str) -> bool:
    try:
        return bool(json.loads((version / versions.MANIFEST_FILE).read_bytes())["name"] == ranker)
    except (OSError, ValueError, KeyError):
        return False  # Sangam did not write it.


def _last_change(search: Path) -> float:
    if is_locked(search):
        return math.inf
    return max((file.stat().st_mtime for file in search.iterdir() if file.is_file()), default=0.0)


def _searched(searches: Iterable[Path]) -> Iterator[str]:
    for file in (file for search in searches for file in search.glob("examples*.json")):
        document = json.loads(file.read_bytes())
        if "transform_graph" in document:
            yield document["transform_graph"]
            yield from document["train_files"]
            yield from document["validation_files"]
