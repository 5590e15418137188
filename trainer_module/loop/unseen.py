"""Shares of ids that evaluation will meet without having trained on them, measured for `unseen: auto`.

A job's newest days stand for the day that a model meets next: those of validation, or without them the newest of
training. An id is unseen that no example of an earlier day has, and no row of the base. A validation split without days
stands for one day. Only keys are read, no label.
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from sangam.schemas.contracts.example_files import by_day
from sangam.schemas.contracts.training_job import TrainJob
from sangam.schemas.derived.groups import KEY_ID_BITS
from sangam.schemas.derived.unseen import declared_rates, measured_features
from sangam.schemas.problems import listed
from sangam.schemas.spec import RankerSpec
from sangam.trainer_module import collectives
from sangam.trainer_module.checkpoint.manifest import read_manifest
from sangam.trainer_module.checkpoint.restore import read_keys
from sangam.trainer_module.input.batch import Batch, Layout
from sangam.trainer_module.input.example_reader import ExampleReader, reader_of
from sangam.trainer_module.input.local_reader import validation_batches
from sangam.trainer_module.transforms.keys import NO_ID

_LOG = logging.getLogger(__name__)
_BATCH, _BATCHES_AT_ONCE = 4096, 64
_SAMPLED_EXAMPLES = 8_000_000
_NEWEST_DAYS = 7
"""Most days that are measured: ids that are new differ by the day of the week."""
_LARGEST = 0.9
"""Ids that never return would leave their rows untrained."""

Keys = dict[str, NDArray[Any]]
"""Keys by feature: [n] int64."""


@dataclass(frozen=True)
class Unseen:
    """Shares of ids that training reads as unseen.

    Attributes:
        rates: by feature, declared and measured.
        note: message to the user; may be empty.
    """

    rates: dict[str, float]
    note: str = ""


@dataclass
class Shares:
    """Counts of ids among new examples that no earlier one has.

    A table's ids are compared: an id is seen whichever of the table's features had it. Of very many ids only one in
    `one_in` is kept, by its key, which is a hash; each stands for so many.

    Attributes:
        tables: tables by feature.
        one_in: see above.
    """

    tables: Mapping[str, str]
    one_in: int = 1
    _seen: dict[str, NDArray[Any]] = field(default_factory=dict)
    _of_day: list[tuple[str, NDArray[Any]]] = field(default_factory=list)
    _all: dict[str, int] = field(default_factory=dict)
    _new: dict[str, int] = field(default_factory=dict)

    def see(self, table: str, keys: NDArray[Any]) -> None:
        """Adds ids of earlier examples: keys of a table, [n]."""
        self._add(table, np.unique(self._sample(keys)))

    def _add(self, table: str, found: NDArray[Any]) -> None:
        self._seen[table] = np.union1d(self._seen.get(table, found[:0]), found)

    def count(self, keys: Keys) -> None:
        """Counts ids of a day's examples, after those of earlier days."""
        for name, of_feature in keys.items():
            present = of_feature[of_feature != NO_ID]
            sampled = self._sample(present)
            is_seen = np.isin(sampled, self._seen.get(self.tables[name], sampled[:0]))
            self._all[name] = self._all.get(name, 0) + len(present)
            self._new[name] = self._new.get(name, 0) + self.one_in * int(np.count_nonzero(~is_seen))
            self._of_day.append((self.tables[name], np.unique(sampled[~is_seen])))

    def end_day(self) -> None:
        """Ends a day, whose ids the next one has seen."""
        for table, found in self._of_day:
            self._add(table, found)
        self._of_day = []

    def rates(self) -> dict[str, float]:
        """Returns the share of each feature's ids that no earlier example has, at most `_LARGEST`."""
        return {name: round(min(self._new[name] / max(self._all[name], 1), _LARGEST), 4) for name in self._all}

    def _sample(self, keys: NDArray[Any]) -> NDArray[Any]:
        ids = keys & ((1 << KEY_ID_BITS) - 1)
        return ids if self.one_in == 1 else ids[ids % self.one_in == 0]


