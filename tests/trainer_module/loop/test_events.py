"""What TensorBoard reads of a training."""

from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
pytest.importorskip("tensorflow")


def test_tensorboard_reads_losses_rates_validation_tables_and_norms(tmp_path: Path) -> None:
    import numpy as np
    import tensorflow as tf
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    from sangam.trainer_module.embedding.statistics import NORM_EDGES
    from sangam.trainer_module.loop.events import Events
    from tests.trainer_module.sample_job import declared, job

    made = job(tmp_path, declared(), ())
    events, tasks = Events(made), list(made.ranker.tasks)
    for step in range(1, 31):
        events.stepped(step, [1.0 / step] * len(tasks), 100.0)
    events.validated(30, {tasks[0]: {"auc": 0.75}})
    norms = [0] * (len(NORM_EDGES) - 1)
    norms[3] = 5
    users = {"rows": 5, "load_max_over_mean": None, "norms": norms}
    report = {"input_wait": 0.25, "rank_wait": None, "tables": {"users": users}}
    events.finished(30, report, NORM_EDGES.tolist())
    read = EventAccumulator(made.log_dir, {"tensors": 0})
    read.Reload()
    tags = set(read.Tags()["tensors"])
    assert {"input_wait", "tables/users/rows", "tables/users/norm", f"validation/auc/{tasks[0]}"} <= tags
    assert {f"loss/{task}" for task in tasks} | {"learning_rate/dense", "learning_rate/rows", "examples_per_s"} <= tags
    [first, *_] = read.Tensors(f"loss/{tasks[0]}")
    assert first.step == 10
    means = np.mean([1 / step for step in range(1, 11)])
    assert float(tf.make_ndarray(first.tensor_proto)) == pytest.approx(means, rel=1e-6)
    [norm] = read.Tensors("tables/users/norm")
    assert tf.make_ndarray(norm.tensor_proto)[3].tolist() == pytest.approx([NORM_EDGES[3], NORM_EDGES[4], 5])
