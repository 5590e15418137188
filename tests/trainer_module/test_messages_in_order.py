"""Messages arrive whatever their size, waits are counted, a lost rank is noticed, through memory and over TCP."""

import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from tests.trainer_module.rank_processes import run_on_ranks

pytestmark = pytest.mark.processes

SIZES = (3, 0, 5000, 1, 200_000, 7)
"""Of messages, one after another: room grows, and what is there from before is not read."""


def exchange(rank: int, ranks: int, directory: Path) -> None:
    """Runs on every rank: messages of all sizes in eager calls and in a graph; then the last rank is killed."""
    import tensorflow as tf

    from sangam.trainer_module import collectives

    together = directory / "ranks"
    together.mkdir(exist_ok=True)
    join = {"memory": collectives.share_memory, "tcp": collectives.connect}[directory.name]
    join(together)
    (directory / f"pid-{rank}").write_text(str(os.getpid()))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64), tf.TensorSpec([ranks], tf.int32)])
    def in_graph(message: tf.Tensor, splits: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        sent = collectives.send(message, splits, name="train_keys")
        summed = collectives.send_sum(tf.cast(message, tf.float32), name="dense")
        # Received in another order than sent, and later than the next message.
        total = summed()
        return (*sent(), total)

    for size in SIZES:
        parts = [np.full(size + to, 10 * rank + to, np.int64) for to in range(ranks)]
        expected = np.concatenate([np.full(size + rank, 10 * other + rank) for other in range(ranks)])
        received, counts, total = in_graph(np.concatenate(parts), [len(part) for part in parts])
        np.testing.assert_array_equal(received, expected)
        assert counts.numpy().tolist() == [size + rank] * ranks
        sums = np.concatenate(
            [np.full(size + to, sum(10 * other + to for other in range(ranks))) for to in range(ranks)]
        )
        np.testing.assert_array_equal(total, sums)
        for dtype in (tf.float32, tf.float64, tf.int32, tf.int64, tf.uint8):
            own = tf.cast(tf.fill([2, 3], rank + 1), dtype)
            np.testing.assert_array_equal(collectives.allreduce_sum(own, name="any"), np.full([2, 3], 6))
            np.testing.assert_array_equal(collectives.allreduce_max(own, name="any"), np.full([2, 3], 3))
    (directory / f"comes-{rank}").touch()
    while rank == 1 and len(list(directory.glob("comes-*"))) < ranks:
        time.sleep(0.01)
    before = collectives.waited_s()
    time.sleep(1.5 if rank == 1 else 0.0)
    collectives.barrier(name="late")
    waited_s = collectives.waited_s() - before
    assert waited_s < 0.7 if rank == 1 else waited_s > 0.7
    assert collectives.texts(f"rank {rank}", name="said") == ["rank 0", "rank 1", "rank 2"]
    if rank == ranks - 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    try:
        collectives.barrier(name="last")
    except tf.errors.UnavailableError as error:
        assert "rank 2 has left the job" in str(error)
        (directory / f"noticed-{rank}").touch()


@pytest.mark.parametrize("transport", ["memory", "tcp"])
def test_messages_arrive_and_a_killed_rank_is_noticed(tmp_path: Path, transport: str) -> None:
    import threading

    folder = tmp_path / transport

    def kill_last() -> None:
        while not all((folder / f"pid-{rank}").exists() for rank in range(3)):
            time.sleep(0.05)
        pid = int((folder / "pid-2").read_text())
        while Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0] != "T":
            time.sleep(0.05)
        time.sleep(0.5)  # The others wait for it by now; it must not make a difference if they do not.
        os.kill(pid, signal.SIGKILL)

    killer = threading.Thread(target=kill_last)
    killer.start()
    with pytest.raises(AssertionError):
        run_on_ranks(exchange, 3, folder)
    killer.join()
    assert (folder / "noticed-0").exists(), (folder / "process-0.log").read_text()[-2000:]
    assert (folder / "noticed-1").exists(), (folder / "process-1.log").read_text()[-2000:]
