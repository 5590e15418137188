"""The code that transformed examples depend on. Loads without TFX: `sangam validate --base` compares it."""

from components.caching.code_digest import code_digest

PREPROCESSING_FN = "trainer_module.transforms.preprocessing.preprocessing_fn"


def transform_code(preprocessing_fn: str = PREPROCESSING_FN) -> str:
    """Returns the digest of the code of the step, which stands in its statistics."""
    return code_digest("components.steps.transform.executor", preprocessing_fn)
