"""A ranker's versions on an object store: how they are listed, withdrawn and restored.

They lie as on a disk (`versions`). A store has no renames and no locks: a version is copied to its new place before it
is deleted from the old one, `saved_model.pb` comes last and goes first, and two pushes or withdrawals at once may
collide.
"""

import datetime
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO

from sangam.components import object_stores
from sangam.components.object_stores import Stored
from sangam.components.registry.versions import MANIFEST_FILE, NONE, WITHDRAWN, Withdrawal
from sangam.schemas.contracts.export import MODEL_FILE
from sangam.schemas.errors import UserError

_NUMBER = re.compile(r"[0-9]{1,18}")

Files = Mapping[str, Sequence[Stored]]
"""The objects of each version."""


def versions(folder: str) -> list[str]:
    """Returns the versions that may be served, lowest first: complete ones with a manifest.

    Raises:
        UserError: the store cannot be listed.
    """
    return _complete(folder, _files(folder))


def withdrawn(folder: str) -> dict[str, Withdrawal]:
    """Returns the records of withdrawn versions, lowest first.

    Raises:
        UserError: see `versions`.
    """
    return {name: withdrawal(folder, name) for name in _complete(_gone(folder), _files(_gone(folder)))}


def withdrawal(folder: str, version: str) -> Withdrawal:
    """Returns the record of a withdrawn version; an empty one if it is lost."""
    try:
        return Withdrawal.model_validate_json(object_stores.read(f"{_gone(folder)}/{version}.json"))
    except (UserError, ValueError):
        return Withdrawal(version=version, because="", withdrawn_at=None)


def withdrawn_names(folder: str) -> list[str]:
    """Returns the names of withdrawn versions, and of their records.

    Raises:
        UserError: see `versions`.
    """
    return object_stores.names(_gone(folder))


def withdraw(folder: str, *, because: str, now: datetime.datetime, to: str | None = None) -> list[str]:
    """Withdraws the newest version, or all versions newer than `to` (NONE: all); returns them, lowest first.

    Raises:
        UserError: there is nothing to withdraw, or nothing to fall back to.
    """
    if not because.strip():
        raise UserError(f"--because: is empty (got '{because}'); give the reason, which is recorded with the version")
    _finish_moves(folder)
    files = _files(folder)
    available = _complete(folder, files)
    names = _to_withdraw(folder, available, to)
    if left := available[: available.index(names[0])]:
        _refuse_damaged(folder, left[-1], files[left[-1]])
    for name in names:
        record = Withdrawal(version=name, because=because, withdrawn_at=now)
        text = record.model_dump_json(indent=2) + "\n"
        object_stores.write(f"{_gone(folder)}/{name}.json", BytesIO(text.encode()))
        _move(files[name], f"{folder}/{name}", f"{_gone(folder)}/{name}")
    return names


def restore(folder: str, version: str) -> None:
    """Puts a withdrawn version back.

    Raises:
        UserError: it is not withdrawn, or its number is in use.
    """
    _finish_moves(folder)
    files = _files(_gone(folder))
    there = _complete(_gone(folder), files)
    if version not in there:
        raise UserError(f"--restore: not withdrawn from {folder} (got {version}); withdrawn are: {_list(there)}")
    if version in _files(folder):
        raise UserError(f"--restore: {folder}/{version} exists (got {version}); move one of the two away")
    _move(files[version], f"{_gone(folder)}/{version}", f"{folder}/{version}")
    if object_stores.found(f"{_gone(folder)}/{version}.json"):
        object_stores.delete(f"{_gone(folder)}/{version}.json")


def _to_withdraw(folder: str, available: Sequence[str], to: str | None) -> list[str]:
    if not available and to in (None, NONE):
        raise UserError(
            f"{folder}: has no version to withdraw (got none); push one, or put one back: --restore VERSION"
        )
    if to == NONE:
        return list(available)
    if to is None:
        if len(available) < 2:
            raise UserError(
                f"{folder}: no older version to fall back to (got {_list(available)}); push another one, or have "
                f"nothing served: --to {NONE}"
            )
        return [available[-1]]
    if to not in available:
        raise UserError(f"--to: no such version in {folder} (got {to}); there are: {_list(available)}")
    newer = list(available[available.index(to) + 1 :])
    if not newer:
        raise UserError(f"--to: is the newest version already (got {to}); there are: {_list(available)}")
    return newer


def _refuse_damaged(folder: str, version: str, files: Sequence[Stored]) -> None:
    """Refuses to fall back to a version whose objects are not those of its manifest, by name and size."""
    listed = json.loads(object_stores.read(f"{folder}/{version}/{MANIFEST_FILE}"))["files"]
    wanted = {name: entry["bytes"] for name, entry in listed.items()}
    there = {each.uri.removeprefix(f"{folder}/{version}/"): each.size_bytes for each in files}
    wrong = {name for name, size in there.items() if name != MANIFEST_FILE and wanted.get(name) != size}
    if wrong := wrong | (wanted.keys() - there.keys()):
        raise UserError(
            f"{folder}: version {version} to fall back to is damaged (got other or no files {_list(sorted(wrong))}); "
            "choose another one with --to, or push a new one"
        )


def _gone(folder: str) -> str:
    return f"{folder}/{WITHDRAWN}"


def _files(folder: str) -> Files:
    """Returns the objects of each version; those of withdrawn ones only of their own folder."""
    found: dict[str, list[Stored]] = {}
    for each in object_stores.listed(folder, recursive=True):
        name, mark, _ = each.uri.removeprefix(f"{folder}/").partition("/")
        if mark and _NUMBER.fullmatch(name):
            found.setdefault(name, []).append(each)
    return found


def _complete(folder: str, files: Files) -> list[str]:
    """Returns the versions whose last file is there, lowest first."""
    needed = (MODEL_FILE, MANIFEST_FILE)
    complete = [
        name
        for name, stored in files.items()
        if {f"{folder}/{name}/{file}" for file in needed} <= {each.uri for each in stored}
    ]
    return sorted(complete, key=int)


def _finish_moves(folder: str) -> None:
    """Completes moves that were killed after the copy: what remains at the old place is deleted."""
    for old, new in ((folder, _gone(folder)), (_gone(folder), folder)):
        files = _files(old)
        for name in set(files) - set(_complete(old, files)) & set(_complete(new, _files(new))):
            object_stores.delete_all(f"{old}/{name}")


def _move(files: Sequence[Stored], old: str, new: str) -> None:
    is_last = f"{old}/{MODEL_FILE}"
    for each in sorted(files, key=lambda each: (each.uri == is_last, each.uri)):
        object_stores.copy(each, new + each.uri.removeprefix(old))
    object_stores.delete(is_last)
    object_stores.delete_all(old)


def _list(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"
