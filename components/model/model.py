"""A loaded model: scores of rows, vectors of ids, importance of columns."""

import html
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from sangam.components.examples.blocks import plain
from sangam.components.model import explaining
from sangam.components.model.columns import ModelColumn, model_columns
from sangam.components.model.embeddings import Embeddings, embeddings
from sangam.components.model.frames import Data, rows_of
from sangam.components.model.places import Place, place_of
from sangam.components.server.model import LoadedModel, NotServable
from sangam.components.server.request_error import RequestError
from sangam.components.steps.pusher.manifest import FILE_NAME, Manifest, read_manifest
from sangam.schemas.contracts.export import BLOCKS, Description
from sangam.schemas.derived.columns import columns, serving_columns, task_columns
from sangam.schemas.errors import UserError
from sangam.schemas.parts.columns import Column
from sangam.schemas.spec import Spec
from sangam.schemas.spec.forms import Form

BATCH_ROWS = 4096
"""Rows scored at once; more take more memory, and are no faster."""


def load(path: str | Path, spec: Spec | None = None) -> "Model":
    """Loads a model.

    Args:
        path: a version's folder, a folder of versions (the newest one), a run's folder or a root; the first two may be
            addresses, s3://... or gs://...
        spec: spec whose `data` says the forms of columns; by default that of the run, where `path` is one or a root.

    Raises:
        UserError: there is no model, it is damaged, or Sangam has not exported it.
    """
    place = place_of(path)
    described = place.described()
    try:
        loaded = LoadedModel(place.folder, 0)
    except NotServable as error:
        raise UserError(f"{error}") from None
    return Model(place, described, loaded, spec or place.spec())


