"""Specs that have, between them, a member of every union of the schema; their logs, and one step of their training."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import numpy as np
import tensorflow as tf

from sangam.schemas.contracts.history import FOLDER
from sangam.schemas.contracts.statistics import FILE_NAME
from sangam.schemas.contracts.training_job import TrainJob
from sangam.schemas.derived.columns import columns, history_of
from sangam.schemas.derived.history import history_features, history_groups
from sangam.schemas.derived.outputs import outputs
from sangam.schemas.loading.documents import check_document
from sangam.schemas.parts.base import FrozenModel
from sangam.schemas.parts.columns import Column
from sangam.schemas.parts.kinds import Part
from sangam.schemas.spec import Inputs, RankerSpec, Spec, digest
from tests.beam_args import BEAM_ARGS
from tests.registered_kinds import ours

NUM_EXAMPLES = 96
HISTORY_AS_OF = "2024-03-09"

_RATE = {"learning_rate": 0.05}
_TABLES: dict[str, Any] = {
    "users": {"optimizer": {"kind": "sgd", **_RATE}, "admission": {"kind": "random", "probability": 0.9}},
    "items": {"optimizer": {"kind": "adagrad", **_RATE}, "admission": {"kind": "count", "at_least": 2}},
    "pairs": {"optimizer": {"kind": "rowwise_adagrad", **_RATE}, "default_value": 0.5},
    "tags": {"optimizer": {"kind": "ftrl", **_RATE}, "l2": 0.01},
    "places": {"dropout": 0.2, "weight_decay": 0.01},
    "pages": {},
    "days": {},
    "hours": {},
    "actions": {},
}
_SEQUENCE = {"kind": "sequence", "type": "int", "table": "items", "column": "recent"}
_ACTIONS = {"recent_actions": {"kind": "id", "type": "string", "table": "actions"}}
_FEATURES: dict[str, Any] = {
    "price": {"kind": "numeric", "normalize": "zscore", "clip": [0, 50], "log": True, "missing": 1},
    "position": {"kind": "numeric", "normalize": "zscore", "type": "int", "at_serving": 1},
    "price_or_none": {"kind": "numeric", "normalize": "zscore", "column": "price", "missing": "learned"},
    "price_in_bins": {
        "kind": "numeric",
        "column": "price",
        "missing": "learned",
        "encoding": {"kind": "piecewise_linear", "bins": 4, "dim": 3, "tail": "linear"},
    },
    "position_in_bins": {
        "kind": "numeric",
        "column": "position",
        "type": "int",
        "missing": "learned",
        "at_serving": 1,
        "encoding": {"kind": "piecewise_linear", "bins": 4, "dim": 3},
    },
    "price_in_waves": {
        "kind": "numeric",
        "normalize": "zscore",
        "column": "price",
        "missing": "learned",
        "encoding": {"kind": "periodic", "frequencies": 2, "dim": 3},
    },
    "price_bucket": {"kind": "buckets", "column": "price", "num_buckets": 5},
    "page": {"kind": "buckets", "num_buckets": 4, "table": "pages", "missing_row": True, "at_serving": 1},
    "user": {"kind": "id", "type": "string", "table": "users", "missing_row": True},
    "item": {"kind": "id", "type": "int", "table": "items"},
    "place": {"kind": "id", "type": "int", "table": "places", "at_serving": 0},
    "user_item": {"kind": "cross", "columns": {"user": "string", "item": "int"}, "table": "pairs", "missing_row": True},
    "tags": {"kind": "ids", "type": "string", "table": "tags", "combiner": "mean", "weights": "tag_weights"},
    "words": {"kind": "ids", "type": "string", "table": "tags", "combiner": "sum", "max_values": 2},
    "topics": {"kind": "ids", "type": "string", "table": "tags", "combiner": "sqrtn"},
    "recent": {**_SEQUENCE, "max_length": 3, "keep": "last"},
    "recent_by_position": {**_SEQUENCE, "max_length": 4, "encoder": {"kind": "positional"}},
    "recent_to_item": {**_SEQUENCE, "max_length": 5, "encoder": {"kind": "din", "target": "item", "units": [4, 3]}},
    "recent_in_turn": {
        **(_SEQUENCE | {"max_length": 5}),
        "encoder": {"kind": "transformer", "num_layers": 2, "feed_forward_units": 4},
    },
    "recent_events": {
        **_SEQUENCE,
        "max_length": 4,
        "keep": "last",
        "encoder": {"kind": "din", "target": "item", "units": [4]},
        "beside": {
            "action": {"kind": "id", "column": "recent_actions", "type": "string", "table": "actions"},
            "recent_seconds": {"kind": "amount", "unit": 0.5},
            "clicks": {"kind": "amount", "column": "recent_clicks", "type": "int"},
        },
        "times": {"column": "recent_times", "at": "time"},
        "positions": True,
    },
    "recent_actions": {**_SEQUENCE, "max_length": 3, "beside": _ACTIONS},
    "recent_by_hstu": {
        **_SEQUENCE,
        "max_length": 5,
        "encoder": {"kind": "hstu", "target": "item", "num_layers": 2},
        "beside": _ACTIONS,
        "times": {"column": "recent_times", "at": "time"},
    },
    "recent_with_item": {
        **_SEQUENCE,
        "max_length": 5,
        "encoder": {"kind": "target_transformer", "target": "item", "num_layers": 2, "feed_forward_units": 4},
    },
    "image": {"kind": "vector", "dim": 3, "normalize": "l2", "missing": 0},
    "hour": {"kind": "time", "column": "time", "part": "hour"},
    "hour_row": {"kind": "time", "column": "time", "part": "hour", "table": "hours"},
    "weekday": {"kind": "time", "column": "time", "part": "weekday", "table": "days", "utc_offset_minutes": 60},
    "age": {"kind": "age", "since": "posted", "at": "time", "missing": 0},
    "age_in_waves": {
        "kind": "age",
        "since": "posted",
        "at": "time",
        "missing": 0,
        "encoding": {"kind": "periodic", "frequencies": 3, "dim": 2},
    },
    "bought_before": {"kind": "match", "column": "item", "among": "recent", "type": "int"},
}
_HISTORY: dict[str, Any] = {
    "item_click_rate": {"kind": "rate", "task": "click", "by": {"item": "int"}, "days": 30, "normalize": "none"},
    "user_item_count": {"kind": "count", "by": {"user": "string", "item": "int"}, "normalize": "none", "log": True},
}
"""Refused where negatives are left out, as in the spec with all other features."""
_FEW_FEATURES = {name: _FEATURES[name] for name in ("price", "price_in_bins", "item", "image", "words")}
_TASKS: dict[str, Any] = {
    "click": {"kind": "binary"},
    "buy": {"kind": "binary"},
    "skip": {"kind": "binary", "keep_negatives": 0.5, "calibration": {"kind": "isotonic"}},
    "like": {"kind": "binary", "loss": {"kind": "focal", "alpha": 0.25}, "missing_label": "mask"},
    "share": {
        "kind": "binary",
        "loss": {"kind": "cross_entropy", "label_smoothing": 0.1},
        "only_where": "clicked",
        "example_weight": "importance",
        "calibration": {"kind": "platt"},
    },
    "rating": {"kind": "regression"},
    "paid": {"kind": "regression", "loss": {"kind": "huber"}},
    "spent": {"kind": "regression", "loss": {"kind": "log"}, "weight": 0.5},
    "seconds": {"kind": "watch_time", "unit": 60},
}
_SMALL = {"tower_units": [4]}
_MODELS: dict[str, tuple[tuple[str, ...], dict[str, Any], dict[str, Any]]] = {
    "single_task": (
        ("click", "skip", "rating", "seconds"),
        {"interaction": {"kind": "dlrm", "bottom_units": [5]}},
        {"dense_optimizer": {"kind": "sgd", "momentum": 0.9, **_RATE}, "average": {"kind": "last"}},
    ),
    "shared_bottom": (
        ("like", "paid", "skip", "spent", "seconds"),
        {
            "bottom_units": [6],
            "interaction": {"kind": "dcn_v2", "deep_units": [4]},
            "dropout": 0.2,
            "ensemble": {"members": 3},
        },
        {
            "dense_optimizer": {"kind": "adagrad", **_RATE},
            "schedule": {"kind": "cosine", "decay_steps": 10},
            "loss_balance": {"kind": "uncertainty"},
        },
    ),
    "mmoe": (
        ("share", "spent", "click"),
        {"num_experts": 3, "expert_units": [6], "top_k": 2},
        {
            "dense_optimizer": {"kind": "adamw", **_RATE},
            "schedule": {"kind": "step", "every_steps": 5},
            "average": {"kind": "ema"},
            "loss_balance": {"kind": "gradnorm"},
        },
    ),
    "ple": (
        ("like", "seconds"),
        {
            "expert_units": [5],
            "interaction": {"kind": "dcn_v2", "rank": 3, "num_experts": 2},
            "ensemble": {"members": 2},
        },
        {
            "schedule": {"kind": "constant", "warmup_steps": 3},
            "loss_balance": {"kind": "fixed"},
            "sync": {"kind": "stale"},
        },
    ),
    "esmm": (("click", "buy"), {"chain": ["click", "buy"]}, {"clip_gradient_norm": 1.0, "sync": {"kind": "shadow"}}),
    "aitm": (("click", "buy"), {"chain": ["click", "buy"], "ensemble": {"members": 2}}, {"sync": {"kind": "async"}}),
}
_OUTSIDE_FEATURES: dict[str, Any] = {
    "price_by_position": {"kind": "ratio", "over": "price", "under": "position"},
    "user_letter": {"kind": "first_letter", "column": "user", "table": "users"},
    "user_words": {"kind": "words_of", "column": "user", "table": "tags"},
    "item": _FEATURES["item"],
    "recent_newest": {**_SEQUENCE, "max_length": 5, "encoder": {"kind": "newest", "target": "item"}},
}
OUTSIDE = "one_tower"
_OUTSIDE_PARTS = "tests.trainer_module.sample_parts"
_TASKS |= {
    "hit": {"kind": "binary", "loss": {"kind": "listwise", "of": "item"}, "missing_label": "mask"},
    "depth": {"kind": "regression", "loss": {"kind": "log_cosh"}},
}
_MODELS |= {
    OUTSIDE: (
        ("hit", "depth"),
        {"interaction": {"kind": "gated"}, "dropout": 0.2},
        {"dense_optimizer": {"kind": "lion", "learning_rate": 0.01}},
    )
}
NAMES = tuple(_MODELS)
WITH_ALL_FEATURES, WITH_HISTORY = NAMES[0], "mmoe"
"""The others have few, to be quick."""


def features_of(name: str) -> dict[str, Any]:
    """Returns the features of a spec."""
    if name == WITH_HISTORY:
        return _FEW_FEATURES | _HISTORY
    if name == OUTSIDE:
        return _OUTSIDE_FEATURES
    return _FEATURES if name == WITH_ALL_FEATURES else _FEW_FEATURES


def spec(name: str) -> Spec:
    """Returns one of the specs, checked as a file is."""
    tasks, model, training = _MODELS[name]
    features = features_of(name)
    used = {feature.get("table") for feature in features.values()}
    used |= {part.get("table") for feature in features.values() for part in feature.get("beside", {}).values()}
    gate = {"metric": "auc", "at_least": 0.1} if _TASKS[tasks[0]]["kind"] == "binary" else {"metric": "rmse"}
    found = check_document(
        {
            "name": name,
            "parts": [_OUTSIDE_PARTS] if name == OUTSIDE else [],
            "data": {
                "kind": "days",
                "format": "parquet",
                "pattern": "{YYYY}-{MM}-{DD}/*.parquet",
                "train_days": 2,
                "validation_days": 1,
            },
            "tables": {table: {"dim": 4, **more} for table, more in _TABLES.items() if table in used},
            "features": features,
            "tasks": {task: _TASKS[task] for task in tasks},
            "model": {"kind": name, **({} if name == OUTSIDE else _SMALL), **model},
            "training": {
                "batch_size_per_rank": NUM_EXAMPLES,
                "shuffle_buffer": 1,
                "dense_optimizer": {"kind": "adam", **_RATE},
                "embedding_optimizer": {"kind": "adam", **_RATE},
                **training,
            },
            "gates": [{"task": tasks[0], **gate}],
            "push": {"kind": "directory", "path": "serving"},
        }
    )
    assert isinstance(found, Spec), found
    return found


def inputs(name: str) -> Inputs:
    """Returns what a spec's Transform sees: its features, and the tasks of all specs."""
    parts = {"parts": [_OUTSIDE_PARTS], "features": features_of(name), "tasks": _TASKS}
    return Inputs.model_validate_json(json.dumps(parts))


