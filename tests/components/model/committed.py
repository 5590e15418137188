"""The committed exported model, the rows that it was scored on, and its scores of them."""

import base64
import json
from pathlib import Path
from typing import Any

import pandas as pd

from tests.trainer_module.committed_formats import EXPECTED_SCORES, EXPORT_FOLDER, MODEL

FOLDER: Path = EXPORT_FOLDER / MODEL
EXPECTED: dict[str, Any] = json.loads((EXPORT_FOLDER / EXPECTED_SCORES).read_bytes())
LIKE: list[float] = EXPECTED["scores"]["like"]
WITHIN = 1e-6
"""Largest difference of scores: products of matrices of several rows add in another order."""


def frame() -> pd.DataFrame:
    """Returns the rows: texts, lists of texts, and floats of which some are missing."""
    import tensorflow as tf

    rows = []
    for encoded in EXPECTED["examples"]:
        features = tf.train.Example.FromString(base64.b64decode(encoded)).features.feature
        age = features["age"].float_list.value
        rows.append(
            {
                "user": features["user"].bytes_list.value[0].decode(),
                "tags": [tag.decode() for tag in features["tags"].bytes_list.value],
                "age": age[0] if age else None,
            }
        )
    return pd.DataFrame(rows)
