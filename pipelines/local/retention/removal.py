"""Removes files by the decisions of a rule. A kill at any moment leaves no partial item that looks complete."""

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sangam.components.record.lock import locked
from sangam.components.registry import versions
from sangam.pipelines.local.outputs import Output, mark_deleted
from sangam.pipelines.local.retention.rule import Decision
from sangam.schemas.contracts.root import Root
from sangam.schemas.errors import UserError
from sangam.schemas.host.files import first_link, refuse_links

_WAIT_S = 1.0
"""For how long a version waits for a push or a rollback; the next removal tries again."""


@dataclass(frozen=True)
class Removed:
    """The result of a removal.

    Attributes:
        gone: executed decisions.
        failed: other decisions with the reason.
    """

    gone: tuple[Decision, ...]
    failed: tuple[tuple[Decision, str], ...]


def remove(root: Root, decisions: Iterable[Decision], lost: Sequence[Output] = ()) -> Removed:
    """Removes the items that do not stay; call it under the root's lock.

    Items are first moved aside, each by one rename: outputs of steps before the examples that they list, so that no
    list ever has missing examples. TFX does not reuse an output whose folder is missing, so a kill before the update of
    ML Metadata is harmless: the next removal updates it (`lost`).

    Args:
        root: an absolute path.
        decisions: of which those that do not stay are carried out.
        lost: outputs that ML Metadata believes to be there, and that are not.
    """
    gone: list[Decision] = []
    failed: list[tuple[Decision, str]] = []
    going = [decision for decision in decisions if not decision.stays]
    for decision in sorted(going, key=lambda each: each.output is None):
        if decision.kind == "examples" and any(each.output for each, _ in failed):
            failed.append((decision, "an output that may name them is still there"))
            continue
        try:
            with _held(decision):
                _move_aside(root, decision.path)
            gone.append(decision)
        except FileNotFoundError:
            continue  # Removed by another process.
        except (OSError, UserError) as error:
            failed.append((decision, str(error)))
    mark_deleted(root, [*lost, *(decision.output for decision in gone if decision.output)])
    for output in (decision.output for decision in gone if decision.output):
        _forget_execution(root, output)
    shutil.rmtree(root.removed, ignore_errors=True)
    return Removed(tuple(gone), tuple(failed))


def size_of(path: Path) -> int:
    """Returns the bytes of a file, or of all files below a folder."""
    if not path.is_dir():
        return path.lstat().st_size if path.exists() else 0
    files = (Path(parent, name) for parent, _, names in os.walk(path) for name in names)
    return sum(file.lstat().st_size for file in files)


@contextlib.contextmanager
def _held(decision: Decision) -> Iterator[None]:
    """Locks an item that the root's lock does not cover: a search, or a folder of versions.

    Raises:
        LockHeld: the search is running, or another process changes the versions.
        BlockingIOError: the version is one of the two newest by now: served, or next after a rollback.
    """
    if decision.kind == "trials":
        with locked(decision.path.parent):
            yield
    elif decision.kind == "version":
        parent = decision.path.parent
        folder = parent.parent if parent.name == versions.WITHDRAWN else parent
        with versions.locked(folder, wait_s=_WAIT_S):
            if parent == folder and decision.path.name in versions.versions(folder)[-2:]:
                raise BlockingIOError("it is one of the two newest versions now")
            yield
    else:
        yield


def _move_aside(root: Root, path: Path) -> None:
    for each in (path, root.removed):
        refuse_links(each, root.path)
    root.removed.mkdir(exist_ok=True)
    path.rename(root.removed / f"{secrets.token_hex(8)}-{path.name}")


def _forget_execution(root: Root, output: Output) -> None:
    """Removes TFX's files beside the outputs of an execution, and empty folders."""
    system = root.artifacts / output.step / ".system"
    if first_link(system / "driver_execution", root.path) or first_link(system / "executor_execution", root.path):
        return
    shutil.rmtree(system / "driver_execution", ignore_errors=True)  # Drivers have ended: runs hold the lock.
    if not any((root.artifacts / output.step).glob(f"*/{output.path.name}")):
        shutil.rmtree(system / "executor_execution" / output.path.name, ignore_errors=True)
    with contextlib.suppress(OSError):
        output.path.parent.rmdir()
        output.path.parent.parent.rmdir()
