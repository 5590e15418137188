"""The graphs of the steps: what Flink needs of them, and no runner in this process notices. Nothing is run."""

from collections.abc import Callable
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.io import iobase
from apache_beam.pipeline import AppliedPTransform, PipelineVisitor
from apache_beam.typehints import typehints

from sangam.schemas.spec import Inputs
from sangam.schemas.spec.release import Evaluation
from tests.beam_args import BEAM_ARGS
from tests.components.logs.sample_logs import INPUTS, day_logs

pytestmark = pytest.mark.slow

GROUPED = Evaluation.model_validate_json('{"group": {"by": "user"}, "confidence": {"by": "user", "replicates": 20}}')
FILES = ["a.blocks", "b.blocks"]


class NotRun(beam.Pipeline):
    """A pipeline that is only built."""

    def __init__(self) -> None:
        super().__init__(argv=list(BEAM_ARGS))

    def run(self, test_runner_api: bool | str = "AUTO") -> Any:  # noqa: ARG002
        return self

    def wait_until_finish(self) -> None:
        """Follows `run`."""

    def nodes(self) -> list[AppliedPTransform]:
        """Returns the transforms, composites before their parts."""
        found: list[AppliedPTransform] = []

        class Collect(PipelineVisitor):
            def enter_composite_transform(self, transform_node: AppliedPTransform) -> None:
                found.append(transform_node)

            def visit_transform(self, transform_node: AppliedPTransform) -> None:
                found.append(transform_node)

        self.visit(Collect())
        return found


def day() -> Any:
    from sangam.components.examples.listing import DayExamples

    return DayExamples(day="2024-03-01", folder="/none", names=tuple(FILES), rows=2)


def ingestion(pipeline: beam.Pipeline) -> None:
    from sangam.components.steps.example_gen import executor, file_groups
    from sangam.components.steps.example_gen.workers import ReadAndWrite

    request = requested(day_logs(), INPUTS)
    groups = [
        file_groups.FileGroup("train", "2024-03-01", number, (file,), "/none") for number, file in enumerate(FILES)
    ]
    executor._read_and_write(pipeline, groups, ReadAndWrite(request, None, {}), "/none/counts")


def joining(pipeline: beam.Pipeline) -> None:
    from sangam.components.logs.joining.pipeline import _apply
    from sangam.components.logs.joining.plan import JoinFile, JoinPlan

    files = tuple(JoinFile("", file, "2024-03-01", number) for number, file in enumerate(FILES))
    _apply(pipeline, JoinPlan(files, frozenset(), {}, {"likes": 1}), requested(day_logs(), INPUTS), "/none")


def requested(logs: Any, inputs: Inputs) -> Any:
    from sangam.components.logs.request import Request
    from sangam.schemas.derived.columns import columns

    return Request(logs, inputs, columns(inputs), "2024-03-01", "/none", "tiny", "full", "/none")


def by_day(pipeline: beam.Pipeline) -> None:
    from sangam.components.examples.by_day import ByDay

    ByDay("statistics", ("key",), compute=lambda _: b"").complete([day()], lambda: pipeline)


def mapping(pipeline: beam.Pipeline, folder: str) -> None:
    from sangam.components.examples.listing import Listing
    from sangam.components.steps.transform.mapping import map_examples

    map_examples("/none", Listing(splits={"train": (day(),)}), {"train": folder}, pipeline)


def evaluation(pipeline: beam.Pipeline, settings: Evaluation) -> None:
    from sangam.components.steps.evaluator.models.scoring import Models
    from sangam.components.steps.evaluator.plan import plan_of
    from sangam.components.steps.evaluator.slices.measuring import measure

    plan = plan_of(inputs=INPUTS, evaluation=settings, gates=(), baseline_tasks=[])
    models = Models({"candidate": "/none"}, None)
    measure(pipeline, sources=FILES, models=models, plan=plan, num_parts=2, folder="/none")


@pytest.fixture(
    params=["ingestion", "joining", "statistics and analysis", "mapping", "evaluation", "evaluation by group"]
)
def graph(request: pytest.FixtureRequest, tmp_path: Any) -> list[AppliedPTransform]:
    build: Callable[[beam.Pipeline], None] = {
        "ingestion": ingestion,
        "joining": joining,
        "statistics and analysis": by_day,
        "mapping": lambda pipeline: mapping(pipeline, str(tmp_path)),
        "evaluation": lambda pipeline: evaluation(pipeline, Evaluation()),
        "evaluation by group": lambda pipeline: evaluation(pipeline, GROUPED),
    }[request.param]
    pipeline = NotRun()
    build(pipeline)
    return pipeline.nodes()


def test_what_is_read_is_spread_before_it_is_read(graph: list[AppliedPTransform]) -> None:
    """Without a reshuffle, Flink and Spark read everything in one task; so they do with sources of Beam."""
    assert not [node.full_label for node in graph if isinstance(node.transform, iobase.Read)]
    # Those of Beam's own sinks have one element.
    created = [node for node in graph if isinstance(node.transform, beam.Create) and "Write" not in node.full_label]
    assert len(created) == 1
    [elements] = created[0].outputs.values()
    readers = [node for node in graph if elements in node.main_inputs.values() and node.parent.parent is None]
    assert [type(node.transform) for node in readers] == [beam.Reshuffle]


def test_what_meets_in_a_flatten_was_shuffled_and_has_one_type() -> None:
    """Flink's fuser refuses the job otherwise: "consumed but never produced", "union inputs of different types"."""
    pipeline = NotRun()
    evaluation(pipeline, GROUPED)
    [flatten] = [node for node in pipeline.nodes() if isinstance(node.transform, beam.Flatten)]
    given = list(flatten.main_inputs.values())
    assert [type(each.producer.parent.transform) for each in given] == [beam.Reshuffle] * 2
    assert [each.element_type for each in given] == [typehints.Tuple[str, bytes]] * 2
