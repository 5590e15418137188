"""The outputs of steps in ML Metadata, read without TFX, which takes seconds to load."""

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sangam.schemas.contracts.root import Root
from sangam.schemas.errors import UserError


@dataclass(frozen=True)
class Output:
    """One output of a step.

    Attributes:
        id: id of the artifact in ML Metadata.
        path: path of its folder.
        step: step that wrote it.
        key: key of the output.
        runs: runs that have it, written by them or taken from the cache.
        is_live: whether ML Metadata does not mark it as deleted.
        properties: properties that the step has set.
    """

    id: int
    path: Path
    step: str
    key: str
    runs: frozenset[str]
    is_live: bool = True
    properties: dict[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Recorded:
    """The content of a root's ML Metadata: outputs, and the runs of each pipeline."""

    outputs: tuple[Output, ...] = ()
    runs: dict[str, frozenset[str]] = field(default_factory=dict)


def read_outputs(root: Root) -> Recorded:
    """Returns the outputs of all runs below a root's artifacts, in the order of their creation.

    Raises:
        UserError: ML Metadata cannot be read.
    """
    if not root.metadata.is_file():
        return Recorded()
    with _explained(root):
        return _read(root)


def _read(root: Root) -> Recorded:
    from ml_metadata.proto import metadata_store_pb2 as mlmd

    store = _store(root, mlmd.SqliteMetadataSourceConfig.READONLY)
    runs_of: dict[int, set[str]] = {}
    pipelines: dict[str, set[str]] = {}
    executions: dict[int, set[str]] = {}
    for run in store.get_contexts_by_type("pipeline_run"):
        for execution in store.get_executions_by_context(run.id):
            executions.setdefault(execution.id, set()).add(run.name)
    for pipeline in store.get_contexts_by_type("pipeline"):
        for execution in store.get_executions_by_context(pipeline.id):
            pipelines.setdefault(pipeline.name, set()).update(executions.get(execution.id, ()))
    outputs_only = (mlmd.Event.OUTPUT, mlmd.Event.DECLARED_OUTPUT)
    for event in store.get_events_by_execution_ids(list(executions)) if executions else ():
        if event.type in outputs_only:
            runs_of.setdefault(event.artifact_id, set()).update(executions[event.execution_id])
    found = [_output(artifact, root, runs_of.get(artifact.id, set())) for artifact in store.get_artifacts()]
    outputs = tuple(output for output in found if output is not None)
    return Recorded(outputs, {name: frozenset(runs) for name, runs in pipelines.items()})


def mark_deleted(root: Root, outputs: Iterable[Output]) -> None:
    """Marks outputs as deleted in ML Metadata, so that TFX takes none of them from the cache.

    Raises:
        UserError: ML Metadata cannot be written.
    """
    from ml_metadata.proto import metadata_store_pb2 as mlmd

    ids = [output.id for output in outputs]
    if not ids:
        return
    with _explained(root):
        store = _store(root, mlmd.SqliteMetadataSourceConfig.READWRITE)
        artifacts = store.get_artifacts_by_id(ids)
        for artifact in artifacts:
            artifact.state = mlmd.Artifact.DELETED
        store.put_artifacts(artifacts)


@contextlib.contextmanager
def _explained(root: Root) -> Iterator[None]:
    """Converts errors of ML Metadata into UserErrors."""
    from ml_metadata.errors import StatusError

    try:
        yield
    except (StatusError, RuntimeError) as error:  # RuntimeError if the file cannot be opened.
        first_line = str(error).splitlines()[0]
        raise UserError(
            f"{root.metadata}: ML Metadata cannot be used (got {first_line}); try again when no run writes it, or "
            "restore it from a backup"
        ) from error


def _store(root: Root, mode: int) -> Any:
    from ml_metadata import MetadataStore
    from ml_metadata.proto import metadata_store_pb2 as mlmd

    config: Any = mlmd.ConnectionConfig()
    config.sqlite.filename_uri, config.sqlite.connection_mode = str(root.metadata), mode
    return MetadataStore(config)


def _output(artifact: Any, root: Root, runs: set[str]) -> Output | None:
    """Returns an output; None for an artifact outside the root."""
    from ml_metadata.proto import metadata_store_pb2 as mlmd

    path = Path(artifact.uri)
    try:
        step, key, *_ = path.relative_to(root.artifacts).parts
    except ValueError:
        return None
    properties = {name: getattr(value, value.WhichOneof("value")) for name, value in artifact.custom_properties.items()}
    is_live = artifact.state != mlmd.Artifact.DELETED
    return Output(artifact.id, path, step, key, frozenset(runs), is_live, properties)
