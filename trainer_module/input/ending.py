"""Iterators of datasets that end at once.

tf.data's tuner of parallelism wakes after 10 ms and then after ever twice as long, up to a minute, and the destructor
of an iterator waits for it: an epoch of 11 s ended after 20 s. (TensorFlow 2.16 wakes the tuner to cancel it, and only
then sets the flag that the tuner reads.)
"""

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import tensorflow as tf


def untuned(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Returns a dataset without the tuner: nothing in ours can be tuned."""
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)


class Begun:
    """An iterator that prepares its first element in a thread from the start, while its owner does other work.

    It is destroyed in a thread of its own. For a client of tf.data service, which logs a warning every second where it
    has no tuner.
    """

    def __init__(self, dataset: tf.data.Dataset):
        """Begins."""
        self._held, self._is_first = [iter(dataset)], True
        self._first: Future[Any] = Future()
        threading.Thread(target=_fetch, args=(self._held, self._first), daemon=True, name="first-element").start()

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if not self._held:
            raise StopIteration
        try:
            element = self._first.result() if self._is_first else next(self._held[0], None)
        except BaseException:
            self.close()
            raise
        self._is_first = False
        if element is None:
            self.close()
            raise StopIteration
        return element

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Ends it, at once."""
        held, self._held = self._held, []
        if held:
            threading.Thread(target=held.clear, daemon=True, name="end-of-dataset").start()


def _fetch(held: list[Iterator[Any]], first: "Future[Any]") -> None:
    try:
        first.set_result(next(held[0], None))
    except BaseException as error:  # noqa: BLE001 - raised where the element is asked for
        first.set_exception(error)
