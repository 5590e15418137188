"""One server's share of the model, and the operations of its ranks.

Every call is idempotent: attempt, rank and sequence number identify it. A repeated pull returns the same rows; a
repeated push is applied once.
"""

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sangam.schemas.derived.groups import groups_of
from sangam.schemas.spec import RankerSpec
from sangam.schemas.spec.sync import Async, Served, Shadow, Stale
from sangam.trainer_module.embedding.eviction import Counting, Counts
from sangam.trainer_module.embedding.persistence import snapshot_of
from sangam.trainer_module.embedding.stores import stores_of
from sangam.trainer_module.parameter_server.center import Center, center_of
from sangam.trainer_module.parameter_server.dense_part import DensePart
from sangam.trainer_module.parameter_server.rows import Arrays, Gradients, Pulled, Rows, Update
from sangam.trainer_module.parameter_server.window import Window
from sangam.trainer_module.parameter_server.wire import Caller, MessageError
from sangam.trainer_module.snapshot import Copies, RowsSnapshot

_LOG = logging.getLogger(__name__)
_RESULTS_KEPT = 256


@dataclass
class _Rank:
    """The server's state of a rank.

    Attributes:
        pulled: batches whose gradients have not arrived, by sequence number.
        waiting: pushes that arrived but are not applied, by sequence number; None: a skipped batch.
        done: pushes applied.
        results: results of the latest pushes.
        exchanged: sequence number and answer of the last exchange.
    """

    pulled: dict[int, Pulled] = field(default_factory=dict)
    waiting: dict[int, "Push | None"] = field(default_factory=dict)
    done: Window = field(default_factory=Window)
    results: dict[int, "Answered"] = field(default_factory=dict)
    exchanged: tuple[int, NDArray[Any]] | None = None


class Outcome(IntEnum):
    """The result of a push: skipped by the rank, applied, or refused as not finite."""

    SKIPPED = 0
    APPLIED = 1
    REFUSED = 2


@dataclass(frozen=True)
class Answered:
    """The answer to a push.

    Attributes:
        outcome: its outcome.
        staleness: updates applied between reading the rows and this one.
    """

    outcome: Outcome
    staleness: int = 0


@dataclass(frozen=True)
class Push:
    """A rank's gradients of a pulled batch.

    Attributes:
        update: the optimizer step; its `step` is read only if ranks train in step.
        newest: minute of the batch's newest event.
        scales: factors by group, see `rows.Gradients`.
        by_group: gradients by group.
        dense: gradient of this server's part of the dense weights, [part], if servers hold them; else None.
    """

    update: Update
    newest: int
    scales: NDArray[Any]
    by_group: Arrays
    dense: NDArray[Any] | None


