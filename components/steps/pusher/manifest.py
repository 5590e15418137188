"""What a pushed version says of itself: `manifest.json`, and how versions are numbered."""

import datetime
import hashlib
import re
from collections.abc import Iterable, Sequence

from pydantic import BaseModel, ConfigDict

from components.registry import versions
from components.registry.seal import FileEntry as FileEntry
from components.registry.seal import list_files as list_files
from schemas.errors import UserError

FILE_NAME = versions.MANIFEST_FILE
MODEL_FILE = versions.MODEL_FILE
CARD_FILE = "MODEL_CARD.md"
_MAX_PER_DAY = 999


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Provenance(_Record):
    """Where a model comes from and how good it was.

    Attributes:
        name: of the ranker.
        spec_digest: of the whole spec.
        git_commit: of the code.
        days: split to days (YYYY-MM-DD); empty for data without days.
        missing_days: declared days that had no logs.
        refit_days: validation days that the model has learned from after it was validated on them.
        base_days: that the checkpoint had learned from which training started from; empty: it started from nothing.
        metrics: task to metric to value on the evaluation split; None where undefined.
        baseline: uri of the blessed model that this one was compared with.
        notes: what the evaluator did not check.
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


class Manifest(Provenance):
    """The manifest.

    Attributes:
        version: YYYYMMDD and a number of three digits.
        created: UTC.
        files: path below the version's folder to its size and sha256, the manifest itself left out.
    """

    version: str
    created: datetime.datetime
    files: dict[str, FileEntry]

    @property
    def model_files(self) -> dict[str, FileEntry]:
        """The files without the card: what another push of the same model would have too."""
        return {name: entry for name, entry in self.files.items() if name != CARD_FILE}

    def with_card(self, text: str) -> "Manifest":
        """Returns the manifest with the entry of a card."""
        encoded = text.encode()
        entry = FileEntry(sha256=hashlib.sha256(encoded).hexdigest(), bytes=len(encoded))
        return self.model_copy(update={"files": {**self.model_files, CARD_FILE: entry}})

    def text(self) -> str:
        """Returns the file's contents."""
        return self.model_dump_json(indent=2) + "\n"


def day_of_version(days: dict[str, list[str]], today: datetime.date) -> str:
    """Returns the last evaluation day as YYYYMMDD, or today for data without days."""
    last = max(days.get("eval", []), default=today.isoformat())
    return last.replace("-", "")


def next_version(day: str, taken: Iterable[str]) -> str:
    """Returns the version after the highest one of the day, so that a later push always has a higher number.

    TensorFlow Serving serves the highest; it reads versions as 64-bit integers.

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


def to_find(day: str, there: Sequence[str]) -> list[str]:
    """Returns the versions of a day that a push of the same files need not repeat, highest first.

    That is the day's newest; all of them where a later day's version is served anyway.

    Args:
        day: of the push.
        there: versions that may be served, lowest first.
    """
    of_day = versions_of(day, there)
    if not (there and of_day and is_of_later_day(there[-1], of_day[-1])):
        of_day = of_day[-1:]
    return of_day[::-1]


def copy_order(files: Iterable[str]) -> list[str]:
    """Returns the files in the order to copy them in: `saved_model.pb` last.

    TensorFlow Serving and other readers take this file for the sign that the model is whole, and where a directory
    cannot be renamed into place, as in object stores, they may look before the copy has ended.
    https://github.com/tensorflow/tfx/blob/v1.16.0/tfx/components/pusher/executor.py
    """
    return sorted(files, key=lambda name: (name == MODEL_FILE, name))


def withdrawn_text(version: str, because: str, withdrawn_at: datetime.datetime | None, folder: str) -> str:
    """Returns why files that were withdrawn are not pushed again, and what can be done."""
    when = f" on {withdrawn_at:%Y-%m-%d}" if withdrawn_at else ""
    return (
        f"push: these very files were version {version}, which was withdrawn{when} (got "
        f"{f'the reason: {because}' if because.strip() else 'no reason'}); train a model on other data or with another "
        f"spec, or put the version back: sangam rollback {folder} --restore {version}"
    )
