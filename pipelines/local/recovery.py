"""Cleans up after a run that was killed: executions that look unfinished, and partial output."""

import logging
from pathlib import Path
from typing import Any

from ml_metadata.proto import metadata_store_pb2
from tfx.orchestration.portable import execution_publish_utils

from sangam.schemas.host.files import remove_folder

_LOG = logging.getLogger(__name__)

# Layout of a step's output: tfx/orchestration/portable/outputs_utils.py.
_SYSTEM = ".system"
_STATEFUL = "__stateful_working_dir_index__"
_Execution: Any = metadata_store_pb2.Execution


def recover(metadata: Any, artifacts_root: Path) -> list[str]:
    """Marks unfinished executions as failed and removes their output.

    Call it only under the root's lock: it treats every unfinished execution as dead. Their artifacts were never
    published, so no later step can have read them.

    Args:
        metadata: TFX's handle of ML Metadata, not yet entered.
        artifacts_root: root of the pipeline's artifacts.

    Returns:
        The node ids of the executions, oldest first.
    """
    recovered = []
    with metadata as handle:
        for execution in sorted(handle.store.get_executions(), key=lambda found: int(found.id)):
            if execution.last_known_state not in (_Execution.NEW, _Execution.RUNNING):
                continue
            contexts = handle.store.get_contexts_by_execution(execution.id)
            for node in _node_ids(contexts):
                _remove_output(artifacts_root / node, execution)
                recovered.append(node)
            # Output first: if this process is killed here, the next run finds the execution again.
            execution_publish_utils.publish_failed_execution(handle, contexts, execution_id=execution.id)
            _LOG.warning("event=recovered execution=%d", execution.id)
    return recovered


def _node_ids(contexts: Any) -> list[str]:
    """Returns the ids of nodes, which TFX stores in the name of an execution's `node` context: <pipeline>.<node>."""
    types = ("node",)
    return [context.name.rsplit(".", 1)[1] for context in contexts if context.type in types and "." in context.name]


def _remove_output(node_dir: Path, execution: Any) -> None:
    folders = [node_dir / _SYSTEM / "executor_execution" / str(execution.id)]
    if _STATEFUL in execution.custom_properties:
        index = execution.custom_properties[_STATEFUL].string_value
        folders.append(node_dir / _SYSTEM / "stateful_working_dir" / index)
    if node_dir.is_dir():
        outputs = [output for output in node_dir.iterdir() if output.name != _SYSTEM]
        folders.extend(output / str(execution.id) for output in outputs)
    for folder in folders:
        if folder.is_dir():
            remove_folder(folder)
            _LOG.warning("event=removed path=%s", folder)
