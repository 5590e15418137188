"""The training job's file: read as it was written, and refused in another format."""

import json
from pathlib import Path

import pytest

from sangam.schemas.contracts.training_job import find_job, read_job, write_job
from sangam.schemas.errors import UserError
from sangam.schemas.spec.cluster import InputService
from tests.errors import place_and_value
from tests.schemas.sample_jobs import sample_job


def test_a_job_is_read_as_it_was_written(tmp_path: Path) -> None:
    job = sample_job(tmp_path, days=("2024-03-01",))
    write_job(tmp_path / "job.json", job)
    assert read_job(tmp_path / "job.json") == job


@pytest.mark.parametrize(("written", "got"), [(None, "none"), (0, "0"), (2, "2"), ("1", "'1'"), (True, "True")])
def test_a_job_of_another_format_is_refused(tmp_path: Path, written: object, got: str) -> None:
    file = tmp_path / "job.json"
    write_job(file, sample_job(tmp_path))
    document = json.loads(file.read_text()) | {"format": written}
    if written is None:
        del document["format"]
    file.write_text(json.dumps(document))
    with pytest.raises(UserError, match=place_and_value(str(file), f"(got {got})")):
        find_job(file)


def test_a_job_resumes_at_another_input_service_and_not_with_its_files_cut_otherwise(tmp_path: Path) -> None:
    def digest(**changes: object) -> str:
        job = sample_job(tmp_path).model_copy(update={"train_files": (), "validation_files": ()})
        cluster = job.ranker.cluster.model_copy(update=changes)
        return job.model_copy(update={"ranker": job.ranker.model_copy(update={"cluster": cluster})}).digest

    assert digest(input_service=InputService(address="pool:5050")) == digest()
    assert digest(data_workers=7) != digest()
