"""Transform in an incremental training: the base's graph, or a new one and the reason."""

import json
from pathlib import Path
from typing import Any

import pytest

from schemas.spec import Inputs, digest
from tests.components.evaluation_world import BEAM_ARGS
from tests.components.small_logs import ROWS, Row, day_logs, write_days

pytestmark = pytest.mark.slow

INPUTS = Inputs.model_validate_json(
    """{
    "features": {
        "user": {"kind": "id", "type": "string", "table": "users"},
        "tags": {"kind": "ids", "type": "string", "table": "tags", "combiner": "mean"},
        "hour": {"kind": "numeric", "type": "int", "normalise": "zscore"}
    },
    "tasks": {"like": {"kind": "binary"}}
    }"""
)
CODE = "digest-of-the-code"
OTHER_INPUTS = INPUTS.model_copy(update={"tasks": INPUTS.tasks | {"second": INPUTS.tasks["like"]}})


def ingested(root: Path, hour: int, base: Any = None) -> Any:
    """Writes Examples whose hours are around the given one; the report names the base."""
    from tfx.types import standard_artifacts

    from components.example_gen.executor import Executor
    from components.example_gen.start import Start

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


def transformed(root: Path, examples: Any) -> Any:
    """Runs the executor; returns the artifact of the graph. The Examples lie in `root / "transformed"`."""
    from tfx.types import standard_artifacts

    from components.schema_gen.executor import Executor as SchemaGenExecutor
    from components.transform.executor import Executor

    schema, graph, output = standard_artifacts.Schema(), standard_artifacts.TransformGraph(), type(examples)()
    schema.uri, graph.uri, output.uri = str(root / "schema"), str(root / "graph"), str(root / "transformed")
    SchemaGenExecutor().Do({}, {"schema": [schema]}, {"inputs": INPUTS.model_dump_json()})
    Executor(Executor.Context(beam_pipeline_args=list(BEAM_ARGS))).Do(
        {"examples": [examples], "schema": [schema]},
        {"transform_graph": [graph], "transformed_examples": [output]},
        {
            "preprocessing_fn": "trainer_module.preprocessing.preprocessing_fn",
            "custom_config": json.dumps({"inputs": INPUTS.model_dump_json(), "code": CODE}),
            "disable_statistics": 1,
        },
    )
    return graph


def records(root: Path, split: str) -> list[str]:
    """Returns the Examples of a split as text, sorted."""
    import tensorflow as tf

    files = sorted(str(path) for path in (root / "transformed" / f"Split-{split}").iterdir())
    dataset = tf.data.TFRecordDataset(files, compression_type="GZIP")
    return sorted(str(tf.train.Example.FromString(record)) for record in dataset.as_numpy_iterator())


def hours(root: Path) -> list[float]:
    import tensorflow as tf

    files = sorted(str(path) for path in (root / "transformed" / "Split-train").iterdir())
    dataset = tf.data.TFRecordDataset(files, compression_type="GZIP")
    examples = [tf.train.Example.FromString(record) for record in dataset.as_numpy_iterator()]
    return sorted(example.features.feature["hour"].float_list.value[0] for example in examples)


def base(root: Path, inputs: Inputs = INPUTS, code: str = CODE) -> Any:
    from components.registry.base import Base

    return Base(
        checkpoint_uri="c",
        days=("2024-02-29",),
        transform_graph_uri=str(root / "graph"),
        inputs_digest=digest(inputs),
        transform_code=code,
    )


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("first")
    graph = transformed(root, ingested(root, hour=8))
    assert graph.get_string_custom_property("reused_from") == ""
    assert graph.get_string_custom_property("note") == ""
    assert sum(hours(root)) == pytest.approx(0, abs=1e-5)
    return root


def test_with_the_graph_of_its_own_data_the_examples_are_the_same(first: Path, tmp_path: Path) -> None:
    graph = transformed(tmp_path, ingested(tmp_path, hour=8, base=base(first)))
    assert graph.get_string_custom_property("transform_code") == CODE
    assert graph.get_string_custom_property("reused_from") == str(first / "graph")
    for split in ("train", "eval"):
        assert records(tmp_path, split) == records(first, split)
    files = [path.relative_to(tmp_path / "graph") for path in (tmp_path / "graph").rglob("*")]
    assert sorted(files) == sorted(path.relative_to(first / "graph") for path in (first / "graph").rglob("*"))


def test_the_statistics_of_the_new_days_change_nothing(first: Path, tmp_path: Path) -> None:
    transformed(tmp_path, ingested(tmp_path, hour=108, base=base(first)))
    # The variance of 8, 9, 10, 11 is 1.25.
    expected = [(hour + 100) / 1.25**0.5 for hour in (-1.5, -0.5, 0.5, 1.5)]
    assert hours(tmp_path)[::2] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("inputs", "code", "folder", "word"),
    [
        (OTHER_INPUTS, CODE, "graph", "features, tasks or their columns have changed since the base was trained"),
        (INPUTS, "of-other-code", "graph", "the version of a library, has changed since the base was trained"),
        (INPUTS, "", "graph", "the version of a library, has changed since the base was trained"),
        (INPUTS, CODE, "nowhere", "is gone"),
    ],
    ids=["another declaration", "other code", "a record without its code", "no graph"],
)
def test_a_graph_that_does_not_fit_is_not_reused_and_the_reason_is_told(
    tmp_path: Path, inputs: Inputs, code: str, folder: str, word: str
) -> None:
    from components.transform.executor import _reusable

    (tmp_path / "graph").mkdir()
    given = base(tmp_path, inputs, code).model_copy(update={"transform_graph_uri": str(tmp_path / folder)})
    reused, note = _reusable(given, digest(INPUTS), CODE)
    assert reused == ""
    assert word in note
    assert "computed anew" in note


def test_with_other_code_a_new_graph_is_made_and_the_graph_tells_why(first: Path, tmp_path: Path) -> None:
    given = base(first, code="of-other-code")
    graph = transformed(tmp_path, ingested(tmp_path, hour=108, base=given))
    assert graph.get_string_custom_property("reused_from") == ""
    assert "Transform's code" in graph.get_string_custom_property("note")
    assert sum(hours(tmp_path)) == pytest.approx(0, abs=1e-4)
