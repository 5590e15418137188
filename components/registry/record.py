"""The record of one blessing. Loads without TFX: `sangam validate --base` reads it."""

import datetime
import json
import posixpath
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from components.registry.versions import WITHDRAWN
from schemas.contracts.formats import refuse_other_format
from schemas.contracts.root import Root
from schemas.errors import UserError

ENTRY = re.compile(r"^(\d{8})\.json$")
"""Name of a record's file."""
FORMAT: Literal[1] = 1
_REMEDY = "restore it from a backup, or move it away to use the blessing before it"


class BlessedModel(BaseModel):
    """One blessing.

    Attributes:
        format: of the file.
        model_uri: of the model artifact.
        ranker_digest: of the part of the spec that the model depends on.
        blessed_at: UTC.
        metrics: task to metric to value over all evaluation examples.
        checkpoint_uri: of the checkpoint artifact.
        days: that the model was trained on, including those of its bases, oldest first; empty for logs without days.
        transform_graph_uri: of the Transform graph that the model was trained with.
        inputs_digest: of the part of the spec that the graph was made from.
        model_sha256: of the model's manifest.
        checkpoint_sha256: of the checkpoint's manifest.
        transform_graph_sha256: of the graph's manifest.
        because: reason of a manual blessing; empty: the model passed every gate.
        by: the person.
        pushed: folder of the pushed version, relative to the pipeline root, so that the root may move; empty: not
            pushed.
        pushes: how often this model had been pushed before.
        is_withdrawn: the pushed version was rolled back; looked up when records are read, never written.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    format: Literal[1] = FORMAT
    model_uri: str
    ranker_digest: str
    blessed_at: datetime.datetime
    metrics: dict[str, dict[str, float | None]]
    checkpoint_uri: str
    days: tuple[str, ...]
    transform_graph_uri: str
    inputs_digest: str
    model_sha256: str
    checkpoint_sha256: str
    transform_graph_sha256: str
    because: str = ""
    by: str = ""
    pushed: str = ""
    pushes: int = 0
    is_withdrawn: bool = Field(default=False, exclude=True)


def read_record(path: str, read: Callable[[], bytes]) -> BlessedModel | None:
    """Returns a record; None for an empty file: its writer is about to replace it, or was killed.

    Args:
        path: names it in errors.
        read: returns its content.

    Raises:
        UserError: it is of another format, damaged or unreadable.
    """
    try:
        content = read()
        if not content:
            return None
        refuse_other_format(path, json.loads(content), FORMAT, f"another version has written it: {_REMEDY}")
        return BlessedModel.model_validate_json(content)
    except (OSError, ValueError) as error:  # Also pydantic's.
        first_line = str(error).splitlines()[0]
        raise UserError(f"{path}: is not a readable blessing (got {first_line}); {_REMEDY}") from error


def read_records(root: Path, ranker: str) -> list[BlessedModel]:
    """Returns every blessing of a ranker in a root on a disk, oldest first; none where there is no folder.

    `components.registry.blessed.read_all` does the same for any address, and loads TFX for it.

    Raises:
        UserError: see `read_record`.
    """
    folder = Path(Root(str(root)).blessed(ranker))
    files = sorted(path for path in folder.glob("*.json") if ENTRY.match(path.name))
    read = [model for file in files if (model := read_record(str(file), file.read_bytes))]
    return mark_withdrawn(read, lambda target: (path.name for path in (root / target).glob(f"{WITHDRAWN}/*")))


def mark_withdrawn(models: Sequence[BlessedModel], listed: Callable[[str], Iterable[str]]) -> list[BlessedModel]:
    """Returns the models with `is_withdrawn` filled in.

    Args:
        models: as read.
        listed: lists the folder of withdrawn versions below a folder of versions, which is relative to the root. It
            contains versions, and their records, which stay when a version's files are removed.
    """
    gone = {
        f"{target}/{name.removesuffix('.json')}"
        for target in {posixpath.dirname(model.pushed) for model in models if model.pushed}
        for name in listed(target)
    }
    return [model.model_copy(update={"is_withdrawn": model.pushed in gone}) for model in models]