def kinds(of: type[FrozenModel] = RankerSpec) -> set[type[FrozenModel]]:
    """Returns all members of all unions that a declaration may have in it."""
    found: set[type[FrozenModel]] = set()
    open_types: list[Any] = [of]
    while open_types:
        kind = open_types.pop()
        open_types += get_args(kind)
        if isinstance(kind, type) and issubclass(kind, FrozenModel) and kind not in found:
            found.add(kind)
            # With their constraints: where a union lies below a list, `annotation` alone has it.
            open_types += [field.annotation for field in kind.model_fields.values()]
            if issubclass(kind, Part):
                open_types += list(ours(kind).values())
    return {kind for kind in found if "kind" in kind.__annotations__ and get_args(kind.__annotations__["kind"])}


def declared_in(part: Any) -> Iterator[type]:
    """Yields the type of a declaration and of all that it consists of."""
    if isinstance(part, FrozenModel):
        yield type(part)
        for name in type(part).model_fields:
            yield from declared_in(getattr(part, name))
    elif isinstance(part, Mapping | tuple):
        for value in part.values() if isinstance(part, Mapping) else part:
            yield from declared_in(value)


def rows(count: int) -> list[dict[str, list[Any]]]:
    """Returns rows of the logs: empty and missing values where they may be, ids that repeat."""
    generator = np.random.default_rng(0)
    read = columns(inputs(WITH_ALL_FEATURES))
    found = []
    for _ in range(count):
        lengths: dict[str, int] = {}
        row = {}
        for column in sorted(read, key=lambda column: bool(column.beside)):
            size = column.length or int(generator.integers(0, 6)) if column.is_list else 1
            if column.beside and column.beside[0] in lengths:
                size = lengths[column.beside[0]]
            elif not column.is_required and generator.random() < 0.2:
                size = 0
            lengths[column.name] = size
            row[column.name] = [_value(column, generator) for _ in range(size)]
        found.append(row)
    return found