def settle(job: TrainJob, *, rank: int) -> Unseen:
    """Returns the shares of a job. All ranks together, and they agree; rank 0 reads."""
    declared, measured = declared_rates(job.ranker), measured_features(job.ranker)
    if not measured:
        return Unseen(declared)
    earlier, days = _split(job)
    if not days or not (earlier or job.base_checkpoint):
        got = "a stream" if job.stream else "one day or less, and no validation split"
        told = f"tables: unseen: auto reads no id as unseen: nothing comes before the newest examples (got {got})"
        return Unseen(declared, f"{told}; declare a share")
    started, rates = time.monotonic(), np.zeros(len(measured))
    if rank == 0:
        found = _measured(job, measured, earlier, days)
        rates[:] = [found[name] for name in measured]
    rates = collectives.allreduce_sum(tf.constant(rates), name="unseen").numpy()
    by_feature = dict(zip(measured, rates.tolist(), strict=True))
    _LOG.info("unseen seconds=%.1f %s", time.monotonic() - started, by_feature)
    shares = listed([f"{name} {rate:.1%}" for name, rate in by_feature.items() if rate > 0] or ["none"])
    told = f"tables: unseen: auto measured these shares of new ids in the {_source(job)}: {shares}"
    return Unseen(declared | by_feature, told)


def _source(job: TrainJob) -> str:
    return "validation split" if job.validation_files else "newest days"


def _split(job: TrainJob) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """Returns the files of earlier examples, and those of each day to measure, oldest first."""
    if job.validation_files:
        return job.train_files, list(by_day(job.validation_files).values())[:_NEWEST_DAYS]
    days = list(by_day(job.train_files).values()) if job.days else []
    first = len(days) - min(_NEWEST_DAYS, (len(days) + 1) // 2)
    return [file for day in days[:first] for file in day], days[first:]


def _measured(
    job: TrainJob, features: Sequence[str], earlier: Sequence[str], days: Sequence[Sequence[str]]
) -> dict[str, float]:
    spec, reader = job.ranker, reader_of(job)
    tables = {name: str(spec.table_of(name)) for name in features}
    shares = Shares(tables, one_in=1 + job.num_train_examples // _SAMPLED_EXAMPLES)

    for table, keys in _of_base(job, set(tables.values())):
        shares.see(table, keys)
    for block in _blocks(spec, reader, earlier, features):
        for name, keys in block.items():
            shares.see(tables[name], keys)
    for day in days:
        for block in _blocks(spec, reader, day, features):
            shares.count(block)
        shares.end_day()
    return shares.rates()


def _of_base(job: TrainJob, tables: set[str]) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yields the keys of the base's rows by table."""
    if not job.base_checkpoint:
        return
    directory = Path(job.base_checkpoint)
    manifest = read_manifest(directory)
    for group, layout in manifest.groups.items():
        if of_group := tables & layout.tables.keys():
            keys = read_keys(directory, manifest, group)
            for table in sorted(of_group):
                yield table, keys[keys >> KEY_ID_BITS == layout.tables[table]]


def _blocks(spec: RankerSpec, reader: ExampleReader, files: Sequence[str], features: Sequence[str]) -> Iterator[Keys]:
    """Yields the keys of features, some batches at a time."""
    if not files:
        return
    large = spec.training.model_copy(update={"batch_size_per_rank": _BATCH})
    layout, waiting = Layout(spec), []
    for batch in validation_batches(spec.model_copy(update={"training": large}), files, rank=0, ranks=1, reader=reader):
        waiting.append(keys_of(layout, batch, features))
        if len(waiting) == _BATCHES_AT_ONCE:
            yield _joined(waiting)
            waiting = []
    if waiting:
        yield _joined(waiting)


def _joined(blocks: Sequence[Keys]) -> Keys:
    return {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}


def keys_of(layout: Layout, batch: Batch, features: Sequence[str]) -> Keys:
    """Returns the keys of some features of a batch."""
    keys = {name: batch["ids"][:, layout.all_ids.index(name)].numpy() for name in features if name in layout.all_ids}
    if lists := [name for name in features if name in layout.all_lists]:
        ends = np.cumsum(batch["lengths"].numpy().sum(1))
        parts = dict(zip(layout.all_lists, np.split(batch["lists"].numpy(), ends[:-1]), strict=True))
        keys |= {name: parts[name] for name in lists}
    return keys
