"""Ranks of which all but the first leave early: `python -m <this module> JOB_FILE PARENT_PID SERVICE ATTEMPT`."""

import os
import sys
import time
from pathlib import Path

from sangam.schemas.contracts.training_job import read_job
from sangam.schemas.host.parent_process import end_with_parent

if __name__ == "__main__":
    end_with_parent(int(sys.argv[2]))
    heartbeat = read_job(Path(sys.argv[1])).heartbeat_file(0)
    while os.environ["HOROVOD_RANK"] == "0":
        heartbeat.touch()
        time.sleep(0.05)
