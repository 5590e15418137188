"""The artifacts of a trainer step, without contents."""

from pathlib import Path
from typing import Any

Artifacts = dict[str, list[Any]]
EXAMPLES = ("examples", "transformed_examples")


def step_artifacts(inputs: Path, outputs: Path) -> tuple[Artifacts, Artifacts]:
    """Returns inputs and outputs by key, each in a folder of that name."""
    from tfx.types import artifact_utils, standard_artifacts

    from sangam.components.registry.checkpoint import RankerCheckpoint

    given = {
        "examples": standard_artifacts.Examples(),
        "transformed_examples": standard_artifacts.Examples(),
        "transform_graph": standard_artifacts.TransformGraph(),
    }
    made = {
        "model": standard_artifacts.Model(),
        "training": standard_artifacts.ModelRun(),
        "checkpoint": RankerCheckpoint(),
    }
    for artifacts, folder in ((given, inputs), (made, outputs)):
        for key, artifact in artifacts.items():
            artifact.uri = str(folder / key)
    for key in EXAMPLES:
        given[key].split_names = artifact_utils.encode_split_names(["train", "eval"])
    return {key: [each] for key, each in given.items()}, {key: [each] for key, each in made.items()}
