"""Compiles the specs of this repository, changed or not, for tests."""

from pathlib import Path
from typing import Any

import yaml

from sangam.pipelines.kubeflow.target import Target
from sangam.schemas.loading import load_spec
from tests.paths import SPECS

IMAGE, TRAINER_IMAGE = "registry.example/sangam:1", "registry.example/sangam-trainer:1"
TARGET = Target(IMAGE, TRAINER_IMAGE, pipeline_root="/sangam/root", data_root="/sangam/data", date="2024-03-07")

HOOK = {
    "SANGAM_ALERT_URL": {"secret": "sangam-alerts", "key": "url"},
    "SANGAM_ALERT_KEY": {"secret": "sangam-alerts", "key": "key"},
}
"""Variables of alerts."""


def changed_spec(folder: Path, name: str, changes: dict[str, Any]) -> Any:
    """Returns a spec with top-level keys replaced; within `cluster`, keys are added to what is there."""
    document = yaml.safe_load((SPECS / f"{name}.yaml").read_text())
    for key, value in changes.items():
        merged = {**document.get(key, {}), **value} if key == "cluster" else value
        document[key] = {name: part for name, part in merged.items() if part is not None} if key == "cluster" else value
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return load_spec(path)
