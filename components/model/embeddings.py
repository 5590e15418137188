"""The vectors of a table's ids, and the ids that are nearest to one."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from sangam.components.examples.reading import batches
from sangam.components.server.model import LoadedModel
from sangam.schemas.contracts.export import (
    IDS_REPORT_FILE,
    IS_KNOWN,
    VECTORS,
    Description,
    IdsReport,
    KeptIds,
    embeddings_of,
    ids_file,
)
from sangam.schemas.derived.ids import id_columns
from sangam.schemas.errors import UserError
from sangam.schemas.parts.columns import IdType
from sangam.schemas.problems import listed

SUFFIXES = (".parquet", ".arrow")
_IDS_AT_ONCE = 2**16
_FEW = 5


@dataclass(frozen=True)
class Embeddings:
    """Vectors of the ids of a table that have a row.

    Attributes:
        ids: [n] int64, or objects: str, and bytes where some id is not UTF-8.
        vectors: [n, dim] float32.
        num_rows: rows of the table when it was exported; more than ids, where the logs of some are gone.
    """

    ids: NDArray[Any]
    vectors: NDArray[np.float32]
    num_rows: int

    def __len__(self) -> int:
        return len(self.ids)

    def nearest(self, ids: Sequence[str | int], k: int = 10) -> pd.DataFrame:
        """Returns the `k` other ids with the largest cosine to each of the ids: columns id, nearest, cosine.

        Raises:
            UserError: an id has no vector.
        """
        if k < 1:
            raise UserError(f"k: is not positive (got {k}); for example 10")
        lengths = np.linalg.norm(self.vectors, axis=1, keepdims=True)
        units = np.divide(self.vectors, lengths, out=np.zeros_like(self.vectors), where=lengths > 0)
        found = []
        for wanted in ids:
            place = self._place(wanted)
            cosines = units @ units[place]
            cosines[place] = -np.inf
            order = np.argsort(-cosines, kind="stable")[: min(k, len(self) - 1)]
            found.append(pd.DataFrame({"id": self.ids[place], "nearest": self.ids[order], "cosine": cosines[order]}))
        return pd.concat(found, ignore_index=True) if found else pd.DataFrame(columns=["id", "nearest", "cosine"])

    def to_arrow(self) -> pa.Table:
        """Returns the columns id and vector; a vector is a list of fixed size, as indices of nearest neighbors take."""
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(self.vectors.ravel()), self.vectors.shape[1])
        return pa.table({"id": pa.array(self.ids), "vector": vectors})

    def write(self, file: Path) -> None:
        """Writes `to_arrow` as Parquet or, for another suffix than .parquet, in Arrow's file format.

        Raises:
            UserError: the suffix is another one.
        """
        if file.suffix not in SUFFIXES:
            raise UserError(f"{file}: is no kind of file that vectors are written to; {' or '.join(SUFFIXES)}")
        table = self.to_arrow()
        if file.suffix == ".parquet":
            pq.write_table(table, file)
            return
        with pa.OSFile(str(file), "wb") as opened, pa.ipc.new_file(opened, table.schema) as writer:
            writer.write_table(table)

    def _place(self, wanted: str | int) -> int:
        (places,) = np.nonzero(self.ids.astype(str) == str(wanted))
        if not len(places):
            some = ", ".join(map(str, self.ids[:_FEW].tolist())) or "none"
            raise UserError(f"ids: no vector (got {wanted!r}); {len(self)} ids have one, among them {some}")
        return int(places[0])


def embeddings(model: LoadedModel, folder: Path, described: Description, table: str) -> Embeddings:
    """Returns the vectors of a table's ids.

    Args:
        model: loaded model.
        folder: folder of the model.
        described: description of the model.
        table: name of a table.

    Raises:
        UserError: the model has no such table, or no ids were kept.
    """
    kept = _kept(folder, described, table)
    parts = [batch.column(0).flatten() for batch in batches(str(folder / ids_file(table)))]
    ids = _ids(parts, kept.type)
    signature, vectors, known = model.signature(embeddings_of(table)), [], []
    for start in range(0, max(len(ids), 1), _IDS_AT_ONCE):
        texts = [_text(value) for value in ids[start : start + _IDS_AT_ONCE].tolist()]
        answer = model.run(signature, {"ids": np.array(texts, object)})
        vectors.append(answer[VECTORS])
        known.append(answer[IS_KNOWN])
    # A row may have been removed since the export.
    is_known = np.concatenate(known)
    return Embeddings(ids[is_known], np.concatenate(vectors)[is_known], kept.rows)


def _kept(folder: Path, described: Description, table: str) -> KeptIds:
    ranker = described.ranker
    if table not in ranker.tables:
        raise UserError(f"table: unknown (got '{table}'); the model has {listed(list(ranker.tables))}")
    if table not in id_columns(ranker):
        raise UserError(
            f"table: has no ids of its own (got '{table}', whose rows are of pairs, buckets or times); choose one of "
            f"{listed(list(id_columns(ranker)))}"
        )
    if not ranker.export.ids:
        raise UserError(
            f"table: the model was exported without its ids (got '{table}'); add this line to the spec, and train "
            "again:\nexport: {ids: true}"
        )
    file = folder / IDS_REPORT_FILE
    try:
        return IdsReport.model_validate_json(file.read_bytes()).tables[table]
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"{file}: cannot be read (got {error}); export the model again") from None


def _ids(parts: Sequence[pa.Array], kind: IdType) -> NDArray[Any]:
    if kind == "int":
        return np.concatenate([np.zeros(0, np.int64), *(np.asarray(part) for part in parts)])
    texts = [value for part in parts for value in part.to_pylist()]
    try:
        found: list[Any] = [text.decode() for text in texts]
    except UnicodeDecodeError:
        found = texts
    array = np.empty(len(found), object)
    array[:] = found
    return array


def _text(value: str | bytes | int) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()
