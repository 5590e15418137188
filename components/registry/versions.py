"""The folder of a ranker's versions: its layout, and how versions are withdrawn and restored.

`<folder>/<number>/` is a version; servers, including TensorFlow Serving, serve the highest number. A withdrawn version
is in `<folder>/withdrawn/<number>/`, where no server looks, with the reason in `withdrawn/<number>.json`. A version in
`<folder>/shadow/<number>/` scores requests without answering them. Loads without TensorFlow and TFX: the pusher, the
server and the command line share it.
"""

import datetime
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from sangam.components.registry import moving, seal
from sangam.schemas.contracts import deltas
from sangam.schemas.contracts.export import MODEL_FILE
from sangam.schemas.errors import UserError
from sangam.schemas.host import lock
from sangam.schemas.host.files import refuse_links, refuse_links_within, write_whole

MANIFEST_FILE, CARD_FILE, WITHDRAWN, SHADOW = seal.MANIFEST_FILE, deltas.CARD_FILE, "withdrawn", deltas.SHADOW
NONE = "none"
"""Given instead of a version to fall back to: withdraw all."""
WAIT_S = 60.0
# TensorFlow Serving reads versions as 64-bit integers.
_NUMBER = re.compile(r"[0-9]{1,18}")


class Withdrawal(BaseModel):
    """The record of a withdrawn version.

    Attributes:
        version: number.
        because: reason; empty if the record is lost.
        withdrawn_at: UTC.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: str
    because: str
    withdrawn_at: datetime.datetime | None


def versions(folder: Path) -> list[str]:
    """Returns the versions that may be served, lowest first.

    A version without `saved_model.pb` is still being copied, and so is one without a manifest if others have one.
    """
    complete = [name for name in _numbers(folder) if (folder / name / MODEL_FILE).is_file()]
    with_manifest = [name for name in complete if (folder / name / MANIFEST_FILE).is_file()]
    return with_manifest or complete


def shadow(folder: Path) -> str | None:
    """Returns the newest complete version that waits in the shadow of the served one; None without any."""
    waiting = versions(folder / SHADOW)
    return waiting[-1] if waiting else None


def numbers_in_shadow(folder: Path) -> list[str]:
    """Returns all versions in the shadow, lowest first; also incomplete ones."""
    return _numbers(folder / SHADOW)


def withdrawn(folder: Path) -> dict[str, Withdrawal]:
    """Returns the records of withdrawn versions, lowest first."""
    names = (name for name in _numbers(folder / WITHDRAWN) if not (folder / WITHDRAWN / name).is_symlink())
    return {name: _read_withdrawal(folder / WITHDRAWN, name) for name in names}


def numbers_taken(folder: Path) -> list[str]:
    """Returns all numbers in use, lowest first: also of incomplete and withdrawn versions, and those in the shadow."""
    return sorted({*_numbers(folder), *_numbers(folder / WITHDRAWN), *_numbers(folder / SHADOW)}, key=int)


def is_verified(version: Path) -> bool:
    """Returns whether a version has checksums for `damage`; models that Sangam did not push may have none."""
    return (version / MANIFEST_FILE).is_file()


def damage(version: Path) -> str | None:
    """Returns the damage of a version's files; None without any.

    They must be exactly those of its manifest; without a manifest, they must not be links.
    """
    if _NUMBER.fullmatch(version.name) and version.is_symlink():
        return f"{version.name}: is a link (got one to {os.readlink(version)}); a version must be a folder"
    return seal.difference(version)


@contextmanager
def locked(folder: Path, *, wait_s: float = WAIT_S) -> Iterator[None]:
    """Holds the folder's lock, so that only one push, withdrawal or restoration runs at a time.

    Raises:
        LockHeld: another process still holds it after `wait_s`.
    """
    with lock.locked(folder / lock.LOCK_FILE, str(folder), "another process changes its versions", wait_s=wait_s):
        yield


def withdraw(folder: Path, *, because: str, now: datetime.datetime, to: str | None = None) -> list[str]:
    """Withdraws the newest version, or all versions newer than `to`; returns them, lowest first.

    The newest is withdrawn last: servers change directly from it to the version to fall back to. If `to` is NONE, all
    versions are withdrawn, and nothing is served.

    Raises:
        UserError: if there is nothing to withdraw, no intact version to fall back to, or a link in its files.
    """
    _check_folder(folder)
    if not because.strip():
        raise UserError(f"--because: is empty (got '{because}'); give the reason, which is recorded with the version")
    with locked(folder):
        finish_moves(folder)
        to_withdraw, fallback = _split(folder, to)
        if fallback and (problem := damage(folder / fallback)):
            raise UserError(
                f"{folder}: version {fallback} to fall back to is damaged (got {problem}); choose another one with "
                "--to, or push a new one"
            )
        for version in to_withdraw:
            refuse_links_within(folder / version)
            refuse_links(folder / WITHDRAWN / version, folder)
        (folder / WITHDRAWN).mkdir(exist_ok=True)
        for version in to_withdraw:
            _record_withdrawal(folder, version, because, now)
            moving.move_out(folder / version, folder / WITHDRAWN / version)
        return to_withdraw


def restore(folder: Path, version: str) -> None:
    """Puts a withdrawn version back.

    Raises:
        UserError: if it is not withdrawn, or its number is in use.
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
    """Completes moves that were killed half-way, by withdrawing or promoting the version; call it under the lock."""
    for version in _numbers(folder / WITHDRAWN):
        for half in (folder / version, folder / SHADOW / version):
            if _is_half(half, folder / WITHDRAWN / version):
                moving.move_out(half, folder / WITHDRAWN / version)
    for version in _numbers(folder / SHADOW):
        waiting = folder / SHADOW / version
        if (waiting / MODEL_FILE).exists() and not waiting.is_symlink() and _is_half(folder / version, waiting):
            moving.move_in(waiting, folder / version)


