"""Transform in an incremental training: the base's statistics of what has not changed, new ones of the rest."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sangam.schemas.contracts.statistics import Bins, Boundaries, Scale, Statistics
from sangam.schemas.errors import UserError
from sangam.schemas.spec import Inputs
from tests.beam_args import BEAM_ARGS
from tests.components.logs.sample_logs import ROWS, Row, day_logs, write_days
from tests.components.steps.transform import sample_run
from tests.errors import mentions, place_and_value

pytestmark = pytest.mark.slow

_HOUR = {"column": "hour", "type": "int"}


def inputs_of(**changes: Any) -> Inputs:
    """Returns inputs whose features are all made of one column; None removes one."""
    features: dict[str, Any] = {
        "user": {"kind": "id", "type": "string", "table": "users"},
        "tags": {"kind": "ids", "type": "string", "table": "tags", "combiner": "mean"},
        "hour": {"kind": "numeric", "type": "int", "normalize": "zscore"},
        "half": {"kind": "buckets", **_HOUR, "num_buckets": 2, "table": "halves"},
        "until_ten": {"kind": "numeric", **_HOUR, "normalize": "zscore", "clip": [0, 10]},
        "removed": {"kind": "numeric", **_HOUR, "normalize": "minmax"},
        "thirds": {"kind": "numeric", **_HOUR, "encoding": {"kind": "piecewise_linear", "bins": 3}},
    }
    features = {name: each for name, each in (features | changes).items() if each is not None}
    return Inputs.model_validate_json(json.dumps({"features": features, "tasks": {"like": {"kind": "binary"}}}))


INPUTS = inputs_of()
CHANGED = inputs_of(
    until_ten={"kind": "numeric", **_HOUR, "normalize": "zscore", "clip": [0, 200]},
    removed=None,
    fresh={"kind": "buckets", **_HOUR, "num_buckets": 3},
)


def ingested(root: Path, hour: int, base: Any = None) -> Any:
    """Writes Examples whose hours are around the given one; the report names the base."""
    from tfx.types import standard_artifacts

    from sangam.components.steps.example_gen.executor import Executor
    from sangam.components.steps.example_gen.start import Start

    rows: list[Row] = [{**row, "hour": hour + number} for number, row in enumerate(ROWS)]
    write_days(root / "logs", "parquet", dict.fromkeys(["2024-03-01", "2024-03-02", "2024-03-03"], rows))
    examples = standard_artifacts.Examples()
    examples.uri = str(root / "examples")
    properties = {
        "logs": day_logs().model_dump_json(),
        "inputs": INPUTS.model_dump_json(),
        "date": "2024-03-03",
        "data_root": str(root / "logs"),
        "name": "tiny",
        "mode": "incremental",
        "pipeline_root": str(root),
        "start": Start(base=base).model_dump_json(),
        "code": "",
    }
    Executor(Executor.Context(beam_pipeline_args=list(BEAM_ARGS))).Do({}, {"examples": [examples]}, properties)
    return examples


def transformed(root: Path, examples: Any, inputs: Inputs = INPUTS, code: str = "c") -> Any:
    """See `sample_run.transformed`."""
    return sample_run.transformed(root, examples, inputs, code)


def hours(root: Path) -> list[float]:
    from sangam.components.examples.listing import read_listing

    return sorted(hour for file in read_listing(str(root / "transformed")).files("train") for hour in hours_in(file))


def hours_in(file: str) -> list[float]:
    from sangam.components.examples.reading import batches

    return [hour for batch in batches(file) for [hour] in batch.column("hour").to_pylist()]


def base(root: Path) -> Any:
    from sangam.components.registry import seal
    from sangam.components.registry.base import Base

    graph = root / "graph"
    return Base(
        model_uri="model",
        checkpoint_uri="c",
        days=("2024-02-29",),
        transform_graph_uri=str(graph),
        inputs_digest="not read",
        checkpoint_sha256="",
        transform_graph_sha256=seal.seal(str(graph)) if graph.is_dir() else "",
    )


def statistics(root: Path) -> Statistics:
    return Statistics.model_validate_json((root / "graph" / "statistics.json").read_bytes())


def outputs(root: Path) -> dict[str, np.ndarray]:
    """Returns what the graph makes of some hours."""
    import tensorflow as tf
    import tensorflow_transform as tft

    every = [-5, 0, 8, 9, 10, 11, 12, 59, 109, 110, 2**20]
    hour = tf.sparse.from_dense(tf.constant(every, tf.int64)[:, None] + 10**6)
    hour = tf.SparseTensor(hour.indices, hour.values - 10**6, hour.dense_shape)
    texts = tf.sparse.from_dense(tf.fill([len(every), 1], "u"))
    found = tft.TFTransformOutput(str(root / "graph")).transform_raw_features(
        {"hour": hour, "user": texts, "tags": texts}
    )
    return {name: values.numpy() for name, values in found.items() if name not in ("tags", "user")}


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("first")
    graph = transformed(root, ingested(root, hour=8))
    assert graph.get_string_custom_property("note") == ""
    assert sum(hours(root)) == pytest.approx(0, abs=1e-5)
    return root


@pytest.fixture(scope="module")
def second(first: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A day with other hours and another declaration: its folder, and what is noted."""
    root = tmp_path_factory.mktemp("second")
    graph = transformed(root, ingested(root, hour=108, base=base(first)), CHANGED)
    return root, graph.get_string_custom_property("note")