def _value(column: Column, generator: np.random.Generator) -> Any:
    if column.type == "float":
        return float(np.float32(generator.uniform(0, 5)))
    if column.is_binary:
        return int(generator.random() < 0.5)
    number = int(generator.integers(0, 20))
    if column.type == "string":
        return f"{column.name} {number}"
    # Whatever is not an id is a small number or a time.
    return 1_700_000_000 + 40_000 * number if column.time else number


def transformed(declared: RankerSpec, found: Mapping[str, Any], count: int) -> list[bytes]:
    """Returns Transform's outputs as examples, as they are written to files."""
    examples = []
    for number in range(count):
        example = tf.train.Example()
        for output in outputs(declared):
            column = found[output.name]
            if isinstance(column, tf.SparseTensor):
                values = tf.RaggedTensor.from_sparse(column)[number].numpy()
            else:
                values = np.ravel(column[number].numpy())
            feature = example.features.feature[output.name]
            (feature.int64_list if output.type == "key" else feature.float_list).value.extend(values.tolist())
        examples.append(example.SerializeToString())
    return examples


def write_transform(directory: Path, declared: Inputs, logs: list[dict[str, list[Any]]]) -> None:
    """Runs Transform over rows of the logs."""
    import apache_beam as beam
    import tensorflow_transform as tft
    import tensorflow_transform.beam as tft_beam
    from tensorflow_transform.tf_metadata import dataset_metadata, metadata_io, schema_utils

    from sangam.trainer_module.transforms.preprocessing import preprocessing_fn
    from tests.trainer_module.transforms.analysis import config_of, statistics_of

    types = {"int": tf.int64, "float": tf.float32, "string": tf.string}
    parsed = {column.name: tf.io.VarLenFeature(types[column.type]) for column in columns(declared)}
    parsed |= {history_of(name): tf.io.VarLenFeature(tf.float32) for name in history_features(declared)}
    metadata = dataset_metadata.DatasetMetadata(schema_utils.schema_from_feature_spec(parsed))
    logs = [{name: row.get(name, [0.0]) for name in parsed} for row in logs]
    statistics = statistics_of(declared, logs)
    config = config_of(declared, statistics)
    if history_features(declared):
        write_history(directory, declared, logs)
    with beam.Pipeline(argv=list(BEAM_ARGS)) as pipeline, tft_beam.Context(temp_dir=str(directory / "temporary")):
        graph = (pipeline | beam.Create(logs), metadata) | tft_beam.AnalyzeDataset(
            lambda raw: preprocessing_fn(raw, config)
        )
        _ = graph | tft_beam.WriteTransformFn(str(directory))
    metadata_io.write_metadata(metadata, str(directory / tft.TFTransformOutput.RAW_METADATA_DIR))
    (directory / FILE_NAME).write_text(statistics.model_dump_json(), encoding="utf-8")


def write_history(graph: Path, declared: Inputs, logs: list[dict[str, list[Any]]]) -> None:
    """Writes the tables of a day before which all rows of the logs happened."""
    from sangam.components.steps.transform.history.counts import CountDay
    from sangam.components.steps.transform.history.tables import table_of, write_tables
    from sangam.trainer_module.transforms.preprocessing import history_keys_fn
    from tests.trainer_module.transforms.analysis import batch_of

    counts = CountDay(history_keys_fn, declared).counts_of(batch_of(declared, logs))
    tables = [table_of(declared, group, counts[group.by]) for group in history_groups(declared)]
    write_tables(graph / FOLDER, HISTORY_AS_OF, tables)


def job_of(directory: Path, examples: Path, transform: Path, declared: RankerSpec) -> TrainJob:
    """Returns the job of a spec."""
    (directory / "output").mkdir(parents=True)
    return TrainJob(
        ranker=declared,
        spec_digest=digest(declared),
        train_files=(),
        check_files=(str(examples),),
        transform_graph=str(transform),
        model_dir=str(directory / "model"),
        output_dir=str(directory / "output"),
        final_checkpoint=str(directory / "checkpoint"),
        checkpoint_dir="",
        log_dir=str(directory),
    )
