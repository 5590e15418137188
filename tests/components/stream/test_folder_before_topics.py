"""Topics that replace a folder: its actions are left, as their rows are examples; rows and versions are not."""

import contextlib
from pathlib import Path

import pytest

from sangam.schemas.contracts.joining_job import Kafka
from sangam.schemas.errors import UserError
from tests.components.stream.sample_stream import job_of
from tests.errors import place_and_value

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("source", ["", "items"])
def test_what_the_folder_alone_has_is_still_needed(tmp_path: Path, source: str) -> None:
    from sangam.components.stream.state import ReadFile
    from sangam.components.stream.taking import Files
    from sangam.components.stream.topics import Topics

    def record(of: str, number: int) -> ReadFile:
        file = ReadFile(number=number, source=of, name=f"{of}.parquet", day="2024-02-29", watermark=0, arrived=0)
        return file.model_copy(update={"facts": (1, 1, number)})

    kafka = Kafka(servers="127.0.0.1:9", group="tests", topics={"": "shown", "likes": "likes", "items": "items"})
    job = job_of(tmp_path).model_copy(update={"kafka": kafka})
    with contextlib.closing(Topics(job)) as topics:
        files = Files(job, topics)
        files.restore((record("likes", 1),), [], 0)
        assert (files.num_waiting, [file.name for file in files.take_over()]) == (0, ["likes.parquet"])
        with pytest.raises(UserError, match=place_and_value("--source", f"(got {source}.parquet)")):
            files.restore((record(source, 2),), [], 0)
