"""The record of one blessing. Loads without TFX: `sangam validate --base` reads it."""

import datetime
import json
import posixpath
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from sangam.components.object_stores import is_stored
from sangam.components.registry.stored_versions import withdrawn_names
from sangam.components.registry.versions import SHADOW, WITHDRAWN
from sangam.schemas.contracts.formats import refuse_other_format
from sangam.schemas.contracts.root import Root
from sangam.schemas.errors import UserError

ENTRY = re.compile(r"^(\d{8})\.json$")
"""Name of a record's file."""
FORMAT: Literal[1] = 1
_REMEDY = "restore it from a backup, or move it away to use the blessing before it"


class BlessedModel(BaseModel):
    """One blessing.

    Attributes:
        format: format number of the record.
        model_uri: address of the model artifact.
        ranker_digest: digest of the part of the spec on which the model depends.
        blessed_at: time of the blessing, UTC.
        metrics: values over all evaluation examples, by task and metric.
        checkpoint_uri: address of the checkpoint artifact.
        days: days of the model's training, including those of its bases, oldest first; empty for logs without days.
        transform_graph_uri: address of the model's Transform graph.
        inputs_digest: digest of the part of the spec on which the graph depends.
        model_sha256: sha256 of the model's manifest.
        checkpoint_sha256: sha256 of the checkpoint's manifest.
        transform_graph_sha256: sha256 of the graph's manifest.
        because: reason of a manual blessing; empty: the model passed every gate.
        by: the person.
        pushed: folder of the pushed version, relative to the pipeline root, so that the root may move; empty: not
            pushed.
        pushes: number of earlier pushes of the model.
        is_withdrawn: the pushed version was rolled back, or dropped from the shadow; looked up when records are read,
            never written.
        is_waiting: the pushed version is in the shadow of the live one; looked up as well.
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
    is_waiting: bool = Field(default=False, exclude=True)

    @property
    def is_accepted(self) -> bool:
        """Whether the next model may continue it and is compared with it."""
        return not (self.is_withdrawn or self.is_waiting)


def read_record(path: str, read: Callable[[], bytes]) -> BlessedModel | None:
    """Returns a record; None for an empty file, whose writer is still running or was killed.

    Args:
        path: path of the record, for errors.
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

    `sangam.components.registry.blessed.read_all` does the same for any address, and loads TFX for it.

    Raises:
        UserError: see `read_record`.
    """
    folder = Path(Root(str(root)).blessed(ranker))
    files = sorted(path for path in folder.glob("*.json") if ENTRY.match(path.name))
    read = [model for file in files if (model := read_record(str(file), file.read_bytes))]
    return mark_places(read, lambda target: (path.name for path in (root / target).glob("*")))


def mark_places(models: Sequence[BlessedModel], listed: Callable[[str], Iterable[str]]) -> list[BlessedModel]:
    """Returns the models with `is_withdrawn` and `is_waiting` filled in.

    Args:
        models: records as they were read.
        listed: lists a folder, relative to the root: of withdrawn versions, and their records, which stay when a
            version's files are removed; or of those in the shadow. Folders on an object store are listed there.
    """
    targets = {posixpath.dirname(model.pushed) for model in models if model.pushed}
    # The shadow first: a version that is dropped meanwhile is found where it was, or among the withdrawn ones.
    waiting = {
        f"{target}/{name}" for target in targets if not is_stored(target) for name in listed(f"{target}/{SHADOW}")
    }
    gone = {
        f"{target}/{name.removesuffix('.json')}"
        for target in targets
        for name in (withdrawn_names(target) if is_stored(target) else listed(f"{target}/{WITHDRAWN}"))
    }
    return [
        model.model_copy(update={"is_withdrawn": model.pushed in gone, "is_waiting": model.pushed in waiting})
        for model in models
    ]
