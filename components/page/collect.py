"""Reads the data of a run's charts, where it exists."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from sangam.components.page.facts import DayFacts, Facts
from sangam.components.page.features import features
from sangam.components.reports import importance
from sangam.components.reports.curves import METRICS_FILE, Curve, curves_of
from sangam.components.reports.drift import FILE_NAME, read_distances
from sangam.components.reports.importance import read_importances
from sangam.schemas.contracts.example_files import LISTING_FILE, digest_of
from sangam.schemas.contracts.training_job import REPORT_FILE

Outputs = Mapping[str, Path]
"""Folder of each output by its name: examples, statistics, anomalies, training, evaluation."""
_Read = TypeVar("_Read")


def collect(outputs: Outputs) -> Facts:
    """Returns the facts of a run, from the outputs that its steps have written."""
    at = outputs.get
    training = at("training")
    return Facts(
        days=_read(at("examples"), LISTING_FILE, _days) or [],
        features=features(at("statistics")),
        drift=read_distances(anomalies / FILE_NAME) if (anomalies := at("anomalies")) else [],
        training=_read(training, REPORT_FILE, json.loads),
        losses=np.load(training / "losses.npy") if training and (training / "losses.npy").exists() else None,
        curves=_curves(at("evaluation")),
        importances=read_importances(evaluation / importance.FILE_NAME) if (evaluation := at("evaluation")) else [],
    )


def _read(folder: Path | None, name: str, parse: Callable[[str], _Read]) -> _Read | None:
    if folder is None or not (folder / name).is_file():
        return None
    return parse((folder / name).read_text(encoding="utf-8"))


def _days(text: str) -> list[DayFacts]:
    splits: Mapping[str, list[dict[str, Any]]] = json.loads(text)["splits"]
    return sorted(
        DayFacts(part["day"] or "", split, part["rows"], digest_of(part["folder"]))
        for split, parts in splits.items()
        for part in parts
    )


def _curves(folder: Path | None) -> dict[str, Curve]:
    path = None if folder is None else folder / METRICS_FILE
    return curves_of(path, str(path)) if path is not None and path.is_file() else {}
