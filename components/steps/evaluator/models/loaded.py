"""Loads exported models, each once per process: the check of a few examples and Beam's workers use the same."""

import ctypes
import gc
import importlib
import os
import threading
from typing import Any

import tensorflow as tf
from tfx.dsl.io import fileio

from schemas.contracts.export import DESCRIPTION_FILE, read_header
from schemas.errors import UserError

_LOCK = threading.Lock()
_LOADED: dict[str, Any] = {}


def load(path: str) -> Any:
    """Returns a SavedModel, which stays in memory until `release_all`."""
    with _LOCK:
        if path not in _LOADED:
            load_custom_ops(path)
            _LOADED[path] = tf.saved_model.load(path)
        return _LOADED[path]


def release_all() -> None:
    """Frees the memory of all loaded models."""
    with _LOCK:
        for model in _LOADED.values():
            if hasattr(model, "release"):
                # Hash tables outlive the model that made them. Models without tables lack this function.
                model.release()
        _LOADED.clear()
    # A model and its functions refer to each other.
    gc.collect()
    # What a model of 2,000 features frees, 1.7 GB, glibc would keep for this process.
    ctypes.CDLL("libc.so.6").malloc_trim(0)


def load_custom_ops(path: str) -> None:
    """Imports the package of custom operations that a SavedModel needs, if any: TensorFlow cannot load it otherwise.

    Raises:
        ValueError: for a package that no export of Sangam needs.
    """
    description = os.path.join(path, DESCRIPTION_FILE)
    if not fileio.exists(description):
        return
    with fileio.open(description, "rb") as file:
        content = file.read()
    try:
        header = read_header(description, content)
    except UserError as error:
        raise ValueError(str(error)) from error
    if header.custom_ops:
        importlib.import_module(header.custom_ops)
