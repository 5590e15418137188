"""All Beam steps, and joined logs, on an engine with processes of its own: the results are those of this process."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sangam.components.reports.artifact_files import read_ingestion
from sangam.pipelines.beam import engine_args
from sangam.schemas.spec.beam import Portable
from tests.components.examples.sample_files import read_examples
from tests.components.logs import sample_sources
from tests.components.logs.sample_logs import run_executor
from tests.e2e.user_run import LEAN_RETAIL, ONE_RANK, World, states
from tests.engines.equal import differences
from tests.engines.servers import job_service, worker_pool

EQUAL: dict[str, list[str]] = {"example_gen": [], "statistics_gen": [], "transform": [], "evaluator": []}
pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.long]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """The section `beam` of a spec."""
    folder = tmp_path_factory.mktemp("engine")
    with job_service(folder) as service, worker_pool(folder) as pool:
        yield {
            "runner": "portable",
            "job_endpoint": service.address,
            "worker_pool": pool.address,
            "timeout_s": 300,
        }


def test_joined_logs_on_an_engine_give_the_examples_and_counts_of_this_process(
    engine: dict[str, Any], tmp_path: Path
) -> None:
    sample_sources.write_logs(tmp_path / "logs")
    properties = sample_sources.properties_of(sample_sources.logs(), tmp_path / "logs")
    args = engine_args(Portable.model_validate(engine))
    there = run_executor(properties | {"pipeline_root": str(tmp_path / "there")}, tmp_path / "theirs", args)
    here = run_executor(properties | {"pipeline_root": str(tmp_path / "here")}, tmp_path / "own")
    for split, num_rows in (("train", 48), ("eval", 24)):
        rows = read_examples(there.uri, split)
        assert len(rows) == num_rows
        assert rows == read_examples(here.uri, split)
    report = read_ingestion(there.uri)
    assert report.splits["train"].joined["likes"] == {"actions joined": 48, "rows with actions": 48}
    assert report == read_ingestion(here.uri)


@pytest.mark.real_data
def test_online_retail_on_an_engine_has_the_results_of_this_process(
    engine: dict[str, Any], repository: Path, tmp_path: Path
) -> None:
    logs = repository.parent / "shared" / "data" / "online_retail" / "lines"
    if not logs.exists():
        pytest.skip(f"needs the real data beside the checkout, in {logs}")
    world = World(tmp_path, repository / "pipelines" / "specs" / "online_retail.yaml")
    changes = {**ONE_RANK, ("beam",): engine, ("training", "epochs"): 1, ("data", "train_days"): 2}
    changes |= {(section,): part for section, part in LEAN_RETAIL.items()}
    (tmp_path / "logs").symlink_to(logs)
    spec = world.spec("engine", {**changes, ("input",): {"transform": "ahead"}})
    done, summary = world.run(spec, date="2011-11-30")
    # So small a model need not pass its gates.
    assert states(summary).get("evaluator") == "ran", done.stdout + done.stderr
    assert differences(world.root, spec, "2011-11-30", logs, tmp_path / "again") == EQUAL
