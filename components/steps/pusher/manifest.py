"""The manifest of a pushed version, `manifest.json`, and the numbering of versions."""

import datetime
import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict

from sangam.components.registry import versions
from sangam.components.registry.seal import FileEntry as FileEntry
from sangam.components.registry.seal import list_files as list_files
from sangam.schemas.contracts import drift_reference
from sangam.schemas.contracts.export import MODEL_FILE
from sangam.schemas.contracts.formats import refuse_other_format
from sangam.schemas.errors import UserError
from sangam.schemas.quantities import readable
from sangam.schemas.spec.serving import InShadow, RequestLog

FILE_NAME = versions.MANIFEST_FILE
CARD_FILE = versions.CARD_FILE
REFERENCE_FILE = drift_reference.FILE_NAME
FORMAT: Literal[1] = 1
_MAX_PER_DAY = 999


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Provenance(_Record):
    """The origin of a model and its quality.

    Attributes:
        name: name of the ranker.
        spec_digest: digest of the whole spec.
        git_commit: git commit of the code.
        days: split to days (YYYY-MM-DD); empty for data without days.
        missing_days: days of the window without logs.
        refit_days: validation days that the model was trained on after its validation.
        base_days: days that the base was trained on; empty: training started from scratch.
        metrics: task to metric to value on the evaluation split; None where undefined.
        baseline: uri of the blessed model that this one was compared with.
        notes: omissions of the evaluator.
        request_log: settings of the log of its requests; None: they are not logged.
        shadow: what it scores while it is in the shadow of the served version; None: nothing.
    """

    name: str
    spec_digest: str
    git_commit: str
    days: dict[str, list[str]]
    missing_days: list[str]
    refit_days: list[str] = []
    base_days: list[str] = []
    metrics: dict[str, dict[str, float | None]]
    baseline: str | None
    notes: list[str]
    request_log: RequestLog | None = None
    shadow: InShadow | None = None


class Manifest(Provenance):
    """The manifest.

    Attributes:
        format: format of the file.
        version: YYYYMMDD and a number of three digits.
        created: UTC.
        files: size and sha256 by path below the version's folder, without the manifest itself.
    """

    format: Literal[1] = FORMAT
    version: str
    created: datetime.datetime
    files: dict[str, FileEntry]

    @property
    def model_files(self) -> dict[str, FileEntry]:
        """The files of the model itself: the same in every push of it."""
        return {name: entry for name, entry in self.files.items() if name not in (CARD_FILE, REFERENCE_FILE)}

    def is_push_of(self, files: dict[str, FileEntry], provenance: Provenance, reference: str) -> bool:
        """Returns whether servers would serve a model with these files and facts like this version."""
        same = self.files.get(REFERENCE_FILE) == (entry_of(reference) if reference else None)
        settings = (provenance.request_log, provenance.shadow)
        return same and self.model_files == files and (self.request_log, self.shadow) == settings

    def with_file(self, name: str, text: str) -> "Manifest":
        """Returns the manifest with an entry for a file beside the model."""
        return self.model_copy(update={"files": {**self.files, name: entry_of(text)}})

    def text(self) -> str:
        """Returns the file's contents."""
        return json.dumps(readable(self.model_dump(mode="json")), indent=2, ensure_ascii=False) + "\n"


def entry_of(text: str) -> FileEntry:
    """Returns the entry of a file with a text."""
    encoded = text.encode()
    return FileEntry(sha256=hashlib.sha256(encoded).hexdigest(), bytes=len(encoded))


def read_manifest(path: str, content: bytes) -> Manifest:
    """Reads the manifest of a pushed version.

    Raises:
        UserError: it has another format.
        ValueError: it is not a manifest of a push.
    """
    remedy = "another version has written it: push to another folder"
    refuse_other_format(path, json.loads(content), FORMAT, remedy)
    return Manifest.model_validate_json(content)


def day_of_version(days: dict[str, list[str]], today: datetime.date) -> str:
    """Returns the last evaluation day as YYYYMMDD, or today for data without days."""
    last = max(days.get("eval", []), default=today.isoformat())
    return last.replace("-", "")


def next_version(day: str, taken: Iterable[str]) -> str:
    """Returns the version after the highest one of the day, as servers serve the highest number.

    Raises:
        UserError: after 999 versions of a day.
    """
    highest = max((int(name[len(day) :]) for name in versions_of(day, taken)), default=0)
    if highest >= _MAX_PER_DAY:
        raise UserError(f"push: day {day} has {_MAX_PER_DAY} versions (got one more); remove those not needed")
    return f"{day}{highest + 1:03d}"


def is_of_later_day(version: str, other: str) -> bool:
    """Whether a version is of a later day than another one; False for an empty one."""
    return bool(version) and int(version) // (_MAX_PER_DAY + 1) > int(other) // (_MAX_PER_DAY + 1)


def versions_of(day: str, taken: Iterable[str]) -> list[str]:
    """Returns the versions of a day, lowest first."""
    return sorted(name for name in taken if re.fullmatch(rf"{day}[0-9]{{3}}", name))


def reusable_versions(day: str, available: Sequence[str]) -> list[str]:
    """Returns the versions of a day that need not be pushed again if they have the same files, highest first.

    This is the day's newest, or all of them if a later day's version is served anyway.

    Args:
        day: day of the push.
        available: versions that may be served, lowest first.
    """
    of_day = versions_of(day, available)
    if not (available and of_day and is_of_later_day(available[-1], of_day[-1])):
        of_day = of_day[-1:]
    return of_day[::-1]


def copy_order(files: Iterable[str]) -> list[str]:
    """Returns the files in the order to copy them: `saved_model.pb` last.

    TensorFlow Serving and other readers treat a folder with this file as a complete model, and where a folder cannot be
    renamed into place, as in object stores, they may read it before the copy is complete.
    https://github.com/tensorflow/tfx/blob/v1.16.0/tfx/components/pusher/executor.py
    """
    return sorted(files, key=lambda name: (name == MODEL_FILE, name))


def withdrawn_text(version: str, because: str, withdrawn_at: datetime.datetime | None, folder: str) -> str:
    """Returns the error on a push of withdrawn files."""
    when = f" on {withdrawn_at:%Y-%m-%d}" if withdrawn_at else ""
    return (
        f"push: the same files were version {version}, which was withdrawn{when} (got "
        f"{f'the reason: {because}' if because.strip() else 'no reason'}); train a model on other data or with another "
        f"spec, or restore the version: sangam rollback {folder} --restore {version}"
    )
