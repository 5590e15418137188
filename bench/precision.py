"""AUC with the dense part in bfloat16 and in float32: `python -m bench.precision SEED BATCHES OUTPUT`.

Trains the same model from the same start on the same batches in both precisions, one pass, and scores examples that
neither has seen.
"""

import json
import sys
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score

from bench.ours import batches_of, train
from bench.scale import on_one_core
from bench.workload import BATCH_SIZE_PER_RANK, pool, ranker
from sangam.trainer_module.input.batch import Batch
from sangam.trainer_module.loop.in_step import InStepTrainer
from sangam.trainer_module.ranker import Ranker

_HELD_OUT_BATCHES = 16
# Few enough that most held-out ids were met in training: otherwise scores hardly depend on what was learned.
_NUM_IDS = 100_000


def main(seed: str, num_batches: str, output: str) -> None:
    """Writes the mean AUC over the tasks by precision."""
    on_one_core()
    size = BATCH_SIZE_PER_RANK
    examples = batches_of(pool(int(num_batches) * size, num_ids=_NUM_IDS, seed=100 + int(seed)), size)
    held_out = batches_of(pool(_HELD_OUT_BATCHES * size, num_ids=_NUM_IDS, seed=200 + int(seed)), size)
    found = {precision: _auc(int(seed), precision, examples, held_out) for precision in ("float32", "bfloat16")}
    Path(output).write_text(json.dumps(found))


def _auc(seed: int, precision: str, examples: list[Batch], held_out: list[Batch]) -> dict[str, float]:
    trainer = InStepTrainer(Ranker(ranker(dense_precision=precision, seed=seed)), rank=0, ranks=1)
    train(trainer, examples)
    scores = [trainer.predict(batch) for batch in held_out]
    return {
        task: float(
            roc_auc_score(
                np.concatenate([batch["labels"].numpy()[:, place] for batch in held_out]),
                np.concatenate([score[task][:, 0] for score in scores]),
            )
        )
        for place, task in enumerate(trainer.ranker.tasks)
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
