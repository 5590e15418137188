"""How a model is exported, and what it must fulfill as a server before it is pushed."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from schemas.errors import UserError
from schemas.quantities import parse_bytes
from schemas.spec.base import FrozenModel, PositiveFloat, PositiveInt


def _is_size(text: str) -> str:
    try:
        parse_bytes("size", text)
    except UserError:
        raise ValueError("write a number and its unit, for example 2GB or 2GiB") from None
    return text


Size = Annotated[str, AfterValidator(_is_size)]


class Export(FrozenModel):
    """The form of the SavedModel. Changing it trains again, because the export is the last part of training."""

    form: Literal["stock", "tfra"] = "stock"
    """`stock`: only TensorFlow's own operations, so that any server loads it. `tfra`: hash tables of TensorFlow
    Recommenders Addons, which the server then needs."""
    rows: Literal["float32", "float16", "int8"] = "float32"
    """Type of the stored embeddings; `int8` has one scale per row."""
    max_auc_loss: Annotated[float, Field(ge=0, le=1)] = 0.001
    """With float16 or int8: largest loss of a task's AUC on the evaluation split; for a regression task, the largest
    relative increase of the RMSE."""


class Load(FrozenModel):
    """Requests for measuring latency."""

    candidates: PositiveInt = 200
    """Candidates of the one user of a request."""
    clients: Annotated[int, Field(gt=0, le=64)] = 1
    """Connections, each sending one request after the other."""
    seconds: PositiveFloat = 3.0


class Serving(FrozenModel):
    """Bounds for the exported model, loaded by a server in a process of its own."""

    max_model_size: Size | None = None
    """Total size of all files."""
    max_p99_ms: PositiveFloat | None = None
    """99th percentile of the request time under the load, measured at the client."""
    load: Load = Load()
    timeout_s: PositiveInt = 300
    """For the server to become ready, and again for all checks."""

    @property
    def max_model_bytes(self) -> int | None:
        """The size in bytes."""
        return None if self.max_model_size is None else parse_bytes("serving.max_model_size", self.max_model_size)
