"""A history longer than the longest that a spec allows: its newest events are those that are trained and served."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.long]
tf = pytest.importorskip("tensorflow")

from sangam.pipelines.kit.encoding import example_of  # noqa: E402
from sangam.schemas.spec import RankerSpec  # noqa: E402
from tests.trainer_module import sample_kinds  # noqa: E402
from tests.trainer_module.sample_blocks import batch_of, write_blocks  # noqa: E402

LONGEST, LENGTHS = 4_096, (5_000, 4_096, 3)
"""Events of each row; the first two have the same newest ones."""
NOW = 1_700_000_000


def _declared() -> RankerSpec:
    training = {f"{part}_optimizer": {"kind": "adam", "learning_rate": 0.05} for part in ("dense", "embedding")}
    history = {
        "kind": "sequence",
        "type": "int",
        "table": "items",
        "max_length": LONGEST,
        "keep": "last",
        "encoder": {"kind": "hstu", "target": "item"},
        "beside": {"actions": {"kind": "id", "type": "int", "table": "actions"}},
        "times": {"column": "times", "at": "time"},
    }
    document = {
        "name": "long",
        "tables": {table: {"dim": 2} for table in ("items", "actions")},
        "features": {"item": {"kind": "id", "type": "int", "table": "items"}, "history": history},
        "tasks": {"like": {"kind": "binary"}},
        "model": {"kind": "single_task", "tower_units": [4]},
        "training": {"batch_size_per_rank": len(LENGTHS), **training},
    }
    return RankerSpec.model_validate_json(json.dumps(document))


def _logs() -> list[dict[str, list[Any]]]:
    generator = np.random.default_rng(0)
    events = {
        "history": generator.integers(0, 20, LENGTHS[0]).tolist(),
        "actions": generator.integers(0, 3, LENGTHS[0]).tolist(),
        "times": (NOW - np.sort(generator.integers(0, 10_000_000, LENGTHS[0]))[::-1]).tolist(),
    }
    # Of older events are other items, so that it would show if they were read.
    events["history"][: LENGTHS[0] - LONGEST] = [99] * (LENGTHS[0] - LONGEST)
    alone: dict[str, list[Any]] = {"item": [7], "time": [NOW], "like": [1]}
    return [alone | {name: values[-length:] for name, values in events.items()} for length in LENGTHS]


def test_of_5000_events_the_newest_4096_are_trained_and_served(tmp_path: Path) -> None:
    import tensorflow_transform as tft

    from sangam.schemas.derived.columns import serving_columns
    from sangam.trainer_module import collectives
    from sangam.trainer_module.check_scores import write_check
    from sangam.trainer_module.export import export
    from sangam.trainer_module.loop.in_step import InStepTrainer
    from sangam.trainer_module.ranker import Ranker
    from sangam.trainer_module.serving.raw_columns import inputs_of
    from tests.trainer_module.test_every_kind import _write_checkpoint

    collectives.start()
    declared, logs = _declared(), _logs()
    raw, graph, examples = [example_of(row) for row in logs], tmp_path / "graph", tmp_path / "examples.blocks"
    write_blocks(examples, raw)
    sample_kinds.write_transform(graph, declared.inputs(), logs)
    transform = tft.TFTransformOutput(str(graph))
    parsed = tf.io.parse_example(tf.constant(raw), transform.raw_feature_spec())
    found = transform.transform_features_layer()(parsed)
    trainer = InStepTrainer(Ranker(declared), rank=0, ranks=1)
    batch = batch_of(declared, sample_kinds.transformed(declared, found, len(raw)))
    assert batch["lengths"].numpy()[0].tolist() == [LONGEST, LONGEST, LENGTHS[2]]
    losses = [result.losses_T.numpy() for result in trainer.steps([batch, batch, batch])]
    assert np.isfinite(losses).all()
    assert losses[2] < losses[0]
    trained = trainer.predict(batch)["like"]
    np.testing.assert_array_equal(trained[0], trained[1])
    assert np.abs(trained[0] - trained[2]).max() > 1e-4

    job = sample_kinds.job_of(tmp_path, examples, graph, declared)
    _write_checkpoint(Path(job.final_checkpoint), trainer)
    write_check(job, 0, trainer.predict)
    # Refuses scores of whole rows that differ from the ranker's.
    export(job)
    columns = {column.name: column for column in serving_columns(declared)}
    rank = tf.saved_model.load(job.model_dir).signatures["rank"]
    served = rank(**inputs_of(columns, {name: parsed[name] for name in columns}))["like"].numpy()
    np.testing.assert_allclose(served[0], served[1], rtol=1e-6)
    np.testing.assert_allclose(np.ravel(served), np.ravel(trained), rtol=1e-5, atol=1e-6)
