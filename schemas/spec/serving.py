"""Export of the model, and bounds on its server before the push."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from sangam.schemas.errors import UserError
from sangam.schemas.parts.base import ColumnName, FrozenModel, PositiveFloat, PositiveInt
from sangam.schemas.quantities import parse_bytes


def _is_size(text: str) -> str:
    try:
        parse_bytes("size", text)
    except UserError:
        raise ValueError("write a number and its unit, for example 2GB or 2GiB") from None
    return text


Size = Annotated[str, AfterValidator(_is_size)]


class Export(FrozenModel):
    """Form of the SavedModel. A change trains again, because the export is the last part of training."""

    form: Literal["stock", "tfra"] = "stock"
    """Operations of the SavedModel. `stock`: TensorFlow's own, so that any server loads it. `tfra`: hash tables of
    TensorFlow Recommenders Addons, which the server then needs."""
    rows: Literal["float32", "float16", "int8"] = "float32"
    """Type of the stored embeddings; `int8` has one scale per row."""
    max_auc_loss: Annotated[float, Field(ge=0, le=1)] = 0.001
    """Largest loss of a task's AUC on the evaluation split by float16 or int8; for a regression task, the largest
    relative increase of the RMSE."""
    ids: bool = False
    """Whether the ids of the rows are kept beside the model, and it gives the vectors of ids: for `sangam embeddings`
    and `Model.embeddings`. Rows themselves lie under hashes of their ids."""


class Load(FrozenModel):
    """Requests that measure latency."""

    candidates: PositiveInt = 200
    """Candidates in a request, all of one user."""
    clients: Annotated[int, Field(gt=0, le=64)] = 1
    """Number of connections; each sends one request after the other."""
    seconds: PositiveFloat = 3.0
    """Duration of the load, in seconds."""


class RequestLog(FrozenModel):
    """Log of a share of the requests and their scores, by servers with `--log`; docs/serving.md#request-log."""

    share: Annotated[float, Field(gt=0, le=1)]
    """Share of the requests that are logged. A hash of the request id decides: all servers choose the same."""
    candidates: Literal["all"] | PositiveInt = "all"
    """Most candidates of a request that are logged, chosen by a hash of the request id and their places."""
    redact: dict[ColumnName, Literal["hash", "drop"]] = Field(default_factory=dict)
    """Columns that are not logged as they are. `hash`: a keyed hash in place of each value; `drop`: no values."""
    file_size: Size = "64MB"
    """Size of the requests of a file, uncompressed, at which it is sealed."""
    file_every_s: PositiveFloat = 300.0
    """Seconds after which a file is sealed in any case."""
    keep_days: Annotated[int, Field(gt=0, le=3660)] = 30
    """Days that files stay."""
    max_size: Size = "20GB"
    """Largest total size of the folder: beyond it the oldest files are removed, and counted."""

    @property
    def file_bytes(self) -> int:
        """The size at which a file is sealed, in bytes."""
        return parse_bytes("serving.log.file_size", self.file_size)

    @property
    def max_bytes(self) -> int:
        """The largest total size in bytes."""
        return parse_bytes("serving.log.max_size", self.max_size)


class InShadow(FrozenModel):
    """What a version scores beside the served one, without answering; docs/serving.md#a-version-in-the-shadow."""

    share: Annotated[float, Field(gt=0, le=1)]
    """Share of the requests that it scores, at most that of `log`, which has its scores. A hash of the request id
    decides: all servers choose the same, and only requests that are logged."""


class Serving(FrozenModel):
    """Bounds on the exported model, measured on a server in its own process, and what of its requests is logged."""

    max_model_size: Size | None = None
    """Largest total size of the model's files, for example 2GB. Left out: no bound."""
    max_p99_ms: PositiveFloat | None = None
    """Largest 99th percentile of the request time under the load, in milliseconds, at the client. Left out: no
    bound."""
    load: Load = Load()
    """Load under which latency is measured."""
    timeout_s: PositiveInt = 300
    """Time limit until the server is ready, and again for all checks, in seconds."""
    log: RequestLog | None = None
    """Log of requests; its settings are pushed with the model. Left out: none."""
    shadow: InShadow | None = None
    """What the model scores while it is in the shadow of the served one; pushed with it. Left out: nothing."""

    @property
    def max_model_bytes(self) -> int | None:
        """The largest size in bytes."""
        return None if self.max_model_size is None else parse_bytes("serving.max_model_size", self.max_model_size)
