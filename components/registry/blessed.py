"""The blessed models, in order: `<pipeline_root>/blessed/<name>/00000001.json`, 00000002.json, ...

One small file per blessing, not a query of ML Metadata, so that an executor finds the baseline where no driver or
resolver runs, as on Kubeflow Pipelines.
"""

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from tfx.dsl.io import fileio

from sangam.components.registry.record import ENTRY, BlessedModel, mark_places, read_record
from sangam.schemas.host.files import write_whole

__all__ = ["BlessedModel", "baseline_for", "read_all", "record"]


def read_all(directory: str) -> list[BlessedModel]:
    """Returns every blessing, oldest first; empty if there is no such directory.

    Raises:
        UserError: for an unreadable record: another baseline could let a worse model pass.
    """
    paths = [os.path.join(directory, name) for name in _entries(directory)]
    records = [read_record(path, partial(_read, path)) for path in paths]
    models = [model for model in records if model is not None]
    root = os.path.dirname(os.path.dirname(directory))
    return mark_places(models, lambda folder: _listed(os.path.join(root, folder)))


def baseline_for(model_uri: str, models: Sequence[BlessedModel], eval_days: Sequence[str] = ()) -> str | None:
    """Returns the newest model that was blessed before `model_uri`, or of all if that one has not been blessed.

    A rerun for a model that is blessed by now thus gets the same baseline as the first run. The newest model is the
    one trained on the latest day, as for pushed versions; of several, the one blessed last. Two kinds are skipped:
    models trained on days of the evaluation, which would have an unfair advantage, and models that were rolled back or
    wait in the shadow, as an earlier one is served.
    """
    first = min(eval_days, default="")
    fair = [model for model in models if not first or not model.days or model.days[-1] < first]
    # Sorting is stable: equally new ones stay in the order of their blessings.
    ordered = sorted(fair, key=lambda model: model.days[-1:])
    uris = [model.model_uri for model in ordered]
    before = ordered[: uris.index(model_uri)] if model_uri in uris else ordered
    served = [model.model_uri for model in before if model.is_accepted]
    return served[-1] if served else None


def record(directory: str, model: BlessedModel) -> None:
    """Appends a blessing, unless there is one of this model and this push of it."""
    fileio.makedirs(directory)
    while True:
        names = _entries(directory)
        if any(_what(known) == _what(model) for known in read_all(directory)):
            return
        path = os.path.join(directory, f"{int(names[-1][:8]) + 1 if names else 1:08d}.json")
        try:
            _write_new(path, model.model_dump_json(indent=2) + "\n")
            return
        except FileExistsError:
            continue  # Another run took the number between the listing and the write.


def _what(model: BlessedModel) -> tuple[str, str, int]:
    return model.model_uri, model.pushed, model.pushes


def _listed(folder: str) -> list[str]:
    return [name.rstrip("/") for name in fileio.listdir(folder)] if fileio.isdir(folder) else []


def _entries(directory: str) -> list[str]:
    if not fileio.isdir(directory):
        return []
    return sorted(name for name in fileio.listdir(directory) if ENTRY.match(name))


def _read(path: str) -> bytes:
    with fileio.open(path, "rb") as file:
        content: bytes = file.read()
    return content


def _write_new(path: str, text: str) -> None:
    """Writes a file atomically, and never over another one."""
    if "://" in path:
        # Object stores show only complete objects; this interface has no exclusive create.
        if fileio.exists(path):
            raise FileExistsError(path)
        with fileio.open(path, "w") as file:
            file.write(text)
        return
    # An empty file reserves the number, as a rename would overwrite; mounted object stores have no links.
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        write_whole(Path(path), text)
    except BaseException:
        os.unlink(path)
        raise
