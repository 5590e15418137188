"""Negative down-sampling: keeps a share of the negative training examples.

A hash of the file's name and the row's index selects them: every run over the same files keeps the same rows, on any
machine, and a day in the windows of two runs has the same rows in both.

Reference: He et al., Practical lessons from predicting clicks on ads at Facebook, ADKDD 2014, section 6.2.
"""

import hashlib
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sangam.schemas.host.splitmix64 import GAMMA, mix64
from sangam.schemas.spec import Inputs
from sangam.schemas.spec.data import TRAIN
from sangam.schemas.spec.tasks import BinaryTask

_SALT = b"sangam: negatives that are kept"
"""Salt that makes these hashes independent of other hashes of the same rows."""


@dataclass(frozen=True)
class Sampling:
    """Parameters of the sampling.

    Attributes:
        task: task whose negatives are sampled.
        label: column.
        only_where: column that is 1 in the examples of the task; None: all examples.
        weight: column of the task's weights; examples without a weight are masked too. None: all have weight 1.
        keep: share of the negatives to keep: of the unmasked examples with label 0.
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
        batch: the kept rows.
        num_negatives: before sampling.
        num_left_out: number of negatives left out.
    """

    batch: pa.RecordBatch
    num_negatives: int
    num_left_out: int


def sampling_of(inputs: Inputs, split: str) -> Sampling | None:
    """Returns the sampling of a split; None except for training, as other splits must keep the true rates."""
    for name, task in inputs.tasks.items():
        if split == TRAIN and isinstance(task, BinaryTask) and task.keep_negatives is not None:
            return Sampling(name, inputs.label_of(name), task.only_where, task.example_weight, task.keep_negatives)
    return None


def sampled(batch: pa.RecordBatch, rows: NDArray[np.int64], sampling: Sampling, file_name: str) -> Sampled:
    """Samples the negatives of a batch.

    Args:
        batch: converted rows.
        rows: index of each row in its file.
        sampling: parameters.
        file_name: relative to the data folder.
    """
    is_negative = np.asarray(pc.equal(scalars(batch, sampling.label), 0).fill_null(False), dtype=bool)
    if sampling.only_where is not None:
        is_negative &= np.asarray(pc.equal(scalars(batch, sampling.only_where), 1).fill_null(False), dtype=bool)
    if sampling.weight is not None:
        is_negative &= np.asarray(scalars(batch, sampling.weight).is_valid(), dtype=bool)
    keep = ~is_negative | (uniform(file_name, rows, _SALT) < sampling.keep)
    num_left_out = int((~keep).sum())
    if num_left_out:
        batch = batch.filter(pa.array(keep))
    return Sampled(batch, int(is_negative.sum()), num_left_out)


def uniform(file_name: str, rows: NDArray[np.int64], salt: bytes) -> NDArray[np.float64]:
    """Returns a number in [0, 1) for each row of a file, the same in every run; independent of other salts' numbers."""
    digest = hashlib.blake2b(file_name.encode(), digest_size=8, key=salt).digest()
    seed = np.array([int.from_bytes(digest, "little")], np.uint64)
    mixed: NDArray[np.uint64] = mix64(seed + (rows.astype(np.uint64) + np.uint64(1)) * np.uint64(GAMMA))
    return (mixed >> np.uint64(11)).astype(np.float64) / 2.0**53


def scalars(batch: pa.RecordBatch, name: str) -> pa.Array:
    """Returns the values of a column whose lists have one value; null where it is missing."""
    return pc.list_element(batch.column(batch.schema.get_field_index(name)), 0)
