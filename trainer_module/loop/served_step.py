"""TensorFlow graphs of a rank whose rows are on parameter servers: the computation between two messages."""

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import tensorflow as tf

from sangam.trainer_module.dense.optimizers import clipped
from sangam.trainer_module.embedding.sharded_tables import Unique
from sangam.trainer_module.input.batch import Batch
from sangam.trainer_module.loop.step import (
    StepResult,
    StepState,
    event_minutes,
    factor_at,
    local_step,
    newest_minute,
    of_all,
    update_dense,
)
from sangam.trainer_module.parameter_server.routing import RoutedKeys, route

_TOP_EXPONENT = 14.0
_LARGEST_EXPONENT = 126.0
"""Maximum exponent of the factor: it and its inverse are float32 numbers."""


class ServedStep:
    """The traced functions.

    Attributes:
        route: ids of a batch -> routed keys, newest minute.
        local: batch, embeddings [u, dim] and index [n] by group -> the dense message, the rows' gradients in the type
            of the wire, and their scales.
        update: message of all ranks (summed) or of one -> result, scale of the rows' gradients, factor of the learning
            rates, step; updates the dense weights.
        of_own: a rank's own message -> the same, and the gradient of the dense weights, a sum; updates nothing.
        read_keys: batch -> routed keys for predictions.
        score: batch, embeddings, index -> logits.
        score_on_host: the same, computed on the host.
    """

    def __init__(self, state: StepState, scored: tf.Variable, *, servers: int, is_half: bool):
        """Traces the functions.

        Args:
            state: read and updated.
            scored: the dense weights for predictions.
            servers: number of servers that share the rows.
            is_half: whether embeddings and gradients are sent as float16.
        """
        self._state, self._ranker, self._scored, self._servers = state, state.ranker, scored, servers
        self._wire = tf.float16 if is_half else tf.float32
        groups = self._ranker.groups
        batch = self._ranker.layout.batch_spec()
        embeddings = {name: tf.TensorSpec([None, group.dim], self._wire) for name, group in groups.items()}
        index = {name: tf.TensorSpec([None], tf.int32) for name in groups}
        self.route = _function(self._routed, self._ranker.unseen.read(batch))
        self.local = _function(self._computed, batch, embeddings, index)
        size = self.local.get_concrete_function().structured_outputs[0].shape
        message = tf.TensorSpec(size, tf.float32)
        self.update = _function(self._updated, message)
        self.of_own = _function(self._gradient_of_own, message)
        self.read_keys = _function(self._routed_to_read, batch)
        self.score, self.score_on_host = (
            _function(functools.partial(self._scores, where=where), batch, embeddings, index)
            for where in (self._ranker.placement.dense, self._ranker.placement.host)
        )

    def _routed(self, ids: Batch) -> tuple[dict[str, RoutedKeys], tf.Tensor]:
        minutes = event_minutes(self._state, ids)
        keys = self._ranker.keys_in_training(ids, self._state.epoch)
        routed = route(self._ranker.groups, keys, minutes, self._servers)
        return routed, tf.maximum(newest_minute(self._state, ids), 0)

    def _routed_to_read(self, batch: Batch) -> dict[str, RoutedKeys]:
        return route(self._ranker.groups, self._ranker.keys(self._ranker.serving(batch)), {}, self._servers)

    def _unique(self, embeddings: Any, index: Any) -> dict[str, Unique]:
        return {name: Unique(tf.cast(embeddings[name], tf.float32), index[name]) for name in self._ranker.groups}

    def _computed(self, batch: Batch, embeddings: Any, index: Any) -> tuple[tf.Tensor, dict[str, tf.Tensor], tf.Tensor]:
        with self._ranker.placement.dense():
            unique = self._unique(embeddings, index)
        local = local_step(self._state, batch, unique)
        if self._wire == tf.float32:
            return local.message, local.rows, tf.ones([len(local.rows)])
        scaled, scales = {}, []
        for name, gradient in local.rows.items():
            scaled[name], scale = half_of(gradient)
            scales.append(scale)
        return local.message, scaled, tf.stack(scales) if scales else tf.ones([0])

    def _updated(self, message: tf.Tensor) -> tuple[StepResult, tf.Tensor, tf.Tensor, tf.Tensor]:
        summed = of_all(self._state, message)
        is_due = summed.result.is_finite & (summed.result.count > 0.0)
        step = tf.cond(is_due, lambda: tf.identity(update_dense(self._state, summed).step), self._state.step.read_value)
        factor = tf.convert_to_tensor(factor_at(self._state, step), tf.float32)
        return summed.result, summed.scale, factor, step

    def _gradient_of_own(self, message: tf.Tensor) -> tuple[StepResult, tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
        summed = of_all(self._state, message)
        step = self._state.step.assign_add(tf.cast(summed.result.is_finite, tf.int64))
        factor = tf.convert_to_tensor(factor_at(self._state, step), tf.float32)
        gradient = clipped(summed.dense, self._ranker.spec.training.clip_gradient_norm) * summed.result.count
        return summed.result, summed.scale, factor, tf.identity(step), gradient

    def _scores(
        self, batch: Batch, embeddings: Any, index: Any, *, where: Callable[[], AbstractContextManager[Any]]
    ) -> tf.Tensor:
        batch = self._ranker.serving(batch)
        with where():
            unique = self._unique(embeddings, index)
            rows = {name: tf.gather(of_group.embeddings_uD, of_group.index_n) for name, of_group in unique.items()}
            return self._ranker.logits(self._ranker.weights.unpack(self._scored), batch, rows)


def half_of(gradient: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns a gradient as float16, and the factor that restores its scale.

    It is scaled by a power of two so that its largest number is near the top of float16's range: none overflows, and
    each number's error is at most 2^-11 of itself, or 2^-39 of the largest (if that is over 2^-112). Non-finite numbers
    stay non-finite.
    """
    largest = tf.maximum(tf.reduce_max(tf.abs(gradient)), 0.0)  # The maximum of an empty tensor is -infinity.
    is_scalable = tf.math.is_finite(largest) & (largest > 0.0)
    exponent = tf.floor(tf.math.log(tf.where(is_scalable, largest, 1.0)) / np.log(2.0))
    shift = tf.clip_by_value(_TOP_EXPONENT - exponent, -_LARGEST_EXPONENT, _LARGEST_EXPONENT)
    factor = tf.pow(2.0, shift)
    return tf.cast(gradient * factor, tf.float16), 1.0 / factor


def _function(body: Any, *signature: Any) -> Any:
    return tf.function(body, input_signature=signature, autograph=False)
