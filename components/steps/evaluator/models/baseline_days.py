"""The days that a model is evaluated on: no model that was trained on them can be the baseline."""

import json
from typing import Any

from sangam.schemas.spec.data import EVAL


def evaluation_days(examples: Any) -> list[str]:
    """Returns the days of an Examples artifact's evaluation split, empty for logs without days."""
    days = examples.get_string_custom_property("days")
    return list(json.loads(days).get(EVAL, [])) if days else []
