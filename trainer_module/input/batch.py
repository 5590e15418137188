"""A batch: a few tensors, however many features there are.

    floats          float32 [B, floats]      of all features that are floats
    ids             int64   [B, ids]         keys of all features of one id, group of tables by group
    lists           int64   [n]              keys of all features of several ids: those of all examples for one feature,
                                             then for the next
    lengths         int64   [lists, B]       how many of them are of each feature and example
    list_weights    float32 [m]              of features whose ids have weights, in the order of `lists`
    event_floats    float32 [m]              amounts of the events of sequences, one after another, then their ages
    floats_serving, ids_serving              columns that bias features have in every prediction
    labels          float32 [B, tasks]       NaN where an example takes no part in a task
    weights         float32 [B, tasks]       of examples, if a task declares them
    event_time      int64   [B]              seconds since 1970, if the spec has it

A tensor that would be empty is left out. `Layout` maps columns to features.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

import tensorflow as tf

from sangam.schemas.derived.columns import (
    EVENT_TIME,
    at_of,
    example_weight_of,
    is_bias,
    serving_of,
    times_of,
    weights_of,
)
from sangam.schemas.derived.model_inputs import FeatureOrder
from sangam.schemas.spec import RankerSpec
from sangam.trainer_module.transforms.stacked import Column, ListColumn, Made, Pair, beside
from sangam.trainer_module.transforms.times import ages_of_events

Batch = dict[str, tf.Tensor]
TensorsByName = Mapping[str, tf.Tensor | tf.SparseTensor | tf.RaggedTensor]
"""Transform's outputs by name."""
Columns = Mapping[str, Made | tf.RaggedTensor]
"""The same, some in one tensor with others."""

_ID_TENSORS = ("ids", "lists", "lengths", "event_time")
DENSE_TENSORS = ("floats", "list_weights", "event_floats", "labels", "weights")
"""What the dense layers alone read."""


