"""How many pages a step's buffers fault in: `python -m tests.trainer_module.launch.page_faults OUTPUT`.

A process of its own, because the allocator is chosen when a process starts.
"""

import resource
import sys
from pathlib import Path

import tensorflow as tf

_WARM_STEPS, _STEPS = 10, 20


@tf.function(autograph=False)
def step(x: tf.Tensor) -> tf.Tensor:
    """Returns a number, by way of six buffers of 16 MiB that live at once, as activations do until they are read."""
    ys = [x * float(number) for number in range(6)]
    with tf.control_dependencies(ys):
        return tf.add_n([tf.reduce_sum(y) for y in ys])


def main(output: str) -> None:
    """Writes the mean page faults of a step, once its memory has been taken."""
    x = tf.random.stateless_normal([4096, 1024], [1, 2])
    for _ in range(_WARM_STEPS):
        step(x)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(_STEPS):
        step(x)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    Path(output).write_text(str((after - before) / _STEPS))


if __name__ == "__main__":
    main(sys.argv[1])
