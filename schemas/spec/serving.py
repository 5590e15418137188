"""Export of the model, and bounds on its server before the push."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from sangam.schemas.errors import UserError
from sangam.schemas.parts.base import FrozenModel, PositiveFloat, PositiveInt
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


class Serving(FrozenModel):
    """Bounds on the exported model, measured on a server in its own process."""

    max_model_size: Size | None = None
    """Largest total size of the model's files, for example 2GB. Left out: no bound."""
    max_p99_ms: PositiveFloat | None = None
    """Largest 99th percentile of the request time under the load, in milliseconds, at the client. Left out: no
    bound."""
    load: Load = Load()
    """Load under which latency is measured."""
    timeout_s: PositiveInt = 300
    """Time limit until the server is ready, and again for all checks, in seconds."""

    @property
    def max_model_bytes(self) -> int | None:
        """The largest size in bytes."""
        return None if self.max_model_size is None else parse_bytes("serving.max_model_size", self.max_model_size)
