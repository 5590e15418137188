"""`sangam backfill` without training: `python -m <this module> SPEC FROM TO DATA ROOT`."""

import functools
import sys
from pathlib import Path

from rich.console import Console

from sangam.pipelines.backfill.local import check_backfill, run_backfill
from sangam.pipelines.local.child_run import run_child

if __name__ == "__main__":
    spec, first, last, data, root = sys.argv[1:]
    checked = check_backfill(Path(spec), first, last, Path(data), Path(root))
    pretend = functools.partial(run_child, module="tests.pipelines.backfill.fake_run")
    sys.exit(run_backfill(checked, Console(highlight=False, width=200), pretend))
