"""Soaks every mode and transport: `python -m tests.soak [--minutes 30] [--seed 1] [MODE ...]`, for `make soak`.

Each mode trains twice, left alone and with random kills; the AUCs must be within 0.005 of each other. They are of
examples that were not trained on: on its own training examples a model that trains for long differs by more from one
run to the next, as it learns them by heart, each time in another order.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

from sangam.schemas.host.files import write_whole
from tests.soak.kills import Soaked, auc_of, soak
from tests.trainer_module.sample_job import job, write_examples
from tests.trainer_module.trained_examples import counting, report_of

MOST_DIFFERENCE = 0.005
_MODES: dict[str, dict[str, Any]] = {
    "sync": {},
    "tcp": {"sync": {"kind": "sync", "transport": "tcp"}},
    "horovod": {"sync": {"kind": "sync", "transport": "horovod"}},
    "stale": {"sync": {"kind": "stale", "staleness": 4}, "parameter_servers": 2},
    "shadow": {"sync": {"kind": "shadow"}, "parameter_servers": 2},
    "async": {"sync": {"kind": "async"}, "parameter_servers": 2},
}
_PAUSE_S = 5.0
_EPOCHS = 4
_VALIDATION_SHARE = 10
"""One example in so many is not trained on."""
_FIRST_EXAMPLES = 20_000
"""Of the training by which the others are sized."""
_EVERY_STEPS = 200


def main() -> int:
    """Soaks, prints a table, and returns 1 where a mode differs."""
    parser = argparse.ArgumentParser(prog="tests.soak")
    parser.add_argument("modes", nargs="*", help="left out: all")
    parser.add_argument("--minutes", type=float, default=30.0, help="of all modes together, about")
    parser.add_argument("--seed", type=int, default=1, help="of the kills")
    arguments = parser.parse_args()
    modes = arguments.modes or list(_MODES)
    if unknown := set(modes) - set(_MODES):
        parser.error(f"no such mode (got {', '.join(sorted(unknown))}); use {', '.join(_MODES)}")
    minutes = arguments.minutes / len(modes)
    is_fine = True
    print("| mode | AUC left alone | AUC with kills | difference | killed | starts | seconds |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        root = Path(folder)
        for mode in modes:
            alone, soaked, told = _both(root / mode, mode, minutes=minutes, seed=arguments.seed)
            difference = abs(alone - soaked)
            is_fine &= difference <= MOST_DIFFERENCE
            killed = ", ".join(f"{number} {role}" for role, number in sorted(told.kills.items()))
            print(
                f"| {mode} | {alone:.4f} | {soaked:.4f} | {difference:.4f} | {killed} | {told.launches} | "
                f"{told.seconds:.0f} |",
                flush=True,
            )
    return 0 if is_fine else 1


def _both(directory: Path, mode: str, *, minutes: float, seed: int) -> tuple[float, float, Soaked]:
    """Trains a mode left alone for a third of the time, then again with kills; returns both AUCs."""
    first = _job(directory / "first", mode, num_examples=_FIRST_EXAMPLES)
    soak(first, seed=seed, kills=0, mean_pause_s=_PAUSE_S)
    seconds = sum(epoch["seconds"] for epoch in report_of(directory / "first")["epochs"])
    num_examples = max(_FIRST_EXAMPLES, int(_FIRST_EXAMPLES * 20.0 * minutes / max(seconds, 0.1)))
    alone = _job(directory / "alone", mode, num_examples=num_examples)
    soak(alone, seed=seed, kills=0, mean_pause_s=_PAUSE_S)
    disturbed = _job(directory / "disturbed", mode, num_examples=num_examples)
    kills = max(3, int(60.0 * minutes / (4 * _PAUSE_S)))
    told = soak(disturbed, seed=seed, kills=kills, mean_pause_s=_PAUSE_S)
    return auc_of(directory / "alone"), auc_of(directory / "disturbed"), told


def _job(directory: Path, mode: str, *, num_examples: int) -> Path:
    """Writes the job file of a training, with its examples; returns it."""
    files = write_examples(directory / "data", num_files=_VALIDATION_SHARE, num_examples=num_examples)
    ranker = counting(
        **{
            "epochs": _EPOCHS,
            "data_workers": 2,
            "retries": 10,
            "batch_size_per_rank": 64,
            "checkpoint": {"every_steps": _EVERY_STEPS, "keep": 2},
            **_MODES[mode],
        }
    )
    made = job(directory, ranker, files[1:]).model_copy(update={"validation_files": files[:1], "model_dir": ""})
    for folder in (made.log_dir, made.output_dir, made.checkpoint_dir):
        Path(folder).mkdir(parents=True)
    write_whole(directory / "job.json", made.model_dump_json())
    return directory / "job.json"


if __name__ == "__main__":
    sys.exit(main())
