"""What a trainer step is given: examples, their transformed selves and Transform's graph, of a small ranker."""

import json
from pathlib import Path
from typing import Any

from sangam.schemas.spec import RankerSpec

NUM_EXAMPLES = 640
DATE = "2024-03-04"


def ranker(**training: Any) -> RankerSpec:
    """Returns the ranker of the export's tests, with a job of two hosts and a data worker."""
    from tests.trainer_module.serving.sample_training import declared

    fields = json.loads(declared().model_dump_json())
    fields["training"] |= training
    fields["cluster"] |= {"ranks": 2, "data_workers": 1, "retries": 2, "deadline_s": 240, "heartbeat_timeout_s": 60}
    return RankerSpec.model_validate_json(json.dumps(fields))


def make_inputs(root: Path) -> None:
    """Writes the three artifacts."""
    import tensorflow as tf
    import tensorflow_transform as tft

    from sangam.components.reports.artifact_files import write_ingestion
    from sangam.components.reports.ingestion import IngestionReport
    from tests.components.examples.sample_files import write_examples
    from tests.trainer_module.serving.sample_training import encoded, rows, write_transform

    write_transform(root / "transform_graph")
    graph = tft.TFTransformOutput(str(root / "transform_graph"))
    layer = graph.transform_features_layer()
    raw = [encoded(row) for row in rows(NUM_EXAMPLES, seed=1)]
    dense = tf.io.parse_example(tf.constant(raw), graph.raw_feature_spec())
    transformed = {name: _values(value) for name, value in layer(dense).items()}
    made = [_example({name: each[number] for name, each in transformed.items()}) for number in range(NUM_EXAMPLES)]
    for key, rows_of in (("transformed_examples", made), ("examples", raw)):
        write_examples(root / key, {"train": {"2024-03-03": rows_of[:-100]}, "eval": {DATE: rows_of[-100:]}})
    days = {"train": ["2024-03-03"], "eval": [DATE]}
    write_ingestion(
        str(root / "examples"), IngestionReport(date=DATE, days=days, missing_days=[], splits={}, base=None)
    )


def _values(tensor: Any) -> list[Any]:
    """Returns the values of each example."""
    import tensorflow as tf

    if isinstance(tensor, tf.sparse.SparseTensor):
        return [row.numpy().tolist() for row in tf.RaggedTensor.from_sparse(tensor)]
    return [row.reshape(-1).tolist() for row in tensor.numpy()]


def _example(values: dict[str, list[Any]]) -> bytes:
    import tensorflow as tf

    feature = {}
    for name, found in values.items():
        if found and isinstance(found[0], float):
            feature[name] = tf.train.Feature(float_list=tf.train.FloatList(value=found))
        else:
            feature[name] = tf.train.Feature(int64_list=tf.train.Int64List(value=found))
    return bytes(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
