"""A search with real trainings on examples that are there: `python -m <this module> FOLDER TRIALS`."""

import json
import sys
from pathlib import Path

from rich.console import Console

from sangam.pipelines.tune.request import SearchRequest, check_tune
from sangam.pipelines.tune.run import run_tune
from sangam.pipelines.tune.training import Examples
from tests.trainer_module.launch.warm import fork_groups

RATE = "training.dense_optimizer.learning_rate"


def write_world(folder: Path) -> None:
    """Writes the spec of the trainer's small job, with a range, and the examples that it trains on."""
    from tests.trainer_module.sample_job import declared, write_examples

    ranker = declared(epochs=10, checkpoint={"every_steps": 20}).model_dump(mode="json", exclude_unset=True)
    (folder / "logs").mkdir(parents=True)
    document = {
        **ranker,
        "data": {"kind": "splits", "format": "parquet", "splits": {"train": "t", "eval": "e", "validation": "v"}},
        "gates": [{"task": "like", "metric": "auc", "at_least": 0.5}],
        "push": {"kind": "directory", "path": "serving"},
        "tune": {"objective": "like", "ranges": {RATE: {"kind": "float", "low": 1e-3, "high": 1e-1, "log": True}}},
    }
    (folder / "spec.yaml").write_text(json.dumps(document))
    files = write_examples(folder / "examples")
    examples = Examples(run="earlier", train_files=files[1:], validation_files=files[:1], transform_graph="")
    (folder / "examples.json").write_text(examples.model_dump_json())


def search_of(folder: Path, trials: int) -> SearchRequest:
    """Returns the search, begun with the examples that are there."""
    search = check_tune(folder / "spec.yaml", None, folder / "logs", folder / "root", trials=trials, jobs=1)
    search.folder.mkdir(parents=True, exist_ok=True)
    (search.folder / "examples.json").write_bytes((folder / "examples.json").read_bytes())
    return search


if __name__ == "__main__":
    fork_groups(Path("/proc/self/fd/1"))
    sys.exit(run_tune(search_of(Path(sys.argv[1]), int(sys.argv[2])), Console(highlight=False, width=200)))