class Layout(FeatureOrder):
    """Which feature each column of a batch belongs to.

    Attributes:
        bias_floats: floats of bias features, which predictions see with a fixed value.
        bias_ids: ids of bias features.
        tasks: tasks in the order of the labels.
    """

    def __init__(self, spec: RankerSpec):
        super().__init__(spec)
        self.all_ids = _flat(self.ids.values())
        self.all_lists = _flat(map(self.lists, self.ids))
        self.all_weighted = _flat(self.weighted.values())
        self._events = (*self.amounts, *map(times_of, self.timed))
        """Outputs with one number for each event."""
        self._event_ids = _flat(self.event_ids.values())
        bias = [name for name, feature in spec.features.items() if is_bias(feature)]
        self.bias_floats = tuple(name for name, _ in self.floats if name in bias)
        self.bias_ids = tuple(name for name in self.all_ids if name in bias)
        self.tasks = tuple(spec.tasks)
        self._weighted_tasks = {task for task, kind in spec.tasks.items() if kind.example_weight}
        self._has_time = spec.event_time is not None

    def columns_of(self, group: str, of: Mapping[str, Sequence[str]]) -> slice:
        """Returns the range of one group's columns, with all groups in turn."""
        groups = list(of)
        start = sum(len(of[before]) for before in groups[: groups.index(group)])
        return slice(start, start + len(of[group]))

    def lengths(self, batch: Batch, features: Sequence[str]) -> tf.Tensor:
        """Returns the lengths of features that follow one another in the batch: [features, B]."""
        start = self.all_lists.index(features[0])
        return batch["lengths"][start : start + len(features)]

    def by_group(self, batch: Batch, name: str, features: Mapping[str, Sequence[str]]) -> dict[str, tf.Tensor]:
        """Returns the values of each group's features in a tensor of the batch, for groups that have such features."""
        groups = [group for group, names in features.items() if names]
        if not groups:
            return {}
        sizes = tf.stack([tf.reduce_sum(self.lengths(batch, features[group])) for group in groups])
        parts = tf.split(batch[name], sizes, num=len(groups))
        return dict(zip(groups, parts, strict=True))

    def events(self, batch: Batch) -> dict[str, tf.Tensor]:
        """Returns amounts of events by `event_of`, and their ages in seconds by `times_of`: [n] each."""
        if not self._events:
            return {}
        sizes = tf.reduce_sum(self._lengths_beside(self._events, batch), axis=1)
        parts = tf.split(batch["event_floats"], sizes, num=len(self._events))
        return dict(zip(self._events, parts, strict=True))

    def beside(self, feature: str, found: TensorsByName) -> dict[str, tf.Tensor]:
        """Returns what is beside a sequence's ids, of all that is found by output, by name in the spec."""
        return {part: found[output] for output, part in self.parts[feature].items() if output in found}

    def _lengths_beside(self, outputs: Sequence[str], batch: Batch) -> tf.Tensor:
        return self._lengths_of_each([self.sequence_of[output] for output in outputs], batch)

    def _lengths_of_each(self, features: Sequence[str], batch: Batch) -> tf.Tensor:
        return tf.gather(batch["lengths"], [self.all_lists.index(name) for name in features])

    def batch_spec(self) -> dict[str, tf.TensorSpec]:
        """Returns the tensors of a batch, for input signatures; any number of rows fits."""
        widths = dict(self.floats)
        tensors = {
            "floats": ([None, sum(widths.values())], tf.float32),
            "ids": ([None, len(self.all_ids)], tf.int64),
            "floats_serving": ([None, sum(widths[name] for name in self.bias_floats)], tf.float32),
            "ids_serving": ([None, len(self.bias_ids)], tf.int64),
            "labels": ([None, len(self.tasks)], tf.float32),
        }
        tensors = {name: (shape, kind) for name, (shape, kind) in tensors.items() if shape[-1]}
        if self.all_lists:
            tensors |= {"lists": ([None], tf.int64), "lengths": ([len(self.all_lists), None], tf.int64)}
        if self.all_weighted:
            tensors["list_weights"] = ([None], tf.float32)
        if self._events:
            tensors["event_floats"] = ([None], tf.float32)
        if self._weighted_tasks:
            tensors["weights"] = ([None, len(self.tasks)], tf.float32)
        if self._has_time:
            tensors["event_time"] = ([None], tf.int64)
        return {name: tf.TensorSpec(shape, kind) for name, (shape, kind) in tensors.items()}

    def pack(self, columns: Columns) -> Batch:
        """Returns Transform's outputs as a batch."""
        batch = self.pack_features(columns)
        if self.bias_floats:
            batch["floats_serving"] = _side_by_side([columns[serving_of(name)] for name in self.bias_floats])
        if self.bias_ids:
            batch["ids_serving"] = _side_by_side([columns[serving_of(name)] for name in self.bias_ids])
        batch["labels"] = _side_by_side([columns[task] for task in self.tasks])
        if self._weighted_tasks:
            ones = tf.ones_like(columns[self.tasks[0]])
            batch["weights"] = _side_by_side(
                [columns[example_weight_of(task)] if task in self._weighted_tasks else ones for task in self.tasks]
            )
        if self._has_time:
            batch["event_time"] = columns[EVENT_TIME]
        return batch

    def pack_features(self, columns: Columns) -> Batch:
        """Returns the features alone."""
        batch = {}
        if self.floats:
            batch["floats"] = _side_by_side([columns[name] for name, _ in self.floats])
        if self.all_ids:
            batch["ids"] = _side_by_side([columns[name] for name in self.all_ids])
        if self.all_lists:
            batch["lists"], batch["lengths"] = values_and_lengths([columns[name] for name in self.all_lists])
        if self.all_weighted:
            weights, lengths_FB = values_and_lengths([columns[weights_of(name)] for name in self.all_weighted])
            ids_FB = self._lengths_of_each(self.all_weighted, batch)
            with tf.control_dependencies([_same_lengths(self.all_weighted, ids_FB, lengths_FB)]):
                batch["list_weights"] = tf.identity(weights)
        if self._event_ids:
            ids_FB, own_FB = (of(self._event_ids, batch) for of in (self._lengths_beside, self._lengths_of_each))
            with tf.control_dependencies([_same_lengths(self._event_ids, ids_FB, own_FB)]):
                batch["lists"] = tf.identity(batch["lists"])
        if self._events:
            batch["event_floats"] = self._packed_events(columns, batch)
        return batch

    def _packed_events(self, columns: Columns, batch: Batch) -> tf.Tensor:
        parts, lengths = [], []
        if self.amounts:
            amounts_n, lengths_FB = values_and_lengths([columns[output] for output in self.amounts])
            parts.append(amounts_n)
            lengths.append(lengths_FB)
        if self.timed:
            times_n, lengths_FB = values_and_lengths([columns[times_of(name)] for name in self.timed])
            at_FB = tf.stack([columns[at_of(name)] for name in self.timed])
            parts.append(ages_of_events(times_n, tf.reshape(lengths_FB, [-1]), tf.reshape(at_FB, [-1])))
            lengths.append(lengths_FB)
        ids_FB = self._lengths_beside(self._events, batch)
        with tf.control_dependencies([_same_lengths(self._events, ids_FB, tf.concat(lengths, 0))]):
            return tf.concat(parts, 0)

    def at_serving(self, columns: TensorsByName) -> TensorsByName:
        """Returns Transform's outputs with the values of bias features at serving."""
        return {**columns, **{name: columns[serving_of(name)] for name in (*self.bias_floats, *self.bias_ids)}}


