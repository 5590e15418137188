"""Transform: generated from the spec. The same graph runs over the training data and inside the served model.

First `numbers_fn` gives the numbers of which the step computes statistics over the training rows, unless the base of an
incremental training has them; then `preprocessing_fn` is given all statistics, and is a function of each row alone.
"""

import math
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from sangam.schemas.contracts.statistics import Boundaries, Statistics
from sangam.schemas.derived.columns import (
    EVENT_TIME,
    example_weight_of,
    feature_columns,
    features_together,
    graph_columns,
    is_bias,
    serving_columns,
    serving_of,
    weights_of,
)
from sangam.schemas.parts.columns import IdType
from sangam.schemas.spec import Inputs
from sangam.schemas.spec.features import (
    AgeFeature,
    BucketsFeature,
    CrossFeature,
    Feature,
    HistoryFeature,
    IdFeature,
    IdsFeature,
    MatchFeature,
    NumericFeature,
    OneNumber,
    SequenceFeature,
    TimeFeature,
    VectorFeature,
)
from sangam.trainer_module.transforms import buckets, ids, lists, numbers, times
from sangam.trainer_module.transforms.columns import OfSeveral, one_value
from sangam.trainer_module.transforms.history import history_keys
from sangam.trainer_module.transforms.outside import feature_of_others
from sangam.trainer_module.transforms.stacked import Logged, Made, Rows, alone, joined, side_by_side, taken_out
from sangam.trainer_module.transforms.vectors import vectors

# Shape suffixes: R rows of a column.


def preprocessing_fn(inputs: dict[str, Any], custom_config: dict[str, Any]) -> dict[str, Any]:
    """Maps the columns of the logs to model inputs and labels; TensorFlow Transform calls it by its dotted path.

    Args:
        inputs: column name to SparseTensor [batch, values].
        custom_config: `inputs`, the JSON of `sangam.schemas.spec.Inputs`; `statistics`, the JSON of
            `sangam.schemas.contracts.statistics.Statistics` for all numeric features.

    Returns:
        The outputs that `schemas.derived.outputs.outputs` lists; labels, example weights and event times only where
        the logs have them.
    """
    spec = Inputs.model_validate_json(custom_config["inputs"])
    statistics = Statistics.model_validate_json(custom_config["statistics"])
    return taken_out(outputs_of(spec, statistics, inputs))


def outputs_of(spec: Inputs, statistics: Statistics, inputs: Mapping[str, Logged]) -> dict[str, Made]:
    """Returns the outputs of `preprocessing_fn` by name, those of a kind still in one tensor."""
    outputs = features_of(spec, statistics, inputs)
    for name, task in spec.tasks.items():
        label_R = one_value(tf.cast(alone(inputs[spec.label_of(name)]), tf.float32), math.nan)
        if task.only_where:
            takes_part_R = one_value(tf.cast(alone(inputs[task.only_where]), tf.float32), 0.0)
            label_R = _masked(label_R, tf.equal(takes_part_R, 1.0))
        if task.example_weight:
            weight_R = one_value(inputs[task.example_weight], math.nan)
            given_R = ~tf.math.is_nan(weight_R)
            label_R = _masked(label_R, given_R)
            outputs[example_weight_of(name)] = tf.where(given_R, weight_R, tf.zeros_like(weight_R))
        outputs[name] = label_R
    if spec.event_time:
        outputs[EVENT_TIME] = one_value(inputs[spec.event_time], tf.constant(0, tf.int64))
    return outputs


def numbers_fn(inputs: dict[str, Any], custom_config: dict[str, Any]) -> dict[str, tf.Tensor]:
    """Returns the numbers behind the statistics of features; Transform calls it for batches of rows.

    Args:
        inputs: column name to SparseTensor [batch, values].
        custom_config: `inputs` as above; `features`, the names of those to analyze.

    Returns:
        {feature: [batch]} float32; NaN where a row has no number.
    """
    spec = Inputs.model_validate_json(custom_config["inputs"])
    features = {name: spec.features[name] for name in custom_config["features"]}
    columns = {name: [inputs[column] for column in graph_columns(spec, name)] for name in features}
    found: dict[str, tf.Tensor] = {}
    for place, chosen in _placed(features):
        found |= numbers.Numbers(chosen, _rows(chosen, columns), place).prepared()
    if cut := _cut(features):
        found |= dict(zip(cut, _rows(cut, columns).parts(), strict=True))
    return found


