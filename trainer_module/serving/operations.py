"""The operations that a form of the exported model needs, without the Python of their package."""

from importlib.util import find_spec
from pathlib import Path
from typing import Literal, assert_never

import tensorflow as tf

from sangam.schemas.contracts.export import CUSTOM_OPS

_LIBRARY = "dynamic_embedding/core/_cuckoo_hashtable_ops.so"


def load_operations(form: Literal["stock", "tfra"]) -> None:
    """Loads the operations of a form into TensorFlow.

    Importing TFRA's package would load Keras and all its layers, 90 MB and a second; its hash table is one library.
    """
    match form:
        case "stock":
            pass
        case "tfra":
            package = find_spec(CUSTOM_OPS)
            if package is None or package.origin is None:
                raise ModuleNotFoundError(f"{CUSTOM_OPS} is not installed; a model of the form tfra needs it")
            tf.load_op_library(str(Path(package.origin).parent / _LIBRARY))
        case _:
            assert_never(form)
