"""Lets a model be pushed again that another one has taken the place of: the cache would say it is served."""

import posixpath
from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter
from tfx.orchestration.portable import data_types

from components.caching.driver import AddingDriver
from components.registry import versions
from components.registry.blessed import BlessedModel, folder, read_all
from components.steps.pusher.directory import target_folder
from components.steps.pusher.manifest import is_of_later_day
from schemas.spec.release import DirectoryPush, Push

# Any: with a warm cache mypy takes an annotated union for a value, with a cold one for a type.
_PUSH_TYPE: Any = Push
_PUSH: TypeAdapter[Any] = TypeAdapter(_PUSH_TYPE)


class Driver(AddingDriver):
    """Adds to the exec properties how often this model was pushed before this push."""

    def added(self, execution_info: data_types.ExecutionInfo) -> dict[str, int]:
        """Reads the registry and the folder of versions."""
        properties = execution_info.exec_properties
        root, push = properties["pipeline_root"], _PUSH.validate_json(properties["push"])
        pushes = 0
        if isinstance(push, DirectoryPush) and "://" not in root:
            uri, path = execution_info.input_dict["model"][0].uri, posixpath.normpath(push.path)
            known = [
                model
                for model in read_all(folder(root, properties["name"]))
                if model.model_uri == uri and posixpath.dirname(model.pushed) == path
            ]
            pushes = pushes_before(known, versions.versions(target_folder(root, push.path)))
        return {"pushes": pushes}


def pushes_before(known: Sequence[BlessedModel], there: Sequence[str]) -> int:
    """Returns how often a model had been pushed before the push that this run is about.

    That is a new push if the last one's version is not there any more, or another one of its day is served in its
    place. What was rolled back is not pushed again, nor what would not be served, as a later day's version is there.

    Args:
        known: the blessings of this model that pushed it to this folder, oldest first.
        there: the folder's versions, lowest first.
    """
    if not known:
        return 0
    last = known[-1]
    version, newest = posixpath.basename(last.pushed), there[-1] if there else ""
    if last.is_withdrawn or newest == version or is_of_later_day(newest, version):
        return last.pushes
    return last.pushes + 1
