"""`sangam schedule run` whose run only takes the root's lock: `python -m <this module> SPEC DATA ROOT NOW`.

As `<this module> run SPEC --data DATA --root ROOT --date DATE` it is that run: it does what `tell` in the root says.
"""

import datetime
import functools
import os
import signal
import sys
import time
from pathlib import Path

from rich.console import Console

from sangam.components.record.lock import locked
from sangam.pipelines.local.child_run import run_child
from sangam.pipelines.schedule.daily import due, run_daily
from sangam.schemas.contracts.exit_codes import ExitCode
from sangam.schemas.errors import UserError
from sangam.schemas.loading import load_spec


def pretend(root: Path) -> int:
    """Holds the lock until a file is there if it is told to, leaves a summary, and ends as the file says."""
    how, code, go = (root / "tell").read_text().splitlines()
    try:
        with locked(root):
            print(f"pretends on {root}", flush=True)
            while go and not Path(go).exists():
                time.sleep(0.05)
            if how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if how == "summary":
                run = root / "runs" / str(os.getpid())
                run.mkdir(parents=True)
                (run / "summary.json").write_text("{}")
            return int(code)
    except UserError as error:
        print(error, flush=True)
        return ExitCode.ROOT_IN_USE


if __name__ == "__main__":
    if sys.argv[1] == "run":
        sys.exit(pretend(Path(sys.argv[sys.argv.index("--root") + 1])))
    spec, data, root, text = sys.argv[1:]
    now = datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.UTC)
    daily = due(Path(spec), load_spec(Path(spec)), Path(data), Path(root), now)
    child = functools.partial(run_child, module="tests.pipelines.schedule.fake_daily")
    sys.exit(run_daily(daily, now, Console(stderr=True, width=200), child))
