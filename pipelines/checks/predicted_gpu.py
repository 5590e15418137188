"""The rate of a rank with a GPU, from results of infra/gpu on such a machine."""

from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ValidationError

from sangam.pipelines.checks.planned_gpu import PlannedGpu
from sangam.schemas.derived.gpu_rate import Dense, Rate, Training, predicted
from sangam.schemas.errors import UserError
from sangam.schemas.spec import Spec

OPTION = "--gpu-results"
_PLACES: tuple[Literal["host", "device"], ...] = ("host", "device")
_Document = TypeVar("_Document", bound=BaseModel)


def predicted_rates(spec: Spec, folder: Path | None) -> dict[str, Rate]:
    """Returns the rate of a rank by the place of all rows, without places that were not measured.

    Raises:
        UserError: the folder lacks results, or they are of no GPU.
    """
    if folder is None:
        return {}
    training, dense = _read(folder / "training.json", Training), _read(folder / "dense.json", Dense)
    if training.accelerator.startswith("none"):
        raise UserError(
            f"{OPTION}: results of a machine without a GPU (got accelerator '{training.accelerator}' in {folder}); run "
            "infra/gpu/run.sh on a machine with one"
        )
    found = {place: predicted(spec, training, dense, place=place) for place in _PLACES}
    return {place: rate for place, rate in found.items() if rate is not None}


def told(rates: dict[str, Rate]) -> list[str]:
    """Returns what the plan prints of the rates."""
    return [
        f"a GPU rank, predicted, rows on the {place}: {rate.samples_per_s:,.0f} samples/s in {rate.precision} "
        f"(a step: dense layers {rate.dense_s * 1e3:.2f} ms, the rest {rate.rest_s * 1e3:.2f} ms)"
        for place, rate in rates.items()
    ]


def of_gpus(gpu: PlannedGpu | None, rates: dict[str, Rate]) -> dict[str, Any]:
    """Returns memory and rates as JSON, for programs."""
    return {
        "gpu": None if gpu is None else gpu.document(),
        "gpu_rates": {place: vars(rate) for place, rate in rates.items()},
    }


def _read(file: Path, kind: type[_Document]) -> _Document:
    try:
        return kind.model_validate_json(file.read_bytes())
    except OSError as error:
        raise UserError(f"{OPTION}: cannot read {file} (got: {error.strerror}); give the folder of run.sh") from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the document"
        raise UserError(f"{OPTION}: {file}: {place}: {first['msg']}; give the folder of run.sh") from error