def test_each_file_is_mapped_to_one_of_its_name_block_by_block(first: Path) -> None:
    from sangam.components.examples.listing import read_listing
    from sangam.components.examples.reading import batches

    raw, transformed = (read_listing(str(first / of)) for of in ("examples", "transformed"))
    assert [(day.day, day.names, day.rows) for day in transformed.splits["train"]] == [
        (day.day, day.names, day.rows) for day in raw.splits["train"]
    ]
    assert len(transformed.files("train")) == 2
    for before, after in zip(raw.files("train"), transformed.files("train"), strict=True):
        assert [batch.num_rows for batch in batches(after)] == [batch.num_rows for batch in batches(before)]
        found = hours_in(after)
        assert found == sorted(found)
        assert len(found) == len(ROWS)


def test_the_statistics_stand_beside_the_graph_as_plain_data(first: Path) -> None:
    found = statistics(first)
    assert (found.code, found.changed) == ("c", ())
    # Twice 8, 9, 10, 11: of mean 9.5 and variance 1.25.
    assert found.features["hour"].analyzed == Scale(offset=9.5, width=float(np.float32(1.25**0.5)))
    assert found.features["half"].analyzed == Boundaries(lowest=(10.0,))
    assert found.features["removed"].analyzed == Scale(offset=8.0, width=3.0)
    assert found.features["thirds"].analyzed == Bins(ends=(8.0, 9.0, 10.0, 11.0))
    assert set(found.features) == {"hour", "half", "until_ten", "removed", "thirds"}


def test_features_that_did_not_change_are_what_they_were_to_the_last_bit(first: Path, second: tuple[Path, str]) -> None:
    before, after = outputs(first), outputs(second[0])
    assert before["thirds"].tolist() == [0, 0, 0, 1, 2, 3, 3, 3, 3, 3, 3]
    for name in ("hour", "half", "thirds"):
        assert before[name].tobytes() == after[name].tobytes()
        assert statistics(first).features[name] == statistics(second[0]).features[name]
    # The new day's rows were mapped so.
    expected = [(hour + 100) / 1.25**0.5 for hour in (-1.5, -0.5, 0.5, 1.5)]
    assert hours(second[0])[::2] == pytest.approx(expected, rel=1e-5)


def test_new_and_changed_features_are_analyzed_over_the_new_days(second: tuple[Path, str]) -> None:
    found = statistics(second[0]).features
    assert found["until_ten"].analyzed == Scale(offset=109.5, width=float(np.float32(1.25**0.5)))
    assert found["fresh"].analyzed == Boundaries(lowest=(109.0, 110.0))
    assert "removed" not in found


def test_what_was_analyzed_anew_is_told_to_the_user_and_to_the_trainer(second: tuple[Path, str]) -> None:
    root, note = second
    assert statistics(root).changed == ("until_ten",)
    changed, new = note.splitlines()
    assert mentions(changed, "(until_ten: clip was [0.0, 10.0], is [0.0, 200.0])")
    assert new.endswith(": fresh")


@pytest.mark.long
@pytest.mark.parametrize(("is_gone", "code"), [(True, "c"), (False, "other")], ids=["no statistics", "other code"])
def test_where_nothing_can_be_kept_all_is_analyzed_anew_and_told(
    first: Path, tmp_path: Path, is_gone: bool, code: str
) -> None:
    given = base(tmp_path / "nowhere" if is_gone else first)
    graph = transformed(tmp_path, ingested(tmp_path, hour=108, base=given), code=code)
    note = graph.get_string_custom_property("note")
    assert ("are gone" if is_gone else "code of Transform") in note
    assert "half, hour, removed, thirds, until_ten" in note
    assert set(statistics(tmp_path).changed) == {"half", "hour", "removed", "thirds", "until_ten"}
    assert sum(hours(tmp_path)) == pytest.approx(0, abs=1e-4)


def test_statistics_of_another_format_are_refused(first: Path, tmp_path: Path) -> None:
    import shutil

    from sangam.components.steps.transform.executor import _comparison

    shutil.copytree(first / "graph", tmp_path / "graph")
    file = tmp_path / "graph" / "statistics.json"
    file.write_text(json.dumps(json.loads(file.read_bytes()) | {"format": 2}))
    with pytest.raises(UserError, match=place_and_value(str(file), "(got 2)")):
        _comparison(INPUTS, base(tmp_path), "c")


def test_statistics_are_taken_from_the_graph_of_the_blessed_base_alone(first: Path, tmp_path: Path) -> None:
    import shutil

    from sangam.components.steps.transform.executor import _comparison

    shutil.copytree(first / "graph", tmp_path / "graph")
    given = base(tmp_path)
    found = _comparison(INPUTS, given, "c")
    assert found is not None
    assert "hour" in found.kept
    path = tmp_path / "graph" / "transform_fn" / "saved_model.pb"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(
        UserError, match=place_and_value("...graph", "(got transform_fn/saved_model.pb: ...) ... again")
    ):
        _comparison(INPUTS, given, "c")
    shutil.rmtree(tmp_path / "graph")
    found = _comparison(INPUTS, given, "c")
    assert found is not None
    assert not found.kept
