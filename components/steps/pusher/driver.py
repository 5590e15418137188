"""Lets a replaced model be pushed again: otherwise the cached step would claim that it is served."""

import posixpath
from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter
from tfx.orchestration.portable import data_types

from sangam.components.caching.driver import AddingDriver
from sangam.components.registry import stored_versions, versions
from sangam.components.registry.blessed import BlessedModel, read_all
from sangam.components.steps.pusher.directory import target_folder
from sangam.components.steps.pusher.manifest import is_of_later_day
from sangam.schemas.contracts.root import Root
from sangam.schemas.spec.release import DirectoryPush, Push

# Any: mypy takes an annotated union for a value with a warm cache, and for a type with a cold one.
_PUSH_TYPE: Any = Push
_PUSH: TypeAdapter[Any] = TypeAdapter(_PUSH_TYPE)


class Driver(AddingDriver):
    """Adds the number of this model's earlier pushes to the exec properties."""

    def added(self, execution_info: data_types.ExecutionInfo) -> dict[str, int]:
        """Reads the registry and the folder of versions."""
        properties = execution_info.exec_properties
        root, push = properties["pipeline_root"], _PUSH.validate_json(properties["push"])
        pushes = 0
        if isinstance(push, DirectoryPush) and "://" not in root:
            uri, path = execution_info.input_dict["model"][0].uri, push.folder
            pushes_of_model = [
                model
                for model in read_all(Root(root).blessed(properties["name"]))
                if model.model_uri == uri and posixpath.dirname(model.pushed) == path
            ]
            on_store = push.is_on_store
            available = (
                stored_versions.versions(path) if on_store else versions.versions(target_folder(root, push.path))
            )
            pushes = pushes_before(pushes_of_model, available)
        return {"pushes": pushes}


def pushes_before(pushes_of_model: Sequence[BlessedModel], available: Sequence[str]) -> int:
    """Returns the number of a model's pushes before the push of this run.

    The run pushes again if the version of the last push is gone, or another version of its day is served instead. It
    does not if that version was rolled back or is in the shadow, or if a version of a later day is served anyway.

    Args:
        pushes_of_model: blessings of this model with a push to this folder, oldest first.
        available: the folder's versions, lowest first.
    """
    if not pushes_of_model:
        return 0
    last = pushes_of_model[-1]
    version, newest = posixpath.basename(last.pushed), available[-1] if available else ""
    if not last.is_accepted or newest == version or is_of_later_day(newest, version):
        return last.pushes
    return last.pushes + 1
