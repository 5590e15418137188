"""A rank's tables on parameter servers: calls for a batch, and for the whole model."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from sangam.schemas.derived.groups import Group
from sangam.trainer_module.embedding.statistics import by_table
from sangam.trainer_module.parameter_server.ahead import Pushed
from sangam.trainer_module.parameter_server.client import Servers
from sangam.trainer_module.parameter_server.dense_part import part_of
from sangam.trainer_module.parameter_server.lane import Arrays, Call
from sangam.trainer_module.parameter_server.routing import Request
from sangam.trainer_module.parameter_server.rows import Update
from sangam.trainer_module.parameter_server.shard import Outcome

_SKIPPED = np.array([0, 0, 1], np.int64)


class ServedTables:
    """One rank's access to all rows of all groups.

    Attributes:
        servers: the servers that hold the rows.
    """

    def __init__(self, groups: Mapping[str, Group], servers: Servers):
        """Takes the groups of tables."""
        self._groups, self.servers = dict(groups), servers

    def pull(self, number: int, request: Request, step: int) -> list[Call]:
        """Requests the rows of a training batch; admitted new keys get rows.

        Args:
            number: number of the batch.
            request: its keys.
            step: the training step.
        """
        return [
            server.begin(
                "pull",
                [
                    np.array([step], np.int64),
                    *request.keys(server.number),
                    *request.counted(server.number, self._groups),
                ],
                sequence=number,
            )
            for server in self.servers.all
        ]

    def embeddings(self, answers: Sequence[Arrays]) -> tuple[dict[str, tf.Tensor], NDArray[Any] | None]:
        """Returns a batch's embeddings in the order of its request, and the dense weights if servers hold them."""
        parts = [answer[1:] for answer in answers]
        embeddings = self._joined(parts)
        has_dense = len(parts[0]) > len(self._groups)
        return embeddings, _joined([part[-1] for part in parts]) if has_dense else None

    def push(
        self,
        number: int,
        request: Request,
        gradients: Mapping[str, tf.Tensor],
        scales: tf.Tensor,
        update: Update,
        newest: int,
        dense: NDArray[Any] | None,
    ) -> list[Call]:
        """Sends a batch's gradients.

        Args:
            number: number of the batch.
            request: its keys.
            gradients: [u, dim] by group, sums over examples, in the type of the wire.
            scales: [groups], see `loop.served_step.half_of`.
            update: the optimizer step.
            newest: minute of the batch's newest event.
            dense: gradient of the dense weights, [size], if servers hold them.
        """
        arrays = {name: tensor.numpy() for name, tensor in gradients.items()}
        context = [
            np.array([update.step, newest, 0], np.int64),
            np.array([update.scale, update.factor], np.float32),
            scales.numpy(),
        ]
        begun = []
        for server in self.servers.all:
            rows = [array[request.slices[name][server.number]] for name, array in arrays.items()]
            part = [] if dense is None else [dense[part_of(len(dense), server.number, len(self.servers))]]
            begun.append(server.begin("push", [*context, *rows, *part], sequence=number))
        return begun

    def skip(self, number: int) -> list[Call]:
        """Tells the servers that a pulled batch is skipped; see `push`."""
        return [server.begin("push", [_SKIPPED], sequence=number) for server in self.servers.all]

    def finish(self, answers: Sequence[Call]) -> Pushed:
        """Waits until all servers have applied a push."""
        told = []
        for answer in answers:
            numbers = answer.result()[0]
            while not numbers[0]:  # Other ranks have not pushed yet.
                numbers = answer.again().result()[0]
            told.append([int(each) for each in numbers[1:]])
        outcomes, staleness, updates = zip(*told, strict=True)
        return Pushed(Outcome(max(outcomes)), max(staleness), updates[0])

    def read(self, request: Request) -> dict[str, tf.Tensor]:
        """Returns embeddings without creating rows; unknown keys read as their table's default."""
        begun = [server.begin("read", request.keys(server.number)) for server in self.servers.all]
        return self._joined([answer.result() for answer in begun])

    def _joined(self, parts: Sequence[Arrays]) -> dict[str, tf.Tensor]:
        return {name: tf.constant(_joined([part[i] for part in parts])) for i, name in enumerate(self._groups)}

    def begin(self, dense: Mapping[str, NDArray[Any]], *, step: int, newest: int) -> None:
        """Begins training, after rows are loaded; one rank calls it.

        Args:
            dense: weights and moments, [size] by name.
            step: number of updates applied before.
            newest: minute of the newest event trained on.
        """
        document = {"step": step, "newest": newest, "dense": list(dense)}
        self.servers.tell_parts("begin", document, list(dense.values()))

    def dense(self) -> dict[str, NDArray[Any]]:
        """Returns the dense vectors on the servers: [size] by name."""
        answers = self.servers.ask("dense", {})
        names = answers[0][0]["dense"]
        return {name: np.concatenate([arrays[i] for _, arrays in answers]) for i, name in enumerate(names)}

    def load(self, directory: Path, *, is_base: bool) -> None:
        """Replaces all rows by those of a checkpoint, of this training or another; one rank calls it.

        Raises:
            CheckpointError: the checkpoint is damaged or does not fit.
        """
        self.servers.ask("load", {"directory": str(directory), "is_base": is_base})

    def save(self, target: Path) -> None:
        """Has the servers copy their rows, then write the copies; one rank calls it."""
        self.servers.ask("save", {"target": str(target)})

    def evict(self) -> None:
        """Removes rows by the tables' expiry and capacity; one rank calls it."""
        sums: list[NDArray[Any]] = []
        while True:
            begun = [server.begin("evict", sums) for server in self.servers.all]
            counts = [answer.result() for answer in begun]
            if not counts[0]:
                return
            sums = [np.sum([of_server[0] for of_server in counts], axis=0)]

    def account(self) -> list[dict[str, Any]]:
        """Returns the counters of each server."""
        return [document for document, _ in self.servers.ask("account", {})]

    def report(self) -> dict[str, Any]:
        """Returns the servers' counters, and how evenly load is spread."""
        told = self.account()
        return {
            "number": len(told),
            "load_max_over_mean": _max_over_mean([document["keys"] for document in told]),
            "rows_max_over_mean": _max_over_mean([document["rows"] for document in told]),
            "overflows": sum(document["overflows"] for document in told),
            "cpu_s": [round(sum(document["cpu_s"].values()), 3) for document in told],
        }

    def statistics(self) -> dict[str, dict[str, Any]]:
        """Returns statistics by table, see `embedding.statistics.by_table`."""
        answers = self.servers.ask("statistics", {})
        counts = {name: np.stack([arrays[i] for _, arrays in answers]) for i, name in enumerate(self._groups)}
        return by_table(self._groups, counts)


def _max_over_mean(numbers: Sequence[float]) -> float | None:
    return round(max(numbers) * len(numbers) / sum(numbers), 4) if sum(numbers) else None


def _joined(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
