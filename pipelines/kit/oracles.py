"""What must hold for every part: identities and an oracle by differences, each told with the numbers that were seen."""

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from sangam.pipelines.kit import candidates
from sangam.pipelines.kit.around import Rows, around_nothing, without_values
from sangam.pipelines.kit.world import World
from sangam.schemas.derived.weights import dense_weights
from sangam.schemas.parts.calls import first_line
from sangam.schemas.parts.kinds import Part, place_of
from sangam.schemas.parts.roles import Loss
from sangam.trainer_module.check_scores import write_check
from sangam.trainer_module.checkpoint.manifest import read_manifest
from sangam.trainer_module.checkpoint.restore import read_snapshot
from sangam.trainer_module.export import export
from sangam.trainer_module.input.batch import Batch, empty_batch
from sangam.trainer_module.loop.in_step import InStepTrainer
from sangam.trainer_module.ranker import Ranker, with_precision
from sangam.trainer_module.serving.scores import CHECK_TOLERANCE

_Array = NDArray[np.float32]
_Rows = Mapping[str, _Array]
"""Embeddings of a batch's keys, by group of tables."""
_DIRECTIONS = 7
_STEP = 5e-3
_NEAR = 5e-2
_SMALL_SLOPE = 0.1
"""Slope below which an error counts as if it were this: differences of float32 sums are no better."""
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
        self._embeddings = self._rows_of(self._batch)
        # Not the initial weights alone: what starts at zero would hide its gradient.
        noise = np.random.default_rng(2).normal(size=self._ranker.weights.size)
        self._flat = (self._ranker.weights.initial(1) + _NOISE * noise).astype(np.float32)

    def all(self) -> dict[str, str]:
        """Runs every check; returns what each has seen.

        Raises:
            PartFailure: the first that does not hold.
        """
        checks: Mapping[str, Callable[[], str]] = {
            "finite": self.finite,
            "determinism": self.determinism,
            "gradient": self.gradient,
            "ranks": self.ranks,
            "bfloat16": self.bfloat16,
            "resume": self.resume,
            "export": self.export,
        }
        return {name: check() for name, check in checks.items()}

    def finite(self) -> str:
        """Losses and gradients are finite, also of no example, one, and no value where none is required."""
        batches = {
            "all examples": self._batch,
            "no example": empty_batch(self._ranker.layout),
            "one example": self._world.batch(self._rows[:1]),
            "no values": self._world.batch(without_values(self._world.spec, self._rows)),
        }
        for what, batch in batches.items():
            loss, gradient = self._losses(batch)
            if not (np.isfinite(loss).all() and np.isfinite(gradient).all()):
                raise self._failure("finite", f"{what}: losses or gradients are not finite")
        return "finite"

    def determinism(self) -> str:
        """The same batch gives the same losses and gradients, bit by bit, also with another batch between."""
        one = self._losses(self._batch)
        self._losses(self._world.batch(self._rows[:1]))
        for name, first, again in zip(("losses", "gradients"), one, self._losses(self._batch), strict=True):
            if not np.array_equal(first, again):
                raise self._failure("determinism", f"two calls with the same arguments give different {name}")
        return "equal bit by bit"

    def gradient(self) -> str:
        """The gradient is the slope of the loss: central differences along random directions.

        They lead through the part's own weights, all dense weights, and the embeddings. In float32, and over kinks of
        relu, some are off: the median counts. What is behind a tf.stop_gradient keeps its value.
        """
        held: list[tf.Tensor] = []
        with _stops(held, is_first=True):
            self._losses(self._batch)
        gradient, of_rows = self._slopes()
        generator, seen = np.random.default_rng(0), dict[str, float]()
        for name, mask in self._places().items():
            errors = []
            for _ in range(_DIRECTIONS):
                dense = (mask * generator.normal(size=self._flat.shape)).astype(np.float32)
                rows = {
                    group: (0.0 if mask.any() else 1.0) * generator.normal(size=each.shape).astype(np.float32)
                    for group, each in of_rows.items()
                }
                wanted = sum(float(np.sum(of_rows[group] * rows[group])) for group in rows) + float(gradient @ dense)
                norm = np.sqrt(sum(float(np.sum(each**2)) for each in (dense, *rows.values())))
                slope = self._difference(dense / norm, {group: each / norm for group, each in rows.items()}, held)
                errors.append(abs(slope - wanted / norm) / max(_SMALL_SLOPE, abs(slope)))
            seen[name] = float(np.median(errors))
            if not seen[name] <= _NEAR:
                what = f"by {name} differs from the slope of the loss by {seen[name]:.2g} of it, at most {_NEAR}"
                raise self._failure("gradient", what)
        stops = f", {len(held)} values behind stop_gradient held" if held else ""
        return ", ".join(f"{name} {error:.0e}" for name, error in seen.items()) + f" of the slope{stops}"

    def _places(self) -> dict[str, NDArray[np.bool_]]:
        """Returns what a direction leads through: for each name the dense weights; none of them: the embeddings."""
        others = {each.name for each in dense_weights(around_nothing().ranker())}
        own = np.concatenate([np.full(each.size, each.name not in others) for each in self._ranker.weights.weights])
        every = np.ones_like(own)
        places = {"its weights": own, "all weights": every, "embeddings": ~every}
        return places if own.any() else {name: each for name, each in places.items() if each is not own}

    def _difference(self, dense: _Array, rows: _Rows, held: list[tf.Tensor]) -> float:
        """Returns the slope along a direction of length 1."""
        sums = []
        for sign in (1, -1):
            with _stops(held, is_first=False):
                moved = {group: each + sign * _STEP * rows[group] for group, each in self._embeddings.items()}
                losses_T = self._sums(self._batch, tf.constant(self._flat + sign * _STEP * dense), moved)
            sums.append(losses_T.numpy().astype(np.float64).sum())
        return float((sums[0] - sums[1]) / (2 * _STEP))

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

    def bfloat16(self) -> str:
        """In bfloat16 the logits are those of float32 but for rounding."""
        half = Ranker(with_precision(self._world.ranker, "bfloat16"))
        one, other = (
            ranker.logits(ranker.weights.unpack(tf.constant(self._flat)), self._batch, self._embeddings).numpy()
            for ranker in (self._ranker, half)
        )
        worst = float(np.max(np.abs(one - other) / (1.0 + np.abs(one))))
        if not worst <= _BFLOAT16_NEAR:
            raise self._failure("bfloat16", f"logits differ from float32's by {worst:.2g}, at most {_BFLOAT16_NEAR}")
        return f"{worst:.1e}"

    def resume(self) -> str:
        """A training that is saved and restored goes on as one that was not, bit by bit."""
        target, trainer = self._folder / "resumed", self._trained
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
        """The exported model, of stock operations, gives the trainer's scores, also where candidates share rows."""
        trainer = self._trained
        job = self._world.job(self._rows)
        self._world.save(trainer, Path(job.final_checkpoint))
        write_check(job, 0, trainer.predict)
        try:
            export(job)
            worst = candidates.difference(job, ["item"])
        except (ValueError, tf.errors.OpError) as error:
            raise self._failure("export", first_line(error)) from error
        if not worst <= CHECK_TOLERANCE:
            what = f"scores of candidates that share rows are {worst:.2g} off those with repeated rows"
            raise self._failure("export", what)
        return f"{len(self._rows)} rows scored alike"

    @functools.cached_property
    def _trained(self) -> InStepTrainer:
        trainer = self._world.trainer()
        list(trainer.steps([self._batch, self._batch]))
        return trainer

    def _losses(self, batch: Batch) -> tuple[_Array, _Array]:
        """Returns each task's summed loss, and the gradient of their sum by the dense weights."""
        weights = tf.constant(self._flat)
        with tf.GradientTape() as tape:
            tape.watch(weights)
            losses_T = self._sums(batch, weights, self._rows_of(batch))
        return losses_T.numpy(), tape.gradient(losses_T, weights).numpy()

    def _slopes(self) -> tuple[_Array, _Rows]:
        """Returns the gradients by the dense weights and by the embeddings."""
        weights, rows = tf.constant(self._flat), self._embeddings
        with tf.GradientTape() as tape:
            tape.watch([weights, rows])
            losses_T = self._sums(self._batch, weights, rows)
        of_weights, of_rows = tape.gradient(losses_T, [weights, rows], unconnected_gradients="zero")
        return of_weights.numpy(), {group: each.numpy() for group, each in of_rows.items()}

    def _sums(self, batch: Batch, flat: tf.Tensor, rows: Mapping[str, tf.Tensor]) -> tf.Tensor:
        return self._ranker.losses(self._ranker.weights.unpack(flat), batch, rows, None)

    def _rows_of(self, batch: Batch) -> dict[str, tf.Tensor]:
        """Returns an embedding for each key of a batch, a function of the key alone."""
        found = {}
        for group, keys in self._ranker.keys(batch).items():
            dim = self._ranker.groups[group].dim
            seeds = tf.stack([tf.cast(keys % 9973, tf.float32)] * dim, 1) + tf.range(dim, dtype=tf.float32)
            found[group] = tf.where(keys[:, None] == 0, 0.0, tf.sin(seeds * 1.7))
        return found

    def _halves(self) -> list[bool]:
        """Returns for each row whether it is in the first half."""
        names = self._part.reads() if isinstance(self._part, Loss) else ()
        if not names:
            return [position % 2 == 0 for position in range(len(self._rows))]
        column = self._ranker.layout.all_ids.index(names[0])
        _, number_B = np.unique(self._batch["ids"][:, column].numpy(), return_inverse=True)
        return [bool(number % 2) for number in number_B]

    def _failure(self, check: str, what: str) -> PartFailure:
        return PartFailure(f"{place_of(type(self._part))}: {check}: {what} ({self._part.role} '{self._part.kind}')")


@contextmanager
def _stops(held: list[tf.Tensor], *, is_first: bool) -> Iterator[None]:
    """Lets tf.stop_gradient note the values it returns, at first, and return these in their order afterwards.

    A gradient treats them as constants, which differences must do as well.
    """
    stop_gradient, values = tf.stop_gradient, iter(list(held))

    def noted(input: tf.Tensor, name: str | None = None) -> tf.Tensor:
        if not is_first:
            return next(values)
        held.append(stop_gradient(input, name))
        return held[-1]

    tf.stop_gradient = noted
    try:
        yield
    finally:
        tf.stop_gradient = stop_gradient
