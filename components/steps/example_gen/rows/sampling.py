"""Negative down-sampling: of the training examples in which nothing happened, a share is kept.

Which ones is said by a hash of the file's name and the row's place in it: every run over the same files keeps the same
rows, on whatever machine, and a day in the windows of two runs is the same day in both.

Reference: He et al., Practical lessons from predicting clicks on ads at Facebook, ADKDD 2014, section 6.2.
"""

import hashlib
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from schemas.spec import Inputs
from schemas.spec.data import TRAIN
from schemas.spec.tasks import BinaryTask
from schemas.splitmix64 import GAMMA, mix64

_SALT = b"sangam: negatives that are kept"
"""So that no other use of a hash of the same rows agrees with this one."""


@dataclass(frozen=True)
class Sampling:
    """What is sampled.

    Attributes:
        task: whose negatives.
        label: its column.
        only_where: column that is 1 in the examples that take part in the task; None: all do.
        weight: column of the task's weights; an example without one takes no part either. None: all have weight 1.
        keep: share of the negatives: of the examples that take part and have label 0.
    """

    task: str
    label: str
    only_where: str | None
    weight: str | None
    keep: float


@dataclass(frozen=True)
class Sampled:
    """Rows after sampling.

    Attributes:
        batch: what is left.
        num_negatives: before.
        num_left_out: of these.
    """

    batch: pa.RecordBatch
    num_negatives: int
    num_left_out: int


def sampling_of(inputs: Inputs, split: str) -> Sampling | None:
    """Returns what of a split is sampled: the training split alone, as others must show the rates as they are."""
    for name, task in inputs.tasks.items():
        if split == TRAIN and isinstance(task, BinaryTask) and task.keep_negatives is not None:
            return Sampling(name, inputs.label_of(name), task.only_where, task.example_weight, task.keep_negatives)
    return None


def sampled(batch: pa.RecordBatch, rows: NDArray[np.int64], sampling: Sampling, file_name: str) -> Sampled:
    """Leaves negatives out.

    Args:
        batch: converted rows.
        rows: the place of each in its file, from 0.
        sampling: what is sampled.
        file_name: relative to the data folder.
    """
    is_negative = np.asarray(pc.equal(_scalars(batch, sampling.label), 0).fill_null(False), dtype=bool)
    if sampling.only_where is not None:
        is_negative &= np.asarray(pc.equal(_scalars(batch, sampling.only_where), 1).fill_null(False), dtype=bool)
    if sampling.weight is not None:
        is_negative &= np.asarray(_scalars(batch, sampling.weight).is_valid(), dtype=bool)
    stays = ~is_negative | (uniform(file_name, rows) < sampling.keep)
    num_left_out = int((~stays).sum())
    if num_left_out:
        batch = batch.filter(pa.array(stays))
    return Sampled(batch, int(is_negative.sum()), num_left_out)


def uniform(file_name: str, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """Returns a number in [0, 1) for each row of a file, the same in every run."""
    digest = hashlib.blake2b(file_name.encode(), digest_size=8, key=_SALT).digest()
    seed = np.array([int.from_bytes(digest, "little")], np.uint64)
    mixed: NDArray[np.uint64] = mix64(seed + (rows.astype(np.uint64) + np.uint64(1)) * np.uint64(GAMMA))
    return (mixed >> np.uint64(11)).astype(np.float64) / 2.0**53


def _scalars(batch: pa.RecordBatch, name: str) -> pa.Array:
    """Returns the values of a column of lists of one value, null where it is missing."""
    return pc.list_element(batch.column(batch.schema.get_field_index(name)), 0)
