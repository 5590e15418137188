"""What must hold for every part: identities and an oracle by differences, each told with the numbers that were seen."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from sangam.pipelines.kit.around import Rows, without_values
from sangam.pipelines.kit.world import World
from sangam.schemas.parts.kinds import Part, place_of
from sangam.schemas.parts.roles import Loss
from sangam.trainer_module.check_scores import write_check
from sangam.trainer_module.checkpoint.manifest import read_manifest
from sangam.trainer_module.checkpoint.restore import read_snapshot
from sangam.trainer_module.export import export
from sangam.trainer_module.input.batch import Batch, empty_batch
from sangam.trainer_module.ranker import Ranker, with_precision

_Array = NDArray[np.float32]
_DIRECTIONS = 9
_STEP = 1e-2
_NEAR = 2e-2
_BFLOAT16_NEAR = 0.1
_SUM_NEAR = 1e-4
_NOISE = 0.05


class PartFailure(AssertionError):
    """A part breaks what the trainer, a resume or a server relies on."""


class Oracles:
    """The checks of one part in one world."""

    def __init__(self, part: Part, world: World, rows: Rows, folder: Path):
        self._part, self._world, self._rows, self._folder = part, world, rows, folder
        self._ranker = Ranker(with_precision(world.ranker, "float32"))
        self._batch = world.batch(rows)
        # Not the initial weights alone: what starts at zero would hide its gradient.
        noise = np.random.default_rng(2).normal(size=self._ranker.weights.size)
        self._flat = (self._ranker.weights.initial(1) + _NOISE * noise).astype(np.float32)

    def all(self) -> dict[str, str]:
        """Runs every check; returns what each has seen.

        Raises:
            PartFailure: the first that does not hold.
        """
        checks: Mapping[str, Callable[[], str]] = {
            "determinism": self.determinism,
            "gradient": self.gradient,
            "ranks": self.ranks,
            "empty": self.empty,
            "bfloat16": self.bfloat16,
            "resume": self.resume,
            "export": self.export,
        }
        return {name: check() for name, check in checks.items()}

    def determinism(self) -> str:
        """The same batch gives the same losses and gradients, bit by bit."""
        (loss, gradient), (again, gradient_again) = self._losses(self._batch), self._losses(self._batch)
        if not (np.array_equal(loss, again) and np.array_equal(gradient, gradient_again)):
            raise self._failure("determinism", "two calls with the same arguments give different losses or gradients")
        return "equal bit by bit"

    def gradient(self) -> str:
        """The gradient is the slope of the loss: central differences along random directions of all dense weights.

        In float32, and over kinks of relu, some directions are off: the median counts.
        """
        _, gradient = self._losses(self._batch)
        generator, errors = np.random.default_rng(0), []
        for _ in range(_DIRECTIONS):
            direction = generator.normal(size=self._flat.shape).astype(np.float32)
            direction /= np.linalg.norm(direction)
            ahead, behind = (
                self._losses(self._batch, self._flat + sign * _STEP * direction)[0].sum() for sign in (1, -1)
            )
            slope = (ahead - behind) / (2 * _STEP)
            errors.append(abs(slope - gradient @ direction) / max(1.0, abs(slope)))
        error = float(np.median(errors))
        if error > _NEAR:
            raise self._failure("gradient", f"differs from the slope of the loss by {error:.2g} of it, at most {_NEAR}")
        return f"{error:.1e} of the slope, median of {_DIRECTIONS} directions"

    def ranks(self) -> str:
        """Two ranks learn what one learns: losses and gradients of two halves add up to those of the whole.

        The halves keep the examples of one id together where a loss compares them.
        """
        halves = self._halves()
        first, second = (
            self._losses(self._world.batch([row for row, own in zip(self._rows, halves, strict=True) if own is half]))
            for half in (True, False)
        )
        worst = max(
            float(np.max(np.abs(one + other - whole) / (1.0 + np.abs(whole))))
            for one, other, whole in zip(first, second, self._losses(self._batch), strict=True)
        )
        if not worst <= _SUM_NEAR:
            raise self._failure("ranks", f"two halves of a batch are {worst:.2g} off the whole, at most {_SUM_NEAR}")
        return f"{worst:.1e}"

    def empty(self) -> str:
        """No example, one example, and no value where none is required give finite losses, gradients and scores."""
        batches = {
            "no example": empty_batch(self._ranker.layout),
            "one example": self._world.batch(self._rows[:1]),
            "no values": self._world.batch(without_values(self._world.spec, self._rows)),
        }
        for what, batch in batches.items():
            loss, gradient = self._losses(batch)
            if not (np.isfinite(loss).all() and np.isfinite(gradient).all()):
                raise self._failure("empty", f"{what}: losses or gradients are not finite")
        return "finite"

    def bfloat16(self) -> str:
        """In bfloat16 the logits are those of float32 but for rounding."""
        half, rows = Ranker(with_precision(self._world.ranker, "bfloat16")), self._rows_of(self._batch)
        one, other = (
            ranker.logits(ranker.weights.unpack(tf.constant(self._flat)), self._batch, rows).numpy()
            for ranker in (self._ranker, half)
        )
        worst = float(np.max(np.abs(one - other) / (1.0 + np.abs(one))))
        if not worst <= _BFLOAT16_NEAR:
            raise self._failure("bfloat16", f"logits differ from float32's by {worst:.2g}, at most {_BFLOAT16_NEAR}")
        return f"{worst:.1e}"

    def resume(self) -> str:
        """A training that is saved and restored goes on as one that was not, bit by bit."""
        trainer = self._world.trainer()
        list(trainer.steps([self._batch, self._batch]))
        target = self._folder / "resumed"
        self._world.save(trainer, target)
        restored = self._world.trainer()
        restored.restore(read_snapshot(target, read_manifest(target), rank=0, ranks=1), target)
        for each in (trainer, restored):
            list(each.steps([self._batch]))
        one, other = trainer.snapshot().dense, restored.snapshot().dense
        unequal = [name for name in one if not np.array_equal(one[name], other[name])]
        if unequal:
            raise self._failure("resume", f"a step after a restore gives other {', '.join(sorted(unequal))}")
        return "equal bit by bit"

    def export(self) -> str:
        """The exported model, of stock operations, gives the trainer's scores."""
        trainer = self._world.trainer()
        list(trainer.steps([self._batch]))
        job = self._world.job(self._rows)
        self._world.save(trainer, Path(job.final_checkpoint))
        write_check(job, 0, trainer.predict)
        try:
            export(job)
        except (ValueError, tf.errors.OpError) as error:
            raise self._failure("export", str(error).splitlines()[0]) from error
        return f"{len(self._rows)} rows scored alike"

    def _losses(self, batch: Batch, flat: NDArray[np.float32] | None = None) -> tuple[_Array, _Array]:
        """Returns each task's summed loss, and the gradient of their sum by the dense weights."""
        weights = tf.constant(self._flat if flat is None else flat)
        with tf.GradientTape() as tape:
            tape.watch(weights)
            losses_T = self._ranker.losses(self._ranker.weights.unpack(weights), batch, self._rows_of(batch), None)
        return losses_T.numpy(), tape.gradient(losses_T, weights).numpy()

    def _rows_of(self, batch: Batch) -> dict[str, tf.Tensor]:
        """Returns an embedding for each key of a batch, a function of the key alone."""
        found = {}
        for group, keys in self._ranker.keys(batch).items():
            dim = self._ranker.groups[group].dim
            seeds = tf.stack([tf.cast(keys % 9973, tf.float32)] * dim, 1) + tf.range(dim, dtype=tf.float32)
            found[group] = tf.where(keys[:, None] == 0, 0.0, tf.sin(seeds * 1.7))
        return found

    def _halves(self) -> list[bool]:
        names = self._part.reads() if isinstance(self._part, Loss) else ()
        if not names:
            return [position % 2 == 0 for position in range(len(self._rows))]
        column = self._ranker.layout.all_ids.index(names[0])
        return [bool(key % 2) for key in self._batch["ids"][:, column].numpy()]

    def _failure(self, check: str, what: str) -> PartFailure:
        return PartFailure(f"{place_of(type(self._part))}: {check}: {what} ({self._part.role} '{self._part.kind}')")
