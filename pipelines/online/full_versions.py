"""Full versions of an online training: exported from its checkpoints, and pushed beside the versions of daily runs."""

import contextlib
import datetime
import json
import os
import shutil
from pathlib import Path

from sangam.components.processes.group import ProcessGroup
from sangam.components.registry import versions
from sangam.components.steps.pusher import directory, manifest
from sangam.components.steps.pusher.manifest import Provenance
from sangam.pipelines.times import utc_now
from sangam.schemas.contracts import deltas
from sangam.schemas.contracts.training_job import JOB_FILE, TrainJob, read_job
from sangam.schemas.errors import UserError
from sangam.schemas.host.files import remove_folder, tail

_TAIL_LINES = 10
_LAST_OF_DAY = "999"
_KEPT = 2
"""Number of full versions of a lineage that stay, besides its first: deltas before them are removed, too."""


class FullVersions:
    """Exports and pushes full versions, one at a time, during training."""

    def __init__(self, job: TrainJob):
        """Stores the job of the online training."""
        assert job.stream is not None
        self._job, self._stream = job, job.stream
        self._export: ProcessGroup | None = None
        self._folder: Path | None = None
        whole = self._requests()
        for folder in Path(job.output_dir).glob("full-*"):
            if folder not in whole[-1:]:
                shutil.rmtree(folder)  # Superseded, or partial because its writer was killed.

    def check(self) -> str:
        """Starts a due export, or pushes a finished one; returns a line for the user, or ""."""
        if self._export is None:
            waiting = self._requests()
            for superseded in waiting[:-1]:
                shutil.rmtree(superseded)
            if waiting:
                self._folder = waiting[-1]
                arguments = ["sangam.trainer_module.export", str(self._folder / JOB_FILE), str(os.getpid())]
                self._export = ProcessGroup(arguments, log=self._folder / "export.log", ends_with_parent=True)
            return ""
        code = self._export.exit_code()
        if code is None:
            return ""
        assert self._folder is not None
        folder, self._export, self._folder = self._folder, None, None
        if code != 0:
            return f"the export of a full version failed (exit code {code}): {tail(_kept(folder), _TAIL_LINES)}"
        try:
            return self._push(folder)
        except (OSError, UserError) as error:  # Training and deltas continue; the next push may succeed.
            return f"a full version could not be pushed (got {error}); the next one is tried"
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def end(self) -> None:
        """Ends a running export; the next start repeats it."""
        if self._export is not None:
            self._export.end()
            self._export = None

    def _requests(self) -> list[Path]:
        """Returns the folders of the states to export, oldest first."""
        return sorted(file.parent for file in Path(self._job.output_dir).glob(f"full-*/{JOB_FILE}"))

    def _push(self, folder: Path) -> str:
        """Pushes an exported version unless it is held, and removes unneeded ones; returns a line for the user."""
        exported = read_job(folder / JOB_FILE)
        number = int(folder.name.removeprefix("full-"))
        model, target, lineage = Path(exported.model_dir), Path(self._stream.versions), self._stream.lineage
        if held := _held_before(target, lineage, number):
            return f"the full version with deltas up to {number} is not pushed ({held})"
        deltas.write_lineage(model, target, lineage, number)
        base = target / lineage
        described = manifest.read_manifest(str(base / manifest.FILE_NAME), (base / manifest.FILE_NAME).read_bytes())
        note = f"online training of version {lineage}, with its deltas up to {number}; no gate has judged it"
        provenance = Provenance.model_validate(
            {name: getattr(described, name) for name in Provenance.model_fields} | {"notes": [*described.notes, note]}
        )
        card = (base / manifest.CARD_FILE).read_text(encoding="utf-8")
        reference = base / manifest.REFERENCE_FILE  # Of the base's training: online training has no statistics.
        pushed = directory.push(
            model=model,
            target=target,
            day=_day_with_room(target, lineage),
            provenance=provenance,
            card=lambda version: f"{card}\n## Online training\nVersion {version}: {note}.\n",
            now=utc_now(),
            reference=reference.read_text(encoding="utf-8") if reference.is_file() else "",
        )
        if held := _held_before(target, lineage, number):  # Held during the push.
            versions.withdraw(target, because=held, now=utc_now())
            return f"full version {pushed.version} is withdrawn ({held})"
        full = _full(target, lineage)
        deltas.remove_included(target, lineage, list(full.values()))
        for version in [version for version, included in full.items() if included][:-_KEPT]:
            remove_folder(target / version)
        return f"full version {pushed.version} pushed"


def _kept(folder: Path) -> Path:
    """Removes a failed export except its log; returns the log."""
    log = folder.with_name("failed-export.log")
    with contextlib.suppress(OSError):
        (folder / "export.log").replace(log)
    shutil.rmtree(folder, ignore_errors=True)
    return log


def _held_before(target: Path, lineage: str, number: int) -> str:
    """Returns the reason why a version with deltas up to a number may not be served; empty if it may."""
    hold = deltas.read_hold(target, lineage)
    return "" if hold is None or hold.number >= number else f"held at delta {hold.number}: {hold.because}"


def _day_with_room(target: Path, lineage: str) -> str:
    """Returns the day of the newest full version, or the next one once that day has all its numbers: the highest
    number of all is served, and lower ones are removed."""
    newest = max([lineage, *_full(target, lineage)], key=int)
    if newest[8:] != _LAST_OF_DAY:
        return newest[:8]
    after = datetime.datetime.strptime(newest[:8], "%Y%m%d") + datetime.timedelta(days=1)
    return f"{after:%Y%m%d}"


def _full(target: Path, lineage: str) -> dict[str, int]:
    """Returns the number of deltas in each version of a lineage, oldest version first; 0 for the first."""
    places = {version: deltas.lineage_of(target / version) for version in versions.versions(target)}
    return {version: place.number for version, place in places.items() if place and place.lineage == lineage}


def written_state(job: TrainJob) -> dict[str, object]:
    """Returns the last state that the online training has written; empty without one."""
    try:
        state: dict[str, object] = json.loads(job.online_file.read_bytes())
        return state
    except (OSError, ValueError):
        return {}
