"""The distances between the splits that the data gate has measured; loads without TensorFlow and TFX."""

import json
from pathlib import Path
from typing import Any

FILE_NAME = "drift.json"


def read_distances(file: Path) -> list[dict[str, Any]]:
    """Returns every distance that the spec bounds, with the fields of the gate's `Distance`; none without the file."""
    return json.loads(file.read_bytes()) if file.is_file() else []


def beyond_bounds(file: Path) -> list[str]:
    """Returns a sentence for every distance beyond its bound."""
    return [f"drift: {distance['reason']}" for distance in read_distances(file) if not distance["is_within"]]