def history_keys_fn(inputs: dict[str, Any], by: Mapping[str, IdType]) -> tf.Tensor:
    """Returns the ids whose history a row adds to and reads: int64 [batch]; Transform calls it for batches of rows.

    Args:
        inputs: column name to SparseTensor [batch, values].
        by: columns and the types of their ids.
    """
    return history_keys(by, inputs)


def _masked(label_R: tf.Tensor, takes_part_R: tf.Tensor) -> tf.Tensor:
    return tf.where(takes_part_R, label_R, tf.fill(tf.shape(label_R), math.nan))


def features_of(
    spec: Inputs, statistics: Statistics, inputs: Mapping[str, Logged], of_several: OfSeveral | None = None
) -> dict[str, Made]:
    """Returns the outputs of all features by name, those of a kind still in one tensor.

    Bias features are computed apart from the others: a request lacks their columns, so no other feature may depend on
    them.

    Args:
        spec: the features.
        statistics: of the training rows.
        inputs: columns by name.
        of_several: what is known of several requests; None: the rows are those of logs or of one request.
    """
    columns = _columns(spec, inputs, of_several)
    served = {name: feature for name, feature in spec.features.items() if not is_bias(feature)}
    made: dict[str, Made] = _numbers(served, spec, columns, statistics)[0] | _ids(served, spec, columns)
    request_C = of_several and of_several.request_C
    made |= {
        name: _alone(name, feature, spec, columns[name], request_C)
        for name, feature in served.items()
        if name not in made
    }
    bias = {name: feature for name, feature in spec.features.items() if is_bias(feature)}
    if bias:
        of_logs, at_serving = _numbers(bias, spec, columns, statistics)
        made |= of_logs | _ids(bias, spec, columns)
        for name, feature in bias.items():
            if isinstance(feature, IdFeature) and feature.at_serving is not None:
                at_serving[name] = ids.key_of(spec.table_tags()[feature.table], feature.at_serving)
        num_rows = inputs[serving_columns(spec)[0].name].dense_shape[:1]
        made |= {serving_of(name): _in_every_row(value, num_rows) for name, value in at_serving.items()}
    return made


def _columns(spec: Inputs, inputs: Mapping[str, Logged], of_several: OfSeveral | None) -> dict[str, list[Logged]]:
    """Returns the columns of each feature."""
    repeated = {**inputs, **of_several.repeated} if of_several else inputs
    together = features_together(spec) if of_several else frozenset()
    return {
        name: [(repeated if name in together else inputs)[column] for column in graph_columns(spec, name)]
        for name in spec.features
    }


def _numbers(
    features: Mapping[str, Feature],
    spec: Inputs,
    columns: Mapping[str, list[Logged]],
    statistics: Statistics,
) -> tuple[dict[str, Made], dict[str, tf.Tensor]]:
    """Returns features with statistics, all of a kind at once, and the scalars of those with `at_serving`."""
    made: dict[str, Made] = {}
    at_serving: dict[str, tf.Tensor] = {}
    results = {name: feature.analyzed for name, feature in statistics.features.items() if feature.analyzed}
    for place, chosen in _placed(features):
        stacked = numbers.Numbers(chosen, _rows(chosen, columns), place)
        made |= stacked.outputs(results)
        at_serving |= stacked.of_values(_at_serving(chosen), results) if _at_serving(chosen) else {}
    if cut := _cut(features):
        boundaries = {name: lowest for name, lowest in results.items() if isinstance(lowest, Boundaries)}
        in_buckets = buckets.Buckets(cut, _rows(cut, columns), spec.table_tags(), boundaries)
        made |= in_buckets.outputs()
        at_serving |= in_buckets.of_values(_at_serving(cut)) if _at_serving(cut) else {}
    return made, at_serving


