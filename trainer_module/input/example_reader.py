"""Batches from rows of the files: transformed rows, or raw rows that are transformed here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import tensorflow as tf

from sangam.schemas.contracts.statistics import FILE_NAME, Statistics, parse_statistics
from sangam.schemas.contracts.training_job import TrainJob
from sangam.schemas.derived.columns import columns, feature_columns
from sangam.schemas.derived.history import history_features
from sangam.schemas.derived.outputs import Output, outputs
from sangam.schemas.spec import RankerSpec
from sangam.trainer_module.input.batch import Batch, Layout
from sangam.trainer_module.input.blocks import Joined, Rows, Table, num_rows
from sangam.trainer_module.input.dealing import ids_counter, lists_of
from sangam.trainer_module.transforms.graph import transform_graph
from sangam.trainer_module.transforms.preprocessing import outputs_of

_RAW_TYPES = {"float": tf.float32, "int": tf.int64, "string": tf.string}
_TYPES = {"float": tf.float32, "key": tf.int64}


@dataclass(frozen=True)
class ExampleReader:
    """The contents of files of examples.

    Attributes:
        table: their columns.
        batch_of: returns rows as a batch.
        keep: says which rows take part, see `PartReader`; None: all.
        count_ids: returns each row's number of ids, see `dealing`; None: all rows have as many.
    """

    table: Table
    batch_of: Callable[[Rows], Batch]
    keep: Callable[[Rows], tf.Tensor] | None = None
    count_ids: Callable[[Rows], tf.Tensor] | None = None

    @cached_property
    def rows_of(self) -> Callable[[tf.Tensor], tuple[Joined, tf.Tensor]]:
        """Function from blocks [W] to their rows that take part, and the number of these; traced once."""

        def rows_of(blocks_W: tf.Tensor) -> tuple[Joined, tf.Tensor]:
            rows = self.table.decode(blocks_W)
            order = tf.range(num_rows(rows))
            if self.keep is not None:
                order = tf.boolean_mask(order, self.keep(rows))
            return self.table.join(self.table.empty(), rows, order), tf.size(order)

        traced: Callable[..., tuple[Joined, tf.Tensor]] = tf.function(
            rows_of, input_signature=[tf.TensorSpec([None], tf.string)], autograph=False
        )
        return traced

    @cached_property
    def batch_from(self) -> Callable[[Joined, tf.Tensor, tf.Tensor], Batch]:
        """Function from such rows, the first number and the number after the last to a batch; traced once."""
        number = tf.TensorSpec([], tf.int64)
        traced: Callable[..., Batch] = tf.function(
            lambda rows, start, end: self.batch_of(self.table.take(rows, start, end)),
            input_signature=[self.table.joined_spec(), number, number],
            autograph=False,
        )
        return traced


def reader_of(job: TrainJob) -> ExampleReader:
    """Returns the reader of a job's examples."""
    if job.transform == "ahead":
        return transformed_reader(job.ranker)
    if job.stream is not None or history_features(job.ranker):
        # A base's graph, which another version of the code may have written; or one with the newest counts beside it.
        return graph_reader(job.ranker, job.transform_graph)
    file = Path(job.transform_graph, FILE_NAME)
    return raw_reader(job.ranker, parse_statistics(str(file), file.read_bytes()))


def later_than(reader: ExampleReader, column: str, seconds: int) -> ExampleReader:
    """Returns a reader that leaves out rows with a time up to `seconds`; a row without a time stays.

    Args:
        reader: reader of the files.
        column: column with the time of the event.
        seconds: since 1970.
    """

    def keep(rows: Rows) -> tf.Tensor:
        times = reader.table.ragged(rows)[column].to_tensor(default_value=tf.int64.max, shape=[None, 1])
        return times[:, 0] > seconds

    return replace(reader, keep=keep)


def transformed_reader(spec: RankerSpec) -> ExampleReader:
    """Returns the reader of Transform's examples."""
    written = {output.name: output for output in outputs(spec)}
    table = Table({name: _TYPES[output.type] for name, output in written.items()})
    layout = Layout(spec)

    def batch_of(rows: Rows) -> Batch:
        with tf.control_dependencies(_wrong_lengths(table, rows, written)):
            found = table.ragged(rows)
        return layout.pack({name: _output_of(column, written[name]) for name, column in found.items()})

    return ExampleReader(table, batch_of, count_ids=ids_counter(table, lists_of(spec, is_raw=False)))


def raw_reader(spec: RankerSpec, statistics: Statistics) -> ExampleReader:
    """Returns the reader that transforms examples of the logs by the code that wrote Transform's graph.

    The graph takes each column apart and gives each feature by itself, as a request needs it: for a batch this costs
    more than to transform it.
    """
    table = _raw_table(spec)
    layout = Layout(spec)
    count_ids = ids_counter(table, lists_of(spec, is_raw=True))

    # Within a dataset only a function that stays one is optimized as Transform's graph is: a division by a constant
    # becomes a product, with another last bit.
    @tf.function(input_signature=[table.spec()], autograph=False, experimental_attributes={"_noinline": True})
    def batch_of(rows: Rows) -> Batch:
        return layout.pack(outputs_of(spec, statistics, table.columns(rows)))

    return ExampleReader(table, batch_of, count_ids=count_ids)


def graph_reader(spec: RankerSpec, folder: str) -> ExampleReader:
    """Returns the reader that transforms examples of the logs by the graph in a folder."""
    table = _raw_table(spec)
    layout = Layout(spec)
    transform = transform_graph(folder)
    count_ids = ids_counter(table, lists_of(spec, is_raw=True))
    return ExampleReader(table, lambda rows: layout.pack(transform(table.sparse(rows))), count_ids=count_ids)


def _raw_table(spec: RankerSpec) -> Table:
    """Returns the columns of the logs; those of features of a kind are next to one another, in their order."""
    types = {column.name: _RAW_TYPES[column.type] for column in columns(spec)}
    read = dict.fromkeys(column.name for name in spec.features for column in feature_columns(spec, name))
    return Table({name: types[name] for name in (*read, *types)})


def _output_of(column: tf.RaggedTensor, output: Output) -> tf.Tensor | tf.RaggedTensor:
    if output.is_list:
        return column
    return column.flat_values if output.width == 1 else tf.reshape(column.flat_values, [-1, output.width])


def _wrong_lengths(table: Table, rows: Rows, written: Mapping[str, Output]) -> list[tf.Operation]:
    """Returns checks that every row has as many values as its output says; one for all columns of a group."""
    checks = []
    for group, names in table.names.items():
        is_list_F = tf.constant([written[name].is_list for name in names])
        width_F = tf.constant([written[name].width for name in names], tf.int64)
        _, lengths_Fn = rows[group]
        is_wrong_F = ~is_list_F & tf.reduce_any(lengths_Fn != width_F[:, None], 1)
        wrong = tf.boolean_mask(tf.constant(names), is_wrong_F)
        message = "transformed examples: rows with another number of values than the spec says, in:"
        checks.append(tf.debugging.Assert(~tf.reduce_any(is_wrong_F), [message, wrong]))
    return checks
