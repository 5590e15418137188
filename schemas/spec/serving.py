"""How a model is exported, and what it must hold as a server before it is pushed."""

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
    """The form of the SavedModel. Changing it trains again: the export is the last part of training."""

    form: Literal["stock", "tfra"] = "stock"
    """`stock`: TensorFlow's own operations only, so that everything loads it. `tfra`: hash tables of TensorFlow
    Recommenders Addons, which a server needs."""
    rows: Literal["float32", "float16", "int8"] = "float32"
    """How embeddings are stored; `int8` with one scale a row."""
    max_auc_loss: Annotated[float, Field(ge=0, le=1)] = 0.001
    """With float16 or int8: what a task's AUC may lose by it on the evaluation split; of a regression task the RMSE may
    rise by this share."""


class Load(FrozenModel):
    """Requests by which latency is measured."""

    candidates: PositiveInt = 200
    """Rows of a request: one user, so many candidates."""
    clients: Annotated[int, Field(gt=0, le=64)] = 1
    """Connections, each sending one request after the other."""
    seconds: PositiveFloat = 3.0


class Serving(FrozenModel):
    """What the exported model must hold, loaded by a server in a process of its own."""

    max_model_size: Size | None = None
    """Of all files together."""
    max_p99_ms: PositiveFloat | None = None
    """99th percentile of a request's time under the load, at the client."""
    load: Load = Load()
    timeout_s: PositiveInt = 300
    """For the server to be ready; and again for all checks."""

    @property
    def max_model_bytes(self) -> int | None:
        """The size in bytes."""
        return None if self.max_model_size is None else parse_bytes("serving.max_model_size", self.max_model_size)
