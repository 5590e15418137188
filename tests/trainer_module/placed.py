"""Trainings on a host and an accelerator, compared: a GPU if there is one, else a second logical CPU.

`python -m tests.trainer_module.placed FOLDER` trains with every optimizer, admission, expiry and eviction included, and
compares; infra/gpu runs it on a bare machine, where the data must be in FOLDER/data already.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from sangam.schemas.spec import RankerSpec
from tests.trainer_module.equivalence import TRAINING, masked, read_state, with_rules, write_state
from tests.trainer_module.sample_job import job, train_on, write_examples

PLACES = ("host", "device")
COPIES = {"_Send", "_HostSend"}
_GPU_TOLERANCE = 1e-4
"""Sums of floats have another order on a GPU."""


def placed(place: str, ranks: int = 1, *, without: str = "", optimizer: str = "adam") -> RankerSpec:
    """Returns the small ranker with rows in a place, but those of one table."""
    document = with_rules(optimizer, ranks).model_dump(mode="json", exclude_unset=True)
    for name, table in document["tables"].items():
        table["place"] = "host" if name == without else place
    return RankerSpec.model_validate_json(json.dumps(document))


def learn(ranker: RankerSpec, where: Any, directory: Path, name: str, rank: int) -> Any:
    """Trains an epoch; writes the state, and the operations of a step by device."""
    from sangam.trainer_module.input.local_reader import own_batches
    from sangam.trainer_module.loop.in_step import InStepTrainer
    from sangam.trainer_module.progress import Progress
    from sangam.trainer_module.ranker import Ranker

    files, ranks = files_of(directory), ranker.cluster.ranks
    trainer = InStepTrainer(Ranker(ranker, placement=where), rank=rank, ranks=ranks)
    batches = map(masked, own_batches(ranker, files, epoch=0, rank=rank, ranks=ranks))
    with _graphs() as graphs:
        report = train_on(trainer, batches, Progress(job(directory, ranker, files), rank))
    write_state(trainer, report.step_losses, directory / f"{name}-{rank}.npz")
    (directory / f"{name}-{rank}.json").write_text(json.dumps(_largest(graphs)))
    return trainer


@contextmanager
def _graphs() -> Iterator[list[Any]]:
    """Collects the partitioned graphs of the functions that run meanwhile."""
    from tensorflow.python.eager import context

    graphs: list[Any] = []
    context.context().enable_graph_collection()
    yield graphs
    graphs += context.context().export_run_metadata().function_graphs
    context.context().disable_graph_collection()


def _largest(graphs: Sequence[Any]) -> dict[str, dict[str, list[Any]]]:
    """Returns the operations of the step, the largest function, by device, and what it sends to the other device.

    A sent tensor is [its type, the operation that computed it].
    """
    import tensorflow as tf

    step = max(graphs, key=lambda each: sum(len(part.node) for part in each.partition_graphs))
    told = {}
    for part in step.partition_graphs:
        kinds = {node.name: node.op for node in part.node}
        sent = [
            [tf.as_dtype(node.attr["T"].type).name, kinds[node.input[0].split(":")[0]]]
            for node in part.node
            if node.op in COPIES
        ]
        told[part.node[0].device[-5:]] = {"operations": sorted({node.op for node in part.node}), "sent": sent}
    return told


def files_of(directory: Path) -> tuple[str, ...]:
    """Returns the examples beside a folder."""
    return tuple(str(file) for file in sorted((directory.parent / "data").iterdir()))


def compare(folder: Path) -> dict[str, float]:
    """Trains with every optimizer and place; returns the largest difference from one device, by both."""
    import tensorflow as tf

    from sangam.trainer_module import collectives, placement

    collectives.start()
    tf.config.experimental.enable_tensor_float_32_execution(False)
    beside = placement.beside()
    directory, largest = folder / "1", {}
    (directory / "logs").mkdir(parents=True, exist_ok=True)
    for optimizer in TRAINING:
        with beside.host():
            learn(placed("host", optimizer=optimizer), placement.HOST_ALONE, directory, f"plain-{optimizer}", 0)
            plain = read_state(directory, f"plain-{optimizer}", 1)
            for place in PLACES:
                learn(placed(place, optimizer=optimizer), beside, directory, f"{place}-{optimizer}", 0)
                found = read_state(directory, f"{place}-{optimizer}", 1)
                largest[f"{optimizer}, rows on the {place}"] = difference(found, plain)
    return largest


def difference(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> float:
    """Returns the largest difference, absolute or relative, whichever is smaller; infinity for other keys or shapes."""
    # Groups on a device have another name.
    found = {name.removesuffix("_device"): array for name, array in found.items()}
    if {name: array.shape for name, array in found.items()} != {name: array.shape for name, array in expected.items()}:
        return float("inf")
    largest = 0.0
    for name, array in expected.items():
        apart = np.abs(found[name].astype(np.float64) - array)
        largest = max(largest, float(np.max(np.minimum(apart, apart / np.maximum(np.abs(array), 1e-30)), initial=0.0)))
    return largest


if __name__ == "__main__":
    root = Path(sys.argv[1])
    if not (root / "data").exists():
        write_examples(root / "data", minutes_apart=10)
    told = compare(root)
    (root / "numerics.json").write_text(json.dumps(told, indent=1) + "\n")
    for setting, apart in told.items():
        print(f"{setting}: {apart:.1e}")
    sys.exit(max(told.values()) > _GPU_TOLERANCE)
