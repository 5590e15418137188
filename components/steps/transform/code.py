"""The digest of the code that transforms examples. Loads without TFX: `sangam validate --base` compares it."""

from collections.abc import Sequence

from sangam.components.caching.code_digest import code_digest

PREPROCESSING_FN = "sangam.trainer_module.transforms.preprocessing.preprocessing_fn"


def transform_code(preprocessing_fn: str = PREPROCESSING_FN, parts: Sequence[str] = ()) -> str:
    """Returns the digest of the step's code, which its statistics contain."""
    return code_digest("sangam.components.steps.transform.executor", preprocessing_fn, parts=parts)
