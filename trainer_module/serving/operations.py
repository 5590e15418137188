"""The operations that a form of the exported model needs, without the Python of their package."""

from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import tensorflow as tf
from typing_extensions import assert_never

_PACKAGE, _LIBRARY = "tensorflow_recommenders_addons", "dynamic_embedding/core/_cuckoo_hashtable_ops.so"


def load_operations(form: Literal["stock", "tfra"]) -> None:
    """Makes TensorFlow know the operations of a form.

    TFRA's package imports Keras and all its own layers, 90 MB and a second; its hash table is one library.
    """
    match form:
        case "stock":
            pass
        case "tfra":
            found = find_spec(_PACKAGE)
            if found is None or found.origin is None:
                raise ModuleNotFoundError(f"{_PACKAGE} is needed by a model of the form tfra")
            tf.load_op_library(str(Path(found.origin).parent / _LIBRARY))
        case _:
            assert_never(form)
