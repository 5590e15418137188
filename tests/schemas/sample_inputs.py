"""A small declaration with one feature and task of every kind."""

import json

from sangam.schemas.spec import Inputs

EVERY_KIND = Inputs.model_validate_json(
    json.dumps(
        {
            "features": {
                "price": {"kind": "numeric", "normalize": "zscore"},
                "position": {"kind": "numeric", "normalize": "zscore", "type": "int", "at_serving": 1},
                "price_bucket": {"kind": "buckets", "column": "price", "num_buckets": 10},
                "page": {"kind": "buckets", "num_buckets": 4, "table": "pages", "missing_row": True, "at_serving": 1},
                "user": {"kind": "id", "type": "string", "table": "users", "missing_row": True},
                "place": {"kind": "id", "type": "int", "table": "places", "at_serving": 0},
                "user_item": {"kind": "cross", "columns": {"user": "string", "item": "int"}, "table": "pairs"},
                "tags": {
                    "kind": "ids",
                    "type": "string",
                    "table": "tags",
                    "combiner": "mean",
                    "weights": "tag_weights",
                },
                "recent": {"kind": "sequence", "type": "int", "table": "items", "max_length": 3},
                "image": {"kind": "vector", "dim": 4},
                "hour": {"kind": "time", "column": "time", "part": "hour"},
                "weekday": {"kind": "time", "column": "seen", "part": "weekday", "table": "days", "missing_row": True},
                "age": {"kind": "age", "since": "posted", "at": "time", "missing": 0},
                "bought_before": {"kind": "match", "column": "item", "among": "recent", "type": "int"},
            },
            "tasks": {
                "click": {"kind": "binary"},
                "buy": {"kind": "binary", "only_where": "click", "example_weight": "price_paid"},
                "rating": {"kind": "regression", "missing_label": "mask"},
                "watch": {"kind": "watch_time", "label": "seconds"},
            },
            "event_time": "time",
        }
    )
)
