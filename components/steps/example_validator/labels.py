"""Finds tasks whose labels are all equal: they cannot be learned or evaluated."""

from tensorflow_metadata.proto.v0 import statistics_pb2

from schemas.derived.columns import label_column
from schemas.spec import Inputs
from schemas.spec.data import TRAIN
from schemas.spec.tasks import BinaryTask


def uniform_labels(inputs: Inputs, split: str, statistics: statistics_pb2.DatasetFeatureStatisticsList) -> list[str]:
    """Returns a sentence for each task whose labels in a split are all equal or all missing."""
    (dataset,) = statistics.datasets
    by_column = {feature.path.step[0]: feature for feature in dataset.features}
    sentences = []
    for name, task in inputs.tasks.items():
        column = by_column.get(label_column(inputs, name).name)
        numbers = column.num_stats if column is not None else statistics_pb2.NumericStatistics()
        count = numbers.common_stats.num_non_missing
        if count and numbers.min != numbers.max:
            continue
        what = f"all {count} labels are {numbers.min:g}" if count else "there is no label"
        sentences.append(f"{name}: {what} in the split '{split}': {_consequence(split, isinstance(task, BinaryTask))}")
    return sentences


def _consequence(split: str, is_binary: bool) -> str:
    if split == TRAIN:
        return "the task can learn nothing else"
    needs = (
        "labels of both classes, such as auc, are" if is_binary else "labels that differ, such as rank_correlation, are"
    )
    return f"metrics that need {needs} undefined, and a gate on one refuses the model"
