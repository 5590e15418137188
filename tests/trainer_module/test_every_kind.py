"""Every architecture, feature, encoder, task, loss, optimizer, schedule and balance: trained, exported and served."""

import gc
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.slow
tf = pytest.importorskip("tensorflow")

from sangam.pipelines.kit.encoding import example_of  # noqa: E402
from sangam.schemas.contracts.export import DESCRIPTION_FILE, read_description  # noqa: E402
from sangam.schemas.parts.roles import (  # noqa: E402
    Architecture,
    BinaryLoss,
    Encoder,
    Interaction,
    RegressionLoss,
)
from sangam.schemas.spec.tasks import BinaryTask  # noqa: E402
from tests.errors import place_and_value  # noqa: E402
from tests.registered_kinds import ours  # noqa: E402
from tests.trainer_module import sample_kinds as every_kind  # noqa: E402
from tests.trainer_module.launch.data_workers import data_worker  # noqa: E402
from tests.trainer_module.online.streams import online_job, started, write_segments  # noqa: E402
from tests.trainer_module.sample_blocks import batch_of, write_blocks  # noqa: E402

_IN_MAKE_TEST = ("ple", every_kind.OUTSIDE)
BLOCK_ROWS = 20
"""Several blocks, the last one not full."""


class World:
    """Raw examples of all specs, and Transform's graph of each."""

    def __init__(self, root: Path):
        from sangam.trainer_module import collectives

        collectives.start()
        self._root, self.logs = root, every_kind.rows(every_kind.NUM_EXAMPLES)
        self.raw = [example_of(row) for row in self.logs]
        self.examples = root / "examples.blocks"
        write_blocks(self.examples, self.raw, BLOCK_ROWS)

    def transform(self, name: str) -> Path:
        """Returns the folder of a spec's graph; specs with the same features share it."""
        sets = {every_kind.WITH_ALL_FEATURES: "all", every_kind.WITH_HISTORY: "few_and_history"}
        sets[every_kind.OUTSIDE] = "outside"
        folder = self._root / sets.get(name, "few")
        if not folder.exists():
            every_kind.write_transform(folder, every_kind.inputs(name), self.logs)
        return folder

    def examples_of(self, name: str, raw: list[bytes] | None = None) -> list[bytes]:
        """Returns a spec's transformed examples, serialized; of the world's rows by default."""
        import tensorflow_transform as tft

        from sangam.trainer_module.transforms.history import HistoryTables

        transform = tft.TFTransformOutput(str(self.transform(name)))
        raw = self.raw if raw is None else raw
        parsed = tf.io.parse_example(tf.constant(raw), transform.raw_feature_spec())
        parsed |= HistoryTables(str(self.transform(name)))(parsed)
        found = transform.transform_features_layer()(parsed)
        return every_kind.transformed(every_kind.spec(name).ranker(), found, len(raw))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("every_kind"))


@pytest.fixture(autouse=True)
def _trainers_of_the_test() -> Iterator[None]:
    """Frees them after each test: those of all tests together would reserve what the machine has."""
    yield
    gc.collect()


def test_the_specs_have_every_member_of_every_union_of_the_schema() -> None:
    declared = {kind for name in every_kind.NAMES for kind in every_kind.declared_in(every_kind.spec(name).ranker())}
    assert every_kind.kinds() <= declared, sorted(kind.__name__ for kind in every_kind.kinds() - declared)


@pytest.mark.long
def test_transformed_when_they_are_read_the_batches_are_those_transformed_ahead(world: World, tmp_path: Path) -> None:
    from sangam.trainer_module.input.local_reader import own_batches

    ranker, readers = _readers(every_kind.WITH_HISTORY, world, tmp_path, shuffle_buffer=40)
    raw, ahead = (
        list(own_batches(ranker, [file], epoch=0, rank=0, ranks=1, reader=reader)) for file, reader in readers
    )
    assert [len(batch["labels"]) for batch in raw] == [13] * 7 + [5]
    _assert_equal(raw, ahead)