def _in_every_row(value: tf.Tensor, num_rows: tf.Tensor) -> tf.Tensor:
    return tf.fill(num_rows, value) if value.shape.rank == 0 else tf.tile(value[None], tf.concat([num_rows, [1]], 0))


def _placed(features: Mapping[str, Feature]) -> list[tuple[numbers.Place, dict[str, OneNumber]]]:
    """Returns features of one number each, scaled or binned, with numbers of columns before ages."""
    found: dict[str, OneNumber] = {
        name: feature for name, feature in features.items() if isinstance(feature, NumericFeature | HistoryFeature)
    }
    found |= {name: feature for name, feature in features.items() if isinstance(feature, AgeFeature)}
    places = (
        (place, {name: feature for name, feature in found.items() if feature.is_binned == is_binned})
        for place, is_binned in ((numbers.scaled, False), (numbers.binned, True))
    )
    return [(place, chosen) for place, chosen in places if chosen]


def _cut(features: Mapping[str, Feature]) -> dict[str, BucketsFeature]:
    return {name: feature for name, feature in features.items() if isinstance(feature, BucketsFeature)}


def _rows(
    features: Mapping[str, OneNumber | BucketsFeature],
    columns: Mapping[str, list[Logged]],
) -> Rows:
    """Returns the numbers of features, numbers of columns before ages, side by side."""
    logged = {name: feature for name, feature in features.items() if not isinstance(feature, AgeFeature)}
    ages = {name: feature for name, feature in features.items() if isinstance(feature, AgeFeature)}
    rows = [numbers.logged(list(logged.values()), [columns[name][0] for name in logged])] if logged else []
    if ages:
        rows.append(side_by_side([times.ages(feature, *map(alone, columns[name])) for name, feature in ages.items()]))
    return joined(rows)


def _at_serving(features: Mapping[str, OneNumber | BucketsFeature]) -> dict[str, float]:
    return {
        name: feature.at_serving
        for name, feature in features.items()
        if isinstance(feature, NumericFeature | BucketsFeature) and feature.at_serving is not None
    }


def _ids(features: Mapping[str, Feature], spec: Inputs, columns: Mapping[str, list[Logged]]) -> dict[str, Made]:
    """Returns features of ids, all of a kind at once."""
    made: dict[str, Made] = {}
    tags = spec.table_tags()
    first = {name: columns[name][0] for name in features}
    if one := {name: feature for name, feature in features.items() if isinstance(feature, IdFeature)}:
        made |= ids.keys_of_ids(one, tags, first)
    if pairs := {name: feature for name, feature in features.items() if isinstance(feature, CrossFeature)}:
        made |= ids.keys_of_pairs(pairs, tags, columns)
    made |= lists.keys_of_lists(features, tags, columns)
    sequences = {name: feature for name, feature in features.items() if isinstance(feature, SequenceFeature)}
    made |= lists.events_of(sequences, columns)
    sets = {name: feature for name, feature in features.items() if isinstance(feature, IdsFeature)}
    if weighted := {name: feature for name, feature in sets.items() if feature.weights}:
        weights = lists.weights_of_lists(weighted, first, {name: columns[name][1] for name in weighted})
        made |= {weights_of(name): values for name, values in weights.items()}
    return made


def _alone(
    name: str, feature: Feature, spec: Inputs, logged: list[Logged], request_C: tf.Tensor | None
) -> tf.Tensor | tf.SparseTensor:
    """Returns a feature of a kind that is computed one by one."""
    columns = list(map(alone, logged))
    match feature:
        case VectorFeature():
            return vectors(name, feature, columns[0])
        case TimeFeature(table=None):
            return times.time_points(feature, columns[0])
        case TimeFeature():
            return times.time_keys(feature, spec.table_tags()[str(feature.table)], columns[0])
        case MatchFeature():
            return ids.matches(feature, columns[0], columns[1], request_C)
        case _ if feature.is_ours:
            raise AssertionError(f"features.{name}: kind {feature.kind} is computed with the others of its kind")
        case _:
            tag = spec.table_tags().get(str(feature.table_name()), 0)
            return feature_of_others(feature, tag, feature_columns(spec, name), columns)
