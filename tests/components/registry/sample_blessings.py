"""Records of blessings without what a test does not ask for."""

import datetime
from typing import Any

from sangam.components.registry.record import BlessedModel


def blessing(model_uri: str, **fields: Any) -> BlessedModel:
    """Returns the record of a model, its other fields empty except those given."""
    record: dict[str, Any] = {
        "ranker_digest": "d",
        "blessed_at": datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC),
        "metrics": {},
        "checkpoint_uri": "",
        "days": (),
        "transform_graph_uri": "",
        "inputs_digest": "",
        "model_sha256": "",
        "checkpoint_sha256": "",
        "transform_graph_sha256": "",
    }
    return BlessedModel(model_uri=model_uri, **record | fields)
