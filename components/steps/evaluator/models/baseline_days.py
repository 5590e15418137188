"""The days that a model is judged on: a model that has learned from them is no baseline."""

import json
from typing import Any

from schemas.spec.data import EVAL


def evaluation_days(examples: Any) -> list[str]:
    """Returns the days of an Examples artifact's evaluation split, none for logs without days."""
    days = examples.get_string_custom_property("days")
    return list(json.loads(days).get(EVAL, [])) if days else []
