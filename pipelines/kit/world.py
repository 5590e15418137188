"""Transform's graph, batches and a trainer of a spec, in this process."""

import functools
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import tensorflow as tf
import tensorflow_transform as tft

from sangam.components.examples.blocks import encode
from sangam.components.steps.schema_gen.schema import tfmd_schema
from sangam.components.steps.transform.graph import write_graph
from sangam.pipelines.kit.around import Rows, around_nothing
from sangam.pipelines.kit.encoding import example_of
from sangam.schemas.contracts.statistics import FILE_NAME, Statistics, completed
from sangam.schemas.contracts.training_job import TrainJob
from sangam.schemas.derived.columns import columns
from sangam.schemas.spec import RankerSpec, Spec, digest
from sangam.trainer_module import collectives
from sangam.trainer_module.checkpoint.layout import group_layouts, weight_layouts
from sangam.trainer_module.checkpoint.manifest import Manifest
from sangam.trainer_module.checkpoint.writer import Contents, write
from sangam.trainer_module.input.batch import Batch, Layout
from sangam.trainer_module.input.position import Position
from sangam.trainer_module.loop.in_step import InStepTrainer
from sangam.trainer_module.ranker import Ranker
from sangam.trainer_module.transforms.preprocessing import preprocessing_fn

_ARROW = {"int": pa.int64(), "float": pa.float32(), "string": pa.large_binary()}


class World:
    """A spec with its graph on disk.

    Attributes:
        spec: the spec.
        ranker: the spec as a training has it.
        graph: folder of Transform's graph.
    """

    def __init__(self, spec: Spec, folder: Path):
        """Writes the graph.

        Args:
            spec: a spec without features that need statistics.
            folder: existing folder for all files.
        """
        collectives.start()
        self.spec, self._folder = spec, folder
        self.ranker: RankerSpec = spec.ranker()
        self.graph = folder / "graph"
        plain = around_nothing()
        if set(plain.features) == set(spec.features):
            shutil.copytree(_plain_graph().name, self.graph)
        else:
            _write_graph(spec, self.graph)

    def blocks(self, rows: Rows) -> bytes:
        """Returns rows as one block of examples."""
        types = {column.name: pa.list_(_ARROW[column.type]) for column in columns(self.spec)}
        values = [pa.array([row.get(name) or None for row in rows], of) for name, of in types.items()]
        return encode(pa.RecordBatch.from_arrays(values, list(types)))

    @functools.cached_property
    def _transform(self) -> Any:
        output = tft.TFTransformOutput(str(self.graph))
        return output, output.transform_features_layer()

    def batch(self, rows: Rows) -> Batch:
        """Returns rows as the trainer gets them."""
        output, layer = self._transform
        serialized = tf.constant([example_of(row) for row in rows])
        found = layer(tf.io.parse_example(serialized, output.raw_feature_spec()))
        return Layout(self.ranker).pack(found)

    def trainer(self) -> InStepTrainer:
        """Returns a new trainer with its initial weights."""
        return InStepTrainer(Ranker(self.ranker), rank=0, ranks=1)

    def job(self, rows: Rows) -> TrainJob:
        """Returns a job whose check examples are these rows."""
        examples, output = self._folder / "check.blocks", self._folder / "output"
        with tf.io.TFRecordWriter(str(examples)) as writer:
            writer.write(self.blocks(rows))
        output.mkdir()
        return TrainJob(
            ranker=self.ranker,
            spec_digest=digest(self.ranker),
            train_files=(),
            check_files=(str(examples),),
            transform_graph=str(self.graph),
            model_dir=str(self._folder / "model"),
            output_dir=str(output),
            final_checkpoint=str(self._folder / "checkpoint"),
            checkpoint_dir="",
            log_dir=str(self._folder),
        )

    def save(self, trainer: InStepTrainer, target: Path) -> Manifest:
        """Writes a checkpoint of one rank."""
        snapshot = trainer.snapshot()
        manifest = Manifest(
            step=snapshot.step,
            ranks=1,
            spec_digest=digest(self.ranker),
            job_digest="kit",
            seed=self.ranker.training.seed,
            days=(),
            position=Position(),
            groups=group_layouts(self.ranker),
            weights=weight_layouts(trainer.ranker.weights.weights),
            calibrations={},
        )
        write(target, Contents(manifest, snapshot, np.zeros((0, 2), np.int64), b"{}", {}), 0, deadline_s=60.0)
        return manifest


@functools.cache
def _plain_graph() -> "tempfile.TemporaryDirectory[str]":
    """Returns the folder of the graph without a feature of others, which all other parts share: half of their seconds.

    It is removed when the process ends.
    """
    folder = tempfile.TemporaryDirectory(prefix="sangam-part-graph-")
    _write_graph(around_nothing(), Path(folder.name))
    return folder


def _write_graph(spec: Spec, folder: Path) -> None:
    statistics = Statistics(code="", features=completed(spec, {}, {}))
    config = {"inputs": spec.inputs().model_dump_json(), "statistics": statistics.model_dump_json()}
    preprocess = functools.partial(preprocessing_fn, custom_config=config)
    write_graph(str(folder), preprocess, tfmd_schema(spec))
    (folder / FILE_NAME).write_text(statistics.model_dump_json(), encoding="utf-8")
