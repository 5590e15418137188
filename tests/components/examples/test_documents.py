"""What is told of a file of an Examples artifact that is not there, or of another version."""

from pathlib import Path

import pytest

from sangam.schemas.errors import UserError
from tests.errors import place_and_value

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", ["examples.json", "ingestion.json"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    from sangam.components.examples.listing import read_listing
    from sangam.components.reports.artifact_files import read_ingestion

    def read() -> None:
        (read_listing if name == "examples.json" else read_ingestion)(str(tmp_path))

    with pytest.raises(UserError, match=place_and_value(f"{tmp_path}/{name}", "no such file")):
        read()
    (tmp_path / name).write_text('{"format": 0}')
    with pytest.raises(UserError, match=place_and_value(f"{tmp_path}/{name}", "version (got: ")):
        read()
