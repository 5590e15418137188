"""Where a model lies: a version, a folder of versions, a run or a root, on this machine or on an object store."""

import hashlib
import json
import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from sangam.components import object_stores
from sangam.components.record.store import StoredRun, find_run, read_runs
from sangam.components.registry import shadow, stored_versions
from sangam.components.registry.seal import list_files
from sangam.components.registry.versions import damage, versions
from sangam.components.reports.spec_file import read_spec
from sangam.schemas.contracts.export import DESCRIPTION_FILE, MODEL_FILE, Description, read_description
from sangam.schemas.contracts.root import Root, RunFolder
from sangam.schemas.contracts.training_job import JOB_FILE, find_job
from sangam.schemas.errors import UserError
from sangam.schemas.spec import Spec

_ALLOWED = "give a version, a folder of versions, a run's folder or a root"


@dataclass(frozen=True)
class Place:
    """Where a model lies.

    Attributes:
        address: path or address of the model itself.
        folder: folder of the SavedModel.
        run: folder of the run that has the spec; None: unknown.
        copied: temporary folder of a copy from a store; None: the model is not copied.
    """

    address: str
    folder: Path
    run: RunFolder | None = None
    copied: tempfile.TemporaryDirectory[str] | None = None

    def described(self) -> Description:
        """Returns the description of the model.

        Raises:
            UserError: Sangam has not exported the model.
        """
        file = self.folder / DESCRIPTION_FILE
        if not file.is_file():
            raise UserError(f"{self.folder}: was not exported by Sangam (got no {DESCRIPTION_FILE}); give another")
        return read_description(str(file), file.read_bytes())

    def sha256(self) -> str:
        """Returns the sha256 of the list of the model's files."""
        files = {name: entry.sha256 for name, entry in list_files(self.folder).items()}
        return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()

    def spec(self) -> Spec | None:
        """Returns the spec of the run; None without one.

        Raises:
            UserError: it cannot be read.
        """
        if self.run is None:
            return None
        if (spec := read_spec(self.run)) is None:
            raise UserError(f"{self.run.spec}: is no spec of this version; give the folder of the model's version")
        return spec


def place_of(path: str | Path) -> Place:
    """Returns the place of a model: itself, the newest version of a folder, or the model of a run.

    Raises:
        UserError: there is no model, or its files are not those of its manifest.
    """
    found = _copied(str(path)) if object_stores.is_stored(str(path)) else _local(Path(path))
    if problem := damage(found.folder):
        raise UserError(f"{found.folder}: is damaged (got {problem}); push the model again, or give another version")
    return found


def _local(path: Path) -> Place:
    if (path / MODEL_FILE).is_file():
        return _at(path)
    if numbers := versions(path):
        return _at(path / numbers[-1])
    if Root(str(path)).runs.is_dir():
        return _of_root(path)
    if path.parent.name == Root("").runs.name and path.is_dir():
        return _of_run(find_run(path))
    got = f"a folder without {MODEL_FILE}" if path.is_dir() else "no such folder"
    raise UserError(f"{path}: is no model (got {got}); {_ALLOWED}")


def _of_root(path: Path) -> Place:
    """Returns the place of the newest run's model that was pushed and is still there."""
    ended = [(run, run.record.pushed) for run in read_runs(path) if run.record]
    pushed = [run for run, version in ended if version and _is_there(version.path)]
    if len({run.ranker for run in pushed}) > 1:
        names = sorted({run.ranker for run in pushed if run.ranker})
        raise UserError(f"{path}: has models of several rankers (got {', '.join(names)}); give the folder of a run")
    if not pushed:
        raise UserError(f"{path}: no run has pushed a model that is still there (got none); {_ALLOWED}")
    return _of_run(pushed[0])


def _is_there(version: str) -> bool:
    return object_stores.is_stored(version) or Path(version, MODEL_FILE).is_file()


def _of_run(run: StoredRun) -> Place:
    """Returns the place of a run's model: the pushed version, or the one that its training has exported."""
    pushed = run.record.pushed if run.record else None
    if pushed and object_stores.is_stored(pushed.path):
        return replace(_copied(pushed.path), run=run.folder)
    folder = shadow.place_of(Path(pushed.path)) if pushed else None
    job_file = run.folder.logs / JOB_FILE
    if folder is None and job_file.is_file():
        folder = Path(find_job(job_file).model_dir)
    if folder is None or not (folder / MODEL_FILE).is_file():
        raise UserError(f"{run.folder.path}: has no model (got {folder or 'no training of its own'}); {_ALLOWED}")
    return _at(folder, run.folder)


def _at(folder: Path, run: RunFolder | None = None) -> Place:
    return Place(str(folder.absolute()), folder, run)


def _copied(address: str) -> Place:
    """Returns the place of a copy of a version on a store, the newest one of a folder of versions."""
    address = address.rstrip("/")
    if not object_stores.found(f"{address}/{MODEL_FILE}"):
        numbers = stored_versions.versions(address)
        if not numbers:
            raise UserError(f"{address}: is no model, and has no version (got no {MODEL_FILE}); {_ALLOWED}")
        address = f"{address}/{numbers[-1]}"
    copied = tempfile.TemporaryDirectory(prefix="sangam-model-")
    folder = Path(copied.name, address.rpartition("/")[2])
    for stored in object_stores.listed(address, recursive=True):
        target = folder / stored.uri.removeprefix(f"{address}/")
        if not target.resolve().is_relative_to(folder.resolve()):
            raise UserError(f"{stored.uri}: its name leads out of the folder; remove it")
        target.parent.mkdir(parents=True, exist_ok=True)
        with object_stores.open_stored(stored.uri) as source, target.open("wb") as file:
            shutil.copyfileobj(source, file)
    return Place(address, folder, copied=copied)
