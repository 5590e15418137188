"""Every architecture, feature, encoder, task, loss, optimizer, schedule and balance: trained, exported and served."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.slow
tf = pytest.importorskip("tensorflow")

from tests.errors import place_and_value  # noqa: E402
from tests.trainer_module import sample_kinds as every_kind  # noqa: E402


class World:
    """Raw examples of all specs, and Transform's graph of each."""

    def __init__(self, root: Path):
        from trainer_module import collectives

        collectives.start()
        self._root, self._logs = root, every_kind.rows(every_kind.NUM_EXAMPLES)
        self.raw = [every_kind.encoded(row) for row in self._logs]
        self.examples = root / "examples.tfrecord"
        with tf.io.TFRecordWriter(str(self.examples)) as writer:
            for example in self.raw:
                writer.write(example)

    def transform(self, name: str) -> Path:
        """Returns the folder of a spec's graph; specs with the same features share it."""
        folder = self._root / ("all" if name == every_kind.WITH_ALL_FEATURES else "few")
        if not folder.exists():
            every_kind.write_transform(folder, every_kind.inputs(name), self._logs)
        return folder

    def examples_of(self, name: str) -> Any:
        """Returns a spec's transformed examples, serialized."""
        import tensorflow_transform as tft

        transform = tft.TFTransformOutput(str(self.transform(name)))
        parsed = tf.io.parse_example(tf.constant(self.raw), transform.raw_feature_spec())
        found = transform.transform_features_layer()(parsed)
        return tf.constant(every_kind.transformed(every_kind.spec(name).ranker(), found, len(self.raw)))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("every_kind"))


def test_the_specs_have_every_member_of_every_union_of_the_schema() -> None:
    declared = {kind for name in every_kind.NAMES for kind in every_kind.declared_in(every_kind.spec(name).ranker())}
    assert every_kind.kinds() <= declared, sorted(kind.__name__ for kind in every_kind.kinds() - declared)


def _write_checkpoint(target: Path, trainer: Any) -> None:
    from schemas.spec import digest
    from trainer_module.checkpoint.layout import group_layouts, weight_layouts
    from trainer_module.checkpoint.manifest import Manifest
    from trainer_module.checkpoint.writer import Contents, write
    from trainer_module.input.position import Position

    declared, snapshot = trainer.ranker.spec, trainer.snapshot()
    manifest = Manifest(
        step=snapshot.step,
        ranks=1,
        spec_digest=digest(declared),
        job_digest="job",
        seed=declared.training.seed,
        days=(),
        position=Position(),
        groups=group_layouts(declared),
        weights=weight_layouts(trainer.ranker.weights.weights),
    )
    write(target, Contents(manifest, snapshot, np.zeros((0, 2), np.int64), b"{}", {}), 0, deadline_s=1.0)


@pytest.mark.parametrize("name", every_kind.NAMES)
def test_a_step_is_trained_and_what_is_served_scores_as_the_ranker_does(
    name: str, world: World, tmp_path: Path
) -> None:
    from trainer_module.check_scores import read_check, write_check
    from trainer_module.export import export
    from trainer_module.input.batch import parser
    from trainer_module.loop.trainer import Trainer
    from trainer_module.ranker import Ranker

    declared = every_kind.spec(name).ranker()
    trainer = Trainer(Ranker(declared), rank=0, ranks=1)
    before = trainer.dense.flat.numpy()
    batch = parser(declared)(world.examples_of(name))
    losses = [result.losses_T.numpy() for result in trainer.steps([batch, batch, batch])]
    assert np.isfinite(losses).all()
    assert (losses[0] != losses[1]).any()
    moved = trainer.ranker.weights.by_name(trainer.dense.flat.numpy() != before)
    # A relu may be closed for all of the few examples; no weight stands aside as a whole.
    assert {weight: bool(changed.any()) for weight, changed in moved.items() if not changed.any()} == {}

    job = every_kind.job_of(tmp_path, world.examples, world.transform(name), declared)
    _write_checkpoint(Path(job.final_checkpoint), trainer)
    write_check(job, 0, trainer.predict)
    # Refuses scores that differ from the ranker's.
    export(job)
    raw, expected = read_check(Path(job.output_dir))
    assert len(raw) == every_kind.NUM_EXAMPLES
    if name == every_kind.WITH_ALL_FEATURES:
        _assert_candidates_score_alike(job, world.raw, expected)


def _assert_candidates_score_alike(job: Any, raw: list[bytes], expected: dict[str, np.ndarray]) -> None:
    """Asks for candidates by their columns, all rows apart, and then one user's columns once for all."""
    from schemas.derived.columns import serving_columns
    from trainer_module.serving.raw_columns import inputs_of

    columns = {column.name: column for column in serving_columns(job.ranker)}
    assert not {"position", "page", "place"} & set(columns)
    kinds = {"int": tf.int64, "float": tf.float32, "string": tf.string}
    parsed = tf.io.parse_example(
        tf.constant(raw), {name: tf.io.VarLenFeature(kinds[column.type]) for name, column in columns.items()}
    )
    inputs = inputs_of(columns, parsed)
    rank = tf.saved_model.load(job.model_dir).signatures["rank"]
    for task, scores in rank(**inputs).items():
        np.testing.assert_allclose(scores.numpy(), expected[task], rtol=1e-5, atol=1e-5)
    candidates = {"item", "price", "image", "image_length", "posted"}
    once = {column: values if column in candidates else values[:1] for column, values in inputs.items()}
    repeated = {column: tf.repeat(values, len(raw) // len(values), axis=0) for column, values in once.items()}
    of_repeated = rank(**repeated)
    for task, scores in rank(**once).items():
        np.testing.assert_allclose(scores.numpy(), of_repeated[task].numpy(), rtol=1e-5, atol=1e-5)
    wrong = inputs | {"tag_weights_length": tf.maximum(inputs["tag_weights_length"] - 1, 0)}
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=place_and_value("rank", "tag_weights_length ... tags_length")
    ):
        rank(**wrong)
