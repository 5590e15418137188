"""Marks a model as blessed or not, in the form of TFX's evaluator, which decides only by thresholds.

https://github.com/tensorflow/tfx/blob/v1.16.0/tfx/components/evaluator/executor.py
"""

import os
from typing import Any

from tfx.components.evaluator import constants
from tfx.dsl.io import fileio

MARKS = {True: constants.BLESSED_FILE_NAME, False: constants.NOT_BLESSED_FILE_NAME}


def mark(blessing: Any, *, model: Any, baseline_uri: str | None, is_blessed: bool) -> None:
    """Writes the file and the properties that `tfx.components.util.model_utils.is_model_blessed` and people look for.

    Args:
        blessing: artifact of type ModelBlessing.
        model: artifact of the candidate.
        baseline_uri: address of the baseline; None without one.
        is_blessed: whether the model is blessed.
    """
    fileio.makedirs(blessing.uri)
    with fileio.open(os.path.join(blessing.uri, MARKS[is_blessed]), "w") as file:
        file.write("")
    blessing.set_string_custom_property(constants.ARTIFACT_PROPERTY_CURRENT_MODEL_URI_KEY, model.uri)
    blessing.set_int_custom_property(constants.ARTIFACT_PROPERTY_CURRENT_MODEL_ID_KEY, model.id)
    if baseline_uri:
        blessing.set_string_custom_property(constants.ARTIFACT_PROPERTY_BASELINE_MODEL_URI_KEY, baseline_uri)
    value = constants.BLESSED_VALUE if is_blessed else constants.NOT_BLESSED_VALUE
    blessing.set_int_custom_property(constants.ARTIFACT_PROPERTY_BLESSED_KEY, value)
