"""The order of training examples as plain data: the files that are read together, and their readers."""

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sangam.schemas.contracts.example_files import by_day, day_of
from sangam.schemas.errors import UserError
from sangam.schemas.spec import RankerSpec
from sangam.schemas.spec.training import ORDER_OF_DAYS, Order

_PARTS_PER_WORKER = 4
_SHUFFLE_SEED = 0x5A17


@dataclass(frozen=True)
class Segment:
    """Files that are read together, and a share of their records.

    Attributes:
        files: files in the order of opening.
        shares: number of readers that the records are dealt to, one by one.
        share: number of this reader, from 0.
    """

    files: tuple[str, ...]
    shares: int = 1
    share: int = 0


Part = tuple[Segment, ...]
"""Segments, one after another. Records are shuffled within a segment."""


def order_of(spec: RankerSpec, files: Sequence[str]) -> Order:
    """Returns the order of a training on these files.

    Raises:
        UserError: the order needs days, and the files have none.
    """
    training = spec.training
    has_days = all(map(day_of, files))
    if training.shuffle_buffer == 1:
        return "time"
    if training.order in ("time", "shuffled_within_day") and not has_days:
        raise UserError(f"training.order: the examples have no days (got {training.order}); use shuffled")
    if training.order is None or training.order == "auto":  # `auto`: where nothing was chosen.
        return ORDER_OF_DAYS if has_days else "shuffled"
    return training.order


def shuffle_seed(spec: RankerSpec, epoch: int) -> int:
    """Returns the seed of an epoch's order."""
    return _SHUFFLE_SEED + spec.training.seed + epoch


def sweeps_of(spec: RankerSpec, epoch: int) -> int:
    """Returns how often an epoch in the order of days goes from the oldest days to the newest, over other days."""
    stopping = spec.training.early_stopping
    return 1 if stopping is None or epoch == 0 else stopping.per_epoch


def whole(files: Sequence[str], order: Order, seed: int, sweeps: int = 1) -> Part:
    """Returns all examples as one part; see `parts_of_pool` for `sweeps`."""
    if order == "shuffled":
        return (Segment(_mixed(files, seed)),)
    days = by_day(files)
    chunks = [list(days)] if sweeps == 1 else _swept(list(days), sweeps)
    return tuple(segment for part in _in_chunks(days, chunks, order, seed, shares=1) for segment in part)


def parts_of_pool(files: Sequence[str], order: Order, seed: int, workers: int, sweeps: int = 1) -> tuple[Part, ...]:
    """Returns the parts that the workers of a pool read, in this order.

    In the order of days, `workers` neighboring parts share the same days, so that the workers read the same days at the
    same time; a worker that is up to twice as fast as another is ahead of it by at most a quarter of an epoch. Each of
    several sweeps has every so many-th day; the last one ends with the newest.
    """
    if order == "shuffled":
        wanted = _PARTS_PER_WORKER * workers
        if len(files) < 2 * wanted:
            # Every part has records of every file: with one file a part, days would follow one another.
            return tuple((Segment(_mixed(files, seed), workers, worker),) for worker in range(workers))
        in_order, starts = _by_name(files), np.random.default_rng(seed).permutation(wanted)
        return tuple((Segment(_mixed(in_order[index::wanted], seed)),) for index in starts)
    days = by_day(files)
    chunks = _neighbors(list(days), _PARTS_PER_WORKER) if sweeps == 1 else _swept(list(days), sweeps)
    return _in_chunks(days, chunks, order, seed, shares=workers)


def files_of_rank(files: Sequence[str], rank: int, ranks: int) -> Segment:
    """Returns a rank's share of files that all ranks read together; it opens as few files as possible."""
    in_order = _by_name(files)
    if len(files) >= ranks:
        return Segment(tuple(in_order[rank::ranks]))
    file = rank % len(files)
    return Segment((in_order[file],), shares=len(range(file, ranks, len(files))), share=rank // len(files))


def _neighbors(days: list[str], chunks: int) -> list[list[str]]:
    return [part.tolist() for part in np.array_split(days, min(chunks, len(days)))]


def _swept(days: list[str], sweeps: int) -> list[list[str]]:
    return [days[len(days) - 1 - ahead :: -sweeps][::-1] for ahead in reversed(range(min(sweeps, len(days))))]


def _in_chunks(
    days: dict[str, list[str]], chunks: list[list[str]], order: Order, seed: int, *, shares: int
) -> tuple[Part, ...]:
    """Returns `shares` parts of each chunk of days."""
    return tuple(
        tuple(segment for day in chunk for segment in _of_day(days[day], order, seed, shares, share))
        for chunk in chunks
        for share in range(shares)
    )


def _of_day(files: list[str], order: Order, seed: int, shares: int, share: int) -> list[Segment]:
    match order:
        case "time":
            return [Segment(tuple(files), shares, share)]
        case _:
            mixed = _mixed(files, seed)
            return [Segment(mixed[share::shares]) if len(files) >= shares else Segment(mixed, shares, share)]


def _by_name(files: Sequence[str]) -> list[str]:
    """Returns files in an order that does not depend on the folders they are in."""
    return sorted(files, key=lambda file: (posixpath.basename(file), file))


def _mixed(files: Sequence[str], seed: int) -> tuple[str, ...]:
    in_order = _by_name(files)
    return tuple(in_order[index] for index in np.random.default_rng(seed).permutation(len(in_order)))