@pytest.mark.long
def test_transformed_by_another_process_the_batches_are_those_transformed_ahead(world: World, tmp_path: Path) -> None:
    from sangam.trainer_module.input.service_reader import PoolEpoch, training_parts

    ranker, readers = _readers(every_kind.WITH_ALL_FEATURES, world, tmp_path, shuffle_buffer=40, data_workers=1)
    dispatcher = tf.data.experimental.service.DispatchServer()
    address = dispatcher.target.split("://")[1]
    with data_worker(tmp_path / "worker", address):
        raw, ahead = (
            list(
                PoolEpoch(
                    reader,
                    training_parts(ranker, [file], 0),
                    13,
                    service=address,
                    name=file,
                    trained=np.zeros([0, 2], np.int64),
                )
            )
            for file, reader in readers
        )
    assert sum(len(batch["labels"]) for batch in raw) == every_kind.NUM_EXAMPLES
    _assert_equal(raw, ahead)


def test_transformed_when_they_are_read_the_losses_and_the_trained_state_are_those_of_examples_transformed_ahead(
    world: World, tmp_path: Path
) -> None:
    from sangam.trainer_module.loop.training import train

    ranker, [(raw, _), (ahead, _)] = _readers("mmoe", world, tmp_path, shuffle_buffer=40)
    for where, file in (("in_pool", raw), ("ahead", ahead)):
        job = every_kind.job_of(tmp_path / where, world.examples, world.transform("mmoe"), ranker)
        checkpoints = tmp_path / where / "checkpoints"
        checkpoints.mkdir()
        changes = {
            "transform": where,
            "train_files": (file,),
            "validation_files": (file,),
            "check_files": (),
            "checkpoint_dir": str(checkpoints),
        }
        train(job.model_copy(update=changes), "", "0", rank=0, ranks=1)
    left = [path.relative_to(tmp_path / "ahead") for path in sorted((tmp_path / "ahead").rglob("*.npy"))]
    assert {path.name.split(".")[0] for path in left} >= {"losses", "dense", "rank-00000"}
    for path in left:
        assert (tmp_path / "in_pool" / path).read_bytes() == (tmp_path / "ahead" / path).read_bytes(), path
    report = json.loads((tmp_path / "in_pool" / "output" / "training.json").read_text())
    assert [epoch["examples"] for epoch in report["epochs"]] == [every_kind.NUM_EXAMPLES]
    assert report["layers"].startswith("dense layers: ")
    assert len(report["by_rank"]) == report["ranks"]
    for rank in report["by_rank"]:
        assert 0 < rank["input_wait"] < 1
        assert rank["rank_wait"] == 0  # There is one.
        assert rank["peak_memory_bytes"] > 100 * 2**20
    assert 0 < report["input_wait"] == report["epochs"][0]["input_wait"] < 1


@pytest.mark.parametrize(("name", "task"), [("ple", "like"), ("ple", "seconds"), ("mmoe", "share")])
def test_smaller_rows_are_judged_by_the_labels_of_those_who_take_part(
    name: str, task: str, world: World, tmp_path: Path
) -> None:
    from sangam.trainer_module.serving.reduction import labels_of

    ranker = every_kind.spec(name).ranker()
    where = ranker.tasks[task].only_where
    expected = [row[task][0] if row[task] and (where is None or row[where] == [1]) else np.nan for row in world.logs]
    assert np.isnan(expected).any() == (task != "seconds")
    found = labels_of(every_kind.job_of(tmp_path, world.examples, world.transform(name), ranker))
    np.testing.assert_array_equal(found[task][:, 0], np.array(expected, np.float32))


def _readers(
    name: str, world: World, folder: Path, *, shuffle_buffer: int, data_workers: int = 0
) -> tuple[Any, list[tuple[str, Any]]]:
    """Returns a ranker, and its examples as the logs have them and as Transform has written them, with their readers.

    The batches have an odd number of rows: none is computed in whole vectors.
    """
    from sangam.schemas.contracts.statistics import FILE_NAME, Statistics
    from sangam.trainer_module.input.example_reader import graph_reader, raw_reader, transformed_reader

    ranker = every_kind.spec(name).ranker()
    training = ranker.training.model_copy(update={"batch_size_per_rank": 13, "shuffle_buffer": shuffle_buffer})
    cluster = ranker.cluster.model_copy(update={"data_workers": data_workers})
    ranker = ranker.model_copy(update={"training": training, "cluster": cluster})
    ahead = folder / world.examples.name
    write_blocks(ahead, world.examples_of(name), BLOCK_ROWS)
    folder = world.transform(name)
    statistics = Statistics.model_validate_json((folder / FILE_NAME).read_bytes())
    # Counts of earlier days are in no batch that is transformed here: only the graph of a base gives the newest.
    reader = graph_reader(ranker, str(folder)) if name == every_kind.WITH_HISTORY else raw_reader(ranker, statistics)
    return ranker, [(str(world.examples), reader), (str(ahead), transformed_reader(ranker))]


