"""Labels that are all alike: nothing to learn from, and nothing to tell models apart by."""

from tensorflow_metadata.proto.v0 import statistics_pb2

from schemas.derived.columns import label_column
from schemas.spec import Inputs
from schemas.spec.data import TRAIN
from schemas.spec.tasks import BinaryTask


def alike(inputs: Inputs, split: str, statistics: statistics_pb2.DatasetFeatureStatisticsList) -> list[str]:
    """Returns a sentence for each task whose labels in a split are all equal, or not there at all."""
    (dataset,) = statistics.datasets
    by_column = {feature.path.step[0]: feature for feature in dataset.features}
    found = []
    for name, task in inputs.tasks.items():
        column = by_column.get(label_column(inputs, name).name)
        numbers = column.num_stats if column is not None else statistics_pb2.NumericStatistics()
        count = numbers.common_stats.num_non_missing
        if count and numbers.min != numbers.max:
            continue
        what = f"all {count} labels are {numbers.min:g}" if count else "there is no label"
        found.append(f"{name}: {what} in the split '{split}': {_consequence(split, isinstance(task, BinaryTask))}")
    return found


def _consequence(split: str, is_binary: bool) -> str:
    if split == TRAIN:
        return "the task can learn nothing from it but that"
    needs = (
        "labels of both classes, such as auc, are" if is_binary else "labels that differ, such as rank_correlation, are"
    )
    return f"metrics that need {needs} undefined, and a gate on one refuses the model"