class Shard:
    """The rows of one server, and its part of the dense weights if servers hold them.

    Attributes:
        sync: the mode.
        rows: rows of all groups.
        num_keys: keys pulled in this attempt.
        num_examples: examples trained on in this attempt, if every push is a step of its own.
    """

    def __init__(self, spec: RankerSpec, *, server: int):
        """Creates a shard without rows.

        Args:
            spec: the model's spec; its `training.sync` is not `sync`.
            server: this server.
        """
        sync = spec.training.sync
        assert isinstance(sync, Served)
        self.sync: Served = sync
        self._spec, self._server = spec, server
        self._num_ranks = spec.cluster.ranks
        self._changed = threading.Condition()
        self._ranks = [_Rank() for _ in range(self._num_ranks)]
        self.dense: DensePart | None = None
        self.center: Center | None = None
        self._base_step = self._dense_size = self._version_before = 0
        self.num_keys = self.num_examples = 0
        self._eviction: Counting[None] | None = None
        self._counted: tuple[int, Counts | None] | None = None
        self.empty()

    def empty(self) -> None:
        """Removes all rows, to free their memory before others are loaded."""
        with self._changed:
            self._eviction = self._counted = None
            self.rows = Rows({}, half=False)
            groups = groups_of(self._spec)
            stores = stores_of(groups, seed=self._spec.training.seed, owners=self._spec.num_parameter_servers)
            self.rows = Rows(stores, half=self.sync.wire == "float16")

    def begin(self, step: int, newest: int, dense: Mapping[str, NDArray[Any]]) -> None:
        """Begins training, after the rows are loaded.

        Args:
            step: steps done before.
            newest: minute of the newest event trained on.
            dense: [part] each, this server's part of the dense weights (`weights`) and their optimizer's moments.
        """
        with self._changed:
            # The sequence numbers of ranks that restore an earlier state restart from 0.
            self._ranks = [_Rank() for _ in range(self._num_ranks)]
            self._base_step, self.rows.newest = step - self.rows.version, newest
            self._version_before = self.rows.version
            self._dense_size = len(dense["weights"])
            if isinstance(self.sync, Async):
                self.dense = DensePart(self._spec, dense, server=self._server)
            elif isinstance(self.sync, Shadow):
                self.center = center_of(self.sync, dense["weights"], ranks=self._num_ranks)

    @property
    def num_updates(self) -> int:
        """Number of updates applied since `begin`."""
        return self.rows.version - self._version_before

    def pull(
        self, caller: Caller, keys: Arrays, observed: Arrays, asked: NDArray[Any], step: int
    ) -> tuple[int, Arrays, NDArray[Any] | None]:
        """Returns the rows' version, a training batch's embeddings, and this part of the dense weights if held.

        See `Rows.pull`.

        Raises:
            MessageError: the batch's gradients have already arrived.
        """
        with self._changed:
            rank = self._rank(caller)
            pulled = rank.pulled.get(caller.sequence)
            if caller.sequence in rank.done:
                raise MessageError(f"a pull after its push (got rank {caller.rank}, batch {caller.sequence})")
            if pulled is None:
                pulled = rank.pulled[caller.sequence] = self.rows.pull(keys, observed, asked, step)
                self.num_keys += sum(map(len, keys.values()))
            pulled.version = self.rows.version
            return pulled.version, self.rows.embeddings(pulled), None if self.dense is None else self.dense.weights()

    def push(self, caller: Caller, push: Push | None, *, patience_s: float) -> Answered | None:
        """Updates the rows of a batch, once per batch; None: other ranks are missing, call again.

        Args:
            caller: has the sequence number of the pull.
            push: gradients; None: the batch is skipped.
            patience_s: seconds to wait for the other ranks of this step.

        Raises:
            MessageError: the batch was not pulled, or the gradients do not match it.
        """
        given_up = time.monotonic() + patience_s
        with self._changed:
            rank = self._rank(caller)
            if caller.sequence not in rank.done and caller.sequence not in rank.pulled:
                raise MessageError(f"a push without its pull (got rank {caller.rank}, batch {caller.sequence})")
            if caller.sequence not in rank.done:
                self._refuse_misfit(rank.pulled[caller.sequence], push)
                rank.waiting[caller.sequence] = push
                self._carry_out()
            while caller.sequence not in rank.done:
                left_s = given_up - time.monotonic()
                if left_s <= 0 or not self._changed.wait(left_s):
                    return None
            # A rank calls again only until it has the answer: older results are not needed.
            return rank.results.get(caller.sequence, Answered(Outcome.APPLIED))

    def _refuse_misfit(self, pulled: Pulled, push: Push | None) -> None:
        if push is None:
            return
        for name, gradients in push.by_group.items():
            if len(gradients) != len(pulled.keys[name]):
                raise MessageError(f"{name}: {len(gradients)} gradients of {len(pulled.keys[name])} rows")
        if self.dense is not None and (push.dense is None or len(push.dense) != self._dense_size):
            raise MessageError(f"gradients of other than the {self._dense_size} dense weights of this server")

    def _carry_out(self) -> None:
        """Applies every push whose turn it is.

        A rank's pushes may arrive out of order, but are applied in order: otherwise more batches than allowed would lie
        between reading a row and updating it.
        """
        while self._skip_next() or self._apply_next():
            self._changed.notify_all()

    def _skip_next(self) -> bool:
        for number, rank in enumerate(self._ranks):
            if rank.done.next in rank.waiting and rank.waiting[rank.done.next] is None:
                self._finish(number, rank.done.next, Answered(Outcome.SKIPPED))
                return True
        return False

    def _apply_next(self) -> bool:
        """Applies the next pushes that have arrived: one rank's, or all ranks' if dense weights are updated in step."""
        ranks = list(range(self._num_ranks))
        for together in [ranks] if isinstance(self.sync, Stale) else [[rank] for rank in ranks]:
            pushes = [self._next(self._ranks[rank]) for rank in together]
            ready = [push for push in pushes if push is not None]
            steps = {self._ranks[rank].done.next for rank in together}
            if len(ready) < len(together) or len(steps) != 1:
                continue
            before = self.rows.version
            outcome = Outcome.APPLIED if self._apply(ready) else Outcome.REFUSED
            for rank, (pulled, _) in zip(together, ready, strict=True):
                self._finish(rank, self._ranks[rank].done.next, Answered(outcome, before - pulled.version))
            return True
        return False

    def _next(self, rank: _Rank) -> tuple[Pulled, Push] | None:
        """Returns the push whose turn it is and its pull; None if it has not arrived."""
        push = rank.waiting.get(rank.done.next)
        return None if push is None else (rank.pulled[rank.done.next], push)

    def _apply(self, pushes: Sequence[tuple[Pulled, Push]]) -> bool:
        update = pushes[0][1].update
        self.rows.newest = max(self.rows.newest, *(push.newest for _, push in pushes))
        if not isinstance(self.sync, Stale):
            # Every push is a step of its own. The dense part must not be updated if the rows are not.
            update = update._replace(step=self._base_step + self.rows.version + 1)
            dense = pushes[0][1].dense
            if dense is not None and not np.isfinite(dense).all():
                return False
        parts = [Gradients(pulled, push.by_group, push.scales) for pulled, push in pushes]
        if not self.rows.apply(parts, update):
            return False
        self.num_examples += round(1.0 / update.scale) if update.scale else 0
        if self.dense is not None:
            assert pushes[0][1].dense is not None
            self.dense.apply(pushes[0][1].dense, update)
        return True

    def _finish(self, rank: int, sequence: int, answered: Answered) -> None:
        of_rank = self._ranks[rank]
        if of_rank.done.add(sequence):
            of_rank.pulled.pop(sequence, None)
            of_rank.waiting.pop(sequence, None)
            of_rank.results[sequence] = answered
            of_rank.results.pop(sequence - _RESULTS_KEPT, None)

    def read(self, keys: Arrays) -> Arrays:
        """Returns embeddings without creating rows."""
        with self._changed:
            return self.rows.read(keys)

    def exchange(self, caller: Caller, w: NDArray[Any]) -> NDArray[Any]:
        """Returns the change to a rank's dense weights, once per sequence number; see `center`."""
        with self._changed:
            rank = self._rank(caller)
            if self.center is None:
                raise MessageError("nothing to exchange in this mode")
            if len(w) != self._dense_size:
                raise MessageError(f"{len(w)} weights of {self._dense_size} of this server")
            if not np.isfinite(w).all():
                raise MessageError(f"weights that are not finite (got them of rank {caller.rank})")
            if rank.exchanged is None or rank.exchanged[0] != caller.sequence:
                rank.exchanged = caller.sequence, self.center.exchange(caller.rank, w)
            return rank.exchanged[1]

    def evict(self, caller: Caller, sums: Counts | None) -> Counts | None:
        """Does the next part of an eviction, once per sequence number; see `Rows.evict`.

        Args:
            caller: the one rank that evicts.
            sums: sums over the servers of the last counts; None: begins an eviction.

        Returns:
            This server's counts; None: the rows are removed.

        Raises:
            MessageError: sums of other counts than the last ones.
        """
        with self._changed:
            if self._counted is None or self._counted[0] != caller.sequence:
                last = None if self._counted is None else self._counted[1]
                if sums is None:
                    self._eviction = self.rows.evict()
                elif last is None or sums.shape != last.shape:
                    raise MessageError(f"sums of counts that this server did not give (got {sums.shape})")
                self._counted = caller.sequence, self._evict_further(sums)
            return self._counted[1]

    def _evict_further(self, sums: Counts | None) -> Counts | None:
        assert self._eviction is not None
        try:
            return next(self._eviction) if sums is None else self._eviction.send(sums)
        except StopIteration:
            return None

    def dense_arrays(self) -> Arrays:
        """Returns this server's part of the dense weights: `weights`, and moments if it updates them."""
        with self._changed:
            if self.dense is not None:
                return self.dense.arrays()
            return {} if self.center is None else {"weights": self.center.average()}

    def pushes_done(self) -> list[int]:
        """Returns the number of pushes of each rank that were applied or skipped."""
        with self._changed:
            return [rank.done.count for rank in self._ranks]

    def _rank(self, caller: Caller) -> _Rank:
        if not 0 <= caller.rank < self._num_ranks:
            raise MessageError(f"no such rank (got {caller.rank} of {self._num_ranks})")
        return self._ranks[caller.rank]

    def snapshot(self, copies: Copies) -> dict[str, RowsSnapshot]:
        """Returns a copy of the rows; the last snapshot that took this memory is overwritten."""
        with self._changed:
            return {name: snapshot_of(store, copies) for name, store in self.rows.stores.items()}