def _assert_equal(batches: list[Any], expected: list[Any]) -> None:
    assert len(batches) == len(expected)
    for batch, other in zip(batches, expected, strict=True):
        assert set(batch) == set(other)
        for tensor in batch:
            np.testing.assert_array_equal(batch[tensor].numpy(), other[tensor].numpy(), tensor)


def _write_checkpoint(target: Path, trainer: Any) -> None:
    from sangam.schemas.spec import digest
    from sangam.trainer_module.checkpoint.layout import group_layouts, weight_layouts
    from sangam.trainer_module.checkpoint.manifest import Manifest
    from sangam.trainer_module.checkpoint.writer import Contents, write
    from sangam.trainer_module.input.position import Position

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
        calibrations=dict(trainer.ranker.calibrations),
    )
    write(target, Contents(manifest, snapshot, np.zeros((0, 2), np.int64), b"{}", {}), 0, deadline_s=1.0)


@pytest.mark.parametrize(
    "name",
    [name if name in _IN_MAKE_TEST else pytest.param(name, marks=pytest.mark.long) for name in every_kind.NAMES],
)
def test_a_step_is_trained_and_what_is_served_scores_as_the_ranker_does(
    name: str, world: World, tmp_path: Path
) -> None:
    from sangam.trainer_module.check_scores import read_check, write_check
    from sangam.trainer_module.export import export
    from sangam.trainer_module.loop.in_step import InStepTrainer
    from sangam.trainer_module.loop.validation import validate
    from sangam.trainer_module.progress import Progress
    from sangam.trainer_module.ranker import Ranker

    declared = every_kind.spec(name).ranker()
    job = every_kind.job_of(tmp_path, world.examples, world.transform(name), declared)
    trainer = InStepTrainer(Ranker(declared), rank=0, ranks=1)
    before = trainer.dense.flat.numpy()
    batch = batch_of(declared, world.examples_of(name))
    losses = [result.losses_T.numpy() for result in trainer.steps([batch, batch, batch])]
    assert np.isfinite(losses).all()
    assert (losses[0] != losses[1]).any()
    moved = trainer.ranker.weights.by_name(trainer.dense.flat.numpy() != before)
    # A relu may be closed for all of the few examples; no weight stands aside as a whole.
    assert {weight: bool(changed.any()) for weight, changed in moved.items() if not changed.any()} == {}

    trainer.ranker.calibrations = validate(trainer, [batch], Progress(job, 0), ("2024-03-05",)).calibrations
    wanted = {task for task, kind in declared.tasks.items() if isinstance(kind, BinaryTask) and kind.calibration}
    assert {task for task, fitted in trainer.ranker.calibrations.items() if not fitted.problem} == wanted
    _write_checkpoint(Path(job.final_checkpoint), trainer)
    write_check(job, 0, trainer.predict)
    # Refuses scores that differ from the ranker's.
    export(job)
    raw, expected = read_check(Path(job.output_dir))
    assert len(raw) == every_kind.NUM_EXAMPLES
    described = read_description("ranker.json", (Path(job.model_dir) / DESCRIPTION_FILE).read_bytes())
    said = described.tasks
    assert {task: told.calibration for task, told in said.items() if told.calibration} == trainer.ranker.calibrations
    assert described.history_as_of == (every_kind.HISTORY_AS_OF if name == every_kind.WITH_HISTORY else None)
    if name == every_kind.WITH_ALL_FEATURES:
        _assert_candidates_score_alike(job, world.raw, expected)


