"""Loads exported models, each once per process, for the check of a few examples and Beam's workers."""

import ctypes
import gc
import importlib
import os
import threading
from typing import Any

import tensorflow as tf
from tfx.dsl.io import fileio

from sangam.schemas.contracts.calibration import Calibration
from sangam.schemas.contracts.export import DESCRIPTION_FILE, Description, read_description
from sangam.schemas.errors import UserError
from sangam.schemas.host.wildcards import without_wildcards

_LOCK = threading.Lock()
_LOADED: dict[str, Any] = {}


def load(path: str) -> Any:
    """Returns a SavedModel, which stays in memory until `release_all`."""
    with _LOCK:
        if path not in _LOADED:
            load_custom_ops(path)
            with without_wildcards(path) as literal:
                _LOADED[path] = tf.saved_model.load(literal)
        return _LOADED[path]


def release_all() -> None:
    """Frees the memory of all loaded models."""
    with _LOCK:
        for model in _LOADED.values():
            if hasattr(model, "release"):
                # Hash tables outlive their model. Models without tables lack this function.
                model.release()
        _LOADED.clear()
    # A model and its functions form reference cycles.
    gc.collect()
    # Otherwise glibc would keep the memory: 1.7 GB after a model of 2,000 features.
    ctypes.CDLL("libc.so.6").malloc_trim(0)


def load_custom_ops(path: str) -> None:
    """Imports the package of custom operations that a SavedModel needs, if any: TensorFlow cannot load it otherwise.

    Raises:
        ValueError: for a package that no export of Sangam needs.
    """
    try:
        described = _description(path)
    except UserError as error:
        raise ValueError(str(error)) from error
    if described and described.custom_ops:
        importlib.import_module(described.custom_ops)


def calibrations_of(path: str) -> dict[str, Calibration]:
    """Returns an exported model's calibrations by task; empty for a model without a description.

    Raises:
        UserError: its description is damaged, or of another format.
    """
    described = _description(path)
    tasks = described.tasks if described else {}
    return {name: task.calibration for name, task in tasks.items() if task.calibration is not None}


def columns_of(path: str) -> frozenset[str]:
    """Returns the columns that an exported model reads; empty for a model without a description.

    Raises:
        UserError: its description is damaged, or of another format.
    """
    described = _description(path)
    return frozenset(described.columns) if described else frozenset()


def _description(path: str) -> Description | None:
    file = os.path.join(path, DESCRIPTION_FILE)
    if not fileio.exists(file):
        return None
    with fileio.open(file, "rb") as opened:
        return read_description(file, opened.read())
