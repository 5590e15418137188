"""Makes an empty model: `python -m tests.trainer_module.launch.fake_export JOB_FILE PARENT_PID`."""

import sys
from pathlib import Path

from sangam.schemas.contracts.training_job import read_job

if __name__ == "__main__":
    job = read_job(Path(sys.argv[1]))
    Path(job.model_dir).mkdir(parents=True, exist_ok=True)
    job.export_file.write_text("{}")