def put_away(folder: Path, version: str, *, because: str, now: datetime.datetime) -> None:
    """Moves a version out of the shadow to the withdrawn ones, with the reason; call it under the lock."""
    source, target = folder / SHADOW / version, folder / WITHDRAWN / version
    refuse_links(target, folder)
    target.parent.mkdir(exist_ok=True)
    _record_withdrawal(folder, version, because, now)
    moving.move_out(source, target)


def _is_half(half: Path, other: Path) -> bool:
    """Returns whether a folder has the rest of a version whose other files are elsewhere."""
    return half.is_dir() and not (half.is_symlink() or other.is_symlink()) and not (half / MODEL_FILE).exists()


def _record_withdrawal(folder: Path, version: str, because: str, now: datetime.datetime) -> None:
    record = Withdrawal(version=version, because=because, withdrawn_at=now)
    write_whole(folder / WITHDRAWN / f"{version}.json", record.model_dump_json(indent=2) + "\n")


def _numbers(folder: Path) -> list[str]:
    try:
        entries = [entry.name for entry in os.scandir(folder) if _NUMBER.fullmatch(entry.name) and entry.is_dir()]
    except FileNotFoundError:
        return []
    return sorted(entries, key=int)


def _split(folder: Path, to: str | None) -> tuple[list[str], str]:
    """Returns the versions to withdraw and the one to fall back to, empty for NONE."""
    available = versions(folder)
    if not available and to in (None, NONE):
        raise UserError(
            f"{folder}: has no version to withdraw (got none); push one, or put one back: --restore VERSION"
        )
    if to == NONE:
        return available, ""
    if to is None:
        if len(available) < 2:
            raise UserError(
                f"{folder}: no older version to fall back to (got {_list(available)}); push another one, or "
                f"have nothing served: --to {NONE}"
            )
        return available[-1:], available[-2]
    if to not in available:
        hint = f"--restore {to} puts it back" if to in withdrawn(folder) else f"there are: {_list(available)}"
        raise UserError(f"--to: no such version in {folder} (got {to}); {hint}")
    to_withdraw = available[available.index(to) + 1 :]
    if not to_withdraw:
        raise UserError(f"--to: is the newest version already (got {to}); there are: {_list(available)}")
    return to_withdraw, to


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
