"""Soaks every mode of training: `python -m tests.soak [--minutes 30] [--seed 1] [MODE ...]`, for `make soak`.

Each mode trains twice, left alone and with random kills; the AUCs must be within 0.005 of each other.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.soak.kills import Soaked, auc_of, soak
from tests.trainer_module.sample_job import write_examples, write_job
from tests.trainer_module.trained_examples import counting, report_of

MOST_DIFFERENCE = 0.005
_MODES: dict[str, dict[str, Any]] = {
    "sync": {},
    "stale": {"sync": {"kind": "stale", "staleness": 4}, "parameter_servers": 2},
    "shadow": {"sync": {"kind": "shadow"}, "parameter_servers": 2},
    "async": {"sync": {"kind": "async"}, "parameter_servers": 2},
}
_PAUSE_S = 5.0
_EXAMPLES = 20_000
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
        files = write_examples(root / "data", num_examples=_EXAMPLES)
        for mode in modes:
            alone, soaked, told = _both(root / mode, files, mode, minutes=minutes, seed=arguments.seed)
            difference = abs(alone - soaked)
            is_fine &= difference <= MOST_DIFFERENCE
            killed = ", ".join(f"{number} {role}" for role, number in sorted(told.kills.items()))
            print(
                f"| {mode} | {alone:.4f} | {soaked:.4f} | {difference:.4f} | {killed} | {told.launches} | "
                f"{told.seconds:.0f} |",
                flush=True,
            )
    return 0 if is_fine else 1


def _both(
    directory: Path, files: tuple[str, ...], mode: str, *, minutes: float, seed: int
) -> tuple[float, float, Soaked]:
    """Trains a mode left alone for a third of the time, then again with kills; returns both AUCs."""
    changes = {
        "epochs": 4,
        "data_workers": 2,
        "retries": 10,
        "batch_size_per_rank": 64,
        "checkpoint": {"every_steps": _EVERY_STEPS, "keep": 2},
        **_MODES[mode],
    }
    first = write_job(directory / "first", counting(**changes), files)
    soak(first, seed=seed, kills=0, mean_pause_s=_PAUSE_S)
    seconds = report_of(directory / "first")["epochs"][-1]["seconds"]
    changes["epochs"] = max(4, int(20.0 * minutes / max(seconds, 0.1)))
    alone = write_job(directory / "alone", counting(**changes), files)
    soak(alone, seed=seed, kills=0, mean_pause_s=_PAUSE_S)
    disturbed = write_job(directory / "disturbed", counting(**changes), files)
    kills = max(3, int(60.0 * minutes / (4 * _PAUSE_S)))
    told = soak(disturbed, seed=seed, kills=kills, mean_pause_s=_PAUSE_S)
    return auc_of(directory / "alone"), auc_of(directory / "disturbed"), told


if __name__ == "__main__":
    sys.exit(main())