class Model:
    """A loaded model.

    Attributes:
        name: name of the ranker.
        version: number of the version; empty for a model that was not pushed.
        tasks: names of the tasks.
        columns: columns that predictions need, and what a missing value in them does.
        spec: the part of the spec on which the model depends.
        metrics: metrics on the evaluation split, by task, from the manifest of a pushed version; otherwise empty.
        forms: forms of columns that are no numbers or ids yet.
    """

    def __init__(self, place: Place, described: Description, loaded: LoadedModel, spec: Spec | None):
        """Takes what `load` has found."""
        self._place, self._described, self._loaded = place, described, loaded
        self._columns = serving_columns(described.ranker)
        manifest = _manifest(place.folder)
        self.name, self.spec = described.name, described.ranker
        self.version = manifest.version if manifest else ""
        self.metrics: Mapping[str, Mapping[str, float | None]] = manifest.metrics if manifest else {}
        self.tasks = tuple(described.tasks)
        self.columns: tuple[ModelColumn, ...] = model_columns(described.ranker)
        self.forms: Mapping[str, Form] = spec.data.columns if spec else {}

    def score(self, data: Data, *, batch_size: int = BATCH_ROWS) -> Data:
        """Returns a prediction of each task for each row: a DataFrame with the index of the given one, or a table.

        A row is scored as the server scores it. Columns may have any type of pandas, NumPy or Arrow whose values are
        the column's in one way only: integers for floats, whole floats for integers, categories, decimals, times with
        a zone for seconds since 1970. Columns that the model does not read are ignored.

        Args:
            data: rows of the logs, a pandas DataFrame or a pyarrow Table.
            batch_size: rows scored at once.

        Raises:
            UserError: a column is missing or has another type.
        """
        if batch_size < 1:
            raise UserError(f"batch_size: is not positive (got {batch_size}); for example {BATCH_ROWS}")
        parts = [self.score_rows(rows) for rows in self._rows(data, self._columns, batch_size)]
        scores = {task: _joined([part[task] for part in parts]) for task in self.tasks}
        return pd.DataFrame(scores, index=data.index) if isinstance(data, pd.DataFrame) else pa.table(scores)

    def embeddings(self, table: str) -> Embeddings:
        """Returns the vectors of a table's ids. The spec must have `export: {ids: true}`.

        Raises:
            UserError: the model has no such table, or no ids were kept.
        """
        return embeddings(self._loaded, self._place.folder, self._described, table)

    def explain(self, data: Data, *, seed: int = 1) -> pd.DataFrame:
        """Returns how much each column matters for each task, the largest importance first: permutation importance.

        Each column is shuffled among the rows in turn, columns of parallel lists together. For a task whose label is in
        the data, the importance is the decline of the AUC (of a regression the rise of the RMSE), with an interval of
        95 %, as the evaluator computes it; rows without a label do not count. Without any label, it is the mean
        absolute change of the score (`measure` is then `mean_abs_change`): how much the model uses the column, which
        does not say that it gains by it. The data are scored once for each column: some thousand rows are enough.

        Args:
            data: rows of the logs.
            seed: of the shuffling.

        Returns:
            Columns task, column, features, measure, importance, lower, upper.

        Raises:
            UserError: a column is missing or has another type, or there are no rows.
        """
        names = set(map(str, data.columns if isinstance(data, pd.DataFrame) else data.column_names))
        labeled = [task for task in self.tasks if names >= {column.name for column in task_columns(self.spec, task)}]
        wanted = {column.name for task in labeled for column in task_columns(self.spec, task)}
        wanted |= {column.name for column in self._columns}
        read = [column for column in columns(self.spec) if column.name in wanted] if labeled else self._columns
        batches = list(self._rows(data, read, BATCH_ROWS))
        rows = pa.Table.from_batches(batches).combine_chunks().to_batches() if batches else []
        if not rows:
            raise UserError("data: has no rows to explain (got none); give some thousand rows of the logs")
        if labeled:
            return explaining.by_labels(self.spec, labeled, rows[0], self._score_all, seed)
        return explaining.by_change(self.spec, rows[0], self._score_all, seed)

    def score_rows(self, rows: pa.RecordBatch) -> dict[str, NDArray[np.float32]]:
        """Returns each task's predictions for rows of list columns.

        Raises:
            UserError: the model cannot compute them.
        """
        signature = self._loaded.signatures.get(BLOCKS)
        if signature is None:
            raise UserError(
                f"{self._place.folder}: a version of Sangam without the signature {BLOCKS} has exported it (got "
                f"{', '.join(sorted(self._loaded.signatures))}); train and export the model again with this one"
            )
        try:
            answer = self._loaded.run(signature, {"blocks": np.array([plain(rows)], object)})
        except RequestError as error:
            raise UserError(f"data: {error.text}") from None
        return {task: answer[task][:, 0] for task in self.tasks}

    def _score_all(self, rows: pa.RecordBatch) -> dict[str, NDArray[np.float32]]:
        parts = [self.score_rows(rows.slice(start, BATCH_ROWS)) for start in range(0, rows.num_rows, BATCH_ROWS)]
        return {task: _joined([part[task] for part in parts]) for task in self.tasks}

    def _rows(self, data: Data, read: list[Column], batch_rows: int) -> Iterator[pa.RecordBatch]:
        if not isinstance(data, pd.DataFrame | pa.Table):
            raise UserError(f"data: is a {type(data).__name__}; a pandas DataFrame or a pyarrow Table is needed")
        return rows_of(data, read, self.forms, batch_rows)

    def __repr__(self) -> str:
        return f"<Model {self.name} {self.version or self._place.folder}: {', '.join(self.tasks)}>"

    def _repr_html_(self) -> str:
        """Returns a short description for notebooks."""
        names = sorted({metric for of_task in self.metrics.values() for metric in of_task})[:4]
        head = "".join(f"<th>{html.escape(name)}</th>" for name in ["task", *names])
        lines = "".join(
            f"<tr><td>{html.escape(task)}</td>"
            + "".join(f"<td>{_shown(self.metrics.get(task, {}).get(name))}</td>" for name in names)
            + "</tr>"
            for task in self.tasks
        )
        title = html.escape(f"{self.name} {self.version}".strip())
        return f"<p><b>{title}</b>, {len(self.columns)} columns</p><table><tr>{head}</tr>{lines}</table>"


def _joined(parts: list[NDArray[np.float32]]) -> NDArray[np.float32]:
    return np.concatenate([np.zeros(0, np.float32), *parts])


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _manifest(folder: Path) -> Manifest | None:
    """Returns the manifest of a pushed version; None for a model that was not pushed, whose manifest only lists files.

    Raises:
        UserError: it has another format.
    """
    file = folder / FILE_NAME
    content = file.read_bytes() if file.is_file() else b"{}"
    return read_manifest(str(file), content) if "version" in json.loads(content) else None
