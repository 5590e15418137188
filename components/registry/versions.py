"""The folder of versions that a ranker is served from: what lies where, which version counts, and how one is withdrawn.

`<folder>/<number>/` is a version; the highest number is served, by TensorFlow Serving as by ours. A withdrawn one lies
in `<folder>/withdrawn/<number>/`, where no server looks, with the reason beside it in `withdrawn/<number>.json`. Loads
without TensorFlow and TFX: the pusher, the server and the command line share it.
"""

import datetime
import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from components.registry import moving, seal
from schemas.errors import UserError
from schemas.files import write_whole

MODEL_FILE, MANIFEST_FILE, WITHDRAWN = moving.MODEL_FILE, seal.MANIFEST_FILE, "withdrawn"
# TensorFlow Serving reads versions as 64-bit integers.
_NUMBER = re.compile(r"[0-9]{1,18}")


class Withdrawal(BaseModel):
    """Why a version is served no more.

    Attributes:
        version: its number.
        because: the reason given; empty if the record is lost.
        withdrawn_at: UTC.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: str
    because: str
    withdrawn_at: datetime.datetime | None


def versions(folder: Path) -> list[str]:
    """Returns the versions that may be served, lowest first.

    One without `saved_model.pb` is still being copied; so is one without a manifest beside versions that have one.
    """
    found = [name for name in _numbers(folder) if (folder / name / MODEL_FILE).is_file()]
    described = [name for name in found if (folder / name / MANIFEST_FILE).is_file()]
    return described or found


def withdrawn(folder: Path) -> dict[str, Withdrawal]:
    """Returns the withdrawn versions, lowest first, and why."""
    return {name: _read_withdrawal(folder / WITHDRAWN, name) for name in _numbers(folder / WITHDRAWN)}


def numbers_taken(folder: Path) -> list[str]:
    """Returns every number that a new version must not have, lowest first: there, half written or withdrawn."""
    return sorted({*_numbers(folder), *_numbers(folder / WITHDRAWN)}, key=int)


def is_verified(version: Path) -> bool:
    """Whether a version has checksums, which `damage` compares; models that Sangam has not pushed may have none."""
    return (version / MANIFEST_FILE).is_file()


def damage(version: Path) -> str | None:
    """Says what is wrong with a version's files; None: nothing.

    They must be what its manifest lists, all of it and nothing else; without a manifest, files of its own folder.
    """
    if _NUMBER.fullmatch(version.name) and version.is_symlink():
        return f"{version.name}: is a link (got one to {os.readlink(version)}); a version is a folder of its own"
    return seal.difference(version)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds the folder's lock: one push, withdrawal or restoration at a time."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def withdraw(folder: Path, *, because: str, now: datetime.datetime, to: str | None = None) -> list[str]:
    """Withdraws the newest version, or all that are newer than `to`; returns them, lowest first.

    The newest goes last: until then it is served, and after that the right one is, with none between.

    Raises:
        UserError: if there is nothing to withdraw, or nothing sound to fall back to.
    """
    _check_folder(folder)
    if not because.strip():
        raise UserError(f"--because: needs a reason (got '{because}'); say why, for whoever finds the version gone")
    with locked(folder):
        finish_moves(folder)
        leaving, fallback = _split(folder, to)
        if found := damage(folder / fallback):
            raise UserError(
                f"{folder}: version {fallback} to fall back to is damaged (got {found}); give a sound one with --to, "
                "or push a new one"
            )
        (folder / WITHDRAWN).mkdir(exist_ok=True)
        for version in leaving:
            record = Withdrawal(version=version, because=because, withdrawn_at=now)
            write_whole(folder / WITHDRAWN / f"{version}.json", record.model_dump_json(indent=2) + "\n")
            moving.move_out(folder / version, folder / WITHDRAWN / version)
        return leaving


def restore(folder: Path, version: str) -> None:
    """Puts a withdrawn version back.

    Raises:
        UserError: if it is not among the withdrawn, or its number is taken.
    """
    _check_folder(folder)
    with locked(folder):
        finish_moves(folder)
        if version not in withdrawn(folder):
            raise UserError(
                f"--restore: not withdrawn from {folder} (got {version}); withdrawn are: {_list(withdrawn(folder))}"
            )
        if os.path.lexists(folder / version):
            raise UserError(f"--restore: {folder / version} exists (got {version}); move one of the two away")
        moving.move_in(folder / WITHDRAWN / version, folder / version)
        (folder / WITHDRAWN / f"{version}.json").unlink(missing_ok=True)


def finish_moves(folder: Path) -> None:
    """Ends withdrawals and restorations that were killed half-way: the version is withdrawn; call it under the lock."""
    for version in _numbers(folder / WITHDRAWN):
        half = folder / version
        if half.is_dir() and not half.is_symlink() and not (half / MODEL_FILE).exists():
            moving.move_out(half, folder / WITHDRAWN / version)


def _numbers(folder: Path) -> list[str]:
    try:
        entries = [entry.name for entry in os.scandir(folder) if _NUMBER.fullmatch(entry.name) and entry.is_dir()]
    except FileNotFoundError:
        return []
    return sorted(entries, key=int)


def _split(folder: Path, to: str | None) -> tuple[list[str], str]:
    """Returns the versions to withdraw and the one to fall back to."""
    there = versions(folder)
    if to is None:
        if len(there) < 2:
            raise UserError(
                f"{folder}: no older version to fall back to (got {_list(there)}); push another one, or stop the server"
            )
        return there[-1:], there[-2]
    if to not in there:
        mend = f"--restore {to} puts it back" if to in withdrawn(folder) else f"there are: {_list(there)}"
        raise UserError(f"--to: no such version in {folder} (got {to}); {mend}")
    leaving = there[there.index(to) + 1 :]
    if not leaving:
        raise UserError(f"--to: is the newest version already (got {to}); there are: {_list(there)}")
    return leaving, to


def _check_folder(folder: Path) -> None:
    if not folder.is_dir():
        raise UserError(f"DIR: no such folder (got {folder}); give the folder of versions, push.path below the root")


def _list(names: "dict[str, Withdrawal] | list[str]") -> str:
    return ", ".join(names) or "none"


def _read_withdrawal(folder: Path, version: str) -> Withdrawal:
    try:
        return Withdrawal.model_validate_json((folder / f"{version}.json").read_bytes())
    except (OSError, ValueError):
        return Withdrawal(version=version, because="", withdrawn_at=None)
