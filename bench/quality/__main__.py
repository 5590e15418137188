"""Trains the models of docs/quality.md and writes its tables: `make bench-quality`."""

import argparse
import hashlib
import json
from pathlib import Path

import tensorflow as tf

from bench.quality import report
from bench.quality.examples import examples
from bench.quality.experiments import TABLES, WORK, Table
from bench.quality.results import Result, read
from bench.quality.training import trained
from bench.results import add_line, commit
from sangam.schemas.spec import Spec, digest

RESULTS = WORK / "results.jsonl"
DOCUMENT = Path("docs") / "quality.md"


def main() -> None:
    """Measures the missing results."""
    names = [table.name for table in TABLES]
    parser = argparse.ArgumentParser(prog="python -m bench.quality", description=__doc__)
    parser.add_argument("tables", nargs="*", choices=[[], *names], help=f"of {', '.join(names)}; all when left out")
    parser.add_argument("--seeds", type=int, default=0, help="as many instead of each table's own number")
    parser.add_argument("--report-only", action="store_true", help="write the document from what was measured before")
    options = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(2)
    if not options.report_only:
        for table in TABLES:
            if table.name in (options.tables or names):
                _measure(table, options.seeds or table.seeds)
    report.write(DOCUMENT, TABLES, read(RESULTS))


def _measure(table: Table, num_seeds: int) -> None:
    if not table.data.exists() and WORK not in table.data.parents:
        print(f"{table.name}: skipped, its data is not there ({table.data.name})")
        return
    known = {(found.table, found.row, found.seed): found.digest for found in read(RESULTS)}
    for row, spec in table.specs().items():
        for seed in range(1, num_seeds + 1):
            wanted = _digest(spec, table)
            if known.get((table.name, row, seed)) != wanted:
                splits = examples(spec, table.date, table.data, WORK / "examples")
                found = trained(spec.ranker(), splits["train"], splits["eval"], seed=seed)
                result = Result(table.name, row, seed, wanted, commit(), found.aucs, round(found.epoch_cpu_s, 2))
                add_line(RESULTS, result._asdict())
                print(f"{table.name}, {row}, seed {seed}: {result.aucs}", flush=True)


def _digest(spec: Spec, table: Table) -> str:
    meaning = {"ranker": digest(spec.ranker()), "data": spec.data.model_dump(mode="json"), "date": table.date}
    return hashlib.sha256(json.dumps(meaning, sort_keys=True).encode()).hexdigest()


if __name__ == "__main__":
    main()
