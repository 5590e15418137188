"""Full versions of an online training: exported from its checkpoints, and pushed beside the daily runs' versions."""

import json
import os
import shutil
from pathlib import Path

from components.processes.group import ProcessGroup
from components.registry import versions
from components.steps.pusher import directory, manifest
from components.steps.pusher.manifest import Provenance
from pipelines.times import utc_now
from schemas.contracts import deltas
from schemas.contracts.training_job import JOB_FILE, TrainJob, read_job
from schemas.files import tail

_TAIL_LINES = 10


class FullVersions:
    """Exports and pushes, one at a time, while training goes on."""

    def __init__(self, job: TrainJob):
        """Takes the job of the online training."""
        assert job.stream is not None
        self._job, self._stream = job, job.stream
        self._export: ProcessGroup | None = None
        self._folder: Path | None = None
        for folder in self._requests()[:-1]:
            shutil.rmtree(folder)

    def check(self) -> str:
        """Starts an export that is due, or pushes one that is done; returns what to tell, "" for nothing."""
        if self._export is None:
            waiting = self._requests()
            if waiting:
                self._folder = waiting[-1]
                arguments = ["trainer_module.export", str(self._folder / JOB_FILE), str(os.getpid())]
                self._export = ProcessGroup(arguments, log=self._folder / "export.log", ends_with_parent=True)
            return ""
        code = self._export.exit_code()
        if code is None:
            return ""
        assert self._folder is not None
        folder, self._export, self._folder = self._folder, None, None
        if code != 0:
            kept = folder.with_name(f"failed-{folder.name}")
            shutil.rmtree(kept, ignore_errors=True)
            folder.rename(kept)
            return f"the export of a full version failed (exit code {code}): {tail(kept / 'export.log', _TAIL_LINES)}"
        version = self._push(folder)
        shutil.rmtree(folder)
        return f"full version {version} pushed"

    def end(self) -> None:
        """Ends an export that is under way; the next start repeats it."""
        if self._export is not None:
            self._export.end()
            self._export = None

    def _requests(self) -> list[Path]:
        """Returns the folders of what is to be exported, oldest first."""
        return sorted(file.parent for file in Path(self._job.output_dir).glob(f"full-*/{JOB_FILE}"))

    def _push(self, folder: Path) -> str:
        exported = read_job(folder / JOB_FILE)
        number = int(folder.name.removeprefix("full-"))
        model, target, lineage = Path(exported.model_dir), Path(self._stream.versions), self._stream.lineage
        deltas.write_lineage(model, target, lineage, number)
        base = target / lineage
        described = manifest.read_manifest(str(base / manifest.FILE_NAME), (base / manifest.FILE_NAME).read_bytes())
        note = f"online training of version {lineage}, with its deltas up to {number}; no gate has judged it"
        provenance = Provenance.model_validate(
            {name: getattr(described, name) for name in Provenance.model_fields} | {"notes": [*described.notes, note]}
        )
        card = (base / manifest.CARD_FILE).read_text(encoding="utf-8")
        pushed = directory.push(
            model=model,
            target=target,
            day=lineage[:8],
            provenance=provenance,
            card=lambda version: f"{card}\n## Online training\nVersion {version}: {note}.\n",
            now=utc_now(),
        )
        deltas.remove_included(target, lineage, _full_numbers(target, lineage))
        return pushed.version


def _full_numbers(target: Path, lineage: str) -> list[int]:
    """Returns the numbers of deltas that the full versions of a lineage include, oldest version first."""
    places = [deltas.lineage_of(target / version) for version in versions.versions(target)]
    return [place.number for place in places if place is not None and place.lineage == lineage]


def written_state(job: TrainJob) -> dict[str, object]:
    """Returns what the online training has said last; empty before it has said anything."""
    try:
        state: dict[str, object] = json.loads(job.online_file.read_bytes())
        return state
    except (OSError, ValueError):
        return {}