def ids_of(batch: Mapping[str, tf.Tensor]) -> Batch:
    """Returns the tensors behind a batch's keys; takes a batch's spec too."""
    return {name: batch[name] for name in _ID_TENSORS if name in batch}


def size_of(batch: Batch) -> tf.Tensor:
    """Returns the number of examples, int64 scalar."""
    # Of ids first: floats may be on an accelerator, and the size is needed on the host.
    if "ids" in batch:
        return tf.shape(batch["ids"], tf.int64)[0]
    return tf.shape(batch["lengths"], tf.int64)[1] if "lengths" in batch else tf.shape(batch["floats"], tf.int64)[0]


def empty_batch(layout: Layout) -> Batch:
    """Returns a batch of no examples, for a rank that has run out of data."""
    return {
        name: tf.zeros([size or 0 for size in spec.shape.as_list()], spec.dtype)
        for name, spec in layout.batch_spec().items()
    }


def then_empty(batches: Iterable[Batch], layout: Layout) -> Iterator[Batch]:
    """Yields the batches, and after the last one empty ones forever."""
    yield from batches
    empty = empty_batch(layout)
    while True:
        yield empty


def ragged(column: tf.SparseTensor | tf.RaggedTensor) -> tf.RaggedTensor:
    """Returns a column of lists, sparse or ragged, as a ragged tensor."""
    if isinstance(column, tf.RaggedTensor):
        return column
    # RaggedTensor.from_sparse checks that the values of a row have no gaps, in eight operations a column.
    return tf.RaggedTensor.from_value_rowids(column.values, column.indices[:, 0], column.dense_shape[0], validate=False)


def values_and_lengths(
    columns: Sequence[tf.SparseTensor | tf.RaggedTensor | ListColumn],
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the values of all columns in turn, and the number of values of each row: [v], [F, B].

    Sparse ones, from Transform's graph, are counted together: one by one they take nearly 90 operations each.
    """
    in_stack = [column for column in columns if isinstance(column, ListColumn)]
    if len(in_stack) == len(columns) and len({id(column.values) for column in in_stack}) == 1:
        return in_stack[0].values.lists([column.number for column in in_stack])
    columns = [column.tensor() if isinstance(column, ListColumn) else column for column in columns]
    sparse = [column for column in columns if isinstance(column, tf.SparseTensor)]
    if len(sparse) < len(columns):
        lists = [ragged(column) for column in columns]
        splits = tf.stack([column.row_splits for column in lists])
        return tf.concat([column.flat_values for column in lists], 0), splits[:, 1:] - splits[:, :-1]
    num_rows = sparse[0].dense_shape[0]
    sizes_F = tf.stack(tf.shape_n([column.values for column in sparse], tf.int64))[:, 0]
    first_F = tf.range(len(sparse), dtype=tf.int64) * num_rows
    row_v = tf.concat([column.indices for column in sparse], 0)[:, 0] + tf.repeat(first_F, sizes_F)
    lengths = tf.math.unsorted_segment_sum(tf.ones_like(row_v), row_v, len(sparse) * num_rows)
    return tf.concat([column.values for column in sparse], 0), tf.reshape(lengths, [len(sparse), -1])


def _same_lengths(features: Sequence[str], ids_FB: tf.Tensor, weights_FB: tf.Tensor) -> tf.Operation:
    """Returns a check that every id has its weight, or what else is beside it; one for all lists."""
    is_wrong = tf.reduce_any(tf.not_equal(ids_FB, weights_FB), axis=1)
    wrong = tf.boolean_mask(tf.constant(list(features)), is_wrong)
    message = "features: examples without exactly one value beside each id, in:"
    return tf.debugging.Assert(~tf.reduce_any(is_wrong), [message, wrong])


def _side_by_side(columns: Sequence[tf.Tensor | Column | Pair]) -> tf.Tensor:
    """Returns [B] and [B, width] in turn as [B, all widths]."""
    each = [part for column in columns for part in (column.both if isinstance(column, Pair) else [column])]
    runs = groupby(each, lambda part: isinstance(part, Column))
    parts = [beside(list(run)) if is_in_stack else _beside(list(run)) for is_in_stack, run in runs]
    return parts[0] if len(parts) == 1 else tf.concat(parts, 1)


def _beside(columns: Sequence[tf.Tensor]) -> tf.Tensor:
    if all(column.shape.rank == 1 for column in columns):
        return tf.stack(columns, 1)
    return tf.concat([column[:, None] if column.shape.rank == 1 else column for column in columns], 1)


def _flat(parts: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(name for part in parts for name in part)
