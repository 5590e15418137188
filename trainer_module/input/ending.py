"""Iterators of datasets that end at once.

tf.data's tuner of parallelism wakes after 10 ms and then after ever twice as long, up to a minute, and the destructor
of an iterator waits for it: an epoch of 11 s ended after 20 s. (TensorFlow 2.16 wakes the tuner to cancel it, and only
then sets the flag that the tuner reads.)
"""

import threading
from collections.abc import Iterator
from typing import Any

import tensorflow as tf


def untuned(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Returns a dataset without the tuner, which finds nothing to tune in ours."""
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)


def ended_aside(dataset: tf.data.Dataset) -> Iterator[Any]:
    """Yields the elements; the iterator is destroyed in a thread of its own.

    For a client of tf.data service, which logs a warning every second where it has no tuner.
    """
    held = [iter(dataset)]
    try:
        while (element := next(held[0], None)) is not None:
            yield element
    finally:
        threading.Thread(target=held.clear, daemon=True, name="end-of-dataset").start()