def test_rows_that_arrive_are_learned_and_served_with_the_counts_of_the_base(world: World, tmp_path: Path) -> None:
    from sangam.schemas.contracts.training_job import JOB_FILE, read_job
    from sangam.trainer_module.export import export
    from sangam.trainer_module.online.full_version import request_full_version
    from sangam.trainer_module.online.reading import SegmentReader

    name, rows = every_kind.WITH_HISTORY, every_kind.rows(2 * every_kind.NUM_EXAMPLES)
    declared, arrived = every_kind.spec(name).ranker(), rows[every_kind.NUM_EXAMPLES :]
    arrived[0] = arrived[0] | {"user": ["new today"], "item": [10**6]}
    raw = [example_of(row) for row in arrived]
    made = online_job(tmp_path, declared, base=None).model_copy(
        update={"transform": "in_pool", "transform_graph": str(world.transform(name))}
    )
    write_segments(tmp_path / "examples", raw, rows=len(raw))
    ahead, before = world.examples_of(name, raw), _counts_before(world, arrived)
    assert [float(_value_of(example, "user_item_count")) for example in ahead] == pytest.approx(before)
    assert (before[0], {*before} > {0.0}) == (0.0, True)
    _assert_equal(SegmentReader(made, rank=0, ranks=1).batches(1), [batch_of(declared, ahead)])

    learner, checkpoints, trainer = started(made)
    learner.train(1)
    learner.note()
    request_full_version(made, trainer, learner._history, checkpoints, 1, segment=1)
    checkpoints.finish()
    # Refuses scores that differ from the trainer's.
    export(full := read_job(made.full_version_folder(1) / JOB_FILE))
    described = read_description("ranker.json", (Path(full.model_dir) / DESCRIPTION_FILE).read_bytes())
    assert described.history_as_of == every_kind.HISTORY_AS_OF


def _counts_before(world: World, rows: list[dict[str, list[Any]]]) -> list[float]:
    """Returns log(1 + how many rows of the world have the user and the item), 0 for a row without one of them."""
    pairs = Counter((*row["user"], *row["item"]) for row in world.logs)
    read = [(*row["user"], *row["item"]) for row in rows]
    return [float(np.log1p(pairs[pair] if len(pair) == 2 else 0)) for pair in read]


def _value_of(example: bytes, name: str) -> float:
    [value] = tf.train.Example.FromString(example).features.feature[name].float_list.value
    return float(value)


def _assert_candidates_score_alike(job: Any, raw: list[bytes], expected: dict[str, np.ndarray]) -> None:
    """Asks for candidates by their columns, all rows apart, and then one user's columns once for all."""
    from sangam.schemas.derived.columns import serving_columns
    from sangam.trainer_module.serving.raw_columns import inputs_of

    columns = {column.name: column for column in serving_columns(job.ranker)}
    assert not {"position", "page", "place"} & set(columns)
    kinds = {"int": tf.int64, "float": tf.float32, "string": tf.string}
    parsed = tf.io.parse_example(
        tf.constant(raw), {name: tf.io.VarLenFeature(kinds[column.type]) for name, column in columns.items()}
    )
    inputs = inputs_of(columns, parsed)
    signatures = tf.saved_model.load(job.model_dir).signatures
    rank = signatures["rank"]
    for task, scores in rank(**inputs).items():
        np.testing.assert_allclose(scores.numpy(), expected[task], rtol=1e-5, atol=1e-5)
    candidates = {"item", "price", "image", "image_length", "posted"}
    once = {column: values if column in candidates else values[:1] for column, values in inputs.items()}
    repeated = {column: tf.repeat(values, len(raw) // len(values), axis=0) for column, values in once.items()}
    of_repeated = rank(**repeated)
    for task, scores in rank(**once).items():
        np.testing.assert_allclose(scores.numpy(), of_repeated[task].numpy(), rtol=1e-5, atol=1e-5)
    another = {column: values if column in candidates else values[-1:] for column, values in inputs.items()}
    both = {column: tf.concat([values, another[column]], 0) for column, values in once.items()}
    number = tf.repeat(tf.range(2), len(raw))
    alone = [rank(**once), rank(**another)]
    for task, scores in signatures["rank_several"](**both, request_number=number).items():
        expected_of_both = np.concatenate([answer[task] for answer in alone])
        np.testing.assert_allclose(scores.numpy(), expected_of_both, rtol=1e-5, atol=1e-5)
    wrong = inputs | {"tag_weights_length": tf.maximum(inputs["tag_weights_length"] - 1, 0)}
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=place_and_value("rank", "tag_weights_length ... tags_length")
    ):
        rank(**wrong)


def test_every_kind_of_the_product_has_its_computation_registered() -> None:
    from sangam.trainer_module.encoders import encoder_of
    from sangam.trainer_module.interactions import build_interaction
    from sangam.trainer_module.losses.examples import losses_of
    from sangam.trainer_module.models import task_heads

    for role, registered in (
        (Interaction, build_interaction),
        (Architecture, task_heads),
        (Encoder, encoder_of),
        (BinaryLoss, losses_of),
        (RegressionLoss, losses_of),
    ):
        kinds = ours(role).values()
        assert len(kinds) > 1
        assert [kind for kind in kinds if registered.dispatch(kind) is registered.dispatch(object)] == []
