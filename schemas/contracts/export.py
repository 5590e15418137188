"""The parts of an exported model beside its graph: names of signatures and files, and `ranker.json`."""

import json
from typing import Annotated, Literal

from pydantic import Field

from sangam.schemas.contracts.calibration import Calibration
from sangam.schemas.contracts.formats import refuse_other_format
from sangam.schemas.errors import UserError
from sangam.schemas.parts.base import FrozenModel
from sangam.schemas.parts.columns import ColumnType, IdType
from sangam.schemas.spec import RankerSpec

SERVE = "serving_default"
"""Serialized tf.Examples in, a prediction of every task out."""
RANK = "rank"
"""Columns of the candidates of one request in, a prediction of every task out."""
RANK_SEVERAL = "rank_several"
"""The same for candidates of several requests, whose numbers are the input `REQUEST_NUMBER`: what a server calls."""
BLOCKS = "score_blocks"
"""Blocks of rows in, see `example_files`, decompressed; a prediction of every task out, and `known_ids_of` each feature
of kind id: whether the id of each row has a row in its table. It is the fastest for many rows."""
TABLE_SIZE = "table_size"
UPSERT, REMOVE = "upsert", "remove"
REPLACE_DENSE = "replace_dense"
"""All dense weights as one vector in."""
EMBEDDINGS = "embeddings"
"""Ids of one table as texts in; `VECTORS`, and whether each id has a row, `IS_KNOWN`, out. There is one per table, with
`export.ids`."""
VECTORS, IS_KNOWN = "vectors", "is_known"

_KNOWN_IDS = "known_ids/"
_OWN_FILE = r"^variables/variables\.data-\d{5}-of-\d{5}$"

MODEL_FILE = "saved_model.pb"
"""The file written last: a folder with it is a whole model."""
EXTRAS_FOLDER = "assets.extra"
DESCRIPTION_FILE = f"{EXTRAS_FOLDER}/ranker.json"
WARM_UP_FILE = f"{EXTRAS_FOLDER}/tf_serving_warmup_requests"
IDS_FOLDER = f"{EXTRAS_FOLDER}/ids"
"""The ids of each table's rows, with `export.ids`: blocks of one column, see `example_files`."""
ID_COLUMN = "id"
IDS_REPORT_FILE = f"{IDS_FOLDER}/ids.json"
CUSTOM_OPS = "tensorflow_recommenders_addons"
"""The one package of operations that a model may need beside TensorFlow's."""

CHECK_EXAMPLES_FILE = "check_examples.tfrecord"
"""A few raw examples of the evaluation split, beside the report of training."""
CHECK_SCORES_FILE = "check_scores.npz"
"""The ranks' own scores of them."""
SERVED_SCORES_FILE = "served_scores.npz"
"""The exported model's."""

FORMAT: Literal[1] = 1
"""Format of `ranker.json`."""

Form = Literal["stock", "tfra"]
StoredRows = Literal["float32", "float16", "int8"]


def of_group(signature: str, group: str, num_groups: int) -> str:
    """Returns the name of `upsert` or `remove` for the rows of a group: there is one of each per group."""
    return signature if num_groups == 1 else f"{signature}_{group}"


def embeddings_of(table: str) -> str:
    """Returns the name of the signature that gives a table's vectors."""
    return f"{EMBEDDINGS}_{table}"


def known_ids_of(feature: str) -> str:
    """Returns the output of `BLOCKS` that says whether the ids of a feature have rows."""
    return f"{_KNOWN_IDS}{feature}"


def feature_of_known_ids(output: str) -> str | None:
    """Returns the feature whose ids an output of `BLOCKS` is about; None for the prediction of a task."""
    return output.removeprefix(_KNOWN_IDS) if output.startswith(_KNOWN_IDS) else None


def ids_file(table: str) -> str:
    """Returns the file with the ids of a table's rows."""
    return f"{IDS_FOLDER}/{table}.blocks"


def changes_model(signature: str) -> bool:
    """Says whether a signature changes the model."""
    of_rows = any(signature == name or signature.startswith(f"{name}_") for name in (UPSERT, REMOVE))
    return of_rows or signature == REPLACE_DENSE


class ServedTask(FrozenModel):
    """A task that the model predicts.

    Attributes:
        kind: kind in the spec.
        label: column of the logs that it learned from.
        calibration: calibration of its predictions; None: uncalibrated.
    """

    kind: str
    label: str
    calibration: Calibration | None = None


class ServedColumn(FrozenModel):
    """A column that the model reads.

    Attributes:
        type: type of a value.
        is_list: whether it has any number of values.
        input: name among the inputs of `rank`.
    """

    type: ColumnType
    is_list: bool
    input: str


class ServedGroup(FrozenModel):
    """Tables that share their rows' storage.

    Attributes:
        dim: floats of a row.
        tables: tags of their keys, by table.
    """

    dim: int
    tables: dict[str, int]


class Description(FrozenModel):
    """The description of an exported model, `ranker.json`.

    Attributes:
        format: format of the file.
        name: name of the ranker.
        spec_digest: digest of `ranker`.
        ranker: the ranker's part of the spec.
        tasks: tasks by name.
        signatures: names of the signatures.
        form: form of the export.
        rows: type of the stored rows.
        versions: versions of the packages that exported the model.
        columns: columns that it reads, by name.
        groups: groups of tables by name.
        custom_ops: package of operations that it needs; None: TensorFlow's own do.
        history_as_of: YYYY-MM-DD: features of kind rate and count know the days before it; None: there are none.
        own_files: files whose bytes are one large variable each, by the variable's key among the model's.
    """

    format: Literal[1] = FORMAT
    name: str
    spec_digest: str
    ranker: RankerSpec
    tasks: dict[str, ServedTask]
    signatures: tuple[str, ...]
    form: Form
    rows: StoredRows
    versions: dict[str, str]
    columns: dict[str, ServedColumn]
    groups: dict[str, ServedGroup]
    custom_ops: str | None = None
    history_as_of: str | None = None
    own_files: dict[str, Annotated[str, Field(pattern=_OWN_FILE)]] = Field(default_factory=dict)

    def text(self) -> str:
        """Returns the file's contents."""
        return self.model_dump_json(indent=2) + "\n"


def read_description(file: str, content: bytes) -> Description:
    """Reads `ranker.json`.

    Args:
        file: name of the file in errors.
        content: content of the file.

    Raises:
        UserError: it has another format, needs unknown operations, or is damaged.
    """
    remedy = "another version has written it: train and export the model again with this one"
    try:
        refuse_other_format(file, json.loads(content), FORMAT, remedy)
        described = Description.model_validate_json(content)
    except ValueError as error:  # Also pydantic's.
        raise UserError(f"{file}: cannot be read (got {error}); train and export the model again") from error
    # The name of a module in a model's files must not decide an import.
    if described.custom_ops not in (None, CUSTOM_OPS):
        raise UserError(
            f"{file}: needs unknown operations (got {described.custom_ops!r}); known is {CUSTOM_OPS}: use a model "
            "that this pipeline exported"
        )
    return described


class TaskLoss(FrozenModel):
    """A task's metric with full rows and with reduced ones; None where undefined.

    Attributes:
        metric: auc of a binary task, rmse of a regression.
        full: value with full rows on the evaluation split.
        reduced: value with the exported rows.
        loss: fall of the AUC; relative rise of the RMSE.
    """

    metric: Literal["auc", "rmse"]
    full: float | None
    reduced: float | None
    loss: float | None


class KeptIds(FrozenModel):
    """The ids kept of a table.

    Attributes:
        type: type of an id.
        ids: number of ids.
        rows: number of rows; more than ids where the logs that held an id are gone, or a row is of missing values.
        bytes: size of the file.
    """

    type: IdType
    ids: int
    rows: int
    bytes: int


class IdsReport(FrozenModel):
    """The ids kept of all tables, and the seconds that this took."""

    tables: dict[str, KeptIds]
    seconds: float


class ExportReport(FrozenModel):
    """`export.json`, beside the report of training: how the export went.

    Attributes:
        form: declared form.
        rows: declared type of rows.
        model_bytes: size of the model.
        tasks: cost of reduced rows by task; empty for full rows.
        seconds: duration of the export.
        ids: ids kept beside the model; None without `export.ids`.
    """

    form: Form
    rows: StoredRows
    model_bytes: int
    tasks: dict[str, TaskLoss]
    seconds: float
    ids: IdsReport | None = None
